//! `oxi`: the project's own program. Without a command it does its main job, [`mod@bench`].

mod bench;
mod completions;
mod conf;
mod doctor;
mod json;
mod lab;
mod man;
mod peer;
mod sim;
mod top;
mod tune;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use oxifabric_bench::Trouble;

use crate::output::{LIBRARY_HELP, parse_options};

/// Show what the fabrics of this machine can do.
///
/// Without a command: start two processes, play ping-pong and bandwidth over every provider that is here, and print a table
/// and charts.
#[derive(Parser)]
#[command(
    name = "oxi",
    version,
    args_conflicts_with_subcommands = true,
    after_help = LIBRARY_HELP
)]
pub(crate) struct Oxi {
    #[command(flatten)]
    bench: bench::Options,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Play ping-pong and bandwidth over every provider that is here (the main job)
    Bench(bench::Options),
    /// Let many nodes of a simulated network send to each other
    Sim(sim::Options),
    /// Measure what the guide says about the cost of copies, system calls, locks and the like
    Lab(lab::Options),
    /// Look for what keeps programs from running over fabrics here, and say what to do about it
    Doctor(doctor::Options),
    /// Find out from which length on messages should go another way on this machine
    Tune(tune::Options),
    /// Watch what processes do with the library, as top does
    Top(top::Options),
    /// Print a script with which a shell completes options: source <(oxi completions bash)
    Completions(completions::Options),
    /// Write the manual pages of all programs and providers
    #[command(hide = true)]
    Man(man::Options),
    /// The other process of a measurement
    #[command(hide = true)]
    Peer(peer::Options),
    /// Two processes that measure with settings of their own
    #[command(hide = true)]
    WorkerPair(tune::WorkerPairOptions),
}

/// Runs the program.
pub fn main() -> ExitCode {
    let options = match parse_options::<Oxi>() {
        Ok(options) => options,
        Err(code) => return code,
    };
    let result = match options.command {
        None => bench::run(&options.bench),
        Some(Command::Bench(options)) => bench::run(&options),
        Some(Command::Sim(options)) => sim::run(&options),
        Some(Command::Lab(options)) => lab::run(&options),
        Some(Command::Doctor(options)) => doctor::run(&options),
        Some(Command::Tune(options)) => tune::run(&options),
        Some(Command::Top(options)) => top::run(&options),
        Some(Command::Completions(options)) => completions::run(&options),
        Some(Command::Man(options)) => man::run(&options),
        Some(Command::WorkerPair(options)) => tune::serve(&options).map(|()| ExitCode::SUCCESS),
        Some(Command::Peer(options)) => {
            oxifabric_bench::peer::serve(&options.provider, options.cpu).map(|()| ExitCode::SUCCESS)
        }
    };
    result.unwrap_or_else(|trouble| {
        eprintln!("oxi: {trouble}");
        ExitCode::FAILURE
    })
}
