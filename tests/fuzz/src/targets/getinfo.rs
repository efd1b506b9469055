//! fi_getinfo(3) with any hints, from programs of any age: each entry keeps what was asked for, can be duplicated, and is
//! found again when it is asked for itself.

use core::ffi::{CStr, c_char};
use core::ptr;
use std::ffi::CString;

use arbitrary::Unstructured;
use oxifabric_abi::{
    FI_FORMAT_UNSPEC, FI_NUMERICHOST, FI_SOCKADDR, FI_SOCKADDR_IN, FI_SOCKADDR_IN6, FI_SOCKADDR_IP,
    FI_SOURCE, fi_info,
};
use oxifabric_core::info::widened;
use oxifabric_libfabric::builtin;

use crate::hints::{Hints, RELEASES, bytes_without_zero};

const NODES: [&CStr; 5] = [
    c"127.0.0.1",
    c"::1",
    c"fi_shm://5",
    c"0.0.0.0",
    c"256.1.1.1",
];

pub(super) fn run(bytes: &[u8]) {
    let _ = request(&mut Unstructured::new(bytes));
}

fn request(input: &mut Unstructured<'_>) -> arbitrary::Result<()> {
    let release = *input.choose(&RELEASES)?;
    // Names of hosts would be asked of the network.
    let mut flags = FI_NUMERICHOST;
    if input.arbitrary()? {
        flags |= FI_SOURCE;
    }
    let node = match input.int_in_range(0..=7)? {
        0 => Some(text(input)?),
        index @ 1..=5 => Some(NODES[index - 1].to_owned()),
        _ => None,
    };
    let service = match input.int_in_range(0..=3)? {
        0 => Some(text(input)?),
        1 => Some(c"7471".to_owned()),
        _ => None,
    };
    let without_hints = input.ratio(1, 16)?;
    let mut hints = Hints::read(input)?;
    let (node, service) = (as_c(&node), as_c(&service));
    let ask = |hints: *const fi_info| {
        let mut list = ptr::null_mut();
        // SAFETY: strings and hints are valid during the call.
        let result =
            unsafe { (builtin().getinfo)(release, node, service, flags, hints, &raw mut list) };
        assert_eq!(result == 0, !list.is_null(), "a list or an error: {result}");
        list
    };
    if without_hints {
        check(ask(ptr::null()), None);
        return Ok(());
    }
    hints.in_layout(release, |entry, abi| match abi {
        // SAFETY: the entry is of that layout.
        Some(abi) => unsafe { widened(entry, abi, |hints| check(ask(hints), hints.as_ref())) },
        None => {
            let hints: *const fi_info = entry.cast();
            // SAFETY: the entry is of the newest layout.
            check(ask(hints), unsafe { hints.as_ref() });
        }
    });
    Ok(())
}

fn text(input: &mut Unstructured<'_>) -> arbitrary::Result<CString> {
    let bytes = bytes_without_zero(input.arbitrary()?);
    Ok(CString::new(bytes).unwrap_or_default())
}

fn as_c(text: &Option<CString>) -> *const c_char {
    text.as_deref().map_or(ptr::null(), CStr::as_ptr)
}

/// Checks a list, and releases it.
fn check(list: *mut fi_info, hints: Option<&fi_info>) {
    let library = builtin();
    let mut next = list;
    // SAFETY: a list of the library; its attributes are all there.
    unsafe {
        while let Some(entry) = next.as_ref() {
            assert!(!entry.tx_attr.is_null() && !entry.rx_attr.is_null());
            assert!(!entry.ep_attr.is_null() && !entry.domain_attr.is_null());
            assert!(!entry.fabric_attr.is_null() && !(*entry.fabric_attr).prov_name.is_null());
            if let Some(hints) = hints {
                compare(entry, hints);
            }
            duplicate(entry);
            next = entry.next;
        }
        (library.freeinfo)(list);
    }
}

/// Checks that what was asked for is there.
///
/// # Safety
/// Both entries are valid; the first has all attributes.
unsafe fn compare(entry: &fi_info, hints: &fi_info) {
    assert_eq!(entry.caps & hints.caps, hints.caps, "capabilities");
    assert_eq!(entry.mode & !hints.mode, 0, "modes that were not offered");
    if hints.addr_format != FI_FORMAT_UNSPEC {
        assert!(is_format(entry.addr_format, hints.addr_format));
    }
    // SAFETY: the caller's contract.
    unsafe {
        if let Some(asked) = hints.ep_attr.as_ref() {
            let given = &*entry.ep_attr;
            assert!(asked.type_ == 0 || given.type_ == asked.type_);
            assert!(given.max_msg_size >= asked.max_msg_size);
            assert!(asked.protocol == 0 || given.protocol == asked.protocol);
        }
        if let Some(asked) = hints.tx_attr.as_ref() {
            let given = &*entry.tx_attr;
            assert!(given.inject_size >= asked.inject_size && given.size >= asked.size);
            assert!(given.iov_limit >= asked.iov_limit);
            assert!(given.rma_iov_limit >= asked.rma_iov_limit);
        }
        if let Some(asked) = hints.rx_attr.as_ref() {
            let given = &*entry.rx_attr;
            assert!(given.size >= asked.size && given.iov_limit >= asked.iov_limit);
        }
        if let Some(asked) = hints.domain_attr.as_ref() {
            let given = &*entry.domain_attr;
            assert!(given.cq_data_size >= asked.cq_data_size);
            assert!(asked.av_type == 0 || given.av_type == 0 || given.av_type == asked.av_type);
        }
    }
}

fn is_format(given: u32, asked: u32) -> bool {
    match asked {
        FI_SOCKADDR | FI_SOCKADDR_IP => matches!(
            given,
            FI_SOCKADDR | FI_SOCKADDR_IP | FI_SOCKADDR_IN | FI_SOCKADDR_IN6
        ),
        _ => given == asked,
    }
}

/// Checks that a duplicate has its own memory and the same contents.
///
/// # Safety
/// The entry is one of the library, with all attributes.
unsafe fn duplicate(entry: &fi_info) {
    let library = builtin();
    // SAFETY: the caller's contract; the duplicate is released once.
    unsafe {
        let copy = (library.dupinfo)(entry);
        let fresh = copy.as_ref().expect("there is memory");
        assert!(fresh.next.is_null());
        assert_eq!((fresh.caps, fresh.mode), (entry.caps, entry.mode));
        assert_eq!(fresh.src_addrlen, entry.src_addrlen);
        assert!(!ptr::eq(fresh.fabric_attr, entry.fabric_attr));
        let names = [fresh, entry].map(|info| CStr::from_ptr((*info.fabric_attr).prov_name));
        assert_eq!(names[0], names[1]);
        (library.freeinfo)(copy);
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let fill = |len: usize, step: usize| (0..len).map(|at| (at * step) as u8).collect();
    vec![
        vec![0; 64],
        vec![7; 96],
        fill(128, 1),
        fill(256, 3),
        fill(512, 29),
    ]
}
