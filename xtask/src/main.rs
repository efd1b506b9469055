//! Development tasks: `cargo xtask dist`, `cargo xtask deb`, `cargo xtask test`, `cargo xtask clients`, `cargo xtask fuzz`,
//! `cargo xtask asan`, `cargo xtask tsan`, `cargo xtask bench`, `cargo xtask losses`, `cargo xtask headers`, `cargo xtask guide`.
//!
//! - [`suite`] is everything that a change must pass; [`machine`] installs what it uses, [`missing`] lists what it does
//!   without, [`tally`] counts and times; [`sanitize`] runs tests under AddressSanitizer and ThreadSanitizer.
//! - The package of `packaging` lays out the library and the tools, and makes Debian packages of that.
//! - [`mod@program`] starts the programs of other packages, which do all else: write the C headers (`tests/headers`), build the book
//!   (`guide`), look for input that breaks a decoder (`tests/campaign`), compare libraries (`tests/comparison`), build and try kernel modules
//!   (`kernel/harness`).
#![forbid(unsafe_code)]

mod machine;
mod missing;
mod program;
mod sanitize;
mod suite;
mod tally;

use std::error::Error;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::{Parser, Subcommand};
use oxifabric_packaging::{deb, layout};

use crate::program::{comparison, program};
use crate::suite::Machine;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Development tasks of oxifabric")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Lay out the libraries, headers, tools, manual pages, guide and debug information in target/dist
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
        /// Instead, write the code of guide/code into the pages that show it
        #[arg(long, conflicts_with = "out")]
        write: bool,
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
    Fuzz(Options),
    /// Measure this library and a reference in turns, under the same unmodified programs
    Bench(Options),
    /// Build the kernel modules from Debian's packages; print where they are
    Kernel,
    /// Run a shell command in a guest that has the kernel modules in /mod; without one, their tests
    Guest(Options),
    /// Measure reliable datagrams under losses, and draw what they cost
    Losses(Options),
}

/// Options of another program, which knows them, `--help` among them.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
struct Options {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    options: Vec<OsString>,
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
        Task::Dist { out, profile } => println!("{}", layout::dist(out, &profile)?.display()),
        Task::Deb => println!("{}", deb::deb(deb::Compression::Small)?.display()),
        Task::Headers => return end_of(&mut program("oxifabric-headers")),
        Task::Guide { write: true, .. } => {
            for page in oxifabric_guide::write()? {
                println!("{}", page.display());
            }
        }
        Task::Guide { out, .. } => return end_of(&mut layout::book(out)),
        Task::Test {
            fast,
            allow_missing,
        } => {
            let run = if fast { suite::fast } else { suite::run };
            return Ok(run(match allow_missing {
                true => Machine::Any,
                false => Machine::Complete,
            }));
        }
        Task::Clients { dist } => return suite::clients(dist),
        Task::Asan => return Ok(suite::asan()),
        Task::Tsan => return Ok(suite::tsan()),
        Task::Fuzz(Options { options }) => {
            return end_of(program("oxifabric-campaign").args(options));
        }
        Task::Bench(Options { options }) => return end_of(comparison("bench").args(options)),
        Task::Kernel => return end_of(program("oxifabric-kernel-harness").arg("build")),
        Task::Guest(Options { options }) => {
            return end_of(
                program("oxifabric-kernel-harness")
                    .arg("guest")
                    .args(options),
            );
        }
        Task::Losses(Options { options }) => return end_of(comparison("losses").args(options)),
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs a program that says by itself what is wrong.
fn end_of(command: &mut Command) -> Result<ExitCode, Box<dyn Error>> {
    Ok(match command.status()?.success() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}
