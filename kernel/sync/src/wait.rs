//! Waiting for what raises no signal.

use core::time::Duration;

use crate::system;

/// Looks about once a millisecond whether something is done, and sleeps meanwhile; returns whether it was within the time. Signals of the process, such as
/// SIGKILL, do not interrupt it.
pub fn wait_until(timeout: Duration, is_done: impl Fn() -> bool) -> bool {
    let begin = system::clock_ns();
    loop {
        if is_done() {
            return true;
        }
        if u128::from(system::clock_ns().saturating_sub(begin)) >= timeout.as_nanos() {
            return false;
        }
        system::pause();
    }
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::*;

    #[test]
    fn what_is_done_ends_the_wait_and_so_does_the_time() {
        let looks = Cell::new(0);
        let is_third = || {
            looks.set(looks.get() + 1);
            looks.get() == 3
        };
        assert!(wait_until(Duration::MAX, is_third));
        assert_eq!(looks.get(), 3);
        assert!(wait_until(Duration::ZERO, || true));
        let begin = system::clock_ns();
        assert!(!wait_until(Duration::from_millis(5), || false));
        assert!(system::clock_ns() - begin >= 5_000_000);
    }
}
