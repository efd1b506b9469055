//! Lengths from which on messages go another way.

use super::choice::{Rivals, divide};
use super::games::{Cost, Games, Row};
use crate::oxi::Trouble;
use crate::oxi::conf::Setting;

/// A length from which on messages go another way.
pub(super) struct Threshold {
    pub(super) question: &'static str,
    /// What the two ways are called.
    pub(super) ways: [&'static str; 2],
    /// Lengths to be played.
    pub(super) sizes: &'static [usize],
    /// Variables that have the threshold as their value.
    names: &'static [&'static str],
    /// Values with which all messages of these lengths go the first way, and the second.
    extremes: [usize; 2],
    bound: Bound,
}

/// What the value of a threshold is.
enum Bound {
    /// The longest length that goes the first way.
    Last,
    /// The shortest that goes the second.
    First,
}

/// The variable that only this library has.
pub(super) const ASSIST: &str = "FI_SHM_ASSIST_SIZE";

/// Played with messages that are read from their sender's memory, however short.
pub(super) const COPYING: Threshold = Threshold {
    question: "Who copies a message that is read from its sender's memory?",
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
    /// The settings with which all messages of its lengths go the second way.
    pub(super) fn second(&self) -> Vec<Setting> {
        self.settings(self.extremes[1])
    }

    fn settings(&self, value: usize) -> Vec<Setting> {
        let names = self.names.iter();
        names.map(|name| (*name, value.to_string())).collect()
    }

    /// The value with which so many of the lengths go the first way.
    fn value(&self, first: usize) -> usize {
        let sizes = self.sizes;
        match self.bound {
            Bound::Last => first
                .checked_sub(1)
                .map_or(self.extremes[1], |last| sizes[last]),
            Bound::First => sizes.get(first).copied().unwrap_or(self.extremes[0]),
        }
    }

    /// Plays both ways, with `others` beside, and returns the settings with which messages cost least.
    pub(super) fn find(
        &self,
        others: &[Setting],
        games: &Games<'_>,
    ) -> Result<(Vec<Row>, Vec<Setting>), Trouble> {
        let teams = self.extremes.map(|value| {
            let own = self.settings(value);
            own.into_iter().chain(others.iter().cloned()).collect()
        });
        let rows = games.play(&teams, self.sizes)?;
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
