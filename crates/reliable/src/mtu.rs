//! Path MTU discovery: the packet length that the path to a peer carries, after longer ones were lost (protocol section 6.7;
//! RFC 8899). Set-up path: no probe is sent as long as packets arrive whole.

use core::time::Duration;

use oxifabric_types::Instant;
use oxifabric_wire::reliable::packet::HEADER_LEN;

/// Packets of this length, with their header, pass everywhere (RFC 8899, section 5.1.2).
pub(super) const BASE: usize = 1200;

/// Lengths that are probed: the base, and what fits frames of Ethernet and of Ethernet with jumbo frames.
const LENGTHS: [usize; 3] = [BASE, 1472, 8972];

/// First pause before a longer packet is tried again on a path that has lost long ones; each later pause is twice as long.
const PAUSE: Duration = Duration::from_millis(100);
/// Longest pause before a longer packet is tried again (RFC 8899, section 5.1.1, PMTU_RAISE_TIMER).
const PAUSE_MAX: Duration = Duration::from_secs(600);

/// What is known of how long packets may be.
#[derive(Debug)]
pub(super) struct Search {
    /// The longest packet that both ends take.
    most: usize,
    /// The longest packet that passes.
    passes: usize,
    /// When a longer packet is tried again; [`Instant::END`] while the longest passes.
    at: Instant,
    pause: Duration,
}

impl Search {
    /// Begins with the assumption that the longest packets pass.
    pub(super) const fn new(payload: usize) -> Self {
        let most = payload.saturating_add(HEADER_LEN);
        Self {
            most,
            passes: most,
            at: Instant::END,
            pause: PAUSE,
        }
    }

    /// Returns the longest payload of a packet that passes whole.
    pub(super) const fn payload(&self) -> usize {
        self.passes - HEADER_LEN
    }

    /// Returns whether packets with a payload of this length may be lost for their length: shorter ones pass everywhere.
    pub(super) const fn is_long(payload: usize) -> bool {
        payload + HEADER_LEN > BASE
    }

    /// Notes that a long packet was lost for its length.
    pub(super) fn swallowed(&mut self, now: Instant) {
        self.passes = self.most.min(BASE);
        self.pause = PAUSE;
        self.at = now.after(self.pause);
    }

    /// Returns when a longer packet is to be tried.
    pub(super) const fn at(&self) -> Instant {
        self.at
    }

    /// Returns the length of the packet to try now; it may be lost for its length.
    pub(super) fn tries(&mut self, now: Instant) -> usize {
        self.at = now.after(self.pause);
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        self.next()
    }

    /// Takes note that a packet of this length has arrived at the peer.
    pub(super) fn arrived(&mut self, len: u64, now: Instant) {
        if self.passes == self.most || len != self.next() as u64 {
            return;
        }
        self.passes = self.next();
        self.pause = PAUSE;
        self.at = match self.passes == self.most {
            true => Instant::END,
            false => now,
        };
    }

    fn next(&self) -> usize {
        let longer = LENGTHS.into_iter().find(|len| *len > self.passes);
        longer.unwrap_or(self.most).min(self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);

    #[test]
    fn the_longest_that_passes_is_found_step_by_step() {
        let mut search = Search::new(16_384 - HEADER_LEN);
        assert_eq!(
            (search.payload() + HEADER_LEN, search.at()),
            (16_384, Instant::END)
        );
        search.swallowed(NOW);
        for len in [1472, 8972, 16_384] {
            assert!(search.payload() + HEADER_LEN < len);
            assert_eq!(search.tries(search.at()), len);
            search.arrived(len as u64 - 1, NOW);
            search.arrived(len as u64, NOW);
            assert_eq!(search.payload() + HEADER_LEN, len);
        }
        assert_eq!(search.at(), Instant::END, "nothing is left to be tried");
    }

    #[test]
    fn what_does_not_pass_is_tried_more_and_more_rarely() {
        let mut search = Search::new(16_384 - HEADER_LEN);
        search.swallowed(NOW);
        let mut before = NOW;
        let pauses = [(); 20].map(|()| {
            let at = search.at();
            assert_eq!(search.tries(at), 1472);
            at.since(core::mem::replace(&mut before, at))
        });
        assert_eq!(pauses[..3], [PAUSE, PAUSE, PAUSE * 2]);
        assert_eq!(pauses[19], PAUSE_MAX);
    }

    #[test]
    fn short_packets_are_no_matter() {
        let mut search = Search::new(400);
        search.swallowed(NOW);
        assert_eq!(search.payload(), 400);
        assert!(!Search::is_long(BASE - HEADER_LEN) && Search::is_long(BASE - HEADER_LEN + 1));
    }
}
