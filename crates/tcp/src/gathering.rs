//! Which frames wait for others to leave with them. Short path.
//!
//! A lone frame leaves at once. What is posted to the same peer behind it, before the endpoint is polled again, waits for that
//! poll; and whatever a poll itself gives rise to leaves when the poll ends. Nothing waits while somebody sleeps until the
//! endpoint has news. [`crate::reminder`] sees to it that nothing waits for long.

/// What an endpoint knows of its own polls.
#[derive(Debug)]
pub(crate) struct Gathering {
    /// The application wants it (`FI_TCP_GATHER`).
    wanted: bool,
    /// Counts polls, from one.
    turn: u32,
    /// A poll is under way.
    polling: bool,
    /// Somebody sleeps until the endpoint has news, or is about to.
    resting: bool,
}

impl Gathering {
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
    pub(crate) fn gathers(&self, last: &mut u32) -> bool {
        let follows = std::mem::replace(last, self.turn) == self.turn;
        self.wanted && (self.polling || (follows && !self.resting))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lone_frame_leaves_at_once_and_others_wait_for_the_poll() {
        let mut gathering = Gathering::new(true);
        let (mut a, mut b) = (0, 0);
        assert!(!gathering.gathers(&mut a));
        assert!(gathering.gathers(&mut a));
        assert!(!gathering.gathers(&mut b), "another peer");
        gathering.begin();
        gathering.end();
        assert!(!gathering.gathers(&mut a));
        assert!(gathering.gathers(&mut a));
    }

    #[test]
    fn what_a_poll_gives_rise_to_leaves_with_its_end() {
        let mut gathering = Gathering::new(true);
        gathering.begin();
        assert!(gathering.gathers(&mut 0));
        gathering.end();
        assert!(!gathering.gathers(&mut 0));
    }

    #[test]
    fn nothing_waits_while_somebody_sleeps() {
        let mut gathering = Gathering::new(true);
        let mut last = 0;
        gathering.rest();
        assert!(!gathering.gathers(&mut last));
        assert!(!gathering.gathers(&mut last));
        gathering.begin();
        gathering.end();
        assert!(!gathering.gathers(&mut last));
        assert!(gathering.gathers(&mut last));
    }

    #[test]
    fn nothing_waits_if_the_application_does_not_want_it() {
        let mut gathering = Gathering::new(false);
        let mut last = 0;
        assert!(!gathering.gathers(&mut last));
        assert!(!gathering.gathers(&mut last));
        gathering.begin();
        assert!(!gathering.gathers(&mut last));
    }
}
