//! `oxi lab`: small measurements for what the guide says about costs, each of which ends within seconds.

mod kernel;
mod memory;
mod peers;
mod plot;
mod stopwatch;
mod threads;

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};

use self::stopwatch::Stopwatch;
use super::Trouble;
use super::table::spell_value;
use crate::output::print;

/// Options of the command.
#[derive(Args)]
pub(super) struct Options {
    /// What to measure; without it, all there is to be measured is listed
    name: Option<Lab>,
    /// Also draw the figures into this file, as SVG
    #[arg(long, value_name = "FILE", requires = "name")]
    plot: Option<PathBuf>,
    /// Measure for a few milliseconds only, to see that it works
    #[arg(long)]
    quick: bool,
}

/// What can be measured.
#[derive(Clone, Copy, ValueEnum)]
enum Lab {
    Branch,
    Connection,
    Copy,
    Lock,
    Sharing,
    Syscall,
    Wakeup,
}

/// One figure.
struct Row {
    /// Of what.
    label: String,
    /// How long that takes, in nanoseconds.
    time_ns: f64,
    /// What else there is to say; may be empty.
    note: String,
}

impl Row {
    fn new(label: impl Into<String>, time_ns: f64) -> Self {
        Self {
            label: label.into(),
            time_ns,
            note: String::new(),
        }
    }

    fn with(self, note: String) -> Self {
        Self { note, ..self }
    }
}

impl Lab {
    fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Returns what is measured, in a sentence.
    fn sentence(self) -> &'static str {
        match self {
            Self::Branch => {
                "What a branch costs that the processor guesses wrong half of the time."
            }
            Self::Connection => {
                "What a peer costs: a TCP connection within this host, or an address in a vector."
            }
            Self::Copy => "What it costs to copy a message, by its length.",
            Self::Lock => "What it costs to add one under a lock, and without.",
            Self::Sharing => "What two processors pay for writing to one cache line.",
            Self::Syscall => "What the way into the kernel and back costs.",
            Self::Wakeup => "What it costs to tell another thread something, by whether it sleeps.",
        }
    }

    fn measure(self, stopwatch: Stopwatch) -> Result<Vec<Row>, Trouble> {
        match self {
            Self::Branch => Ok(memory::branches(stopwatch)),
            Self::Connection => peers::connections(stopwatch),
            Self::Copy => Ok(memory::copies(stopwatch)),
            Self::Lock => Ok(threads::locks(stopwatch)),
            Self::Sharing => Ok(threads::sharing(stopwatch)),
            Self::Syscall => kernel::calls(stopwatch),
            Self::Wakeup => kernel::wakeups(stopwatch),
        }
    }
}

/// Measures one thing, or lists what there is.
pub(super) fn run(options: &Options) -> Result<ExitCode, Trouble> {
    let Some(lab) = options.name else {
        print(list)?;
        return Ok(ExitCode::SUCCESS);
    };
    let stopwatch = match options.quick {
        true => Stopwatch::QUICK,
        false => Stopwatch::FULL,
    };
    let rows = lab.measure(stopwatch)?;
    print(|out| show(out, lab.sentence(), &rows))?;
    if let Some(file) = &options.plot {
        let title = format!("oxi lab {}", lab.name());
        let plot = plot::draw(&title, lab.sentence(), &rows);
        fs::write(file, plot).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn list(out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "oxi lab NAME measures one of these:\n")?;
    Lab::value_variants()
        .iter()
        .try_for_each(|lab| writeln!(out, "  {:<12}{}", lab.name(), lab.sentence()))
}

/// Columns of the longest bar.
const WIDTH: usize = 32;

/// Prints the figures, each with a bar.
fn show(out: &mut dyn Write, sentence: &str, rows: &[Row]) -> io::Result<()> {
    let longest = rows.iter().map(|row| row.label.chars().count()).max();
    let width = longest.unwrap_or(0);
    writeln!(out, "{sentence}\n")?;
    writeln!(out, "  {:width$}  {:>10}  {:>10}", "", "ns", "times")?;
    for row in rows {
        let times = row.time_ns / rows[0].time_ns;
        let cells = (share(row, rows) * WIDTH as f64).round() as usize;
        let line = format!(
            "  {:<width$}  {:>10}  {:>10}  {:<WIDTH$}  {}",
            row.label,
            spell_value(row.time_ns),
            spell_value(times),
            "█".repeat(cells.max(1)),
            row.note,
        );
        writeln!(out, "{}", line.trim_end())?;
    }
    writeln!(out, "\n  The bars are logarithmic.")
}

/// Returns how long the bar of a figure is, from 0 to 1: the longest is 1, and a tenth of the shortest would be 0.
fn share(row: &Row, rows: &[Row]) -> f64 {
    let all = || rows.iter().map(|row| row.time_ns);
    let (low, high) = (
        all().fold(f64::MAX, f64::min) / 10.0,
        all().fold(0.0, f64::max),
    );
    ((row.time_ns / low).ln() / (high / low).ln()).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(rows: &[Row]) -> String {
        let mut out = Vec::new();
        show(&mut out, "What it costs.", rows).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_figure_is_spelled_and_compared_with_the_first() {
        let rows = [
            Row::new("one", 2.0),
            Row::new("another", 200.0).with("and more".to_owned()),
        ];
        let text = shown(&rows);
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0] == "What it costs." && lines[1].is_empty());
        assert!(
            lines[3].starts_with("  one            2.00        1.00  ███"),
            "{text}"
        );
        assert!(
            lines[4].starts_with("  another         200         100  ███"),
            "{text}"
        );
        assert!(lines[4].ends_with("  and more"), "{text}");
        let bar = |line: &str| line.matches('█').count();
        assert_eq!((bar(lines[3]), bar(lines[4])), (WIDTH.div_ceil(3), WIDTH));
    }
}
