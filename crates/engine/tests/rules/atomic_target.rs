//! Updating memory for peers: fi_atomic(3).

use oxifabric_collectives::arithmetic::{Datatype, Form, Operation};
use oxifabric_engine::{AtomicOp, Header, HeaderFlags, Kind, PostError, Target, Update};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Flags};

use crate::script::*;

const KEY: u64 = 0xfeed;

/// What an atomic does that fetches and changes.
const FETCHED: Flags = Flags::REMOTE_READ.union(Flags::REMOTE_WRITE);

fn target(addr: u64, len: u64) -> Target {
    Target {
        addr,
        len,
        key: KEY,
    }
}

/// Returns the header of an atomic on bytes.
fn header(kind: Kind, operation: Operation, len: usize) -> Header {
    Header {
        kind,
        id: 6,
        tag: Datatype::Uint8 as u64 | (operation as u64) << 8,
        ..msg(len)
    }
}

fn bench(content: &[u8]) -> (Bench, Iov) {
    let mut b = Bench::new();
    let region = memory(content);
    b.register(KEY, &region);
    (b, region)
}

#[test]
fn an_atomic_updates_what_its_target_names() {
    let (mut b, region) = bench(&[10, 20, 30, 40]);
    let add = header(Kind::Atomic, Operation::Sum, 2);
    assert!(b.arrive_at(add, target(1, 2), &[1, 2]).is_done());
    assert_eq!(content(&region), [10, 21, 32, 40]);
    let done = b.done();
    assert_eq!(done.flags, Flags::ATOMIC | Flags::REMOTE_WRITE);
    assert_eq!((done.wanted, done.context as u64), (false, KEY));
    b.assert_empty();
    assert!(b.link.posted.is_empty());
}

#[test]
fn completion_data_of_an_atomic_is_reported() {
    let (mut b, _region) = bench(&[0; 4]);
    for (kind, operation, flag) in [
        (Kind::Atomic, Operation::Sum, Flags::REMOTE_WRITE),
        (Kind::FetchAtomic, Operation::Sum, FETCHED),
    ] {
        let with_data = Header {
            flags: HeaderFlags::DATA,
            data: 5,
            ..header(kind, operation, 1)
        };
        b.arrive_at(with_data, target(0, 1), &[1]);
        let done = b.done();
        assert_eq!((done.wanted, done.data), (true, 5));
        assert_eq!(done.flags, Flags::ATOMIC | flag | Flags::REMOTE_CQ_DATA);
    }
    b.assert_empty();
}

#[test]
fn an_atomic_that_names_no_memory_is_refused() {
    let (mut b, _region) = bench(&[0; 4]);
    let with_data = Header {
        flags: HeaderFlags::DATA,
        data: 5,
        ..header(Kind::Atomic, Operation::Sum, 0)
    };
    assert!(b.arrive_at_all(with_data, &[], &[]).is_refusal());
    assert!(b.event().is_none());
    b.assert_empty();
}

#[test]
fn an_acknowledgement_says_that_it_is_done() {
    let (mut b, region) = bench(&[1; 4]);
    let delivery = Header {
        flags: HeaderFlags::DELIVERY,
        ..header(Kind::Atomic, Operation::Sum, 1)
    };
    assert!(b.arrive_at(delivery, target(0, 1), &[1]).is_done());
    assert_eq!((b.frame().header.kind, content(&region)[0]), (Kind::Ack, 2));
    b.done();
    b.assert_empty();
}

#[test]
fn a_fetch_answers_with_what_was_there() {
    let (mut b, region) = bench(&[10, 20, 30, 40]);
    let add = header(Kind::FetchAtomic, Operation::Sum, 2);
    assert!(b.arrive_at(add, target(1, 2), &[1, 2]).is_done());
    let answered = b.frame();
    assert_eq!(
        (answered.header.kind, answered.header.tag),
        (Kind::Response, 6)
    );
    assert_eq!(answered.body, [20, 30]);
    assert_eq!(content(&region), [10, 21, 32, 40]);
    assert_eq!(b.done().flags, Flags::ATOMIC | FETCHED);
    b.assert_empty();
    let read = header(Kind::FetchAtomic, Operation::Read, 0);
    assert!(b.arrive_at(read, target(0, 4), &[]).is_done());
    assert_eq!(b.frame().body, [10, 21, 32, 40]);
    b.done();
    b.assert_empty();
}

#[test]
fn an_operand_of_a_read_is_ignored() {
    let (mut b, region) = bench(&[10, 20, 30, 40]);
    let read = header(Kind::FetchAtomic, Operation::Read, 2);
    assert!(b.arrive_at(read, target(1, 2), &[1, 2]).is_done());
    assert_eq!(b.frame().body, [20, 30]);
    assert_eq!(content(&region), [10, 20, 30, 40]);
    b.done();
    b.assert_empty();
}

#[test]
fn a_swap_compares_with_the_second_half_of_the_body() {
    let (mut b, region) = bench(&[10, 20]);
    let swap = header(Kind::CompareAtomic, Operation::Cswap, 4);
    assert!(b.arrive_at(swap, target(0, 2), &[1, 2, 9, 20]).is_done());
    assert_eq!(
        (b.frame().body, content(&region)),
        (vec![10, 20], vec![10, 2])
    );
    b.done();
    b.assert_empty();
}

#[test]
fn long_lists_are_updated_to_the_end() {
    let (mut b, region) = bench(&[1; 700]);
    let add = header(Kind::FetchAtomic, Operation::Sum, 700);
    let operand: Vec<u8> = (0..700u32).map(|at| at as u8).collect();
    assert!(b.arrive_at(add, target(0, 700), &operand).is_done());
    let expected: Vec<u8> = operand.iter().map(|byte| byte.wrapping_add(1)).collect();
    assert_eq!(content(&region), expected);
}

/// Of a link whose peers send longer ones than this engine. The frames of the bench have 8 bytes, but what an atomic fetches is not cut.
#[test]
fn an_atomic_may_be_as_long_as_the_link_says_and_its_answer_is_whole() {
    let mut b: Bench<false> = Bench::made(|_| {}, |_| {});
    let region = memory(&[1; LONG_ATOMIC + 1]);
    b.register(KEY, &region);
    let long = target(0, LONG_ATOMIC as u64);
    let add = header(Kind::FetchAtomic, Operation::Sum, LONG_ATOMIC);
    assert!(b.arrive_at(add, long, &[2; LONG_ATOMIC]).is_done());
    let answered = b.frame();
    assert_eq!(answered.header.kind, Kind::Response);
    assert_eq!(answered.body, [1; LONG_ATOMIC]);
    assert!(b.link.posted.is_empty());
    let mut expected = vec![3; LONG_ATOMIC];
    expected.push(1);
    assert_eq!(content(&region), expected);
    b.done();
    let read = header(Kind::FetchAtomic, Operation::Read, 0);
    assert!(b.arrive_at(read, long, &[]).is_done());
    assert_eq!(b.frame().body, [3; LONG_ATOMIC]);
    b.done();
    let longer = header(Kind::Atomic, Operation::Sum, LONG_ATOMIC + 1);
    let too_long = target(0, LONG_ATOMIC as u64 + 1);
    let taken = b.arrive_at(longer, too_long, &[2; LONG_ATOMIC + 1]);
    assert!(taken.is_refusal());
    b.assert_empty();
}

#[test]
fn nothing_is_changed_before_the_body_is_here() {
    let (mut b, region) = bench(&[10, 20]);
    let delivery = Header {
        flags: HeaderFlags::DELIVERY,
        ..header(Kind::Atomic, Operation::Sum, 2)
    };
    let (into, token) = b.arrive_at_stream(delivery, target(0, 2), 2).into_parts();
    into.write(0, &[1, 2]);
    assert_eq!((b.event(), content(&region)), (None, vec![10, 20]));
    b.tell(move |sink| sink.placed(token, Ok(())));
    assert_eq!((b.done().len, content(&region)), (2, vec![11, 22]));
    assert_eq!(b.frame().header.kind, Kind::Ack);
    b.assert_empty();
}

#[test]
fn an_atomic_cut_short_changes_nothing() {
    let (mut b, region) = bench(&[10, 20]);
    let add = header(Kind::FetchAtomic, Operation::Sum, 2);
    let (into, token) = b.arrive_at_stream(add, target(0, 2), 2).into_parts();
    into.write(0, &[1]);
    b.tell(move |sink| {
        sink.placed(token, Err(Errno::CONNRESET));
        sink.peer_down(PEER, Errno::CONNRESET);
    });
    assert_eq!(content(&region), [10, 20]);
    b.assert_empty();
}

#[test]
fn an_atomic_that_is_not_allowed_is_refused_by_name_or_drops_the_connection() {
    let unknown = Target {
        key: 1,
        ..target(0, 1)
    };
    let (mut b, region) = bench(&[10]);
    let add = header(Kind::Atomic, Operation::Sum, 1);
    assert!(b.arrive_at(add, unknown, &[1]).is_refusal());
    let delivery = Header {
        flags: HeaderFlags::DELIVERY,
        ..add
    };
    let fetch = header(Kind::FetchAtomic, Operation::Sum, 1);
    for named in [delivery, fetch] {
        assert!(b.arrive_at(named, unknown, &[1]).is_done());
        let fin = b.frame().header;
        assert_eq!((fin.kind, fin.id), (Kind::Fin, 6));
        assert_eq!(fin.data, Errno::NOKEY.raw() as u64);
    }
    let dropped = b.arrive_at_stream(fetch, unknown, 1);
    assert!(matches!(dropped, Answer::Discard));
    b.frame();
    assert_eq!(content(&region), [10]);
    b.assert_empty();
}

#[test]
fn what_no_atomic_can_be_is_refused() {
    let (mut b, region) = bench(&[10; 8]);
    let refused = |b: &mut Bench, header: Header, target: Target, body: &[u8], errno: Errno| {
        assert!(b.arrive_at(header, target, body).is_done());
        assert_eq!(b.frame().header.data, errno.raw() as u64);
    };
    let fetch = header(Kind::FetchAtomic, Operation::Sum, 2);
    let swap_in_fetch = header(Kind::FetchAtomic, Operation::Cswap, 2);
    refused(
        &mut b,
        swap_in_fetch,
        target(0, 2),
        &[1; 2],
        Errno::OPNOTSUPP,
    );
    let unknown = Header { tag: 77, ..fetch };
    refused(&mut b, unknown, target(0, 2), &[1; 2], Errno::OPNOTSUPP);
    // The operand has another length than the target, or the target is half an element.
    refused(&mut b, fetch, target(0, 3), &[1; 2], Errno::INVAL);
    refused(&mut b, fetch, target(0, 0), &[1; 2], Errno::INVAL);
    let odd = Header {
        tag: Datatype::Uint16 as u64 | (Operation::Sum as u64) << 8,
        len: 3,
        ..fetch
    };
    refused(&mut b, odd, target(0, 3), &[1; 3], Errno::INVAL);
    // The frame is not whole, or longer than any atomic.
    assert!(b.arrive_at(fetch, target(0, 2), &[1]).is_refusal());
    let long = Header { len: 5000, ..fetch };
    assert!(b.arrive_at(long, target(0, 5000), &[1; 5000]).is_refusal());
    assert!(b.arrive(PEER, fetch, &[1; 2]).is_refusal());
    assert_eq!(content(&region), [10; 8]);
    b.assert_empty();
}

#[test]
fn atomics_whose_answers_are_never_read_do_not_pile_up() {
    let (mut b, region) = bench(&[0; 8]);
    b.link.answers.push_back(Err(PostError::Again));
    let add = Header {
        tag: Datatype::Uint64 as u64 | (Operation::Sum as u64) << 8,
        ..header(Kind::FetchAtomic, Operation::Sum, 8)
    };
    let one = 1u64.to_ne_bytes();
    let taken = (0..100_000u64).find(|_| b.arrive_at(add, target(0, 8), &one).is_stall());
    let taken = taken.expect("it ends");
    // What was not taken has not been done either.
    assert_eq!(content(&region), taken.to_ne_bytes());
    b.tell(|sink| sink.writable(PEER));
    assert_eq!(b.link.posted.len() as u64, taken);
    assert_eq!(b.link.resumed, [PEER]);
}

#[test]
fn memory_of_the_endpoint_itself_is_updated_at_once() {
    let (mut b, region) = bench(&[10, 20]);
    let swap = |operand: &[u8], compare: &[u8]| AtomicOp {
        peer: ME,
        update: Update {
            form: Form::Compare,
            datatype: Datatype::Uint8,
            operation: Operation::Cswap,
        },
        targets: Box::new([target(0, 2)]),
        operand: memory(operand),
        compare: memory(compare),
        result: memory(&[0; 2]),
        data: 7,
        flags: Flags::ATOMIC | Flags::READ | Flags::COMPLETION | Flags::REMOTE_CQ_DATA,
        context: 3,
    };
    let op = swap(&[1, 2], &[10, 0]);
    let result = op.result.clone();
    b.atomic(op).expect("it is done at once");
    assert_eq!(
        (content(&result), content(&region)),
        (vec![10, 20], vec![1, 20])
    );
    assert_eq!(b.done().flags, Flags::ATOMIC | Flags::READ);
    let remote = b.done();
    assert_eq!(
        (remote.flags, remote.data),
        (Flags::ATOMIC | FETCHED | Flags::REMOTE_CQ_DATA, 7)
    );
    let mut unknown = swap(&[1, 2], &[10, 0]);
    unknown.targets[0].key = 1;
    b.atomic(unknown).expect("it fails later");
    assert_eq!(b.failed().errno, Errno::NOKEY);
    b.assert_empty();
}
