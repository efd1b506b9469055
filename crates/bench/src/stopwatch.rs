//! How long something takes that is over too soon to be timed once.

use std::time::{Duration, Instant};

use crate::statistics::median;

/// Times a call by batches, for so long.
#[derive(Clone, Copy)]
pub struct Stopwatch {
    each: Duration,
    /// How many of something that cannot be repeated at will.
    pub few: usize,
}

impl Stopwatch {
    /// For figures that are shown.
    pub const FULL: Self = Self {
        each: Duration::from_millis(200),
        few: 200,
    };
    /// To check that a measurement works.
    pub const QUICK: Self = Self {
        each: Duration::from_millis(5),
        few: 10,
    };
    /// Batches that the time is divided into.
    const BATCHES: u32 = 20;
    /// Calls of one batch at most.
    const MOST: usize = 1 << 24;

    /// Returns the nanoseconds of a call: the median of batches.
    pub fn time_ns(self, mut call: impl FnMut()) -> f64 {
        self.time_many_ns(|count| (0..count).for_each(|_| call()))
    }

    /// Returns the nanoseconds of a call, of which `calls` makes as many as it is told.
    pub fn time_many_ns(self, mut calls: impl FnMut(usize)) -> f64 {
        let mut batch = |count| {
            let start = Instant::now();
            calls(count);
            start.elapsed()
        };
        let mut count = 1;
        while batch(count) < self.each / Self::BATCHES && count < Self::MOST {
            count *= 2;
        }
        let (start, mut times) = (Instant::now(), Vec::new());
        while times.is_empty() || start.elapsed() < self.each {
            times.push(batch(count).as_nanos() as f64 / count as f64);
        }
        median(&times)
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    #[test]
    fn every_call_that_is_timed_is_made() {
        let mut calls = 0_u64;
        // A compiler may add up a whole batch at once: then 5 ms are enough for more calls than an i32 counts.
        let time = Stopwatch::QUICK.time_ns(|| calls = black_box(calls + 1));
        assert!(calls > 0 && time >= 0.0);
    }
}
