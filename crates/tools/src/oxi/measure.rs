//! Measuring one size over one provider: how many messages, how often, and what is made of the times.

use std::time::Duration;

use super::Trouble;
use super::orders::{Order, Round};
use super::peer::PeerProcess;
use super::player::Player;

/// What was measured of one size.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Figures {
    /// Length of a message, in bytes.
    pub(super) size: usize,
    /// Half of the median time there and back, in microseconds.
    pub(super) latency_us: f64,
    /// Median of the rounds of a stream, in megabytes (of 1,000,000 bytes) a second.
    pub(super) bandwidth_mbps: f64,
    /// The same in messages a second.
    pub(super) rate: f64,
    /// How many messages did not arrive as they were sent.
    pub(super) wrong: usize,
}

/// How long to measure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    /// Time for the ping-pong of one size.
    pub(super) ping: Duration,
    /// Time for each round of a stream.
    pub(super) stream: Duration,
    /// Rounds of a stream.
    pub(super) rounds: usize,
}

impl Effort {
    pub(super) const FULL: Self = Self {
        ping: Duration::from_millis(250),
        stream: Duration::from_millis(80),
        rounds: 5,
    };
    pub(super) const QUICK: Self = Self {
        ping: Duration::from_millis(40),
        stream: Duration::from_millis(15),
        rounds: 3,
    };
}

/// Both sides of a measurement.
pub(super) struct Pair {
    pub(super) player: Player,
    pub(super) peer: PeerProcess,
    pub(super) seed: u64,
}

/// Messages that are played before any are counted.
const WARM_UP: usize = 64;
/// Bounds of the number of messages that are measured.
const PINGS: (usize, usize) = (32, 50_000);
const STREAMED: (usize, usize) = (16, 500_000);
/// How many bytes of a stream may be under way, and bounds of the number of messages.
const WINDOW_BYTES: usize = 16 << 20;
const WINDOW: (usize, usize) = (4, 64);

impl Pair {
    /// Returns the median one-way time in microseconds, and how many messages were wrong.
    pub(super) fn latency_us(
        &mut self,
        size: usize,
        effort: Effort,
    ) -> Result<(f64, usize), Trouble> {
        let mut times = Vec::with_capacity(PINGS.1);
        let mut wrong = self.ping(size, WARM_UP, &mut times)?;
        let count = fit(effort.ping, median(&mut times), PINGS);
        times.clear();
        wrong += self.ping(size, count, &mut times)?;
        Ok((median(&mut times) / 2.0 * 1e6, wrong))
    }

    fn ping(
        &mut self,
        size: usize,
        count: usize,
        seconds: &mut Vec<f64>,
    ) -> Result<usize, Trouble> {
        let round = self.round(size, count);
        self.peer.order(Order::Pong(round))?;
        self.player
            .ping(round, |time| seconds.push(time.as_secs_f64()))?;
        Ok(self.player.take_wrong() + self.peer.wrong()?)
    }

    /// Returns the median rate in messages a second, and how many messages were wrong.
    pub(super) fn rate(&mut self, size: usize, effort: Effort) -> Result<(f64, usize), Trouble> {
        let window = (WINDOW_BYTES / size.max(1)).clamp(WINDOW.0, WINDOW.1);
        let (time, mut wrong) = self.stream(size, WARM_UP.min(4 * window), window)?;
        let mut each = time / WARM_UP.min(4 * window) as f64;
        let mut rates = Vec::with_capacity(effort.rounds);
        for _ in 0..effort.rounds {
            let count = fit(effort.stream, each, STREAMED);
            let (time, also_wrong) = self.stream(size, count, window)?;
            each = time / count as f64;
            rates.push(count as f64 / time);
            wrong += also_wrong;
        }
        Ok((median(&mut rates), wrong))
    }

    /// Returns the seconds that a stream took.
    fn stream(
        &mut self,
        size: usize,
        count: usize,
        window: usize,
    ) -> Result<(f64, usize), Trouble> {
        let round = self.round(size, count);
        self.peer.order(Order::Drain(round, window))?;
        let time = self.player.stream(round, window)?;
        let wrong = self.player.take_wrong() + self.peer.wrong()?;
        Ok((time.as_secs_f64(), wrong))
    }

    fn round(&mut self, size: usize, count: usize) -> Round {
        self.seed = self.seed.wrapping_add(1);
        let seed = self.seed;
        Round { size, count, seed }
    }
}

/// How many messages fit into a time.
fn fit(time: Duration, each_seconds: f64, (least, most): (usize, usize)) -> usize {
    let count = time.as_secs_f64() / each_seconds.max(1e-9);
    (count as usize).clamp(least, most)
}

/// The middle of the values, which it sorts; zero if there are none.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        len if len % 2 == 0 => f64::midpoint(values[middle - 1], values[middle]),
        _ => values[middle],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&mut []), 0.0);
        assert_eq!(median(&mut [3.0]), 3.0);
        assert_eq!(median(&mut [9.0, 1.0]), 5.0);
        assert_eq!(median(&mut [9.0, 1.0, 2.0]), 2.0);
    }

    #[test]
    fn counts_stay_in_their_bounds() {
        let second = Duration::from_secs(1);
        assert_eq!(fit(second, 0.01, (1, 1000)), 100);
        assert_eq!(fit(second, 0.0, (1, 1000)), 1000);
        assert_eq!(fit(second, 100.0, (7, 1000)), 7);
    }
}
