//! Counts what passed, failed and did not run, in the output of test programs and in steps of their own, and which tests take
//! longest.
//!
//! libtest and libtest-mimic print the same lines. They report the time of a test program, not that of a test: where a program runs
//! one test after the other, a test took the time between two lines.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::AddAssign;
use std::time::{Duration, Instant};

use crate::missing;

/// How many tests ended how, and what those that failed had to say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    passed: u64,
    pub(crate) failed: u64,
    skipped: u64,
    /// The end of the output of each failure, to be repeated where a reader of a long log looks first.
    pub(crate) failures: Vec<String>,
    /// Reasons of tests that did not run and that a complete run does not do without, with the number of these tests.
    missing: BTreeMap<String, u64>,
    /// How long which test or program took.
    times: Vec<(Duration, String)>,
}

/// So many lines of what failed are repeated at the end, and so many tests are named as the slowest.
const REPEATED: usize = 60;
const SLOWEST: usize = 10;

impl Tally {
    /// One step that is itself a check, and passed.
    pub(crate) fn pass() -> Self {
        Self {
            passed: 1,
            ..Self::default()
        }
    }

    /// One step that cannot run here, for this reason.
    pub(crate) fn skip(why: &str) -> Self {
        let mut tally = Self {
            skipped: 1,
            ..Self::default()
        };
        tally.note_reason(why);
        tally
    }

    /// One step that is itself a check, and failed with this output.
    pub(crate) fn failure(name: &str, output: &[String]) -> Self {
        let last = &output[output.len().saturating_sub(REPEATED)..];
        Self {
            failed: 1,
            failures: vec![format!("{name}\n{}", last.join("\n"))],
            ..Self::default()
        }
    }

    /// Takes down why a test did not run, unless a complete run may do without.
    fn note_reason(&mut self, reason: &str) {
        if missing::excuse(reason).is_none() {
            *self.missing.entry(reason.to_owned()).or_default() += 1;
        }
    }

    /// Returns what a complete run does not do without, as lines to print.
    pub(crate) fn missing(&self) -> impl Iterator<Item = String> {
        let missing = self.missing.iter();
        missing.map(|(reason, tests)| format!("{reason} ({tests} tests did not run)"))
    }

    /// Returns the slowest tests, the slowest first, as lines to print.
    pub(crate) fn slowest(&self) -> Vec<String> {
        let mut times: Vec<_> = self.times.iter().collect();
        times.sort_by_key(|(time, _)| std::cmp::Reverse(*time));
        let slowest = times.iter().take(SLOWEST);
        slowest
            .map(|(time, name)| format!("{:8.1} s  {name}", time.as_secs_f64()))
            .collect()
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.failures.extend(other.failures);
        for (reason, tests) in other.missing {
            *self.missing.entry(reason).or_default() += tests;
        }
        self.times.extend(other.times);
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (passed, failed, skipped) = (self.passed, self.failed, self.skipped);
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

/// What a line of output belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Section {
    Results,
    /// What passing tests printed.
    Successes,
    Failures,
}

/// Reads the lines of one run of `cargo test -- --show-output`.
#[derive(Debug)]
pub(crate) struct Reader {
    tally: Tally,
    lines: Vec<String>,
    section: Section,
    /// Tests that passed for libtest and said that they cannot run here.
    skipped: u64,
    /// Each program runs one test at a time.
    one_at_a_time: bool,
    program: String,
    last: Instant,
}

impl Reader {
    pub(crate) fn new(one_at_a_time: bool, now: Instant) -> Self {
        Self {
            tally: Tally::default(),
            lines: Vec::new(),
            section: Section::Results,
            skipped: 0,
            one_at_a_time,
            program: String::new(),
            last: now,
        }
    }

    /// Takes a line that was printed at `now`. Returns whether a reader of the log wants to see it: what passing tests printed is
    /// left out, except why one did not run.
    pub(crate) fn read(&mut self, line: &str, now: Instant) -> bool {
        match line {
            "successes:" => self.section = Section::Successes,
            "failures:" if self.section != Section::Failures => {
                self.section = Section::Failures;
                self.tally.failures.push(String::new());
            }
            _ if line.starts_with("test result: ") => self.section = Section::Results,
            _ => {}
        }
        if let (Section::Failures, Some(last)) = (self.section, self.tally.failures.last_mut()) {
            *last += line;
            last.push('\n');
        }
        self.count(line);
        self.time(line, now);
        self.lines.push(line.to_owned());
        self.section != Section::Successes || line.starts_with("SKIP:")
    }

    fn count(&mut self, line: &str) {
        if let Some(reason) = missing::reason(line) {
            self.tally.note_reason(reason);
        }
        self.skipped += u64::from(line.starts_with("SKIP:"));
        if let Some(counts) = line.strip_prefix("test result: ") {
            self.tally.passed += number_before(counts, " passed");
            self.tally.failed += number_before(counts, " failed");
            self.tally.skipped += number_before(counts, " ignored");
        }
    }

    fn time(&mut self, line: &str, now: Instant) {
        let (took, what) = if let Some(program) = program_of(line) {
            program.clone_into(&mut self.program);
            self.last = now;
            return;
        } else if let Some(test) = test_of(line).filter(|_| self.one_at_a_time) {
            let took = now.duration_since(self.last);
            self.last = now;
            (took, test)
        } else if let Some(took) = total_of(line).filter(|_| !self.one_at_a_time) {
            (took, "all")
        } else {
            return;
        };
        self.tally
            .times
            .push((took, format!("{}: {what}", self.program)));
    }

    /// Returns what the run of this name came to. A program that ended badly without naming a failed test, for example because it
    /// did not compile, is one failure.
    pub(crate) fn end(mut self, name: &str, success: bool) -> Tally {
        self.tally.passed = self.tally.passed.saturating_sub(self.skipped);
        self.tally.skipped += self.skipped;
        if !success && self.tally.failed == 0 {
            self.tally += Tally::failure(name, &self.lines);
        }
        self.tally
    }
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
    let rest = line.strip_prefix("test result: ")?;
    let (_, time) = rest.split_once("finished in ")?;
    Duration::try_from_secs_f64(time.strip_suffix('s')?.parse().ok()?).ok()
}

/// Returns the number right before `word`, or 0.
fn number_before(text: &str, word: &str) -> u64 {
    let before = text.split_once(word).map_or("", |(before, _)| before);
    let digits = before.rsplit(|c: char| !c.is_ascii_digit()).next();
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESULT: &str = "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 5.18s";

    /// Reads lines that come a second after each other.
    fn read(one_at_a_time: bool, text: &str, success: bool) -> Tally {
        let begin = Instant::now();
        let mut reader = Reader::new(one_at_a_time, begin);
        for (seconds, line) in (1..).zip(text.lines()) {
            reader.read(line, begin + Duration::from_secs(seconds));
        }
        reader.end("tests", success)
    }

    #[test]
    fn results_of_all_programs_are_summed() {
        let output = "test a ... ok\n\
             test result: ok. 11 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 5.18s\n\
             test result: FAILED. 39 passed; 11 failed; 0 ignored; 0 measured; 26 filtered out; finished in 1s";
        let tally = read(false, output, false);
        assert_eq!(tally.to_string(), "50 passed, 11 failed, 1 skipped");
    }

    #[test]
    fn a_skipped_test_does_not_count_as_passed() {
        let tally = read(
            false,
            &format!("SKIP: fi_info is not installed\n{RESULT}"),
            true,
        );
        assert_eq!(tally.to_string(), "1 passed, 0 failed, 1 skipped");
    }

    #[test]
    fn what_the_machine_should_have_is_named_once_with_all_that_miss_it() {
        let output = "test a ... ignored (only root may make a network)\n\
             test b ... ignored (no intel-mpi wheel in /tmp)\n\
             test result: ok. 0 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0s\n\
             SKIP: only root may make a network\n\
             test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0s";
        let mut tally = read(false, output, true);
        tally += Tally::skip("valgrind is not installed");
        assert_eq!(tally.to_string(), "0 passed, 0 failed, 4 skipped");
        let expected = [
            "only root may make a network (2 tests did not run)",
            "valgrind is not installed (1 tests did not run)",
        ];
        assert_eq!(tally.missing().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_does_not_compile_is_a_failure() {
        let tally = read(false, "error: no such thing", false);
        assert_eq!(tally.to_string(), "0 passed, 1 failed, 0 skipped");
        assert_eq!(tally.failures, ["tests\nerror: no such thing"]);
    }

    #[test]
    fn what_failed_tests_printed_is_repeated_once() {
        let output = "test a ... FAILED\n\nfailures:\n\n---- a stdout ----\nleft: 1\n\nfailures:\n    a\n\n\
             test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1s\n\
             test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1s";
        let tally = read(false, output, false);
        let [told] = tally.failures.as_slice() else {
            panic!("{tally:?}");
        };
        assert!(told.contains("left: 1") && !told.contains("test result"));
    }

    #[test]
    fn a_failed_step_is_told_with_the_end_of_its_output() {
        let output: Vec<String> = (0..100).map(|line| line.to_string()).collect();
        let tally = Tally::failure("lints", &output);
        let [told] = tally.failures.as_slice() else {
            panic!("{tally:?}");
        };
        assert!(told.starts_with("lints\n40\n") && told.ends_with("\n99"));
    }

    #[test]
    fn what_passing_tests_printed_is_not_shown_but_for_the_reason_why_one_did_not_run() {
        let mut reader = Reader::new(false, Instant::now());
        let lines = [
            ("test a ... ok", true),
            ("successes:", false),
            ("left: 1", false),
            ("SKIP: no root", true),
            (RESULT, true),
            ("failures:", true),
            ("left: 1", true),
        ];
        for (line, is_shown) in lines {
            assert_eq!(reader.read(line, Instant::now()), is_shown, "{line}");
        }
    }

    #[test]
    fn a_program_reports_its_time() {
        let program = "     Running tests/abi/main.rs (target/debug/deps/abi-520acb5dfe3fc791)";
        let tally = read(false, &format!("{program}\ntest a ... ok\n{RESULT}"), true);
        assert_eq!(tally.slowest(), ["     5.2 s  abi: all"]);
    }

    #[test]
    fn one_after_the_other_each_test_has_its_time() {
        let output = "     Running tests/mpi.rs (target/debug/deps/mpi-1)\n\
             test a ... ok\nSKIP: something\ntest b ... FAILED\n";
        let tally = read(true, &format!("{output}{RESULT}"), true);
        assert_eq!(
            tally.slowest(),
            ["     2.0 s  mpi: b", "     1.0 s  mpi: a"]
        );
    }

    #[test]
    fn the_slowest_come_first_and_are_few() {
        let times = (0..20).map(|seconds| (Duration::from_secs(seconds), format!("t{seconds}")));
        let tally = Tally {
            times: times.collect(),
            ..Tally::default()
        };
        assert_eq!(tally.slowest().len(), SLOWEST);
        assert_eq!(tally.slowest()[0], "    19.0 s  t19");
    }
}
