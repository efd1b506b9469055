//! Coalescing: which frames wait for others to leave with them. Hot path.
//!
//! A lone frame leaves at once, and so does a second one: many programs post two between two polls, an answer and the next
//! request, and two calls send these either way. What is posted to the same peer behind them, before the endpoint is polled again, waits
//! for that poll, and from the second one on where there were more the last time; and whatever a poll itself gives rise to leaves when the poll ends. Nothing waits while a thread
//! sleeps until the endpoint has events. [`crate::flusher`] sees to it that nothing waits for long; what a poll itself
//! holds back does not need it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use oxifabric_tcp_stream::tx::Coalescing;

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

/// Number of frames that leave at once, each by itself, unless more are expected.
const FEW: u32 = 2;

/// The frames that were posted to one peer from the beginning of a poll to that of the next one, those of the poll itself included; such with FI_MORE are not counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PostRun {
    /// The turn in which the last one was posted.
    pub(crate) turn: u32,
    /// Number of them in that turn.
    count: u32,
    /// Whether they were more than a few in the turn before in which there were any.
    follows_many: bool,
}

impl PostRun {
    /// Counts a frame that is posted in a turn; returns whether it belongs to a run that is worth waiting for.
    #[inline]
    fn goes_on(&mut self, turn: u32) -> bool {
        if self.turn != turn {
            let follows_many = self.count > FEW;
            *self = Self {
                turn,
                count: 1,
                follows_many,
            };
            return false;
        }
        self.count = self.count.saturating_add(1);
        self.follows_many || self.count > FEW
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
    sleeps: bool,
}

impl Coalescer {
    pub(crate) fn new(wanted: bool) -> Self {
        Self {
            wanted,
            turn: 1,
            polling: PollUnderway::default(),
            sleeps: false,
        }
    }

    /// Begins a poll.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.turn = self.turn.wrapping_add(1);
        self.polling.set(true);
        self.sleeps = false;
    }

    /// Ends a poll: what was held back leaves now.
    #[inline]
    pub(crate) fn end(&mut self) {
        self.polling.set(false);
    }

    /// Notes that a thread is going to sleep.
    pub(crate) fn note_sleep(&mut self) {
        self.sleeps = true;
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

    /// Returns whether a frame is held back. `run` is what was posted to the same peer before.
    #[inline]
    pub(crate) fn coalesces(&self, run: &mut PostRun) -> Coalescing {
        let goes_on = run.goes_on(self.turn);
        match self.wanted {
            true if goes_on && !self.sleeps => Coalescing::Medium,
            // To copy a longer body pays only if another one follows.
            true if self.polling.get() => Coalescing::Short,
            _ => Coalescing::Off,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Posts so many frames in a turn; returns how many of them leave at once.
    fn post(coalescer: &mut Coalescer, run: &mut PostRun, frames: u32) -> usize {
        coalescer.begin();
        coalescer.end();
        let leaves = |_: &u32| coalescer.coalesces(run) == Coalescing::Off;
        (0..frames).filter(leaves).count()
    }

    #[test]
    fn few_frames_leave_at_once_and_others_wait_for_the_poll() {
        let mut coalescer = Coalescer::new(true);
        let (mut a, mut b) = (PostRun::default(), PostRun::default());
        assert_eq!(post(&mut coalescer, &mut a, 1), 1);
        assert_eq!(post(&mut coalescer, &mut a, 2), 2);
        assert_eq!(post(&mut coalescer, &mut a, 64), 2);
        assert_eq!(coalescer.coalesces(&mut b), Coalescing::Off, "another peer");
    }

    #[test]
    fn the_second_frame_waits_where_many_are_expected() {
        let mut coalescer = Coalescer::new(true);
        let mut run = PostRun::default();
        assert_eq!(post(&mut coalescer, &mut run, 3), 2);
        assert_eq!(post(&mut coalescer, &mut run, 64), 1);
        assert_eq!(post(&mut coalescer, &mut run, 0), 0);
        assert_eq!(post(&mut coalescer, &mut run, 2), 1);
        assert_eq!(post(&mut coalescer, &mut run, 2), 2, "there were few");
    }

    #[test]
    fn what_a_poll_gives_rise_to_leaves_with_its_end() {
        let mut coalescer = Coalescer::new(true);
        let mut run = PostRun::default();
        coalescer.begin();
        assert_eq!(coalescer.coalesces(&mut run), Coalescing::Short);
        coalescer.end();
        assert_eq!(coalescer.coalesces(&mut run), Coalescing::Off);
        coalescer.begin();
        let all = [(); 4].map(|()| coalescer.coalesces(&mut run));
        let (short, medium) = (Coalescing::Short, Coalescing::Medium);
        assert_eq!(all, [short, short, medium, medium]);
    }

    #[test]
    fn nothing_waits_while_a_thread_sleeps() {
        let mut coalescer = Coalescer::new(true);
        let mut run = PostRun::default();
        coalescer.note_sleep();
        assert!((0..5).all(|_| coalescer.coalesces(&mut run) == Coalescing::Off));
        assert_eq!(post(&mut coalescer, &mut run, 3), 1);
    }

    #[test]
    fn nothing_waits_if_the_application_does_not_want_it() {
        let mut coalescer = Coalescer::new(false);
        let mut run = PostRun::default();
        assert_eq!(post(&mut coalescer, &mut run, 5), 5);
        coalescer.begin();
        assert_eq!(coalescer.coalesces(&mut run), Coalescing::Off);
    }
}
