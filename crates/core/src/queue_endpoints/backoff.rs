//! When a thread whose polls stay empty yields the processor: back-off. Path class: hot.
//!
//! Programs poll in a loop. Where there are more of them than processors, the message that one waits for may have to be
//! sent by another that waits for this processor, and gets it only when the time slice is over, milliseconds later. So a
//! thread yields after empty polls for a while. The while is long enough that a peer which has a processor of its own
//! would have answered: a thread that shares its processor with unrelated programs does not give its share away.
//!
//! Where threads that poll as this one does wait for the processor, it comes back at once: they yield too. The processor then counts as shared, and
//! a thread yields after a few empty polls. It counts so until many yields in a row have shown no other thread: Linux takes the processor from a thread
//! that yields only if another one has had less of it. An unrelated thread that runs as briefly counts as one of them, until the next yield.
//!
//! A thread that loses the processor between its polls yields by other means: programs that hold a lock in their polls do so once they have
//! given it back. To yield in the poll, with their lock held, would only make others wait for the lock.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::processor::{OwnProcessor, Processor};
use crate::progress::DomainProgress;
use crate::registry;

/// Empty polls between two looks at the clock.
const POLLS_PER_LOOK: u32 = 64;

/// Empty polls before the first look where the processor is shared.
const POLLS_WHERE_SHARED: u32 = 4;

/// Longest yield, in microseconds, in which no other thread has run.
const OTHERS_RAN_US: u64 = 2;

/// Longest yield, in microseconds, in which the others yielded too: a thread that computes keeps the processor for
/// a slice of time, which is longer.
const OTHERS_YIELDED_US: u64 = 400;

/// Yields in a row in which no other thread has run, after which the processor does not count as shared.
const VAIN_YIELDS: u32 = 16;

/// Counts the empty polls of a queue. Several threads may poll it: races on these hints do no harm.
#[derive(Debug, Default)]
pub(super) struct YieldBackoff {
    /// Polls since something happened.
    polls: AtomicU32,
    /// What that count begins with: the first look comes when it is [`POLLS_PER_LOOK`].
    first: AtomicU32,
    /// When the wait began, roughly, in microseconds of [`Processor::now_us`].
    since_us: AtomicU64,
    /// Others that poll and yield wait for this processor.
    is_shared: AtomicBool,
    /// Yields in a row in which no other thread has run, while the processor is shared.
    vain: AtomicU32,
}

impl YieldBackoff {
    /// Takes note of a poll that saw `events` events; may yield the processor. Call it without locks in hand.
    #[inline(always)]
    pub(super) fn polled(&self, events: usize, progress: &DomainProgress) {
        self.polled_on(OwnProcessor, events, progress);
    }

    #[inline(always)]
    fn polled_on(&self, processor: impl Processor, events: usize, progress: &DomainProgress) {
        if events != 0 {
            let first = self.first.load(Ordering::Relaxed);
            self.polls.store(first, Ordering::Relaxed);
            progress.note_activity();
            return;
        }
        let polls = self.polls.load(Ordering::Relaxed).wrapping_add(1);
        self.polls.store(polls, Ordering::Relaxed);
        if polls.is_multiple_of(POLLS_PER_LOOK) {
            self.look(&processor, polls, progress);
        }
    }

    #[cold]
    fn look(&self, processor: &impl Processor, polls: u32, progress: &DomainProgress) {
        progress.go_round();
        let is_quiet = !progress.take_activity() && polls != POLLS_PER_LOOK;
        let now_us = processor.now_us();
        if !is_quiet {
            self.begin(processor, now_us);
        } else if self.is_over(now_us, limit()) {
            self.give_way(processor, now_us);
        }
        if self.is_shared.load(Ordering::Relaxed) {
            self.look_at_each_poll();
        }
    }

    /// Begins a wait.
    fn begin(&self, processor: &impl Processor, now_us: u64) {
        self.since_us.store(now_us, Ordering::Relaxed);
        processor.note_losses(now_us);
    }

    /// Returns whether the wait is long enough to yield; `longest` is what the parameter says.
    fn is_over(&self, now_us: u64, longest: Option<Duration>) -> bool {
        let waited_us = now_us.saturating_sub(self.since_us.load(Ordering::Relaxed));
        longest.is_some_and(|longest| {
            self.is_shared.load(Ordering::Relaxed) || u128::from(waited_us) >= longest.as_micros()
        })
    }

    /// Yields the processor, unless the thread has lost it meanwhile: then the wait begins anew.
    fn give_way(&self, processor: &impl Processor, now_us: u64) {
        let since_us = self.since_us.load(Ordering::Relaxed);
        if processor.has_lost_it(since_us) {
            self.set_shared(false);
            self.begin(processor, now_us);
            return;
        }
        processor.give_way();
        self.has_yielded(processor.now_us().saturating_sub(now_us));
        processor.note_losses(since_us);
    }

    /// Takes note of how long others had the processor. Where many wait for it, one empty poll is enough between two
    /// yields; otherwise a thread with work waits until all others have polled 64 times.
    fn has_yielded(&self, took_us: u64) {
        if took_us > OTHERS_RAN_US {
            self.vain.store(0, Ordering::Relaxed);
            self.set_shared(took_us <= OTHERS_YIELDED_US);
            self.look_at_each_poll();
            return;
        }
        let vain = self.vain.load(Ordering::Relaxed).wrapping_add(1);
        self.vain.store(vain, Ordering::Relaxed);
        if vain >= VAIN_YIELDS {
            self.set_shared(false);
        }
    }

    fn set_shared(&self, is_shared: bool) {
        let first = match is_shared {
            true => POLLS_PER_LOOK - POLLS_WHERE_SHARED,
            false => 0,
        };
        self.is_shared.store(is_shared, Ordering::Relaxed);
        self.first.store(first, Ordering::Relaxed);
    }

    /// Has the next poll look at the clock if it is empty.
    fn look_at_each_poll(&self) {
        self.polls.store(2 * POLLS_PER_LOOK - 1, Ordering::Relaxed);
    }
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
mod tests;
