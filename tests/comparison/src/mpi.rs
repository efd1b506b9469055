//! The Intel MPI Benchmarks (IMB-MPI1) on Intel MPI, where its wheel is installed: an unmodified MPI, which loads whatever libfabric it
//! is told to.

use std::error::Error;

use oxifabric_trials::Library;
use oxifabric_trials::mpi::Mpi;
use oxifabric_trials::process::Outcome;
use oxifabric_trials::wheel::INTEL_MPI;

use crate::cores::Cores;
use crate::workload::{Figure, Source, Workload};

/// Name, the benchmark's own name, the logarithm of the bytes, how often.
#[rustfmt::skip]
const BENCHMARKS: [(&str, &str, u32, u32); 8] = [
    ("IMB PingPong, 8 B", "PingPong", 3, 100_000),
    ("IMB PingPong, 16 KiB", "PingPong", 14, 50_000),
    ("IMB PingPong, 256 KiB", "PingPong", 18, 10_000),
    ("IMB Sendrecv, 8 B", "Sendrecv", 3, 100_000),
    ("IMB Sendrecv, 16 KiB", "Sendrecv", 14, 50_000),
    ("IMB Allreduce, 8 B", "Allreduce", 3, 100_000),
    ("IMB Allreduce, 16 KiB", "Allreduce", 14, 30_000),
    ("IMB Allreduce, 256 KiB", "Allreduce", 18, 5_000),
];

/// All of them, if the wheel is there.
pub(crate) fn workloads(short: bool) -> Vec<Workload> {
    if INTEL_MPI.environment().is_err() {
        return Vec::new();
    }
    let workload = |(name, benchmark, log, count)| {
        let count = if short { count / 1000 } else { count };
        Workload {
            name,
            figure: Figure::LatencyUs,
            program: Source::Mpi(benchmark),
            options: format!("-npmin 2 -iter_policy off -iter {count} -msglog {log}:{log}"),
            bytes: 1u64 << log,
            provider: None,
            ucx: None,
            limits: Vec::new(),
        }
    };
    BENCHMARKS.into_iter().map(workload).collect()
}

/// Runs a benchmark with a rank on each core; returns the time that it gives for `bytes`, in microseconds.
pub(crate) fn measure(
    workload: &Workload,
    benchmark: &str,
    library: &Library,
    provider: &str,
    cores: &Cores,
) -> Result<f64, Box<dyn Error>> {
    let outcome = run(benchmark, &workload.options, library, provider, cores)?;
    let time = time_of(&outcome.stdout, workload.bytes).filter(|_| outcome.is_success());
    time.ok_or_else(|| outcome.to_string().into())
}

/// Runs a benchmark over all powers of two from 8 B to 16 KiB, and from there to 1 MiB, so many times each; returns bytes and microseconds.
pub(crate) fn sweep(
    benchmark: &str,
    counts: [u32; 2],
    library: &Library,
    provider: &str,
    cores: &Cores,
) -> Result<Vec<(u64, f64)>, Box<dyn Error>> {
    let mut all = Vec::new();
    for (count, sizes) in counts.into_iter().zip(["3:14", "15:20"]) {
        let options = format!("-npmin 2 -iter_policy off -iter {count} -msglog {sizes}");
        let outcome = run(benchmark, &options, library, provider, cores)?;
        let times = times(&outcome.stdout).filter(|(bytes, _)| *bytes > 0);
        let before = all.len();
        all.extend(times);
        if !outcome.is_success() || all.len() == before {
            return Err(outcome.to_string().into());
        }
    }
    Ok(all)
}

fn run(
    benchmark: &str,
    options: &str,
    library: &Library,
    provider: &str,
    cores: &Cores,
) -> Result<Outcome, String> {
    let wheel = INTEL_MPI.environment().map_err(|missing| missing.0)?;
    let launch = Mpi::Intel.launch(library, provider, 2, &wheel.join("bin/IMB-MPI1"));
    let launch = launch.map_err(|missing| missing.0)?;
    let launch = launch.args([benchmark]).line(options);
    let launch = match cores.pair() {
        Some([one, other]) => launch.env("I_MPI_PIN_PROCESSOR_LIST", format!("{one},{other}")),
        None => launch,
    };
    Ok(launch.run())
}

fn time_of(stdout: &str, bytes: u64) -> Option<f64> {
    let mut rows = times(stdout).filter(|(size, _)| *size == bytes);
    rows.next().map(|(_, time)| time)
}

/// The bytes and the time of each row: the only time, or the mean of both ranks behind the least and the greatest.
fn times(stdout: &str) -> impl Iterator<Item = (u64, f64)> {
    stdout.lines().filter_map(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        let column = if words.len() > 4 { 4 } else { 2 };
        Some((
            words.first()?.parse().ok()?,
            words.get(column)?.parse().ok()?,
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_from_both_forms_of_tables() {
        let one = "#bytes #repetitions t[usec] Mbytes/sec\n 0 1000 0.21 0.00\n 8 1000 0.28 28.5\n";
        let three =
            "#bytes #repetitions t_min t_max t_avg\n 0 9 0.1 0.1 0.1\n 8 9 0.30 0.50 0.40\n";
        assert_eq!(time_of(one, 8), Some(0.28));
        assert_eq!(time_of(three, 8), Some(0.40));
        assert_eq!(time_of(three, 16), None);
        assert_eq!(times(three).collect::<Vec<_>>(), [(0, 0.1), (8, 0.4)]);
    }
}
