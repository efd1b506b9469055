//! Which frames wait for others to leave with them. Short path.
//!
//! A lone frame leaves at once. What is posted to the same peer behind it, before the endpoint is polled again, waits for that
//! poll; and whatever a poll itself gives rise to leaves when the poll ends. Nothing waits while somebody sleeps until the
//! endpoint has news. [`crate::flusher`] sees to it that nothing waits for long.

/// What an endpoint knows of its own polls.
#[derive(Debug)]
pub(crate) struct Coalescer {
    /// The application wants it (`FI_TCP_GATHER`).
    wanted: bool,
    /// Counts polls, from one.
    turn: u32,
    /// A poll is under way.
    polling: bool,
    /// Somebody sleeps until the endpoint has news, or is about to.
    resting: bool,
}

impl Coalescer {
    pub(crate) const fn new(wanted: bool) -> Self {
        Self {
            wanted,
            turn: 1,
            polling: false,
            resting: false,
        }
    }

    /// A poll begins.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.turn = self.turn.wrapping_add(1);
        self.polling = true;
        self.resting = false;
    }

    /// It ends: what was held back leaves now.
    #[inline]
    pub(crate) fn end(&mut self) {
        self.polling = false;
    }

    /// Somebody is going to sleep.
    pub(crate) fn rest(&mut self) {
        self.resting = true;
    }

    /// Returns the number of the poll that came last.
    #[inline]
    pub(crate) const fn turn(&self) -> u32 {
        self.turn
    }

    /// Tells whether a frame is held back. `last` is the turn in which something was posted to the same peer before.
    #[inline]
    pub(crate) fn coalesces(&self, last: &mut u32) -> bool {
        let follows = std::mem::replace(last, self.turn) == self.turn;
        self.wanted && (self.polling || (follows && !self.resting))
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
    fn nothing_waits_while_somebody_sleeps() {
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
