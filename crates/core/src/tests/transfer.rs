//! Messages through the tables: formats, errors, sources, flags.

use core::ffi::{CStr, c_void};
use core::ptr::null_mut;

use oxifabric_abi::*;
use oxifabric_types::{Caps, Flags};

use super::world::{End, World, bind, c, close, nothing};

const TAGGED: fi_cq_format = FI_CQ_FORMAT_TAGGED;

fn pair(world: &World) -> (End, End, fi_addr_t) {
    let (a, b) = (
        world.end(TAGGED, FI_WAIT_NONE),
        world.end(TAGGED, FI_WAIT_NONE),
    );
    let to_b = a.knows(&b);
    (a, b, to_b)
}

#[test]
fn a_message_arrives_with_its_source() {
    let world = World::new();
    let (a, b, to_b) = pair(&world);
    let mut into = [0u8; 8];
    b.recv(&mut into, 11);
    assert_eq!(a.send(to_b, b"hello", 22), 0);
    let (received, source) = b.next();
    assert_eq!(received.op_context.addr(), 11);
    assert_eq!(received.flags, FI_RECV | FI_MSG);
    assert_eq!((received.len, &into[..5]), (5, &b"hello"[..]));
    assert_eq!(source, FI_ADDR_NOTAVAIL, "b does not know a yet");
    let (sent, source) = a.next();
    assert_eq!((sent.op_context.addr(), sent.flags), (22, FI_SEND | FI_MSG));
    assert_eq!(source, FI_ADDR_NOTAVAIL);
}

#[test]
fn what_is_held_back_leaves_before_its_completion_is_read() {
    let world = World::new();
    let (a, b, to_b) = pair(&world);
    let mut into = [0u8; 8];
    b.recv(&mut into, 1);
    let bytes = *b"hello";
    let piece = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let msg = fi_msg {
        msg_iov: &piece,
        iov_count: 1,
        addr: to_b,
        ..fi_msg::ZERO
    };
    assert_eq!(c!(fi_sendmsg(a.ep, &msg, FI_MORE | FI_COMPLETION)), 0);
    assert!(b.read().is_err(), "more was to follow");
    a.read().expect("it is completed");
    b.read().expect("it has left before that");
    for end in [&a, &b] {
        assert!(end.read().is_err());
    }
}

#[test]
fn sources_follow_the_vector() {
    let world = World::new();
    let (a, b, to_b) = pair(&world);
    let mut into = [0u8; 8];
    let exchange = |into: &mut [u8]| {
        b.recv(into, 1);
        assert_eq!(a.send(to_b, b"x", 1), 0);
        a.next();
        b.next().1
    };
    assert_eq!(exchange(&mut into), FI_ADDR_NOTAVAIL);
    let mut name_of_a = b.knows(&a);
    assert_eq!(exchange(&mut into), name_of_a);
    assert_eq!(c!(fi_av_remove(b.av, &mut name_of_a, 1, 0)), 0);
    assert_eq!(exchange(&mut into), FI_ADDR_NOTAVAIL);
}

#[test]
fn tagged_messages_carry_tag_and_data() {
    let world = World::new();
    let (a, b, to_b) = pair(&world);
    let mut into = [0u8; 8];
    let posted = c!(fi_trecv(
        b.ep,
        into.as_mut_ptr().cast(),
        8,
        null_mut(),
        FI_ADDR_UNSPEC,
        0x10,
        0x0f,
        null_mut()
    ));
    assert_eq!(posted, 0);
    let sent = c!(fi_tsenddata(
        a.ep,
        b"abc".as_ptr().cast(),
        3,
        null_mut(),
        42,
        to_b,
        0x1a,
        null_mut()
    ));
    assert_eq!(sent, 0);
    let (received, _) = b.next();
    assert_eq!(received.flags, FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA);
    assert_eq!((received.tag, received.data, received.len), (0x1a, 42, 3));
}

/// As untagged ones, and those of shared contexts: programs that wait for empty messages post null, with a length.
#[test]
fn a_tagged_receive_without_memory_takes_messages_without_data() {
    let world = World::new();
    let (a, b, to_b) = pair(&world);
    let posted = c!(fi_trecv(
        b.ep,
        null_mut(),
        1024,
        null_mut(),
        FI_ADDR_UNSPEC,
        7,
        0,
        3 as *mut c_void
    ));
    assert_eq!(posted, 0);
    let sent = c!(fi_tsend(
        a.ep,
        nothing(),
        0,
        null_mut(),
        to_b,
        7,
        null_mut()
    ));
    assert_eq!(sent, 0);
    let (entry, _) = b.next();
    assert_eq!((entry.op_context.addr(), entry.len), (3, 0));
}

#[test]
fn every_format_gives_its_part_of_an_entry() {
    let world = World::new();
    let sizes = [
        (FI_CQ_FORMAT_UNSPEC, size_of::<fi_cq_entry>()),
        (FI_CQ_FORMAT_CONTEXT, size_of::<fi_cq_entry>()),
        (FI_CQ_FORMAT_MSG, size_of::<fi_cq_msg_entry>()),
        (FI_CQ_FORMAT_DATA, size_of::<fi_cq_data_entry>()),
        (FI_CQ_FORMAT_TAGGED, size_of::<fi_cq_tagged_entry>()),
    ];
    for (format, size) in sizes {
        let end = world.end(format, FI_WAIT_NONE);
        let myself = end.knows(&end);
        for context in 1..=2 {
            assert_eq!(end.send(myself, b"", context), 0);
        }
        let mut buf = [0xffu8; 256];
        assert_eq!(c!(fi_cq_read(end.cq, buf.as_mut_ptr().cast(), 5)), 2);
        let context = |at: usize| usize::from_ne_bytes(*buf[at * size..].first_chunk().unwrap());
        assert_eq!((context(0), context(1)), (1, 2), "format {format}");
        assert!(buf[2 * size..].iter().all(|&byte| byte == 0xff));
    }
}

#[test]
fn a_message_that_is_too_long_is_an_error_at_the_receiver() {
    let world = World::new();
    let (a, b, to_b) = pair(&world);
    let mut into = [0u8; 2];
    b.recv(&mut into, 7);
    assert_eq!(a.send(to_b, b"hello", 0), 0);
    let failed = loop {
        match b.read() {
            Err(failed) if failed == -(FI_EAGAIN as isize) => {}
            other => break other.map(|_| ()),
        }
    };
    assert_eq!(failed, Err(-(FI_EAVAIL as isize)));
    let error = b.error();
    assert_eq!((error.err, error.olen, error.len), (FI_ETRUNC, 3, 2));
    assert_eq!(error.op_context.addr(), 7);
    assert_eq!(b.read().map(|_| ()), Err(-(FI_EAGAIN as isize)));
    let mut none = fi_cq_err_entry::ZERO;
    assert_eq!(c!(fi_cq_readerr(b.cq, &mut none, 0)), -(FI_EAGAIN as isize));
}

#[test]
fn a_dead_peer_is_an_error_with_a_reason() {
    let world = World::new();
    let a = world.end(TAGGED, FI_WAIT_NONE);
    let mut to = 0;
    let name = c"mock://gone";
    let inserted = c!(fi_av_insert(
        a.av,
        name.as_ptr().cast(),
        1,
        &mut to,
        0,
        null_mut()
    ));
    assert_eq!(inserted, 1);
    assert_eq!(a.send(to, b"x", 3), 0);
    assert_eq!(a.read().map(|_| ()), Err(-(FI_EAVAIL as isize)));
    let error = a.error();
    assert_eq!(
        (error.err, error.flags),
        (FI_ECONNREFUSED, FI_SEND | FI_MSG)
    );
    let text = c!(fi_cq_strerror(
        a.cq,
        error.prov_errno,
        error.err_data,
        null_mut(),
        0
    ));
    let text = c!(CStr::from_ptr(text)).to_str().unwrap();
    assert_eq!(text, "mock://gone: no such mailbox");
    assert_eq!(error.err_data_size, text.len() + 1);
    let mut short = [0u8; 5];
    c!(fi_cq_strerror(
        a.cq,
        FI_EAGAIN,
        nothing(),
        short.as_mut_ptr().cast(),
        short.len()
    ));
    assert_eq!(&short, b"Reso\0");
}

#[test]
fn error_entries_are_as_long_as_the_application_knows_them() {
    for (version, expected) in [((1, 4), 72), ((1, 10), 80), ((1, 20), 88)] {
        let world = World::with(FI_VERSION(version.0, version.1), |_| {});
        let a = world.end(TAGGED, FI_WAIT_NONE);
        let mut to = 0;
        let name = c"mock://gone".as_ptr().cast();
        c!(fi_av_insert(a.av, name, 1, &mut to, 0, null_mut()));
        assert_eq!(a.send(to, b"x", 3), 0);
        let mut raw = [0u8; 96];
        raw[64..].fill(0xee);
        if version != (1, 4) {
            raw[64..80].fill(0);
        }
        let ops = c!((*(*a.cq).ops).readerr).expect("every slot is filled");
        assert_eq!(c!(ops(a.cq, raw.as_mut_ptr().cast(), 0)), 1);
        let untouched = raw.iter().rev().take_while(|&&byte| byte == 0xee).count();
        assert_eq!(raw.len() - untouched, expected);
    }
}

#[test]
fn the_applications_buffer_takes_what_fits_of_the_reason() {
    let world = World::new();
    let a = world.end(TAGGED, FI_WAIT_NONE);
    let mut to = 0;
    let name = c"mock://gone".as_ptr().cast();
    c!(fi_av_insert(a.av, name, 1, &mut to, 0, null_mut()));
    assert_eq!(a.send(to, b"x", 3), 0);
    let mut data = [0u8; 4];
    let mut error = fi_cq_err_entry {
        err_data: data.as_mut_ptr().cast(),
        err_data_size: data.len(),
        ..fi_cq_err_entry::ZERO
    };
    assert_eq!(c!(fi_cq_readerr(a.cq, &mut error, 0)), 1);
    assert_eq!(error.err_data, data.as_mut_ptr().cast::<c_void>());
    assert_eq!((error.err_data_size, &data), (4, b"mock"));
}

#[test]
fn bad_arguments_are_errors() {
    let world = World::new();
    let (a, _b, to_b) = pair(&world);
    let invalid = -(FI_EINVAL as isize);
    assert_eq!(a.send(to_b + 1, b"x", 0), invalid);
    assert_eq!(a.send(FI_ADDR_UNSPEC, b"x", 0), invalid);
    assert_eq!(a.send(1 << 60, b"x", 0), invalid);
    let send = |buf: *const c_void, len| c!(fi_send(a.ep, buf, len, null_mut(), to_b, null_mut()));
    assert_eq!(send(nothing(), 1), invalid);
    assert_eq!(send(nothing(), 0), 0);
    let some = b"x".as_ptr().cast();
    assert_eq!(send(some, usize::MAX), invalid);
    assert_eq!(send(some, (1 << 20) + 1), -(FI_EMSGSIZE as isize));
    let long = [0u8; 65];
    assert_eq!(
        c!(fi_inject(a.ep, long.as_ptr().cast(), 65, to_b)),
        -(FI_EMSGSIZE as isize)
    );
    assert_eq!(c!(fi_sendmsg(a.ep, nothing().cast(), 0)), invalid);
    assert_eq!(
        c!(fi_sendv(
            a.ep,
            nothing().cast(),
            null_mut(),
            5,
            to_b,
            null_mut()
        )),
        invalid
    );
    assert_eq!(c!(fi_cq_read(a.cq, null_mut(), 1)), invalid);
}

#[test]
fn injected_messages_leave_no_entry() {
    let world = World::new();
    let (a, b, to_b) = pair(&world);
    let mut into = [0u8; 8];
    b.recv(&mut into, 1);
    assert_eq!(
        c!(fi_injectdata(a.ep, b"hi".as_ptr().cast(), 2, 9, to_b)),
        0
    );
    assert_eq!(b.next().0.data, 9);
    assert_eq!(a.read().map(|_| ()), Err(-(FI_EAGAIN as isize)));
}

#[test]
fn scattered_buffers_are_gathered_and_filled() {
    let world = World::new();
    let (a, b, to_b) = pair(&world);
    let (mut first, mut second) = ([0u8; 2], [0u8; 6]);
    let piece = |bytes: &mut [u8]| libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    let into = [piece(&mut first), piece(&mut second)];
    let context = null_mut();
    let recv = c!(fi_recvv(
        b.ep,
        into.as_ptr(),
        null_mut(),
        2,
        FI_ADDR_UNSPEC,
        context
    ));
    assert_eq!(recv, 0);
    let (mut head, mut tail) = (*b"hea", *b"der");
    let from = [piece(&mut head), piece(&mut tail)];
    let msg = fi_msg {
        msg_iov: from.as_ptr(),
        iov_count: 2,
        addr: to_b,
        ..fi_msg::ZERO
    };
    assert_eq!(c!(fi_sendmsg(a.ep, &msg, 0)), 0);
    assert_eq!(b.next().0.len, 6);
    assert_eq!((&first, &second[..4]), (b"he", &b"ader"[..]));
}

#[test]
fn selective_completions_are_written_when_asked_for() {
    let world = World::new();
    let b = world.end(TAGGED, FI_WAIT_NONE);
    let a = End {
        ep: world.bare(),
        cq: world.cq(TAGGED, FI_WAIT_NONE),
        av: world.av(0),
    };
    let cntr = world.cntr(FI_WAIT_NONE);
    assert_eq!(
        bind(a.ep, a.cq, FI_SEND | FI_RECV | FI_SELECTIVE_COMPLETION),
        0
    );
    assert_eq!((bind(a.ep, a.av, 0), bind(a.ep, cntr, FI_SEND)), (0, 0));
    assert_eq!(c!(fi_enable(a.ep)), 0);
    let to_b = a.knows(&b);
    let msg = fi_msg {
        addr: to_b,
        context: 5 as *mut c_void,
        ..fi_msg::ZERO
    };
    assert_eq!(a.send(to_b, b"", 1), 0);
    assert_eq!(c!(fi_sendmsg(a.ep, &msg, 0)), 0);
    assert_eq!(c!(fi_sendmsg(a.ep, &msg, FI_COMPLETION)), 0);
    assert_eq!(a.next().0.op_context.addr(), 5);
    assert_eq!(a.read().map(|_| ()), Err(-(FI_EAGAIN as isize)));
    assert_eq!(c!(fi_cntr_read(cntr)), 3);
    drop(a);
    assert_eq!(close(cntr), 0);
}

#[test]
fn receives_can_be_cancelled() {
    let world = World::new();
    let (_, b, _) = pair(&world);
    let mut into = [0u8; 8];
    b.recv(&mut into, 9);
    assert_eq!(c!(fi_rx_size_left(b.ep)), 1023);
    assert_eq!(c!(fi_cancel(b.ep.cast(), 9 as *mut c_void)), 0);
    assert_eq!(b.read().map(|_| ()), Err(-(FI_EAVAIL as isize)));
    let error = b.error();
    assert_eq!((error.err, error.op_context.addr()), (FI_ECANCELED, 9));
    assert_eq!(
        c!(fi_cancel(b.ep.cast(), 9 as *mut c_void)),
        -(FI_ENOENT as isize)
    );
}

#[test]
fn directed_receives_wait_for_their_source() {
    let world = World::with(FI_VERSION(2, 6), |info| info.caps |= Caps::DIRECTED_RECV);
    let (a, b, to_b) = pair(&world);
    let other = world.end(TAGGED, FI_WAIT_NONE);
    let (from_a, to_b_from_other) = (b.knows(&a), other.knows(&b));
    let mut into = [0u8; 8];
    let post = |from| {
        let into = into.as_mut_ptr().cast();
        c!(fi_recv(b.ep, into, 8, null_mut(), from, null_mut()))
    };
    let mut post = post;
    assert_eq!(post(99), -(FI_EINVAL as isize));
    assert_eq!(post(from_a), 0);
    assert_eq!(other.send(to_b_from_other, b"no", 0), 0);
    assert_eq!(b.read().map(|_| ()), Err(-(FI_EAGAIN as isize)));
    assert_eq!(a.send(to_b, b"yes", 0), 0);
    let (received, source) = b.next();
    assert_eq!((received.len, source), (3, from_a));
}

#[test]
fn default_flags_apply_to_calls_without_flags() {
    let world = World::with(FI_VERSION(2, 6), |info| {
        info.tx.op_flags = Flags::DELIVERY_COMPLETE;
    });
    let (a, b, to_b) = pair(&world);
    assert_eq!(a.send(to_b, b"x", 1), 0);
    assert_eq!(a.read().map(|_| ()), Err(-(FI_EAGAIN as isize)));
    let mut into = [0u8; 1];
    b.recv(&mut into, 1);
    b.next();
    assert_eq!(a.next().0.op_context.addr(), 1);
}
