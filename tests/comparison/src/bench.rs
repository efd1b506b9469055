//! Two libraries in turns under all workloads.

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use clap::Args;
use oxifabric_trials::Library;

use crate::comparison::Comparison;
use crate::cores::Cores;
use crate::crowd;
use crate::curves::Field;
use crate::library::{ours, reference, version};
use crate::page;
use crate::report::Report;
use crate::sweep::Sweep;
use crate::workload::{self, DATAGRAMS, RELIABLE_DATAGRAMS, Workload};

/// What to compare and how often.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The libfabric.so.1 to compare with, or the folder that has it; by default the one in the MPICH wheel, else Debian's
    #[arg(long)]
    reference: Option<PathBuf>,
    /// Folder of the library to measure, as laid out by dist; by default it is built
    #[arg(long)]
    dist: Option<PathBuf>,
    /// How often each library runs each workload [default: 9, of sweeps 5]
    #[arg(long)]
    rounds: Option<u32>,
    /// Providers to measure [default: shm tcp udp, of sweeps shm tcp "udp;ofi_rxd", of threads shm tcp]
    #[arg(long = "provider")]
    providers: Vec<String>,
    /// Repeat only so few messages that nothing but the procedure itself is tested
    #[arg(long)]
    short: bool,
    /// Measure all sizes from 1 B to 8 MiB with four programs of fabtests, and list those at which the reference is ahead
    #[arg(long)]
    sweep: bool,
    /// With --sweep: the Intel MPI Benchmarks PingPong, Sendrecv, Allreduce and Alltoall from 8 B to 1 MiB, over shm and tcp, in place of those
    /// programs
    #[arg(long, requires = "sweep")]
    mpi: bool,
    /// Measure threads that share an endpoint, in more processes than there are processors
    #[arg(long, conflicts_with = "sweep")]
    threads: bool,
    /// Parts of the usual number of messages of a sweep, which over "udp;ofi_rxd" is a tenth of that over the others
    #[arg(long, value_name = "PARTS", default_value_t = 1.0, requires = "sweep")]
    scale: f64,
}

impl Options {
    /// Returns the providers that are named, else the usual ones.
    fn providers(&self) -> Vec<String> {
        let usual: &[&str] = match (self.sweep, self.threads) {
            (true, _) if self.mpi => &["shm", "tcp"],
            (true, _) => &["shm", "tcp", RELIABLE_DATAGRAMS],
            (_, true) => &["shm", "tcp"],
            _ => &["shm", "tcp", DATAGRAMS],
        };
        match self.providers.as_slice() {
            [] => usual.iter().map(|&name| name.to_owned()).collect(),
            named => named.to_vec(),
        }
    }
}

/// So few messages show that a sweep works.
const SHORT: f64 = 0.02;

/// Compares the libraries, prints a table and writes `target/bench/comparison.json` and, with drawings, `comparison.html`.
pub(crate) fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let ours = ours(options.dist.as_deref())?;
    let reference = reference(options.reference.as_deref())?;
    let cores = Cores::choose();
    let (versions, providers) = ([version(&ours)?, version(&reference)?], options.providers());
    if options.sweep {
        let sweep = Sweep {
            libraries: [&ours, &reference],
            versions,
            cores: &cores,
            providers: &providers,
            rounds: options.rounds.unwrap_or(5),
            scale: if options.short { SHORT } else { options.scale },
            mpi: options.mpi,
        };
        return sweep.run();
    }
    let rounds = options.rounds.unwrap_or(9);
    let mut report = Report::new(versions, &cores);
    let mut table = report.head() + "\n";
    print!("{table}");
    let workloads = match options.threads {
        true => crowd::workloads(options.short),
        false => workload::all(options.short, &cores),
    };
    for provider in &providers {
        for workload in workloads.iter().filter(|one| one.is_for(provider)) {
            let compared = compare(workload, provider, [&ours, &reference], rounds, &cores)?;
            let row = report.add(workload, provider, compared);
            println!("{row}");
            table += &row;
            table.push('\n');
        }
    }
    let mut drawings = Vec::new();
    // Threads have no curves.
    let drawn = providers
        .iter()
        .filter(|name| !options.threads && *name != DATAGRAMS);
    for provider in drawn {
        let field = Field {
            provider,
            libraries: [&ours, &reference],
            cores: &cores,
            rounds: rounds.min(3),
            short: options.short,
        };
        for drawn in field.draw()? {
            report.add_curves(&drawn.caption, &drawn.curves);
            drawings.push(drawn.svg);
        }
    }
    let folder = oxifabric_trials::library::prepared().join("bench");
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
