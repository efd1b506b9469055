//! When a thread whose polls stay empty yields the processor: back-off. Path class: hot.
//!
//! Programs poll in a loop. Where there are more of them than processors, the message that one waits for may have to be
//! sent by another that waits for this processor, and gets it only when the time slice is over, milliseconds later. So a
//! thread yields after empty polls for a while. The while is long enough that a peer which has a processor of its own
//! would have answered: a thread that shares its processor with unrelated programs does not give its share away.
//!
//! Where threads that poll as this one does wait for the processor, it comes back at once: they yield too. Then the while is short. An unrelated thread that runs as briefly counts as one of them, until the next yield.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::progress::DomainProgress;
use crate::registry;

/// Empty polls between two looks at the clock.
const POLLS_PER_LOOK: u32 = 64;

/// Longest yield, in microseconds, in which no other thread has run.
const OTHERS_RAN_US: u64 = 2;

/// Longest yield, in microseconds, in which the others yielded too: a thread that computes keeps the processor for
/// a slice of time, which is longer.
const OTHERS_YIELDED_US: u64 = 400;

/// How long polls stay empty before a thread yields whose last yield was used by others that yielded too.
const SHORT_LIMIT: Duration = Duration::from_micros(2);

/// Counts the empty polls of a queue. Several threads may poll it: races on these hints do no harm.
#[derive(Debug, Default)]
pub(super) struct YieldBackoff {
    /// Polls since something happened.
    polls: AtomicU32,
    /// When that was, roughly, in microseconds of [`now_us`].
    since_us: AtomicU64,
    /// Others that poll and yield wait for this processor.
    is_shared: AtomicBool,
}

impl YieldBackoff {
    /// Takes note of a poll that saw `events` events; may yield the processor. Call it without locks in hand.
    #[inline(always)]
    pub(super) fn polled(&self, events: usize, progress: &DomainProgress) {
        if events != 0 {
            self.polls.store(0, Ordering::Relaxed);
            progress.note_activity();
            return;
        }
        let polls = self.polls.load(Ordering::Relaxed).wrapping_add(1);
        self.polls.store(polls, Ordering::Relaxed);
        if polls.is_multiple_of(POLLS_PER_LOOK) {
            self.look(polls, progress);
        }
    }

    #[cold]
    fn look(&self, polls: u32, progress: &DomainProgress) {
        progress.go_round();
        let quiet = polls != POLLS_PER_LOOK && !progress.take_activity();
        let begun_us = now_us();
        if self.is_over(quiet, begun_us, self.shortened(limit())) {
            std::thread::yield_now();
            self.has_yielded(now_us().saturating_sub(begun_us));
        } else if self.is_shared.load(Ordering::Relaxed) {
            self.look_at_each_poll();
        }
    }

    /// Returns how long polls stay empty before this thread yields; `longest` is what the parameter says.
    fn shortened(&self, longest: Option<Duration>) -> Option<Duration> {
        match self.is_shared.load(Ordering::Relaxed) {
            true => longest.map(|longest| longest.min(SHORT_LIMIT)),
            false => longest,
        }
    }

    /// Takes note of how long others had the processor: where many wait for it, one empty poll is enough between two
    /// yields; otherwise a thread with work waits until all others have polled 64 times.
    fn has_yielded(&self, took_us: u64) {
        let others_ran = took_us > OTHERS_RAN_US;
        let is_shared = others_ran && took_us <= OTHERS_YIELDED_US;
        self.is_shared.store(is_shared, Ordering::Relaxed);
        if others_ran {
            self.look_at_each_poll();
        }
    }

    /// Has the next poll look at the clock if it is empty.
    fn look_at_each_poll(&self) {
        self.polls.store(2 * POLLS_PER_LOOK - 1, Ordering::Relaxed);
    }

    /// Returns whether nothing has happened for longer than `limit`. `quiet` says that nothing has since the last look.
    fn is_over(&self, quiet: bool, now_us: u64, limit: Option<Duration>) -> bool {
        if !quiet {
            self.since_us.store(now_us, Ordering::Relaxed);
            return false;
        }
        let waited = now_us.saturating_sub(self.since_us.load(Ordering::Relaxed));
        limit.is_some_and(|limit| u128::from(waited) >= limit.as_micros())
    }
}

/// Reads the clock.
fn now_us() -> u64 {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    BEGIN.get_or_init(Instant::now).elapsed().as_micros() as u64
}

/// Returns how long polls stay empty before the thread yields (`FI_OXI_YIELD_US`); `None` for ever.
fn limit() -> Option<Duration> {
    static LIMIT: OnceLock<Option<Duration>> = OnceLock::new();
    *LIMIT.get_or_init(|| {
        let limit = u64::try_from(registry::YIELD_US.int("")).unwrap_or(0);
        (limit > 0).then_some(Duration::from_micros(limit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Option<Duration> = Some(Duration::from_micros(100));

    #[test]
    fn a_thread_yields_when_nothing_happens_for_long() {
        let backoff = YieldBackoff::default();
        assert!(!backoff.is_over(false, 1000, LIMIT), "it begins");
        assert!(!backoff.is_over(true, 1099, LIMIT));
        assert!(backoff.is_over(true, 1100, LIMIT));
        assert!(backoff.is_over(true, 1101, LIMIT), "and stays so");
        assert!(!backoff.is_over(false, 1200, LIMIT), "something happened");
        assert!(!backoff.is_over(true, 1250, LIMIT));
    }

    #[test]
    fn a_thread_without_limit_never_yields() {
        let backoff = YieldBackoff::default();
        assert!(!backoff.is_over(false, 0, None));
        assert!(!backoff.is_over(true, u64::MAX, None));
    }

    #[test]
    fn where_others_wait_for_the_processor_every_empty_poll_looks() {
        let progress = DomainProgress::new(true, false);
        let backoff = YieldBackoff::default();
        let looks = |took_us| {
            backoff.polls.store(5, Ordering::Relaxed);
            backoff.has_yielded(took_us);
            backoff.since_us.store(u64::MAX, Ordering::Relaxed);
            progress.note_activity();
            backoff.polled(0, &progress);
            backoff.since_us.load(Ordering::Relaxed) != u64::MAX
        };
        assert!(!looks(OTHERS_RAN_US), "no other thread ran");
        assert!(looks(OTHERS_RAN_US + 1));
    }

    #[test]
    fn where_the_others_yield_too_a_thread_yields_soon() {
        let backoff = YieldBackoff::default();
        assert_eq!(backoff.shortened(LIMIT), LIMIT);
        backoff.has_yielded(OTHERS_YIELDED_US);
        assert_eq!(backoff.shortened(LIMIT), Some(SHORT_LIMIT));
        assert_eq!(
            backoff.shortened(None),
            None,
            "not where the parameter forbids it"
        );
        backoff.has_yielded(OTHERS_YIELDED_US + 1);
        assert_eq!(backoff.shortened(LIMIT), LIMIT, "a thread computes");
        backoff.has_yielded(OTHERS_RAN_US + 1);
        backoff.has_yielded(OTHERS_RAN_US);
        assert_eq!(backoff.shortened(LIMIT), LIMIT, "no other thread ran");
    }

    #[test]
    fn the_clock_is_looked_at_now_and_then_while_nothing_happens() {
        let progress = DomainProgress::new(true, false);
        let backoff = YieldBackoff::default();
        let looked = |backoff: &YieldBackoff| backoff.since_us.load(Ordering::Relaxed) != u64::MAX;
        backoff.since_us.store(u64::MAX, Ordering::Relaxed);
        for _ in 1..POLLS_PER_LOOK {
            backoff.polled(0, &progress);
        }
        backoff.polled(1, &progress);
        for _ in 1..POLLS_PER_LOOK {
            backoff.polled(0, &progress);
        }
        assert!(!looked(&backoff), "an event begins the count anew");
        backoff.polled(0, &progress);
        assert!(looked(&backoff));
        assert!(progress.take_activity(), "the domain is told of events");
        assert!(!progress.take_activity());
    }
}
