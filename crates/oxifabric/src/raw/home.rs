//! The owner thread of a table: what only that thread does needs no atomic exchange (short path).
//!
//! The first thread that takes a completion becomes the owner and stays it. Most queues are read by one thread, and on its path an
//! atomic exchange would be the most expensive instruction.

use core::sync::atomic::Ordering;

use super::exchange::{AtomicU64, number, numbered};

/// The number of the owner thread; [`NO_OWNER`] until a thread takes a completion.
pub(super) struct Home(AtomicU64);

/// No thread has this number.
const NOBODY: u64 = u64::MAX;

impl Home {
    /// Makes one without an owner.
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(NOBODY))
    }

    /// Returns whether this thread is the owner.
    #[inline]
    pub(super) fn is_here(&self) -> bool {
        self.0.load(Ordering::Relaxed) == number()
    }

    /// Returns whether this thread is the owner; it becomes the owner if there was none.
    #[inline]
    pub(super) fn settle(&self) -> bool {
        self.is_here() || self.settle_first()
    }

    #[cold]
    fn settle_first(&self) -> bool {
        let (this, order) = (numbered(), Ordering::Relaxed);
        let settled = self.0.compare_exchange(NOBODY, this, order, order);
        settled.is_ok() || self.is_here()
    }
}
