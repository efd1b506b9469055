//! Atomic operations on the memory of peers.

use core::ptr::null_mut;

use oxifabric_abi::*;
use oxifabric_fixtures::fixture::{Pair, bind, close};
use oxifabric_fixtures::rma_fixture::{BOTH, RmaFixture, elements_of};
use oxifabric_fixtures::traffic::TIMEOUT;
use oxifabric_fixtures::{c, refused};

use crate::requirements;

/// Returns how many elements an operation takes at once.
fn most(rma: &RmaFixture, datatype: fi_datatype, op: fi_op) -> usize {
    let mut count = 0;
    assert_eq!(
        c!(fi_atomicvalid(rma.pair.a.ep, datatype, op, &mut count)),
        0
    );
    count
}

/// Returns the only message of `a`'s first element of the region, with one operand of 64 bits.
fn with_message<R>(
    rma: &RmaFixture,
    operand: u64,
    run: impl FnOnce(*const fi_msg_atomic) -> R,
) -> R {
    let pair = &rma.pair;
    let place = elements_of(pair, &[operand]);
    let iov = fi_ioc {
        addr: place.cast(),
        count: 1,
    };
    let target = fi_rma_ioc {
        addr: rma.base,
        count: 1,
        key: rma.key(),
    };
    let msg = fi_msg_atomic {
        msg_iov: &iov,
        iov_count: 1,
        addr: pair.to_b,
        rma_iov: &target,
        rma_iov_count: 1,
        datatype: FI_UINT64,
        op: FI_SUM,
        context: pair.a.traffic.context(),
        ..fi_msg_atomic::ZERO
    };
    run(&msg)
}

/// Datatypes, and how many bytes they have.
const TYPES: [(fi_datatype, usize); 10] = [
    (FI_INT8, 1),
    (FI_UINT8, 1),
    (FI_INT16, 2),
    (FI_UINT16, 2),
    (FI_INT32, 4),
    (FI_UINT32, 4),
    (FI_INT64, 8),
    (FI_UINT64, 8),
    (FI_FLOAT, 4),
    (FI_DOUBLE, 8),
];

const U64_SUM: (fi_datatype, fi_op) = (FI_UINT64, FI_SUM);

requirements! { "fi_atomic(3)";

/// An atomic changes the elements that it names and no others.
fn neighbours_are_left_alone(subject) {
    let rma = RmaFixture::atomic(subject, BOTH);
    rma.update(FI_UINT8, FI_ATOMIC_WRITE, &[1_u8, 2, 3]);
    let _ = rma.pair.done(&rma.pair.a);
    assert_eq!(&rma.region()[..5], [1, 2, 3, 0x55, 0x55]);
    rma.close();
}

/// As many elements as the call said take part at once.
fn as_many_elements_as_was_said(subject) {
    let rma = RmaFixture::atomic(subject, BOTH);
    let count = most(&rma, FI_UINT64, FI_SUM).min(rma.len / 8);
    rma.fill(&vec![5_u64; count]);
    let operands: Vec<u64> = (0..count as u64).collect();
    assert_eq!(rma.fetch(FI_UINT64, FI_SUM, &operands), vec![5; count]);
    let expected: Vec<u64> = (5..5 + count as u64).collect();
    assert!(rma.elements::<u64>(count) == expected);
    rma.close();
}

/// More elements than the call said are refused with -FI_EMSGSIZE.
fn more_elements_than_was_said_are_refused(subject) {
    let rma = RmaFixture::atomic(subject, BOTH);
    let count = most(&rma, FI_UINT64, FI_SUM) + 1;
    let pair = &rma.pair;
    let place = elements_of(pair, &vec![1_u64; count]);
    let context = pair.a.traffic.context();
    let (at, key) = (rma.base, rma.key());
    let code = c!(fi_atomic(
        pair.a.ep, place.cast(), count, null_mut(), pair.to_b, at, key, FI_UINT64, FI_SUM, context
    ));
    assert_eq!(code, -(FI_EMSGSIZE as isize));
    rma.close();
}

/// What atomics of each kind are valid, fi_query_atomic says as the endpoint does.
fn a_query_says_what_the_endpoint_says(subject) {
    let rma = RmaFixture::atomic(subject, BOTH);
    let (ep, domain) = (rma.pair.a.ep, rma.fixture.domain);
    for (datatype, _) in TYPES {
        for op in FI_MIN..=FI_MSWAP {
            let mut attr = fi_atomic_attr::ZERO;
            let mut count = 0;
            let valid = c!(fi_atomicvalid(ep, datatype, op, &mut count)) == 0;
            let queried = c!(fi_query_atomic(domain, datatype, op, &mut attr, 0)) == 0;
            assert_eq!((valid, count > 0), (queried, valid), "base {datatype} {op}");
            assert!(!valid || attr.count == count);
            let (mut count, mut attr) = (0, fi_atomic_attr::ZERO);
            let valid = c!(fi_fetch_atomicvalid(ep, datatype, op, &mut count)) == 0;
            let queried = c!(fi_query_atomic(domain, datatype, op, &mut attr, FI_FETCH_ATOMIC)) == 0;
            assert_eq!((valid, count > 0), (queried, valid), "fetch {datatype} {op}");
            assert!(!valid || attr.count == count);
            let (mut count, mut attr) = (0, fi_atomic_attr::ZERO);
            let valid = c!(fi_compare_atomicvalid(ep, datatype, op, &mut count)) == 0;
            let queried = c!(fi_query_atomic(domain, datatype, op, &mut attr, FI_COMPARE_ATOMIC)) == 0;
            assert_eq!((valid, count > 0), (queried, valid), "compare {datatype} {op}");
            assert!(!valid || attr.count == count);
        }
    }
    rma.close();
}

/// A query tells the size of the datatype.
fn a_query_tells_sizes(subject) {
    let rma = RmaFixture::atomic(subject, BOTH);
    for (datatype, size) in TYPES {
        let mut attr = fi_atomic_attr::ZERO;
        assert_eq!(c!(fi_query_atomic(rma.fixture.domain, datatype, FI_SUM, &mut attr, 0)), 0);
        assert_eq!(attr.size, size);
    }
    rma.close();
}

/// A query is for one kind of atomics: FI_FETCH_ATOMIC and FI_COMPARE_ATOMIC together are an error.
fn a_query_is_for_one_kind(subject) {
    let rma = RmaFixture::atomic(subject, BOTH);
    let mut attr = fi_atomic_attr::ZERO;
    let flags = FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC;
    refused!(c!(fi_query_atomic(rma.fixture.domain, FI_UINT64, FI_SUM, &mut attr, flags)), FI_EBADFLAGS);
    rma.close();
}

/// Operations that compare are not valid for base and fetching atomics: -FI_EOPNOTSUPP.
fn swaps_are_comparing_atomics_only(subject) {
    let rma = RmaFixture::atomic(subject, BOTH);
    let pair = &rma.pair;
    let mut count = 0;
    refused!(c!(fi_atomicvalid(pair.a.ep, FI_UINT64, FI_CSWAP, &mut count)), FI_EOPNOTSUPP);
    refused!(c!(fi_fetch_atomicvalid(pair.a.ep, FI_UINT64, FI_MSWAP, &mut count)), FI_EOPNOTSUPP);
    let (place, context) = (elements_of(pair, &[1_u64]), pair.a.traffic.context());
    let (at, key) = (rma.base, rma.key());
    let code = c!(fi_atomic(
        pair.a.ep, place.cast(), 1, null_mut(), pair.to_b, at, key, FI_UINT64, FI_CSWAP, context
    ));
    assert_eq!(code, -(FI_EOPNOTSUPP as isize));
    rma.close();
}

/// FI_ATOMIC_READ is no base atomic, and sums are no comparing atomics.
fn reads_are_fetching_atomics_only(subject) {
    let rma = RmaFixture::atomic(subject, BOTH);
    let ep = rma.pair.a.ep;
    let mut count = 0;
    refused!(c!(fi_atomicvalid(ep, FI_UINT64, FI_ATOMIC_READ, &mut count)), FI_EOPNOTSUPP);
    refused!(c!(fi_compare_atomicvalid(ep, FI_UINT64, FI_SUM, &mut count)), FI_EOPNOTSUPP);
    rma.close();
}

/// Bits of floating point numbers are not operated on.
fn floats_have_no_bits(subject) {
    let rma = RmaFixture::atomic(subject, BOTH);
    let mut count = 0;
    for op in [FI_BOR, FI_BAND, FI_BXOR] {
        refused!(c!(fi_atomicvalid(rma.pair.a.ep, FI_DOUBLE, op, &mut count)), FI_EOPNOTSUPP);
    }
    rma.close();
}

/// The completion of an atomic has its context and says what it was.
fn an_atomic_completes_with_its_context(subject) {
    let rma = RmaFixture::atomic(subject, BOTH);
    let context = rma.update(FI_UINT64, FI_SUM, &[1_u64]);
    let done = rma.pair.done(&rma.pair.a);
    assert_eq!(done.op_context, context);
    assert_eq!(done.flags & (FI_ATOMIC | FI_RMA | FI_MSG | FI_RECV), FI_ATOMIC);
    rma.close();
}

/// The peer is not told of an atomic.
fn an_atomic_is_silent(subject) {
    let rma = RmaFixture::atomic(subject, BOTH);
    let _ = rma.fetch(FI_UINT64, FI_SUM, &[1_u64]);
    assert!(rma.pair.b.read().is_none());
    rma.close();
}

/// What an atomic fetches is there when it completes, whatever completion was asked for.
fn results_are_there_at_completion(subject) {
    let fixture = oxifabric_fixtures::fixture::Fixture::with(subject, |hints| {
        hints.caps |= oxifabric_fixtures::rma_fixture::ACCESS | FI_ATOMIC;
        c!((*hints.tx_attr).op_flags = FI_INJECT_COMPLETE);
    });
    let rma = RmaFixture::with(fixture, BOTH);
    let target: Vec<u64> = (0..200).collect();
    rma.fill(&target);
    for round in 0..20 {
        let expected: Vec<u64> = target.iter().map(|at| at + round).collect();
        assert_eq!(rma.fetch(FI_UINT64, FI_SUM, &[1; 200]), expected);
    }
    rma.close();
}

/// The buffer of an injected atomic is free when the call returns, and there is no completion.
fn an_injected_atomic_is_silent(subject) {
    let rma = RmaFixture::atomic(subject, BOTH);
    rma.fill(&[40_u64]);
    let pair = &rma.pair;
    let operand = elements_of(pair, &[2_u64]);
    let (at, key) = (rma.base, rma.key());
    pair.start(|| c!(fi_inject_atomic(pair.a.ep, operand.cast(), 1, pair.to_b, at, key, FI_UINT64, FI_SUM)));
    c!(*operand = 77);
    let begun = std::time::Instant::now();
    while rma.elements::<u64>(1) != [42] && begun.elapsed() < TIMEOUT {
        pair.progress(&pair.a);
        pair.progress(&pair.b);
    }
    assert_eq!(rma.elements::<u64>(1), [42]);
    assert!(pair.a.read().is_none());
    rma.close();
}

/// More than inject_size bytes cannot be injected.
fn too_many_elements_cannot_be_injected(subject) {
    let rma = RmaFixture::atomic(subject, BOTH);
    let pair = &rma.pair;
    let count = c!((*rma.fixture.info.first().tx_attr).inject_size) / 8 + 1;
    let operands = elements_of(pair, &vec![0_u64; count]);
    let (at, key) = (rma.base, rma.key());
    let code = c!(fi_inject_atomic(
        pair.a.ep, operands.cast(), count, pair.to_b, at, key, FI_UINT64, FI_SUM
    ));
    refused!(code, FI_EMSGSIZE);
    rma.close();
}

/// Operands are gathered from several buffers.
fn operands_are_gathered(subject) {
    let rma = RmaFixture::atomic(subject, BOTH);
    rma.fill(&[10_u64, 20, 30]);
    let pair = &rma.pair;
    let (one, other) = (elements_of(pair, &[1_u64]), elements_of(pair, &[2_u64, 3]));
    let pieces = [
        fi_ioc { addr: one.cast(), count: 1 },
        fi_ioc { addr: other.cast(), count: 2 },
    ];
    let context = pair.a.traffic.context();
    let (at, key) = (rma.base, rma.key());
    pair.start(|| {
        c!(fi_atomicv(
            pair.a.ep, pieces.as_ptr(), null_mut(), 2, pair.to_b, at, key, FI_UINT64, FI_SUM, context
        ))
    });
    let _ = pair.done(&pair.a);
    assert_eq!(rma.elements::<u64>(3), [11, 22, 33]);
    rma.close();
}

/// What is fetched is scattered into several buffers.
fn results_are_scattered(subject) {
    let rma = RmaFixture::atomic(subject, BOTH);
    rma.fill(&[10_u64, 20, 30]);
    let pair = &rma.pair;
    let operands = elements_of(pair, &[1_u64; 3]);
    let from = fi_ioc { addr: operands.cast(), count: 3 };
    let (one, other) = (elements_of(pair, &[0_u64; 2]), elements_of(pair, &[0_u64]));
    let mut into = [
        fi_ioc { addr: one.cast(), count: 2 },
        fi_ioc { addr: other.cast(), count: 1 },
    ];
    let context = pair.a.traffic.context();
    let (at, key) = (rma.base, rma.key());
    let into = into.as_mut_ptr();
    pair.start(|| {
        c!(fi_fetch_atomicv(
            pair.a.ep, &from, null_mut(), 1, into, null_mut(), 2, pair.to_b, at, key, FI_UINT64, FI_SUM, context
        ))
    });
    let _ = pair.done(&pair.a);
    assert_eq!(c!([*one, *one.add(1), *other]), [10, 20, 30]);
    assert_eq!(rma.elements::<u64>(3), [11, 21, 31]);
    rma.close();
}

/// With selective completions, only atomics with FI_COMPLETION write one.
fn atomics_with_a_message_may_ask_for_completion(subject) {
    let fixture = oxifabric_fixtures::fixture::Fixture::with(subject, |hints| hints.caps |= oxifabric_fixtures::rma_fixture::ACCESS | FI_ATOMIC);
    let a = fixture.end_with(FI_SEND | FI_RECV | FI_SELECTIVE_COMPLETION, |_| {});
    let pair = Pair::of(a, fixture.end());
    let rma = RmaFixture::of(fixture, pair, BOTH);
    rma.fill(&[0_u64]);
    rma.update(FI_UINT64, FI_SUM, &[1_u64]);
    let context = with_message(&rma, 2, |msg| {
        rma.pair.start(|| c!(fi_atomicmsg(rma.pair.a.ep, msg, FI_COMPLETION | FI_DELIVERY_COMPLETE)));
        c!((*msg).context)
    });
    assert_eq!(rma.pair.done(&rma.pair.a).op_context, context);
    assert!(rma.pair.a.read().is_none());
    let begun = std::time::Instant::now();
    while rma.elements::<u64>(1) != [3] && begun.elapsed() < TIMEOUT {
        rma.pair.progress(&rma.pair.b);
    }
    assert_eq!(rma.elements::<u64>(1), [3]);
    rma.close();
}

/// With FI_INJECT the operands are free when the call returns.
fn an_atomic_with_inject_frees_its_operands(subject) {
    let rma = RmaFixture::atomic(subject, BOTH);
    rma.fill(&[40_u64]);
    with_message(&rma, 2, |msg| {
        rma.pair.start(|| c!(fi_atomicmsg(rma.pair.a.ep, msg, FI_INJECT | FI_COMPLETION | FI_DELIVERY_COMPLETE)));
        c!((*(*msg).msg_iov).addr.cast::<u64>().write(99));
    });
    let _ = rma.pair.done(&rma.pair.a);
    assert_eq!(rma.elements::<u64>(1), [42]);
    rma.close();
}

/// A fenced atomic sees the results of what was posted before it.
fn a_fenced_atomic_is_the_last(subject) {
    let fixture = oxifabric_fixtures::fixture::Fixture::with(subject, |hints| {
        hints.caps |= oxifabric_fixtures::rma_fixture::ACCESS | FI_ATOMIC | FI_FENCE;
        c!((*hints.tx_attr).op_flags = FI_DELIVERY_COMPLETE);
    });
    let rma = RmaFixture::with(fixture, BOTH);
    // The write is long; the atomic must not overtake its first bytes.
    rma.write(&vec![0; 500_000], 0, rma.key());
    with_message(&rma, 5, |msg| {
        rma.pair.start(|| c!(fi_atomicmsg(rma.pair.a.ep, msg, FI_FENCE | FI_COMPLETION | FI_DELIVERY_COMPLETE)));
    });
    let _ = (rma.pair.done(&rma.pair.a), rma.pair.done(&rma.pair.a));
    assert_eq!(rma.elements::<u64>(1), [5]);
    rma.close();
}

/// Memory that may only be read is not updated.
fn an_update_needs_the_right_to_write(subject) {
    let rma = RmaFixture::atomic(subject, FI_REMOTE_READ);
    rma.update(FI_UINT64, FI_SUM, &[1_u64]);
    rma.refused(FI_EACCES);
    rma.close();
}

/// Memory that may only be written is not fetched.
fn a_fetch_needs_the_right_to_read(subject) {
    let rma = RmaFixture::atomic(subject, FI_REMOTE_WRITE);
    let pair = &rma.pair;
    let (result, context) = (elements_of(pair, &[7_u64]), pair.a.traffic.context());
    let (at, key) = (rma.base, rma.key());
    pair.start(|| {
        c!(fi_fetch_atomic(
            pair.a.ep, null_mut(), 1, null_mut(), result.cast(), null_mut(), pair.to_b, at, key, FI_UINT64,
            FI_ATOMIC_READ, context
        ))
    });
    rma.refused(FI_EACCES);
    assert_eq!(c!(*result), 7);
    rma.close();
}

/// A key that was not given changes nothing.
fn a_false_key_changes_nothing(subject) {
    let rma = RmaFixture::atomic(subject, BOTH);
    let pair = &rma.pair;
    let (place, context) = (elements_of(pair, &[1_u64]), pair.a.traffic.context());
    let (at, key) = (rma.base, rma.key() ^ 0xFFFF);
    pair.start(|| {
        c!(fi_atomic(pair.a.ep, place.cast(), 1, null_mut(), pair.to_b, at, key, FI_UINT64, FI_SUM, context))
    });
    assert_eq!(rma.refused(FI_ENOKEY).op_context, context);
    rma.close();
}

/// Elements beyond the region are not touched, nor those before them.
fn bounds_are_checked(subject) {
    let rma = RmaFixture::atomic(subject, BOTH);
    let pair = &rma.pair;
    let (place, context) = (elements_of(pair, &[1_u64; 2]), pair.a.traffic.context());
    let (at, key) = (rma.base + rma.len as u64 - 8, rma.key());
    pair.start(|| {
        c!(fi_atomic(pair.a.ep, place.cast(), 2, null_mut(), pair.to_b, at, key, FI_UINT64, FI_SUM, context))
    });
    rma.refused(FI_EACCES);
    rma.close();
}

/// Each element is updated as a whole: what several endpoints add, adds up.
fn what_several_add_adds_up(subject) {
    let rma = RmaFixture::atomic(subject, BOTH);
    rma.fill(&[0_u64]);
    let pair = &rma.pair;
    let third = rma.fixture.end();
    let to_b = third.knows(&pair.b);
    let one = elements_of(pair, &[1_u64]);
    let (at, key) = (rma.base, rma.key());
    for ep in [(pair.a.ep, pair.to_b), (third.ep, to_b)].into_iter().cycle().take(100) {
        pair.start(|| {
            let _ = third.read();
            let context = pair.a.traffic.context();
            c!(fi_atomic(ep.0, one.cast(), 1, null_mut(), ep.1, at, key, U64_SUM.0, U64_SUM.1, context))
        });
    }
    let begun = std::time::Instant::now();
    while rma.elements::<u64>(1) != [100] && begun.elapsed() < TIMEOUT {
        let _ = (third.read(), pair.a.read(), pair.b.read());
    }
    assert_eq!(rma.elements::<u64>(1), [100]);
    drop(third);
    rma.close();
}

/// A counter for writes counts updates, and one for reads counts what fetches.
fn atomics_are_counted(subject) {
    let fixture = oxifabric_fixtures::fixture::Fixture::with(subject, |hints| {
        hints.caps |= oxifabric_fixtures::rma_fixture::ACCESS | FI_ATOMIC;
        c!((*hints.tx_attr).op_flags = FI_DELIVERY_COMPLETE);
    });
    let (written, read) = (fixture.cntr(FI_WAIT_UNSPEC), fixture.cntr(FI_WAIT_UNSPEC));
    let a = fixture.end_with(FI_SEND | FI_RECV, |ep| {
        assert_eq!((bind(ep, written, FI_WRITE), bind(ep, read, FI_READ)), (0, 0));
    });
    let pair = Pair::of(a, fixture.end());
    let rma = RmaFixture::of(fixture, pair, BOTH);
    rma.update(FI_UINT64, FI_SUM, &[1_u64]);
    let _ = rma.pair.done(&rma.pair.a);
    let counts = || (c!(fi_cntr_read(written)), c!(fi_cntr_read(read)));
    assert_eq!(counts(), (1, 0));
    let _ = rma.fetch(FI_UINT64, FI_SUM, &[1_u64]);
    assert_eq!(counts(), (1, 1));
    let RmaFixture { pair, mr, fixture, .. } = rma;
    assert_eq!(close(mr), 0);
    drop(pair);
    assert_eq!((close(written), close(read)), (0, 0));
    drop(fixture);
}

/// An endpoint updates its own memory.
fn an_endpoint_updates_itself(subject) {
    let rma = RmaFixture::atomic(subject, BOTH);
    let pair = &rma.pair;
    rma.fill(&[1_u64]);
    let me = pair.b.knows(&pair.b);
    let (place, context) = (pair.b.traffic.buffer(&[2, 0, 0, 0, 0, 0, 0, 0]), pair.b.traffic.context());
    let (at, key) = (rma.base, rma.key());
    pair.start(|| {
        c!(fi_atomic(pair.b.ep, place.cast(), 1, null_mut(), me, at, key, FI_UINT64, FI_SUM, context))
    });
    assert_eq!(pair.done(&pair.b).op_context, context);
    assert_eq!(rma.elements::<u64>(1), [3]);
    rma.close();
}
}
