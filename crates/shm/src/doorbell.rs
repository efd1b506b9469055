//! How a sleeping endpoint is woken, docs/protocol/shm.md "Sleeping".
//!
//! Before an endpoint sleeps it writes a number into its word of every connection, and looks at the lanes once more.
//! The side that publishes something looks at the other's word afterwards. The fences on both sides ensure that at
//! least one of the two looks finds what the other side wrote.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use crate::region::Side;
use crate::sys::memory::Mapping;

const AWAKE: u64 = 0;

/// One side's view of the two words.
#[derive(Debug)]
pub(crate) struct Doorbell {
    head: Arc<Mapping>,
    side: Side,
    /// Whether the other side sleeps at all.
    needed: bool,
}

impl Doorbell {
    pub(crate) fn new(head: Arc<Mapping>, side: Side, needed: bool) -> Self {
        Self { head, side, needed }
    }

    /// Announces that this side is about to sleep, for the `turn`-th time; turns start at one. A [`full_fence`] must
    /// follow before the lanes are looked at.
    pub(crate) fn announce_sleep(&self, turn: u64) {
        self.word(self.side).store(turn, Ordering::Relaxed);
    }

    /// Announces that this side looks at the lanes by itself.
    pub(crate) fn announce_awake(&self) {
        self.word(self.side).store(AWAKE, Ordering::Relaxed);
    }

    /// Returns, after something was published, whether the other side sleeps and this call is the one to wake it.
    #[inline]
    pub(crate) fn must_ring(&self) -> bool {
        self.needed && self.claim()
    }

    fn claim(&self) -> bool {
        full_fence();
        let word = self.word(self.side.other());
        let turn = word.load(Ordering::Relaxed);
        // The turn tells this sleep from the next one, in which another thread may have to ring.
        turn != AWAKE
            && word
                .compare_exchange(turn, AWAKE, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    fn word(&self, side: Side) -> &std::sync::atomic::AtomicU64 {
        side.word(&self.head, 0)
    }
}

/// Orders what this side wrote before what it reads next.
pub(crate) fn full_fence() {
    fence(Ordering::SeqCst);
}
