//! `oxi sim`: many nodes of a simulated network send to each other after a pattern; what that costs in the network's time,
//! and in memory.

mod memory;
mod node;
mod nodes;
mod pattern;
mod report;

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::Args;
use oxifabric::Backend;
use oxifabric_bench::units::parse_size;

use super::Trouble;
use crate::output::print;
use nodes::Nodes;
use pattern::Pattern;
use report::Report;

/// Options of the command.
#[derive(Args, Clone, Debug)]
pub(super) struct Options {
    /// A file in TOML that says what the network is like (docs/sim.md) [default: no faults]
    plan: Option<PathBuf>,
    /// Which nodes send to which
    #[arg(long, value_enum, default_value = "random")]
    pattern: Pattern,
    /// How many nodes there are, at most 10,000 or so
    #[arg(long, default_value = "100", value_parser = clap::value_parser!(u32).range(2..=100_000))]
    nodes: u32,
    /// The length of a message, at least 16 bytes
    #[arg(long, value_name = "SIZE", default_value = "1k", value_parser = parse_size)]
    size: usize,
    /// How many messages a node begins to send in a second of the network's time, on average
    #[arg(long, default_value = "1000")]
    rate: f64,
    /// For how many seconds of the network's time
    #[arg(long, default_value = "1")]
    seconds: f64,
    /// To how many others each node sends at most, in the pattern random
    #[arg(long)]
    partners: Option<u32>,
    /// What decides all that happens at random
    #[arg(long)]
    seed: Option<u64>,
    /// The share of packets that is lost
    #[arg(long)]
    drop: Option<f64>,
}

/// The variable that marks that the environment holds the plan.
const READY: &str = "OXI_SIM_READY";

/// Runs the simulation. It fails when a message is missing, doubled, out of order or damaged.
pub(super) fn run(options: &Options) -> Result<ExitCode, Trouble> {
    if std::env::var_os(READY).is_none() {
        return Err(start_anew(options).into());
    }
    let seconds = Duration::try_from_secs_f64(options.seconds)?;
    if options.size < node::HEAD || !(1e-3..=1e9).contains(&options.rate) {
        return Err(
            "a message has at least 16 bytes, and a node a rate between 0.001 and 1e9".into(),
        );
    }
    let mut nodes = Nodes::open(Backend::from_env()?, options)?;
    nodes.meet()?;
    nodes.play(seconds)?;
    let report = Report::of(&nodes, options, seconds);
    let colour = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    print(|out| report.print(out, colour))?;
    Ok(match report.is_good() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Starts the program anew with the plan in the environment, which the provider reads only once.
fn start_anew(options: &Options) -> io::Error {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return error,
    };
    let text = |number: &dyn ToString| OsString::from(number.to_string());
    let variables = [
        ("FI_SIM_PLAN", options.plan.clone().map(OsString::from)),
        ("FI_SIM_SEED", options.seed.map(|seed| text(&seed))),
        ("FI_SIM_DROP", options.drop.map(|drop| text(&drop))),
    ];
    let variables = variables
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    Command::new(program)
        .args(std::env::args_os().skip(1))
        .envs(variables)
        .env("FI_SIM_TIME", "virtual")
        .env(READY, "1")
        .exec()
}

impl Options {
    fn seed(&self) -> u64 {
        self.seed.unwrap_or(0)
    }
}
