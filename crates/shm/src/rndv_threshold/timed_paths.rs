//! The two paths of long transfers, timed: through the ring, or by one process copying from or to the other's memory (docs/adr/0063, 0068).

use std::time::{Duration, Instant};

use super::Path;
use super::trials::{CLASSES, SHORTEST, Trials};

/// Longest transfer that may be sent through the ring.
const LONGEST: usize = first_beyond(CLASSES - 1) - 1;

/// How many bytes are timed together at least. It is the whole ring, also where a parameter makes that longer, so that it does not matter how much of it the
/// sender had filled before.
const SAMPLE: usize = 128 * 1024;

/// Which transfers of one kind and direction go through the ring, by their length.
#[derive(Debug)]
pub(crate) struct TimedPaths {
    /// Lengths between which the path may be chosen: shorter ones always go through the ring, longer ones never do. Times are not taken if they are the same.
    least: usize,
    most: usize,
    /// How many bytes are timed together.
    sample: usize,
    run: Run,
    trials: Trials,
}

/// Transfers of one class that went on one path, one after the other.
#[derive(Debug)]
struct Run {
    class: usize,
    path: Path,
    /// The length of the last one.
    len: u64,
    /// How many bytes are timed together: whole transfers of this length, so that what passes between two of them is in each sample.
    sample: usize,
    /// When the transfer before the first of them ended, once there was one.
    since: Option<Instant>,
    bytes: usize,
}

impl TimedPaths {
    /// Returns the state of a new connection over a byte ring of this size, which measures transfers longer than `least` and up to `most`.
    pub(crate) fn new(least: usize, most: usize, ring: usize) -> Self {
        Self {
            least,
            most: most.clamp(least, LONGEST.max(least)),
            sample: ring.max(SAMPLE),
            run: Run {
                class: 0,
                path: Path::Pull,
                len: 0,
                sample: 0,
                since: None,
                bytes: 0,
            },
            trials: Trials::default(),
        }
    }

    /// Returns the length up to which the path may be chosen; that of [`TimedPaths::least`] where times are not taken.
    pub(crate) const fn most(&self) -> usize {
        self.most
    }

    /// Takes note of the end of a transfer of this length, or of a part of it, that went on this path. Returns whether the limit may have changed.
    #[inline]
    pub(crate) fn note(&mut self, len: u64, part: usize, path: Path) -> bool {
        if self.least as u64 >= len || len > self.most as u64 {
            return false;
        }
        if len != self.run.len || path != self.run.path {
            let class = class_of(len);
            let is_over = class != self.run.class || path != self.run.path;
            self.run.len = len;
            self.run.sample = self.sample.next_multiple_of(len as usize);
            if is_over {
                return self.begin_run(class, path);
            }
        }
        let run = &mut self.run;
        run.bytes += part;
        let is_due = run.bytes >= run.sample || run.since.is_none();
        if is_due {
            self.take_time();
        }
        is_due
    }

    fn begin_run(&mut self, class: usize, path: Path) -> bool {
        let run = &mut self.run;
        (run.class, run.path) = (class, path);
        (run.since, run.bytes) = (None, 0);
        self.trials.interrupted()
    }

    #[cold]
    fn take_time(&mut self) {
        let now = Instant::now();
        let run = &mut self.run;
        if let Some(since) = run.since {
            let sample = picoseconds(run.bytes, now - since);
            self.trials.add(run.class, run.path, sample);
        }
        (run.since, run.bytes) = (Some(now), 0);
    }

    /// Returns the length up to which transfers are to go through the ring; zero if only those do that always do.
    pub(crate) fn limit(&self) -> usize {
        match self.trials.limit() {
            0 => 0,
            classes => (first_beyond(classes - 1) - 1).min(self.most),
        }
    }
}

/// Returns the time that each byte took, in picoseconds.
fn picoseconds(len: usize, took: Duration) -> u64 {
    let each = took.as_nanos().saturating_mul(1000) / len.max(1) as u128;
    u64::try_from(each).unwrap_or(u64::MAX)
}

/// Returns the index of the class of transfers of a length: there are two from each power of two to the next, with the same number of lengths.
fn class_of(len: u64) -> usize {
    let len = len.max(SHORTEST);
    let octave = (len / SHORTEST).ilog2();
    let is_upper = (len / (SHORTEST / 2)) >> octave & 1;
    (2 * octave as usize + is_upper as usize).min(CLASSES - 1)
}

/// Returns the shortest length that is beyond a class.
const fn first_beyond(class: usize) -> usize {
    (SHORTEST as usize / 2 * (3 + class % 2)) << (class / 2)
}

#[cfg(test)]
impl TimedPaths {
    /// Takes a sample that says that each byte took so many picoseconds.
    pub(crate) fn add(&mut self, len: usize, path: Path, picoseconds: u64) {
        self.trials.add(class_of(len as u64), path, picoseconds);
    }

    /// Takes samples of transfers of this length by which the ring is twice as fast.
    pub(crate) fn prefer_ring(&mut self, len: usize) {
        for _ in 0..20 {
            match len <= self.limit() {
                true => self.add(len, Path::Ring, 50),
                false => self.add(len, Path::Pull, 100),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: usize = 6144;
    const MOST: usize = 64 * 1024;

    #[test]
    fn times_are_taken_of_as_many_bytes_as_the_ring_has() {
        let mut paths = TimedPaths::new(LEAST, MOST, SAMPLE);
        paths.note(8192, 8192, Path::Pull);
        assert!(paths.run.since.is_none(), "a transfer of another class");
        paths.note(8192, 8192, Path::Pull);
        assert!(paths.run.since.is_some() && paths.run.bytes == 0);
        for _ in 0..15 {
            assert!(!paths.note(8192, 8192, Path::Pull));
        }
        assert_eq!(paths.run.bytes, SAMPLE - 8192);
        assert!(paths.note(8192, 8192, Path::Pull));
        assert_eq!(paths.run.bytes, 0);
        paths.note(8192, 8192, Path::Pull);
        paths.note(8192, 8192, Path::Ring);
        assert!(paths.run.since.is_none(), "the path has changed");
    }

    #[test]
    fn a_sample_is_no_shorter_than_a_longer_ring() {
        let mut paths = TimedPaths::new(LEAST, MOST, 2 * SAMPLE);
        paths.note(8192, 8192, Path::Ring);
        paths.note(8192, 8192, Path::Ring);
        for _ in 0..31 {
            assert!(!paths.note(8192, 8192, Path::Ring));
        }
        assert!(paths.note(8192, 8192, Path::Ring));
    }

    #[test]
    fn transfers_whose_path_is_not_chosen_are_not_timed() {
        let mut paths = TimedPaths::new(LEAST, MOST, SAMPLE);
        for len in [0, 1, LEAST, MOST + 1, usize::MAX] {
            for _ in 0..100 {
                assert!(!paths.note(len as u64, 8192, Path::Ring));
            }
            assert!(paths.run.since.is_none() && paths.run.bytes == 0);
        }
    }

    #[test]
    fn every_length_is_in_the_class_whose_bounds_it_is_between() {
        for class in 0..CLASSES - 1 {
            let beyond = first_beyond(class);
            assert_eq!(class_of(beyond as u64 - 1), class);
            assert_eq!(class_of(beyond as u64), class + 1);
        }
        assert_eq!((class_of(0), class_of(u64::MAX)), (0, CLASSES - 1));
    }

    #[test]
    fn a_sample_is_of_whole_transfers() {
        let mut paths = TimedPaths::new(LEAST, 2 * MOST, SAMPLE);
        let (len, part) = (96 * 1024, 8192);
        let mut dues = (0..80).map(|_| paths.note(len, part, Path::Ring));
        assert!(!dues.next().unwrap_or(true), "a transfer of another class");
        let parts: Vec<usize> = (0..79).filter(|_| dues.next() == Some(true)).collect();
        assert_eq!(parts, [0, 24, 48, 72], "a ring has not two of them");
    }

    #[test]
    fn the_limit_is_the_longest_length_of_a_class_or_the_most() {
        let mut paths = TimedPaths::new(LEAST, MOST, SAMPLE);
        assert_eq!(paths.limit(), 0);
        paths.prefer_ring(10_000);
        assert_eq!(paths.limit(), 16_383);
        paths.prefer_ring(MOST);
        assert_eq!(paths.limit(), MOST);
    }
}
