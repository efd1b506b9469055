//! The columns of table and screen: what is in them, how wide they are, and how rows are sorted by them.

use std::cmp::Ordering;

use super::row::Row;

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Pid,
    Command,
    Provider,
    Endpoints,
    Peers,
    /// Messages and accesses a second, both ways.
    Messages,
    MessagesOut,
    MessagesIn,
    /// Bytes a second, both ways.
    Bytes,
    BytesOut,
    BytesIn,
    Sends,
    Receives,
    Unexpected,
    Retransmissions,
    Errors,
    Age,
}

use Column::{
    Age, Bytes, BytesIn, BytesOut, Command, Endpoints, Errors, Messages, MessagesIn, MessagesOut,
    Peers, Pid, Provider, Receives, Retransmissions, Sends, Unexpected,
};

/// What fits into 80 characters.
const NARROW: [Column; 13] = [
    Pid,
    Command,
    Provider,
    Endpoints,
    Peers,
    Messages,
    Bytes,
    Sends,
    Receives,
    Unexpected,
    Retransmissions,
    Errors,
    Age,
];

/// Columns of a wide terminal, with both directions apart.
const WIDE: [Column; 15] = [
    Pid,
    Command,
    Provider,
    Endpoints,
    Peers,
    MessagesOut,
    MessagesIn,
    BytesOut,
    BytesIn,
    Sends,
    Receives,
    Unexpected,
    Retransmissions,
    Errors,
    Age,
];

/// Returns the columns for a terminal of this width.
pub(super) fn columns(width: u16) -> &'static [Column] {
    let needed: usize = WIDE.iter().map(|column| column.width() + 1).sum();
    match usize::from(width) + 1 < needed {
        true => &NARROW,
        false => &WIDE,
    }
}

impl Column {
    /// Returns the column of a key, among those that are sorted by.
    pub(super) const fn of_key(key: char) -> Option<Self> {
        Some(match key {
            'p' => Pid,
            'c' => Command,
            'm' => Messages,
            'b' => Bytes,
            's' => Sends,
            'r' => Receives,
            'u' => Unexpected,
            'x' => Retransmissions,
            'e' => Errors,
            'a' => Age,
            _ => return None,
        })
    }

    /// Returns whether rows are sorted by this column when `key` is the sort key.
    pub(super) const fn is_sorted_by(self, key: Self) -> bool {
        match key {
            Messages => matches!(self, Messages | MessagesOut | MessagesIn),
            Bytes => matches!(self, Bytes | BytesOut | BytesIn),
            _ => self as u8 == key as u8,
        }
    }

    /// Returns its name; the key that sorts by it is the letter in capitals, or the first.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Pid => "PID",
            Command => "COMMAND",
            Provider => "PROVIDER",
            Endpoints => "EP",
            Peers => "PEER",
            Messages => "Msg/s",
            MessagesOut => "Mout/s",
            MessagesIn => "Min/s",
            Bytes => "B/s",
            BytesOut => "Bout/s",
            BytesIn => "Bin/s",
            Sends => "Send",
            Receives => "Recv",
            Unexpected => "Unex",
            Retransmissions => "rtX",
            Errors => "Err",
            Age => "Age",
        }
    }

    /// Returns how many characters it takes.
    pub(super) const fn width(self) -> usize {
        match self {
            Pid => 7,
            Command => 11,
            Provider => 8,
            MessagesOut | MessagesIn | BytesOut | BytesIn => 6,
            Messages | Bytes => 5,
            _ => 4,
        }
    }

    /// Returns whether it is text, which is to the left; numbers are to the right.
    pub(super) const fn is_text(self) -> bool {
        matches!(self, Command | Provider)
    }

    /// Returns the text of a row in this column.
    pub(super) fn cell(self, row: &Row) -> String {
        match self {
            Pid => row.pid.to_string(),
            Command => cut(&row.command, self.width()),
            Provider => cut(&row.provider, self.width()),
            Age => spell_age(row.age_s),
            column => spell(column.value(row)),
        }
    }

    fn value(self, row: &Row) -> f64 {
        match self {
            Pid => row.pid.into(),
            Command | Provider => 0.0,
            Endpoints => row.endpoints as f64,
            Peers => row.peers as f64,
            Messages => row.out.operations + row.into.operations,
            MessagesOut => row.out.operations,
            MessagesIn => row.into.operations,
            Bytes => row.out.bytes + row.into.bytes,
            BytesOut => row.out.bytes,
            BytesIn => row.into.bytes,
            Sends => row.sends as f64,
            Receives => row.receives as f64,
            Unexpected => row.unexpected as f64,
            Retransmissions => row.retransmissions as f64,
            Errors => row.errors as f64,
            Age => row.age_s,
        }
    }

    /// Sorts rows: figures in descending order, names and process ids in ascending order; the other way round if `reverse`.
    pub(super) fn sort(self, rows: &mut [Row], reverse: bool) {
        rows.sort_by(|a, b| {
            let order = match self {
                Command => a.command.cmp(&b.command),
                Pid => a.pid.cmp(&b.pid),
                column => order_of(column.value(b), column.value(a)),
            };
            let order = if reverse { order.reverse() } else { order };
            order.then_with(|| (a.pid, a.endpoints).cmp(&(b.pid, b.endpoints)))
        });
    }
}

fn order_of(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or(Ordering::Equal)
}

/// Returns the beginning of a text.
fn cut(text: &str, width: usize) -> String {
    text.chars().take(width).collect()
}

/// Returns a number in at most four characters, by powers of 1000.
pub(super) fn spell(value: f64) -> String {
    const UNITS: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
    let (mut value, mut unit) = (value, 0);
    // What would be rounded to four digits is of the next unit.
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    match unit {
        0 => format!("{value:.0}"),
        _ if value < 9.95 => format!("{value:.1}{}", UNITS[unit]),
        _ => format!("{value:.0}{}", UNITS[unit]),
    }
}

/// Returns how long ago something was: seconds, minutes, hours or days.
fn spell_age(seconds: f64) -> String {
    match seconds {
        s if s < 9.95 => format!("{s:.1}s"),
        s if s < 99.5 => format!("{s:.0}s"),
        s if s < 5970.0 => format!("{:.0}m", s / 60.0),
        s if s < 356_400.0 => format!("{:.0}h", s / 3600.0),
        s => format!("{:.0}d", (s / 86_400.0).min(999.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::row::{Grain, rows};
    use super::super::tests::{endpoint, sample};
    use super::*;

    #[test]
    fn a_narrow_terminal_has_80_characters() {
        let width = |columns: &[Column]| -> usize {
            columns
                .iter()
                .map(|column| column.width() + 1)
                .sum::<usize>()
                - 1
        };
        assert!(width(columns(80)) <= 80, "{}", width(columns(80)));
        for columns_of in [81, 90, 100, 120, 65_535] {
            assert!(width(columns(columns_of)) <= columns_of.into());
        }
        assert!(columns(120).contains(&MessagesOut));
        let names = WIDE.iter().chain(&NARROW);
        for column in names {
            assert!(column.name().len() <= column.width(), "{column:?}");
        }
    }

    #[test]
    fn numbers_have_four_characters() {
        for (value, text) in [
            (0.0, "0"),
            (999.4, "999"),
            (999.6, "1.0k"),
            (9_949.0, "9.9k"),
            (9_960.0, "10k"),
            (1.5e6, "1.5M"),
            (999_600.0, "1.0M"),
            (u64::MAX as f64, "18E"),
        ] {
            assert_eq!(spell(value), text);
        }
        for (value, text) in [
            (0.04, "0.0s"),
            (12.0, "12s"),
            (150.0, "2m"),
            (7200.0, "2h"),
            (1e6, "12d"),
            (f64::INFINITY, "999d"),
        ] {
            assert_eq!(spell_age(value), text);
        }
    }

    #[test]
    fn rows_are_sorted_by_a_column_and_the_other_way_round() {
        let now = sample(1, (1..=3).map(|id| endpoint(id, id)).collect());
        let mut rows = rows(&now, &now, Grain::Endpoints);
        for (row, errors) in rows.iter_mut().zip([5, 9, 7]) {
            row.errors = errors;
        }
        let errors = |rows: &[Row]| rows.iter().map(|row| row.errors).collect::<Vec<_>>();
        Errors.sort(&mut rows, false);
        assert_eq!(errors(&rows), [9, 7, 5]);
        Errors.sort(&mut rows, true);
        assert_eq!(errors(&rows), [5, 7, 9]);
        Pid.sort(&mut rows, false);
        assert_eq!(rows[0].endpoints, 1, "ties are in order");
        for key in "pcmbsruxea".chars() {
            let column = Column::of_key(key).expect("a column");
            assert!(column.name().to_lowercase().contains(key), "{key}");
        }
    }
}
