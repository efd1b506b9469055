//! Completion queues.

use core::ffi::{CStr, c_int};
use core::ptr::{null, null_mut};

use oxifabric_abi::*;
use oxifabric_fixtures::fixture::{Fixture, Pair, bind, close};
use oxifabric_fixtures::traffic::TIMEOUT;
use oxifabric_fixtures::{c, refused};

use crate::requirements;

requirements! { "fi_cq(3)";

/// Reading a queue without completions gives -FI_EAGAIN.
fn an_empty_queue_says_again(subject) {
    let fixture = Fixture::new(subject);
    let cq = fixture.cq(|_| {});
    let mut entry = fi_cq_tagged_entry::ZERO;
    assert_eq!(c!(fi_cq_read(cq, (&raw mut entry).cast(), 1)), -(FI_EAGAIN as isize));
    assert_eq!(close(cq), 0);
}

/// Reading an error where there is none gives -FI_EAGAIN.
fn a_queue_without_errors_says_again(subject) {
    let fixture = Fixture::new(subject);
    let cq = fixture.cq(|_| {});
    let mut error = fi_cq_err_entry::ZERO;
    assert_eq!(c!(fi_cq_readerr(cq, &mut error, 0)), -(FI_EAGAIN as isize));
    assert_eq!(close(cq), 0);
}

/// A blocking read of an empty queue gives -FI_EAGAIN when its time is over.
fn a_blocking_read_ends_with_its_time(subject) {
    let fixture = Fixture::new(subject);
    let cq = fixture.cq(|_| {});
    let mut entry = fi_cq_tagged_entry::ZERO;
    let read = c!(fi_cq_sread(cq, (&raw mut entry).cast(), 1, null(), 1));
    assert_eq!(read, -(FI_EAGAIN as isize));
    assert_eq!(close(cq), 0);
}

/// A blocking read of a queue that was opened without a wait object is refused.
fn a_queue_without_a_wait_object_does_not_block(subject) {
    let fixture = Fixture::new(subject);
    let cq = fixture.cq(|attr| attr.wait_obj = FI_WAIT_NONE);
    let mut entry = fi_cq_tagged_entry::ZERO;
    let read = c!(fi_cq_sread(cq, (&raw mut entry).cast(), 1, null(), 1));
    refused!(read, FI_ENOSYS);
    assert_eq!(close(cq), 0);
}

/// A signal makes a blocking read return.
fn a_signal_ends_a_blocking_read(subject) {
    let fixture = Fixture::new(subject);
    let cq = fixture.cq(|_| {});
    assert_eq!(c!(fi_cq_signal(cq)), 0);
    let mut entry = fi_cq_tagged_entry::ZERO;
    let read = c!(fi_cq_sread(cq, (&raw mut entry).cast(), 1, null(), -1));
    assert!(read == -(FI_EAGAIN as isize) || read == -(FI_ECANCELED as isize), "{read}");
    assert_eq!(close(cq), 0);
}

/// The completion of a send has its context and says what it was.
fn a_send_completes_with_its_context(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let _posted = pair.b.recv(8);
    let context = pair.send(b"12345678");
    let done = pair.done(&pair.a);
    assert_eq!(done.op_context, context);
    assert_eq!(done.flags & (FI_SEND | FI_MSG | FI_RECV), FI_SEND | FI_MSG);
}

/// The completion of a receive has its context, the length of the message, and says what it was.
fn a_receive_completes_with_its_length(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let posted = pair.b.recv(64);
    pair.send(b"12345");
    let done = pair.done(&pair.b);
    assert_eq!((done.op_context, done.len), (posted.context, 5));
    assert_eq!(done.flags & (FI_RECV | FI_MSG | FI_SEND), FI_RECV | FI_MSG);
}

/// The completion of a tagged receive has the tag of the message.
fn a_tagged_receive_completes_with_the_tag(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let _posted = pair.b.trecv(64, 0x1200, 0xff);
    pair.tsend(b"12345", 0x1234);
    let done = pair.done(&pair.b);
    assert_eq!((done.tag, done.flags & FI_TAGGED), (0x1234, FI_TAGGED));
}

/// Remote completion data arrives with FI_REMOTE_CQ_DATA.
fn remote_data_is_told(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let _posted = pair.b.recv(64);
    let place = pair.a.traffic.buffer(b"x");
    let context = pair.a.traffic.context();
    let data = 0x1122_3344;
    pair.start(|| c!(fi_senddata(pair.a.ep, place.cast(), 1, null_mut(), data, pair.to_b, context)));
    let done = pair.done(&pair.b);
    assert_eq!((done.data, done.flags & FI_REMOTE_CQ_DATA), (data, FI_REMOTE_CQ_DATA));
}

/// Without remote completion data there is no FI_REMOTE_CQ_DATA.
fn no_remote_data_is_told(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let _posted = pair.b.recv(64);
    pair.send(b"x");
    assert_eq!(pair.done(&pair.b).flags & FI_REMOTE_CQ_DATA, 0);
}

/// An error stops reads with -FI_EAVAIL until it was read.
fn an_error_stops_reads_until_it_was_read(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let posted = pair.b.recv(2);
    pair.send(b"12345");
    let error = pair.failed(&pair.b);
    assert_eq!((error.err, error.op_context), (FI_ETRUNC, posted.context));
    assert!(pair.b.read().is_none());
}

/// A truncated message is told with the bytes that did not fit.
fn a_truncated_message_is_told_with_the_rest(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let posted = pair.b.recv(2);
    pair.send(b"12345");
    let error = pair.failed(&pair.b);
    assert_eq!(error.olen, 3);
    assert_eq!(posted.bytes(), b"12");
}

/// Error entries of old applications have no data of the provider: with a size of zero it keeps them.
fn provider_data_stays_out_unless_there_is_a_size_for_it(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let posted = pair.b.recv(8);
    assert_eq!(c!(fi_cancel(pair.b.ep.cast(), posted.context)), 0);
    let error = pair.failed(&pair.b);
    assert!(error.err_data_size == 0 || !error.err_data.is_null());
}

/// The provider can spell its own error numbers.
fn a_provider_error_is_spelled(subject) {
    let fixture = Fixture::new(subject);
    let cq = fixture.cq(|_| {});
    let mut text = [b'#' as core::ffi::c_char; 64];
    let said = c!(fi_cq_strerror(cq, 0, null(), text.as_mut_ptr(), text.len()));
    assert!(!said.is_null());
    assert!(c!(CStr::from_ptr(said)).to_bytes().len() < 4096);
    assert_eq!(close(cq), 0);
}

/// With selective completions a send without FI_COMPLETION writes none.
fn selective_completions_are_asked_for(subject) {
    let fixture = Fixture::new(subject);
    let a = fixture.end_with(FI_SEND | FI_RECV | FI_SELECTIVE_COMPLETION, |_| {});
    let pair = Pair::of(a, fixture.end());
    for _ in 0..2 {
        let _posted = pair.b.recv(8);
    }
    pair.send(b"silent");
    let (place, context) = (pair.a.traffic.buffer(b"told"), pair.a.traffic.context());
    let iov = libc::iovec { iov_base: place.cast(), iov_len: 4 };
    let msg = fi_msg {
        msg_iov: &iov,
        desc: null_mut(),
        iov_count: 1,
        addr: pair.to_b,
        context,
        data: 0,
    };
    pair.start(|| c!(fi_sendmsg(pair.a.ep, &msg, FI_COMPLETION)));
    assert_eq!(pair.done(&pair.a).op_context, context);
    for _ in 0..2 {
        let _ = pair.done(&pair.b);
    }
    assert!(pair.a.read().is_none());
}

/// A queue can be shared by endpoints and by both directions.
fn a_queue_is_shared(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let third = fixture.bare();
    let av = fixture.av();
    assert_eq!(bind(third, pair.a.cq, FI_SEND | FI_RECV), 0);
    assert_eq!(bind(third, av, 0), 0);
    assert_eq!(c!(fi_enable(third)), 0);
    let _posted = pair.b.recv(8);
    pair.send(b"x");
    let _ = pair.done(&pair.a);
    assert_eq!((close(third), close(av)), (0, 0));
}

/// Completions are read several at a time, as many as there are.
fn several_completions_are_read_at_once(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    for _ in 0..4 {
        let _posted = pair.b.recv(8);
    }
    for _ in 0..4 {
        pair.send(b"x");
    }
    let mut entries = [fi_cq_tagged_entry::ZERO; 8];
    let mut count = 0;
    let begun = std::time::Instant::now();
    while count < 4 && begun.elapsed() < oxifabric_fixtures::traffic::TIMEOUT {
        match c!(fi_cq_read(pair.b.cq, entries[count..].as_mut_ptr().cast(), 8 - count)) {
            read if read > 0 => count += read as usize,
            _ => pair.progress(&pair.a),
        }
    }
    assert_eq!(count, 4);
}

/// The wait object of a queue can be had, and is of the kind that was asked for.
fn the_wait_object_is_as_asked(subject) {
    let fixture = Fixture::new(subject);
    let cq = fixture.cq(|attr| attr.wait_obj = FI_WAIT_FD);
    let mut fd: c_int = -1;
    assert_eq!(c!(fi_control(cq.cast(), FI_GETWAIT, (&raw mut fd).cast())), 0);
    assert!(fd >= 0);
    let mut kind: fi_wait_obj = 0;
    assert_eq!(c!(fi_control(cq.cast(), FI_GETWAITOBJ, (&raw mut kind).cast())), 0);
    assert_eq!(kind, FI_WAIT_FD);
    assert_eq!(close(cq), 0);
}

/// An unknown format of entries is refused.
fn an_unknown_format_is_refused(subject) {
    let fixture = Fixture::new(subject);
    let mut attr = fi_cq_attr { format: 99, ..fi_cq_attr::ZERO };
    let mut cq = null_mut();
    refused!(c!(fi_cq_open(fixture.domain, &mut attr, &mut cq, null_mut())), FI_EINVAL);
}

/// Entries are as long as their format says: a context, then flags and length, then buffer and data, then the tag.
fn formats_have_their_fields(subject) {
    let fixture = Fixture::new(subject);
    for (format, size) in [
        (FI_CQ_FORMAT_CONTEXT, size_of::<fi_cq_entry>()),
        (FI_CQ_FORMAT_MSG, size_of::<fi_cq_msg_entry>()),
        (FI_CQ_FORMAT_DATA, size_of::<fi_cq_data_entry>()),
        (FI_CQ_FORMAT_TAGGED, size_of::<fi_cq_tagged_entry>()),
    ] {
        let cq = fixture.cq(|attr| attr.format = format);
        let (ep, av) = (fixture.bare(), fixture.av());
        assert_eq!((bind(ep, cq, FI_SEND | FI_RECV), bind(ep, av, 0), c!(fi_enable(ep))), (0, 0, 0));
        let traffic = oxifabric_fixtures::traffic::Traffic::default();
        let b = oxifabric_fixtures::fixture::TestEndpoint { ep, cq, av, eq: null_mut(), traffic };
        let pair = Pair::of(fixture.end(), b);
        let posted = pair.b.recv(4);
        pair.send(b"four");
        let (mut bytes, begun) = ([0xEE_u8; 64], std::time::Instant::now());
        while c!(fi_cq_read(cq, bytes.as_mut_ptr().cast(), 1)) != 1 {
            assert!(begun.elapsed() < TIMEOUT);
            pair.progress(&pair.a);
        }
        assert_eq!(bytes[..8], posted.context.addr().to_ne_bytes());
        assert!(bytes[size..].iter().all(|&byte| byte == 0xEE), "longer than {size}");
        if size >= size_of::<fi_cq_msg_entry>() {
            assert_eq!(bytes[16..24], 4_usize.to_ne_bytes());
        }
    }
}

/// A blocking read returns with a completion that comes while it waits.
fn a_blocking_read_returns_a_completion(subject) {
    let fixture = Fixture::with(subject, |hints| c!((*hints.domain_attr).threading = FI_THREAD_SAFE));
    let pair = fixture.pair();
    let posted = pair.b.recv(1);
    pair.send(b"x");
    let mut entry = fi_cq_tagged_entry::ZERO;
    let begun = std::time::Instant::now();
    loop {
        assert!(begun.elapsed() < TIMEOUT);
        if c!(fi_cq_sread(pair.b.cq, (&raw mut entry).cast(), 1, null(), 10)) == 1 {
            break;
        }
        pair.progress(&pair.a);
    }
    assert_eq!(entry.op_context, posted.context);
}

/// A read takes completions in the order in which they were written, each once.
fn a_completion_is_read_once(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let posted: Vec<_> = (0..10).map(|_| pair.b.recv(1)).collect();
    for _ in 0..10 {
        pair.send(b"x");
        let _ = pair.done(&pair.a);
    }
    for posted in posted {
        assert_eq!(pair.done(&pair.b).op_context, posted.context);
    }
    for _ in 0..50 {
        assert!(pair.b.read().is_none());
    }
}

/// Reading nothing takes nothing from the queue.
fn a_read_of_nothing_takes_nothing(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let posted = pair.b.recv(1);
    pair.send(b"x");
    let _ = pair.done(&pair.a);
    for _ in 0..100 {
        c!(fi_cq_read(pair.b.cq, null_mut(), 0));
    }
    assert_eq!(pair.done(&pair.b).op_context, posted.context);
}

/// The completion of an operation without a context has none.
fn a_context_may_be_missing(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let _posted = pair.b.recv(1);
    let place = pair.a.traffic.buffer(b"x");
    pair.start(|| c!(fi_send(pair.a.ep, place.cast(), 1, null_mut(), pair.to_b, null_mut())));
    assert!(pair.done(&pair.a).op_context.is_null());
}

/// An error says what the operation was.
fn an_error_says_what_it_was(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let posted = pair.b.trecv(2, 5, 0);
    pair.tsend(b"too long", 5);
    let error = pair.failed(&pair.b);
    assert_eq!((error.op_context, error.tag), (posted.context, 5));
    assert_eq!(error.flags & (FI_TAGGED | FI_RECV | FI_SEND), FI_TAGGED | FI_RECV);
}

/// Completions behind an error are still there when it was read.
fn completions_behind_an_error_are_kept(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let (short, long) = (pair.b.recv(1), pair.b.recv(8));
    pair.send(b"long");
    pair.send(b"long");
    assert_eq!(pair.failed(&pair.b).op_context, short.context);
    assert_eq!(pair.done(&pair.b).op_context, long.context);
}

/// With FI_WAIT_NONE there is no wait object to be had.
fn no_wait_object_is_none(subject) {
    let fixture = Fixture::new(subject);
    let cq = fixture.cq(|attr| attr.wait_obj = FI_WAIT_NONE);
    let mut fd: c_int = -1;
    refused!(c!(fi_control(cq.cast(), FI_GETWAIT, (&raw mut fd).cast())), FI_ENODATA);
    assert_eq!(close(cq), 0);
}
}
