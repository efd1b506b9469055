//! The table that `oxi top --once` prints.

use std::io::{self, Write};

use super::Sample;
use super::columns::{Column, columns};
use super::row::{Grain, Row, rows};

/// What there is to say when nothing is to be seen.
pub(super) const NOTHING: &str =
    "No process of this user tells of its endpoints. Start programs with FI_OXI_STATS=1.";

/// Prints a line for each endpoint.
pub(super) fn print(out: &mut dyn Write, before: &Sample, now: &Sample) -> io::Result<()> {
    let rows = rows(before, now, Grain::Endpoints);
    if rows.is_empty() {
        writeln!(out, "{NOTHING}")?;
    } else {
        let columns = columns(u16::MAX);
        print_line(out, columns, |column| column.name().to_owned())?;
        for row in &rows {
            print_row(out, columns, row)?;
        }
    }
    for process in now.processes.iter().filter(|process| process.missed > 0) {
        writeln!(
            out,
            "Process {} has had {} more endpoints than it can tell of.",
            process.pid, process.missed
        )?;
    }
    Ok(())
}

fn print_row(out: &mut dyn Write, columns: &[Column], row: &Row) -> io::Result<()> {
    print_line(out, columns, |column| column.cell(row))
}

fn print_line(
    out: &mut dyn Write,
    columns: &[Column],
    cell: impl Fn(Column) -> String,
) -> io::Result<()> {
    let cells = columns.iter().map(|&column| align(column, &cell(column)));
    let line = cells.collect::<Vec<_>>().join(" ");
    writeln!(out, "{}", line.trim_end())
}

/// Returns a cell with the width of its column.
pub(super) fn align(column: Column, text: &str) -> String {
    let width = column.width();
    match column.is_text() {
        true => format!("{text:<width$}"),
        false => format!("{text:>width$}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{endpoint, sample};
    use super::*;

    fn printed(before: &Sample, now: &Sample) -> String {
        let mut out = Vec::new();
        print(&mut out, before, now).expect("memory takes everything");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn endpoints_have_lines_under_their_heads() {
        let now = sample(2, vec![endpoint(1, 10)]);
        let mut before = now.clone();
        before.processes[0].endpoints[0] = endpoint(1, 0);
        before.processes[0].endpoints[0].figures.sampled_ns = 400_000_000;
        let expected = "    \
    PID COMMAND     PROVIDER   EP PEER Mout/s  Min/s Bout/s  Bin/s Send Recv Unex  rtX  Err  Age
   4242 ring \"\\x\"   tcp         1    3     20     20   2.0k   2.0k    4    5    6    2    1 1.1s
";
        assert_eq!(printed(&before, &now), expected);
    }

    #[test]
    fn it_says_what_to_do_when_there_is_nothing_and_what_is_missing() {
        let none = Sample::default();
        assert_eq!(printed(&none, &none), format!("{NOTHING}\n"));
        let mut now = sample(2, vec![endpoint(1, 10)]);
        now.processes[0].missed = 7;
        assert!(
            printed(&none, &now).ends_with("4242 has had 7 more endpoints than it can tell of.\n")
        );
    }
}
