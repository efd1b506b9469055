//! The disk over an RDMA device against NVMe over fabrics over the same one, in one guest: requests in a second, and their ratio.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::guest::{self, Job};
use crate::place::Place;

/// The script of the guest, which prints a line for each run of fio.
const SCRIPT: &str = include_str!("../../guest/nvme.sh");

/// What was run, and the rates that it had with NVMe and with ours.
type Rates = BTreeMap<String, [Vec<f64>; 2]>;

/// Runs the comparison, and prints the medians of its rates; `settings` are assignments of the script's variables.
///
/// # Errors
/// As [`guest::run`], or there is no rate.
pub(crate) fn run(
    place: &Place,
    modules: &[PathBuf],
    settings: &str,
) -> Result<ExitCode, Box<dyn Error>> {
    let commands = format!("{settings}\n{SCRIPT}");
    let job = Job {
        commands: &commands,
        has_fio: true,
        is_measured: true,
    };
    let mut rates = Rates::new();
    let mut is_done = false;
    let status = guest::run(place, modules, &job, &mut |line| {
        println!("{line}");
        is_done |= line == "compare: done";
        note(line, &mut rates);
    })?;
    if rates.is_empty() || !is_done || status != ExitCode::SUCCESS {
        return Err("the comparison did not come to its end".into());
    }
    println!("| run | NVMe over fabrics | kofi_blk | ratio |\n|---|---|---|---|");
    for (what, [theirs, ours]) in &mut rates {
        let (theirs, ours) = (median(theirs), median(ours));
        println!(
            "| {what} | {theirs:.0} | {ours:.0} | {:.2} |",
            ours / theirs
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Takes a line such as `compare: randread 4k depth 32 kofi0 1200`.
fn note(line: &str, rates: &mut Rates) -> Option<()> {
    let words: Vec<_> = line
        .strip_prefix("compare: ")?
        .split_ascii_whitespace()
        .collect();
    let [kind, size, "depth", depth, disk, rate] = words[..] else {
        return None;
    };
    let rate = rate.parse().ok()?;
    let row = rates.entry(format!("{kind} {size}, depth {depth}"));
    let [theirs, ours] = row.or_default();
    match disk {
        "kofi0" => ours.push(rate),
        _ => theirs.push(rate),
    }
    Some(())
}

fn median(rates: &mut [f64]) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_told_apart_by_what_they_do_and_by_their_disk() {
        let mut rates = Rates::new();
        for line in [
            "compare: randread 4k depth 1 nvme0n1 30",
            "compare: randread 4k depth 1 kofi0 10",
            "compare: randread 4k depth 1 kofi0 30",
            "compare: randread 4k depth 1 kofi0 20.5",
            "compare: read 4k depth 1 kofi0 7",
            "compare: kofi0 has 1 queues",
            "[ 1.2] compare",
        ] {
            note(line, &mut rates);
        }
        assert_eq!(rates.len(), 2);
        let [theirs, ours] = rates.get_mut("randread 4k, depth 1").unwrap();
        assert_eq!((median(theirs), median(ours)), (30.0, 20.5));
        assert!(median(&mut []).is_nan());
    }
}
