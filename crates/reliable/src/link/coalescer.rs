//! Coalescing: frames that wait for others to leave with them, as over tcp (docs/adr/0018), but from the second one on. Hot path.
//!
//! A lone frame leaves at once. What is posted to the same peer behind it, before the endpoint is polled again, waits for that
//! poll, or until a packet is full; whatever a poll itself gives rise to leaves when the poll ends. Nothing waits while a thread
//! sleeps until the endpoint has news.

use oxifabric_types::Instant;

/// Decides which frames of a link are held back.
#[derive(Debug)]
pub(super) struct Coalescer {
    /// Counts polls, from one.
    turn: u32,
    /// Whether a poll is under way.
    polling: bool,
    /// Deadline until which a thread sleeps, if the endpoint has no events before.
    sleeps_until: Option<Instant>,
    /// Whether something is held back.
    pub(super) holds: bool,
}

impl Coalescer {
    pub(super) const fn new() -> Self {
        Self {
            turn: 1,
            polling: false,
            sleeps_until: None,
            holds: false,
        }
    }

    /// Begins a poll.
    #[inline]
    pub(super) fn begin(&mut self) {
        self.turn = self.turn.wrapping_add(1);
        self.polling = true;
        self.sleeps_until = None;
    }

    /// Ends a poll: what was held back leaves now.
    #[inline]
    pub(super) fn end(&mut self) {
        self.polling = false;
        self.holds = false;
    }

    /// Takes note that a thread is going to sleep, at most until this deadline.
    pub(super) fn note_sleep(&mut self, until: Instant) {
        self.sleeps_until = Some(until);
    }

    /// Returns whether a thread sleeps beyond `due`.
    #[inline]
    pub(super) fn is_timer_late(&self, due: Instant) -> bool {
        self.sleeps_until.is_some_and(|until| due < until)
    }

    /// Returns whether a frame is held back. `last` is the turn in which something was posted to the same peer before.
    #[inline]
    pub(super) fn coalesces(&self, last: &mut u32) -> bool {
        let follows = core::mem::replace(last, self.turn) == self.turn;
        self.polling || (follows && self.sleeps_until.is_none())
    }
}
