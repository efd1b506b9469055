//! The trials' program `speed`, which runs on any libfabric: what messages and accesses cost, with the same work for UCX.

use std::error::Error;
use std::rc::Rc;
use std::time::Duration;

use oxifabric_trials::pingpong::Row;
use oxifabric_trials::source::{self, Compiled};
use oxifabric_trials::{Library, Missing, Pair, Program, Scratch};

use crate::cores::Cores;
use crate::limit::{Limit, Limits};
use crate::ucx::Test;
use crate::workload::{DATAGRAMS, Figure, Source, Workload};

/// The program, and what it is to do.
pub(crate) struct Speed {
    program: Rc<Compiled>,
    work: &'static str,
}

/// Name, what the program calls it, bytes, how many up to 8 KiB, what counts, what UCX calls it.
type Work = (
    &'static str,
    &'static str,
    u64,
    u64,
    Figure,
    Option<&'static str>,
);

const LATENCY: Figure = Figure::LatencyUs;
const RATE: Figure = Figure::MillionsPerSecond;
const BANDWIDTH: Figure = Figure::MbytesPerSecond;

/// Messages of one turn of the limit of that name.
const WINDOW: u64 = 64;

/// The program promises nothing about its threads; otherwise it says that there is one, as MPI libraries do.
const SAFE: &str = ", FI_THREAD_SAFE";

#[rustfmt::skip]
const WORKS: [Work; 18] = [
    ("tagged, 8 B one way", "latency", 8, 200_000, LATENCY, Some("tag_lat")),
    ("tagged, 8 B one way, FI_THREAD_SAFE", "latency", 8, 200_000, LATENCY, None),
    ("tagged, 4 KiB one way", "latency", 4096, 100_000, LATENCY, Some("tag_lat")),
    ("tagged, windows of 8 B", "rate", 8, 2_000_000, RATE, Some("tag_bw")),
    ("tagged, windows of 8 B, FI_THREAD_SAFE", "rate", 8, 2_000_000, RATE, None),
    ("tagged, windows of 64 B", "rate", 64, 2_000_000, RATE, Some("tag_bw")),
    ("tagged, windows of 512 B", "rate", 512, 1_000_000, RATE, Some("tag_bw")),
    ("tagged, windows of 64 KiB", "rate", 1 << 16, 400_000, BANDWIDTH, Some("tag_bw")),
    ("tagged, windows of 256 KiB", "rate", 1 << 18, 400_000, BANDWIDTH, Some("tag_bw")),
    ("tagged, windows of 1 MiB", "rate", 1 << 20, 400_000, BANDWIDTH, Some("tag_bw")),
    ("tagged, windows of 8 MiB", "rate", 1 << 23, 400_000, BANDWIDTH, Some("tag_bw")),
    ("writes, 8 B", "write", 8, 1_000_000, RATE, Some("ucp_put_bw")),
    ("writes, 64 KiB", "write", 1 << 16, 400_000, BANDWIDTH, Some("ucp_put_bw")),
    ("writes, 1 MiB", "write", 1 << 20, 400_000, BANDWIDTH, Some("ucp_put_bw")),
    ("reads, 8 B", "read", 8, 500_000, RATE, None),
    ("reads, 64 KiB", "read", 1 << 16, 400_000, BANDWIDTH, None),
    ("reads, 1 MiB", "read", 1 << 20, 400_000, BANDWIDTH, None),
    ("fetched sums", "atomic", 8, 500_000, RATE, None),
];

/// All of it, if there are a compiler and headers.
pub(crate) fn workloads(short: bool, cores: &Cores) -> Vec<Workload> {
    let Ok(program) = source::compile_client("speed").map(Rc::new) else {
        return Vec::new();
    };
    let limits = Limits::new(cores);
    let datagrams = datagrams(&program, short, limits.as_ref());
    let works = WORKS.iter().filter(|work| !short || work.2 <= 1 << 16);
    works
        .map(|&(name, work, bytes, count, figure, ucx)| {
            let count = if short { count / 100 } else { count };
            let program = Rc::clone(&program);
            let threads = if name.ends_with(SAFE) { " safe" } else { "" };
            Workload {
                name,
                figure,
                program: Source::Speed(Speed { program, work }),
                options: format!("{bytes} {count}{threads}"),
                bytes,
                provider: None,
                limits: limits
                    .iter()
                    .flat_map(|all| limits_of(all, work, bytes, count))
                    .collect(),
                ucx: ucx.map(|name| Test {
                    name,
                    bytes,
                    count: scaled(count, bytes),
                }),
            }
        })
        .chain([datagrams])
        .collect()
}

/// Datagrams to and fro, against those of sockets without a library.
fn datagrams(program: &Rc<Compiled>, short: bool, limits: Option<&Limits>) -> Workload {
    let (bytes, count) = (8, if short { 2_000 } else { 200_000 });
    let limit = limits.map(|all| (DATAGRAMS, all.of("datagram", bytes, count)));
    Workload {
        name: "datagrams, 8 B one way",
        figure: LATENCY,
        program: Source::Speed(Speed {
            program: Rc::clone(program),
            work: "latency",
        }),
        options: format!("{bytes} {count}"),
        bytes,
        provider: Some(DATAGRAMS),
        limits: limit.into_iter().collect(),
        ucx: None,
    }
}

/// What the machine can do at best in place of a work: two processes with nothing between them.
fn limits_of(limits: &Limits, work: &str, bytes: u64, count: u64) -> Vec<(&'static str, Limit)> {
    let count = scaled(count, bytes);
    let (shm, tcp) = match (work, bytes) {
        ("latency", ..=64) => (Some("line"), "ping"),
        ("latency", _) => (Some("copy"), "ping"),
        ("rate", ..=64) => (Some("lines"), "window"),
        ("rate", ..65_536) => (None, "window"),
        ("rate", 65_536..) => (Some("both"), "stream"),
        ("write" | "read", 65_536..) => (Some("both"), "stream"),
        _ => return Vec::new(),
    };
    let turns = match tcp {
        "window" => count / WINDOW,
        _ => count,
    };
    let mut all = vec![("tcp", limits.of(tcp, bytes, turns))];
    all.extend(shm.map(|shm| ("shm", limits.of(shm, bytes, count))));
    all
}

/// How many messages of so many bytes stand for `count` short ones, as the program has it.
pub(crate) fn scaled(count: u64, bytes: u64) -> u64 {
    (count * 8192 / bytes.max(8192)).max(128)
}

impl Speed {
    /// The program, compiled to do one of its works.
    pub(crate) fn new(work: &'static str) -> Result<Self, Missing> {
        let program = Rc::new(source::compile_client("speed")?);
        Ok(Self { program, work })
    }

    /// Plays and returns the row of the only size.
    pub(crate) fn run(
        &self,
        options: &str,
        library: &Library,
        provider: &str,
        cores: &Cores,
        faults: Option<&str>,
    ) -> Result<Row, Box<dyn Error>> {
        let printed = self.play(options, library, provider, cores, faults)?;
        let row = last_row(&printed);
        row.ok_or_else(|| format!("no figures\n{printed}").into())
    }

    /// Runs both processes, one on each core, under these faults (`FI_OXI_FAULTS`), and returns what the client printed.
    pub(crate) fn play(
        &self,
        options: &str,
        library: &Library,
        provider: &str,
        cores: &Cores,
        faults: Option<&str>,
    ) -> Result<String, Box<dyn Error>> {
        let folder = Scratch::new();
        let side = |name: &str, at: usize| {
            let side = Program::new(self.program.file())
                .library(library)
                .args([provider])
                .args([folder.path()])
                .args([name, self.work])
                .line(options)
                .limit(Duration::from_secs(300));
            let side = match faults {
                Some(faults) => side.env("FI_OXI_FAULTS", faults),
                None => side,
            };
            cores.place(side, at)
        };
        let both = Pair {
            server: side("server", 0),
            client: side("client", 1),
            is_ready: |_| true,
        }
        .run();
        let client = both.client.as_ref().filter(|_| both.is_success());
        let client = client.ok_or_else(|| both.to_string())?;
        Ok(client.stdout.clone())
    }
}

/// The last line as a row.
pub(crate) fn last_row(stdout: &str) -> Option<Row> {
    stdout.lines().next_back().and_then(row)
}

/// All rows.
pub(crate) fn rows(stdout: &str) -> impl Iterator<Item = Row> {
    stdout.lines().filter_map(row)
}

/// The quantiles: percent and microseconds.
pub(crate) fn quantiles(stdout: &str) -> impl Iterator<Item = (f64, f64)> {
    stdout.lines().filter_map(|line| {
        let (percent, time_us) = line.strip_prefix("quantile ")?.split_once(' ')?;
        Some((percent.parse().ok()?, time_us.parse().ok()?))
    })
}

/// A row: bytes, microseconds, megabytes a second.
fn row(line: &str) -> Option<Row> {
    let mut words = line.split_ascii_whitespace();
    let row = Row {
        bytes: words.next()?.parse().ok()?,
        latency_us: words.next()?.parse().ok()?,
        mbytes_per_second: words.next()?.parse().ok()?,
    };
    words.next().is_none().then_some(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_three_figures() {
        let read = row("65536 2.5000 26214.4").expect("a row");
        assert_eq!((read.bytes, read.latency_us), (65536, 2.5));
        assert!(row("quantile 50 0.213").is_none());
        assert!(row("8 1 2 3").is_none());
        let printed = "address 1 2\nquantile 99.9 0.705\n8 0.2 40.0\n";
        assert_eq!(quantiles(printed).collect::<Vec<_>>(), [(99.9, 0.705)]);
        assert_eq!(rows(printed).count(), 1);
    }
}
