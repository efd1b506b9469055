//! kOFI against what the kernel has without it, in one guest: messages over kofi_tcp against kernel sockets, and the disk over an RDMA device against
//! NVMe over fabrics over the same one.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::guest::{self, Job};
use crate::place::Place;

/// A comparison: a script of the guest, which prints a line for each run.
struct Comparison {
    /// The provider that it is for.
    provider: &'static str,
    script: &'static str,
    has_fio: bool,
    /// The columns of the table: what is run, by what it is compared with, and by ours.
    columns: [&'static str; 3],
}

const COMPARISONS: [Comparison; 2] = [
    Comparison {
        provider: "kofi_tcp",
        script: include_str!("../../guest/messages.sh"),
        has_fio: false,
        columns: [
            "message size in bytes, 2,000 round trips",
            "kernel sockets, ns",
            "kofi_tcp, ns",
        ],
    },
    Comparison {
        provider: "kofi_verbs",
        script: include_str!("../../guest/nvme.sh"),
        has_fio: true,
        columns: ["run, requests in a second", "NVMe over fabrics", "kofi_blk"],
    },
];

/// What was run, and the figures that it had with the other and with ours.
type Figures = BTreeMap<String, [Vec<f64>; 2]>;

/// Runs the comparisons, or the one for a provider, and prints the medians of their figures; `settings` are assignments of the scripts' variables.
///
/// # Errors
/// As [`guest::run`], or a comparison did not come to its end.
pub(crate) fn run(
    place: &Place,
    modules: &[PathBuf],
    provider: Option<&str>,
    settings: &str,
) -> Result<ExitCode, Box<dyn Error>> {
    let wanted = |of: &&Comparison| provider.is_none_or(|only| only == of.provider);
    if !COMPARISONS.iter().any(|of| wanted(&of)) {
        return Err("nothing is compared over this provider".into());
    }
    let mut tables = Vec::new();
    for comparison in COMPARISONS.iter().filter(wanted) {
        let table = comparison.run(place, modules, settings)?;
        print!("\n{table}");
        tables.push(table);
    }
    tables.iter().for_each(|table| print!("\n{table}"));
    Ok(ExitCode::SUCCESS)
}

impl Comparison {
    /// Runs it, and returns its table.
    fn run(
        &self,
        place: &Place,
        modules: &[PathBuf],
        settings: &str,
    ) -> Result<String, Box<dyn Error>> {
        let commands = format!("{settings}\n{}", self.script);
        let job = Job {
            commands: &commands,
            has_fio: self.has_fio,
            is_measured: true,
        };
        let mut figures = Figures::new();
        let mut is_done = false;
        let status = guest::run(place, modules, &job, &mut |line| {
            println!("{line}");
            is_done |= line == "compare: done";
            note(line, &mut figures);
        })?;
        let are_whole = figures
            .values()
            .all(|[theirs, ours]| theirs.len() == ours.len());
        if figures.is_empty() || !are_whole || !is_done || status != ExitCode::SUCCESS {
            return Err("the comparison did not come to its end".into());
        }
        Ok(self.table(&mut figures))
    }

    fn table(&self, figures: &mut Figures) -> String {
        let [what, theirs, ours] = self.columns;
        let mut table = format!("| {what} | {theirs} | {ours} | ratio |\n|---|---|---|---|\n");
        for (what, [theirs, ours]) in figures {
            let (theirs, ours) = (median(theirs), median(ours));
            let ratio = ours / theirs;
            table += &format!("| {what} | {theirs:.0} | {ours:.0} | {ratio:.3} |\n");
        }
        table
    }
}

/// Takes a line such as `compare: randread 4k depth 32 kofi0 1200`: what was run, by what, and its figure.
fn note(line: &str, figures: &mut Figures) -> Option<()> {
    let mut words: Vec<_> = line
        .strip_prefix("compare: ")?
        .split_ascii_whitespace()
        .collect();
    let figure = words.pop()?.parse().ok()?;
    let by = words.pop()?;
    let ours = by.starts_with("kofi");
    if !ours && !["sockets", "nvme0n1"].contains(&by) {
        return None;
    }
    let row = figures.entry(words.join(" ")).or_default();
    row[usize::from(ours)].push(figure);
    Some(())
}

fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_told_apart_by_what_they_do_and_by_their_disk() {
        let mut figures = Figures::new();
        for line in [
            "compare: randread 4k depth 1 nvme0n1 30",
            "compare: randread 4k depth 1 kofi0 10",
            "compare: randread 4k depth 1 kofi0 30",
            "compare: randread 4k depth 1 kofi0 20.5",
            "compare: read 4k depth 1 kofi0 7",
            "compare: kofi0 has 1 queues",
            "compare: message 4096 sockets 100",
            "compare: message 4096 kofi_tcp 110",
            "compare: message 4096 kofi_tcp ",
            "[ 1.2] compare",
        ] {
            note(line, &mut figures);
        }
        assert_eq!(figures.len(), 3);
        let [theirs, ours] = figures.get_mut("randread 4k depth 1").unwrap();
        assert_eq!((median(theirs), median(ours)), (30.0, 20.5));
        assert_eq!(figures["message 4096"], [[100.0], [110.0]]);
        assert!(median(&mut []).is_nan());
    }
}
