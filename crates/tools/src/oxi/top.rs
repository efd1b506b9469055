//! `oxi top`: what the processes of this user do with the library, while they run with `FI_OXI_STATS=1`.
//!
//! They are observed from outside, by what the kernel shows of them ([`process`]), without a call to them. Each observation is a
//! [`Sample`]; two of them give rates ([`row`]), which are shown on a live screen ([`screen`]), as a table or as JSON. Metrics are
//! the counters of one sample, for a file or a server ([`metrics`]).

mod columns;
mod json;
mod metrics;
mod openmetrics;
mod process;
mod report;
mod row;
mod screen;
mod server;
mod table;

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use oxifabric_types::stats::{Figures, Identity};

use self::metrics::Destination;
use self::process::Finder;
use super::Trouble;
use crate::output;

/// What to watch and where to show it.
#[derive(clap::Args)]
#[command(after_help = KEYS)]
pub(super) struct Options {
    /// Seconds between two looks, from 0.1 on
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = parse_delay)]
    delay: Duration,
    /// Look twice, print a table, and end
    #[arg(long)]
    once: bool,
    /// With --once: print JSON
    #[arg(long, requires = "once", conflicts_with = "metrics")]
    json: bool,
    /// Write metrics as OpenMetrics text: into a file after each delay, or for HTTP clients at an address such as :9464 (on
    /// this host only) or 0.0.0.0:9464
    #[arg(long, value_name = "FILE|ADDR", value_parser = Destination::parse)]
    metrics: Option<Destination>,
}

/// The end of the help.
const KEYS: &str = "Processes are seen that were started with FI_OXI_STATS=1 by the same user.\n\
    Keys: q quits; t turns to endpoints and back; up and down scroll; p c m b s r u x e a sort by the column whose name shows \
    that letter, again the other way round.\n\
    NO_COLOR=1 in the environment turns colours off.";

/// What was seen at one look.
#[derive(Clone, Debug, Default)]
pub(super) struct Sample {
    /// When, in nanoseconds of CLOCK_MONOTONIC.
    pub(super) at_ns: u64,
    pub(super) processes: Vec<Process>,
}

/// A process that tells of its endpoints.
#[derive(Clone, Debug)]
pub(super) struct Process {
    pub(super) pid: u32,
    /// When it started, in ticks since the system did: another process may get the same number.
    pub(super) started: u64,
    /// The name of its program, without control characters.
    pub(super) command: String,
    /// For how many endpoints it had no room.
    pub(super) missed: u64,
    pub(super) endpoints: Vec<Endpoint>,
}

/// An endpoint with what it told last.
#[derive(Clone, Debug)]
pub(super) struct Endpoint {
    pub(super) identity: Identity,
    pub(super) figures: Figures,
}

impl Endpoint {
    /// Returns how long ago it told of itself, in seconds: its program has not polled it since.
    pub(super) fn age_s(&self, at_ns: u64) -> f64 {
        at_ns.saturating_sub(self.figures.sampled_ns) as f64 / 1e9
    }
}

/// Runs the command.
pub(super) fn run(options: &Options) -> Result<ExitCode, Trouble> {
    let finder = Finder::of_this_user();
    match &options.metrics {
        Some(to) => metrics::run(&finder, to, options.delay, options.once)?,
        None if options.once => print_once(&finder, options)?,
        None => screen::run(&finder, options.delay)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Looks twice and prints what happened in between.
fn print_once(finder: &Finder, options: &Options) -> Result<(), Trouble> {
    let before = finder.look();
    thread::sleep(options.delay);
    let (before, now) = (&before, &finder.look());
    output::print(|out| match options.json {
        true => json::print(out, before, now),
        false => table::print(out, before, now),
    })?;
    Ok(())
}

fn parse_delay(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| format!("no number of seconds: {text:?}"))?;
    match (0.1..=86_400.0).contains(&seconds) {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err(format!("{text} is not between 0.1 and 86400 seconds")),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use oxifabric_types::EpType;
    use oxifabric_types::stats::Traffic;

    use super::*;

    /// Returns an endpoint that has sent and received this number of messages of 100 bytes.
    pub(crate) fn endpoint(id: u64, messages: u64) -> Endpoint {
        let traffic = Traffic {
            operations: messages,
            bytes: messages * 100,
        };
        let mut figures = Figures {
            sampled_ns: 900_000_000,
            errors: 1,
            retransmissions: 2,
            peers: 3,
            sends: 4,
            receives: 5,
            unexpected: 6,
            unexpected_bytes: 700,
            ..Figures::default()
        };
        figures.traffic[0] = traffic;
        figures.traffic[1] = traffic;
        Endpoint {
            identity: Identity {
                id,
                kind: EpType::Rdm,
                provider: "tcp".into(),
                address: "127.0.0.1:4711".into(),
            },
            figures,
        }
    }

    /// Returns a sample of one process, taken at this number of seconds.
    pub(crate) fn sample(at_s: u64, endpoints: Vec<Endpoint>) -> Sample {
        Sample {
            at_ns: at_s * 1_000_000_000,
            processes: vec![Process {
                pid: 4242,
                started: 17,
                command: "ring \"\\x\"".into(),
                missed: 0,
                endpoints,
            }],
        }
    }

    #[test]
    fn delays_are_bounded() {
        assert_eq!(parse_delay("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["0", "-1", "nan", "inf", "1e9", "soon"] {
            assert!(parse_delay(wrong).is_err(), "{wrong}");
        }
    }
}
