//! The texts, compared with what libfabric 2.7 prints for the same values.
//!
//! The files in `expected` are its output on x86-64 Linux.

mod structures;

use super::*;
use core::ffi::CStr;
use core::mem;

/// Spells `data` in a buffer of `room` bytes, which are followed by bytes that must not change.
fn spell_in<T>(room: usize, data: &T, datatype: fi_type) -> String {
    const GUARD: u8 = 0xa5;
    let mut buf = vec![GUARD; room + 64];
    // SAFETY: the buffer is longer than said, and callers pass data of the right type.
    let text = unsafe {
        fi_tostr_r(
            buf.as_mut_ptr().cast(),
            room,
            (&raw const *data).cast(),
            datatype,
        )
    };
    assert_eq!(text.cast(), buf.as_mut_ptr());
    assert!(buf[room..].iter().all(|byte| *byte == GUARD));
    let text = CStr::from_bytes_until_nul(&buf[..room]).expect("the text ends within its room");
    text.to_str().expect("the test uses ASCII").to_owned()
}

fn spell<T>(data: &T, datatype: fi_type) -> String {
    spell_in(8192, data, datatype)
}

fn rows(table: &str) -> impl Iterator<Item = [&str; 3]> {
    table.lines().skip(1).map(|row| {
        let mut columns = row.splitn(3, '\t');
        [(); 3].map(|()| columns.next().expect("three columns"))
    })
}

fn number<T: std::str::FromStr>(text: &str) -> T {
    text.parse()
        .unwrap_or_else(|_| panic!("{text} is not a number"))
}

#[test]
fn flags_and_values_have_their_names() {
    for [datatype, value, text] in rows(include_str!("expected/scalars.tsv")) {
        let value = u64::from_str_radix(value, 16).expect("a hexadecimal number");
        let spelled = spell(&value, number(datatype));
        assert_eq!(spelled, text, "type {datatype}, value {value:#x}");
    }
}

#[test]
fn addresses_have_their_texts() {
    for [format, bytes, text] in rows(include_str!("expected/addresses.tsv")) {
        let mut addr: Vec<u8> = bytes
            .as_bytes()
            .chunks(2)
            .map(|pair| u8::from_str_radix(str::from_utf8(pair).expect("ASCII"), 16).expect("hex"))
            .collect();
        let info = fi_info {
            addr_format: number(format),
            src_addr: addr.as_mut_ptr().cast(),
            ..fi_info::ZERO
        };
        let spelled = spell(&info, FI_TYPE_INFO);
        assert!(
            spelled.contains(&format!("\n    src_addr: {text}\n    dest_addr")),
            "{text}: {spelled}"
        );
    }
}

#[test]
fn text_is_cut_off_where_c_cuts_it() {
    let mut addr = structures::inet_addr();
    let info = fi_info {
        caps: FI_MSG | FI_RMA | FI_TAGGED,
        addr_format: FI_SOCKADDR_IN,
        src_addr: (&raw mut addr).cast(),
        ..fi_info::ZERO
    };
    for [room, length, end] in rows(include_str!("expected/cut.tsv")) {
        let text = spell_in(number(room), &info, FI_TYPE_INFO);
        assert_eq!(text.len(), number::<usize>(length), "room {room}");
        assert!(
            text.ends_with(&end.replace("\\n", "\n")),
            "room {room}: {text}"
        );
    }
}

#[test]
fn an_object_spells_itself_in_what_is_left_of_the_buffer() {
    unsafe extern "C" fn greedy(_: *const fid, buf: *mut c_char, len: usize) -> i32 {
        // SAFETY: the buffer has room for `len` bytes.
        unsafe { buf.write_bytes(b'x' as c_char as u8, len) };
        0
    }
    let mut ops = fi_ops {
        tostr: Some(greedy),
        ..fi_ops::NONE
    };
    let object = fid {
        ops: &mut ops,
        ..fid::ZERO
    };
    assert_eq!(spell_in(10, &object, FI_TYPE_FID), "xxxxxxxxx");
    ops.size = mem::offset_of!(fi_ops, tostr);
    let object = fid {
        ops: &mut ops,
        ..fid::ZERO
    };
    assert_eq!(
        spell(&object, FI_TYPE_FID),
        format!("fid: {:p}\n", &raw const object)
    );
}

#[test]
fn nothing_is_spelled_without_data_or_room() {
    let caps = FI_MSG;
    let data = (&raw const caps).cast();
    let mut buf = [0; 8];
    // SAFETY: each call lacks something, and the others are valid.
    unsafe {
        assert!(fi_tostr(ptr::null(), FI_TYPE_CAPS).is_null());
        assert!(fi_tostr_r(ptr::null_mut(), 8, data, FI_TYPE_CAPS).is_null());
        assert!(fi_tostr_r(buf.as_mut_ptr(), 0, data, FI_TYPE_CAPS).is_null());
    }
}

#[test]
fn each_thread_has_its_own_text() {
    let spell_here = |caps: u64| {
        // SAFETY: capabilities are 64 bits, and the text is this thread's until its next call.
        let text = unsafe { CStr::from_ptr(fi_tostr((&raw const caps).cast(), FI_TYPE_CAPS)) };
        (text.as_ptr() as usize, text.to_owned())
    };
    let (here, text) = spell_here(FI_MSG);
    let (there, other) = std::thread::scope(|scope| {
        let thread = scope.spawn(|| spell_here(FI_RMA));
        thread.join().expect("the thread does not panic")
    });
    assert_eq!((text.as_c_str(), other.as_c_str()), (c"FI_MSG", c"FI_RMA"));
    assert_ne!(here, there);
}
