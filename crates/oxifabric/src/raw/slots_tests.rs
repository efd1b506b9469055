//! The table of operations in flight, on real threads; `tests/interleavings.rs` tests all interleavings of a few steps.

use core::ffi::c_void;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use oxifabric_abi::FI_ADDR_NOTAVAIL;

use super::exchange::{FIRST, LOCAL_SLOTS, lock};
use super::owner_thread::OwnerThread;
use super::slots::{InFlightOp, Slots, place};
use crate::Buffer;
use crate::error::Operation;

fn in_flight(byte: u8) -> InFlightOp {
    InFlightOp {
        memory: Buffer::from(&[byte]).into(),
        addr: FI_ADDR_NOTAVAIL,
        vector: 0,
        operation: Operation::Send,
    }
}

/// Posts an operation of an endpoint, with one byte; returns its context.
fn post(slots: &Slots, ep: u32, byte: u8) -> *mut c_void {
    slots.take().unwrap().fill(ep, in_flight(byte)).parts().0
}

fn byte(in_flight: InFlightOp) -> u8 {
    in_flight.memory.into_buffer()[0]
}

#[test]
fn indices_cover_the_chunks_without_gaps() {
    let mut expected = (0, 0);
    for index in 0..FIRST * 15 {
        assert_eq!(place(index), expected);
        expected.1 += 1;
        if expected.1 == (FIRST as usize) << expected.0 {
            expected = (expected.0 + 1, 0);
        }
    }
}

#[test]
fn a_completed_slot_is_used_again_under_a_new_name() {
    let slots = Slots::new();
    let filled = slots.take().unwrap().fill(0, in_flight(1));
    let (context, first) = (filled.parts().0, filled.op());
    assert_eq!(slots.context(first), Some(context));
    // SAFETY: the context is of this table and no provider has it.
    let claim = unsafe { slots.claim(&slots.begin_read(), context) }.unwrap();
    assert_eq!((claim.op(), byte(claim.finish())), (first, 1));
    assert_eq!(slots.context(first), None);

    let filled = slots.take().unwrap().fill(0, in_flight(2));
    assert_eq!(filled.parts().0, context);
    assert_ne!(filled.op(), first);
}

#[test]
fn a_second_completion_of_the_same_operation_is_nothing() {
    let slots = Slots::new();
    let context = post(&slots, 0, 1);
    // SAFETY: the context is of this table and no provider has it.
    unsafe { slots.claim(&slots.begin_read(), context) }
        .unwrap()
        .finish();
    // SAFETY: as above.
    assert!(unsafe { slots.claim(&slots.begin_read(), context) }.is_none());
}

#[test]
fn the_table_grows_and_gives_every_load_back() {
    let slots = Slots::new();
    let contexts: Vec<_> = (0..1000).map(|at| post(&slots, 0, at as u8)).collect();
    for (at, context) in contexts.into_iter().enumerate() {
        // SAFETY: the context is of this table and no provider has it.
        let done = unsafe { slots.claim(&slots.begin_read(), context) }
            .unwrap()
            .finish();
        assert_eq!(byte(done), at as u8);
    }
}

#[test]
fn an_abandoned_operation_completes_as_nothing_and_others_stay() {
    let slots = Slots::new();
    let gone = post(&slots, 7, 1);
    let stays = post(&slots, 8, 2);
    // SAFETY: there is no endpoint 7.
    let abandoned = unsafe { slots.abandon(7) };
    assert_eq!(abandoned.map(|abandoned| abandoned.len()), Some(1));
    // SAFETY: the contexts are of this table and no provider has them.
    assert!(unsafe { slots.claim(&slots.begin_read(), gone) }.is_none());
    // SAFETY: as above.
    unsafe { slots.claim(&slots.begin_read(), stays) }
        .unwrap()
        .finish();
}

#[test]
fn only_the_owner_thread_abandons() {
    let slots = Slots::new();
    let done = post(&slots, 7, 1);
    // SAFETY: the context is of this table and no provider has it.
    unsafe { slots.claim(&slots.begin_read(), done) }
        .unwrap()
        .finish();
    let gone = post(&slots, 7, 2);
    std::thread::scope(|scope| {
        // SAFETY: there is no endpoint 7.
        let elsewhere = scope.spawn(|| unsafe { slots.abandon(7) }.is_none());
        assert!(elsewhere.join().unwrap());
    });
    // SAFETY: as above.
    assert!(unsafe { slots.abandon(7) }.is_some());
    // SAFETY: as for `done`.
    assert!(unsafe { slots.claim(&slots.begin_read(), gone) }.is_none());
}

#[test]
fn abandoned_slots_are_used_again_when_the_queue_is_empty_and_no_other_thread_looks() {
    let slots = Slots::new();
    let rounds = 1000;
    for _ in 0..rounds {
        let gone = post(&slots, 7, 1);
        // SAFETY: there is no endpoint 7, and no queue.
        let reclaimed = unsafe {
            assert_eq!(slots.abandon(7).map(|abandoned| abandoned.len()), Some(1));
            let elsewhere = std::thread::scope(|scope| {
                let reclaims = scope.spawn(|| {
                    let guard = slots.begin_read();
                    (!slots.reclaim(), drop(guard)).0
                });
                reclaims.join().unwrap()
            });
            assert!(elsewhere, "only the owner thread does it");
            slots.reclaim()
        };
        assert!(reclaimed);
        // SAFETY: the context is of this table and no provider has it.
        assert!(unsafe { slots.claim(&slots.begin_read(), gone) }.is_none());
    }
    assert_eq!(*lock(&slots.grown), 1);
}

#[test]
fn no_slot_is_used_again_while_another_thread_may_be_about_to_claim_it() {
    let slots = Slots::new();
    post(&slots, 7, 1);
    // SAFETY: there is no endpoint 7, and no queue.
    unsafe {
        slots.abandon(7).expect("this thread is the owner");
        let guard = std::thread::scope(|scope| scope.spawn(|| slots.begin_read()).join().unwrap());
        assert!(!slots.reclaim());
        drop(guard);
        assert!(slots.reclaim());
    }
}

#[test]
fn the_operations_of_two_queues_have_different_names() {
    let tables = [Slots::new(), Slots::new()];
    let [one, other] = tables.each_ref().map(|slots| {
        let op = slots.take().unwrap().fill(0, in_flight(1)).op();
        assert!(slots.context(op).is_some());
        op
    });
    assert_ne!(one, other);
    assert_eq!(
        (tables[0].context(other), tables[1].context(one)),
        (None, None)
    );
}

#[test]
fn more_slots_than_the_local_list_holds_are_free_for_other_threads() {
    let slots = Slots::new();
    let count = LOCAL_SLOTS + 100;
    let contexts: Vec<_> = (0..count).map(|_| post(&slots, 0, 1)).collect();
    for context in contexts {
        // SAFETY: the context is of this table and no provider has it.
        unsafe { slots.claim(&slots.begin_read(), context) }
            .unwrap()
            .finish();
    }
    let grown = *lock(&slots.grown);
    let takes = |count| (0..count).for_each(|_| assert!(slots.take_free().is_some()));
    std::thread::scope(|scope| scope.spawn(|| takes(100)).join().unwrap());
    takes(LOCAL_SLOTS);
    assert_eq!(*lock(&slots.grown), grown);
}

#[test]
fn what_is_in_flight_in_the_end_is_freed() {
    let released = Arc::new(AtomicBool::new(false));
    let (told, mut byte) = (released.clone(), 0_u8);
    let start = NonNull::from(&mut byte);
    // SAFETY: the byte is not touched before the buffer is dropped.
    let buffer = unsafe { Buffer::from_raw(start, 1, move || told.store(true, Ordering::Relaxed)) };
    let slots = Slots::new();
    let in_flight = InFlightOp {
        memory: buffer.into(),
        ..in_flight(0)
    };
    slots.take().unwrap().fill(0, in_flight);
    assert!(!released.load(Ordering::Relaxed));
    drop(slots);
    assert!(released.load(Ordering::Relaxed));
}

#[test]
fn threads_never_share_a_slot() {
    let slots = Slots::new();
    std::thread::scope(|scope| {
        for ep in 0..4 {
            let slots = &slots;
            scope.spawn(move || {
                for round in 0..2000_u32 {
                    let mark = (ep * 50 + round % 50) as u8;
                    let contexts: Vec<_> = (0..5).map(|_| post(slots, ep, mark)).collect();
                    for context in contexts {
                        // SAFETY: the context is of this table and no provider has it.
                        let done = unsafe { slots.claim(&slots.begin_read(), context) }
                            .unwrap()
                            .finish();
                        assert_eq!(byte(done), mark);
                    }
                }
            });
        }
    });
}

#[test]
fn the_first_thread_becomes_the_owner_and_stays_it() {
    let owner = OwnerThread::new();
    assert!(!owner.is_current());
    assert!(owner.is_current_or_first());
    std::thread::scope(|scope| {
        let elsewhere = scope.spawn(|| owner.is_current_or_first() || owner.is_current());
        assert!(!elsewhere.join().unwrap());
    });
    assert!(owner.is_current() && owner.is_current_or_first());
}
