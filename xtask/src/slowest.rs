//! Which tests take longest, read from the output of `cargo test` as it comes.
//!
//! The harness reports the time of a test program, not that of a test. Where a program runs one test after the other, a test took
//! the time between two lines.

use std::time::{Duration, Instant};

/// How many tests are named at the end of a run.
const SHOWN: usize = 10;

/// A test, or a program of tests, and the time that it took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Timed {
    pub(crate) name: String,
    pub(crate) time: Duration,
}

/// Reads the lines of one run.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    /// The program runs one test at a time.
    one_at_a_time: bool,
    program: String,
    last: Instant,
    timed: Vec<Timed>,
}

impl Stopwatch {
    pub(crate) fn new(one_at_a_time: bool, now: Instant) -> Self {
        Self {
            one_at_a_time,
            program: String::new(),
            last: now,
            timed: Vec::new(),
        }
    }

    /// Takes a line that was printed at `now`.
    pub(crate) fn read(&mut self, line: &str, now: Instant) {
        if let Some(program) = program_of(line) {
            program.clone_into(&mut self.program);
            self.last = now;
        } else if let Some(test) = test_of(line).filter(|_| self.one_at_a_time) {
            self.add(test, now.duration_since(self.last));
            self.last = now;
        } else if let Some(time) = total_of(line).filter(|_| !self.one_at_a_time) {
            self.add("all", time);
        }
    }

    fn add(&mut self, what: &str, time: Duration) {
        let name = format!("{}: {what}", self.program);
        self.timed.push(Timed { name, time });
    }

    pub(crate) fn timed(self) -> Vec<Timed> {
        self.timed
    }
}

/// Returns the slowest, the slowest first, as lines to print.
pub(crate) fn slowest(mut all: Vec<Timed>) -> Vec<String> {
    all.sort_by_key(|timed| std::cmp::Reverse(timed.time));
    let shown = all.iter().take(SHOWN);
    shown
        .map(|Timed { name, time }| format!("{:8.1} s  {name}", time.as_secs_f64()))
        .collect()
}

/// Returns the program that a line of cargo announces: `Running tests/abi/main.rs (target/debug/deps/abi-160c)`.
fn program_of(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let (_, file) = line
        .strip_prefix("Running ")
        .and_then(|rest| rest.rsplit_once('/'))
        .or_else(|| line.split_once("Doc-tests "))?;
    Some(file.trim_end_matches(')').split('-').next().unwrap_or(file))
}

/// Returns the test that a line reports as ended.
fn test_of(line: &str) -> Option<&str> {
    let (name, end) = line.strip_prefix("test ")?.split_once(" ... ")?;
    (end == "ok" || end == "FAILED").then_some(name.trim_end())
}

/// Returns the time that a program reports for all of its tests.
fn total_of(line: &str) -> Option<Duration> {
    let (_, time) = line
        .strip_prefix("test result: ")?
        .split_once("finished in ")?;
    let seconds: f64 = time.strip_suffix('s')?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESULT: &str = "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 5.18s";

    /// Reads lines that come a second after each other.
    fn timed(one_at_a_time: bool, lines: &[&str]) -> Vec<Timed> {
        let begin = Instant::now();
        let mut watch = Stopwatch::new(one_at_a_time, begin);
        for (seconds, line) in (1..).zip(lines) {
            watch.read(line, begin + Duration::from_secs(seconds));
        }
        watch.timed()
    }

    #[test]
    fn a_program_reports_its_time() {
        let lines = [
            "     Running tests/abi/main.rs (target/debug/deps/abi-520acb5dfe3fc791)",
            "test a ... ok",
            RESULT,
        ];
        let expected = Timed {
            name: "abi: all".into(),
            time: Duration::from_millis(5180),
        };
        assert_eq!(timed(false, &lines), [expected]);
    }

    #[test]
    fn one_after_the_other_each_test_has_its_time() {
        let lines = [
            "     Running tests/mpi.rs (target/debug/deps/mpi-1)",
            "test a ... ok",
            "SKIP: something",
            "test b ... FAILED",
            RESULT,
        ];
        let found = timed(true, &lines);
        let found: Vec<_> = found
            .iter()
            .map(|timed| (timed.name.as_str(), timed.time.as_secs()))
            .collect();
        assert_eq!(found, [("mpi: a", 1), ("mpi: b", 2)]);
    }

    #[test]
    fn the_slowest_come_first_and_are_few() {
        let all = (0..20).map(|seconds| Timed {
            name: format!("t{seconds}"),
            time: Duration::from_secs(seconds),
        });
        let lines = slowest(all.collect());
        assert_eq!(lines.len(), SHOWN);
        assert_eq!(lines[0], "    19.0 s  t19");
    }
}
