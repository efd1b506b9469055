//! What a thread knows of its own processor: the time, and whether other threads had it. Path class: cold.

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::time::Instant;

/// The processor as a thread that waits sees it; tests have one of their own.
pub(super) trait Processor {
    /// Returns the time in microseconds since some moment, never 0.
    fn now_us(&self) -> u64;

    /// Lets other threads have the processor, sched_yield(2).
    fn give_way(&self);

    /// Remembers, for this thread, how often it has lost the processor at the moment `since_us`.
    fn note_losses(&self, since_us: u64);

    /// Returns whether this thread has lost the processor since [`Processor::note_losses`] was called for `since_us`; false when it was called
    /// for another moment last.
    fn has_lost_it(&self, since_us: u64) -> bool;
}

/// The processor on which the calling thread runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnProcessor;

thread_local! {
    /// The moment for which the thread's losses were noted, and how many they were.
    static NOTED: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

impl Processor for OwnProcessor {
    fn now_us(&self) -> u64 {
        static BEGIN: OnceLock<Instant> = OnceLock::new();
        BEGIN.get_or_init(Instant::now).elapsed().as_micros() as u64 + 1
    }

    fn give_way(&self) {
        std::thread::yield_now();
    }

    fn note_losses(&self, since_us: u64) {
        NOTED.set((since_us, losses()));
    }

    fn has_lost_it(&self, since_us: u64) -> bool {
        let (noted_us, noted) = NOTED.get();
        noted_us == since_us && noted != losses()
    }
}

/// Returns how often this thread lost the processor while it was ready to run on: to give way, or because its slice of time was over.
fn losses() -> u64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the call writes one structure, which is valid when zeroed if it fails.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    };
    u64::try_from(usage.ru_nivcsw).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes() {
        let begun_us = OwnProcessor.now_us();
        assert_ne!(begun_us, 0);
        while OwnProcessor.now_us() == begun_us {
            std::hint::spin_loop();
        }
        assert!(OwnProcessor.now_us() > begun_us);
    }

    #[test]
    fn losses_are_known_for_the_moment_for_which_they_were_noted() {
        OwnProcessor.note_losses(7);
        let (_, losses) = NOTED.get();
        NOTED.set((7, losses.wrapping_sub(1)));
        assert!(OwnProcessor.has_lost_it(7), "one more than was noted");
        assert!(!OwnProcessor.has_lost_it(8), "another wait");
    }
}
