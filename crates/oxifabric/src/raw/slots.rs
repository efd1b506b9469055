//! The memory of operations in flight.
//!
//! One table per completion queue: whatever context the queue returns is a slot of its table. A slot is taken by a post, given
//! back by the completion, and used again; the table only grows. Taking and giving back is one atomic exchange each (short path).
//!
//! Invariant: the load of a slot belongs to whoever moved its state away from [`IN_FLIGHT`], or to the poster before that.

use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::Mutex;

use oxifabric_abi::{FI_VOID, fi_context2, fi_datatype};

use super::{Memory, Peer};
use crate::atomic::Fetched;
use crate::error::Operation;
use crate::lock::lock;

/// What an operation keeps while it is in flight.
#[derive(Debug)]
pub(crate) struct Load {
    /// The bytes that the provider reads or writes.
    pub(crate) memory: Memory,
    /// The endpoint that posted it, by its number.
    pub(crate) owner: u32,
    /// What it does.
    pub(crate) operation: Operation,
    /// With whom.
    pub(crate) peer: Option<Peer>,
    /// The number of the endpoint's address vector, for the names of senders.
    pub(super) vector: u32,
}

/// An operation that was posted; its completion carries the same value.
///
/// Dropping it changes nothing: the operation goes on and its completion still appears.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Op {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

/// State: nobody uses the slot.
const FREE: u64 = 0;
/// State: the provider may use the context and the buffer. The owner stands in the upper half.
const IN_FLIGHT: u64 = 1;
/// State: the closed endpoint is freeing the buffer.
const CLAIMED: u64 = 2;
/// State: the endpoint was closed before the completion was read; the buffer is gone, the context may still be named once.
const ORPHAN: u64 = 3;

/// The state of an operation in flight that `owner` posted.
const fn in_flight(owner: u32) -> u64 {
    (owner as u64) << 32 | IN_FLIGHT
}

/// Whether this is the state of an operation in flight.
const fn is_in_flight(state: u64) -> bool {
    state as u32 as u64 == IN_FLIGHT
}

/// One operation.
#[repr(C)]
pub(super) struct Slot {
    /// First, because providers of mode FI_CONTEXT and FI_CONTEXT2 write to where the context points.
    context: UnsafeCell<fi_context2>,
    state: AtomicU64,
    generation: AtomicU32,
    index: u32,
    /// The next free slot, while this one is free.
    next: AtomicU32,
    load: UnsafeCell<Option<Load>>,
    /// Room for the operands of an atomic operation on one element.
    scalars: UnsafeCell<Scalars>,
}

/// The operands of an atomic operation on one element, each at the start of its word.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Scalars {
    /// What the update takes.
    pub(crate) operand: u128,
    /// What the element is compared with.
    pub(crate) compare: u128,
    /// What the element was.
    pub(crate) result: u128,
    /// What kind of element it is.
    pub(crate) datatype: fi_datatype,
}

impl Scalars {
    /// Those of an operation that has none.
    pub(super) const NONE: Self = Self {
        operand: 0,
        compare: 0,
        result: 0,
        datatype: FI_VOID,
    };

    fn fetched(&self) -> Fetched {
        Fetched {
            datatype: self.datatype,
            word: self.result,
        }
    }
}

impl Slot {
    fn new(index: u32) -> Self {
        Self {
            context: UnsafeCell::new(fi_context2::ZERO),
            state: AtomicU64::new(FREE),
            generation: AtomicU32::new(0),
            index,
            next: AtomicU32::new(END),
            load: UnsafeCell::new(None),
            scalars: UnsafeCell::new(Scalars::default()),
        }
    }

    /// Makes the slot free and returns the state that it had.
    #[inline]
    fn release(&self) -> u64 {
        let mut state = self.state.load(Ordering::Acquire);
        loop {
            if state == CLAIMED {
                core::hint::spin_loop();
                state = self.state.load(Ordering::Acquire);
                continue;
            }
            let freed =
                self.state
                    .compare_exchange_weak(state, FREE, Ordering::AcqRel, Ordering::Acquire);
            match freed {
                Ok(_) => return state,
                Err(now) => state = now,
            }
        }
    }
}

impl Op {
    /// What stands in the completion of something that a peer did: no operation of this endpoint.
    pub const PEER: Self = Self {
        slot: END,
        generation: 0,
    };
}

/// No slot.
const END: u32 = u32::MAX;
/// Slots of the first chunk; each chunk after it has twice as many as the one before.
const FIRST: u32 = 64;
/// Chunks at most: 64 times (2 to the 20th minus 1) slots, far beyond the queue of any provider.
const CHUNKS: usize = 20;

/// The table of one completion queue.
pub(super) struct Slots {
    /// Number of uses in the upper half, so that an exchange notices a slot that went and came back; slot in the lower.
    free: AtomicU64,
    chunks: [AtomicPtr<Slot>; CHUNKS],
    /// How many chunks there are; locked while the table grows.
    grown: Mutex<usize>,
}

// SAFETY: loads are moved between threads under the invariant of this module, and are `Send` themselves.
unsafe impl Send for Slots {}
// SAFETY: as above; everything else is atomic.
unsafe impl Sync for Slots {}

impl Slots {
    pub(super) fn new() -> Self {
        Self {
            free: AtomicU64::new(u64::from(END)),
            chunks: [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS],
            grown: Mutex::new(0),
        }
    }

    /// Puts a load into a slot; gives it back when the table is full.
    #[inline]
    pub(super) fn fill(&self, load: Load) -> Result<&Slot, Load> {
        let Some(slot) = self.take_free() else {
            return Err(load);
        };
        let state = in_flight(load.owner);
        // SAFETY: the slot was free and is now ours alone.
        unsafe { *slot.load.get() = Some(load) };
        slot.state.store(state, Ordering::Release);
        Ok(slot)
    }

    /// What a provider is given for the slot: its context, and the bytes of its buffer.
    #[inline]
    pub(super) fn parts(slot: &Slot) -> (*mut c_void, *mut u8, usize) {
        // SAFETY: between `fill` and the post nobody else looks at the load.
        let load = unsafe { &*slot.load.get() };
        let (start, len) = load.as_ref().map_or((ptr::null_mut(), 0), |load| {
            (load.memory.as_mut_ptr(), load.memory.len())
        });
        (ptr::from_ref(slot).cast_mut().cast(), start, len)
    }

    /// Where the operands of the slot's operation are.
    pub(super) fn scalars(slot: &Slot) -> *mut Scalars {
        slot.scalars.get()
    }

    /// The name of the operation in the slot.
    #[inline]
    pub(super) fn op(slot: &Slot) -> Op {
        Op {
            slot: slot.index,
            generation: slot.generation.load(Ordering::Relaxed),
        }
    }

    /// The context of an operation, if it may still be in flight.
    pub(super) fn context(&self, op: Op) -> Option<*mut c_void> {
        let slot = self.slot(op.slot)?;
        let same = slot.generation.load(Ordering::Acquire) == op.generation;
        let flies = is_in_flight(slot.state.load(Ordering::Acquire));
        (same && flies).then(|| ptr::from_ref(slot).cast_mut().cast())
    }

    /// Empties the slot behind a context that the queue returned; `None` for one whose endpoint is closed.
    ///
    /// # Safety
    ///
    /// `context` must be null or one that [`Slots::parts`] of this table gave, and the provider must be done with it.
    #[inline]
    pub(super) unsafe fn complete(&self, context: *mut c_void) -> Option<(Op, Load, Fetched)> {
        // SAFETY: slots live as long as the table.
        let slot = unsafe { context.cast::<Slot>().as_ref() }?;
        let op = Self::op(slot);
        match slot.release() {
            state if is_in_flight(state) => {
                // SAFETY: the exchange made the load ours.
                let load = unsafe { (*slot.load.get()).take() };
                let done = load.map(|load| {
                    let mut fetched = Fetched::NOTHING;
                    if load.operation.fetches() {
                        // SAFETY: the provider, which wrote the result, is done.
                        fetched = unsafe { (*slot.scalars.get()).fetched() };
                    }
                    (op, load, fetched)
                });
                self.give_back(slot);
                done
            }
            ORPHAN => {
                self.give_back(slot);
                None
            }
            _ => None,
        }
    }

    /// Takes back the load of a slot whose post was refused.
    pub(super) fn recall(&self, slot: &Slot) -> Option<Load> {
        // SAFETY: the context is one of this table, and the provider refused it.
        unsafe { self.complete(Self::parts(slot).0) }.map(|(_, load, _)| load)
    }

    /// Frees the buffers of an endpoint.
    ///
    /// # Safety
    ///
    /// The endpoint must be closed: the provider touches none of its buffers any more.
    pub(super) unsafe fn abandon(&self, owner: u32) {
        let grown = *lock(&self.grown);
        for index in 0..FIRST * ((1 << grown) - 1) {
            let Some(slot) = self.slot(index) else {
                continue;
            };
            let claimed = slot.state.compare_exchange(
                in_flight(owner),
                CLAIMED,
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            if claimed.is_ok() {
                // SAFETY: the exchange made the load ours.
                unsafe { *slot.load.get() = None };
                slot.state.store(ORPHAN, Ordering::Release);
            }
        }
    }

    #[inline]
    fn slot(&self, index: u32) -> Option<&Slot> {
        let (chunk, offset) = place(index);
        let chunk = self.chunks.get(chunk)?.load(Ordering::Acquire);
        if chunk.is_null() {
            return None;
        }
        // SAFETY: a chunk that is there has all its slots and stays until the table is dropped.
        Some(unsafe { &*chunk.add(offset) })
    }

    #[inline]
    fn take_free(&self) -> Option<&Slot> {
        let mut head = self.free.load(Ordering::Acquire);
        loop {
            let index = head as u32;
            if index == END {
                if !self.grow() {
                    return None;
                }
                head = self.free.load(Ordering::Acquire);
                continue;
            }
            let slot = self.slot(index)?;
            let next = tagged(head, slot.next.load(Ordering::Relaxed));
            match self
                .free
                .compare_exchange_weak(head, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return Some(slot),
                Err(now) => head = now,
            }
        }
    }

    #[inline]
    fn give_back(&self, slot: &Slot) {
        slot.generation.fetch_add(1, Ordering::Release);
        self.push_free(slot.index, slot);
    }

    /// Puts a chain of free slots, which ends in `last`, before those that are free already.
    #[inline]
    fn push_free(&self, first: u32, last: &Slot) {
        let mut head = self.free.load(Ordering::Relaxed);
        loop {
            slot_next(last, head as u32);
            match self.free.compare_exchange_weak(
                head,
                tagged(head, first),
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Adds a chunk; false when there is no room for more.
    #[cold]
    fn grow(&self) -> bool {
        let mut grown = lock(&self.grown);
        if self.free.load(Ordering::Acquire) as u32 != END {
            return true;
        }
        if *grown == CHUNKS {
            return false;
        }
        let base = FIRST * ((1 << *grown) - 1);
        let chunk: Box<[Slot]> = (0..FIRST << *grown)
            .map(|at| Slot::new(base + at))
            .collect();
        for pair in chunk.windows(2) {
            slot_next(&pair[0], pair[1].index);
        }
        let last = chunk.len() - 1;
        let start = Box::into_raw(chunk).cast::<Slot>();
        self.chunks[*grown].store(start, Ordering::Release);
        *grown += 1;
        // SAFETY: the chunk has this slot, and lives as long as the table.
        self.push_free(base, unsafe { &*start.add(last) });
        true
    }
}

#[inline]
fn slot_next(slot: &Slot, next: u32) {
    slot.next.store(next, Ordering::Relaxed);
}

/// A new head of the free list, one use after `head`.
#[inline]
fn tagged(head: u64, index: u32) -> u64 {
    (((head >> 32) + 1) << 32) | u64::from(index)
}

/// Chunk and offset of a slot.
#[inline]
fn place(index: u32) -> (usize, usize) {
    let shifted = u64::from(index) + u64::from(FIRST);
    let chunk = (shifted / u64::from(FIRST)).ilog2();
    (
        chunk as usize,
        (shifted - (u64::from(FIRST) << chunk)) as usize,
    )
}

impl Drop for Slots {
    fn drop(&mut self) {
        for (number, chunk) in self.chunks.iter_mut().enumerate() {
            let start = *chunk.get_mut();
            if !start.is_null() {
                let len = (FIRST as usize) << number;
                // SAFETY: `grow` made the chunk of a box of this length.
                drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(start, len)) });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Buffer;

    fn load(owner: u32, byte: u8) -> Load {
        Load {
            memory: Buffer::from(&[byte]).into(),
            owner,
            operation: Operation::Send,
            peer: None,
            vector: 0,
        }
    }

    fn byte(load: Load) -> u8 {
        load.memory.into_buffer(1)[0]
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
        let slot = slots.fill(load(0, 1)).unwrap();
        let (context, first) = (Slots::parts(slot).0, Slots::op(slot));
        assert_eq!(slots.context(first), Some(context));
        // SAFETY: the context is of this table and no provider has it.
        let (op, done, _) = unsafe { slots.complete(context) }.unwrap();
        assert_eq!((op, byte(done)), (first, 1));
        assert_eq!(slots.context(first), None);

        let slot = slots.fill(load(0, 2)).unwrap();
        assert_eq!(Slots::parts(slot).0, context);
        assert_ne!(Slots::op(slot), first);
    }

    #[test]
    fn a_second_completion_of_the_same_operation_is_nothing() {
        let slots = Slots::new();
        let context = Slots::parts(slots.fill(load(0, 1)).unwrap()).0;
        // SAFETY: the context is of this table and no provider has it.
        assert!(unsafe { slots.complete(context) }.is_some());
        // SAFETY: as above.
        assert!(unsafe { slots.complete(context) }.is_none());
    }

    #[test]
    fn the_table_grows_and_gives_every_load_back() {
        let slots = Slots::new();
        let contexts: Vec<_> = (0..1000)
            .map(|at| Slots::parts(slots.fill(load(0, at as u8)).unwrap()).0)
            .collect();
        for (at, context) in contexts.into_iter().enumerate() {
            // SAFETY: the context is of this table and no provider has it.
            let (_, done, _) = unsafe { slots.complete(context) }.unwrap();
            assert_eq!(byte(done), at as u8);
        }
    }

    #[test]
    fn an_abandoned_operation_completes_as_nothing_and_others_stay() {
        let slots = Slots::new();
        let gone = Slots::parts(slots.fill(load(7, 1)).unwrap()).0;
        let stays = Slots::parts(slots.fill(load(8, 2)).unwrap()).0;
        // SAFETY: there is no endpoint 7.
        unsafe { slots.abandon(7) };
        // SAFETY: the contexts are of this table and no provider has them.
        assert!(unsafe { slots.complete(gone) }.is_none());
        // SAFETY: as above.
        assert!(unsafe { slots.complete(stays) }.is_some());
    }

    #[test]
    fn threads_never_share_a_slot() {
        let slots = Slots::new();
        std::thread::scope(|scope| {
            for owner in 0..4 {
                let slots = &slots;
                scope.spawn(move || {
                    for round in 0..2000_u32 {
                        let contexts: Vec<_> = (0..5)
                            .map(|_| Slots::parts(slots.fill(load(owner, round as u8)).unwrap()).0)
                            .collect();
                        for context in contexts {
                            // SAFETY: the context is of this table and no provider has it.
                            let (_, done, _) = unsafe { slots.complete(context) }.unwrap();
                            assert_eq!((done.owner, byte(done)), (owner, round as u8));
                        }
                    }
                });
            }
        });
    }
}
