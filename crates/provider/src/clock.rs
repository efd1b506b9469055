//! The clocks: a coarse one that tells the engine what time it is, and an exact one.

use oxifabric_types::Instant;

/// Reads the coarse monotonic clock: a few nanoseconds, no system call, a resolution of some milliseconds.
#[inline]
pub fn now() -> Instant {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_coarse_clock_runs_forward() {
        let first = now();
        assert!(now() >= first);
        assert!(first.as_nanos() > 0);
    }
}
