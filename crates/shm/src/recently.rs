//! What was found a moment ago and is not looked for again.

use std::time::Duration;

use oxifabric_provider::clock;
use oxifabric_types::Instant;

/// How long a process that was found to be there is taken to be there still. The numbers of processes are given out in turn, so that one comes
/// again after all others only: at least 300 processes (the smallest pid_max) would have to start within this time. That a process runs another program
/// (execve(2)) is noticed as much later.
const RECHECK_AFTER: Duration = Duration::from_millis(1);

/// When the process of a peer was found to be there.
#[derive(Debug, Default)]
pub(crate) struct Recently {
    found: Option<Instant>,
}

impl Recently {
    /// Returns whether the process was found a moment ago, or `look` finds it now.
    pub(crate) fn found_or(&mut self, look: impl FnOnce() -> bool) -> bool {
        self.found_at_or(clock::exact(), look)
    }

    fn found_at_or(&mut self, now: Instant, look: impl FnOnce() -> bool) -> bool {
        if let Some(found) = self.found
            && now.since(found) < RECHECK_AFTER
        {
            return true;
        }
        self.found = look().then_some(now);
        self.found.is_some()
    }

    /// Has it looked for the next time.
    pub(crate) fn forget(&mut self) {
        self.found = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_looked_for_again_after_a_while() {
        let mut recently = Recently::default();
        let start = Instant::from_nanos(1_000_000_000);
        assert!(!recently.found_at_or(start, || false));
        assert!(
            recently.found_at_or(start, || true),
            "what was missed is looked for again"
        );
        let soon = start.after(RECHECK_AFTER / 2);
        assert!(recently.found_at_or(soon, || false));
        assert!(!recently.found_at_or(start.after(RECHECK_AFTER), || false));
    }

    #[test]
    fn what_is_forgotten_is_looked_for_at_once() {
        let mut recently = Recently::default();
        let now = Instant::from_nanos(1_000_000_000);
        assert!(recently.found_at_or(now, || true));
        recently.forget();
        assert!(!recently.found_at_or(now, || false));
    }
}
