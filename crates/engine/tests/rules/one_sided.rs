//! Accesses that the link carries out by itself: RDMA, without the engine of the peer.

use oxifabric_collectives::arithmetic::{Datatype, Form, Operation};
use oxifabric_engine::{
    AtomicOp, Header, HeaderFlags, Kind, OneSided, PostError, Posted, RemoteWrite, RmaOp, Target,
    Update,
};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Flags, PeerId};

use crate::script::*;

const KEY: u64 = 0xfeed;

/// Returns a bench whose link carries out all accesses but writes with data.
fn bench() -> Bench {
    let all = OneSided::WRITE | OneSided::READ | OneSided::ATOMIC;
    Bench::with(|limits| limits.one_sided = all, |_| {})
}

fn op(flags: Flags, body: &Iov, context: usize) -> RmaOp<'static> {
    RmaOp {
        peer: PEER,
        targets: lasting(Target {
            addr: 3,
            len: body.len() as u64,
            key: KEY,
        }),
        body: body.clone(),
        data: 7,
        flags: Flags::RMA | Flags::COMPLETION | flags,
        context,
    }
}

fn fetch_add(body: &Iov, result: &Iov, flags: Flags) -> AtomicOp {
    AtomicOp {
        peer: PEER,
        update: Update {
            form: if result.is_empty() {
                Form::Base
            } else {
                Form::Fetch
            },
            datatype: Datatype::Uint64,
            operation: Operation::Sum,
        },
        targets: Box::new([Target {
            addr: 0,
            len: body.len() as u64,
            key: KEY,
        }]),
        operand: body.clone(),
        compare: Iov::empty(),
        result: result.clone(),
        data: 0,
        flags: Flags::ATOMIC | Flags::COMPLETION | flags,
        context: 1,
    }
}

#[test]
fn a_write_of_any_length_is_one_frame_and_over_when_the_link_says_so() {
    for len in [3, 15, 300] {
        let mut b = bench();
        b.link.answers.push_back(Ok(Posted::Pending));
        let body = memory(&vec![1; len]);
        b.rma(op(Flags::WRITE, &body, 1)).expect("room");
        let frame = b.frame();
        assert_eq!((frame.header.kind, frame.body.len()), (Kind::Write, len));
        assert_eq!(frame.targets[0].key, KEY);
        assert_eq!((b.event(), b.link.posted.len()), (None, 0));
        b.tell(move |sink| sink.sent(frame.token, Ok(())));
        assert_eq!(b.done().flags, Flags::RMA | Flags::WRITE);
        b.assert_empty();
    }
}

#[test]
fn the_end_of_a_write_is_its_delivery() {
    for posted in [Posted::Done, Posted::Pending] {
        for flags in [
            Flags::DELIVERY_COMPLETE,
            Flags::DELIVERY_COMPLETE | Flags::INJECT,
        ] {
            let mut b = bench();
            b.link.answers.push_back(Ok(posted));
            b.rma(op(Flags::WRITE | flags, &memory(b"abc"), 1))
                .expect("room");
            let token = b.frame().token;
            if posted == Posted::Pending {
                assert_eq!(b.event(), None);
                b.tell(move |sink| sink.sent(token, Ok(())));
            }
            b.done();
            b.assert_empty();
        }
    }
}

#[test]
fn a_read_ends_with_its_frame_not_with_a_response() {
    for posted in [Posted::Done, Posted::Pending] {
        let mut b = bench();
        b.link.answers.push_back(Ok(posted));
        let body = memory(&[0; 300]);
        b.rma(op(Flags::READ, &body, 1)).expect("room");
        let read = b.frame();
        assert_eq!((read.header.kind, read.header.len), (Kind::Read, 300));
        if posted == Posted::Pending {
            let response = Header {
                kind: Kind::Response,
                tag: u64::from(read.header.id),
                ..msg(300)
            };
            assert!(b.arrive(PEER, response, &[1; 300]).is_refusal());
            b.tell(move |sink| sink.sent(read.token, Ok(())));
        }
        let done = b.done();
        assert_eq!((done.flags, done.len), (Flags::RMA | Flags::READ, 300));
        b.assert_empty();
    }
}

#[test]
fn an_access_that_the_peer_refuses_fails_with_its_error() {
    for direction in [Flags::READ, Flags::WRITE] {
        let mut b = bench();
        b.link.answers.push_back(Ok(Posted::Pending));
        b.rma(op(direction, &memory(&[0; 30]), 1)).expect("room");
        let token = b.frame().token;
        b.tell(move |sink| sink.sent(token, Err(Errno::ACCES)));
        assert_eq!(b.failed().errno, Errno::ACCES);
        b.assert_empty();
    }
}

#[test]
fn accesses_that_wait_for_the_link_are_whole_when_it_takes_them() {
    for direction in [Flags::READ, Flags::WRITE | Flags::DELIVERY_COMPLETE] {
        let mut b = bench();
        b.link.answers.push_back(Err(PostError::Again));
        b.rma(op(direction, &memory(&[5; 40]), 1)).expect("room");
        assert!(b.link.posted.is_empty());
        b.link.answers.push_back(Ok(Posted::Pending));
        b.tell(|sink| sink.writable(PEER));
        let frame = b.frame();
        assert_eq!((frame.header.len, b.link.posted.len()), (40, 0));
        b.tell(move |sink| sink.sent(frame.token, Ok(())));
        b.done();
        b.assert_empty();
    }
}

#[test]
fn a_write_with_data_is_a_message_unless_the_link_carries_data() {
    let mut b = bench();
    let body = memory(&[1; 30]);
    b.rma(op(Flags::WRITE | Flags::REMOTE_CQ_DATA, &body, 1))
        .expect("room");
    assert_eq!(b.frame().header.kind, Kind::WriteRts);
    let mut b = Bench::with(|limits| limits.one_sided = OneSided::WRITE_DATA, |_| {});
    b.rma(op(Flags::WRITE | Flags::REMOTE_CQ_DATA, &body, 1))
        .expect("room");
    let header = b.frame().header;
    assert_eq!(
        (header.kind, header.flags, header.data),
        (Kind::Write, HeaderFlags::DATA, 7)
    );
    b.rma(op(Flags::WRITE, &body, 2)).expect("room");
    assert_eq!(b.frame().header.kind, Kind::WriteRts);
}

#[test]
fn the_target_learns_of_a_write_with_data() {
    let mut b = bench();
    let write = RemoteWrite {
        data: 9,
        len: 30,
        key: KEY,
    };
    b.tell(move |sink| sink.written(PEER, write));
    let done = b.done();
    let flags = Flags::RMA | Flags::REMOTE_WRITE | Flags::REMOTE_CQ_DATA;
    assert_eq!((done.flags, done.data, done.len), (flags, 9, 30));
    assert_eq!(
        (done.context as u64, done.from, done.wanted),
        (KEY, PEER, true)
    );
    b.assert_empty();
}

#[test]
fn an_atomic_ends_with_its_frame_and_one_that_fetches_with_its_response() {
    let mut b = bench();
    b.link.answers.push_back(Ok(Posted::Pending));
    let one = memory(&1u64.to_le_bytes());
    let delivery = Flags::WRITE | Flags::DELIVERY_COMPLETE;
    b.atomic(fetch_add(&one, &Iov::empty(), delivery))
        .expect("room");
    let frame = b.frame();
    assert_eq!(
        Update::from_header(&frame.header).map(|u| u.form),
        Some(Form::Base)
    );
    b.tell(move |sink| sink.sent(frame.token, Ok(())));
    b.done();

    b.link.answers.push_back(Ok(Posted::Pending));
    let result = memory(&[0; 8]);
    b.atomic(fetch_add(&one, &result, Flags::READ))
        .expect("room");
    let frame = b.frame();
    b.tell(move |sink| sink.sent(frame.token, Ok(())));
    assert_eq!(b.event(), None);
    let response = Header {
        kind: Kind::Response,
        tag: u64::from(frame.header.id),
        ..msg(8)
    };
    assert!(b.arrive(PEER, response, &5u64.to_le_bytes()).is_done());
    b.done();
    assert_eq!(content(&result), 5u64.to_le_bytes());
    b.assert_empty();
}

#[test]
fn a_fence_waits_for_an_access_that_is_under_way() {
    let mut b = bench();
    b.link.answers.push_back(Ok(Posted::Pending));
    b.rma(op(Flags::WRITE, &memory(&[1; 30]), 1)).expect("room");
    let token = b.frame().token;
    b.rma(op(Flags::READ | Flags::FENCE, &memory(&[0; 3]), 2))
        .expect("room");
    assert!(b.link.posted.is_empty());
    b.tell(move |sink| sink.sent(token, Ok(())));
    assert_eq!(b.frame().header.kind, Kind::Read);
    assert_eq!((b.done().context, b.done().context), (1, 2));
    b.assert_empty();
}

#[test]
fn a_peer_that_is_gone_ends_the_accesses_of_its_memory() {
    let mut b = bench();
    b.link.answers.push_back(Ok(Posted::Pending));
    b.rma(op(Flags::READ, &memory(&[0; 30]), 1)).expect("room");
    b.tell(|sink| sink.peer_down(PEER, Errno::CONNRESET));
    assert_eq!(b.failed().errno, Errno::CONNRESET);
    assert_ne!(b.engine.pending_tx(), 1);
    b.tell(|sink| {
        sink.written(
            PeerId(1),
            RemoteWrite {
                data: 0,
                len: 0,
                key: 0,
            },
        )
    });
    b.done();
    b.assert_empty();
}
