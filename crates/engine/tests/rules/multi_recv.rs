//! One buffer for many messages: FI_MULTI_RECV.

use oxifabric_engine::RxOp;
use oxifabric_types::{Errno, Flags};

use crate::script::*;

fn multi(body: &oxifabric_mem::Iov, context: usize) -> RxOp {
    RxOp {
        flags: Flags::MSG | Flags::MULTI_RECV,
        ..rx(body, context)
    }
}

#[test]
fn messages_are_packed_until_less_than_the_minimum_is_left() {
    let mut b = Bench::new();
    let buffer = memory(&[0; 10]);
    b.recv(multi(&buffer, 1)).expect("room");
    b.arrive(PEER, msg(3), b"abc");
    b.arrive(PEER, msg(4), b"defg");
    let (first, last) = (b.done(), b.done());
    let base = buffer.base() as usize;
    assert_eq!((first.buf, first.len, first.wanted), (base, 3, false));
    assert!(!first.flags.contains(Flags::MULTI_RECV));
    assert_eq!((last.buf, last.len, last.wanted), (base + 3, 4, true));
    assert!(last.flags.contains(Flags::MULTI_RECV | Flags::RECV));
    assert_eq!(&content(&buffer)[..7], b"abcdefg");
    b.assert_empty();
}

#[test]
fn a_message_that_does_not_fit_moves_on_and_releases_the_buffer() {
    let mut b = Bench::new();
    b.recv(multi(&memory(&[0; 10]), 1)).expect("room");
    b.recv(multi(&memory(&[0; 10]), 2)).expect("room");
    b.arrive(PEER, msg(3), b"abc");
    b.arrive(PEER, msg(8), b"12345678");
    assert_eq!(b.done().context, 1);
    let released = b.done();
    assert_eq!((released.context, released.wanted), (1, true));
    assert_eq!(released.flags, Flags::MULTI_RECV);
    let second = b.done();
    assert_eq!((second.context, second.len), (2, 8));
    b.assert_empty();
}

#[test]
fn only_what_not_even_an_untouched_buffer_holds_is_cut_off() {
    let mut b = Bench::new();
    b.recv(multi(&memory(&[0; 6]), 1)).expect("room");
    b.arrive(PEER, msg(8), b"12345678");
    let failed = b.failed();
    assert_eq!((failed.errno, failed.overflow), (Errno::TRUNC, 2));
    assert!(failed.op.flags.contains(Flags::MULTI_RECV));
    b.assert_empty();
}

#[test]
fn waiting_messages_fill_a_new_buffer() {
    let mut b = Bench::new();
    for body in [b"ab", b"cd", b"ef"] {
        b.arrive(PEER, msg(2), body);
    }
    let buffer = memory(&[0; 7]);
    b.recv(multi(&buffer, 1)).expect("room");
    assert_eq!(
        (b.done().len, b.done().flags),
        (2, Flags::RECV | Flags::MSG | Flags::MULTI_RECV)
    );
    assert_eq!((b.event(), b.engine.unexpected()), (None, 1));
    assert_eq!(&content(&buffer)[..4], b"abcd");
}

#[test]
fn the_last_completion_of_several_in_flight_releases_the_buffer() {
    let mut b = Bench::new();
    b.recv(multi(&memory(&[0; 8]), 1)).expect("room");
    let (_, first) = b.arrive_stream(PEER, msg(4), 4).into_parts();
    let (_, second) = b.arrive_stream(OTHER, msg(4), 4).into_parts();
    b.tell(move |sink| sink.placed(second, Ok(())));
    assert!(!b.done().flags.contains(Flags::MULTI_RECV));
    b.tell(move |sink| sink.placed(first, Ok(())));
    assert!(b.done().flags.contains(Flags::MULTI_RECV));
    b.assert_empty();
}

#[test]
fn cancelling_waits_for_what_is_in_flight() {
    let mut b = Bench::new();
    b.recv(multi(&memory(&[0; 20]), 1)).expect("room");
    let (_, token) = b.arrive_stream(PEER, msg(4), 4).into_parts();
    b.cancel(1).expect("it is posted");
    assert_eq!(b.event(), None);
    b.tell(move |sink| sink.placed(token, Ok(())));
    assert_eq!(b.done().len, 4);
    let failed = b.failed();
    assert_eq!(failed.errno, Errno::CANCELED);
    assert!(failed.op.flags.contains(Flags::MULTI_RECV));
    b.assert_empty();
}
