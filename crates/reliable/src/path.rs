//! The path to a peer: round-trip time, congestion window and pacing.
//!
//! The window doubles each round trip until packets are lost, then grows by one packet a round trip. A round trip in which
//! packets were lost shrinks it (protocol section 6.2): by half of the share that was lost while packets travel as fast as
//! they can, so that a link that loses one packet in a hundred at random is not taken for a full one; by half where they
//! wait in queues. Pacing (section 6.5) spreads the packets of a window.

use core::time::Duration;

use oxifabric_types::Instant;

/// A packet, in the unit that windows are counted in.
const ONE: u64 = 1 << 16;

/// The window of a new path (RFC 6928).
const WINDOW_FIRST: u64 = 10 * ONE;
/// The smallest window.
const WINDOW_MIN: u64 = 2 * ONE;
/// The smallest that losses lead to which no queue explains.
const WINDOW_UNQUEUED: u64 = 4 * ONE;
/// The widest.
const WINDOW_MAX: u64 = 4096 * ONE;

/// The time that a packet is given before anything is known of the path.
const FIRST_PTO: Duration = Duration::from_millis(20);
/// Time that is granted beside what was measured: peers answer when they poll, and a little later.
const GRACE: Duration = Duration::from_micros(300);
/// The longest wait for an answer.
const PTO_MAX: Duration = Duration::from_millis(400);
/// Packets wait in a queue when they take twice as long as the fastest did, and this time longer.
const QUEUED: Duration = Duration::from_micros(100);

/// The longest pause between two packets: a round trip may have been measured while nothing moved.
const PAUSE_MAX: Duration = Duration::from_millis(5);

/// Longest burst in packets, if the window allows it: system calls carry many.
const BURST: u64 = 16;

/// The path to a peer.
#[derive(Debug)]
pub(super) struct Path {
    /// The smoothed time from sending a packet to hearing that it arrived; zero as long as none is known.
    smoothed: Duration,
    /// Mean deviation of the samples from it.
    spread: Duration,
    /// The shortest one, of late.
    fastest: Duration,
    /// The shortest sample of this round trip. A long one means little: the peer may not have polled.
    shortest: Duration,
    /// In 65,536ths of a packet.
    window: u64,
    /// The widest that the window becomes.
    window_max: u64,
    /// Below it the window doubles each round trip.
    doubles_to: u64,
    /// Number of packets that arrived, and of those that were lost, in this round trip.
    arrived: u32,
    lost: u32,
    /// The packet whose arrival ends this round trip.
    round_ends: u64,
    /// When the next packet may leave.
    leaves_at: Instant,
}

/// What was measured of a path on which nothing is under way. Times are in nanoseconds, and at most about four seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct PathSummary {
    smoothed: u32,
    spread: u32,
    fastest: u32,
    window: u32,
    doubles_to: u32,
}

impl Path {
    /// Returns what was measured.
    pub(super) fn summary(&self) -> PathSummary {
        let nanos = |time: Duration| time.as_nanos().try_into().unwrap_or(u32::MAX);
        let small = |window: u64| window.try_into().unwrap_or(u32::MAX);
        PathSummary {
            smoothed: nanos(self.smoothed),
            spread: nanos(self.spread),
            fastest: nanos(self.fastest),
            window: small(self.window),
            doubles_to: small(self.doubles_to),
        }
    }

    /// Returns a path of which this is known.
    pub(super) fn resumed(summary: &PathSummary) -> Self {
        let time = |nanos: u32| match nanos {
            u32::MAX => Duration::MAX,
            nanos => Duration::from_nanos(nanos.into()),
        };
        Self {
            smoothed: time(summary.smoothed).min(PTO_MAX),
            spread: time(summary.spread).min(PTO_MAX),
            fastest: time(summary.fastest),
            window: summary.window.into(),
            doubles_to: summary.doubles_to.into(),
            ..Self::new()
        }
    }

    pub(super) const fn new() -> Self {
        Self {
            smoothed: Duration::ZERO,
            spread: Duration::ZERO,
            fastest: Duration::MAX,
            shortest: Duration::MAX,
            window: WINDOW_FIRST,
            window_max: WINDOW_MAX,
            doubles_to: WINDOW_MAX,
            arrived: 0,
            lost: 0,
            round_ends: 0,
            leaves_at: Instant::from_nanos(0),
        }
    }

    /// Bounds the congestion window to a number of packets, two at least.
    pub(super) fn bounded(mut self, packets: usize) -> Self {
        self.window_max = (packets as u64)
            .saturating_mul(ONE)
            .clamp(WINDOW_MIN, WINDOW_MAX);
        self.window = self.window.min(self.window_max);
        self
    }

    /// Returns the congestion window: packets that may be under way.
    #[inline]
    pub(super) fn window(&self) -> usize {
        (self.window / ONE) as usize
    }

    /// Returns when the next packet may leave.
    #[inline]
    pub(super) const fn leaves_at(&self) -> Instant {
        self.leaves_at
    }

    /// Takes note that a packet leaves: pacing spreads those of a window over a round trip, and lets the window grow meanwhile.
    #[inline]
    pub(super) fn left(&mut self, now: Instant) {
        let round_trip = self.smoothed.as_nanos() as u64;
        let pause = match self.is_opening() {
            true => round_trip * (ONE / 2) / self.window,
            false => round_trip * (ONE * 4 / 5) / self.window,
        };
        let pause = pause.min(PAUSE_MAX.as_nanos() as u64);
        let earliest = now.as_nanos().saturating_sub(pause * BURST);
        let from = self.leaves_at.as_nanos().max(earliest);
        self.leaves_at = Instant::from_nanos(from.saturating_add(pause));
    }

    /// Takes the measured round trip of a packet (RFC 6298, section 2).
    pub(super) fn measured(&mut self, took: Duration) {
        self.fastest = self.fastest.min(took);
        self.shortest = self.shortest.min(took);
        if self.smoothed.is_zero() {
            self.smoothed = took.max(Duration::from_nanos(1));
            self.spread = took / 2;
            return;
        }
        let off = self.smoothed.abs_diff(took);
        self.spread = (self.spread * 3 + off) / 4;
        self.smoothed = (self.smoothed * 7 + took) / 8;
    }

    /// Returns how long after it was sent a packet counts as lost, if later ones have arrived (RFC 8985, section 6.2).
    pub(super) fn reordering(&self) -> Duration {
        self.smoothed + (self.smoothed / 4).max(self.spread)
    }

    /// Returns the PTO after a number of consecutive ones. The second is no longer than the first: the probe itself may be
    /// lost as well.
    pub(super) fn pto(&self, pto_count: u32) -> Duration {
        let first = match self.smoothed.is_zero() {
            true => FIRST_PTO,
            false => self.smoothed + (self.spread * 4).max(self.smoothed / 2) + GRACE,
        };
        let doubled = pto_count.saturating_sub(1).min(10);
        first.saturating_mul(1 << doubled).min(PTO_MAX)
    }

    /// Takes note that a packet arrived. With `limited`, more could have been under way but for the window.
    pub(super) fn arrived(&mut self, limited: bool) {
        self.arrived += 1;
        if !limited {
            return;
        }
        let gain = match self.is_opening() {
            true => ONE,
            false => (ONE * ONE / self.window).min(self.window / 8),
        };
        self.window = (self.window + gain).min(self.window_max);
    }

    /// Counts a packet that was lost.
    pub(super) fn lost(&mut self) {
        self.lost += 1;
    }

    /// Ends the round trip when it is over: all packets below `below` have arrived, and the next new one is `next`.
    pub(super) fn reached(&mut self, below: u64, next: u64) {
        if below < self.round_ends {
            return;
        }
        if self.lost > 0 {
            let all = u64::from(self.arrived) + u64::from(self.lost);
            match self.is_queued() {
                true => self.shrink(self.window / 2),
                false => {
                    let half = self.window / 2 * u64::from(self.lost) / all;
                    let least = self.window.min(WINDOW_UNQUEUED);
                    self.shrink((self.window - half).max(least));
                }
            }
        }
        self.begin_round(next);
        // The way may have become longer for good.
        self.fastest = self.fastest.saturating_add(self.fastest / 64);
    }

    /// Collapses the congestion window after persistent congestion (RFC 9002, section 7.6).
    pub(super) fn collapse(&mut self, next: u64) {
        self.shrink(self.window / 2);
        self.window = self.window.min(WINDOW_MIN);
        self.begin_round(next);
    }

    fn begin_round(&mut self, next: u64) {
        self.arrived = 0;
        self.lost = 0;
        self.shortest = Duration::MAX;
        self.round_ends = next;
    }

    /// Returns when a packet that was sent at `sent` counts as lost, if later ones have arrived.
    pub(super) fn lost_at(&self, sent: Instant) -> Instant {
        sent.after(self.reordering())
    }

    fn shrink(&mut self, to: u64) {
        self.window = to.max(WINDOW_MIN);
        self.doubles_to = self.window;
    }

    /// Returns whether no packet was lost yet, or none since the last silence.
    fn is_opening(&self) -> bool {
        self.window < self.doubles_to
    }

    /// Returns whether all packets of this round trip waited in a queue.
    fn is_queued(&self) -> bool {
        let most = self.fastest.saturating_mul(2).saturating_add(QUEUED);
        self.shortest != Duration::MAX && self.shortest > most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn measured(times: u32, took: Duration) -> Path {
        let mut path = Path::new();
        for _ in 0..times {
            path.measured(took);
        }
        path
    }

    #[test]
    fn the_pto_follows_what_was_measured_and_doubles() {
        let mut path = Path::new();
        assert_eq!(path.pto(0), FIRST_PTO);
        for _ in 0..100 {
            path.measured(10 * MS);
        }
        assert_eq!(path.smoothed, 10 * MS);
        assert!(path.pto(0) < 16 * MS);
        assert_eq!(path.pto(1), path.pto(0));
        assert_eq!(path.pto(2), path.pto(0) * 2);
        assert_eq!(path.pto(40), PTO_MAX);
    }

    /// Plays a round trip of 80 packets that arrive, the first after `took`, and 20 that do not.
    fn lose_a_fifth(path: &mut Path, took: Duration) {
        path.window = 100 * ONE;
        path.reached(0, 100);
        path.measured(took);
        for _ in 0..80 {
            path.arrived(false);
        }
        for _ in 0..20 {
            path.lost();
        }
        path.reached(99, 200);
        assert_eq!(path.window(), 100, "the round trip is not over");
        path.reached(100, 200);
    }

    #[test]
    fn a_round_trip_shrinks_the_window_by_half_of_the_lost_share() {
        let mut path = measured(10, MS);
        lose_a_fifth(&mut path, MS);
        assert_eq!(path.window(), 90);
    }

    #[test]
    fn where_packets_wait_a_loss_halves_the_window() {
        let mut path = measured(10, MS);
        lose_a_fifth(&mut path, 10 * MS);
        assert_eq!(path.window(), 50);
    }

    #[test]
    fn a_peer_that_polls_late_is_no_queue() {
        let mut path = measured(10, MS);
        for _ in 0..10 {
            path.measured(100 * MS);
        }
        lose_a_fifth(&mut path, MS);
        assert_eq!(path.window(), 90);
    }

    #[test]
    fn the_window_stays_within_its_bounds() {
        let mut path = Path::new();
        for number in 0..100_000 {
            path.arrived(true);
            path.reached(number, number);
        }
        assert_eq!(path.window, WINDOW_MAX);
        path.collapse(0);
        assert_eq!(path.window, WINDOW_MIN);
        path.measured(MS);
        for _ in 0..10 {
            path.measured(100 * MS);
            path.lost();
            path.reached(1, 1);
        }
        assert_eq!(path.window, WINDOW_MIN);
        assert_eq!(path.window(), 2);
    }

    #[test]
    fn random_losses_do_not_close_the_window() {
        let mut path = measured(10, MS);
        for _ in 0..100 {
            path.lost();
            path.reached(1, 1);
        }
        assert_eq!(path.window, WINDOW_UNQUEUED);
    }

    /// Returns how long a number of packets takes to leave, if each leaves as soon as it may.
    fn leave(path: &mut Path, packets: u32) -> Duration {
        let start = Instant::default().after(MS * 1000);
        let mut now = start;
        for _ in 0..packets {
            now = now.max(path.leaves_at());
            path.left(now);
        }
        now.since(start)
    }

    #[test]
    fn a_window_leaves_within_a_round_trip_and_not_at_once() {
        let mut path = measured(10, 10 * MS);
        path.shrink(100 * ONE);
        let took = leave(&mut path, 100);
        assert!(took > 5 * MS && took < 8 * MS, "{took:?}");
        let mut path = measured(10, 10 * MS);
        path.shrink(10 * ONE);
        assert_eq!(leave(&mut path, 10), Duration::ZERO, "a burst");
    }
}
