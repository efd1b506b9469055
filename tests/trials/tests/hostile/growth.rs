//! Whether a process under attack grows for as long as the attack lasts: samples of its memory and descriptors between rounds of its
//! honest peers, of which the last third is compared with the middle one.

use std::fs;
use std::time::{Duration, Instant};

/// Samples in a run: twenty in each third, so that a median does not depend on what one attacker holds at one moment.
const SAMPLES: u32 = 60;
/// How much more than in the middle third the process may hold in the last one. What attackers have in flight goes up and down by less;
/// a leak of 4 bytes for each stream and packet of ten minutes would be more.
const MARGIN: u64 = 2 << 20;

/// What a process holds.
#[derive(Clone, Copy)]
pub(crate) struct Held {
    pub(crate) descriptors: usize,
    /// Bytes that no other process has mapped and that this one has written, or a peer over shm that is gone.
    pub(crate) private: u64,
    /// Bytes of any kind that are in memory.
    pub(crate) resident: u64,
}

impl Held {
    /// Reads what the process holds now.
    pub(crate) fn by(process: u32) -> Self {
        let text = fs::read_to_string(format!("/proc/{process}/smaps_rollup"));
        let text = text.expect("the process runs");
        let field = |name| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
            kib.expect("the kernel states it") << 10
        };
        Self {
            descriptors: fs::read_dir(format!("/proc/{process}/fd")).map_or(0, Iterator::count),
            private: field("Private_Dirty:"),
            resident: field("Rss:"),
        }
    }
}

/// The samples of one run.
pub(crate) struct Growth {
    every: Duration,
    begun: Instant,
    taken: Vec<Held>,
}

impl Growth {
    /// Begins a run that lasts so long.
    pub(crate) fn over(lasts: Duration) -> Self {
        Self {
            every: lasts / SAMPLES,
            begun: Instant::now(),
            taken: Vec::new(),
        }
    }

    /// Takes a sample of the process if it is time for the next one.
    pub(crate) fn watch(&mut self, process: u32) {
        let elapsed = self.begun.elapsed();
        if elapsed >= self.every * self.taken.len() as u32 {
            let held = Held::by(process);
            println!(
                "after {:.1} s: {} KiB private, {} KiB resident, {} descriptors",
                elapsed.as_secs_f64(),
                held.private >> 10,
                held.resident >> 10,
                held.descriptors
            );
            self.taken.push(held);
        }
    }

    /// Requires that memory has stopped growing. In the first third of the run tables reach their bounds, and nothing is said of it.
    #[track_caller]
    pub(crate) fn expect_plateau(&self) {
        let third = self.taken.len() / 3;
        assert!(third > 0, "too few samples: {}", self.taken.len());
        let [first, middle, last] = [0, 1, 2].map(|at| {
            let part = &self.taken[at * third..(at + 1) * third];
            median(part.iter().map(|held| held.private).collect())
        });
        println!(
            "private memory, medians of thirds: {} {} {} KiB",
            first >> 10,
            middle >> 10,
            last >> 10
        );
        assert!(
            last <= middle + MARGIN,
            "{last} bytes in the last third, {middle} in the middle one"
        );
    }
}

fn median(mut numbers: Vec<u64>) -> u64 {
    numbers.sort_unstable();
    numbers[numbers.len() / 2]
}
