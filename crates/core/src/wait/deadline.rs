//! Deadlines of blocking calls.

use std::time::Duration;

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
    fn deadlines_pass_or_never() {
        assert!(Deadline::after_ms(0).passed());
        assert!(!Deadline::after_ms(-1).passed());
        let slice = Duration::from_millis(5);
        assert_eq!(Deadline::after_ms(-1).slice(slice), slice);
        assert!(Deadline::after_ms(2).slice(slice) <= Duration::from_millis(2));
    }
}
