//! `oxi sim`: many nodes of a simulated network send to each other after a pattern; what that costs in the network's time,
//! and in memory.

mod estimate;
mod heard;
mod memory;
mod node;
mod nodes;
mod pattern;
mod report;
mod report_json;

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::Args;
use oxifabric::{Backend, Hints, WhyNot};
use oxifabric_bench::units::parse_size;

use super::Trouble;
use crate::output::print;
use estimate::Estimate;
use nodes::Nodes;
use pattern::Pattern;
use report::Report;

/// Options of the command.
#[derive(Args, Clone, Debug)]
pub(super) struct Options {
    /// A file in TOML that says what the network is like, and which adapters the nodes have (docs/sim.md) [default: no faults, no adapters]
    plan: Option<PathBuf>,
    /// Which nodes send to which
    #[arg(long, value_enum, default_value = "random")]
    pattern: Pattern,
    /// How many nodes there are, at most 10,000 or so
    #[arg(long, default_value = "100", value_parser = clap::value_parser!(u32).range(2..=100_000))]
    nodes: u32,
    /// The length of a message, at least 16 bytes
    #[arg(long, value_name = "SIZE", default_value = "1k", value_parser = parse_message_size)]
    size: usize,
    /// How many messages a node begins to send in a second of the network's time, on average
    #[arg(long, default_value = "1000", value_parser = parse_rate)]
    rate: f64,
    /// For how many seconds of the network's time
    #[arg(long, default_value = "1", allow_negative_numbers = true, value_parser = parse_seconds)]
    seconds: f64,
    /// To how many others each node sends at most, in the pattern random
    #[arg(long)]
    partners: Option<u32>,
    /// What decides all that happens at random
    #[arg(long)]
    seed: Option<u64>,
    /// The share of packets that is lost
    #[arg(long, allow_negative_numbers = true, value_parser = parse_share)]
    drop: Option<f64>,
    /// Print what was seen as a JSON object
    #[arg(long)]
    json: bool,
}

/// The variable that marks that the environment holds the plan.
const READY: &str = "OXI_SIM_READY";

/// Runs the simulation. It fails when a message is missing, doubled, out of order or damaged.
pub(super) fn run(options: &Options) -> Result<ExitCode, Trouble> {
    if std::env::var_os(READY).is_none() {
        return Err(start_anew(options).into());
    }
    let seconds = Duration::try_from_secs_f64(options.seconds)?;
    let backend = Backend::from_env()?;
    let hints = Hints::new().provider("sim").one_thread();
    let info = hints.best(backend).map_err(|why| name_cause(&why))?;
    let estimate = Estimate::of(options);
    eprintln!("{estimate}");
    if let Some(objection) = estimate.objection() {
        eprintln!("{objection}");
    }
    let mut nodes = Nodes::open(&info, options)?;
    nodes.meet()?;
    nodes.play(seconds)?;
    let report = Report::of(&nodes, options, seconds);
    let colour = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    print(|out| match options.json {
        true => report.print_json(out),
        false => report.print(out, colour),
    })?;
    Ok(match report.is_good() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Returns why there is no network, in one line: what is wrong with the plan or a variable.
fn name_cause(why: &WhyNot) -> Trouble {
    let of_sim = (why.rejections().iter()).find(|rejection| rejection.provider == "sim");
    match of_sim {
        Some(rejection) => rejection.reasons.join("; ").into(),
        None => format!("the library has no provider sim: {}", why.errno()).into(),
    }
}

fn parse_message_size(text: &str) -> Result<usize, String> {
    parse_size(text).and_then(|size| match size {
        0..node::HEAD => Err(format!("a message has at least {} bytes", node::HEAD)),
        size => Ok(size),
    })
}

fn parse_rate(text: &str) -> Result<f64, String> {
    parse_between(text, 1e-3, 1e9)
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    parse_between(text, 0.0, 1e9)
}

fn parse_share(text: &str) -> Result<f64, String> {
    parse_between(text, 0.0, 1.0)
}

fn parse_between(text: &str, least: f64, most: f64) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "this is no number".to_owned())?;
    match (least..=most).contains(&number) {
        true => Ok(number),
        false => Err(format!("it is between {least} and {most}")),
    }
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
