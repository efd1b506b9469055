//! Messages.

use core::ffi::c_void;
use core::ptr::null_mut;

use oxifabric_abi::*;
use oxifabric_fixtures::fixture::{Fixture, Pair};
use oxifabric_fixtures::traffic::Read;
use oxifabric_fixtures::{c, refused};

use crate::requirements;

/// Runs with the description of a message of `a`, with remote data 0xDA7A.
fn with_message(
    pair: &Pair,
    place: *mut u8,
    len: usize,
    context: *mut c_void,
    run: impl FnOnce(*const fi_msg),
) {
    let iov = libc::iovec {
        iov_base: place.cast(),
        iov_len: len,
    };
    run(&fi_msg {
        msg_iov: &iov,
        desc: null_mut(),
        iov_count: 1,
        addr: pair.to_b,
        context,
        data: 0xDA7A,
    });
}

requirements! { "fi_msg(3)";

/// A message arrives as it was sent, whatever its length.
fn messages_of_every_length_arrive(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    for len in [0, 1, 31, 32, 33, 4095, 4096, 65_537, 1 << 20, (4 << 20) + 3] {
        let bytes: Vec<u8> = (0..len).map(|at| (at * 7 + len) as u8).collect();
        let posted = pair.b.recv(len);
        pair.send(&bytes);
        assert_eq!(pair.done(&pair.b).len, len);
        assert!(posted.bytes() == bytes, "{len} bytes");
        let _ = pair.done(&pair.a);
    }
}

/// Messages between two endpoints are received in the order in which they were sent.
fn messages_keep_their_order(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let posted: Vec<_> = (0..20).map(|_| pair.b.recv(70_000)).collect();
    for at in 0..20_u8 {
        let len = if at % 3 == 0 { 70_000 } else { 8 };
        pair.send(&vec![at; len]);
    }
    // Their completions may come in another order, unless that was asked for.
    for _ in &posted {
        let _ = pair.done(&pair.b);
    }
    for (at, posted) in posted.iter().enumerate() {
        assert_eq!(posted.bytes()[0], at as u8);
    }
}

/// A message that comes before its receive is kept for it.
fn an_early_message_is_kept(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    for at in 0..5 {
        pair.send(&[at; 100]);
    }
    for at in 0..5 {
        let posted = pair.b.recv(100);
        let _ = pair.done(&pair.b);
        assert_eq!(posted.bytes(), [at; 100]);
    }
}

/// The buffer of an injected message can be used again when the call returns, and there is no completion.
fn an_injected_buffer_is_free_at_once(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let size = c!((*fixture.info.first().tx_attr).inject_size).min(64);
    let posted = pair.b.recv(size);
    let mut bytes = vec![1_u8; size];
    pair.start(|| c!(fi_inject(pair.a.ep, bytes.as_ptr().cast(), bytes.len(), pair.to_b)));
    bytes.fill(2);
    let _ = pair.done(&pair.b);
    assert!(posted.bytes().iter().all(|&byte| byte == 1));
    assert!(pair.a.read().is_none());
}

/// More than inject_size bytes cannot be injected.
fn too_much_cannot_be_injected(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let size = c!((*fixture.info.first().tx_attr).inject_size);
    let bytes = vec![0_u8; size + 1];
    let code = c!(fi_inject(pair.a.ep, bytes.as_ptr().cast(), bytes.len(), pair.to_b));
    refused!(code, FI_EMSGSIZE);
}

/// A message is gathered from several buffers and scattered into several.
fn buffers_are_gathered_and_scattered(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let iov = |place: *mut u8, len| libc::iovec { iov_base: place.cast(), iov_len: len };
    let into = pair.b.posted(10);
    let (first, second) = (into.place, into.place.wrapping_add(3));
    let pieces = [iov(first, 3), iov(second, 7)];
    let code = c!(fi_recvv(pair.b.ep, pieces.as_ptr(), null_mut(), 2, FI_ADDR_UNSPEC, into.context));
    assert_eq!(code, 0);
    let (one, other) = (pair.a.traffic.buffer(b"01234"), pair.a.traffic.buffer(b"56789"));
    let pieces = [iov(one, 5), iov(other, 5)];
    let context = pair.a.traffic.context();
    pair.start(|| c!(fi_sendv(pair.a.ep, pieces.as_ptr(), null_mut(), 2, pair.to_b, context)));
    assert_eq!(pair.done(&pair.b).len, 10);
    assert_eq!(into.bytes(), b"0123456789");
}

/// More buffers than iov_limit are refused.
fn too_many_buffers_are_refused(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let limit = c!((*fixture.info.first().tx_attr).iov_limit);
    let place = pair.a.traffic.buffer(b"x");
    let pieces = vec![libc::iovec { iov_base: place.cast(), iov_len: 1 }; limit + 1];
    let context = pair.a.traffic.context();
    let code = c!(fi_sendv(pair.a.ep, pieces.as_ptr(), null_mut(), pieces.len(), pair.to_b, context));
    refused!(code, FI_EINVAL);
}

/// A multi-receive buffer takes several messages, one behind the other, and is released with FI_MULTI_RECV.
fn a_multi_receive_buffer_takes_several_messages(subject) {
    let fixture = Fixture::with(subject, |hints| hints.caps |= FI_MULTI_RECV);
    let pair = fixture.pair();
    let least = 64_usize;
    let set = c!(fi_setopt(
        pair.b.ep.cast(),
        FI_OPT_ENDPOINT as _,
        FI_OPT_MIN_MULTI_RECV as _,
        (&raw const least).cast(),
        size_of::<usize>()
    ));
    assert_eq!(set, 0);
    let into = pair.b.posted(200);
    let iov = libc::iovec { iov_base: into.place.cast(), iov_len: into.len };
    let msg = fi_msg {
        msg_iov: &iov,
        desc: null_mut(),
        iov_count: 1,
        addr: FI_ADDR_UNSPEC,
        context: into.context,
        data: 0,
    };
    assert_eq!(c!(fi_recvmsg(pair.b.ep, &msg, FI_MULTI_RECV)), 0);
    let mut released = false;
    for at in 0..3_u8 {
        pair.send(&[at; 50]);
        let done = pair.done(&pair.b);
        assert_eq!(done.len, 50);
        assert_eq!(done.buf.cast::<u8>(), into.place.wrapping_add(50 * at as usize));
        released |= done.flags & FI_MULTI_RECV != 0;
    }
    // Less than the least room is left: the release comes with the last message or for itself.
    released = released || pair.done(&pair.b).flags & FI_MULTI_RECV != 0;
    assert!(released);
}

/// An endpoint sends to itself.
fn an_endpoint_sends_to_itself(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let me = pair.a.knows(&pair.a);
    let posted = pair.a.recv(3);
    let (place, context) = (pair.a.traffic.buffer(b"abc"), pair.a.traffic.context());
    pair.start(|| c!(fi_send(pair.a.ep, place.cast(), 3, null_mut(), me, context)));
    let mut contexts = [pair.done(&pair.a).op_context, pair.done(&pair.a).op_context];
    contexts.sort();
    let mut expected = [posted.context, context];
    expected.sort();
    assert_eq!(contexts, expected);
    assert_eq!(posted.bytes(), b"abc");
}

/// With FI_DELIVERY_COMPLETE a send is not complete before its message was received.
fn a_delivered_message_was_received(subject) {
    let fixture = Fixture::with(subject, |hints| {
        c!((*hints.tx_attr).op_flags = FI_DELIVERY_COMPLETE);
    });
    let pair = fixture.pair();
    let context = pair.send(b"delivered");
    for _ in 0..100 {
        pair.progress(&pair.b);
        assert!(pair.a.read().is_none(), "complete before it was received");
    }
    let posted = pair.b.recv(9);
    let _ = pair.done(&pair.b);
    assert_eq!(posted.bytes(), b"delivered");
    assert_eq!(pair.done(&pair.a).op_context, context);
}

/// With directed receive a receive takes only messages of the source that it names.
fn a_directed_receive_takes_one_source(subject) {
    let fixture = Fixture::with(subject, |hints| hints.caps |= FI_DIRECTED_RECV);
    let pair = fixture.pair();
    let third = fixture.end();
    let (from_third, to_b) = (pair.b.knows(&third), third.knows(&pair.b));
    let posted = pair.b.posted(1);
    let place = posted.place.cast();
    let code = c!(fi_recv(pair.b.ep, place, 1, null_mut(), from_third, posted.context));
    assert_eq!(code, 0);
    pair.send(b"a");
    let _ = pair.done(&pair.a);
    for _ in 0..100 {
        assert!(pair.b.read().is_none());
    }
    let (place, context) = (third.traffic.buffer(b"c"), third.traffic.context());
    pair.start(|| {
        let _: Option<Read> = third.read();
        c!(fi_send(third.ep, place.cast(), 1, null_mut(), to_b, context))
    });
    let begun = std::time::Instant::now();
    let done = loop {
        let _ = third.read();
        match pair.b.read() {
            Some(Read::Done(done)) => break done,
            Some(Read::Failed(error)) => panic!("{error:?}"),
            None => assert!(begun.elapsed() < oxifabric_fixtures::traffic::TIMEOUT),
        }
    };
    assert_eq!((done.op_context, posted.bytes()), (posted.context, b"c".as_slice()));
}

/// Data and a message without bytes: the data arrives.
fn data_needs_no_bytes(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let _posted = pair.b.recv(0);
    let context = pair.a.traffic.context();
    pair.start(|| c!(fi_senddata(pair.a.ep, core::ptr::null(), 0, null_mut(), 7, pair.to_b, context)));
    let done = pair.done(&pair.b);
    assert_eq!((done.data, done.len, done.flags & FI_REMOTE_CQ_DATA), (7, 0, FI_REMOTE_CQ_DATA));
}

/// An injected message may have remote data.
fn an_injected_message_may_tell_data(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let posted = pair.b.recv(1);
    let mut byte = b'i';
    pair.start(|| c!(fi_injectdata(pair.a.ep, (&raw const byte).cast(), 1, 0xDA7A, pair.to_b)));
    byte = b'-';
    let done = pair.done(&pair.b);
    assert_eq!((done.data, done.flags & FI_REMOTE_CQ_DATA), (0xDA7A, FI_REMOTE_CQ_DATA));
    assert_eq!((posted.bytes(), byte), (b"i".as_slice(), b'-'));
    assert!(pair.a.read().is_none());
}

/// With FI_INJECT the buffer of a message is free when the call returns, and there is a completion.
fn an_injecting_message_completes(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let posted = pair.b.recv(4);
    let (place, context) = (pair.a.traffic.buffer(b"keep"), pair.a.traffic.context());
    with_message(&pair, place, 4, context, |msg| {
        pair.start(|| c!(fi_sendmsg(pair.a.ep, msg, FI_INJECT | FI_COMPLETION)));
    });
    c!(place.cast::<[u8; 4]>().write(*b"lose"));
    assert_eq!(pair.done(&pair.a).op_context, context);
    let _ = pair.done(&pair.b);
    assert_eq!(posted.bytes(), b"keep");
}

/// The flag FI_REMOTE_CQ_DATA sends the data of a message.
fn a_flag_sends_remote_data(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let _posted = pair.b.recv(1);
    let (place, context) = (pair.a.traffic.buffer(b"x"), pair.a.traffic.context());
    with_message(&pair, place, 1, context, |msg| {
        pair.start(|| c!(fi_sendmsg(pair.a.ep, msg, FI_REMOTE_CQ_DATA | FI_COMPLETION)));
    });
    let done = pair.done(&pair.b);
    assert_eq!((done.data, done.flags & FI_REMOTE_CQ_DATA), (0xDA7A, FI_REMOTE_CQ_DATA));
}

/// FI_MORE is a hint: what was sent with it arrives when a message without it follows.
fn messages_may_be_announced(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let posted: Vec<_> = (0..3).map(|_| pair.b.recv(1)).collect();
    for (at, more) in [FI_MORE, FI_MORE, 0].into_iter().enumerate() {
        let (place, context) = (pair.a.traffic.buffer(&[at as u8]), pair.a.traffic.context());
        with_message(&pair, place, 1, context, |msg| {
            pair.start(|| c!(fi_sendmsg(pair.a.ep, msg, more | FI_COMPLETION)));
        });
    }
    for (at, posted) in posted.iter().enumerate() {
        assert_eq!(pair.done(&pair.b).op_context, posted.context);
        assert_eq!(posted.bytes(), [at as u8]);
    }
}

/// A message longer than max_msg_size is refused.
fn a_message_that_is_too_long_is_refused(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let most = c!((*fixture.info.first().ep_attr).max_msg_size);
    if most > usize::MAX / 2 {
        return;
    }
    let (place, context) = (pair.a.traffic.buffer(b"x"), pair.a.traffic.context());
    refused!(c!(fi_send(pair.a.ep, place.cast(), most + 1, null_mut(), pair.to_b, context)), FI_EMSGSIZE);
}

/// The rest of a receive that is longer than its message is left alone.
fn what_is_beyond_a_message_is_left_alone(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let posted = pair.b.recv(16);
    pair.send(b"short");
    assert_eq!(pair.done(&pair.b).len, 5);
    assert_eq!(posted.bytes()[..5], *b"short");
    assert!(posted.bytes()[5..].iter().all(|&byte| byte == 0xEE));
}
}
