//! The clock of a polling loop. Path class: hot.

use oxifabric_provider::clock;
use oxifabric_types::Instant;

/// The coarse clock for a loop that looks at it all the time: most looks give the time of the last real one.
#[derive(Debug, Default)]
pub(crate) struct LoopClock {
    now: Instant,
    /// Looks until the next real one.
    left: u32,
}

impl LoopClock {
    /// How many looks give the same time. A turn of a polling loop takes less than a microsecond.
    const LOOKS: u32 = 32;

    /// Looks that give the same time after [`LoopClock::hasten`].
    const FEW_LOOKS: u32 = 8;

    /// Returns the time, or what it was a moment ago; `None` when it is time for [`LoopClock::renew`].
    #[inline]
    pub(crate) fn now(&mut self) -> Option<Instant> {
        self.left = self.left.checked_sub(1)?;
        Some(self.now)
    }

    /// Looks at the real clock, and returns what it says: time may have passed outside of the loop.
    pub(crate) fn renew(&mut self) -> Instant {
        self.now = clock::now();
        self.left = Self::LOOKS;
        self.now
    }

    /// Has the real clock looked at sooner next time.
    pub(crate) const fn hasten(&mut self) {
        self.left = Self::FEW_LOOKS;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_loop_sees_time_pass() {
        let mut clock = LoopClock::default();
        assert_eq!(clock.now(), None);
        let first = clock.renew();
        let end = std::time::Instant::now() + Duration::from_millis(20);
        while std::time::Instant::now() < end {
            std::hint::spin_loop();
        }
        assert!((0..LoopClock::LOOKS).all(|_| clock.now() == Some(first)));
        assert_eq!(clock.now(), None);
        assert!(clock.renew() > first);
    }
}
