//! `oxi tune`: from which length on messages should go another way, found by playing both ways on this machine.
//!
//! What it finds are settings for libfabric.conf. They are proposed only if messages with them are faster than with what is
//! in force.

mod choice;
mod team;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use indicatif::ProgressBar;
use oxifabric::{Backend, Parameter};

use self::choice::{Rivals, divide};
use self::team::Team;
pub(super) use self::team::{Options as TeamOptions, serve};
use super::Trouble;
use super::bench::progress_bar;
use super::conf::{self, Setting};
use super::doctor::forbids_reading;
use super::machine::{Machine, two_cpus};
use super::measure::median;
use super::table::{spell_size, spell_value};
use crate::output::print;

/// Options of the command.
#[derive(Args)]
pub(super) struct Options {
    /// Write the settings into this file, in place of those of the same names [default: the one that providers read]
    #[arg(long, value_name = "FILE", conflicts_with = "quick")]
    #[expect(
        clippy::option_option,
        reason = "the option without a file is another thing than no option"
    )]
    write: Option<Option<PathBuf>>,
    /// Measure for a few milliseconds only, to see that it works
    #[arg(long)]
    quick: bool,
}

/// What was measured of one size with one team.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Cost {
    /// Half of the median time there and back, in microseconds.
    latency_us: f64,
    /// Messages a second of a stream.
    rate: f64,
}

impl Cost {
    /// One number for both, in microseconds: less is better.
    fn total_us(self) -> f64 {
        (self.latency_us * 1e6 / self.rate).sqrt()
    }
}

/// One size, played by two teams.
struct Row {
    size: usize,
    costs: [Cost; 2],
}

/// A length from which on messages go another way.
struct Threshold {
    question: &'static str,
    /// What the two ways are called.
    ways: [&'static str; 2],
    /// Lengths to be played.
    sizes: &'static [usize],
    /// Variables that have the threshold as their value.
    names: &'static [&'static str],
    /// Values with which all messages of these lengths go the first way, and the second.
    extremes: [usize; 2],
    bound: Bound,
}

/// What the value of a threshold is.
enum Bound {
    /// The longest length that goes the first way.
    Last,
    /// The shortest that goes the second.
    First,
}

const EAGER: &str = "FI_SHM_EAGER_SIZE";
const SEGMENTED: &str = "FI_SHM_SEGMENTED_SIZE";
const ASSIST: &str = "FI_SHM_ASSIST_SIZE";

/// The shortest lengths that a message in a lane may be limited to, and that may be copied by two, in bytes.
const LEAST: (usize, usize) = (4 << 10, 8 << 10);

/// Played with messages that are read from their sender's memory, however short.
const COPYING: Threshold = Threshold {
    question: "Who copies a message that is read from its sender's memory?",
    ways: ["receiver", "both"],
    sizes: &[
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
    ],
    names: &[ASSIST],
    extremes: [1 << 40, LEAST.1],
    bound: Bound::First,
};

const PLACE: Threshold = Threshold {
    question: "Where does the receiver get a message from?",
    ways: ["shared memory", "sender's memory"],
    sizes: &[6 << 10, 8 << 10, 12 << 10, 16 << 10, 24 << 10],
    names: &[EAGER, SEGMENTED],
    extremes: [32 << 10, LEAST.0],
    bound: Bound::Last,
};

/// Lengths with which what was found is compared with what is in force.
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
/// How often every size is played by each team; an odd number has a middle.
const ROUNDS: usize = 5;

impl Threshold {
    /// The settings that have this value.
    fn settings(&self, value: usize) -> Vec<Setting> {
        let names = self.names.iter();
        names.map(|name| (*name, value.to_string())).collect()
    }

    /// The value with which so many of the lengths go the first way.
    fn value(&self, first: usize) -> usize {
        let sizes = self.sizes;
        match self.bound {
            Bound::Last => first
                .checked_sub(1)
                .map_or(self.extremes[1], |last| sizes[last]),
            Bound::First => sizes.get(first).copied().unwrap_or(self.extremes[0]),
        }
    }

    /// Plays both ways, with `others` beside, and returns the settings with which messages cost least.
    fn find(&self, others: &[Setting], games: &Games) -> Result<(Vec<Row>, Vec<Setting>), Trouble> {
        let teams = self.extremes.map(|value| {
            let own = self.settings(value);
            own.into_iter().chain(others.iter().cloned()).collect()
        });
        let rows = games.play(&teams, self.sizes)?;
        let rivals: Vec<Rivals> = rows
            .iter()
            .map(|row| {
                let [short, long] = row.costs.map(Cost::total_us);
                Rivals { short, long }
            })
            .collect();
        let value = self.value(divide(&rivals));
        Ok((rows, self.settings(value)))
    }
}

/// How games are played.
struct Games {
    quick: bool,
    bar: ProgressBar,
}

impl Games {
    fn rounds(&self) -> usize {
        if self.quick { 1 } else { ROUNDS }
    }

    /// Lets two teams play sizes in turns.
    fn play(&self, teams: &[Vec<Setting>; 2], sizes: &[usize]) -> Result<Vec<Row>, Trouble> {
        let start = |settings: &Vec<Setting>| Team::start(settings, self.quick);
        let mut teams = [start(&teams[0])?, start(&teams[1])?];
        let row = |size: &usize| {
            let mut costs = [vec![], vec![]];
            for round in 0..self.rounds() {
                for turn in 0..2 {
                    let which = (round + turn) % 2;
                    costs[which].push(teams[which].play(*size)?);
                    self.bar.inc(1);
                }
            }
            Ok(Row {
                size: *size,
                costs: costs.map(|costs| middle(&costs)),
            })
        };
        let rows: Result<Vec<Row>, Trouble> = sizes.iter().map(row).collect();
        for team in teams {
            team.dismiss()?;
        }
        rows
    }
}

fn middle(costs: &[Cost]) -> Cost {
    let of = |part: fn(&Cost) -> f64| median(&mut costs.iter().map(part).collect::<Vec<_>>());
    Cost {
        latency_us: of(|cost| cost.latency_us),
        rate: of(|cost| cost.rate),
    }
}

/// Measures, says what is best here, and writes it if that is asked for.
pub(super) fn run(options: &Options) -> Result<ExitCode, Trouble> {
    let known = Backend::from_env()?.parameters()?;
    if !known.iter().any(|parameter| parameter.name == ASSIST) {
        return Err("the library that OXIFABRIC_LIBRARY names is not oxifabric's".into());
    }
    let cpus = two_cpus();
    print(|out| {
        writeln!(out, "oxi tune {}", env!("CARGO_PKG_VERSION"))?;
        Machine::look().describe(out, cpus)
    })?;
    if let Some(why) = forbids_reading() {
        let line =
            format!("all messages go through shared memory here: {why}; nothing can be chosen");
        print(|out| writeln!(out, "{line}"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut games = Games {
        quick: options.quick,
        bar: ProgressBar::hidden(),
    };
    let lengths = COPYING.sizes.len() + PLACE.sizes.len() + SIZES.len();
    games.bar = progress_bar(lengths * 2 * games.rounds());
    let (copying, mut found) = COPYING.find(&PLACE.settings(LEAST.0), &games)?;
    let (place, more) = PLACE.find(&found, &games)?;
    found.extend(more);
    print(|out| {
        games.bar.suspend(|| {
            table(out, COPYING.question, COPYING.ways, &copying)?;
            table(out, PLACE.question, PLACE.ways, &place)
        })
    })?;
    if found.iter().all(|setting| is_in_force(&known, setting)) {
        games.bar.finish_and_clear();
        print(|out| writeln!(out, "\nnothing to change: what is in force is best here"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let compared = games.play(&[vec![], found.clone()], &SIZES)?;
    games.bar.finish_and_clear();
    print(|out| table(out, "What does it bring?", ["now", "tuned"], &compared))?;
    let file = options.write.as_ref();
    let file = file.map(|named| named.clone().unwrap_or_else(conf::path));
    conclude(file.as_deref(), &found, gain(&compared))?;
    Ok(ExitCode::SUCCESS)
}

fn is_in_force(known: &[Parameter], (name, value): &Setting) -> bool {
    let parameter = known.iter().find(|parameter| parameter.name == *name);
    let now = parameter.and_then(|parameter| {
        let default = parameter.help.rsplit_once("(default: ");
        let default = default.and_then(|(_, rest)| rest.strip_suffix(')'));
        parameter.value.as_deref().or(default)
    });
    now == Some(value.as_str())
}

/// Says what to do, and does it if a file is named.
fn conclude(file: Option<&Path>, found: &[Setting], gain: f64) -> Result<(), Trouble> {
    let percent = gain * 100.0;
    if gain < WORTH {
        let line = format!("nothing to gain ({percent:.1} %): what is in force is as good");
        return Ok(print(|out| writeln!(out, "\n{line}"))?);
    }
    if let Some(path) = file {
        conf::write(path, found).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(print(|out| {
        match file {
            Some(path) => writeln!(
                out,
                "\n{} says now, for {percent:.1} % less:",
                path.display()
            )?,
            None => writeln!(
                out,
                "\nmessages cost {percent:.1} % less with these lines in {} (--write puts them there) or in the environment:",
                conf::path().display()
            )?,
        }
        let mut settings = found.iter();
        settings.try_for_each(|setting| writeln!(out, "  {}", conf::spell(setting)))
    })?)
}

/// How much less the second team's messages cost, on average.
fn gain(rows: &[Row]) -> f64 {
    let logs = rows.iter().map(|row| {
        let [now, tuned] = row.costs.map(Cost::total_us);
        (tuned / now).ln()
    });
    1.0 - (logs.sum::<f64>() / rows.len() as f64).exp()
}

fn table(out: &mut dyn Write, title: &str, ways: [&str; 2], rows: &[Row]) -> io::Result<()> {
    writeln!(out, "\n{title}")?;
    writeln!(
        out,
        "  {:>9}  {:>20}  {:>20}  {:>6}",
        "", ways[0], ways[1], ""
    )?;
    let [unit, line] = [
        format!("{:>9}  {:>9}", "one-way µs", "MB/s"),
        "─".repeat(20),
    ];
    writeln!(
        out,
        "  {:>9}  {unit:>20}  {unit:>20}  {:>6}",
        "size", "ratio"
    )?;
    writeln!(out, "  {:─>9}  {line}  {line}  {:─>6}", "", "")?;
    for row in rows {
        let cells = row.costs.map(|cost| {
            let bandwidth = cost.rate * row.size as f64 / 1e6;
            let [latency, bandwidth] = [cost.latency_us, bandwidth].map(spell_value);
            format!("{latency:>10} {bandwidth:>9}")
        });
        let [first, second] = row.costs.map(Cost::total_us);
        let (size, ratio) = (spell_size(row.size), second / first);
        writeln!(
            out,
            "  {size:>9}  {:>20}  {:>20}  {ratio:>6.2}",
            cells[0], cells[1]
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_lengths_on_their_side_of_the_threshold() {
        assert_eq!(PLACE.value(0), LEAST.0);
        assert_eq!(PLACE.value(2), 8 << 10);
        assert_eq!(PLACE.value(PLACE.sizes.len()), 24 << 10);
        assert_eq!(COPYING.value(0), 8 << 10);
        assert_eq!(COPYING.value(3), 24 << 10);
        assert_eq!(COPYING.value(COPYING.sizes.len()), COPYING.extremes[0]);
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
            (EAGER, None, "8192", true),
            (SEGMENTED, None, "8192", true),
            (ASSIST, None, "7", false),
            (ASSIST, Some("7"), "7", true),
            (ASSIST, Some("7"), "24576", false),
        ] {
            let is = is_in_force(&[with(name, now)], &(name, value.to_owned()));
            assert_eq!(is, expected, "{name} {now:?} {value}");
        }
        assert!(!is_in_force(&known, &("FI_NOBODY", String::new())));
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
