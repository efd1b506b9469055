//! The main job: two processes of this machine, every provider, a table and charts.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use oxifabric::Backend;
use oxifabric_bench::chart::{Series, terminal};
use oxifabric_bench::machine::{Machine, pin, two_cpus};
use oxifabric_bench::measure::{Effort, Figures, Pair};
use oxifabric_bench::providers::{USUAL, offer};
use oxifabric_bench::table::{Column, Table};
use oxifabric_bench::units::{parse_size, spell_count, spell_size, spell_value};

use super::{Trouble, json};
use crate::output::print;

/// Options of the command.
#[derive(Args, Clone, Debug)]
pub(super) struct Options {
    /// Providers to play over, with commas between them [default: those of shm and tcp that are here]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    providers: Vec<String>,
    /// Lengths of messages, with commas between them, such as 8,4k,1m
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = parse_size)]
    sizes: Vec<usize>,
    /// Few sizes, and little time for each
    #[arg(long)]
    quick: bool,
    /// Print one JSON object in place of table and charts
    #[arg(long)]
    json: bool,
}

/// All measurements, and the machine.
pub(super) struct Report {
    pub(super) machine: Machine,
    pub(super) library: String,
    pub(super) cpus: Option<(usize, usize)>,
    pub(super) results: Vec<Measured>,
}

/// The measurements over one provider.
pub(super) struct Measured {
    pub(super) provider: String,
    /// The address of the first process.
    pub(super) address: String,
    pub(super) figures: Vec<Figures>,
    /// The error that ended the measurement early.
    pub(super) trouble: Option<String>,
}

const SIZES: [usize; 10] = [
    8,
    64,
    256,
    1 << 10,
    4 << 10,
    16 << 10,
    64 << 10,
    256 << 10,
    1 << 20,
    4 << 20,
];
const QUICK_SIZES: [usize; 4] = [8, 1 << 10, 64 << 10, 1 << 20];

/// Runs the command. It fails when a provider that exists cannot be measured, or a message arrives wrong.
pub(super) fn run(options: &Options) -> Result<ExitCode, Trouble> {
    let backend = Backend::from_env()?;
    let (providers, absent) = choose(options, backend);
    let mut report = Report {
        machine: Machine::look(),
        library: describe(backend),
        cpus: two_cpus(),
        results: Vec::new(),
    };
    if !options.json {
        print(|out| head(out, &report, &absent))?;
    }
    if let Some((cpu, _)) = report.cpus {
        pin(cpu)?;
    }
    let sizes = options.sizes();
    let bar = progress_bar(providers.len() * sizes.len() * 2);
    for provider in &providers {
        let result = play(backend, provider, options, report.cpus, &bar);
        report.results.push(result);
    }
    bar.finish_and_clear();
    if options.json {
        print(|out| json::print(out, &report))?;
    } else {
        print(|out| body(out, &report))?;
    }
    Ok(if report.is_good() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

impl Options {
    fn sizes(&self) -> Vec<usize> {
        if !self.sizes.is_empty() {
            self.sizes.clone()
        } else if self.quick {
            QUICK_SIZES.into()
        } else {
            SIZES.into()
        }
    }

    fn effort(&self) -> Effort {
        if self.quick {
            Effort::QUICK
        } else {
            Effort::FULL
        }
    }
}

/// Returns the providers to be measured, and why others are not among them.
fn choose(options: &Options, backend: Backend) -> (Vec<String>, Vec<String>) {
    if !options.providers.is_empty() {
        return (options.providers.clone(), Vec::new());
    }
    let (mut here, mut absent) = (Vec::new(), Vec::new());
    for provider in USUAL {
        match offer(backend, provider) {
            Ok(_) => here.push(provider.to_owned()),
            Err(why) => absent.push(format!("{provider} is not here: {why}")),
        }
    }
    (here, absent)
}

fn describe(backend: Backend) -> String {
    let (major, minor) = backend.api_version();
    format!("libfabric {}, API {major}.{minor}", backend.version())
}

pub(super) fn progress_bar(steps: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("  {bar:40.cyan/dim} {pos}/{len}  {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(steps as u64).with_style(style)
}

/// Measures everything over one provider.
fn play(
    backend: Backend,
    provider: &str,
    options: &Options,
    cpus: Option<(usize, usize)>,
    bar: &ProgressBar,
) -> Measured {
    let mut result = Measured {
        provider: provider.to_owned(),
        address: String::new(),
        figures: Vec::new(),
        trouble: None,
    };
    if let Err(trouble) = measure(backend, options, cpus, bar, &mut result) {
        result.trouble = Some(trouble.to_string());
    }
    result
}

fn measure(
    backend: Backend,
    options: &Options,
    cpus: Option<(usize, usize)>,
    bar: &ProgressBar,
    result: &mut Measured,
) -> Result<(), Trouble> {
    let mut pair = Pair::start(backend, &result.provider, cpus)?;
    result.address = pair.address.to_string();
    for size in options.sizes() {
        bar.set_message(format!("{} {}", result.provider, spell_size(size)));
        let (latency_us, wrong) = pair.latency_us(size, options.effort())?;
        bar.inc(1);
        let (rate, also_wrong) = pair.rate(size, options.effort())?;
        bar.inc(1);
        result.figures.push(Figures {
            size,
            latency_us,
            bandwidth_mbps: rate * size as f64 / 1e6,
            rate,
            wrong: wrong + also_wrong,
        });
    }
    pair.dismiss()
}

impl Report {
    fn is_good(&self) -> bool {
        let good = |result: &Measured| {
            result.trouble.is_none() && result.figures.iter().all(|row| row.wrong == 0)
        };
        !self.results.is_empty() && self.results.iter().all(good)
    }
}

/// Prints what is known before anything is measured.
fn head(out: &mut dyn Write, report: &Report, absent: &[String]) -> io::Result<()> {
    writeln!(
        out,
        "oxi {}  ({})",
        env!("CARGO_PKG_VERSION"),
        report.library
    )?;
    report.machine.describe(out, report.cpus)?;
    absent.iter().try_for_each(|line| writeln!(out, "{line}"))
}

/// Tables, charts, and what they mean.
fn body(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    for result in &report.results {
        writeln!(out, "\n{}  {}", result.provider, result.address)?;
        if !result.figures.is_empty() {
            table(out, &result.figures)?;
        }
        if let Some(trouble) = &result.trouble {
            writeln!(out, "  failed: {trouble}")?;
        }
    }
    let colour = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    writeln!(out)?;
    let latency = series(report, |row| row.latency_us);
    terminal::print(
        out,
        "one-way latency, µs (lower is better)",
        &latency,
        colour,
    )?;
    writeln!(out)?;
    let bandwidth = series(report, |row| row.bandwidth_mbps);
    terminal::print(
        out,
        "bandwidth, MB/s (higher is better)",
        &bandwidth,
        colour,
    )?;
    writeln!(
        out,
        "\nmedians; latency is half of a round trip; 1 MB is 1,000,000 bytes; contents are checked in a sample"
    )
}

const COLUMNS: [Column; 4] = [
    Column::numbers("size", 9),
    Column::numbers("one-way µs", 12),
    Column::numbers("MB/s", 12),
    Column::numbers("messages/s", 14),
];

/// Prints one row for each size.
fn table(out: &mut dyn Write, figures: &[Figures]) -> io::Result<()> {
    let table = Table(&COLUMNS);
    writeln!(out, "{}\n{}", table.head(), table.rule())?;
    for row in figures {
        let wrong = match row.wrong {
            0 => String::new(),
            1 => "1 message was wrong".to_owned(),
            wrong => format!("{wrong} messages were wrong"),
        };
        let cells = [
            spell_size(row.size),
            spell_value(row.latency_us),
            spell_value(row.bandwidth_mbps),
            spell_count(row.rate),
            wrong,
        ];
        writeln!(out, "{}", table.row(&cells))?;
    }
    Ok(())
}

fn series(report: &Report, value: impl Fn(&Figures) -> f64) -> Vec<Series> {
    let line = |measured: &Measured| -> Vec<(f64, f64)> {
        let figures = measured.figures.iter();
        figures.map(|row| (row.size as f64, value(row))).collect()
    };
    let results = report.results.iter();
    results
        .map(|measured| Series {
            name: measured.provider.clone(),
            points: line(measured),
        })
        .collect()
}
