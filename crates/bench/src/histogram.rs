//! Times, counted in classes that are one part in 64 wide, so that any number of them takes the same room.

use std::time::Duration;

/// Classes of a power of two: 2 to the power of this.
const FINE: u32 = 6;

/// How often which time was seen.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    longest: Duration,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// Returns one without times.
    #[must_use]
    pub fn new() -> Self {
        Self {
            counts: vec![0; class(u64::MAX) + 1],
            total: 0,
            longest: Duration::ZERO,
        }
    }

    /// Counts a time.
    pub fn add(&mut self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.counts[class(nanos)] += 1;
        self.total += 1;
        self.longest = self.longest.max(time);
    }

    /// Returns the longest time that was seen.
    #[must_use]
    pub const fn longest(&self) -> Duration {
        self.longest
    }

    /// Returns the time that this share of all keeps to; zero if there are none.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Duration {
        let wanted = (self.total as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        found.map_or(Duration::ZERO, |class| {
            Duration::from_nanos(top(class)).min(self.longest)
        })
    }
}

/// Returns the class of a number: small numbers have one of their own.
fn class(nanos: u64) -> usize {
    let octave = (64 - nanos.leading_zeros()).saturating_sub(FINE + 1);
    ((octave << FINE) as u64 + (nanos >> octave)) as usize
}

/// Returns the largest number of a class.
fn top(class: usize) -> u64 {
    let octave = ((class >> FINE) as u32).saturating_sub(1);
    let first = (class as u64 - u64::from(octave << FINE)) << octave;
    first + ((1 << octave) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_in_a_class_that_is_little_wider() {
        let some = (0..63).flat_map(|bit| [1u64 << bit, (1 << bit) + 1, (1 << bit) * 2 - 1]);
        let mut last = 0;
        for nanos in (0..1000).chain(some.skip(30)) {
            let class = class(nanos);
            assert!(class >= last || nanos < 1000, "{nanos}");
            assert!(
                top(class) >= nanos && top(class) - nanos <= nanos / 64,
                "{nanos}"
            );
            last = class;
        }
    }

    #[test]
    fn quantiles_of_a_hundred() {
        let mut times = Histogram::new();
        assert_eq!(times.quantile(0.5), Duration::ZERO);
        (1..=100).for_each(|nanos| times.add(Duration::from_nanos(nanos)));
        let of = |share| times.quantile(share).as_nanos();
        assert_eq!((of(0.0), of(0.5), of(1.0)), (1, 50, 100));
        assert_eq!(times.longest(), Duration::from_nanos(100));
    }
}
