//! What is measured: the programs, their options, and which of their figures counts.

use std::error::Error;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use oxifabric_trials::pingpong::{PingPong, Row, rows};
use oxifabric_trials::source::{self, Compiled};
use oxifabric_trials::{Library, Missing, Pair, Program};

use crate::cores::Cores;
use crate::fabtests;
use crate::limit::Limit;
use crate::mpi;
use crate::speed::{self, Speed};
use crate::ucx::Test;

/// The provider of datagram endpoints; all others have reliable ones.
pub(crate) const DATAGRAMS: &str = "udp";

/// The provider of reliable datagrams.
pub(crate) const RELIABLE_DATAGRAMS: &str = "udp;ofi_rxd";

/// A program with its options.
pub(crate) struct Workload {
    /// The program and what it does, for the report.
    pub(crate) name: &'static str,
    pub(crate) figure: Figure,
    pub(crate) program: Source,
    pub(crate) options: String,
    pub(crate) bytes: u64,
    /// The only provider that has what is measured.
    pub(crate) provider: Option<&'static str>,
    /// The same work for UCX.
    pub(crate) ucx: Option<Test>,
    /// What the machine can do, for the providers that it is the limit of.
    pub(crate) limits: Vec<(&'static str, Limit)>,
}

/// Which column of the program's table counts.
#[derive(Clone, Copy)]
pub(crate) enum Figure {
    LatencyUs,
    MbytesPerSecond,
    /// Messages or accesses.
    MillionsPerSecond,
    Seconds,
    Microseconds,
    Nanoseconds,
    Bytes,
}

impl Figure {
    pub(crate) const fn unit(self) -> &'static str {
        match self {
            Self::LatencyUs | Self::Microseconds => "us",
            Self::MbytesPerSecond => "MB/s",
            Self::MillionsPerSecond => "M/s",
            Self::Seconds => "s",
            Self::Nanoseconds => "ns",
            Self::Bytes => "B",
        }
    }

    pub(crate) const fn lower_is_better(self) -> bool {
        !matches!(self, Self::MbytesPerSecond | Self::MillionsPerSecond)
    }

    /// Reads it off a row of a table.
    pub(crate) fn of(self, row: &Row) -> Option<f64> {
        match self {
            Self::LatencyUs => Some(row.latency_us),
            Self::MbytesPerSecond => Some(row.mbytes_per_second),
            Self::MillionsPerSecond => Some(1.0 / row.latency_us),
            Self::Seconds | Self::Microseconds | Self::Nanoseconds | Self::Bytes => None,
        }
    }
}

/// Where the program comes from.
pub(crate) enum Source {
    /// Debian's `fi_pingpong`.
    PingPong,
    /// This file of fabtests.
    Fabtests(PathBuf),
    /// One of ours, which starts what it needs by itself.
    Own(Rc<Compiled>),
    /// One of ours, which is two processes.
    Speed(Speed),
    /// One of the Intel MPI Benchmarks.
    Mpi(&'static str),
}

/// All workloads for which this machine has the programs.
pub(crate) fn all(short: bool, cores: &Cores) -> Vec<Workload> {
    // Even the short run is long enough that the first message, which connects, does not decide the figure.
    let (small, large) = if short { (5_000, 100) } else { (20_000, 2_000) };
    let mut all = vec![
        ping_pong(
            "fi_pingpong, 8 B one way",
            "msg",
            8,
            small,
            Figure::LatencyUs,
        ),
        ping_pong(
            "fi_pingpong tagged, 8 B one way",
            "tagged",
            8,
            small,
            Figure::LatencyUs,
        ),
        ping_pong(
            "fi_pingpong, 1 MiB",
            "msg",
            1 << 20,
            large,
            Figure::MbytesPerSecond,
        ),
    ];
    if let Some(folder) = fabtests::folder() {
        let workload = |name, file, what: &str, bytes, iterations, figure| Workload {
            name,
            figure,
            program: Source::Fabtests(folder.join(file)),
            options: format!("{what} -I {iterations} -S {bytes}"),
            bytes,
            provider: None,
            ucx: None,
            limits: Vec::new(),
        };
        let (latency, bandwidth) = (Figure::LatencyUs, Figure::MbytesPerSecond);
        let write = "-e rdm -o write";
        all.extend([
            workload(
                "fi_rdm_tagged_pingpong, 8 B one way",
                "fi_rdm_tagged_pingpong",
                "",
                8,
                small,
                latency,
            ),
            workload(
                "fi_rdm_tagged_bw, 1 MiB",
                "fi_rdm_tagged_bw",
                "",
                1 << 20,
                large,
                bandwidth,
            ),
            workload(
                "fi_rma_bw writes, 8 B",
                "fi_rma_bw",
                write,
                8,
                10 * small,
                bandwidth,
            ),
            workload(
                "fi_rma_bw writes, 64 KiB",
                "fi_rma_bw",
                write,
                1 << 16,
                5 * large,
                bandwidth,
            ),
        ]);
    }
    all.extend(mpi::workloads(short));
    all.extend(speed::workloads(short, cores));
    all.extend(own(short));
    all.extend(peers(short));
    all
}

/// What grows with the number of messages and addresses, under programs of our own.
fn own(short: bool) -> Vec<Workload> {
    let (waiting, inserted, each, messages, addresses) = if short {
        (
            "receives for 500 waiting messages",
            "insertion of 20,000 addresses",
            "memory of each of 20,000 addresses",
            500,
            20_000,
        )
    } else {
        (
            "receives for 20,000 waiting messages",
            "insertion of 1,000,000 addresses",
            "memory of each of 1,000,000 addresses",
            20_000,
            1_000_000,
        )
    };
    // Without a compiler and headers these rows are missing.
    let (Ok(waiter), Ok(inserter)) = (
        source::compile_client("waiting"),
        source::compile_client("addresses"),
    ) else {
        return Vec::new();
    };
    let (waiter, inserter) = (Rc::new(waiter), Rc::new(inserter));
    // Over shm there are no addresses before there are endpoints.
    let tcp = Some("tcp");
    let in_seconds = format!("{addresses} seconds");
    let in_bytes = format!("{addresses} bytes");
    vec![
        Workload::alone(
            waiting,
            &waiter,
            messages.to_string(),
            Figure::Seconds,
            None,
        ),
        Workload::alone(inserted, &inserter, in_seconds, Figure::Seconds, tcp),
        Workload::alone(each, &inserter, in_bytes, Figure::Bytes, tcp),
    ]
}

/// What grows with the number of peers. The C library's shm has room for 256.
fn peers(short: bool) -> Vec<Workload> {
    let Ok(scale) = source::compile_client("scale") else {
        return Vec::new();
    };
    let scale = Rc::new(scale);
    let measures = [
        ("connect", Figure::Microseconds),
        ("poll", Figure::Nanoseconds),
        ("active", Figure::Bytes),
    ];
    let few = [
        "first messages to 20 peers and back, each",
        "vain poll, 20 silent peers",
        "memory of each of 20 active peers",
    ];
    let many = [
        "first messages to 1,000 peers and back, each",
        "vain poll, 1,000 silent peers",
        "memory of each of 1,000 active peers",
    ];
    let of = |provider, names: [&'static str; 3], count: u32| {
        let rows = names.into_iter().zip(measures);
        let row = |(name, (measure, figure))| {
            let options = format!("{measure} {count}");
            Workload::alone(name, &scale, options, figure, Some(provider))
        };
        rows.map(row).collect::<Vec<_>>()
    };
    let mut rows = of("shm", few, 20);
    rows.extend(match short {
        true => of("tcp", few, 20),
        false => of("tcp", many, 1_000),
    });
    rows
}

fn ping_pong(
    name: &'static str,
    mode: &str,
    bytes: u64,
    iterations: u32,
    figure: Figure,
) -> Workload {
    Workload {
        name,
        figure,
        program: Source::PingPong,
        options: format!("-e rdm -m {mode} -I {iterations} -S {bytes}"),
        bytes,
        provider: None,
        ucx: None,
        limits: Vec::new(),
    }
}

impl Workload {
    /// A work of a program that starts all processes that it needs, and prints the figure as its last word.
    pub(crate) fn alone(
        name: &'static str,
        program: &Rc<Compiled>,
        options: String,
        figure: Figure,
        provider: Option<&'static str>,
    ) -> Self {
        Self {
            name,
            figure,
            program: Source::Own(Rc::clone(program)),
            options,
            bytes: 0,
            provider,
            ucx: None,
            limits: Vec::new(),
        }
    }

    /// Tells whether it can be measured over a provider.
    pub(crate) fn is_for(&self, provider: &str) -> bool {
        match self.provider {
            Some(only) => only == provider,
            None => provider != DATAGRAMS,
        }
    }

    /// Runs the program once, one process on each core, and returns the figure that its client printed.
    pub(crate) fn measure(
        &self,
        library: &Library,
        provider: &str,
        cores: &Cores,
    ) -> Result<f64, Box<dyn Error>> {
        let mut pair = match &self.program {
            Source::PingPong => self.ping_pong(library, provider),
            Source::Fabtests(file) => Ok(fabtests::pair(file, &self.options, library, provider)),
            Source::Own(compiled) => return self.run_alone(compiled, library, provider),
            Source::Mpi(benchmark) => {
                return mpi::measure(self, benchmark, library, provider, cores);
            }
            Source::Speed(speed) => {
                let row = speed.run(&self.options, library, provider, cores, None)?;
                let figure = self.figure.of(&row);
                return figure.ok_or_else(|| "the program has no such figure".into());
            }
        }
        .map_err(|missing| missing.0)?;
        (pair.server, pair.client) = (cores.place(pair.server, 0), cores.place(pair.client, 1));
        let both = pair.run();
        let client = both
            .client
            .as_ref()
            .filter(|_| both.is_success())
            .ok_or_else(|| both.to_string())?;
        let printed = rows(&client.stdout);
        let row = printed.iter().find(|row| row.bytes == self.bytes);
        let row = row.ok_or_else(|| format!("no row of {} bytes\n{client}", self.bytes))?;
        let figure = self.figure.of(row);
        figure.ok_or_else(|| "the table has no such column".into())
    }

    /// The same work done by UCX, if it has it and is installed.
    pub(crate) fn measure_ucx(
        &self,
        provider: &str,
        cores: &Cores,
    ) -> Result<Option<f64>, Box<dyn Error>> {
        match &self.ucx {
            Some(test) => test.measure(provider, self.figure, cores),
            None => Ok(None),
        }
    }

    /// What the machine can do, if it is known.
    pub(crate) fn measure_limit(
        &self,
        provider: &str,
        cores: &Cores,
    ) -> Result<Option<f64>, Box<dyn Error>> {
        let mut limits = self.limits.iter();
        match limits.find(|(of, _)| *of == provider) {
            Some((_, limit)) => limit.measure(self.figure, cores),
            None => Ok(None),
        }
    }

    fn run_alone(
        &self,
        compiled: &Compiled,
        library: &Library,
        provider: &str,
    ) -> Result<f64, Box<dyn Error>> {
        let program = Program::new(compiled.file()).library(library);
        let program = program.args([provider]).line(&self.options);
        let outcome = program.limit(Duration::from_secs(300)).run();
        // The last word that it prints is the figure.
        let figure = outcome.stdout.split_whitespace().last();
        let figure = figure.and_then(|word| word.parse().ok());
        let figure = figure.filter(|_| outcome.is_success());
        figure.ok_or_else(|| outcome.to_string().into())
    }

    fn ping_pong(&self, library: &Library, provider: &str) -> Result<Pair, Missing> {
        PingPong::new(library, provider, &self.options).pair()
    }
}
