//! Updating memory of peers, as the initiator: fi_atomic(3).

use oxifabric_collectives::arithmetic::{Datatype, Form, Operation};
use oxifabric_engine::{
    AtomicOp, Header, HeaderFlags, Kind, MAX_ATOMIC_BYTES, PostError, Posted, Target, Update,
};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Flags};

use crate::script::*;

const KEY: u64 = 0xfeed;

pub(crate) const ADD: Update = Update {
    form: Form::Base,
    datatype: Datatype::Uint16,
    operation: Operation::Sum,
};
const FETCH_ADD: Update = Update {
    form: Form::Fetch,
    ..ADD
};
const SWAP: Update = Update {
    form: Form::Compare,
    datatype: Datatype::Uint16,
    operation: Operation::Cswap,
};

/// Returns an atomic on a number of bytes with all that its form needs.
fn op(update: Update, len: usize, context: usize) -> AtomicOp {
    let direction = match update.form {
        Form::Base => Flags::WRITE,
        _ => Flags::READ,
    };
    let if_so = |has: bool, byte| memory(&vec![byte; if has { len } else { 0 }]);
    AtomicOp {
        peer: PEER,
        update,
        targets: Box::new([Target {
            addr: 2,
            len: len as u64,
            key: KEY,
        }]),
        operand: if_so(update.operation != Operation::Read, 1),
        compare: if_so(update.form == Form::Compare, 2),
        result: if_so(update.form != Form::Base, 0),
        data: 0,
        flags: Flags::ATOMIC | Flags::COMPLETION | direction,
        context,
    }
}

fn response(atomic: &Header, len: usize) -> Header {
    Header {
        kind: Kind::Response,
        id: 4,
        tag: u64::from(atomic.id),
        ..msg(len)
    }
}

#[test]
fn a_base_atomic_is_one_frame_however_long() {
    let mut b = Bench::new();
    b.atomic(op(ADD, 30, 1)).expect("room");
    let frame = b.frame();
    assert_eq!((frame.header.kind, frame.header.len), (Kind::Atomic, 30));
    assert_eq!(frame.header.tag, 3 | 2 << 8);
    assert_eq!((frame.body.len(), frame.targets[0].key), (30, KEY));
    let done = b.done();
    assert_eq!(
        (done.flags, done.context),
        (Flags::ATOMIC | Flags::WRITE, 1)
    );
    b.assert_empty();
}

#[test]
fn a_base_atomic_waits_for_its_acknowledgement_if_asked_to() {
    let mut b = Bench::new();
    let mut atomic = op(ADD, 2, 1);
    atomic.flags |= Flags::DELIVERY_COMPLETE;
    b.atomic(atomic).expect("room");
    let sent = b.frame().header;
    assert_eq!((sent.flags, b.event()), (HeaderFlags::DELIVERY, None));
    b.arrive(PEER, answer(Kind::Ack, sent.id), b"");
    assert_eq!(b.done().context, 1);
    b.assert_empty();
}

#[test]
fn a_fetching_atomic_completes_with_its_response() {
    for (update, body) in [
        (FETCH_ADD, vec![1; 4]),
        (SWAP, vec![1, 1, 1, 1, 2, 2, 2, 2]),
    ] {
        let mut b = Bench::new();
        let mut atomic = op(update, 4, 1);
        atomic.flags |= Flags::DELIVERY_COMPLETE;
        let result = atomic.result.clone();
        b.atomic(atomic).expect("room");
        let frame = b.frame();
        assert_eq!(
            (frame.body, frame.header.flags),
            (body, HeaderFlags::empty())
        );
        assert_eq!(b.event(), None);
        assert!(
            b.arrive(PEER, answer(Kind::Ack, frame.header.id), b"")
                .is_refusal()
        );
        assert!(
            b.arrive(PEER, response(&frame.header, 4), b"abcd")
                .is_done()
        );
        let done = b.done();
        assert_eq!((done.flags, done.context), (Flags::ATOMIC | Flags::READ, 1));
        assert_eq!(
            (content(&result), done.buf),
            (b"abcd".to_vec(), result.base() as usize)
        );
        b.assert_empty();
    }
}

#[test]
fn an_atomic_read_brings_nothing() {
    let mut b = Bench::new();
    let read = Update {
        operation: Operation::Read,
        ..FETCH_ADD
    };
    b.atomic(op(read, 4, 1)).expect("room");
    let frame = b.frame();
    assert_eq!((frame.body.len(), frame.header.len), (0, 0));
    assert!(
        b.arrive(PEER, response(&frame.header, 4), b"abcd")
            .is_done()
    );
    assert_eq!(b.done().context, 1);
    b.assert_empty();
}

#[test]
fn a_response_must_fit_its_atomic() {
    let mut b = Bench::new();
    b.atomic(op(FETCH_ADD, 4, 1)).expect("room");
    let sent = b.frame().header;
    assert!(b.arrive(OTHER, response(&sent, 4), b"abcd").is_refusal());
    assert!(b.arrive(PEER, response(&sent, 3), b"abc").is_refusal());
    b.tell(|sink| sink.peer_down(PEER, Errno::PROTO));
    let failed = b.failed();
    assert_eq!(
        (failed.errno, failed.op.flags),
        (Errno::PROTO, Flags::ATOMIC | Flags::READ)
    );
    b.assert_empty();
}

#[test]
fn a_refused_atomic_fails_where_its_initiator_waits_for_it() {
    for update in [ADD, FETCH_ADD, SWAP] {
        let mut b = Bench::new();
        let mut atomic = op(update, 2, 1);
        atomic.flags |= Flags::DELIVERY_COMPLETE;
        b.atomic(atomic).expect("room");
        let fin = Header {
            data: Errno::ACCES.raw() as u64,
            ..answer(Kind::Fin, b.frame().header.id)
        };
        assert!(b.arrive(PEER, fin, b"").is_done());
        assert_eq!(b.failed().errno, Errno::ACCES);
        b.assert_empty();
    }
}

#[test]
fn a_peer_that_knows_no_atomics_fails_them_alone() {
    let mut b = Bench::new();
    let down = PostError::Down(Errno::OPNOTSUPP);
    b.link.answers.push_back(Err(down));
    b.atomic(op(FETCH_ADD, 2, 1)).expect("room");
    let failed = b.failed();
    assert_eq!((failed.errno, failed.op.from), (Errno::OPNOTSUPP, PEER));
    b.send(tx(&memory(b"abc"), 2)).expect("room");
    assert_eq!(b.done().context, 2);
    b.assert_empty();
}

#[test]
fn an_injected_update_leaves_with_its_call_or_is_not_started() {
    for update in [ADD, FETCH_ADD] {
        let mut b = Bench::new();
        b.link.answers.push_back(Err(PostError::Again));
        let injected = || {
            let mut atomic = op(update, 2, 1);
            atomic.flags |= Flags::INJECT;
            atomic
        };
        assert_eq!(b.atomic(injected()), Err(Errno::AGAIN));
        assert_eq!(b.engine.pending_tx(), 0);
        b.tell(|sink| sink.writable(PEER));
        b.atomic(injected()).expect("the link takes it");
        assert_eq!(b.frame().body[..2], [1, 1]);
        b.abandon();
    }
}

#[test]
fn what_is_no_atomic_is_refused_at_once() {
    let mut b = Bench::new();
    let float_or = Update {
        datatype: Datatype::Float,
        operation: Operation::Bor,
        ..ADD
    };
    assert_eq!(b.atomic(op(float_or, 4, 1)), Err(Errno::OPNOTSUPP));
    assert_eq!(b.atomic(op(ADD, 3, 1)), Err(Errno::INVAL));
    assert_eq!(b.atomic(op(ADD, 0, 1)), Err(Errno::INVAL));
    let longest = MAX_ATOMIC_BYTES;
    assert_eq!(b.atomic(op(ADD, longest + 2, 1)), Err(Errno::MSGSIZE));
    assert_eq!(b.atomic(op(SWAP, longest, 1)), Err(Errno::MSGSIZE));
    let short = AtomicOp {
        result: Iov::empty(),
        ..op(FETCH_ADD, 4, 1)
    };
    assert_eq!(b.atomic(short), Err(Errno::INVAL));
    b.assert_empty();
    b.atomic(op(ADD, longest, 1)).expect("that is not too long");
    b.atomic(op(SWAP, longest / 2, 1)).expect("nor is that");
}

#[test]
fn atomics_keep_their_place_among_messages() {
    let mut b = Bench::new();
    b.link.answers.push_back(Err(PostError::Again));
    b.send(tx(&memory(b"abc"), 1)).expect("room");
    b.atomic(op(ADD, 2, 2)).expect("room");
    b.send(tx(&memory(b"def"), 3)).expect("room");
    b.tell(|sink| sink.writable(PEER));
    let kinds: Vec<_> = b.link.posted.iter().map(|sent| sent.header.kind).collect();
    assert_eq!(kinds, [Kind::Msg, Kind::Atomic, Kind::Msg]);
}

#[test]
fn a_response_may_come_before_the_link_lets_go_of_the_frame() {
    let mut b = Bench::new();
    b.link.answers.push_back(Ok(Posted::Pending));
    b.atomic(op(FETCH_ADD, 2, 1)).expect("room");
    let sent = b.frame();
    assert!(b.arrive(PEER, response(&sent.header, 2), b"ab").is_done());
    assert_eq!(b.done().context, 1);
    b.tell(move |sink| sink.sent(sent.token, Ok(())));
    b.assert_empty();
}
