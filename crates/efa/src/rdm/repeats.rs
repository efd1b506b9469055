//! Requests that are made again because their receiver was not ready: when, and for how long. Path class: warm.

use std::collections::BTreeSet;
use std::time::Duration;

use oxifabric_types::{Errno, Instant};

use crate::params::Params;

/// The next pause of a request before it is made again: how often the first one doubles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pause(u8);

impl Pause {
    /// That of a request that the device has for the first time.
    pub(super) const FIRST: Self = Self(0);
}

/// How long a request waits before it is made again for a receiver that was not ready, after the device has tried as often as it was told to; twice as long each
/// time, but no longer than the second.
#[derive(Clone, Copy, Debug)]
struct Pauses {
    first: Duration,
    longest: Duration,
}

impl Pauses {
    fn of(self, pause: Pause) -> Duration {
        let factor = 1u32.checked_shl(pause.0.into()).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.longest)
    }
}

/// The longest pause of an endpoint that is being closed, which waits a second for what it still has to send.
const CLOSING_PAUSE: Duration = Duration::from_millis(32);

/// When requests are to be made again, by their numbers.
#[derive(Debug)]
pub(super) struct Repeats {
    due: BTreeSet<(Instant, u32)>,
    pauses: Pauses,
}

impl Default for Repeats {
    /// Makes one with the pauses that the environment says.
    fn default() -> Self {
        let params = Params::read();
        Self::new(params.first_pause, params.longest_pause)
    }
}

impl Repeats {
    fn new(first: Duration, longest: Duration) -> Self {
        Self {
            due: BTreeSet::new(),
            pauses: Pauses { first, longest },
        }
    }

    /// Has a request made again after its pause, and makes the next one longer.
    pub(super) fn put_off(&mut self, at: u32, pause: &mut Pause, now: Instant) {
        self.due.insert((now.after(self.pauses.of(*pause)), at));
        pause.0 = pause.0.saturating_add(1);
    }

    /// Makes all requests due, and later pauses short: the endpoint is being closed.
    pub(super) fn hasten(&mut self, now: Instant) {
        self.pauses.longest = self.pauses.longest.min(CLOSING_PAUSE);
        let due = std::mem::take(&mut self.due);
        self.due = due
            .into_iter()
            .map(|(at, request)| (at.min(now), request))
            .collect();
    }

    /// Takes out the next request that is due.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<u32> {
        let &(due, at) = self.due.first()?;
        (due <= now && self.due.remove(&(due, at))).then_some(at)
    }

    /// Returns when the next one is due, if there is one.
    pub(super) fn first_due(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }
}

/// What becomes of a request whose receiver was not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is made again: nothing has happened, and an endpoint that closes does not wait longer for it.
    Again,
    /// It fails by itself, as the application has asked for.
    Fails,
    /// It ends with its peer, or with the endpoint.
    Ends(Errno),
}

impl Fate {
    /// Returns whether something has happened, for the count of a poll.
    pub(super) const fn is_event(self) -> bool {
        !matches!(self, Self::Again)
    }
}

/// What is known of a request whose receiver was not ready.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unready {
    /// The endpoint is being closed.
    pub(super) is_closing: bool,
    /// It takes memory of the application.
    pub(super) is_lent: bool,
    /// Why its peer is gone, or will be.
    pub(super) given_up: Option<Errno>,
    /// The application sees to receives itself.
    pub(super) may_fail: bool,
}

impl Unready {
    pub(super) const fn fate(self) -> Fate {
        match (self.given_up, self.may_fail) {
            _ if self.is_closing && self.is_lent => Fate::Ends(Errno::CANCELED),
            (Some(why), _) => Fate::Ends(why),
            (None, true) => Fate::Fails,
            (None, false) => Fate::Again,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_nanos(1);
    const PAUSE: Duration = Duration::from_micros(500);
    const PAUSE_MAX: Duration = Duration::from_millis(32);

    fn repeats() -> Repeats {
        Repeats::new(PAUSE, PAUSE_MAX)
    }

    #[test]
    fn requests_of_an_endpoint_that_closes_are_due_at_once_and_soon_again() {
        let long = Duration::from_secs(1);
        let (mut repeats, mut pause) = (Repeats::new(long, long), Pause::FIRST);
        for request in [3, 4] {
            repeats.put_off(request, &mut pause, NOW);
        }
        assert_eq!(repeats.take_due(NOW), None);
        repeats.hasten(NOW);
        assert_eq!(
            [repeats.take_due(NOW), repeats.take_due(NOW)],
            [Some(3), Some(4)]
        );
        repeats.put_off(3, &mut pause, NOW);
        assert_eq!(repeats.first_due(), Some(NOW.after(CLOSING_PAUSE)));
    }

    #[test]
    fn pauses_are_as_the_environment_says() {
        let mut waited = Vec::new();
        let (mut repeats, mut pause) = (
            Repeats::new(Duration::from_micros(7), Duration::from_micros(20)),
            Pause::FIRST,
        );
        for _ in 0..300 {
            repeats.put_off(1, &mut pause, NOW);
            let due = repeats.first_due().expect("it waits");
            waited.push(due.since(NOW).as_micros());
            assert_eq!(repeats.take_due(due), Some(1));
        }
        assert_eq!(waited[..3], [7, 14, 20]);
        assert!(waited[3..].iter().all(|&pause| pause == 20));
        // The first pause is none that is longer than the longest.
        let all = Repeats::new(Duration::from_secs(1), PAUSE);
        assert_eq!(all.pauses.of(Pause::FIRST), PAUSE);
    }

    #[test]
    fn each_pause_is_twice_the_one_before_up_to_the_longest() {
        let (mut repeats, mut pause, mut now) = (repeats(), Pause::FIRST, NOW);
        for expected in [500, 1000, 2000, 4000, 8000, 16_000, 32_000, 32_000, 32_000] {
            repeats.put_off(7, &mut pause, now);
            let due = repeats.first_due().expect("it waits");
            assert_eq!(due.since(now), Duration::from_micros(expected));
            assert_eq!(
                repeats.take_due(Instant::from_nanos(due.as_nanos() - 1)),
                None
            );
            assert_eq!(repeats.take_due(due), Some(7));
            assert_eq!((repeats.take_due(due), repeats.first_due()), (None, None));
            now = due;
        }
    }

    #[test]
    fn what_waited_long_does_not_keep_what_is_due_earlier() {
        let (mut repeats, mut old) = (repeats(), Pause::FIRST);
        for _ in 0..10 {
            repeats.put_off(1, &mut old, NOW);
            assert!(repeats.take_due(NOW.after(PAUSE_MAX)).is_some());
        }
        repeats.put_off(1, &mut old, NOW);
        for at in [2, 3] {
            repeats.put_off(at, &mut { Pause::FIRST }, NOW);
        }
        let soon = NOW.after(PAUSE);
        assert_eq!(repeats.first_due(), Some(soon));
        let due: Vec<_> = std::iter::from_fn(|| repeats.take_due(soon)).collect();
        assert_eq!(due, [2, 3]);
        assert_eq!(repeats.first_due(), Some(NOW.after(PAUSE_MAX)));
    }

    #[test]
    fn an_endpoint_that_closes_repeats_only_what_takes_its_own_memory() {
        let open = Unready {
            is_closing: false,
            is_lent: true,
            given_up: None,
            may_fail: false,
        };
        assert_eq!(open.fate(), Fate::Again);
        let closing = Unready {
            is_closing: true,
            ..open
        };
        assert_eq!(closing.fate(), Fate::Ends(Errno::CANCELED));
        let own = Unready {
            is_lent: false,
            ..closing
        };
        assert_eq!(own.fate(), Fate::Again);
        let lost = Unready {
            given_up: Some(Errno::CONNRESET),
            may_fail: true,
            ..own
        };
        assert_eq!(lost.fate(), Fate::Ends(Errno::CONNRESET));
        let watched = Unready {
            given_up: None,
            ..lost
        };
        assert_eq!(watched.fate(), Fate::Fails);
    }

    /// A closing endpoint waits as long as something happens: what is put off again and again must not count.
    #[test]
    fn what_is_made_again_is_no_event() {
        assert!(!Fate::Again.is_event());
        assert!(Fate::Fails.is_event() && Fate::Ends(Errno::CANCELED).is_event());
    }
}
