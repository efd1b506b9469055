//! Two libraries in turns under the same unmodified program.
//!
//! A figure of one run says little on a shared machine. So the libraries alternate, in an order that turns round
//! each time, and what is reported is the ratio of the two medians with its spread; the figures of both are shown
//! beside it. Nothing is judged here: a machine may be too busy for any verdict.

mod cores;
mod drawing;
mod limit;
pub(crate) mod losses;
mod mpi;
mod page;
mod report;
mod sample;
mod speed;
mod sweep;
mod ucx;
mod workload;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use oxifabric_trials::{Library, Program, installed, library};

use crate::dist;
use cores::Cores;
use report::Report;
use sample::Comparison;
use sweep::Field;
use workload::{DATAGRAMS, Workload};

/// What to compare and how often.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The libfabric.so.1 to compare with; by default the one in the MPICH wheel, else Debian's
    #[arg(long)]
    reference: Option<PathBuf>,
    /// Folder of the library to measure, as laid out by dist; by default it is built
    #[arg(long)]
    dist: Option<PathBuf>,
    /// How often each library runs each workload
    #[arg(long, default_value_t = 9)]
    rounds: u32,
    /// Providers to measure
    #[arg(long = "provider", default_values_t = ["shm", "tcp", DATAGRAMS].map(str::to_owned))]
    providers: Vec<String>,
    /// Repeat only so few messages that nothing but the procedure itself is tested
    #[arg(long)]
    short: bool,
}

impl Options {
    /// A comparison of the library in `dist` that takes seconds and shows only that it works.
    pub(crate) fn short(dist: PathBuf) -> Self {
        Self {
            reference: None,
            dist: Some(dist),
            rounds: 2,
            providers: vec!["shm".into(), "tcp".into()],
            short: true,
        }
    }
}

/// Compares the libraries, prints a table and writes `target/bench/comparison.json` and, with drawings, `comparison.html`.
pub(crate) fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let ours = ours(options)?;
    let reference = reference(options)?;
    let cores = Cores::choose();
    let mut report = Report::new([version(&ours)?, version(&reference)?], &cores);
    let mut table = report.head() + "\n";
    print!("{table}");
    let workloads = workload::all(options.short, &cores);
    for provider in &options.providers {
        for workload in workloads.iter().filter(|one| one.is_for(provider)) {
            let compared = compare(
                workload,
                provider,
                [&ours, &reference],
                options.rounds,
                &cores,
            )?;
            let row = report.add(workload, provider, compared);
            println!("{row}");
            table += &row;
            table.push('\n');
        }
    }
    let mut drawings = Vec::new();
    for provider in options.providers.iter().filter(|name| *name != DATAGRAMS) {
        let field = Field {
            provider,
            libraries: [&ours, &reference],
            cores: &cores,
            rounds: options.rounds.min(3),
            short: options.short,
        };
        for drawn in field.draw()? {
            report.add_curves(&drawn.caption, &drawn.curves);
            drawings.push(drawn.svg);
        }
    }
    let folder = library::prepared().join("bench");
    fs::create_dir_all(&folder)?;
    let file = folder.join("comparison.json");
    fs::write(&file, report.json())?;
    println!("{}", file.display());
    let file = folder.join("comparison.html");
    fs::write(&file, page::html(&table, &drawings))?;
    println!("{}", file.display());
    Ok(())
}

/// Runs both libraries so many times in turns, and UCX and the machine's limit where they have the work; the one that begins
/// changes with every round.
fn compare(
    workload: &Workload,
    provider: &str,
    [ours, reference]: [&Library; 2],
    rounds: u32,
    cores: &Cores,
) -> Result<Comparison, Box<dyn Error>> {
    let mut compared = Comparison::default();
    for round in 0..rounds {
        let mut turns = [Turn::Ours, Turn::Reference, Turn::Ucx, Turn::Limit];
        if round % 2 == 1 {
            turns.reverse();
        }
        for turn in turns {
            match turn {
                Turn::Ours => compared.ours.push(workload.measure(ours, provider, cores)?),
                Turn::Reference => {
                    let figure = workload.measure(reference, provider, cores)?;
                    compared.reference.push(figure);
                }
                Turn::Ucx => compared.ucx.extend(workload.measure_ucx(provider, cores)?),
                Turn::Limit => compared
                    .limit
                    .extend(workload.measure_limit(provider, cores)?),
            }
        }
    }
    Ok(compared)
}

/// Whose turn it is.
#[derive(Clone, Copy)]
enum Turn {
    Ours,
    Reference,
    Ucx,
    Limit,
}

fn ours(options: &Options) -> Result<Library, Box<dyn Error>> {
    let laid_out = match &options.dist {
        Some(folder) => folder.clone(),
        None => dist::dist(None, "release")?,
    };
    Library::at(laid_out.join("lib"), "ours").map_err(|missing| missing.0.into())
}

fn reference(options: &Options) -> Result<Library, Box<dyn Error>> {
    let found = match &options.reference {
        Some(file) => Library::alone(Path::new(file), "reference"),
        None => Library::mpich_wheel().or_else(|_| Library::debian()),
    };
    found.map_err(|missing| format!("nothing to compare with: {missing}").into())
}

/// What a library calls itself, through Debian's `fi_info`.
fn version(library: &Library) -> Result<String, Box<dyn Error>> {
    let program = installed("fi_info").map_err(|missing| missing.0)?;
    let outcome = Program::new(program)
        .library(library)
        .args(["--version"])
        .run();
    let line = outcome
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("libfabric: "));
    let version = line.ok_or_else(|| format!("no version\n{outcome}"))?;
    Ok(format!("{} {version}", library.name()))
}
