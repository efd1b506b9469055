//! Coalescing: which frames wait for others to leave with them. Hot path.
//!
//! A lone frame leaves at once. What is posted to the same peer behind it, before the endpoint is polled again, waits
//! for that poll; and whatever a poll itself gives rise to leaves when the poll ends. Nothing waits while a thread
//! sleeps until the endpoint has events. [`crate::flusher`] sees to it that nothing waits for long; what a poll itself
//! holds back does not need it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a poll of the endpoint is under way, for its connections to see. All of them are used under the endpoint's lock.
#[derive(Clone, Debug, Default)]
pub(crate) struct PollUnderway(Arc<AtomicBool>);

impl PollUnderway {
    #[inline]
    pub(crate) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    fn set(&self, underway: bool) {
        self.0.store(underway, Ordering::Relaxed);
    }
}

/// What an endpoint tracks of its own polls, to decide which frames to coalesce.
#[derive(Debug)]
pub(crate) struct Coalescer {
    /// Whether the application wants it (`FI_TCP_GATHER`).
    wanted: bool,
    /// Number of polls, from one.
    turn: u32,
    /// Whether a poll is under way.
    polling: PollUnderway,
    /// Whether a thread sleeps until the endpoint has events, or is about to.
    resting: bool,
}

impl Coalescer {
    pub(crate) fn new(wanted: bool) -> Self {
        Self {
            wanted,
            turn: 1,
            polling: PollUnderway::default(),
            resting: false,
        }
    }

    /// Begins a poll.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.turn = self.turn.wrapping_add(1);
        self.polling.set(true);
        self.resting = false;
    }

    /// Ends a poll: what was held back leaves now.
    #[inline]
    pub(crate) fn end(&mut self) {
        self.polling.set(false);
    }

    /// Notes that a thread is going to sleep.
    pub(crate) fn rest(&mut self) {
        self.resting = true;
    }

    /// Returns what shows the endpoint's connections whether a poll is under way.
    pub(crate) fn poll_underway(&self) -> PollUnderway {
        self.polling.clone()
    }

    /// Returns the number of the poll that came last.
    #[inline]
    pub(crate) const fn turn(&self) -> u32 {
        self.turn
    }

    /// Returns whether a frame is held back. `last` is the turn in which something was posted to the same peer before.
    #[inline]
    pub(crate) fn coalesces(&self, last: &mut u32) -> bool {
        let follows = std::mem::replace(last, self.turn) == self.turn;
        self.wanted && (self.polling.get() || (follows && !self.resting))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lone_frame_leaves_at_once_and_others_wait_for_the_poll() {
        let mut coalescer = Coalescer::new(true);
        let (mut a, mut b) = (0, 0);
        assert!(!coalescer.coalesces(&mut a));
        assert!(coalescer.coalesces(&mut a));
        assert!(!coalescer.coalesces(&mut b), "another peer");
        coalescer.begin();
        coalescer.end();
        assert!(!coalescer.coalesces(&mut a));
        assert!(coalescer.coalesces(&mut a));
    }

    #[test]
    fn what_a_poll_gives_rise_to_leaves_with_its_end() {
        let mut coalescer = Coalescer::new(true);
        coalescer.begin();
        assert!(coalescer.coalesces(&mut 0));
        coalescer.end();
        assert!(!coalescer.coalesces(&mut 0));
    }

    #[test]
    fn nothing_waits_while_a_thread_sleeps() {
        let mut coalescer = Coalescer::new(true);
        let mut last = 0;
        coalescer.rest();
        assert!(!coalescer.coalesces(&mut last));
        assert!(!coalescer.coalesces(&mut last));
        coalescer.begin();
        coalescer.end();
        assert!(!coalescer.coalesces(&mut last));
        assert!(coalescer.coalesces(&mut last));
    }

    #[test]
    fn nothing_waits_if_the_application_does_not_want_it() {
        let mut coalescer = Coalescer::new(false);
        let mut last = 0;
        assert!(!coalescer.coalesces(&mut last));
        assert!(!coalescer.coalesces(&mut last));
        coalescer.begin();
        assert!(!coalescer.coalesces(&mut last));
    }
}
