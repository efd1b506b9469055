//! Measuring one size over one provider: how many messages, how often, and what is made of the times.

use std::time::{Duration, Instant};

use oxifabric::{Address, Backend};

use crate::Trouble;
use crate::commands::{Round, WorkerCommand};
use crate::peer::PeerProcess;
use crate::providers::{Opened, offer};
use crate::statistics::median;
use crate::worker::Worker;

/// What was measured of one size.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Length of a message, in bytes.
    pub size: usize,
    /// Half of the median time there and back, in microseconds.
    pub latency_us: f64,
    /// Median of the rounds of a stream, in megabytes (of 1,000,000 bytes) a second.
    pub bandwidth_mbps: f64,
    /// Median of the rounds of a stream, in messages a second.
    pub rate: f64,
    /// How many messages did not arrive as they were sent.
    pub wrong: usize,
}

/// How long to measure.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Time for the ping-pong of one size.
    pub ping: Duration,
    /// Time for each round of a stream.
    pub stream: Duration,
    /// Rounds of a stream.
    pub rounds: usize,
}

impl Effort {
    /// For figures that are shown.
    pub const FULL: Self = Self {
        ping: Duration::from_millis(250),
        stream: Duration::from_millis(80),
        rounds: 5,
    };
    /// For an answer within seconds.
    pub const QUICK: Self = Self {
        ping: Duration::from_millis(40),
        stream: Duration::from_millis(15),
        rounds: 3,
    };
    /// For one of many measurements of the same size.
    pub const GLANCE: Self = Self {
        ping: Duration::from_millis(15),
        stream: Duration::from_millis(15),
        rounds: 1,
    };
    /// To check that a measurement works.
    pub const BLINK: Self = Self {
        ping: Duration::from_millis(1),
        stream: Duration::from_millis(1),
        rounds: 1,
    };
}

/// The two processes of a measurement: the worker of this one, and the peer.
pub struct Pair {
    worker: Worker,
    peer: PeerProcess,
    /// The address of this process's endpoint.
    pub address: Address,
    seed: u64,
}

/// Messages of the warm-up, which is not measured: of short sizes, and of long ones.
const WARM_UP: (usize, usize) = (64, 8);
/// The length from which on a message is long, in bytes.
const LONG: usize = 128 << 10;
/// Bounds of the number of messages between two looks at the clock, of a ping-pong and of a stream.
const PINGS: (usize, usize) = (8, 8_192);
const STREAMED: (usize, usize) = (8, 500_000);
/// Number of samples after which a ping-pong ends, however short its messages take.
const ENOUGH: usize = 50_000;
/// Number of batches that the time of a ping-pong is meant for, and how many times longer than planned the streams may take on a busy machine.
const PARTS: u32 = 8;
const OVERTIME: u32 = 4;
/// Bytes of a stream that may be under way, and bounds of the number of its messages that may.
const WINDOW_BYTES: usize = 16 << 20;
const WINDOW: (usize, usize) = (4, 64);

impl Pair {
    /// Starts the other process, on the second processor, and opens an endpoint in each.
    ///
    /// # Errors
    /// The provider is not here, or the other process cannot be started.
    pub fn start(
        backend: Backend,
        provider: &str,
        cpus: Option<(usize, usize)>,
    ) -> Result<Self, Trouble> {
        let opened = Opened::open(&offer(backend, provider)?)?;
        let address = opened.endpoint.address()?;
        let (mut peer, theirs) = PeerProcess::start(provider, cpus.map(|cpus| cpus.1))?;
        peer.introduce(&address)?;
        let to = opened.meet(&theirs)?;
        Ok(Self {
            worker: Worker::new(opened, to, cpus.is_none()),
            peer,
            address,
            seed: u64::from(std::process::id()),
        })
    }

    /// Ends the other process.
    ///
    /// # Errors
    /// The other process did not exit with success.
    pub fn dismiss(self) -> Result<(), Trouble> {
        self.peer.dismiss()
    }

    /// Returns the median one-way time in microseconds, and how many messages were wrong.
    ///
    /// # Errors
    /// An operation failed, or the other process was silent for too long.
    pub fn latency_us(&mut self, size: usize, effort: Effort) -> Result<(f64, usize), Trouble> {
        let mut times = Vec::with_capacity(ENOUGH + PINGS.1);
        let mut wrong = self.ping(size, warm_up(size), &mut times)?;
        let count = fit(effort.ping / PARTS, median(&times), PINGS);
        times.clear();
        let start = Instant::now();
        while times.is_empty() || (start.elapsed() < effort.ping && times.len() < ENOUGH) {
            wrong += self.ping(size, count, &mut times)?;
        }
        Ok((median(&times) / 2.0 * 1e6, wrong))
    }

    fn ping(
        &mut self,
        size: usize,
        count: usize,
        seconds: &mut Vec<f64>,
    ) -> Result<usize, Trouble> {
        let round = self.round(size, count);
        self.peer.command(WorkerCommand::Pong(round))?;
        self.worker
            .ping(round, |time| seconds.push(time.as_secs_f64()))?;
        Ok(self.worker.take_wrong() + self.peer.wrong()?)
    }

    /// Returns the median rate in messages a second, and how many messages were wrong.
    ///
    /// # Errors
    /// As [`Self::latency_us`].
    pub fn rate(&mut self, size: usize, effort: Effort) -> Result<(f64, usize), Trouble> {
        let window = (WINDOW_BYTES / size.max(1)).clamp(WINDOW.0, WINDOW.1);
        let count = warm_up(size).max(window);
        let (time, mut wrong) = self.stream(size, count, window)?;
        let mut each = time / count as f64;
        let mut rates = Vec::with_capacity(effort.rounds);
        let start = Instant::now();
        let longest = effort.stream * effort.rounds as u32 * OVERTIME;
        while rates.is_empty() || (rates.len() < effort.rounds && start.elapsed() < longest) {
            let count = fit(effort.stream, each, STREAMED);
            let (time, also_wrong) = self.stream(size, count, window)?;
            each = time / count as f64;
            rates.push(1.0 / each);
            wrong += also_wrong;
        }
        Ok((median(&rates), wrong))
    }

    /// Sends one stream; returns the seconds that it took, and how many messages were wrong.
    fn stream(
        &mut self,
        size: usize,
        count: usize,
        window: usize,
    ) -> Result<(f64, usize), Trouble> {
        let round = self.round(size, count);
        self.peer.command(WorkerCommand::Drain(round, window))?;
        let time = self.worker.stream(round, window)?;
        let wrong = self.worker.take_wrong() + self.peer.wrong()?;
        Ok((time.as_secs_f64(), wrong))
    }

    fn round(&mut self, size: usize, count: usize) -> Round {
        self.seed = self.seed.wrapping_add(1);
        let seed = self.seed;
        Round { size, count, seed }
    }
}

fn warm_up(size: usize) -> usize {
    if size < LONG { WARM_UP.0 } else { WARM_UP.1 }
}

/// Returns how many messages fit into a time.
fn fit(time: Duration, each_seconds: f64, (least, most): (usize, usize)) -> usize {
    let count = time.as_secs_f64() / each_seconds.max(1e-9);
    (count as usize).clamp(least, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_stay_in_their_bounds() {
        let second = Duration::from_secs(1);
        assert_eq!(fit(second, 0.01, (1, 1000)), 100);
        assert_eq!(fit(second, 0.0, (1, 1000)), 1000);
        assert_eq!(fit(second, 100.0, (7, 1000)), 7);
    }
}
