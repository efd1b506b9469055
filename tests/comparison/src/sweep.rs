//! `cargo xtask bench --sweep`: four works over all sizes, on both libraries in turns, and the sizes at which the reference is ahead.
//!
//! The programs are those of fabtests where they are; otherwise `speed` of the trials does the same four works. With `--mpi` they are
//! benchmarks of IMB-MPI1 on Intel MPI. All print a row for each size, so a round is a run of each library.

mod report;

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use oxifabric_bench::statistics::{median, range, ratios};
use oxifabric_bench::units::steps;
use oxifabric_trials::pingpong::{Row, rows};
use oxifabric_trials::{Library, library};

use crate::cores::Cores;
use crate::fabtests;
use crate::mpi;
use crate::speed::{self, Speed};
use crate::workload::RELIABLE_DATAGRAMS;
use report::Report;

/// The longest message.
const LONGEST: u64 = 8 << 20;

/// The longest of short messages, of medium ones and of all: a run of few short ones would be over before it is one.
const LONGEST_OF: [u64; 3] = [4 << 10, 256 << 10, LONGEST];

/// Up to this time in parts of that of the reference, a size is level with it: it moves by as much from one run to the next.
const LEVEL: f64 = 1.03;

/// Parts of the usual number of messages over reliable datagrams: one of 8 MiB takes the reference 24 ms one way there, 7 times as long as over tcp and
/// 18 times as long as over shm, so that the sweep over them alone would take an hour.
const RELIABLE_DATAGRAMS_SCALE: f64 = 0.1;

/// What is swept.
pub(crate) struct Sweep<'a> {
    /// Ours and the reference.
    pub(crate) libraries: [&'a Library; 2],
    pub(crate) versions: [String; 2],
    pub(crate) cores: &'a Cores,
    pub(crate) providers: &'a [String],
    pub(crate) rounds: u32,
    /// Parts of the usual number of messages.
    pub(crate) scale: f64,
    /// Whether the programs are those of MPI.
    pub(crate) mpi: bool,
}

/// A work over all sizes.
enum Work {
    Pair(&'static Pair),
    /// The Intel MPI Benchmark of this name.
    Imb(&'static str),
}

/// A work of two processes, as a program of fabtests and as one of `speed`.
struct Pair {
    program: &'static str,
    options: &'static str,
    /// How often the program does it at each size, of those that [`LONGEST_OF`] tells apart.
    counts: [u32; 3],
    own: &'static str,
    /// How often `speed` does it up to 8 KiB.
    own_count: u32,
    /// A message is answered before the next one; otherwise many are under way.
    in_turns: bool,
}

const PAIRS: [Pair; 4] = [
    Pair {
        program: "fi_rdm_tagged_pingpong",
        options: "",
        counts: [20_000, 5_000, 500],
        own: "latency",
        own_count: 20_000,
        in_turns: true,
    },
    Pair {
        program: "fi_rdm_tagged_bw",
        options: "-W 64",
        counts: [100_000, 5_000, 500],
        own: "rate",
        own_count: 100_000,
        in_turns: false,
    },
    Pair {
        program: "fi_rma_bw",
        options: "-e rdm -o write",
        counts: [100_000, 5_000, 500],
        own: "write",
        own_count: 50_000,
        in_turns: false,
    },
    Pair {
        program: "fi_rma_bw",
        options: "-e rdm -o read",
        counts: [100_000, 5_000, 500],
        own: "read",
        own_count: 50_000,
        in_turns: false,
    },
];

/// Benchmarks of IMB-MPI1.
const BENCHMARKS: [&str; 4] = ["PingPong", "Sendrecv", "Allreduce", "Alltoall"];

/// How often a benchmark does its work at each size up to 16 KiB, and at longer ones.
const REPETITIONS: [u32; 2] = [4_000, 600];

/// What both libraries need for a message of one size, in microseconds, in each round.
#[derive(Clone, Debug, Default, PartialEq)]
struct Times {
    ours: Vec<f64>,
    reference: Vec<f64>,
}

/// One work over one provider.
struct Swept<'a> {
    provider: &'a str,
    /// The program and what it does.
    name: String,
    in_turns: bool,
    /// In how many rounds each library did it.
    rounds: u32,
    times: BTreeMap<u64, Times>,
    /// Why it ended early.
    trouble: Option<String>,
}

impl Sweep<'_> {
    /// Measures everything, prints what the reference is ahead at and all tables, and writes `target/bench/sweep.json`, `sweep.html`
    /// and drawings.
    ///
    /// # Errors
    /// A program failed; the others are reported nevertheless.
    pub(crate) fn run(&self) -> Result<(), Box<dyn Error>> {
        let folder = fabtests::folder();
        let mut swept = Vec::new();
        for provider in self.providers {
            for work in self.works() {
                swept.push(self.sweep(&work, provider, folder.as_ref()));
            }
        }
        let report = Report::new(self, &swept);
        print!("\n{}", report.text());
        let place = library::prepared().join("bench");
        fs::create_dir_all(&place)?;
        for file in report.write(&place)? {
            println!("{}", file.display());
        }
        let troubles = swept.iter().filter_map(|one| one.trouble.as_deref());
        let troubles: Vec<&str> = troubles.collect();
        match troubles.is_empty() {
            true => Ok(()),
            false => Err(troubles.join("\n").into()),
        }
    }

    fn works(&self) -> Vec<Work> {
        match self.mpi {
            true => BENCHMARKS.into_iter().map(Work::Imb).collect(),
            false => PAIRS.iter().map(Work::Pair).collect(),
        }
    }

    /// Runs one work in turns. With more than 100 sizes in a sweep chance alone puts one or two beyond what the reference strays: a work
    /// that has such a size is run for as many rounds again, with all of its sizes, and all rounds count.
    fn sweep<'b>(&self, work: &Work, provider: &'b str, folder: Option<&PathBuf>) -> Swept<'b> {
        let mut swept = Swept {
            provider,
            name: work.name(folder.is_some()),
            in_turns: work.is_in_turns(),
            rounds: 0,
            times: BTreeMap::new(),
            trouble: None,
        };
        for _ in 0..2 {
            if let Err(trouble) = self.play_rounds(&mut swept, work, folder) {
                swept.trouble = Some(format!("{provider}, {}, {trouble}", swept.name));
            }
            if swept.trouble.is_some() || !swept.has_sizes_beyond_strays() {
                break;
            }
        }
        swept
    }

    /// Runs one work for as many rounds as are wanted, behind those that it has; the library that begins changes with every round.
    fn play_rounds(
        &self,
        swept: &mut Swept<'_>,
        work: &Work,
        folder: Option<&PathBuf>,
    ) -> Result<(), String> {
        for _ in 0..self.rounds {
            println!(
                "{}, {}: round {}",
                swept.provider,
                swept.name,
                swept.rounds + 1
            );
            let mut turns = [0, 1];
            turns.rotate_left(swept.rounds as usize % 2);
            for at in turns {
                let library = self.libraries[at];
                let rows = self.play(work, swept.provider, library, folder);
                let rows = rows.map_err(|error| format!("{}: {error}", library.name()))?;
                swept.take(at, &rows);
            }
            swept.rounds += 1;
        }
        Ok(())
    }

    /// Runs a work once over all sizes.
    fn play(
        &self,
        work: &Work,
        provider: &str,
        library: &Library,
        folder: Option<&PathBuf>,
    ) -> Result<Vec<Row>, Box<dyn Error>> {
        match (work, folder) {
            (Work::Imb(benchmark), _) => self.play_imb(benchmark, provider, library),
            (Work::Pair(pair), Some(folder)) => self.play_fabtests(pair, provider, library, folder),
            (Work::Pair(pair), None) => self.play_speed(pair, provider, library),
        }
    }

    fn play_speed(
        &self,
        pair: &Pair,
        provider: &str,
        library: &Library,
    ) -> Result<Vec<Row>, Box<dyn Error>> {
        let speed = Speed::new(pair.own).map_err(|missing| missing.0)?;
        let sizes = steps(LONGEST as usize)
            .iter()
            .map(usize::to_string)
            .collect::<Vec<_>>();
        let options = format!(
            "{} {}",
            sizes.join(","),
            scaled(pair.own_count, provider, self.scale)
        );
        let printed = speed.play(&options, library, provider, self.cores, None)?;
        Ok(speed::rows(&printed).collect())
    }

    fn play_fabtests(
        &self,
        pair: &Pair,
        provider: &str,
        library: &Library,
        folder: &Path,
    ) -> Result<Vec<Row>, Box<dyn Error>> {
        let mut all = Vec::new();
        let mut sizes = steps(LONGEST as usize).into_iter().peekable();
        for (longest, count) in LONGEST_OF.into_iter().zip(pair.counts) {
            let group = std::iter::from_fn(|| sizes.next_if(|&size| size as u64 <= longest));
            let group: Vec<String> = group.map(|size| size.to_string()).collect();
            let (sizes, count) = (group.join(","), scaled(count, provider, self.scale));
            let options = format!("{} -S l:{sizes} -I {count}", pair.options);
            let program = folder.join(pair.program);
            let mut both = fabtests::pair(&program, &options, library, provider);
            both.server = self.cores.place(both.server, 0);
            both.client = self.cores.place(both.client, 1);
            let both = both.run();
            let client = both.client.as_ref().filter(|_| both.is_success());
            let client = rows(&client.ok_or_else(|| both.to_string())?.stdout);
            all.extend(until_both_are_done(client, &rows(&both.server.stdout)));
        }
        Ok(all)
    }

    fn play_imb(
        &self,
        benchmark: &str,
        provider: &str,
        library: &Library,
    ) -> Result<Vec<Row>, Box<dyn Error>> {
        let counts = REPETITIONS.map(|count| scaled(count, provider, self.scale));
        let times = mpi::sweep(benchmark, counts, library, provider, self.cores)?;
        let row = |(bytes, latency_us)| Row {
            bytes,
            latency_us,
            mbytes_per_second: 0.0,
        };
        Ok(times.into_iter().map(row).collect())
    }
}

impl Work {
    fn name(&self, with_fabtests: bool) -> String {
        let pair = match self {
            Self::Imb(benchmark) => return format!("IMB {benchmark}"),
            Self::Pair(pair) => pair,
        };
        match (with_fabtests, pair.own) {
            (true, "write" | "read") => format!("{} {}", pair.program, pair.own),
            (true, _) => pair.program.to_owned(),
            (false, own) => format!("speed {own}"),
        }
    }

    /// Whether each message waits for the one before it, so that its time says more than a rate.
    const fn is_in_turns(&self) -> bool {
        match self {
            Self::Imb(_) => true,
            Self::Pair(pair) => pair.in_turns,
        }
    }
}

impl Swept<'_> {
    /// Takes the rows of one run, of our library or of the reference.
    fn take(&mut self, library: usize, rows: &[Row]) {
        for row in rows.iter().filter(|row| (1..=LONGEST).contains(&row.bytes)) {
            let times = self.times.entry(row.bytes).or_default();
            let times = [&mut times.ours, &mut times.reference];
            let [ours, reference] = times;
            let figures = if library == 0 { ours } else { reference };
            figures.extend(time_us(row));
        }
    }

    /// Returns the sizes that both libraries have done.
    fn sizes(&self) -> impl Iterator<Item = (u64, &Times)> {
        let all = self.times.iter().map(|(bytes, times)| (*bytes, times));
        all.filter(|(_, times)| !times.ours.is_empty() && !times.reference.is_empty())
    }

    /// Whether the reference is ahead at a size, and by more than it strays from itself.
    fn has_sizes_beyond_strays(&self) -> bool {
        let beyond = |times: &Times| times.cost() > LEVEL && !times.is_within_strays();
        self.sizes().any(|(_, times)| beyond(times))
    }

    /// Returns what is shown of a time: itself in microseconds, or megabytes a second.
    fn figure(&self, bytes: u64, time_us: f64) -> f64 {
        match self.in_turns {
            true => time_us,
            false => bytes as f64 / time_us,
        }
    }

    const fn unit(&self) -> &'static str {
        if self.in_turns { "us" } else { "MB/s" }
    }

    /// Returns the ratio of the figures that are shown, ours to the reference.
    fn ratio(&self, times: &Times) -> f64 {
        match self.in_turns {
            true => times.cost(),
            false => 1.0 / times.cost(),
        }
    }
}

impl Times {
    /// Returns our time in parts of that of the reference: above 1 the reference is ahead. It is the median of the ratios of single rounds, because a
    /// machine may become several times slower from one round to the next, for both.
    fn cost(&self) -> f64 {
        median(&ratios(&self.ours, &self.reference))
    }

    /// Returns the least and the greatest time of the reference in parts of its median: how far it strays from itself.
    fn strays(&self) -> (f64, f64) {
        let middle = median(&self.reference);
        let (least, most) = range(self.reference.iter().copied()).unwrap_or((middle, middle));
        (least / middle, most / middle)
    }

    /// Whether the reference was as slow in a round of its own as we are.
    fn is_within_strays(&self) -> bool {
        self.cost() <= self.strays().1
    }
}

/// Returns the scale over this provider, where that over the others is `scale`.
fn scale_over(provider: &str, scale: f64) -> f64 {
    match provider {
        RELIABLE_DATAGRAMS => scale * RELIABLE_DATAGRAMS_SCALE,
        _ => scale,
    }
}

/// Returns how often to do over this provider what is usually done `count` times.
fn scaled(count: u32, provider: &str, scale: f64) -> u32 {
    ((f64::from(count) * scale_over(provider, scale)) as u32).max(1)
}

/// Returns the rows of the side that took longer at each size.
///
/// Both sides of fi_rma_bw write at once, and the one that does not poll while it can post is served first: with C's library over shm one side takes
/// 0.09 us a write of 8 B and the other one 0.28 us, and which of them is the client changes from run to run.
fn until_both_are_done(client: Vec<Row>, server: &[Row]) -> impl Iterator<Item = Row> {
    let slower = |row: Row| {
        let others = server.iter().filter(|other| other.bytes == row.bytes);
        others.fold(row, |slower, other| {
            match time_us(other) > time_us(&slower) {
                true => *other,
                false => slower,
            }
        })
    };
    client.into_iter().map(slower)
}

/// Returns the time of a message. Programs print two digits behind the point of both figures of a row: the one with more digits
/// before it says more.
fn time_us(row: &Row) -> Option<f64> {
    let from_rate = row.bytes as f64 / row.mbytes_per_second;
    let time = match row.mbytes_per_second > row.latency_us {
        true => from_rate,
        false => row.latency_us,
    };
    (time.is_finite() && time > 0.0).then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(bytes: u64, latency_us: f64, mbytes_per_second: f64) -> Row {
        Row {
            bytes,
            latency_us,
            mbytes_per_second,
        }
    }

    pub(super) fn swept(name: &str, in_turns: bool, times: &[(u64, f64, f64)]) -> Swept<'static> {
        let mut swept = Swept {
            provider: "shm",
            name: name.to_owned(),
            in_turns,
            rounds: 1,
            times: BTreeMap::new(),
            trouble: None,
        };
        for &(bytes, ours, reference) in times {
            swept.take(0, &[row(bytes, ours, bytes as f64 / ours)]);
            swept.take(1, &[row(bytes, reference, bytes as f64 / reference)]);
        }
        swept
    }

    #[test]
    fn works_over_reliable_datagrams_are_done_a_tenth_as_often() {
        let often = |provider, scale| scaled(500, provider, scale);
        let providers = ["shm", "tcp", RELIABLE_DATAGRAMS];
        assert_eq!(
            providers.map(|provider| often(provider, 1.0)),
            [500, 500, 50]
        );
        assert_eq!(providers.map(|provider| often(provider, 0.01)), [5, 5, 1]);
    }

    #[test]
    fn the_figure_with_more_digits_counts() {
        assert_eq!(time_us(&row(8, 0.21, 40.0)), Some(0.2));
        assert_eq!(time_us(&row(1, 7.52, 0.13)), Some(7.52));
        for nothing in [row(8, 0.0, f64::INFINITY), row(8, 0.0, 0.0)] {
            assert_eq!(time_us(&nothing), None);
        }
    }

    #[test]
    fn the_side_that_takes_longer_counts() {
        let client = vec![row(8, 0.09, 88.9), row(16, 0.3, 53.3), row(24, 0.2, 120.0)];
        let server = [row(16, 0.1, 160.0), row(8, 0.28, 28.6)];
        let slower: Vec<Row> = until_both_are_done(client.clone(), &server).collect();
        assert_eq!(slower, [server[1], client[1], client[2]]);
    }

    #[test]
    fn ratios_are_of_times_in_turns_and_of_rates_otherwise() {
        let times = [(8, 1.0, 2.0), (16, 3.0, 2.0), (1 << 24, 1.0, 1.0)];
        let ratios = |in_turns| {
            let swept = swept("", in_turns, &times);
            let ratios = swept
                .sizes()
                .map(|(bytes, times)| (bytes, swept.ratio(times)));
            ratios.collect::<Vec<_>>()
        };
        assert_eq!(ratios(true), [(8, 0.5), (16, 1.5)]);
        assert_eq!(ratios(false), [(8, 2.0), (16, 2.0 / 3.0)]);
    }

    #[test]
    fn a_machine_that_becomes_slower_does_not_move_the_ratio() {
        let times = Times {
            ours: vec![1.0, 1.0, 4.0, 4.0, 4.0],
            reference: vec![2.0, 2.0, 2.0, 8.0, 8.0],
        };
        assert_eq!(times.cost(), 0.5);
    }

    #[test]
    fn the_reference_strays_from_its_median() {
        let mut times = Times {
            ours: vec![1.2, 1.1, 1.0],
            reference: vec![1.2, 0.9, 1.0],
        };
        assert_eq!(times.strays(), (0.9, 1.2));
        assert!(times.is_within_strays());
        times.ours = vec![1.5, 1.2, 1.3];
        assert!(!times.is_within_strays());
    }

    #[test]
    fn sizes_beyond_what_the_reference_strays_are_worth_more_rounds() {
        let has_beyond =
            |ours| swept("", true, &[(8, 1.0, 2.0), (16, ours, 2.0)]).has_sizes_beyond_strays();
        assert!(has_beyond(2.1));
        assert!(!has_beyond(2.04));
        let mut straying = swept("", true, &[(8, 2.1, 2.0), (8, 2.1, 2.0), (8, 2.3, 2.2)]);
        assert!(!straying.has_sizes_beyond_strays());
        straying.times.get_mut(&8).unwrap().reference = vec![2.0; 3];
        assert!(straying.has_sizes_beyond_strays());
    }
}
