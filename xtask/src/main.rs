//! Development tasks: `cargo xtask dist`, `cargo xtask deb`, `cargo xtask test`, `cargo xtask clients`, `cargo xtask fuzz`,
//! `cargo xtask asan`, `cargo xtask tsan`, `cargo xtask bench`, `cargo xtask headers`, `cargo xtask guide`.
//!
//! - [`dist`] lays out the library and the tools as a program needs them; [`mod@deb`] makes Debian packages of that.
//! - [`guide`] builds the book.
//! - [`mod@fuzz`] looks for input that breaks a decoder; [`sanitize`] runs tests under AddressSanitizer and ThreadSanitizer.
//! - [`suite`] is everything that a change must pass; [`machine`] installs what it uses, [`missing`] lists what it does
//!   without, [`tally`] counts, [`slowest`] times.
//! - Other programs write the C headers (`tests/headers`) and compare libraries (`tests/comparison`).
#![forbid(unsafe_code)]

mod deb;
mod dist;
mod fuzz;
mod guide;
mod machine;
mod missing;
mod sanitize;
mod slowest;
mod suite;
mod tally;

use std::error::Error;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::{Parser, Subcommand};

use crate::suite::Machine;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Development tasks of oxifabric")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Lay out the libraries, headers, tools, manual pages and debug information in target/dist
    Dist {
        /// Folder to fill instead of target/dist
        #[arg(long)]
        out: Option<PathBuf>,
        /// Profile that cargo builds with
        #[arg(long, default_value = "release")]
        profile: String,
    },
    /// Build Debian packages in target/deb
    Deb,
    /// Write the C headers from the Rust definitions of the C interface
    Headers,
    /// Build the programmer's guide in target/guide
    Guide {
        /// Folder to fill instead of target/guide
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// Run every check and every test; as root, install the Debian packages that they use
    Test {
        /// Run only what answers within minutes: format, lints, rules of the repository, unit tests, the engine's rules and
        /// simulations, conformance
        #[arg(long)]
        fast: bool,
        /// Pass though tests did not run because this machine lacks what they need
        #[arg(long)]
        allow_missing: bool,
    },
    /// Run MPI libraries and their test suites on this library; installs what they need in target
    Clients {
        /// Layout to test instead of the one that is built now
        #[arg(long)]
        dist: Option<PathBuf>,
    },
    /// Run the tests of the C interface under AddressSanitizer
    Asan,
    /// Run the tests with many threads under ThreadSanitizer; needs the component rust-src
    Tsan,
    /// Let libFuzzer look for input that breaks a decoder
    Fuzz(fuzz::Options),
    /// Measure this library and a reference in turns, under the same unmodified programs
    #[command(disable_help_flag = true)]
    Bench {
        /// Options of the comparison
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<OsString>,
    },
    /// Measure reliable datagrams under losses, and draw what they cost
    #[command(disable_help_flag = true)]
    Losses {
        /// Options of the comparison
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<OsString>,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().task) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<ExitCode, Box<dyn Error>> {
    match task {
        Task::Dist { out, profile } => {
            println!("{}", dist::dist(out, &profile)?.display());
            Ok(ExitCode::SUCCESS)
        }
        Task::Deb => {
            println!("{}", deb::deb()?.display());
            Ok(ExitCode::SUCCESS)
        }
        Task::Headers => run_to_end(&mut program("oxifabric-headers")),
        Task::Guide { out } => run_to_end(&mut guide::command(out)),
        Task::Test {
            fast,
            allow_missing,
        } => {
            let machine = match allow_missing {
                true => Machine::Any,
                false => Machine::Complete,
            };
            let run = if fast { suite::fast } else { suite::run };
            Ok(run(machine))
        }
        Task::Clients { dist } => suite::clients(dist),
        Task::Asan => Ok(suite::asan()),
        Task::Tsan => Ok(suite::tsan()),
        Task::Fuzz(options) => fuzz::run(&options),
        Task::Bench { options } => run_to_end(comparison("bench").args(options)),
        Task::Losses { options } => run_to_end(comparison("losses").args(options)),
    }
}

/// Returns the command that compares libraries.
pub(crate) fn comparison(task: &str) -> Command {
    let mut command = program("oxifabric-comparison");
    command.arg(task);
    command
}

/// Returns the command that runs the program of a package, in the folder that this program was started in.
fn program(package: &str) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["run", "--quiet", "--package", package, "--"]);
    command
}

fn run_to_end(command: &mut Command) -> Result<ExitCode, Box<dyn Error>> {
    Ok(match command.status()?.success() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}
