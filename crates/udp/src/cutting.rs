//! Whether datagrams leave in pieces that the kernel cuts (udp(7), UDP_SEGMENT). Path class: large.
//!
//! A piece costs the kernel little more than a datagram, however many it is cut into. But the kernel keeps long ones in pages that it takes
//! from its page allocator, and where these have not been used for long, as long as the receiver's processor collects those that are
//! freed, a piece takes several times as long as its datagrams one by one (docs/adr/0065 and 0066). So the calls that send long pieces are
//! timed: after slow ones, datagrams leave one by one for a while.

use std::time::Duration;

use oxifabric_provider::clock;
use oxifabric_types::Instant;

/// Length of datagrams of which a piece is long.
const LONG: usize = 2048;

/// Time that a call may take, and more for each message (a piece, or a datagram by itself) and for each KiB of them: several times what
/// it takes where pages are at hand.
const CALL: Duration = Duration::from_micros(8);
const PER_MESSAGE: Duration = Duration::from_micros(4);
const PER_KIB: Duration = Duration::from_nanos(500);

/// Number of slow calls in a row after which pieces pause: the thread may have been interrupted in one.
const SLOW: u32 = 2;

/// Number of calls for which pieces pause first; each later time it is twice as many. One slow call among so many is no matter.
const PAUSE: u32 = 64;
const PAUSE_MAX: u32 = 4096;

/// Number of calls after which a piece is tried again that the kernel refused.
const REFUSED: u32 = 4096;

/// What is known of pieces that the kernel cuts.
#[derive(Debug, Default)]
pub(crate) struct Cutting {
    /// Length of datagrams from which on the kernel cuts none, mostly since some path has a smaller MTU.
    uncut: Option<usize>,
    /// Number of calls until that is forgotten: other paths have another one.
    forgotten_in: u32,
    /// What long pieces cost, if they are timed.
    costs: Option<Costs>,
}

/// What the calls that sent long pieces took.
#[derive(Debug)]
struct Costs {
    /// Number of slow ones in a row.
    slow: u32,
    /// Number of calls for which there are no more long pieces.
    pauses: u32,
    /// Number of calls of the next pause.
    next: u32,
}

impl Cutting {
    /// Returns one that times long pieces.
    pub(crate) const fn timed() -> Self {
        Self {
            uncut: None,
            forgotten_in: 0,
            costs: Some(Costs {
                slow: 0,
                pauses: 0,
                next: PAUSE,
            }),
        }
    }

    /// Returns the length of datagrams from which on they leave one by one.
    pub(crate) fn uncut(&self) -> Option<usize> {
        let is_pausing = self.costs.as_ref().is_some_and(|costs| costs.pauses > 0);
        let long = is_pausing.then_some(LONG);
        self.uncut.into_iter().chain(long).min()
    }

    /// Takes note that the kernel cuts no datagrams of this length.
    pub(crate) fn refused(&mut self, len: usize) {
        self.uncut = Some(len);
        self.forgotten_in = REFUSED;
    }

    /// Counts a call that has sent something.
    #[inline]
    fn count(&mut self) {
        if let Some(costs) = &mut self.costs {
            costs.pauses = costs.pauses.saturating_sub(1);
        }
        if self.uncut.is_some() {
            self.forgotten_in = self.forgotten_in.saturating_sub(1);
            if self.forgotten_in == 0 {
                self.uncut = None;
            }
        }
    }

    /// Begins a call with pieces, of which the longest datagram has this length; returns the time if it is to be taken.
    #[inline]
    pub(crate) fn begin(&self, longest: Option<usize>) -> Option<Instant> {
        let is_long = longest.is_some_and(|len| len >= LONG);
        (is_long && self.costs.is_some()).then(clock::exact)
    }

    /// Ends a call that has sent so many messages, and so many bytes, since `begun`.
    #[inline]
    pub(crate) fn end(&mut self, begun: Option<Instant>, messages: usize, bytes: usize) {
        self.count();
        if let (Some(begun), Some(costs)) = (begun, &mut self.costs) {
            costs.took(clock::exact().since(begun), messages, bytes);
        }
    }
}

impl Costs {
    fn took(&mut self, time: Duration, messages: usize, bytes: usize) {
        if time <= CALL + PER_MESSAGE * messages as u32 + PER_KIB * (bytes >> 10) as u32 {
            self.slow = 0;
            self.next = PAUSE;
            return;
        }
        self.slow += 1;
        if self.slow >= SLOW {
            // After the pause a single one is enough.
            self.slow = SLOW - 1;
            self.pauses = self.next;
            self.next = (self.next * 2).min(PAUSE_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 64 << 10;
    const FAST: Duration = Duration::from_micros(14);
    const SLOW_ONE: Duration = Duration::from_micros(160);

    /// Tries calls with long pieces where they are slow; returns the number of calls before each of the next `tries`.
    fn pauses(cutting: &mut Cutting, tries: usize) -> Vec<u32> {
        let mut pauses = Vec::new();
        for _ in 0..tries {
            let mut calls = 0;
            while cutting.uncut().is_some() {
                cutting.count();
                calls += 1;
            }
            pauses.push(calls);
            took(cutting, SLOW_ONE);
        }
        pauses
    }

    fn took(cutting: &mut Cutting, time: Duration) {
        let costs = cutting.costs.as_mut().expect("they are timed");
        costs.took(time, 1, BYTES);
    }

    #[test]
    fn pieces_pause_when_they_are_slow_and_are_tried_more_and_more_rarely() {
        let mut cutting = Cutting::timed();
        took(&mut cutting, SLOW_ONE);
        took(&mut cutting, FAST);
        took(&mut cutting, SLOW_ONE);
        assert_eq!(cutting.uncut(), None, "one now and then is no matter");
        took(&mut cutting, FAST);
        assert_eq!(pauses(&mut cutting, 5), [0, 0, 64, 128, 256]);
        assert_eq!(*pauses(&mut cutting, 6).last().expect("six"), PAUSE_MAX);
        while cutting.uncut().is_some() {
            cutting.count();
        }
        took(&mut cutting, FAST);
        assert_eq!(pauses(&mut cutting, 3), [0, 0, 64], "from the beginning");
    }

    #[test]
    fn only_long_pieces_are_timed_and_pause() {
        let mut cutting = Cutting::timed();
        assert_eq!(cutting.begin(None), None);
        assert_eq!(cutting.begin(Some(LONG - 1)), None);
        assert!(cutting.begin(Some(LONG)).is_some());
        pauses(&mut cutting, 2);
        assert_eq!(cutting.uncut(), Some(LONG));
        cutting.refused(1000);
        assert_eq!(cutting.uncut(), Some(1000));
        let untimed = Cutting::default();
        assert_eq!(untimed.begin(Some(LONG)), None);
        assert_eq!(untimed.uncut(), None);
    }

    #[test]
    fn a_refusal_is_forgotten_after_many_calls() {
        let mut cutting = Cutting::default();
        cutting.refused(5000);
        for _ in 0..REFUSED {
            assert_eq!(cutting.uncut(), Some(5000));
            cutting.end(None, 1, 1);
        }
        assert_eq!(cutting.uncut(), None);
    }

    #[test]
    fn messages_beside_a_piece_have_time_of_their_own() {
        let mut cutting = Cutting::timed();
        let time = Duration::from_micros(100);
        let costs = cutting.costs.as_mut().expect("they are timed");
        for _ in 0..SLOW {
            costs.took(time, 63, 16 << 10);
        }
        assert_eq!(costs.pauses, 0);
        for _ in 0..SLOW {
            costs.took(time, 1, 16 << 10);
        }
        assert_eq!(costs.pauses, PAUSE);
    }
}
