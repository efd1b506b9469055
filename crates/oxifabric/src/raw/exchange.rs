//! What threads share in the table of operations in flight: atomic words, guarded memory, thread numbers.
//!
//! `tests/interleavings.rs` compiles the table with another module in place of this one, whose parts loom checks.

use core::cell::{self, UnsafeCell};

pub(super) use crate::lock::lock;
pub(super) use cell::Cell;
pub(super) use core::hint::spin_loop;
use core::sync::atomic::Ordering;
pub(super) use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};
pub(super) use std::sync::Mutex;

/// Slots of the first chunk; each chunk after it has twice as many as the one before.
pub(super) const FIRST: u32 = 16;
/// Maximum number of free slots in the list of the owner thread; other threads may take the rest.
pub(super) const LOCAL_SLOTS: usize = 256;

/// Memory that belongs to the thread that holds its slot.
pub(super) struct Guarded<T>(UnsafeCell<T>);

impl<T> Guarded<T> {
    #[inline(always)]
    pub(super) const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// Reads the memory; the caller must hold the slot.
    #[inline(always)]
    pub(super) fn with<R>(&self, look: impl FnOnce(*const T) -> R) -> R {
        look(self.0.get())
    }

    /// Changes the memory; the caller must hold the slot.
    #[inline(always)]
    pub(super) fn with_mut<R>(&self, change: impl FnOnce(*mut T) -> R) -> R {
        change(self.0.get())
    }
}

thread_local! {
    /// The number of this thread, unique in the process; 0 until it is needed.
    static NUMBER: Cell<u64> = const { Cell::new(0) };
}

/// Returns the number of this thread; 0 if it has none yet.
#[inline(always)]
pub(super) fn number() -> u64 {
    NUMBER.get()
}

/// Returns the number of this thread, and assigns one first if there is none.
pub(super) fn numbered() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    if NUMBER.get() == 0 {
        NUMBER.set(LAST.fetch_add(1, Ordering::Relaxed) + 1);
    }
    NUMBER.get()
}
