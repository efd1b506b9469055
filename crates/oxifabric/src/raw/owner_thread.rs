//! The owner thread of a table: what only that thread does needs no atomic exchange (hot path).
//!
//! The first thread that takes a completion becomes the owner and stays the owner. Most queues are read by one thread, and on its path an
//! atomic exchange would be the most expensive instruction.

use core::sync::atomic::Ordering;

use super::exchange::{AtomicU64, number, numbered};

/// The number of the owner thread; [`NO_OWNER`] until a thread takes a completion.
pub(super) struct OwnerThread(AtomicU64);

/// No thread has this number.
const NO_OWNER: u64 = u64::MAX;

impl OwnerThread {
    /// Makes one without an owner.
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(NO_OWNER))
    }

    /// Returns whether this thread is the owner.
    #[inline]
    pub(super) fn is_current(&self) -> bool {
        self.0.load(Ordering::Relaxed) == number()
    }

    /// Returns whether this thread is the owner; it becomes the owner if there was none.
    #[inline]
    pub(super) fn is_current_or_first(&self) -> bool {
        self.is_current() || self.become_first()
    }

    #[cold]
    fn become_first(&self) -> bool {
        let (this, order) = (numbered(), Ordering::Relaxed);
        let became = self.0.compare_exchange(NO_OWNER, this, order, order);
        became.is_ok() || self.is_current()
    }
}
