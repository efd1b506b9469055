//! The clocks: a coarse one that tells the engine what time it is, and deadlines of blocking calls.

use std::time::Duration;

use oxifabric_types::Instant;

/// Reads the coarse monotonic clock: a few nanoseconds, no system call, a resolution of some milliseconds.
#[inline]
pub(crate) fn now() -> Instant {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the structure may be written. The call cannot fail for this clock; if it did, time would stand still.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &mut time) };
    Instant::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// When a blocking call gives up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Option<std::time::Instant>);

impl Deadline {
    /// Starts to wait for so many milliseconds; for ever, if negative (fi_cq(3)).
    pub(crate) fn after_ms(timeout_ms: i32) -> Self {
        let wait = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
        Self(wait.and_then(|wait| std::time::Instant::now().checked_add(wait)))
    }

    /// Tells whether the time is over.
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
    fn deadlines_pass_or_never() {
        assert!(Deadline::after_ms(0).passed());
        assert!(!Deadline::after_ms(-1).passed());
        let slice = Duration::from_millis(5);
        assert_eq!(Deadline::after_ms(-1).slice(slice), slice);
        assert!(Deadline::after_ms(2).slice(slice) <= Duration::from_millis(2));
    }
}
