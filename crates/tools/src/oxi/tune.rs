//! `oxi tune`: measures on this machine from which message length on another way of sending is faster.
//!
//! The results are settings for libfabric.conf. The command proposes them only if messages are faster with them than with the
//! settings in force.

mod choice;
mod threshold;
mod trials;
mod worker_pair;

use std::env;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use indicatif::ProgressBar;
use oxifabric::{Backend, Parameter};
use oxifabric_bench::machine::{Machine, two_cpus};
use oxifabric_bench::statistics::geometric_mean;
use oxifabric_types::conf::parse_bool;

use self::threshold::ASSIST;
use self::trials::{Comparison, Row, Trials};
pub(super) use self::worker_pair::{Options as WorkerPairOptions, serve};
use self::worker_pair::{Start, WorkerPair};
use super::Trouble;
use super::bench::progress_bar;
use super::conf::{self, Setting};
use crate::output::{print, quote};

/// Options of the command.
#[derive(Args)]
pub(super) struct Options {
    /// Write the settings into this file, in place of those of the same names [default: the one that providers read]
    #[arg(long, value_name = "FILE")]
    #[expect(
        clippy::option_option,
        reason = "the option without a file is another thing than no option"
    )]
    write: Option<Option<PathBuf>>,
    /// Measure for a few milliseconds only, to see that it works
    #[arg(long)]
    quick: bool,
    /// Print what was measured and found as a JSON object
    #[arg(long)]
    json: bool,
}

/// Lengths of the messages with which the settings that were found are compared with those in force.
const SIZES: [usize; 8] = [
    4 << 10,
    8 << 10,
    16 << 10,
    32 << 10,
    64 << 10,
    128 << 10,
    256 << 10,
    1 << 20,
];

/// How much less messages must cost for settings to be worth having: less is within what one measurement differs from the next.
const WORTH: f64 = 0.03;

/// Measures, prints the settings that are best here, and writes them into a file if the options say so.
pub(super) fn run(options: &Options) -> Result<ExitCode, Trouble> {
    let known = Backend::from_env()?.parameters()?;
    if !known.iter().any(|parameter| parameter.name == ASSIST) {
        return Err("the library that OXIFABRIC_LIBRARY names is not oxifabric's".into());
    }
    if !options.json {
        print(|out| {
            writeln!(out, "oxi tune {}", env!("CARGO_PKG_VERSION"))?;
            Machine::look().describe(out, two_cpus())
        })?;
    }
    if let Some(why) = obstacle(&known)? {
        print(|out| match options.json {
            true => Verdict::default().print_json(out),
            false => writeln!(
                out,
                "no better setting found: all messages go through shared memory here, so nothing can be chosen: {why}"
            ),
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut trials = Trials {
        known: &known,
        quick: options.quick,
        is_quiet: options.json,
        bar: ProgressBar::hidden(),
    };
    let counts = [&threshold::SIZES[..], &SIZES].map(|sizes| 2 * trials.count(sizes.len()));
    trials.bar = progress_bar(counts.iter().sum());
    let verdict = compare(&trials)?;
    trials.bar.finish_and_clear();
    let file = options.write.as_ref();
    let file = file.map(|named| named.clone().unwrap_or_else(|| conf::path(&known)));
    verdict.write(file.as_deref())?;
    print(|out| match options.json {
        true => verdict.print_json(out),
        false => verdict.conclude(out, &known, file.as_deref()),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Returns what prevents receivers from reading their senders' memory, if anything does.
fn obstacle(known: &[Parameter]) -> Result<Option<String>, Trouble> {
    let disabled = known.iter().find(|parameter| {
        let value = parameter.value.as_deref().unwrap_or_default();
        parameter.name == "FI_SHM_DISABLE_CMA" && parse_bool(value.trim()) == Some(true)
    });
    if let Some(parameter) = disabled {
        return Ok(Some(format!("{} says so", parameter.name)));
    }
    match WorkerPair::start(&[], known, true)? {
        Start::Ready(pair) => pair.dismiss().map(|()| None),
        Start::Apart(why) => Ok(Some(format!("{why} (oxi doctor)"))),
    }
}

/// The result of the measurements.
#[derive(Default)]
struct Verdict {
    /// What was measured.
    comparisons: Vec<Comparison>,
    settings: Vec<Setting>,
    /// How much less messages cost with them, on average; `None` if they are in force already.
    gain: Option<f64>,
}

fn compare(trials: &Trials<'_>) -> Result<Verdict, Trouble> {
    let mut comparisons = Vec::new();
    let mut show = |question, ways, rows| {
        let comparison = Comparison {
            question,
            ways,
            rows,
        };
        let shown = match trials.is_quiet {
            true => Ok(()),
            false => (trials.bar).suspend(|| print(|out| comparison.table(out))),
        };
        comparisons.push(comparison);
        shown
    };
    let (rows, setting) = threshold::find(trials)?;
    show(threshold::QUESTION, threshold::WAYS, rows)?;
    if is_in_force(trials.known, &setting) {
        return Ok(Verdict {
            comparisons,
            settings: vec![setting],
            gain: None,
        });
    }
    let settings = vec![setting];
    let rows = trials.measure(&[vec![], settings.clone()], &SIZES)?;
    let gain = Some(gain(&rows));
    show("What does it bring?", ["now", "tuned"], rows)?;
    Ok(Verdict {
        comparisons,
        settings,
        gain,
    })
}

fn is_in_force(known: &[Parameter], (name, value): &Setting) -> bool {
    let parameter = known.iter().find(|parameter| parameter.name == *name);
    parameter.and_then(|parameter| parameter.value.as_deref().or(parameter.default()))
        == Some(value)
}

/// Returns how much less the second pair's messages cost, on average.
fn gain(rows: &[Row]) -> f64 {
    let ratios: Vec<f64> = rows.iter().map(Row::ratio).collect();
    1.0 - geometric_mean(&ratios)
}

impl Verdict {
    /// Returns how much less messages cost with the settings, if that is worth having.
    fn worth(&self) -> Option<f64> {
        self.gain.filter(|gain| *gain >= WORTH)
    }

    /// Writes the settings into a file, if one is named and they are worth having.
    fn write(&self, file: Option<&Path>) -> Result<(), Trouble> {
        if let Some(path) = file.filter(|_| self.worth().is_some()) {
            conf::write(path, &self.settings)
                .map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(())
    }

    /// Prints what to do.
    fn conclude(
        &self,
        out: &mut dyn Write,
        known: &[Parameter],
        file: Option<&Path>,
    ) -> io::Result<()> {
        let Some(gain) = self.worth() else {
            let why = match self.gain {
                None => "what is in force came out best".to_owned(),
                Some(gain) => format!(
                    "the best of the others costs {:.1} % less, and up to {:.0} % is chance",
                    gain * 100.0,
                    WORTH * 100.0
                ),
            };
            return writeln!(out, "\nno better setting found: {why}");
        };
        let percent = gain * 100.0;
        match file {
            Some(path) => writeln!(
                out,
                "\nmessages cost {percent:.1} % less with these lines, which {} has now:",
                path.display()
            )?,
            None => writeln!(
                out,
                "\nmessages cost {percent:.1} % less with these lines in {}; --write puts them there:",
                conf::path(known).display()
            )?,
        }
        self.lines(out)
    }

    /// Prints everything as one JSON object.
    fn print_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let comparisons: Vec<String> = self.comparisons.iter().map(Comparison::json).collect();
        let gain = (self.worth()).map_or_else(|| "null".to_owned(), |gain| format!("{gain:.4}"));
        let settings = self.settings.iter().filter(|_| self.worth().is_some());
        let settings: Vec<String> = settings
            .map(|(name, value)| {
                format!("{{\"name\": {}, \"value\": {}}}", quote(name), quote(value))
            })
            .collect();
        writeln!(out, "{{\"comparisons\": [{}],", comparisons.join(",\n"))?;
        writeln!(out, "\"gain\": {gain},")?;
        writeln!(out, "\"settings\": [{}]}}", settings.join(", "))
    }

    /// Prints the settings, and what stands against them.
    fn lines(&self, out: &mut dyn Write) -> io::Result<()> {
        for setting in &self.settings {
            writeln!(out, "  {}", conf::spell(setting))?;
        }
        let set = self.settings.iter().map(|(name, _)| *name);
        for name in set.filter(|name| env::var_os(name).is_some()) {
            writeln!(
                out,
                "the environment sets {name} too, and wins unless FI_PREFER_SYSCONFIG is on: unset it"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::trials::Cost;
    use super::*;

    fn verdict(gain: Option<f64>) -> Verdict {
        Verdict {
            settings: vec![(ASSIST, "7".to_owned())],
            gain,
            ..Verdict::default()
        }
    }

    fn concluded(verdict: &Verdict) -> String {
        let mut out = Vec::new();
        verdict.conclude(&mut out, &[], None).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_answer_is_json_too() {
        for (gain, name) in [(None, None), (Some(0.5), Some(ASSIST))] {
            let mut verdict = verdict(gain);
            verdict.comparisons.push(Comparison {
                question: "Which?",
                ways: ["a", "b"],
                rows: vec![Row {
                    size: 4096,
                    costs: [Cost::default(); 2],
                }],
            });
            let mut out = Vec::new();
            verdict.print_json(&mut out).unwrap();
            let read: serde_json::Value = serde_json::from_slice(&out).unwrap();
            assert_eq!(read["gain"].as_f64(), gain);
            assert_eq!(read["settings"][0]["name"].as_str(), name);
            assert_eq!(read["comparisons"][0]["sizes"][0]["bytes"], 4096);
        }
    }

    #[test]
    fn only_what_is_worth_having_is_written() {
        let path = env::temp_dir().join(format!("oxi-tune-{}.conf", std::process::id()));
        for gain in [None, Some(0.0), Some(-1.0), Some(WORTH / 2.0)] {
            verdict(gain).write(Some(&path)).unwrap();
            assert!(!path.exists(), "{gain:?}");
            let text = concluded(&verdict(gain));
            assert!(text.starts_with("\nno better setting found: "), "{text}");
        }
        verdict(Some(0.5)).write(None).unwrap();
        assert!(!path.exists());
        verdict(Some(0.5)).write(Some(&path)).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(text, "FI_SHM_ASSIST_SIZE=7\n");
    }

    #[test]
    fn settings_are_in_force_by_value_or_by_default() {
        let known = Backend::builtin().parameters().unwrap();
        let with = |name: &str, value: Option<&str>| {
            let parameter = known.iter().find(|parameter| parameter.name == name);
            let mut parameter = parameter.unwrap().clone();
            parameter.value = value.map(str::to_owned);
            parameter
        };
        for (name, now, value, expected) in [
            (ASSIST, None, "24576", true),
            ("FI_SHM_EAGER_SIZE", None, "6144", true),
            ("FI_SHM_SEGMENTED_SIZE", None, "0", true),
            (ASSIST, None, "7", false),
            (ASSIST, Some("7"), "7", true),
            (ASSIST, Some("7"), "24576", false),
        ] {
            let is = is_in_force(&[with(name, now)], &(name, value.to_owned()));
            assert_eq!(is, expected, "{name} {now:?} {value}");
        }
        assert!(!is_in_force(&known, &("FI_UNKNOWN", String::new())));
    }

    #[test]
    fn what_is_gained_is_an_average_of_ratios() {
        let cost = |latency_us: f64| Cost {
            latency_us,
            rate: 1e6 / latency_us,
        };
        let row = |now: f64, tuned: f64| Row {
            size: 1,
            costs: [cost(now), cost(tuned)],
        };
        assert!((gain(&[row(10.0, 5.0), row(1000.0, 500.0)]) - 0.5).abs() < 1e-9);
        assert!(gain(&[row(10.0, 5.0), row(500.0, 1000.0)]).abs() < 1e-9);
    }
}
