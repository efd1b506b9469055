//! What losses cost reliable datagrams: the same program under more and more of them, in turns, and a drawing of it.

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use oxifabric_bench::chart::svg::{Drawing, Labels};
use oxifabric_bench::chart::{Scale, Series};
use oxifabric_bench::statistics::median;
use oxifabric_trials::Library;

use crate::cores::Cores;
use crate::speed::Speed;
use crate::workload::RELIABLE_DATAGRAMS;

/// Shares of packets that are lost, in percent.
const SHARES: [f64; 7] = [0.0, 0.1, 1.0, 2.0, 5.0, 10.0, 20.0];

/// Sizes of messages in bytes, and how many would be sent if they were short.
const SIZES: [(u64, u32); 3] = [(1 << 10, 20_000), (1 << 16, 32_000), (1 << 20, 64_000)];

/// Options of the comparison.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Folder with the libfabric.so.1 to measure
    #[arg(long)]
    library: PathBuf,
    /// How often each point is measured
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Where the drawing goes
    #[arg(long, default_value = "docs/losses.svg")]
    out: PathBuf,
}

/// Measures, prints a table and draws the curves.
///
/// # Errors
/// No compiler or headers for the program, or it failed.
pub(crate) fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let library = Library::at(options.library.clone(), "ours").map_err(|missing| missing.0)?;
    let speed = Speed::new("rate").map_err(|missing| missing.0)?;
    let cores = Cores::choose();
    println!("{}", cores.description());
    let mut figures = vec![vec![Vec::new(); SHARES.len()]; SIZES.len()];
    for round in 0..options.rounds {
        for at in 0..SHARES.len() {
            // Whatever changes on the machine meanwhile meets few and many losses alike.
            let at = if round % 2 == 0 {
                at
            } else {
                SHARES.len() - 1 - at
            };
            for (row, size) in figures.iter_mut().zip(SIZES) {
                row[at].push(goodput(&speed, &library, &cores, SHARES[at], size)?);
            }
        }
    }
    let mut curves = Vec::new();
    for (row, (bytes, _)) in figures.iter().zip(SIZES) {
        let medians: Vec<f64> = row.iter().map(|all| median(all)).collect();
        for (share, figure) in SHARES.iter().zip(&medians) {
            println!("{bytes:>8} bytes, {share:>5} % lost: {figure:>8.1} MB/s");
        }
        curves.push(Series {
            name: format!("{} KiB", bytes >> 10),
            // Small shares have more room: their square roots lie across.
            points: SHARES
                .iter()
                .map(|share| share.sqrt())
                .zip(medians)
                .collect(),
        });
    }
    let labels = Labels {
        title: "Goodput of reliable datagrams over lost packets",
        across: "packets lost each way, in percent",
        upwards: "MB/s",
    };
    let marks = SHARES.map(|share| (share.sqrt(), share.to_string()));
    let drawing = Drawing::new(labels, [Scale::Linear, Scale::Logarithmic], &curves);
    let drawing = drawing.ok_or("there is nothing to draw")?;
    fs::write(&options.out, drawing.marks(marks.into()).svg())?;
    println!("{}", options.out.display());
    Ok(())
}

/// One run; returns MB/s.
fn goodput(
    speed: &Speed,
    library: &Library,
    cores: &Cores,
    share: f64,
    (bytes, count): (u64, u32),
) -> Result<f64, Box<dyn Error>> {
    let faults = (share > 0.0).then(|| format!("drop={},seed=7", share / 100.0));
    let options = format!("{bytes} {count}");
    let row = speed.run(
        &options,
        library,
        RELIABLE_DATAGRAMS,
        cores,
        faults.as_deref(),
    )?;
    Ok(row.mbytes_per_second)
}
