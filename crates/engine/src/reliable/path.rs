//! What is known of the way to a peer: how long packets take, and how many may be under way.
//!
//! The window grows by one packet for each that arrives until packets are lost, then by one a round trip. A round trip in
//! which packets were lost shrinks it by half of the share that was lost (protocol section 6.2): a link that loses one
//! packet in a hundred at random is not taken for a full one, and a queue that overflows drains within a few round
//! trips.

use core::time::Duration;

use oxifabric_types::Instant;

/// The window of a new path, in packets.
const WINDOW_FIRST: u32 = 32;
/// The smallest window.
const WINDOW_MIN: u32 = 2;
/// The widest.
pub(super) const WINDOW_MAX: u32 = 4096;

/// The time that a packet is given before anything is known of the path.
const FIRST_PATIENCE: Duration = Duration::from_millis(20);
/// Peers answer when they poll: so much is granted beside what was measured.
const GRACE: Duration = Duration::from_millis(2);
/// The longest wait for an answer.
const PATIENCE_MAX: Duration = Duration::from_millis(400);

/// Shares are counted in units of one 65,536th of a packet.
const FRACTION: u32 = 16;

/// The way to a peer.
#[derive(Debug)]
pub(super) struct Path {
    /// The smoothed time from sending a packet to hearing that it arrived; zero as long as none is known.
    smoothed: Duration,
    /// How much single ones differ from it.
    spread: Duration,
    /// In fractions of packets.
    window: u64,
    /// No packet was lost yet, or none since the last silence.
    opening: bool,
    /// How many packets arrived and how many were lost in this round trip.
    arrived: u32,
    lost: u32,
    /// The packet whose arrival ends this round trip.
    round_ends: u64,
}

impl Path {
    pub(super) const fn new() -> Self {
        Self {
            smoothed: Duration::ZERO,
            spread: Duration::ZERO,
            window: (WINDOW_FIRST as u64) << FRACTION,
            opening: true,
            arrived: 0,
            lost: 0,
            round_ends: 0,
        }
    }

    /// How many packets may be under way.
    #[inline]
    pub(super) const fn window(&self) -> usize {
        (self.window >> FRACTION) as usize
    }

    /// A packet took so long (RFC 6298, section 2).
    pub(super) fn measured(&mut self, took: Duration) {
        if self.smoothed.is_zero() {
            self.smoothed = took.max(Duration::from_nanos(1));
            self.spread = took / 2;
            return;
        }
        let off = self.smoothed.abs_diff(took);
        self.spread = (self.spread * 3 + off) / 4;
        self.smoothed = (self.smoothed * 7 + took) / 8;
    }

    /// How long after it was sent a packet counts as lost, if later ones have arrived (RFC 8985, section 6.2).
    pub(super) fn reordering(&self) -> Duration {
        self.smoothed + (self.smoothed / 4).max(self.spread)
    }

    /// How long to wait for any answer, after so many waits in vain.
    pub(super) fn patience(&self, vain: u32) -> Duration {
        let first = match self.smoothed.is_zero() {
            true => FIRST_PATIENCE,
            false => self.smoothed + self.spread * 4 + GRACE,
        };
        first.saturating_mul(1 << vain.min(10)).min(PATIENCE_MAX)
    }

    /// A packet arrived. `limited` says that more could have been under way but for the window.
    pub(super) fn arrived(&mut self, limited: bool) {
        self.arrived += 1;
        if !limited {
            return;
        }
        let gain = match self.opening {
            true => 1 << FRACTION,
            false => (1 << (2 * FRACTION)) / self.window.max(1),
        };
        self.window = (self.window + gain).min(u64::from(WINDOW_MAX) << FRACTION);
    }

    /// A packet was lost.
    pub(super) fn lost(&mut self) {
        self.lost += 1;
    }

    /// All packets below `below` have arrived, and the next new one is `next`: ends the round trip when it is over.
    pub(super) fn reached(&mut self, below: u64, next: u64) {
        if below < self.round_ends {
            return;
        }
        if self.lost > 0 {
            let all = u64::from(self.arrived) + u64::from(self.lost);
            let half = self.window / 2 * u64::from(self.lost) / all;
            self.shrink(self.window - half);
        }
        self.arrived = 0;
        self.lost = 0;
        self.round_ends = next;
    }

    /// Nothing was heard for so long that everything counts as lost.
    pub(super) fn fell_silent(&mut self, next: u64) {
        self.shrink(u64::from(WINDOW_MIN) << FRACTION);
        self.opening = true;
        self.arrived = 0;
        self.lost = 0;
        self.round_ends = next;
    }

    fn shrink(&mut self, to: u64) {
        self.opening = false;
        self.window = to.max(u64::from(WINDOW_MIN) << FRACTION);
    }

    /// When a packet that was sent at `sent` counts as lost, if later ones have arrived.
    pub(super) fn lost_at(&self, sent: Instant) -> Instant {
        sent.after(self.reordering())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn patience_follows_what_was_measured_and_doubles() {
        let mut path = Path::new();
        assert_eq!(path.patience(0), FIRST_PATIENCE);
        for _ in 0..100 {
            path.measured(10 * MS);
        }
        assert_eq!(path.smoothed, 10 * MS);
        assert!(path.patience(0) < 13 * MS);
        assert_eq!(path.patience(1), path.patience(0) * 2);
        assert_eq!(path.patience(40), PATIENCE_MAX);
    }

    #[test]
    fn a_round_trip_shrinks_the_window_by_half_of_the_lost_share() {
        let mut path = Path::new();
        path.window = 100 << FRACTION;
        path.reached(0, 100);
        for _ in 0..80 {
            path.arrived(false);
        }
        for _ in 0..20 {
            path.lost();
        }
        path.reached(99, 200);
        assert_eq!(path.window(), 100, "the round trip is not over");
        path.reached(100, 200);
        assert_eq!(path.window(), 90);
    }

    #[test]
    fn the_window_stays_within_its_bounds() {
        let mut path = Path::new();
        for number in 0..100_000 {
            path.arrived(true);
            path.reached(number, number);
        }
        assert_eq!(path.window(), WINDOW_MAX as usize);
        path.fell_silent(0);
        assert_eq!(path.window(), WINDOW_MIN as usize);
        for _ in 0..10 {
            path.lost();
            path.reached(1, 1);
        }
        assert_eq!(path.window(), WINDOW_MIN as usize);
    }
}
