//! What is measured: the programs, their options, and which of their figures counts.

use std::env;
use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use oxifabric_trials::pingpong::{PingPong, Row, rows};
use oxifabric_trials::{Library, Missing, Pair, Program, port};

use super::cores::Cores;

/// A program with its options.
pub(super) struct Workload {
    /// The program and what it does, for the report.
    pub(super) name: &'static str,
    pub(super) figure: Figure,
    program: Source,
    options: String,
    bytes: u64,
}

/// Which column of the program's table counts.
#[derive(Clone, Copy)]
pub(super) enum Figure {
    LatencyUs,
    MbytesPerSecond,
}

impl Figure {
    pub(super) const fn unit(self) -> &'static str {
        match self {
            Self::LatencyUs => "us",
            Self::MbytesPerSecond => "MB/s",
        }
    }

    pub(super) const fn lower_is_better(self) -> bool {
        matches!(self, Self::LatencyUs)
    }

    const fn of(self, row: &Row) -> f64 {
        match self {
            Self::LatencyUs => row.latency_us,
            Self::MbytesPerSecond => row.mbytes_per_second,
        }
    }
}

/// Where the program comes from.
enum Source {
    /// Debian's `fi_pingpong`.
    PingPong,
    /// This file of fabtests.
    Fabtests(PathBuf),
}

/// All workloads for which this machine has the programs.
pub(super) fn all(short: bool) -> Vec<Workload> {
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
    if let Some(folder) = env::var_os("FABTESTS_BIN").map(PathBuf::from) {
        let fabtests = |name, file, what: &str, bytes, iterations, figure| Workload {
            name,
            figure,
            program: Source::Fabtests(folder.join(file)),
            options: format!("{what} -I {iterations} -S {bytes}"),
            bytes,
        };
        let (latency, bandwidth) = (Figure::LatencyUs, Figure::MbytesPerSecond);
        let write = "-e rdm -o write";
        all.extend([
            fabtests(
                "fi_rdm_tagged_pingpong, 8 B one way",
                "fi_rdm_tagged_pingpong",
                "",
                8,
                small,
                latency,
            ),
            fabtests(
                "fi_rdm_tagged_bw, 1 MiB",
                "fi_rdm_tagged_bw",
                "",
                1 << 20,
                large,
                bandwidth,
            ),
            fabtests(
                "fi_rma_bw writes, 8 B",
                "fi_rma_bw",
                write,
                8,
                10 * small,
                bandwidth,
            ),
            fabtests(
                "fi_rma_bw writes, 64 KiB",
                "fi_rma_bw",
                write,
                1 << 16,
                5 * large,
                bandwidth,
            ),
        ]);
    }
    all
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
    }
}

impl Workload {
    /// Runs the program once, one process on each core, and returns the figure that its client printed.
    pub(super) fn measure(
        &self,
        library: &Library,
        provider: &str,
        cores: &Cores,
    ) -> Result<f64, Box<dyn Error>> {
        let mut pair = match &self.program {
            Source::PingPong => self.ping_pong(library, provider),
            Source::Fabtests(file) => Ok(self.fabtests(file, library, provider)),
        }
        .map_err(|missing| missing.0)?;
        if let Some([one, other]) = cores.pair() {
            pair.server = pair.server.under("taskset", ["-c", &one.to_string()]);
            pair.client = pair.client.under("taskset", ["-c", &other.to_string()]);
        }
        let both = pair.run();
        let client = both
            .client
            .as_ref()
            .filter(|_| both.is_success())
            .ok_or_else(|| both.to_string())?;
        let printed = rows(&client.stdout);
        let row = printed.iter().find(|row| row.bytes == self.bytes);
        let row = row.ok_or_else(|| format!("no row of {} bytes\n{client}", self.bytes))?;
        Ok(self.figure.of(row))
    }

    fn ping_pong(&self, library: &Library, provider: &str) -> Result<Pair, Missing> {
        PingPong::new(library, provider, &self.options).pair()
    }

    fn fabtests(&self, file: &PathBuf, library: &Library, provider: &str) -> Pair {
        let service = port::free();
        let side = |options: String| {
            let program = Program::new(file).library(library).args(["-p", provider]);
            program
                .line(&self.options)
                .line(&options)
                .limit(Duration::from_secs(300))
        };
        Pair {
            server: side(format!("-s 127.0.0.1 -B {service}")),
            client: side(format!("-s 127.0.0.1 -P {service} 127.0.0.1")),
            is_ready: port::is_reachable,
        }
    }
}
