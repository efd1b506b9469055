//! The thread at which a table is at home: what only that thread does needs no exchange between processors (short path).
//!
//! The first thread that takes a completion is at home from then on. Most queues are read by one thread, and on its path an
//! atomic exchange would be the dearest instruction.

use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering};

/// Which thread is at home; [`NOBODY`] until the first asks.
pub(super) struct Home(AtomicU64);

/// The number of no thread.
const NOBODY: u64 = u64::MAX;

thread_local! {
    /// The number of this thread, never that of another one in this process; 0 until it is needed.
    static NUMBER: Cell<u64> = const { Cell::new(0) };
}

impl Home {
    /// One where nobody is.
    pub(super) const fn new() -> Self {
        Self(AtomicU64::new(NOBODY))
    }

    /// Whether this thread is at home.
    #[inline]
    pub(super) fn is_here(&self) -> bool {
        self.0.load(Ordering::Relaxed) == NUMBER.get()
    }

    /// Whether this thread is at home; it is from now on if no thread was.
    #[inline]
    pub(super) fn settle(&self) -> bool {
        self.is_here() || self.settle_first()
    }

    #[cold]
    fn settle_first(&self) -> bool {
        static LAST: AtomicU64 = AtomicU64::new(0);
        if NUMBER.get() == 0 {
            NUMBER.set(LAST.fetch_add(1, Ordering::Relaxed) + 1);
        }
        let (this, order) = (NUMBER.get(), Ordering::Relaxed);
        let settled = self.0.compare_exchange(NOBODY, this, order, order);
        settled.is_ok() || self.is_here()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_is_at_home_and_stays() {
        let home = Home::new();
        assert!(!home.is_here());
        assert!(home.settle());
        std::thread::scope(|scope| {
            let elsewhere = scope.spawn(|| home.settle() || home.is_here());
            assert!(!elsewhere.join().unwrap());
        });
        assert!(home.is_here() && home.settle());
    }
}
