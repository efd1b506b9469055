//! Compares this library with another `libfabric.so.1` under the same programs; `cargo xtask bench` and `cargo xtask losses` start it.
//!
//! A figure of one run says little on a shared machine. So the libraries alternate, in an order that turns round
//! each time, and what is reported is the ratio of the two medians with its spread; the figures of both are shown
//! beside it. Nothing is judged here: a machine may be too busy for any verdict.
//!
//! - [`bench`](mod@bench): all workloads; [`workload`], [`speed`], [`crowd`], [`mpi`], [`ucx`] and [`limit`] run them, [`comparison`] holds the
//!   figures, [`report`] prints them.
//! - [`curves`] draws some works over many sizes, and [`page`] shows that.
//! - [`sweep`]: the works of fabtests over all sizes, and those at which the other library is ahead; [`fabtests`] runs its programs.
//! - [`losses`]: what lost packets cost.
//! - [`cores`]: where processes run; [`library`]: the two libraries.
#![forbid(unsafe_code)]

mod bench;
mod comparison;
mod cores;
mod crowd;
mod curves;
mod fabtests;
mod library;
mod limit;
mod losses;
mod mpi;
mod page;
mod report;
mod speed;
mod sweep;
mod ucx;
mod workload;

use std::error::Error;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    about = "Comparisons of oxifabric with other libraries"
)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Measure this library and a reference in turns, under the same unmodified programs
    Bench(bench::Options),
    /// Measure reliable datagrams under losses, and draw what they cost
    Losses(losses::Options),
}

fn main() -> ExitCode {
    match run(Arguments::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<(), Box<dyn Error>> {
    match task {
        Task::Bench(options) => bench::run(&options),
        Task::Losses(options) => losses::run(&options),
    }
}
