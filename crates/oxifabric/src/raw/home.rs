//! The thread at which a table is at home: what only that thread does needs no exchange between processors (short path).
//!
//! The first thread that takes a completion is at home from then on. Most queues are read by one thread, and on its path an
//! atomic exchange would be the dearest instruction.

use core::sync::atomic::Ordering;

use super::exchange::{AtomicU64, number, numbered};

/// Which thread is at home; [`NOBODY`] until the first asks.
pub(super) struct Home(AtomicU64);

/// The number of no thread.
const NOBODY: u64 = u64::MAX;

impl Home {
    /// One where nobody is.
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(NOBODY))
    }

    /// Whether this thread is at home.
    #[inline]
    pub(super) fn is_here(&self) -> bool {
        self.0.load(Ordering::Relaxed) == number()
    }

    /// Whether this thread is at home; it is from now on if no thread was.
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
