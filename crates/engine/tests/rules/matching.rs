//! Matching of messages and receives.

use oxifabric_engine::{Header, HeaderFlags, RxOp, TxOp};
use oxifabric_types::{Errno, Flags, PeerId};

use crate::script::*;

#[test]
fn a_posted_receive_takes_the_message() {
    let mut b = Bench::new();
    let buffer = memory(&[0; 4]);
    b.recv(rx(&buffer, 1)).expect("room");
    assert!(b.arrive(PEER, msg(3), b"abc").is_done());
    let done = b.done();
    assert_eq!(content(&buffer), b"abc\0");
    assert_eq!((done.context, done.len, done.from), (1, 3, PEER));
    assert_eq!(done.flags, Flags::RECV | Flags::MSG);
    assert_eq!(done.buf, buffer.base() as usize);
    b.assert_empty();
}

#[test]
fn a_waiting_message_is_taken_by_the_next_receive() {
    let mut b = Bench::new();
    let header = Header {
        flags: HeaderFlags::DATA,
        data: 9,
        ..tagged(2, 5)
    };
    b.arrive(PEER, header, b"hi");
    assert_eq!((b.engine.unexpected(), b.event()), (1, None));
    let buffer = memory(&[0; 2]);
    b.recv(tagged_rx(&buffer, 5, 7)).expect("room");
    let done = b.done();
    assert_eq!(
        (done.tag, done.data, content(&buffer)),
        (5, 9, b"hi".to_vec())
    );
    let flags = Flags::RECV | Flags::TAGGED | Flags::REMOTE_CQ_DATA;
    assert_eq!(done.flags, flags);
    b.assert_empty();
}

#[test]
fn tagged_and_untagged_never_match() {
    let mut b = Bench::new();
    b.recv(rx(&memory(&[0; 4]), 1)).expect("room");
    let any = RxOp {
        ignore: u64::MAX,
        ..tagged_rx(&memory(&[0; 4]), 0, 2)
    };
    b.arrive(PEER, tagged(0, 0), b"");
    assert_eq!(b.event(), None);
    b.recv(any).expect("room");
    assert_eq!(b.done().context, 2);
    b.arrive(PEER, msg(0), b"");
    assert_eq!(b.done().context, 1);
    b.assert_empty();
}

#[test]
fn ignored_bits_do_not_count() {
    let mut b = Bench::new();
    let op = RxOp {
        ignore: 0xff,
        ..tagged_rx(&memory(&[]), 0x1200, 1)
    };
    b.recv(op).expect("room");
    b.arrive(PEER, tagged(0, 0x1300), b"");
    assert_eq!(b.event(), None);
    b.arrive(PEER, tagged(0, 0x1234), b"");
    assert_eq!(b.done().tag, 0x1234);
}

#[test]
fn directed_receives_take_from_their_source_only() {
    let mut b = Bench::new();
    let from_other = |context| RxOp {
        from: OTHER,
        ..rx(&memory(&[]), context)
    };
    b.recv(from_other(1)).expect("room");
    b.recv(rx(&memory(&[]), 2)).expect("room");
    b.arrive(PEER, msg(0), b"");
    assert_eq!((b.done().context, b.event()), (2, None));
    b.arrive(OTHER, msg(0), b"");
    assert_eq!(b.done().context, 1);
    b.engine.config_mut().directed_recv = false;
    b.recv(from_other(3)).expect("room");
    b.arrive(PEER, msg(0), b"");
    assert_eq!(b.done().context, 3);
}

#[test]
fn receives_match_in_the_order_of_posting() {
    let mut b = Bench::new();
    for context in 1..=3 {
        b.recv(rx(&memory(&[]), context)).expect("room");
    }
    b.cancel(2).expect("it is posted");
    assert_eq!(b.failed().errno, Errno::CANCELED);
    b.arrive(PEER, msg(0), b"");
    b.arrive(PEER, msg(0), b"");
    assert_eq!((b.done().context, b.done().context), (1, 3));
}

#[test]
fn cancel_finds_what_is_posted_only() {
    let mut b = Bench::new();
    assert_eq!(b.cancel(1), Err(Errno::NOENT));
    b.recv(tagged_rx(&memory(&[]), 3, 1)).expect("room");
    assert_eq!(b.cancel(1), Ok(()));
    let failed = b.failed();
    assert_eq!((failed.op.context, failed.op.tag), (1, 3));
    assert_eq!(failed.op.flags, Flags::RECV | Flags::TAGGED);
    assert_eq!(b.cancel(1), Err(Errno::NOENT));
    b.assert_empty();
}

#[test]
fn a_message_longer_than_the_buffer_is_cut_off() {
    for early in [true, false] {
        let mut b = Bench::new();
        let buffer = memory(&[0; 2]);
        if early {
            b.recv(rx(&buffer, 1)).expect("room");
        }
        b.arrive(PEER, msg(5), b"abcde");
        if !early {
            b.recv(rx(&buffer, 1)).expect("room");
        }
        let failed = b.failed();
        assert_eq!((failed.errno, failed.overflow), (Errno::TRUNC, 3));
        assert_eq!((failed.op.len, content(&buffer)), (2, b"ab".to_vec()));
        b.assert_empty();
    }
}

#[test]
fn a_streamed_body_goes_straight_into_the_posted_buffer() {
    let mut b = Bench::new();
    let buffer = memory(&[0; 8]);
    b.recv(rx(&buffer, 1)).expect("room");
    let (iov, token) = b.arrive_stream(PEER, msg(5), 5).into_parts();
    assert_eq!((iov.base(), iov.len()), (buffer.base(), 5));
    assert_eq!((b.event(), b.engine.pending_rx()), (None, 1));
    iov.write(0, b"hello");
    b.tell(move |sink| sink.placed(token, Ok(())));
    assert_eq!(b.done().len, 5);
    b.assert_empty();
}

#[test]
fn a_receive_may_match_while_the_body_is_still_arriving() {
    let mut b = Bench::new();
    let (iov, token) = b.arrive_stream(PEER, msg(5), 5).into_parts();
    iov.write(0, b"he");
    let buffer = memory(&[0; 5]);
    b.recv(rx(&buffer, 1)).expect("room");
    assert_eq!(b.event(), None);
    iov.write(2, b"llo");
    b.tell(move |sink| sink.placed(token, Ok(())));
    assert_eq!((b.done().len, content(&buffer)), (5, b"hello".to_vec()));
    b.assert_empty();
}

#[test]
fn a_streamed_body_that_has_no_room_is_dropped() {
    let mut b = Bench::new();
    b.recv(rx(&memory(&[]), 1)).expect("room");
    let answer = b.arrive_stream(PEER, msg(5), 5);
    assert!(matches!(answer, Answer::Discard), "{answer:?}");
    assert_eq!(b.failed().overflow, 5);
    b.assert_empty();
}

#[test]
fn messages_to_oneself_are_looped_back() {
    let mut b = Bench::new();
    let to_self = |body: &_, context| TxOp {
        peer: ME,
        ..tx(body, context)
    };
    let buffer = memory(&[0; 3]);
    b.recv(rx(&buffer, 1)).expect("room");
    b.send(to_self(&memory(b"abc"), 2)).expect("room");
    assert_eq!((b.done().from, b.done().context), (ME, 2));
    assert_eq!(content(&buffer), b"abc");
    b.send(to_self(&memory(b"xyz"), 3)).expect("room");
    assert_eq!((b.done().context, b.event()), (3, None));
    b.recv(rx(&buffer, 4)).expect("room");
    assert_eq!((b.done().context, content(&buffer)), (4, b"xyz".to_vec()));
    assert!(b.link.posted.is_empty());
    b.assert_empty();
}

#[test]
fn a_long_message_to_oneself_completes_when_it_was_read() {
    let mut b = Bench::new();
    let long = memory(&vec![7; 100_000]);
    let op = TxOp {
        peer: ME,
        ..tx(&long, 1)
    };
    b.send(op).expect("room");
    assert_eq!((b.event(), b.engine.pending_tx()), (None, 1));
    let buffer = memory(&vec![0; 100_000]);
    b.recv(rx(&buffer, 2)).expect("room");
    assert_eq!((b.done().context, b.done().context), (2, 1));
    assert_eq!(content(&buffer), content(&long));
    b.assert_empty();
}

#[test]
fn completions_are_wanted_as_the_flags_say() {
    let mut b = Bench::new();
    let op = RxOp {
        flags: Flags::MSG,
        ..rx(&memory(&[]), 1)
    };
    b.recv(op).expect("room");
    b.arrive(PeerId(9), msg(0), b"");
    assert!(!b.done().wanted);
}
