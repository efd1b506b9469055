//! Completion queues.

use core::ffi::{CStr, c_int};
use core::ptr::{null, null_mut};

use oxifabric_abi::*;

use crate::traffic::PATIENCE;
use crate::world::{Two, World, bind, close};
use crate::{c, sentences};

sentences! { "fi_cq(3)";

/// Reading a queue without completions gives -FI_EAGAIN.
fn an_empty_queue_says_again(stage) {
    let world = World::new(stage);
    let cq = world.cq(|_| {});
    let mut entry = fi_cq_tagged_entry::ZERO;
    assert_eq!(c!(fi_cq_read(cq, (&raw mut entry).cast(), 1)), -(FI_EAGAIN as isize));
    assert_eq!(close(cq), 0);
}

/// Reading an error where there is none gives -FI_EAGAIN.
fn a_queue_without_errors_says_again(stage) {
    let world = World::new(stage);
    let cq = world.cq(|_| {});
    let mut error = fi_cq_err_entry::ZERO;
    assert_eq!(c!(fi_cq_readerr(cq, &mut error, 0)), -(FI_EAGAIN as isize));
    assert_eq!(close(cq), 0);
}

/// A blocking read of an empty queue gives -FI_EAGAIN when its time is over.
fn a_blocking_read_ends_with_its_time(stage) {
    let world = World::new(stage);
    let cq = world.cq(|_| {});
    let mut entry = fi_cq_tagged_entry::ZERO;
    let read = c!(fi_cq_sread(cq, (&raw mut entry).cast(), 1, null(), 1));
    assert_eq!(read, -(FI_EAGAIN as isize));
    assert_eq!(close(cq), 0);
}

/// A blocking read of a queue that was opened without a wait object is refused.
fn a_queue_without_a_wait_object_does_not_block(stage) {
    let world = World::new(stage);
    let cq = world.cq(|attr| attr.wait_obj = FI_WAIT_NONE);
    let mut entry = fi_cq_tagged_entry::ZERO;
    let read = c!(fi_cq_sread(cq, (&raw mut entry).cast(), 1, null(), 1));
    assert!(read < 0 && read != -(FI_EAGAIN as isize), "{read}");
    assert_eq!(close(cq), 0);
}

/// A signal makes a blocking read return.
fn a_signal_ends_a_blocking_read(stage) {
    let world = World::new(stage);
    let cq = world.cq(|_| {});
    assert_eq!(c!(fi_cq_signal(cq)), 0);
    let mut entry = fi_cq_tagged_entry::ZERO;
    let read = c!(fi_cq_sread(cq, (&raw mut entry).cast(), 1, null(), -1));
    assert!(read == -(FI_EAGAIN as isize) || read == -(FI_ECANCELED as isize), "{read}");
    assert_eq!(close(cq), 0);
}

/// The completion of a send has its context and says what it was.
fn a_send_completes_with_its_context(stage) {
    let world = World::new(stage);
    let two = world.two();
    let _posted = two.b.recv(8);
    let context = two.send(b"12345678");
    let done = two.done(&two.a);
    assert_eq!(done.op_context, context);
    assert_eq!(done.flags & (FI_SEND | FI_MSG | FI_RECV), FI_SEND | FI_MSG);
}

/// The completion of a receive has its context, the length of the message, and says what it was.
fn a_receive_completes_with_its_length(stage) {
    let world = World::new(stage);
    let two = world.two();
    let posted = two.b.recv(64);
    two.send(b"12345");
    let done = two.done(&two.b);
    assert_eq!((done.op_context, done.len), (posted.context, 5));
    assert_eq!(done.flags & (FI_RECV | FI_MSG | FI_SEND), FI_RECV | FI_MSG);
}

/// The completion of a tagged receive has the tag of the message.
fn a_tagged_receive_completes_with_the_tag(stage) {
    let world = World::new(stage);
    let two = world.two();
    let _posted = two.b.trecv(64, 0x1200, 0xff);
    two.tsend(b"12345", 0x1234);
    let done = two.done(&two.b);
    assert_eq!((done.tag, done.flags & FI_TAGGED), (0x1234, FI_TAGGED));
}

/// Remote completion data arrives with FI_REMOTE_CQ_DATA.
fn remote_data_is_told(stage) {
    let world = World::new(stage);
    let two = world.two();
    let _posted = two.b.recv(64);
    let place = two.a.traffic.buffer(b"x");
    let context = two.a.traffic.context();
    let data = 0x1122_3344;
    two.start(|| c!(fi_senddata(two.a.ep, place.cast(), 1, null_mut(), data, two.to_b, context)));
    let done = two.done(&two.b);
    assert_eq!((done.data, done.flags & FI_REMOTE_CQ_DATA), (data, FI_REMOTE_CQ_DATA));
}

/// Without remote completion data there is no FI_REMOTE_CQ_DATA.
fn no_remote_data_is_told(stage) {
    let world = World::new(stage);
    let two = world.two();
    let _posted = two.b.recv(64);
    two.send(b"x");
    assert_eq!(two.done(&two.b).flags & FI_REMOTE_CQ_DATA, 0);
}

/// An error stops reads with -FI_EAVAIL until it was read.
fn an_error_stops_reads_until_it_was_read(stage) {
    let world = World::new(stage);
    let two = world.two();
    let posted = two.b.recv(2);
    two.send(b"12345");
    let error = two.failed(&two.b);
    assert_eq!((error.err, error.op_context), (FI_ETRUNC, posted.context));
    assert!(two.b.read().is_none());
}

/// A truncated message is told with the bytes that did not fit.
fn a_truncated_message_is_told_with_the_rest(stage) {
    let world = World::new(stage);
    let two = world.two();
    let posted = two.b.recv(2);
    two.send(b"12345");
    let error = two.failed(&two.b);
    assert_eq!(error.olen, 3);
    assert_eq!(posted.bytes(), b"12");
}

/// Error entries of old applications have no data of the provider: with a size of zero it keeps them.
fn provider_data_is_kept_from_who_wants_none(stage) {
    let world = World::new(stage);
    let two = world.two();
    let posted = two.b.recv(8);
    assert_eq!(c!(fi_cancel(two.b.ep.cast(), posted.context)), 0);
    let error = two.failed(&two.b);
    assert!(error.err_data_size == 0 || !error.err_data.is_null());
}

/// The provider can spell its own error numbers.
fn a_provider_error_is_spelled(stage) {
    let world = World::new(stage);
    let cq = world.cq(|_| {});
    let mut text = [b'#' as core::ffi::c_char; 64];
    let said = c!(fi_cq_strerror(cq, 0, null(), text.as_mut_ptr(), text.len()));
    assert!(!said.is_null());
    assert!(c!(CStr::from_ptr(said)).to_bytes().len() < 4096);
    assert_eq!(close(cq), 0);
}

/// With selective completions a send without FI_COMPLETION writes none.
fn selective_completions_are_asked_for(stage) {
    let world = World::new(stage);
    let a = world.end_with(FI_SEND | FI_RECV | FI_SELECTIVE_COMPLETION, |_| {});
    let two = Two::of(a, world.end());
    for _ in 0..2 {
        let _posted = two.b.recv(8);
    }
    two.send(b"silent");
    let (place, context) = (two.a.traffic.buffer(b"told"), two.a.traffic.context());
    let iov = libc::iovec { iov_base: place.cast(), iov_len: 4 };
    let msg = fi_msg {
        msg_iov: &iov,
        desc: null_mut(),
        iov_count: 1,
        addr: two.to_b,
        context,
        data: 0,
    };
    two.start(|| c!(fi_sendmsg(two.a.ep, &msg, FI_COMPLETION)));
    assert_eq!(two.done(&two.a).op_context, context);
    for _ in 0..2 {
        let _ = two.done(&two.b);
    }
    assert!(two.a.read().is_none());
}

/// A queue can be shared by endpoints and by both directions.
fn a_queue_is_shared(stage) {
    let world = World::new(stage);
    let two = world.two();
    let third = world.bare();
    let av = world.av();
    assert_eq!(bind(third, two.a.cq, FI_SEND | FI_RECV), 0);
    assert_eq!(bind(third, av, 0), 0);
    assert_eq!(c!(fi_enable(third)), 0);
    let _posted = two.b.recv(8);
    two.send(b"x");
    let _ = two.done(&two.a);
    assert_eq!((close(third), close(av)), (0, 0));
}

/// Completions are read several at a time, as many as there are.
fn several_completions_are_read_at_once(stage) {
    let world = World::new(stage);
    let two = world.two();
    for _ in 0..4 {
        let _posted = two.b.recv(8);
    }
    for _ in 0..4 {
        two.send(b"x");
    }
    let mut entries = [fi_cq_tagged_entry::ZERO; 8];
    let mut count = 0;
    let begun = std::time::Instant::now();
    while count < 4 && begun.elapsed() < crate::traffic::PATIENCE {
        match c!(fi_cq_read(two.b.cq, entries[count..].as_mut_ptr().cast(), 8 - count)) {
            read if read > 0 => count += read as usize,
            _ => two.progress(&two.a),
        }
    }
    assert_eq!(count, 4);
}

/// The wait object of a queue can be had, and is of the kind that was asked for.
fn the_wait_object_is_as_asked(stage) {
    let world = World::new(stage);
    let cq = world.cq(|attr| attr.wait_obj = FI_WAIT_FD);
    let mut fd: c_int = -1;
    assert_eq!(c!(fi_control(cq.cast(), FI_GETWAIT, (&raw mut fd).cast())), 0);
    assert!(fd >= 0);
    let mut kind: fi_wait_obj = 0;
    assert_eq!(c!(fi_control(cq.cast(), FI_GETWAITOBJ, (&raw mut kind).cast())), 0);
    assert_eq!(kind, FI_WAIT_FD);
    assert_eq!(close(cq), 0);
}

/// An unknown format of entries is refused.
fn an_unknown_format_is_refused(stage) {
    let world = World::new(stage);
    let mut attr = fi_cq_attr { format: 99, ..fi_cq_attr::ZERO };
    let mut cq = null_mut();
    assert!(c!(fi_cq_open(world.domain, &mut attr, &mut cq, null_mut())) < 0);
}

/// Entries are as long as their format says: a context, then flags and length, then buffer and data, then the tag.
fn formats_have_their_fields(stage) {
    let world = World::new(stage);
    for (format, size) in [
        (FI_CQ_FORMAT_CONTEXT, size_of::<fi_cq_entry>()),
        (FI_CQ_FORMAT_MSG, size_of::<fi_cq_msg_entry>()),
        (FI_CQ_FORMAT_DATA, size_of::<fi_cq_data_entry>()),
        (FI_CQ_FORMAT_TAGGED, size_of::<fi_cq_tagged_entry>()),
    ] {
        let cq = world.cq(|attr| attr.format = format);
        let (ep, av) = (world.bare(), world.av());
        assert_eq!((bind(ep, cq, FI_SEND | FI_RECV), bind(ep, av, 0), c!(fi_enable(ep))), (0, 0, 0));
        let traffic = crate::traffic::Traffic::default();
        let b = crate::world::End { ep, cq, av, eq: null_mut(), traffic };
        let two = Two::of(world.end(), b);
        let posted = two.b.recv(4);
        two.send(b"four");
        let (mut bytes, begun) = ([0xEE_u8; 64], std::time::Instant::now());
        while c!(fi_cq_read(cq, bytes.as_mut_ptr().cast(), 1)) != 1 {
            assert!(begun.elapsed() < PATIENCE);
            two.progress(&two.a);
        }
        assert_eq!(bytes[..8], posted.context.addr().to_ne_bytes());
        assert!(bytes[size..].iter().all(|&byte| byte == 0xEE), "longer than {size}");
        if size >= size_of::<fi_cq_msg_entry>() {
            assert_eq!(bytes[16..24], 4_usize.to_ne_bytes());
        }
    }
}

/// A blocking read returns with a completion that comes while it waits.
fn a_blocking_read_returns_a_completion(stage) {
    let world = World::with(stage, |hints| c!((*hints.domain_attr).threading = FI_THREAD_SAFE));
    let two = world.two();
    let posted = two.b.recv(1);
    two.send(b"x");
    let mut entry = fi_cq_tagged_entry::ZERO;
    let begun = std::time::Instant::now();
    loop {
        assert!(begun.elapsed() < PATIENCE);
        if c!(fi_cq_sread(two.b.cq, (&raw mut entry).cast(), 1, null(), 10)) == 1 {
            break;
        }
        two.progress(&two.a);
    }
    assert_eq!(entry.op_context, posted.context);
}

/// A read takes completions in the order in which they were written, each once.
fn a_completion_is_read_once(stage) {
    let world = World::new(stage);
    let two = world.two();
    let posted: Vec<_> = (0..10).map(|_| two.b.recv(1)).collect();
    for _ in 0..10 {
        two.send(b"x");
        let _ = two.done(&two.a);
    }
    for posted in posted {
        assert_eq!(two.done(&two.b).op_context, posted.context);
    }
    for _ in 0..50 {
        assert!(two.b.read().is_none());
    }
}

/// Reading nothing takes nothing from the queue.
fn a_read_of_nothing_takes_nothing(stage) {
    let world = World::new(stage);
    let two = world.two();
    let posted = two.b.recv(1);
    two.send(b"x");
    let _ = two.done(&two.a);
    for _ in 0..100 {
        c!(fi_cq_read(two.b.cq, null_mut(), 0));
    }
    assert_eq!(two.done(&two.b).op_context, posted.context);
}

/// The completion of an operation without a context has none.
fn a_context_may_be_missing(stage) {
    let world = World::new(stage);
    let two = world.two();
    let _posted = two.b.recv(1);
    let place = two.a.traffic.buffer(b"x");
    two.start(|| c!(fi_send(two.a.ep, place.cast(), 1, null_mut(), two.to_b, null_mut())));
    assert!(two.done(&two.a).op_context.is_null());
}

/// An error says what the operation was.
fn an_error_says_what_it_was(stage) {
    let world = World::new(stage);
    let two = world.two();
    let posted = two.b.trecv(2, 5, 0);
    two.tsend(b"too long", 5);
    let error = two.failed(&two.b);
    assert_eq!((error.op_context, error.tag), (posted.context, 5));
    assert_eq!(error.flags & (FI_TAGGED | FI_RECV | FI_SEND), FI_TAGGED | FI_RECV);
}

/// Completions behind an error are still there when it was read.
fn completions_behind_an_error_are_kept(stage) {
    let world = World::new(stage);
    let two = world.two();
    let (short, long) = (two.b.recv(1), two.b.recv(8));
    two.send(b"long");
    two.send(b"long");
    assert_eq!(two.failed(&two.b).op_context, short.context);
    assert_eq!(two.done(&two.b).op_context, long.context);
}

/// With FI_WAIT_NONE there is no wait object to be had.
fn no_wait_object_is_none(stage) {
    let world = World::new(stage);
    let cq = world.cq(|attr| attr.wait_obj = FI_WAIT_NONE);
    let mut fd: c_int = -1;
    assert_ne!(c!(fi_control(cq.cast(), FI_GETWAIT, (&raw mut fd).cast())), 0);
    assert_eq!(close(cq), 0);
}
}
