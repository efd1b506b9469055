//! Looking without receiving: FI_PEEK, FI_CLAIM, FI_DISCARD.

use oxifabric_engine::{Header, HeaderFlags, Kind, RxOp};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Flags};

use crate::script::*;

fn look(flags: Flags, tag: u64, context: usize) -> RxOp {
    let op = tagged_rx(&Iov::empty(), tag, context);
    RxOp {
        flags: op.flags | flags,
        ..op
    }
}

#[test]
fn a_peek_that_finds_nothing_says_so() {
    let mut b = Bench::new();
    b.recv(look(Flags::PEEK, 5, 1)).expect("room");
    let failed = b.failed();
    assert_eq!((failed.errno, failed.op.context), (Errno::NOMSG, 1));
    assert_eq!(failed.op.tag, 5);
    b.assert_empty();
}

#[test]
fn a_peek_describes_the_message_and_leaves_it() {
    let mut b = Bench::new();
    let header = Header {
        flags: HeaderFlags::DATA,
        data: 8,
        ..tagged(3, 5)
    };
    b.arrive(PEER, header, b"abc");
    for context in [1, 2] {
        b.recv(look(Flags::PEEK, 5, context)).expect("room");
        let done = b.done();
        assert_eq!((done.len, done.tag, done.data, done.from), (3, 5, 8, PEER));
        let flags = Flags::RECV | Flags::TAGGED | Flags::REMOTE_CQ_DATA;
        assert_eq!(done.flags, flags);
    }
    assert_eq!(b.engine.unexpected(), 1);
}

#[test]
fn a_claimed_message_is_received_by_its_claim_only() {
    let mut b = Bench::new();
    b.arrive(PEER, tagged(3, 5), b"abc");
    b.recv(look(Flags::PEEK | Flags::CLAIM, 5, 1))
        .expect("room");
    b.done();
    let buffer = memory(&[0; 3]);
    b.recv(tagged_rx(&buffer, 5, 2)).expect("room");
    assert_eq!(b.event(), None);
    let claim = RxOp {
        flags: Flags::TAGGED | Flags::CLAIM,
        ..tagged_rx(&buffer, 5, 1)
    };
    b.recv(claim).expect("room");
    let done = b.done();
    assert_eq!((done.context, done.len), (1, 3));
    assert_eq!(done.flags, Flags::RECV | Flags::TAGGED);
    assert_eq!(content(&buffer), b"abc");
}

#[test]
fn a_claim_of_nothing_fails() {
    let mut b = Bench::new();
    b.recv(look(Flags::CLAIM, 5, 1)).expect("room");
    assert_eq!(b.failed().errno, Errno::NOMSG);
}

#[test]
fn discarded_messages_are_gone() {
    let mut b = Bench::new();
    let delivery = Header {
        id: 4,
        flags: HeaderFlags::DELIVERY,
        ..tagged(1, 5)
    };
    b.arrive(PEER, delivery, b"a");
    b.arrive(PEER, tagged(1, 6), b"b");
    b.recv(look(Flags::PEEK | Flags::DISCARD, 5, 1))
        .expect("room");
    assert_eq!((b.done().tag, b.frame().header.kind), (5, Kind::Ack));
    b.recv(look(Flags::PEEK | Flags::CLAIM, 6, 2))
        .expect("room");
    b.done();
    b.recv(look(Flags::CLAIM | Flags::DISCARD, 6, 2))
        .expect("room");
    b.done();
    b.assert_empty();
}

#[test]
fn a_discarded_rts_is_refused_or_drained() {
    let discard = || RxOp {
        flags: Flags::MSG | Flags::PEEK | Flags::DISCARD,
        ..rx(&Iov::empty(), 1)
    };
    let mut b = Bench::with(|limits| limits.pull = true, |_| {});
    b.arrive_remote(PEER, rts(30, 2), 30);
    b.recv(discard()).expect("room");
    assert_eq!((b.done().len, b.frame().header.kind), (30, Kind::Fin));
    b.assert_empty();

    let mut b = Bench::new();
    b.arrive_stream(PEER, rts(30, 2), 0);
    b.recv(discard()).expect("room");
    assert_eq!((b.done().len, b.frame().header.kind), (30, Kind::Cts));
    let answer = b.arrive_stream(PEER, segment(30, 2, 0), 30);
    assert!(matches!(answer, Answer::Discard));
    b.assert_empty();
}

#[test]
fn discard_alone_is_invalid() {
    let mut b = Bench::new();
    assert_eq!(b.recv(look(Flags::DISCARD, 0, 1)), Err(Errno::INVAL));
}
