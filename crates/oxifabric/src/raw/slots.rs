//! The memory of operations in flight.
//!
//! One table per completion queue: every context that the queue returns is a slot of its table. A post takes a slot, the completion
//! frees it for reuse; the table only grows (hot path).
//!
//! Invariants: the operation in a slot belongs to the thread that moved the slot's state to [`Phase::Held`], until that thread moves
//! it on. Only the [`OwnerThread`] abandons slots in flight, so it may complete them without an atomic exchange; and only it uses
//! the local free list.
//!
//! An abandoned slot is reused when its completion is read, or, since most such operations have no completion, when nothing can name
//! it any more: the queue was found empty after its endpoint was closed, and no other thread holds a completion ([`ReadGuard`]).

use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};
use core::sync::atomic::{self, Ordering};

use oxifabric_abi::{FI_VOID, fi_addr_t, fi_context2, fi_datatype};

use super::exchange::{
    AtomicPtr, AtomicU32, AtomicU64, Cell, FIRST, Guarded, LOCAL_SLOTS, Mutex, lock, spin_loop,
};
use super::owner_thread::OwnerThread;
use super::{Memory, Peer};
use crate::atomic::Fetched;
use crate::error::Operation;

/// What a slot stores of an operation while it is in flight.
#[derive(Debug)]
pub(crate) struct InFlightOp {
    /// The bytes that the provider reads or writes.
    pub(crate) memory: Memory,
    /// The peer; unspecified, which is the same as not available, if the operation names none.
    pub(super) addr: fi_addr_t,
    /// The number of the endpoint's address vector, for the names of senders.
    pub(super) vector: u32,
    /// The kind of operation.
    pub(crate) operation: Operation,
}

impl InFlightOp {
    /// Returns the peer that the operation names.
    pub(crate) fn peer(&self) -> Option<Peer> {
        Peer::new(self.addr, self.vector)
    }
}

/// The identity of a posted operation; its completion carries the same value.
///
/// It is a key: no two operations of a process have the same one while either is in flight or its completion is not read, so a
/// `HashMap<Op, _>` finds what belongs to a completion. If another thread reads the queue, the completion may be there before the post has
/// returned the key.
///
/// Dropping it changes nothing: the operation goes on and its completion still appears.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Op {
    /// The slot, as [`Slot::name`].
    pub(super) slot: u64,
    pub(super) generation: u32,
}

/// The phase of one use of a slot. Each use has a number; number and phase together are the slot's [`State`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Phase {
    /// Not in use.
    Free = 0,
    /// A thread is storing an operation, or taking one out.
    Held = 1,
    /// The provider may use the context and the buffer.
    InFlight = 2,
    /// The endpoint was closed before the completion was read; the buffer is gone, the provider may still return the context once.
    Orphan = 3,
}

/// The number of a use, and its phase.
#[derive(Clone, Copy, PartialEq, Eq)]
struct State(u64);

impl State {
    const PHASE: u64 = 3;

    #[inline]
    fn is(self, phase: Phase) -> bool {
        self.0 & Self::PHASE == phase as u64
    }

    /// Returns another phase of this use.
    #[inline]
    fn to(self, phase: Phase) -> Self {
        Self(self.0 & !Self::PHASE | phase as u64)
    }

    /// Returns the next use, held by the thread that begins it.
    #[inline]
    fn next(self) -> Self {
        Self(self.0 + (1 << 2)).to(Phase::Held)
    }

    /// Returns the number of the use, truncated to what an [`Op`] stores.
    #[inline]
    fn generation(self) -> u32 {
        (self.0 >> 2) as u32
    }
}

/// One entry of the table, for one operation at a time.
#[repr(C)]
pub(super) struct Slot {
    /// First, because providers of mode FI_CONTEXT and FI_CONTEXT2 write to where the context points.
    context: UnsafeCell<fi_context2>,
    /// The use and phase, as [`State`].
    state: AtomicU64,
    /// The number of the table in the upper half, the slot's index in the lower: slots of different queues have different names.
    name: u64,
    /// The next free slot, while this one is in the shared free list.
    next: AtomicU32,
    /// The number of the endpoint that posted the operation.
    endpoint: AtomicU32,
    /// Initialized while the slot is in flight.
    in_flight: Guarded<MaybeUninit<InFlightOp>>,
    /// The operands of an atomic operation on one element.
    scalars: UnsafeCell<Scalars>,
}

/// The operands of an atomic operation on one element, each at the start of its word.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Scalars {
    /// The operand of the update.
    pub(crate) operand: u128,
    /// The comparand.
    pub(crate) compare: u128,
    /// The element's value before the operation.
    pub(crate) result: u128,
    /// The type of the element.
    pub(crate) datatype: fi_datatype,
}

impl Scalars {
    /// Scalars of an operation that has none.
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
    fn new(name: u64) -> Self {
        Self {
            context: UnsafeCell::new(fi_context2::ZERO),
            state: AtomicU64::new(Phase::Free as u64),
            name,
            next: AtomicU32::new(END),
            endpoint: AtomicU32::new(0),
            in_flight: Guarded::new(MaybeUninit::uninit()),
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

    /// Takes hold of a slot in flight; `None` if another thread did so first.
    #[inline]
    fn hold(&self, state: State) -> Option<()> {
        let (order, held) = (Ordering::Acquire, state.to(Phase::Held));
        let held = self.state.compare_exchange(state.0, held.0, order, order);
        held.ok().map(|_| ())
    }

    /// Returns the index in its table.
    #[inline]
    fn index(&self) -> u32 {
        self.name as u32
    }

    #[inline]
    fn is_of(&self, endpoint: u32) -> bool {
        self.endpoint.load(Ordering::Relaxed) == endpoint
    }

    /// Returns the context that the provider gets for the slot.
    #[inline]
    pub(super) fn context(&self) -> *mut c_void {
        ptr::from_ref(self).cast_mut().cast()
    }
}

impl Op {
    /// The value in completions of a peer's accesses, which are no operations of this endpoint.
    pub const PEER: Self = Self {
        slot: u64::MAX,
        generation: 0,
    };
}

/// The end of a free list.
const END: u32 = u32::MAX;
/// Maximum number of chunks: 16 times (2 to the 22nd minus 1) slots, far beyond the queue of any provider.
const CHUNKS: usize = 22;

/// The free list of the owner thread, which no other thread uses.
struct LocalList {
    slots: [core::cell::Cell<NonNull<Slot>>; LOCAL_SLOTS],
    /// Number of entries; the last one is taken first.
    count: Cell<usize>,
}

impl LocalList {
    fn new() -> Self {
        Self {
            slots: [const { core::cell::Cell::new(NonNull::dangling()) }; LOCAL_SLOTS],
            count: Cell::new(0),
        }
    }

    #[inline(always)]
    fn take(&self) -> Option<NonNull<Slot>> {
        let last = self.count.get().wrapping_sub(1);
        let slot = self.slots.get(last)?.get();
        self.count.set(last);
        Some(slot)
    }

    /// Adds a slot; returns false if the list is full.
    #[inline(always)]
    fn put(&self, slot: &Slot) -> bool {
        let count = self.count.get();
        let Some(place) = self.slots.get(count) else {
            return false;
        };
        place.set(NonNull::from(slot));
        self.count.set(count + 1);
        true
    }
}

/// The table of one completion queue.
pub(super) struct Slots {
    /// Distinguishes its slots from those of any other table in the process.
    number: u32,
    /// The thread that completes operations without an atomic exchange.
    owner_thread: OwnerThread,
    /// Free slots that only the owner thread takes.
    local: LocalList,
    /// Head of the shared free list: in the upper half a number that every change increments, so that an exchange fails if a slot was taken
    /// and freed in between (ABA); in the lower half the index of the first slot.
    free: AtomicU64,
    chunks: [AtomicPtr<Slot>; CHUNKS],
    /// Number of chunks; locked while the table grows.
    pub(super) grown: Mutex<usize>,
    /// How many threads other than the owner are reading the queue.
    other_readers: AtomicU32,
}

/// The number of the next table. Nothing is ordered by it, so loom need not check it.
static NUMBERS: atomic::AtomicU32 = atomic::AtomicU32::new(0);

// SAFETY: operations are moved between threads under the invariants of this module, and are `Send` themselves.
unsafe impl Send for Slots {}
// SAFETY: as above; what is not atomic belongs to the owner thread, or to the thread that holds the slot.
unsafe impl Sync for Slots {}

/// The mark that a thread is reading the queue: it may have a completion whose slot it has not claimed yet.
pub(crate) struct ReadGuard<'a> {
    table: &'a Slots,
    by_owner: bool,
}

impl Drop for ReadGuard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if !self.by_owner {
            // What was claimed is visible to the owner thread when it counts no other readers.
            self.table.other_readers.fetch_sub(1, Ordering::Release);
        }
    }
}

/// A free slot that no other thread can take; it is lost if it is not filled.
pub(super) struct Empty<'a>(&'a Slot);

impl<'a> Empty<'a> {
    /// Stores an endpoint's operation in the slot, which is in flight from now on.
    #[inline(always)]
    pub(super) fn fill(self, endpoint: u32, in_flight: InFlightOp) -> Filled<'a> {
        let Self(slot) = self;
        let (state, (start, len)) = (slot.state().next(), in_flight.memory.extent());
        slot.in_flight.with_mut(|place| {
            // SAFETY: the slot was free, and no other thread can take it.
            unsafe { (*place).write(in_flight) };
        });
        slot.endpoint.store(endpoint, Ordering::Relaxed);
        slot.set(state.to(Phase::InFlight));
        Filled {
            slot,
            state,
            start: start.as_ptr(),
            len,
        }
    }
}

/// A filled slot whose context no provider has yet.
pub(super) struct Filled<'a> {
    slot: &'a Slot,
    state: State,
    start: *mut u8,
    len: usize,
}

impl<'a> Filled<'a> {
    /// Returns the identity of the operation.
    #[inline]
    pub(super) fn op(&self) -> Op {
        Op {
            slot: self.slot.name,
            generation: self.state.generation(),
        }
    }

    /// Returns what a provider gets: the context, and the bytes of the buffer.
    #[inline]
    pub(super) fn parts(&self) -> (*mut c_void, *mut u8, usize) {
        (self.slot.context(), self.start, self.len)
    }

    /// Returns where the operands of the operation are.
    pub(super) fn scalars(&self) -> *mut Scalars {
        self.slot.scalars.get()
    }
}

/// The slot of a completed operation, held by the thread that completes it.
pub(super) struct Claim<'a> {
    table: &'a Slots,
    slot: &'a Slot,
    state: State,
    by_owner: bool,
}

impl Claim<'_> {
    /// Returns the identity of the operation.
    #[inline(always)]
    pub(super) fn op(&self) -> Op {
        Op {
            slot: self.slot.name,
            generation: self.state.generation(),
        }
    }

    #[inline(always)]
    pub(super) fn in_flight(&self) -> &InFlightOp {
        // SAFETY: a slot in flight has an operation, and this thread holds the slot.
        self.slot
            .in_flight
            .with(|in_flight| unsafe { (*in_flight).assume_init_ref() })
    }

    /// Returns what the operation has fetched.
    #[inline(always)]
    pub(super) fn fetched(&self) -> Fetched {
        if self.in_flight().operation.fetches() {
            // SAFETY: the provider, which wrote the result, is done.
            unsafe { (*self.slot.scalars.get()).fetched() }
        } else {
            Fetched::NOTHING
        }
    }

    /// Empties the slot and frees it for reuse.
    #[inline(always)]
    pub(super) fn finish(self) -> InFlightOp {
        // SAFETY: as in `in_flight`, and it is not read again.
        let in_flight = self
            .slot
            .in_flight
            .with(|in_flight| unsafe { (*in_flight).assume_init_read() });
        self.table.give_back(self.slot, self.state, self.by_owner);
        in_flight
    }
}

impl Slots {
    pub(super) fn new() -> Self {
        Self {
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            other_readers: AtomicU32::new(0),
            owner_thread: OwnerThread::new(),
            local: LocalList::new(),
            free: AtomicU64::new(u64::from(END)),
            chunks: core::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
            grown: Mutex::new(0),
        }
    }

    /// Takes a free slot; `None` when the table is full.
    #[inline(always)]
    pub(super) fn take(&self) -> Option<Empty<'_>> {
        self.take_free().map(Empty)
    }

    /// Returns the context of an operation, if it may still be in flight.
    pub(super) fn context(&self, op: Op) -> Option<*mut c_void> {
        let slot = self.slot(op.slot as u32)?;
        let state = slot.state();
        let same = slot.name == op.slot && state.generation() == op.generation;
        (same && state.is(Phase::InFlight)).then(|| slot.context())
    }

    /// Begins reading the queue. The guard is dropped after the claim of what was found.
    #[inline(always)]
    pub(super) fn begin_read(&self) -> ReadGuard<'_> {
        let by_owner = self.owner_thread.is_current();
        if !by_owner {
            self.other_readers.fetch_add(1, Ordering::Acquire);
        }
        ReadGuard {
            table: self,
            by_owner,
        }
    }

    /// Takes hold of the slot behind a context that the queue returned; `None` if its endpoint is closed.
    ///
    /// # Safety
    ///
    /// `context` must be null or one that [`Filled::parts`] of this table returned, the provider must be done with it, and it must have
    /// been read under this guard.
    #[inline(always)]
    pub(super) unsafe fn claim(
        &self,
        guard: &ReadGuard<'_>,
        context: *mut c_void,
    ) -> Option<Claim<'_>> {
        // SAFETY: slots live as long as the table.
        let slot = unsafe { context.cast::<Slot>().as_ref() }?;
        let (state, by_owner) = (
            slot.state(),
            guard.by_owner || self.owner_thread.is_current_or_first(),
        );
        if !state.is(Phase::InFlight) || !(by_owner || slot.hold(state).is_some()) {
            self.forget(slot);
            return None;
        }
        Some(Claim {
            table: self,
            slot,
            state,
            by_owner,
        })
    }

    /// Frees the slot of an abandoned operation, once its completion was read. Does nothing for a free slot.
    #[cold]
    fn forget(&self, slot: &Slot) {
        loop {
            let state = slot.state();
            if state.is(Phase::Held) {
                spin_loop();
            } else if !state.is(Phase::Orphan) {
                return;
            } else if slot.hold(state).is_some() {
                return self.give_back(slot, state, false);
            }
        }
    }

    /// Takes an operation back whose post was refused.
    #[cold]
    pub(super) fn recall(&self, filled: &Filled<'_>) -> Option<InFlightOp> {
        // SAFETY: the context is one of this table, and the provider refused it.
        unsafe { self.claim(&self.begin_read(), filled.slot.context()) }.map(Claim::finish)
    }

    /// Takes the operations of an endpoint out, for the caller to drop; `None`, without effect, on any thread but the owner.
    ///
    /// # Safety
    ///
    /// The endpoint must be closed: the provider touches none of its buffers any more.
    pub(super) unsafe fn abandon(&self, endpoint: u32) -> Option<Vec<InFlightOp>> {
        if !self.owner_thread.is_current_or_first() {
            return None;
        }
        let mut abandoned = Vec::new();
        for slot in self.all() {
            let state = slot.state();
            // The endpoint of a slot in flight changes only with its state.
            let is_its = state.is(Phase::InFlight) && slot.is_of(endpoint);
            if is_its && slot.hold(state).is_some() {
                // SAFETY: a slot in flight has an operation, and this thread holds the slot now.
                let in_flight = slot
                    .in_flight
                    .with(|in_flight| unsafe { (*in_flight).assume_init_read() });
                slot.set(state.to(Phase::Orphan));
                abandoned.push(in_flight);
            }
        }
        Some(abandoned)
    }

    /// Returns whether this thread is the owner of the table.
    pub(super) fn is_owner(&self) -> bool {
        self.owner_thread.is_current()
    }

    /// Frees the abandoned slots; returns false, without effect, while another thread may be about to claim one, and on any thread
    /// but the owner.
    ///
    /// # Safety
    ///
    /// This thread must have found the queue empty after the last call of [`Slots::abandon`].
    pub(super) unsafe fn reclaim(&self) -> bool {
        // Another thread that has taken a completion out of the queue did so before the queue was empty, and is counted since before
        // that.
        if !self.owner_thread.is_current() || self.other_readers.load(Ordering::Acquire) != 0 {
            return false;
        }
        for slot in self.all() {
            let state = slot.state();
            if state.is(Phase::Orphan) && slot.hold(state).is_some() {
                self.give_back(slot, state, true);
            }
        }
        true
    }

    /// Iterates over all slots.
    fn all(&self) -> impl Iterator<Item = &Slot> {
        let grown = *lock(&self.grown);
        (0..FIRST * ((1 << grown) - 1)).filter_map(|index| self.slot(index))
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
    pub(super) fn take_free(&self) -> Option<&Slot> {
        if self.owner_thread.is_current()
            && let Some(slot) = self.local.take()
        {
            // SAFETY: slots live as long as the table, and only the owner thread uses its local list.
            return Some(unsafe { slot.as_ref() });
        }
        self.take_shared()
    }

    /// Takes a slot from the shared free list.
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
    #[inline(always)]
    fn give_back(&self, slot: &Slot, state: State, by_owner: bool) {
        slot.set(state.to(Phase::Free));
        // Only the owner thread may touch the local list.
        if by_owner && self.local.put(slot) {
            return;
        }
        self.push_free(slot.index(), slot);
    }

    /// Adds a chain of free slots, which ends in `last`, to the head of the shared free list.
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

    fn name(&self, index: u32) -> u64 {
        u64::from(self.number) << 32 | u64::from(index)
    }

    /// Adds a chunk; returns false when the table is full.
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
            .map(|at| Slot::new(self.name(base + at)))
            .collect();
        for pair in chunk.windows(2) {
            slot_next(&pair[0], pair[1].index());
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

/// Returns a new head of the free list, whose number is one more than that of `head`.
#[inline]
fn tagged(head: u64, index: u32) -> u64 {
    (((head >> 32) + 1) << 32) | u64::from(index)
}

/// Returns chunk and offset of a slot.
#[inline]
pub(super) fn place(index: u32) -> (usize, usize) {
    let shifted = u64::from(index) + u64::from(FIRST);
    let chunk = (shifted / u64::from(FIRST)).ilog2();
    (
        chunk as usize,
        (shifted - (u64::from(FIRST) << chunk)) as usize,
    )
}

impl Drop for Slots {
    fn drop(&mut self) {
        // Dropped last, because that may run code of the application.
        let mut abandoned = Vec::new();
        for (number, chunk) in self.chunks.iter().enumerate() {
            let start = chunk.load(Ordering::Relaxed);
            if !start.is_null() {
                let len = (FIRST as usize) << number;
                // SAFETY: `grow` made the chunk of a box of this length.
                let chunk = unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(start, len)) };
                for slot in chunk.iter().filter(|slot| slot.state().is(Phase::InFlight)) {
                    // SAFETY: a slot in flight has an operation, and the queue is closed.
                    abandoned.push(
                        slot.in_flight
                            .with(|in_flight| unsafe { (*in_flight).assume_init_read() }),
                    );
                }
            }
        }
    }
}
