//! Atomic operations on the memory of peers.

use core::ptr::null_mut;

use oxifabric_abi::*;

use crate::ground::{BOTH, Ground, elements_of};
use crate::traffic::PATIENCE;
use crate::world::{Two, bind, close};
use crate::{c, sentences};

/// How many elements an operation takes at once.
fn most(ground: &Ground, datatype: fi_datatype, op: fi_op) -> usize {
    let mut count = 0;
    assert_eq!(
        c!(fi_atomicvalid(ground.two.a.ep, datatype, op, &mut count)),
        0
    );
    count
}

/// The only message of `a`'s first element of the region, with one operand of 64 bits.
fn with_message<R>(
    ground: &Ground,
    operand: u64,
    run: impl FnOnce(*const fi_msg_atomic) -> R,
) -> R {
    let two = &ground.two;
    let place = elements_of(two, &[operand]);
    let iov = fi_ioc {
        addr: place.cast(),
        count: 1,
    };
    let target = fi_rma_ioc {
        addr: ground.base,
        count: 1,
        key: ground.key(),
    };
    let msg = fi_msg_atomic {
        msg_iov: &iov,
        iov_count: 1,
        addr: two.to_b,
        rma_iov: &target,
        rma_iov_count: 1,
        datatype: FI_UINT64,
        op: FI_SUM,
        context: two.a.traffic.context(),
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

sentences! { "fi_atomic(3)";

/// An atomic changes the elements that it names and no others.
fn neighbours_are_left_alone(stage) {
    let ground = Ground::atomic(stage, BOTH);
    ground.update(FI_UINT8, FI_ATOMIC_WRITE, &[1_u8, 2, 3]);
    let _ = ground.two.done(&ground.two.a);
    assert_eq!(&ground.region()[..5], [1, 2, 3, 0x55, 0x55]);
    ground.close();
}

/// As many elements as the call said take part at once.
fn as_many_elements_as_was_said(stage) {
    let ground = Ground::atomic(stage, BOTH);
    let count = most(&ground, FI_UINT64, FI_SUM).min(ground.len / 8);
    ground.fill(&vec![5_u64; count]);
    let operands: Vec<u64> = (0..count as u64).collect();
    assert_eq!(ground.fetch(FI_UINT64, FI_SUM, &operands), vec![5; count]);
    let expected: Vec<u64> = (5..5 + count as u64).collect();
    assert!(ground.elements::<u64>(count) == expected);
    ground.close();
}

/// More elements than the call said are refused with -FI_EMSGSIZE.
fn more_elements_than_was_said_are_refused(stage) {
    let ground = Ground::atomic(stage, BOTH);
    let count = most(&ground, FI_UINT64, FI_SUM) + 1;
    let two = &ground.two;
    let place = elements_of(two, &vec![1_u64; count]);
    let context = two.a.traffic.context();
    let (at, key) = (ground.base, ground.key());
    let code = c!(fi_atomic(
        two.a.ep, place.cast(), count, null_mut(), two.to_b, at, key, FI_UINT64, FI_SUM, context
    ));
    assert_eq!(code, -(FI_EMSGSIZE as isize));
    ground.close();
}

/// What atomics of each kind are valid, fi_query_atomic says as the endpoint does.
fn a_query_says_what_the_endpoint_says(stage) {
    let ground = Ground::atomic(stage, BOTH);
    let (ep, domain) = (ground.two.a.ep, ground.world.domain);
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
    ground.close();
}

/// A query tells the size of the datatype.
fn a_query_tells_sizes(stage) {
    let ground = Ground::atomic(stage, BOTH);
    for (datatype, size) in TYPES {
        let mut attr = fi_atomic_attr::ZERO;
        assert_eq!(c!(fi_query_atomic(ground.world.domain, datatype, FI_SUM, &mut attr, 0)), 0);
        assert_eq!(attr.size, size);
    }
    ground.close();
}

/// A query is for one kind of atomics: FI_FETCH_ATOMIC and FI_COMPARE_ATOMIC together are an error.
fn a_query_is_for_one_kind(stage) {
    let ground = Ground::atomic(stage, BOTH);
    let mut attr = fi_atomic_attr::ZERO;
    let flags = FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC;
    assert_ne!(c!(fi_query_atomic(ground.world.domain, FI_UINT64, FI_SUM, &mut attr, flags)), 0);
    ground.close();
}

/// Operations that compare are not valid for base and fetching atomics: -FI_EOPNOTSUPP.
fn swaps_are_comparing_atomics_only(stage) {
    let ground = Ground::atomic(stage, BOTH);
    let two = &ground.two;
    let mut count = 0;
    assert_ne!(c!(fi_atomicvalid(two.a.ep, FI_UINT64, FI_CSWAP, &mut count)), 0);
    assert_ne!(c!(fi_fetch_atomicvalid(two.a.ep, FI_UINT64, FI_MSWAP, &mut count)), 0);
    let (place, context) = (elements_of(two, &[1_u64]), two.a.traffic.context());
    let (at, key) = (ground.base, ground.key());
    let code = c!(fi_atomic(
        two.a.ep, place.cast(), 1, null_mut(), two.to_b, at, key, FI_UINT64, FI_CSWAP, context
    ));
    assert_eq!(code, -(FI_EOPNOTSUPP as isize));
    ground.close();
}

/// FI_ATOMIC_READ is no base atomic, and sums are no comparing atomics.
fn reads_are_fetching_atomics_only(stage) {
    let ground = Ground::atomic(stage, BOTH);
    let ep = ground.two.a.ep;
    let mut count = 0;
    assert_ne!(c!(fi_atomicvalid(ep, FI_UINT64, FI_ATOMIC_READ, &mut count)), 0);
    assert_ne!(c!(fi_compare_atomicvalid(ep, FI_UINT64, FI_SUM, &mut count)), 0);
    ground.close();
}

/// Bits of floating point numbers are not operated on.
fn floats_have_no_bits(stage) {
    let ground = Ground::atomic(stage, BOTH);
    let mut count = 0;
    for op in [FI_BOR, FI_BAND, FI_BXOR] {
        assert_ne!(c!(fi_atomicvalid(ground.two.a.ep, FI_DOUBLE, op, &mut count)), 0);
    }
    ground.close();
}

/// The completion of an atomic has its context and says what it was.
fn an_atomic_completes_with_its_context(stage) {
    let ground = Ground::atomic(stage, BOTH);
    let context = ground.update(FI_UINT64, FI_SUM, &[1_u64]);
    let done = ground.two.done(&ground.two.a);
    assert_eq!(done.op_context, context);
    assert_eq!(done.flags & (FI_ATOMIC | FI_RMA | FI_MSG | FI_RECV), FI_ATOMIC);
    ground.close();
}

/// The peer is not told of an atomic.
fn an_atomic_is_silent(stage) {
    let ground = Ground::atomic(stage, BOTH);
    let _ = ground.fetch(FI_UINT64, FI_SUM, &[1_u64]);
    assert!(ground.two.b.read().is_none());
    ground.close();
}

/// What an atomic fetches is there when it completes, whatever completion was asked for.
fn results_are_there_at_completion(stage) {
    let world = crate::world::World::with(stage, |hints| {
        hints.caps |= crate::ground::ACCESS | FI_ATOMIC;
        c!((*hints.tx_attr).op_flags = FI_INJECT_COMPLETE);
    });
    let ground = Ground::with(world, BOTH);
    let target: Vec<u64> = (0..200).collect();
    ground.fill(&target);
    for round in 0..20 {
        let expected: Vec<u64> = target.iter().map(|at| at + round).collect();
        assert_eq!(ground.fetch(FI_UINT64, FI_SUM, &[1; 200]), expected);
    }
    ground.close();
}

/// The buffer of an injected atomic is free when the call returns, and there is no completion.
fn an_injected_atomic_is_silent(stage) {
    let ground = Ground::atomic(stage, BOTH);
    ground.fill(&[40_u64]);
    let two = &ground.two;
    let operand = elements_of(two, &[2_u64]);
    let (at, key) = (ground.base, ground.key());
    two.start(|| c!(fi_inject_atomic(two.a.ep, operand.cast(), 1, two.to_b, at, key, FI_UINT64, FI_SUM)));
    c!(*operand = 77);
    let begun = std::time::Instant::now();
    while ground.elements::<u64>(1) != [42] && begun.elapsed() < PATIENCE {
        two.progress(&two.a);
        two.progress(&two.b);
    }
    assert_eq!(ground.elements::<u64>(1), [42]);
    assert!(two.a.read().is_none());
    ground.close();
}

/// More than inject_size bytes cannot be injected.
fn too_many_elements_cannot_be_injected(stage) {
    let ground = Ground::atomic(stage, BOTH);
    let two = &ground.two;
    let count = c!((*ground.world.info.first().tx_attr).inject_size) / 8 + 1;
    let operands = elements_of(two, &vec![0_u64; count]);
    let (at, key) = (ground.base, ground.key());
    let code = c!(fi_inject_atomic(
        two.a.ep, operands.cast(), count, two.to_b, at, key, FI_UINT64, FI_SUM
    ));
    assert!(code < 0, "{code}");
    ground.close();
}

/// Operands are gathered from several buffers.
fn operands_are_gathered(stage) {
    let ground = Ground::atomic(stage, BOTH);
    ground.fill(&[10_u64, 20, 30]);
    let two = &ground.two;
    let (one, other) = (elements_of(two, &[1_u64]), elements_of(two, &[2_u64, 3]));
    let pieces = [
        fi_ioc { addr: one.cast(), count: 1 },
        fi_ioc { addr: other.cast(), count: 2 },
    ];
    let context = two.a.traffic.context();
    let (at, key) = (ground.base, ground.key());
    two.start(|| {
        c!(fi_atomicv(
            two.a.ep, pieces.as_ptr(), null_mut(), 2, two.to_b, at, key, FI_UINT64, FI_SUM, context
        ))
    });
    let _ = two.done(&two.a);
    assert_eq!(ground.elements::<u64>(3), [11, 22, 33]);
    ground.close();
}

/// What is fetched is scattered into several buffers.
fn results_are_scattered(stage) {
    let ground = Ground::atomic(stage, BOTH);
    ground.fill(&[10_u64, 20, 30]);
    let two = &ground.two;
    let operands = elements_of(two, &[1_u64; 3]);
    let from = fi_ioc { addr: operands.cast(), count: 3 };
    let (one, other) = (elements_of(two, &[0_u64; 2]), elements_of(two, &[0_u64]));
    let mut into = [
        fi_ioc { addr: one.cast(), count: 2 },
        fi_ioc { addr: other.cast(), count: 1 },
    ];
    let context = two.a.traffic.context();
    let (at, key) = (ground.base, ground.key());
    let into = into.as_mut_ptr();
    two.start(|| {
        c!(fi_fetch_atomicv(
            two.a.ep, &from, null_mut(), 1, into, null_mut(), 2, two.to_b, at, key, FI_UINT64, FI_SUM, context
        ))
    });
    let _ = two.done(&two.a);
    assert_eq!(c!([*one, *one.add(1), *other]), [10, 20, 30]);
    assert_eq!(ground.elements::<u64>(3), [11, 21, 31]);
    ground.close();
}

/// With selective completions, only atomics with FI_COMPLETION write one.
fn atomics_with_a_message_may_ask_for_completion(stage) {
    let world = crate::world::World::with(stage, |hints| hints.caps |= crate::ground::ACCESS | FI_ATOMIC);
    let a = world.end_with(FI_SEND | FI_RECV | FI_SELECTIVE_COMPLETION, |_| {});
    let two = Two::of(a, world.end());
    let ground = Ground::of(world, two, BOTH);
    ground.fill(&[0_u64]);
    ground.update(FI_UINT64, FI_SUM, &[1_u64]);
    let context = with_message(&ground, 2, |msg| {
        ground.two.start(|| c!(fi_atomicmsg(ground.two.a.ep, msg, FI_COMPLETION | FI_DELIVERY_COMPLETE)));
        c!((*msg).context)
    });
    assert_eq!(ground.two.done(&ground.two.a).op_context, context);
    assert!(ground.two.a.read().is_none());
    let begun = std::time::Instant::now();
    while ground.elements::<u64>(1) != [3] && begun.elapsed() < PATIENCE {
        ground.two.progress(&ground.two.b);
    }
    assert_eq!(ground.elements::<u64>(1), [3]);
    ground.close();
}

/// With FI_INJECT the operands are free when the call returns.
fn an_atomic_with_inject_frees_its_operands(stage) {
    let ground = Ground::atomic(stage, BOTH);
    ground.fill(&[40_u64]);
    with_message(&ground, 2, |msg| {
        ground.two.start(|| c!(fi_atomicmsg(ground.two.a.ep, msg, FI_INJECT | FI_COMPLETION | FI_DELIVERY_COMPLETE)));
        c!((*(*msg).msg_iov).addr.cast::<u64>().write(99));
    });
    let _ = ground.two.done(&ground.two.a);
    assert_eq!(ground.elements::<u64>(1), [42]);
    ground.close();
}

/// A fenced atomic sees the results of what was posted before it.
fn a_fenced_atomic_is_the_last(stage) {
    let world = crate::world::World::with(stage, |hints| {
        hints.caps |= crate::ground::ACCESS | FI_ATOMIC | FI_FENCE;
        c!((*hints.tx_attr).op_flags = FI_DELIVERY_COMPLETE);
    });
    let ground = Ground::with(world, BOTH);
    // The write is long; the atomic must not overtake its first bytes.
    ground.write(&vec![0; 500_000], 0, ground.key());
    with_message(&ground, 5, |msg| {
        ground.two.start(|| c!(fi_atomicmsg(ground.two.a.ep, msg, FI_FENCE | FI_COMPLETION | FI_DELIVERY_COMPLETE)));
    });
    let _ = (ground.two.done(&ground.two.a), ground.two.done(&ground.two.a));
    assert_eq!(ground.elements::<u64>(1), [5]);
    ground.close();
}

/// Memory that may only be read is not updated.
fn an_update_needs_the_right_to_write(stage) {
    let ground = Ground::atomic(stage, FI_REMOTE_READ);
    ground.update(FI_UINT64, FI_SUM, &[1_u64]);
    ground.refused();
    ground.close();
}

/// Memory that may only be written is not fetched.
fn a_fetch_needs_the_right_to_read(stage) {
    let ground = Ground::atomic(stage, FI_REMOTE_WRITE);
    let two = &ground.two;
    let (result, context) = (elements_of(two, &[7_u64]), two.a.traffic.context());
    let (at, key) = (ground.base, ground.key());
    two.start(|| {
        c!(fi_fetch_atomic(
            two.a.ep, null_mut(), 1, null_mut(), result.cast(), null_mut(), two.to_b, at, key, FI_UINT64,
            FI_ATOMIC_READ, context
        ))
    });
    ground.refused();
    assert_eq!(c!(*result), 7);
    ground.close();
}

/// A key that nobody gave changes nothing.
fn a_false_key_changes_nothing(stage) {
    let ground = Ground::atomic(stage, BOTH);
    let two = &ground.two;
    let (place, context) = (elements_of(two, &[1_u64]), two.a.traffic.context());
    let (at, key) = (ground.base, ground.key() ^ 0xFFFF);
    two.start(|| {
        c!(fi_atomic(two.a.ep, place.cast(), 1, null_mut(), two.to_b, at, key, FI_UINT64, FI_SUM, context))
    });
    assert_eq!(ground.refused().op_context, context);
    ground.close();
}

/// Elements beyond the region are not touched, nor those before them.
fn bounds_are_checked(stage) {
    let ground = Ground::atomic(stage, BOTH);
    let two = &ground.two;
    let (place, context) = (elements_of(two, &[1_u64; 2]), two.a.traffic.context());
    let (at, key) = (ground.base + ground.len as u64 - 8, ground.key());
    two.start(|| {
        c!(fi_atomic(two.a.ep, place.cast(), 2, null_mut(), two.to_b, at, key, FI_UINT64, FI_SUM, context))
    });
    ground.refused();
    ground.close();
}

/// Each element is updated as a whole: what several endpoints add, adds up.
fn what_several_add_adds_up(stage) {
    let ground = Ground::atomic(stage, BOTH);
    ground.fill(&[0_u64]);
    let two = &ground.two;
    let third = ground.world.end();
    let to_b = third.knows(&two.b);
    let one = elements_of(two, &[1_u64]);
    let (at, key) = (ground.base, ground.key());
    for ep in [(two.a.ep, two.to_b), (third.ep, to_b)].into_iter().cycle().take(100) {
        two.start(|| {
            let _ = third.read();
            let context = two.a.traffic.context();
            c!(fi_atomic(ep.0, one.cast(), 1, null_mut(), ep.1, at, key, U64_SUM.0, U64_SUM.1, context))
        });
    }
    let begun = std::time::Instant::now();
    while ground.elements::<u64>(1) != [100] && begun.elapsed() < PATIENCE {
        let _ = (third.read(), two.a.read(), two.b.read());
    }
    assert_eq!(ground.elements::<u64>(1), [100]);
    drop(third);
    ground.close();
}

/// A counter for writes counts updates, and one for reads counts what fetches.
fn atomics_are_counted(stage) {
    let world = crate::world::World::with(stage, |hints| {
        hints.caps |= crate::ground::ACCESS | FI_ATOMIC;
        c!((*hints.tx_attr).op_flags = FI_DELIVERY_COMPLETE);
    });
    let (written, read) = (world.cntr(FI_WAIT_UNSPEC), world.cntr(FI_WAIT_UNSPEC));
    let a = world.end_with(FI_SEND | FI_RECV, |ep| {
        assert_eq!((bind(ep, written, FI_WRITE), bind(ep, read, FI_READ)), (0, 0));
    });
    let two = Two::of(a, world.end());
    let ground = Ground::of(world, two, BOTH);
    ground.update(FI_UINT64, FI_SUM, &[1_u64]);
    let _ = ground.two.done(&ground.two.a);
    let counts = || (c!(fi_cntr_read(written)), c!(fi_cntr_read(read)));
    assert_eq!(counts(), (1, 0));
    let _ = ground.fetch(FI_UINT64, FI_SUM, &[1_u64]);
    assert_eq!(counts(), (1, 1));
    let Ground { two, mr, world, .. } = ground;
    assert_eq!(close(mr), 0);
    drop(two);
    assert_eq!((close(written), close(read)), (0, 0));
    drop(world);
}

/// An endpoint updates its own memory.
fn an_endpoint_updates_itself(stage) {
    let ground = Ground::atomic(stage, BOTH);
    let two = &ground.two;
    ground.fill(&[1_u64]);
    let me = two.b.knows(&two.b);
    let (place, context) = (two.b.traffic.buffer(&[2, 0, 0, 0, 0, 0, 0, 0]), two.b.traffic.context());
    let (at, key) = (ground.base, ground.key());
    two.start(|| {
        c!(fi_atomic(two.b.ep, place.cast(), 1, null_mut(), me, at, key, FI_UINT64, FI_SUM, context))
    });
    assert_eq!(two.done(&two.b).op_context, context);
    assert_eq!(ground.elements::<u64>(1), [3]);
    ground.close();
}
}
