//! The clocks: a coarse one that tells the engine what time it is, an exact one, and deadlines of blocking calls.

use std::time::Duration;

use oxifabric_types::Instant;

/// Reads the coarse monotonic clock: a few nanoseconds, no system call, a resolution of some milliseconds.
#[inline]
pub(crate) fn now() -> Instant {
    read(libc::CLOCK_MONOTONIC_COARSE)
}

/// Reads the same clock to the nanosecond, which takes longer.
#[inline]
pub fn exact() -> Instant {
    read(libc::CLOCK_MONOTONIC)
}

#[inline]
fn read(clock: libc::clockid_t) -> Instant {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the structure may be written. The call cannot fail for these clocks; if it did, time would stand still.
    unsafe { libc::clock_gettime(clock, &mut time) };
    Instant::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

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
        self.now = now();
        self.left = Self::LOOKS;
        self.now
    }

    /// Has the real clock looked at sooner next time.
    pub(crate) const fn hasten(&mut self) {
        self.left = Self::FEW_LOOKS;
    }
}

/// When a blocking call gives up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Option<std::time::Instant>);

impl Deadline {
    /// Starts to wait for `timeout_ms` milliseconds; for ever, if negative (fi_cq(3)).
    pub(crate) fn after_ms(timeout_ms: i32) -> Self {
        let wait = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
        Self(wait.and_then(|wait| std::time::Instant::now().checked_add(wait)))
    }

    /// Returns whether the time is over.
    pub(crate) fn passed(&self) -> bool {
        self.0.is_some_and(|end| std::time::Instant::now() >= end)
    }

    /// Returns how long to sleep at most: `slice`, or what is left if that is less.
    pub(crate) fn slice(&self, slice: Duration) -> Duration {
        match self.0 {
            None => slice,
            Some(end) => end
                .saturating_duration_since(std::time::Instant::now())
                .min(slice),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_coarse_clock_runs_forward() {
        let first = now();
        assert!(now() >= first);
        assert!(first.as_nanos() > 0);
    }

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

    #[test]
    fn deadlines_pass_or_never() {
        assert!(Deadline::after_ms(0).passed());
        assert!(!Deadline::after_ms(-1).passed());
        let slice = Duration::from_millis(5);
        assert_eq!(Deadline::after_ms(-1).slice(slice), slice);
        assert!(Deadline::after_ms(2).slice(slice) <= Duration::from_millis(2));
    }
}
