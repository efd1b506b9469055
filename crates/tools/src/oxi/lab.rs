//! `oxi lab`: small measurements for what the guide says about costs, each of which ends within seconds.

mod kernel;
mod memory;
mod peers;
mod threads;

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use oxifabric_bench::chart::bars::{self, Bar};
use oxifabric_bench::stopwatch::Stopwatch;

use super::Trouble;
use crate::output::{print, print_array, quote};

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
    /// Print the figures as a JSON object, or what there is as a JSON array
    #[arg(long)]
    json: bool,
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

    fn measure(self, stopwatch: Stopwatch) -> Result<Vec<Bar>, Trouble> {
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
        print(|out| match options.json {
            true => list_as_json(out),
            false => list(out),
        })?;
        return Ok(ExitCode::SUCCESS);
    };
    let stopwatch = match options.quick {
        true => Stopwatch::QUICK,
        false => Stopwatch::FULL,
    };
    let rows = lab.measure(stopwatch)?;
    print(|out| match options.json {
        true => as_json(out, lab, &rows),
        false => bars::print(out, lab.sentence(), &rows),
    })?;
    if let Some(file) = &options.plot {
        let title = format!("oxi lab {}", lab.name());
        let plot = bars::draw(&title, lab.sentence(), &rows);
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

fn list_as_json(out: &mut dyn Write) -> io::Result<()> {
    let labs = Lab::value_variants().iter().map(|lab| {
        let (name, sentence) = (quote(&lab.name()), quote(lab.sentence()));
        format!("{{\"name\": {name}, \"measures\": {sentence}}}")
    });
    print_array(out, &labs.collect::<Vec<_>>())
}

/// Prints the figures as an object; times are in nanoseconds.
fn as_json(out: &mut dyn Write, lab: Lab, rows: &[Bar]) -> io::Result<()> {
    let rows = rows.iter().map(|row| {
        let (label, note) = (quote(&row.label), quote(&row.note));
        format!(
            "{{\"label\": {label}, \"time_ns\": {:.4}, \"note\": {note}}}",
            row.time_ns
        )
    });
    write!(out, "{{\"name\": {}, \"figures\": ", quote(&lab.name()))?;
    print_array(out, &rows.collect::<Vec<_>>())?;
    writeln!(out, "}}")
}
