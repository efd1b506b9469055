//! The message length from which on sender and receiver both copy a message that is read from its sender's memory. From which length on messages are
//! read there is not asked: endpoints measure that while they run, unless a parameter fixes it.

use super::choice::{Rivals, divide};
use super::trials::{Cost, Row, Trials};
use crate::oxi::Trouble;
use crate::oxi::conf::Setting;

/// The variable that has it as its value. Only this library has it.
pub(super) const ASSIST: &str = "FI_SHM_ASSIST_SIZE";

pub(super) const QUESTION: &str =
    "Which side copies a message that is read from its sender's memory?";

/// The side that copies shorter messages, and the one that copies longer ones.
pub(super) const WAYS: [&str; 2] = ["receiver", "both"];

/// Lengths to be measured.
pub(super) const SIZES: [usize; 10] = [
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
];

/// The value with which the receiver copies messages of all these lengths.
const NEVER: usize = 1 << 40;

/// With these, messages of all these lengths are read from their sender's memory.
const READ_ALL: [(&str, &str); 2] = [
    ("FI_SHM_EAGER_SIZE", "4096"),
    ("FI_SHM_SEGMENTED_SIZE", "4096"),
];

/// Measures which side copies faster; returns what was measured and the setting with which messages cost least.
pub(super) fn find(trials: &Trials<'_>) -> Result<(Vec<Row>, Setting), Trouble> {
    let pairs = [NEVER, SIZES[0]].map(|value| {
        let others = READ_ALL.map(|(name, value)| (name, value.to_owned()));
        others.into_iter().chain([setting(value)]).collect()
    });
    let rows = trials.measure(&pairs, &SIZES)?;
    let rivals: Vec<Rivals> = rows.iter().map(rivals).collect();
    let division = rows.get(divide(&rivals)).map(|row| row.size);
    Ok((rows, setting(division.unwrap_or(NEVER))))
}

fn setting(value: usize) -> Setting {
    (ASSIST, value.to_string())
}

fn rivals(row: &Row) -> Rivals {
    let [short, long] = row.costs.map(Cost::total_us);
    Rivals { short, long }
}
