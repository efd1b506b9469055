//! Counts what passed, failed and was skipped, in the output of test programs and in steps of their own.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::AddAssign;

use crate::missing;
use crate::slowest::Timed;

/// How many tests ended how, and what those that failed had to say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
    /// The end of the output of each failure, to be repeated where a reader of a long log looks first.
    failures: Vec<String>,
    /// Reasons of tests that did not run and that a complete run does not do without, with the number of these tests.
    missing: BTreeMap<String, u64>,
    /// What took how long.
    timed: Vec<Timed>,
}

/// So many lines of what failed are repeated at the end.
const REPEATED: usize = 60;

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

    /// What was missing though the machine is supposed to have it, one line for each reason.
    pub(crate) fn missing(&self) -> impl Iterator<Item = String> {
        let reasons = self.missing.iter();
        reasons.map(|(reason, tests)| format!("{reason} ({tests} tests did not run)"))
    }

    /// What failed and why, if anything did.
    pub(crate) fn failures(&self) -> &[String] {
        &self.failures
    }

    /// Takes the times of the tests in.
    pub(crate) fn with_times(mut self, timed: Vec<Timed>) -> Self {
        self.timed.extend(timed);
        self
    }

    /// Returns the times of tests, in the order in which they ended.
    pub(crate) fn timed(&self) -> &[Timed] {
        &self.timed
    }

    /// Reads one line of the output of `cargo test -- --show-output`.
    ///
    /// A test that cannot run here passes for libtest, and says so in a line that starts with `SKIP:`; other harnesses ignore it.
    pub(crate) fn read(&mut self, line: &str) {
        if let Some(reason) = missing::reason(line) {
            self.note_reason(reason);
        }
        if line.starts_with("SKIP:") {
            self.skipped += 1;
            self.passed = self.passed.saturating_sub(1);
        } else if let Some(counts) = line.strip_prefix("test result: ") {
            self.passed += number_before(counts, " passed");
            self.failed += number_before(counts, " failed");
            self.skipped += number_before(counts, " ignored");
        }
    }

    /// Counts what a run of `cargo test` printed. A program that ended badly without naming a failed test, for
    /// example because it did not compile, is one failure.
    pub(crate) fn of_tests(name: &str, lines: &[String], success: bool) -> Self {
        let mut tally = Self {
            failures: told_failures(lines),
            ..Self::default()
        };
        // The result of a test program comes after the lines of its tests.
        let (skips, others): (Vec<_>, Vec<_>) =
            lines.iter().partition(|line| line.starts_with("SKIP:"));
        others
            .into_iter()
            .chain(skips)
            .for_each(|line| tally.read(line));
        if !success && tally.failed == 0 {
            tally += Self::failure(name, &["ended badly before any test failed".to_owned()]);
        }
        tally
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
        self.timed.extend(other.timed);
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            passed,
            failed,
            skipped,
            ..
        } = self;
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

/// The part of the output of each test program that tells of its failed tests.
fn told_failures(lines: &[String]) -> Vec<String> {
    let mut told = Vec::new();
    let mut rest = lines;
    while let Some(start) = rest.iter().position(|line| line == "failures:") {
        rest = &rest[start..];
        let end = rest
            .iter()
            .position(|line| line.starts_with("test result:"))
            .unwrap_or(rest.len());
        told.push(rest[..end].join("\n"));
        rest = &rest[end..];
    }
    told
}

/// The number right before `word`, or 0.
fn number_before(text: &str, word: &str) -> u64 {
    let before = text.split_once(word).map_or("", |(before, _)| before);
    let digits = before.rsplit(|c: char| !c.is_ascii_digit()).next();
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn results_of_all_programs_are_summed() {
        let output = lines(
            "test a ... ok\n\
             test result: ok. 11 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 5.18s\n\
             test result: FAILED. 39 passed; 11 failed; 0 ignored; 0 measured; 26 filtered out; finished in 1s",
        );
        let tally = Tally::of_tests("tests", &output, false);
        assert_eq!(tally.to_string(), "50 passed, 11 failed, 1 skipped");
    }

    #[test]
    fn a_skipped_test_does_not_count_as_passed() {
        let output = lines(
            "SKIP: fi_info is not installed\n\
             test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0s",
        );
        assert_eq!(
            Tally::of_tests("tests", &output, true).to_string(),
            "1 passed, 0 failed, 1 skipped"
        );
    }

    #[test]
    fn what_the_machine_should_have_is_named_once_with_all_that_miss_it() {
        let output = lines(
            "test a ... ignored (only root may make a network)\n\
             test b ... ignored (no intel-mpi wheel in /tmp)\n\
             test result: ok. 0 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0s\n\
             SKIP: only root may make a network\n\
             test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0s",
        );
        let mut tally = Tally::of_tests("tests", &output, true);
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
        let tally = Tally::of_tests("tests of the crates", &[], false);
        assert_eq!(tally.to_string(), "0 passed, 1 failed, 0 skipped");
        assert!(tally.failures()[0].starts_with("tests of the crates\n"));
    }

    #[test]
    fn what_failed_tests_printed_is_repeated_once() {
        let output = lines(
            "test a ... FAILED\n\nfailures:\n\n---- a stdout ----\nleft: 1\n\nfailures:\n    a\n\n\
             test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1s\n\
             test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1s",
        );
        let tally = Tally::of_tests("tests", &output, false);
        let [told] = tally.failures() else {
            panic!("{tally:?}");
        };
        assert!(told.contains("left: 1") && !told.contains("test result"));
    }

    #[test]
    fn a_failed_step_is_told_with_the_end_of_its_output() {
        let output: Vec<String> = (0..100).map(|line| line.to_string()).collect();
        let tally = Tally::failure("lints", &output);
        let [told] = tally.failures() else {
            panic!("{tally:?}");
        };
        assert!(told.starts_with("lints\n40\n") && told.ends_with("\n99"));
    }
}
