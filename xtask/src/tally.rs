//! Counts what passed, failed and was skipped, in the output of test programs and in steps of their own.

use std::fmt;
use std::ops::AddAssign;

/// How many tests ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl Tally {
    /// One step that is itself a check.
    pub(crate) fn step(passed: bool) -> Self {
        Self {
            passed: u64::from(passed),
            failed: u64::from(!passed),
            skipped: 0,
        }
    }

    /// Reads one line of the output of `cargo test -- --show-output`.
    ///
    /// A test that cannot run here passes for the harness, and says so in a line that starts with `SKIP:`.
    pub(crate) fn read(&mut self, line: &str) {
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
    pub(crate) fn of_tests(lines: &[String], success: bool) -> Self {
        let mut tally = Self::default();
        // The result of a test program comes after the lines of its tests.
        let (skips, others): (Vec<_>, Vec<_>) =
            lines.iter().partition(|line| line.starts_with("SKIP:"));
        others
            .into_iter()
            .chain(skips)
            .for_each(|line| tally.read(line));
        if !success && tally.failed == 0 {
            tally.failed = 1;
        }
        tally
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            passed,
            failed,
            skipped,
        } = self;
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
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
        let tally = Tally::of_tests(&output, false);
        assert_eq!(tally.to_string(), "50 passed, 11 failed, 1 skipped");
    }

    #[test]
    fn a_skipped_test_does_not_count_as_passed() {
        let output = lines(
            "SKIP: fi_info is not installed\n\
             test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0s",
        );
        assert_eq!(
            Tally::of_tests(&output, true).to_string(),
            "1 passed, 0 failed, 1 skipped"
        );
    }

    #[test]
    fn what_does_not_compile_is_a_failure() {
        assert_eq!(Tally::of_tests(&[], false), Tally::step(false));
    }
}
