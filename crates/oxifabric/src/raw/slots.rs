//! The memory of operations in flight.
//!
//! One table per completion queue: whatever context the queue returns is a slot of its table. A slot is taken by a post, given
//! back by the completion, and used again; the table only grows (short path).
//!
//! Invariants: the load of a slot belongs to whoever moved its state to [`Phase::Held`], until he moves it on. Slots in flight are
//! abandoned by the thread at [`Home`] only, which may therefore complete them without an exchange; and the slots near it are its own.

use core::cell::{Cell, UnsafeCell};
use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::Mutex;

use oxifabric_abi::{FI_VOID, fi_addr_t, fi_context2, fi_datatype};

use super::home::Home;
use super::{Memory, Peer};
use crate::atomic::Fetched;
use crate::error::Operation;
use crate::lock::lock;

/// What an operation keeps while it is in flight.
#[derive(Debug)]
pub(crate) struct Load {
    /// The bytes that the provider reads or writes.
    pub(crate) memory: Memory,
    /// With whom; unspecified, which is the same as not available, if it names nobody.
    pub(super) addr: fi_addr_t,
    /// The number of the endpoint's address vector, for the names of senders.
    pub(super) vector: u32,
    /// What it does.
    pub(crate) operation: Operation,
}

impl Load {
    /// With whom.
    pub(crate) fn peer(&self) -> Option<Peer> {
        Peer::new(self.addr, self.vector)
    }
}

/// An operation that was posted; its completion carries the same value.
///
/// Dropping it changes nothing: the operation goes on and its completion still appears.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Op {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

/// What a slot is used for. Each use of a slot has a number; both together are its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Phase {
    /// For nothing.
    Free = 0,
    /// Somebody puts a load in, or takes one out.
    Held = 1,
    /// The provider may use the context and the buffer.
    InFlight = 2,
    /// The endpoint was closed before the completion was read; the buffer is gone, the context may still be named once.
    Orphan = 3,
}

/// The number of a use, and the phase of the slot.
#[derive(Clone, Copy, PartialEq, Eq)]
struct State(u64);

impl State {
    const PHASE: u64 = 3;

    #[inline]
    fn is(self, phase: Phase) -> bool {
        self.0 & Self::PHASE == phase as u64
    }

    /// The same use in another phase.
    #[inline]
    fn to(self, phase: Phase) -> Self {
        Self(self.0 & !Self::PHASE | phase as u64)
    }

    /// The next use, in the hands of who begins it.
    #[inline]
    fn next(self) -> Self {
        Self(self.0 + (1 << 2)).to(Phase::Held)
    }

    /// The number of the use, as far as an [`Op`] has room for it.
    #[inline]
    fn generation(self) -> u32 {
        (self.0 >> 2) as u32
    }
}

/// One operation.
#[repr(C)]
pub(super) struct Slot {
    /// First, because providers of mode FI_CONTEXT and FI_CONTEXT2 write to where the context points.
    context: UnsafeCell<fi_context2>,
    /// A [`State`].
    state: AtomicU64,
    index: u32,
    /// The next free slot, while this one is free for everybody.
    next: AtomicU32,
    /// The next free slot, while this one is free and near the thread at home.
    next_near: Cell<Option<NonNull<Slot>>>,
    /// The number of the endpoint that posted the operation.
    owner: AtomicU32,
    /// Initialized while the slot is in flight.
    load: UnsafeCell<MaybeUninit<Load>>,
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
            state: AtomicU64::new(Phase::Free as u64),
            index,
            next: AtomicU32::new(END),
            next_near: Cell::new(None),
            owner: AtomicU32::new(0),
            load: UnsafeCell::new(MaybeUninit::uninit()),
            scalars: UnsafeCell::new(Scalars::NONE),
        }
    }

    #[inline]
    fn state(&self) -> State {
        State(self.state.load(Ordering::Acquire))
    }

    #[inline]
    fn set(&self, state: State) {
        self.state.store(state.0, Ordering::Release);
    }

    /// Takes hold of a slot in flight; `None` if somebody else was faster.
    #[inline]
    fn hold(&self, state: State) -> Option<()> {
        let (order, held) = (Ordering::Acquire, state.to(Phase::Held));
        let held = self.state.compare_exchange(state.0, held.0, order, order);
        held.ok().map(|_| ())
    }

    #[inline]
    fn is_of(&self, owner: u32) -> bool {
        self.owner.load(Ordering::Relaxed) == owner
    }

    /// What a provider is given for the slot.
    #[inline]
    pub(super) fn context(&self) -> *mut c_void {
        ptr::from_ref(self).cast_mut().cast()
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

/// Free slots near the thread at home, which nobody else looks at.
#[derive(Default)]
struct Near {
    first: Cell<Option<NonNull<Slot>>>,
    count: Cell<u32>,
}

impl Near {
    /// How many there are at most; others may take what is beyond.
    const MOST: u32 = 256;
}

/// The table of one completion queue.
pub(super) struct Slots {
    /// The thread that completes without an exchange.
    home: Home,
    /// Free slots that only the thread at home takes.
    near: Near,
    /// Free slots for everybody. Number of uses in the upper half, so that an exchange notices a slot that went and came back; slot in
    /// the lower.
    free: AtomicU64,
    chunks: [AtomicPtr<Slot>; CHUNKS],
    /// How many chunks there are; locked while the table grows.
    grown: Mutex<usize>,
}

// SAFETY: loads are moved between threads under the invariants of this module, and are `Send` themselves.
unsafe impl Send for Slots {}
// SAFETY: as above; what is not atomic belongs to the thread at home, or to who holds the slot.
unsafe impl Sync for Slots {}

/// A slot that was filled and that no provider has been given yet.
pub(super) struct Filled<'a> {
    slot: &'a Slot,
    state: State,
}

impl<'a> Filled<'a> {
    /// The name of the operation.
    #[inline]
    pub(super) fn op(&self) -> Op {
        Op {
            slot: self.slot.index,
            generation: self.state.generation(),
        }
    }

    /// What a provider is given: the context, and the bytes of the buffer.
    #[inline]
    pub(super) fn parts(&self) -> (*mut c_void, *mut u8, usize) {
        // SAFETY: the slot was filled, and nobody else looks at the load before the post.
        let load = unsafe { (*self.slot.load.get()).assume_init_ref() };
        let (start, len) = load.memory.extent();
        (self.slot.context(), start.as_ptr(), len)
    }

    /// Where the operands of the operation are.
    pub(super) fn scalars(&self) -> *mut Scalars {
        self.slot.scalars.get()
    }
}

/// The slot of an operation that is done, in the hands of who completes it.
pub(super) struct Claim<'a> {
    table: &'a Slots,
    slot: &'a Slot,
    state: State,
    at_home: bool,
}

impl Claim<'_> {
    /// The name of the operation.
    #[inline(always)]
    pub(super) fn op(&self) -> Op {
        Op {
            slot: self.slot.index,
            generation: self.state.generation(),
        }
    }

    #[inline(always)]
    pub(super) fn load(&self) -> &Load {
        // SAFETY: a slot in flight has a load, which is ours.
        unsafe { (*self.slot.load.get()).assume_init_ref() }
    }

    /// What the operation has fetched.
    pub(super) fn fetched(&self) -> Fetched {
        if self.load().operation.fetches() {
            // SAFETY: the provider, which wrote the result, is done.
            unsafe { (*self.slot.scalars.get()).fetched() }
        } else {
            Fetched::NOTHING
        }
    }

    /// Empties the slot and gives it back.
    #[inline(always)]
    pub(super) fn finish(self) -> Load {
        // SAFETY: as for `load`, and nobody looks at it again.
        let load = unsafe { (*self.slot.load.get()).assume_init_read() };
        self.table.give_back(self.slot, self.state, self.at_home);
        load
    }
}

impl Slots {
    pub(super) fn new() -> Self {
        Self {
            home: Home::new(),
            near: Near::default(),
            free: AtomicU64::new(u64::from(END)),
            chunks: [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS],
            grown: Mutex::new(0),
        }
    }

    /// Puts the load of an endpoint's operation into a slot, which is in flight from now on; gives it back when the table is full.
    #[inline(always)]
    pub(super) fn fill(&self, owner: u32, load: Load) -> Result<Filled<'_>, Load> {
        let Some(slot) = self.take_free() else {
            return Err(load);
        };
        let state = slot.state().next();
        // SAFETY: the slot was free and is now ours alone.
        unsafe { (*slot.load.get()).write(load) };
        slot.owner.store(owner, Ordering::Relaxed);
        slot.set(state.to(Phase::InFlight));
        Ok(Filled { slot, state })
    }

    /// The context of an operation, if it may still be in flight.
    pub(super) fn context(&self, op: Op) -> Option<*mut c_void> {
        let slot = self.slot(op.slot)?;
        let state = slot.state();
        let same = state.generation() == op.generation;
        (same && state.is(Phase::InFlight)).then(|| slot.context())
    }

    /// Takes hold of the slot behind a context that the queue returned; `None` for one whose endpoint is closed.
    ///
    /// # Safety
    ///
    /// `context` must be null or one that [`Filled::parts`] of this table gave, and the provider must be done with it.
    #[inline(always)]
    pub(super) unsafe fn claim(&self, context: *mut c_void) -> Option<Claim<'_>> {
        // SAFETY: slots live as long as the table.
        let slot = unsafe { context.cast::<Slot>().as_ref() }?;
        let (state, at_home) = (slot.state(), self.home.settle());
        if !state.is(Phase::InFlight) || !(at_home || slot.hold(state).is_some()) {
            self.forget(slot);
            return None;
        }
        Some(Claim {
            table: self,
            slot,
            state,
            at_home,
        })
    }

    /// Gives the slot of an operation back that was abandoned, once its completion was read. Does nothing for one that is free.
    #[cold]
    fn forget(&self, slot: &Slot) {
        loop {
            let state = slot.state();
            if state.is(Phase::Held) {
                core::hint::spin_loop();
            } else if !state.is(Phase::Orphan) {
                return;
            } else if slot.hold(state).is_some() {
                return self.give_back(slot, state, false);
            }
        }
    }

    /// Takes back the load of a slot whose post was refused.
    #[cold]
    pub(super) fn recall(&self, filled: &Filled<'_>) -> Option<Load> {
        // SAFETY: the context is one of this table, and the provider refused it.
        unsafe { self.claim(filled.slot.context()) }.map(Claim::finish)
    }

    /// Frees the buffers of an endpoint; false, and nothing is done, on another thread than that at home.
    ///
    /// # Safety
    ///
    /// The endpoint must be closed: the provider touches none of its buffers any more.
    pub(super) unsafe fn abandon(&self, owner: u32) -> bool {
        if !self.home.settle() {
            return false;
        }
        let grown = *lock(&self.grown);
        let slots = (0..FIRST * ((1 << grown) - 1)).filter_map(|index| self.slot(index));
        for slot in slots {
            let state = slot.state();
            // The owner of a slot in flight changes only with its state.
            let abandoned = state.is(Phase::InFlight) && slot.is_of(owner);
            if abandoned && slot.hold(state).is_some() {
                // SAFETY: a slot in flight has a load, which is ours now.
                unsafe { (*slot.load.get()).assume_init_drop() };
                slot.set(state.to(Phase::Orphan));
            }
        }
        true
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
        if self.home.is_here()
            && let Some(first) = self.near.first.get()
        {
            // SAFETY: slots live as long as the table, and only the thread at home looks at those near it.
            let slot = unsafe { first.as_ref() };
            self.near.first.set(slot.next_near.get());
            self.near.count.set(self.near.count.get() - 1);
            return Some(slot);
        }
        self.take_shared()
    }

    /// Takes a slot that everybody may take.
    #[inline(never)]
    fn take_shared(&self) -> Option<&Slot> {
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

    /// Ends the use of a slot that the caller holds.
    #[inline]
    fn give_back(&self, slot: &Slot, state: State, at_home: bool) {
        slot.set(state.to(Phase::Free));
        // Not to be looked at from elsewhere.
        let count = if at_home {
            self.near.count.get()
        } else {
            Near::MOST
        };
        if count < Near::MOST {
            slot.next_near.set(self.near.first.get());
            self.near.first.set(Some(NonNull::from(slot)));
            self.near.count.set(count + 1);
            return;
        }
        self.push_free(slot.index, slot);
    }

    /// Puts a chain of free slots, which ends in `last`, before those that are free for everybody.
    #[inline(never)]
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
                let chunk = unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(start, len)) };
                for slot in chunk.iter().filter(|slot| slot.state().is(Phase::InFlight)) {
                    // SAFETY: a slot in flight has a load, and the queue is closed.
                    unsafe { (*slot.load.get()).assume_init_drop() };
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Buffer;
    use core::sync::atomic::AtomicBool;
    use oxifabric_abi::FI_ADDR_NOTAVAIL;
    use std::sync::Arc;

    fn load(byte: u8) -> Load {
        Load {
            memory: Buffer::from(&[byte]).into(),
            addr: FI_ADDR_NOTAVAIL,
            vector: 0,
            operation: Operation::Send,
        }
    }

    /// The context of an operation of an endpoint, with one byte.
    fn post(slots: &Slots, owner: u32, byte: u8) -> *mut c_void {
        slots.fill(owner, load(byte)).unwrap().parts().0
    }

    fn byte(load: Load) -> u8 {
        load.memory.into_buffer()[0]
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
        let filled = slots.fill(0, load(1)).unwrap();
        let (context, first) = (filled.parts().0, filled.op());
        assert_eq!(slots.context(first), Some(context));
        // SAFETY: the context is of this table and no provider has it.
        let claim = unsafe { slots.claim(context) }.unwrap();
        assert_eq!((claim.op(), byte(claim.finish())), (first, 1));
        assert_eq!(slots.context(first), None);

        let filled = slots.fill(0, load(2)).unwrap();
        assert_eq!(filled.parts().0, context);
        assert_ne!(filled.op(), first);
    }

    #[test]
    fn a_second_completion_of_the_same_operation_is_nothing() {
        let slots = Slots::new();
        let context = post(&slots, 0, 1);
        // SAFETY: the context is of this table and no provider has it.
        unsafe { slots.claim(context) }.unwrap().finish();
        // SAFETY: as above.
        assert!(unsafe { slots.claim(context) }.is_none());
    }

    #[test]
    fn the_table_grows_and_gives_every_load_back() {
        let slots = Slots::new();
        let contexts: Vec<_> = (0..1000).map(|at| post(&slots, 0, at as u8)).collect();
        for (at, context) in contexts.into_iter().enumerate() {
            // SAFETY: the context is of this table and no provider has it.
            let done = unsafe { slots.claim(context) }.unwrap().finish();
            assert_eq!(byte(done), at as u8);
        }
    }

    #[test]
    fn an_abandoned_operation_completes_as_nothing_and_others_stay() {
        let slots = Slots::new();
        let gone = post(&slots, 7, 1);
        let stays = post(&slots, 8, 2);
        // SAFETY: there is no endpoint 7.
        assert!(unsafe { slots.abandon(7) });
        // SAFETY: the contexts are of this table and no provider has them.
        assert!(unsafe { slots.claim(gone) }.is_none());
        // SAFETY: as above.
        unsafe { slots.claim(stays) }.unwrap().finish();
    }

    #[test]
    fn only_the_thread_at_home_abandons() {
        let slots = Slots::new();
        let done = post(&slots, 7, 1);
        // SAFETY: the context is of this table and no provider has it.
        unsafe { slots.claim(done) }.unwrap().finish();
        let gone = post(&slots, 7, 2);
        std::thread::scope(|scope| {
            // SAFETY: there is no endpoint 7.
            let elsewhere = scope.spawn(|| unsafe { slots.abandon(7) });
            assert!(!elsewhere.join().unwrap());
        });
        // SAFETY: as above.
        assert!(unsafe { slots.abandon(7) });
        // SAFETY: as for `done`.
        assert!(unsafe { slots.claim(gone) }.is_none());
    }

    #[test]
    fn more_slots_than_stay_near_are_free_for_other_threads() {
        let slots = Slots::new();
        let count = Near::MOST + 100;
        let contexts: Vec<_> = (0..count).map(|_| post(&slots, 0, 1)).collect();
        for context in contexts {
            // SAFETY: the context is of this table and no provider has it.
            unsafe { slots.claim(context) }.unwrap().finish();
        }
        let grown = *lock(&slots.grown);
        let takes = |count| (0..count).for_each(|_| assert!(slots.take_free().is_some()));
        std::thread::scope(|scope| scope.spawn(|| takes(100)).join().unwrap());
        takes(Near::MOST);
        assert_eq!(*lock(&slots.grown), grown);
    }

    #[test]
    fn what_is_in_flight_in_the_end_is_freed() {
        let released = Arc::new(AtomicBool::new(false));
        let (told, mut byte) = (released.clone(), 0_u8);
        let start = NonNull::from(&mut byte);
        // SAFETY: nobody touches the byte before the buffer is dropped.
        let buffer =
            unsafe { Buffer::from_raw(start, 1, move || told.store(true, Ordering::Relaxed)) };
        let slots = Slots::new();
        let load = Load {
            memory: buffer.into(),
            ..load(0)
        };
        assert!(slots.fill(0, load).is_ok());
        assert!(!released.load(Ordering::Relaxed));
        drop(slots);
        assert!(released.load(Ordering::Relaxed));
    }

    #[test]
    fn threads_never_share_a_slot() {
        let slots = Slots::new();
        std::thread::scope(|scope| {
            for owner in 0..4 {
                let slots = &slots;
                scope.spawn(move || {
                    for round in 0..2000_u32 {
                        let mark = (owner * 50 + round % 50) as u8;
                        let contexts: Vec<_> = (0..5).map(|_| post(slots, owner, mark)).collect();
                        for context in contexts {
                            // SAFETY: the context is of this table and no provider has it.
                            let done = unsafe { slots.claim(context) }.unwrap().finish();
                            assert_eq!(byte(done), mark);
                        }
                    }
                });
            }
        });
    }
}
