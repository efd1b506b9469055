//! `softnic run [--plan FILE] -- PROGRAM`: runs a program, and whatever it starts, on a network of software NICs.

#![deny(unsafe_code)]

mod fate;
mod plan;
mod run;
mod switch;
#[allow(
    dead_code,
    unsafe_code,
    reason = "system calls; the device uses the other half"
)]
mod sys;
mod sysfs;
mod topology;
#[allow(dead_code, reason = "the device uses the other half")]
mod wire;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::plan::Plan;

/// Software NICs with scalable reliable datagrams (SRD), below unmodified libibverbs and libefa.
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs a program, and whatever it starts, on a network that lives as long as it.
    Run(Run),
}

#[derive(Debug, Parser)]
struct Run {
    /// What the network is like and does, in TOML (docs/softnic.md).
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// How many hosts there are, instead of the plan's `hosts`. A process is on the host SOFTNIC_HOST, or its rank modulo this number.
    #[arg(long, value_name = "N")]
    hosts: Option<u8>,
    /// The seed, instead of the plan's.
    #[arg(long)]
    seed: Option<u64>,
    /// Says at the end how many packets were carried, reordered and failed.
    #[arg(long)]
    stats: bool,
    /// Tells hwloc of the NICs, in a description of this machine that has nothing but its processors otherwise. MPICH needs that.
    #[arg(long)]
    topology: bool,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<String>,
}

fn main() -> ExitCode {
    let Command::Run(run) = Options::parse().command;
    let plan = Plan::read(run.plan.as_deref()).and_then(|mut plan| {
        plan.hosts = run.hosts.unwrap_or(plan.hosts);
        plan.seed = run.seed.unwrap_or(plan.seed);
        plan.check()?;
        Ok(plan)
    });
    let plan = match plan {
        Ok(plan) => plan,
        Err(error) => {
            eprintln!("softnic: {error}");
            return ExitCode::from(2);
        }
    };
    match run::run(plan, &run) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("softnic: {error}");
            ExitCode::from(125)
        }
    }
}
