//! Thresholds: message lengths from which on a provider sends in another way.

use super::choice::{Rivals, divide};
use super::trials::{Cost, Row, Trials};
use crate::oxi::Trouble;
use crate::oxi::conf::Setting;

/// A message length from which on a provider sends in another way.
pub(super) struct Threshold {
    pub(super) question: &'static str,
    /// The names of the two paths.
    pub(super) ways: [&'static str; 2],
    /// Lengths to be measured.
    pub(super) sizes: &'static [usize],
    /// Variables that have the threshold as their value.
    names: &'static [&'static str],
    /// Values with which all messages of these lengths take the first path, and the second.
    extremes: [usize; 2],
    bound: Bound,
}

/// The meaning of a threshold's value.
enum Bound {
    /// The longest length that takes the first path.
    Last,
    /// The shortest that takes the second.
    First,
}

/// The variable that only this library has.
pub(super) const ASSIST: &str = "FI_SHM_ASSIST_SIZE";

/// Measured with messages that are read from their sender's memory, however short.
pub(super) const COPYING: Threshold = Threshold {
    question: "Which side copies a message that is read from its sender's memory?",
    ways: ["receiver", "both"],
    sizes: &[
        8 << 10,
        12 << 10,
        16 << 10,
        24 << 10,
        32 << 10,
        48 << 10,
        64 << 10,
        96 << 10,
        128 << 10,
        256 << 10,
    ],
    names: &[ASSIST],
    extremes: [1 << 40, 8 << 10],
    bound: Bound::First,
};

pub(super) const PLACE: Threshold = Threshold {
    question: "Where does the receiver get a message from?",
    ways: ["shared memory", "sender's memory"],
    sizes: &[6 << 10, 8 << 10, 12 << 10, 16 << 10, 24 << 10],
    names: &["FI_SHM_EAGER_SIZE", "FI_SHM_SEGMENTED_SIZE"],
    extremes: [32 << 10, 4 << 10],
    bound: Bound::Last,
};

impl Threshold {
    /// Returns the settings with which all messages of its lengths take the second path.
    pub(super) fn second(&self) -> Vec<Setting> {
        self.settings(self.extremes[1])
    }

    fn settings(&self, value: usize) -> Vec<Setting> {
        let names = self.names.iter();
        names.map(|name| (*name, value.to_string())).collect()
    }

    /// Returns the value with which the first `first` lengths take the first path.
    fn value(&self, first: usize) -> usize {
        let sizes = self.sizes;
        match self.bound {
            Bound::Last => first
                .checked_sub(1)
                .map_or(self.extremes[1], |last| sizes[last]),
            Bound::First => sizes.get(first).copied().unwrap_or(self.extremes[0]),
        }
    }

    /// Measures both paths, with `others` beside, and returns the settings with which messages cost least.
    pub(super) fn find(
        &self,
        others: &[Setting],
        trials: &Trials<'_>,
    ) -> Result<(Vec<Row>, Vec<Setting>), Trouble> {
        let pairs = self.extremes.map(|value| {
            let own = self.settings(value);
            own.into_iter().chain(others.iter().cloned()).collect()
        });
        let rows = trials.measure(&pairs, self.sizes)?;
        let rivals: Vec<Rivals> = rows.iter().map(rivals).collect();
        let division = rows.get(divide(&rivals)).map(|row| row.size);
        let first = self
            .sizes
            .iter()
            .take_while(|size| division.is_none_or(|at| **size < at));
        let value = self.value(first.count());
        Ok((rows, self.settings(value)))
    }
}

fn rivals(row: &Row) -> Rivals {
    let [short, long] = row.costs.map(Cost::total_us);
    Rivals { short, long }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_lengths_on_their_side_of_the_threshold() {
        assert_eq!(PLACE.value(0), 4 << 10);
        assert_eq!(PLACE.value(2), 8 << 10);
        assert_eq!(PLACE.value(PLACE.sizes.len()), 24 << 10);
        assert_eq!(COPYING.value(0), 8 << 10);
        assert_eq!(COPYING.value(3), 24 << 10);
        assert_eq!(COPYING.value(COPYING.sizes.len()), 1 << 40);
    }
}
