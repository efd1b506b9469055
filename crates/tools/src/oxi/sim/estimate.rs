//! How much memory and time a simulation takes, said before it begins.
//!
//! The figures of one node, peer and message were measured (docs/adr/0043); a test compares the first two with what a simulation takes.

use std::fmt;
use std::fs;
use std::time::Duration;

use oxifabric_bench::units::spell_count;

use super::node::RECEIVES;
use super::nodes::MEETINGS;
use super::{Options, Pattern};

/// Bytes of an endpoint with its queue and address vector.
const ENDPOINT: f64 = 17_000.0;
/// Bytes that one end of a channel takes, when it is idle.
const PEER: f64 = 420.0;
/// Bytes that one end of a channel takes more while it moves data, and for 20 ms of the network's time afterwards.
const ACTIVE_PEER: f64 = 2_500.0;
/// Seconds for which an end stays active.
const ACTIVE_SECONDS: f64 = 0.02;
/// Bytes of the process without nodes.
const PROCESS: f64 = 12e6;

/// Time that a node takes until it has met some others, and that a message takes, on a processor of 2 or 3 GHz.
const OPENING: Duration = Duration::from_micros(600);
const MESSAGE: Duration = Duration::from_micros(40);

/// What a simulation is expected to take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Estimate {
    /// Number of messages.
    messages: f64,
    /// Bytes of memory.
    bytes: f64,
    opening: Duration,
    time: Duration,
}

impl Estimate {
    pub(super) fn of(options: &Options) -> Self {
        let nodes = f64::from(options.nodes);
        let each = options.rate * options.seconds;
        let senders = match options.pattern {
            Pattern::Incast => nodes - 1.0,
            _ => nodes,
        };
        let messages = senders * each;
        // Each channel has an end at both nodes.
        let ends = 2.0 * (senders * targets(options, each) + nodes * f64::from(MEETINGS));
        let active = (2.0 * messages / options.seconds * ACTIVE_SECONDS).min(ends);
        let buffers = (RECEIVES + 1) as f64 * options.size as f64;
        Self {
            messages,
            bytes: PROCESS + nodes * (ENDPOINT + buffers) + ends * PEER + active * ACTIVE_PEER,
            opening: OPENING.mul_f64(nodes),
            time: MESSAGE.mul_f64(messages),
        }
    }

    /// Returns a warning if this machine has less memory than that.
    pub(super) fn objection(&self) -> Option<String> {
        let free = available()?;
        (self.bytes > free).then(|| {
            format!(
                "this machine has {:.1} GB left: fewer --nodes, a lower --rate, fewer --partners or a shorter --size take less",
                free / 1e9
            )
        })
    }
}

/// Returns to how many nodes one node sends that begins so many messages.
fn targets(options: &Options, messages: f64) -> f64 {
    let others = f64::from(options.nodes - 1);
    match options.pattern {
        Pattern::Ring | Pattern::Permutation | Pattern::Incast => 1.0,
        Pattern::AllToAll => others.min(messages),
        Pattern::Random => {
            let partners = options
                .partners
                .map_or(others, f64::from)
                .clamp(1.0, others);
            partners * (1.0 - (-messages / partners).exp())
        }
    }
}

/// Returns how many bytes of memory are left, if the system says so.
fn available() -> Option<f64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = (text.lines()).find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024.0)
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "about {} messages; takes about {} MB of memory, {} to open the nodes and {} to run, depending on the processor",
            spell_count(self.messages),
            spell_count((self.bytes / 1e6).ceil()),
            spell_time(self.opening),
            spell_time(self.time),
        )
    }
}

/// Spells a time of which only the magnitude is known.
fn spell_time(time: Duration) -> String {
    match time.as_secs() {
        0..2 => "a second".to_owned(),
        seconds @ 2..120 => format!("{seconds} seconds"),
        seconds @ 120..7200 => format!("{} minutes", seconds.div_ceil(60)),
        seconds => format!("{} hours", seconds.div_ceil(3600)),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn of(line: &str) -> Estimate {
        let words = ["sim"].into_iter().chain(line.split_whitespace());
        Estimate::of(&Line::parse_from(words).options)
    }

    #[test]
    fn more_nodes_messages_and_partners_take_more() {
        let one = of("--nodes 1000 --rate 50");
        assert_eq!(one.messages, 50_000.0);
        assert!(of("--nodes 2000 --rate 50").bytes > 1.9 * one.bytes - PROCESS);
        assert!(of("--nodes 1000 --rate 100").time > one.time);
        assert!(of("--nodes 1000 --rate 50 --partners 2").bytes < one.bytes);
        assert!(of("--nodes 1000 --rate 50 --pattern ring").bytes < one.bytes);
        assert!(of("--nodes 1000 --rate 50 --size 64k").bytes > 4.0 * one.bytes);
    }

    #[test]
    fn ten_thousand_nodes_and_half_a_million_messages_take_less_than_a_gigabyte() {
        let estimate = of("--nodes 10000 --rate 50");
        assert_eq!(estimate.messages, 500_000.0);
        assert!((5e8..1e9).contains(&estimate.bytes), "{estimate}");
    }

    #[test]
    fn times_are_spelled_by_their_magnitude() {
        let spelled = [0, 1, 2, 119, 121, 7199, 7201].map(|s| spell_time(Duration::from_secs(s)));
        let expected = [
            "a second",
            "a second",
            "2 seconds",
            "119 seconds",
            "3 minutes",
            "120 minutes",
            "3 hours",
        ];
        assert_eq!(spelled, expected);
    }
}
