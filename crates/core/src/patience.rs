//! How long fi_close(3) waits for what is under way.

use std::time::{Duration, Instant};

/// How long what is under way may stand still before it is given up.
const STALL_TIMEOUT: Duration = Duration::from_secs(1);

/// How long one step of closing an object waits at most, also where something moves all the time: peers may see to that.
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// The wait of a thread that closes an object, and drives what is under way.
pub(crate) struct Patience {
    begin: Instant,
    /// When something moved last.
    last: Instant,
}

impl Patience {
    /// Begins to wait.
    pub(crate) fn begin() -> Self {
        let begin = Instant::now();
        Self { begin, last: begin }
    }

    /// Returns whether to wait on. Asked after a look at whether what is waited for has come.
    pub(crate) fn lasts(&self) -> bool {
        self.lasts_at(Instant::now())
    }

    /// Takes note of how much has moved since the last call; gives way to other threads if that is nothing.
    pub(crate) fn moved(&mut self, events: usize) {
        if events == 0 {
            return std::thread::yield_now();
        }
        self.moved_at(Instant::now());
    }

    fn moved_at(&mut self, now: Instant) {
        self.last = now;
    }

    fn lasts_at(&self, now: Instant) -> bool {
        now - self.last <= STALL_TIMEOUT && now - self.begin <= CLOSE_TIMEOUT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_where_nothing_moves_and_at_last_in_any_case() {
        let mut patience = Patience::begin();
        let begin = patience.begin;
        let at = |ms: u64| begin + Duration::from_millis(ms);
        assert!(patience.lasts_at(at(1000)) && !patience.lasts_at(at(1001)));
        for ms in (500..=5500).step_by(500) {
            assert_eq!(patience.lasts_at(at(ms)), ms <= 5000, "{ms} ms");
            patience.moved_at(at(ms));
        }
    }

    #[test]
    fn only_what_moves_lengthens_it() {
        let mut patience = Patience::begin();
        let begin = patience.last;
        patience.moved(0);
        assert_eq!(patience.last, begin);
        while Instant::now() == begin {}
        patience.moved(1);
        assert!(patience.last > begin);
    }
}
