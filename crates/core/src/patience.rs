//! How long fi_close(3) waits for what is under way.

use std::time::{Duration, Instant};

/// How long what is under way may stand still before it is given up.
const STALL_TIMEOUT: Duration = Duration::from_secs(1);

/// How long closing an object waits at most, also where something moves all the time: peers may see to that.
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// The wait of a thread that closes an object, and drives what is under way.
pub(crate) struct Patience {
    begin: Instant,
    moved: Instant,
}

impl Patience {
    /// Begins to wait.
    pub(crate) fn begin() -> Self {
        let begin = Instant::now();
        Self {
            begin,
            moved: begin,
        }
    }

    /// Takes note of how much has moved since the last call, and gives way to other threads if that is nothing; returns whether to wait on.
    pub(crate) fn lasts(&mut self, events: usize) -> bool {
        let now = Instant::now();
        if events > 0 {
            self.moved = now;
        } else {
            std::thread::yield_now();
        }
        self.lasts_at(now)
    }

    fn lasts_at(&self, now: Instant) -> bool {
        now - self.moved <= STALL_TIMEOUT && now - self.begin <= CLOSE_TIMEOUT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_where_nothing_moves_and_at_last_in_any_case() {
        let begin = Instant::now();
        let at = |ms: u64| begin + Duration::from_millis(ms);
        let mut patience = Patience {
            begin,
            moved: begin,
        };
        assert!(patience.lasts_at(at(1000)) && !patience.lasts_at(at(1001)));
        patience.moved = at(4900);
        assert!(patience.lasts_at(at(5000)) && !patience.lasts_at(at(5001)));
        let mut now = Patience::begin();
        assert!(now.lasts(1) && now.lasts(0));
    }
}
