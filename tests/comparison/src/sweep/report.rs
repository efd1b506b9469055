//! A sweep for people and for programs: where the reference is ahead, tables, curves, JSON.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use oxifabric_bench::chart::svg::{Drawing, Labels};
use oxifabric_bench::chart::{Scale, Series};
use oxifabric_bench::statistics::median;
use oxifabric_bench::table::{Column, Table};
use oxifabric_bench::units::{spell_size, spell_value};
use serde_json::{Value, json};

use super::{Sweep, Swept, Times, scale_over};
use crate::page;

/// What was swept.
pub(super) struct Report<'a> {
    sweep: &'a Sweep<'a>,
    all: &'a [Swept<'a>],
}

const BEHIND: Table<'static> = Table(&[
    Column::text("provider", 12),
    Column::text("program", 24),
    Column::numbers("size", 9),
    Column::numbers("ratio", 6),
    Column::numbers("reference itself", 17),
]);

const SIZES: Table<'static> = Table(&[
    Column::numbers("size", 9),
    Column::numbers("ours", 11),
    Column::numbers("reference", 11),
    Column::numbers("ratio", 6),
    Column::numbers("reference itself", 17),
]);

impl<'a> Report<'a> {
    pub(super) const fn new(sweep: &'a Sweep<'a>, all: &'a [Swept<'a>]) -> Self {
        Self { sweep, all }
    }

    /// Returns all that is printed: first where the reference is ahead, then each work.
    pub(super) fn text(&self) -> String {
        let [ours, reference] = &self.sweep.versions;
        let machine = self.sweep.cores.description();
        let mut text = format!(
            "{machine}\n{ours} against {reference}, medians of rounds in turns. Ratio is the median of ours / reference in each round, of times for \
             ping-pong, of rates for all else; \"reference itself\" is how far its rounds stray from their median.\n\n"
        );
        text += &behind(self.all);
        for swept in self.all {
            let (provider, name, unit) = (swept.provider, &swept.name, swept.unit());
            text += &format!(
                "\n{provider}, {name}, {unit}, {} rounds, {} of the usual number of messages\n{}\n{}\n",
                swept.rounds,
                scale_over(provider, self.sweep.scale),
                SIZES.head(),
                SIZES.rule()
            );
            for (bytes, times) in swept.sizes() {
                text += &line(swept, bytes, times);
            }
            if let Some(trouble) = &swept.trouble {
                text += &format!("  ended early: {trouble}\n");
            }
        }
        text
    }

    /// Writes the figures, the page, and a drawing of figures and one of ratios for each work. Returns the files.
    pub(super) fn write(&self, place: &Path) -> io::Result<Vec<PathBuf>> {
        let mut written = Vec::new();
        let mut write = |name: String, text: &str| {
            written.push(place.join(name));
            fs::write(&written[written.len() - 1], text)
        };
        let mut drawings = Vec::new();
        for swept in self.all {
            let names = [swept.provider, &swept.name].map(|name| name.replace([' ', ';'], "-"));
            for (kind, drawing) in [("figures", figures(swept)), ("ratio", ratios(swept))] {
                if let Some(drawing) = drawing {
                    write(format!("sweep-{}-{kind}.svg", names.join("-")), &drawing)?;
                    drawings.push(drawing);
                }
            }
        }
        write("sweep.json".to_owned(), &format!("{:#}\n", self.json()))?;
        write(
            "sweep.html".to_owned(),
            &page::html(&self.text(), &drawings),
        )?;
        Ok(written)
    }

    fn json(&self) -> Value {
        let sizes = |swept: &Swept<'_>| -> Vec<Value> {
            let size = |(bytes, times): (u64, &Times)| {
                json!({
                    "bytes": bytes,
                    "ratio": swept.ratio(times),
                    "reference_itself": strays(swept, times),
                    "ours_us": times.ours,
                    "reference_us": times.reference,
                })
            };
            swept.sizes().map(size).collect()
        };
        let one = |swept: &Swept<'_>| {
            json!({
                "provider": swept.provider,
                "program": swept.name,
                "ratio_of": if swept.in_turns { "times" } else { "rates" },
                "rounds": swept.rounds,
                "scale": scale_over(swept.provider, self.sweep.scale),
                "sizes": sizes(swept),
                "trouble": swept.trouble,
            })
        };
        json!({
            "machine": self.sweep.cores.description(),
            "versions": self.sweep.versions,
            "sweeps": self.all.iter().map(one).collect::<Vec<_>>(),
        })
    }
}

/// Lists the sizes at which the reference is ahead, the worst first.
fn behind(all: &[Swept<'_>]) -> String {
    let sizes = all.iter().flat_map(|swept| {
        swept
            .sizes()
            .map(move |(bytes, times)| (swept, bytes, times))
    });
    let mut behind: Vec<_> = sizes.filter(|(_, _, times)| times.cost() > 1.0).collect();
    if behind.is_empty() {
        return "There is no size at which the reference is ahead.\n".to_owned();
    }
    behind.sort_by(|(_, _, one), (_, _, other)| other.cost().total_cmp(&one.cost()));
    let within = behind
        .iter()
        .filter(|(_, _, times)| times.is_within_strays());
    let mut text = format!(
        "The reference is ahead at {} sizes, at {} of them by no more than it strays from itself:\n{}\n{}\n",
        behind.len(),
        within.count(),
        BEHIND.head(),
        BEHIND.rule()
    );
    for (swept, bytes, times) in behind {
        let [ratio, itself] = ratio_cells(swept, times);
        let within = if times.is_within_strays() {
            "within"
        } else {
            ""
        };
        let size = spell_size(bytes as usize);
        text += &BEHIND.row([swept.provider, &swept.name, &size, &ratio, &itself, within]);
        text.push('\n');
    }
    text
}

fn line(swept: &Swept<'_>, bytes: u64, times: &Times) -> String {
    let figure = |times: &[f64]| spell_value(swept.figure(bytes, median(times)));
    let [ratio, itself] = ratio_cells(swept, times);
    let (ours, reference) = (figure(&times.ours), figure(&times.reference));
    SIZES.row([spell_size(bytes as usize), ours, reference, ratio, itself]) + "\n"
}

fn ratio_cells(swept: &Swept<'_>, times: &Times) -> [String; 2] {
    let itself = match times.reference.as_slice() {
        [_] => "one round".to_owned(),
        _ => {
            let (least, most) = strays(swept, times);
            format!("{least:.2}..{most:.2}")
        }
    };
    [format!("{:.2}", swept.ratio(times)), itself]
}

/// Returns how far the figures of the reference stray from their median, of times or of rates.
fn strays(swept: &Swept<'_>, times: &Times) -> (f64, f64) {
    let (least, most) = times.strays();
    match swept.in_turns {
        true => (least, most),
        false => (1.0 / most, 1.0 / least),
    }
}

/// Draws the figures of both libraries.
fn figures(swept: &Swept<'_>) -> Option<String> {
    let curve = |name: &str, of: fn(&Times) -> &[f64]| Series {
        name: name.to_owned(),
        points: (swept.sizes())
            .map(|(bytes, times)| (bytes as f64, swept.figure(bytes, median(of(times)))))
            .collect(),
    };
    let series = [
        curve("ours", |times| &times.ours),
        curve("reference", |times| &times.reference),
    ];
    draw(swept, swept.unit(), None, &series)
}

/// Draws the ratio, between the bounds in which the reference strays from itself.
fn ratios(swept: &Swept<'_>) -> Option<String> {
    let curve = |name: &str, of: &dyn Fn(&Times) -> f64| Series {
        name: name.to_owned(),
        points: (swept.sizes())
            .map(|(bytes, times)| (bytes as f64, of(times)))
            .collect(),
    };
    let series = [
        curve("ours / reference", &|times| swept.ratio(times)),
        curve("reference, its least", &|times| strays(swept, times).0),
        curve("reference, its most", &|times| strays(swept, times).1),
    ];
    let better = if swept.in_turns { "less" } else { "more" };
    draw(
        swept,
        &format!("ratio, {better} is better"),
        Some(1.0),
        &series,
    )
}

fn draw(swept: &Swept<'_>, upwards: &str, level: Option<f64>, series: &[Series]) -> Option<String> {
    let labels = Labels {
        title: &format!("{}, {}", swept.provider, swept.name),
        across: "length of a message",
        upwards,
    };
    let powers = swept.sizes().filter(|(bytes, _)| bytes.is_power_of_two());
    let marks = powers.map(|(bytes, _)| (bytes as f64, spell_size(bytes as usize)));
    let drawing = Drawing::new(labels, [Scale::Logarithmic; 2], series)?;
    let drawing = drawing.marks(marks.step_by(3).collect());
    Some(level.map_or(drawing.svg(), |level| drawing.level(level).svg()))
}

#[cfg(test)]
mod tests {
    use super::super::tests::swept;
    use super::*;

    #[test]
    fn sizes_at_which_the_reference_is_ahead_come_worst_first() {
        let all = [
            swept(
                "pingpong",
                true,
                &[(8, 1.0, 2.0), (16, 2.2, 2.0), (16, 2.2, 2.0)],
            ),
            swept("bw", false, &[(1024, 3.0, 1.5), (2048, 1.0, 1.0)]),
        ];
        let text = behind(&all);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5, "{text}");
        assert!(lines[0].contains("at 2 sizes, at 0 of them"), "{text}");
        let words = |line: &str| {
            line.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            words(lines[3]),
            ["shm", "bw", "1", "KiB", "0.50", "one", "round"]
        );
        assert_eq!(
            words(lines[4]),
            ["shm", "pingpong", "16", "B", "1.10", "1.00..1.00"]
        );
    }

    #[test]
    fn no_size_is_said_to_be_none() {
        let text = behind(&[swept("bw", false, &[(8, 1.0, 2.0)])]);
        assert_eq!(text, "There is no size at which the reference is ahead.\n");
    }

    #[test]
    fn both_drawings_show_the_sizes() {
        let swept = swept("bw", false, &[(1, 1.0, 2.0), (8, 1.0, 2.0), (64, 2.0, 2.0)]);
        let (figures, ratios) = (figures(&swept).unwrap(), ratios(&swept).unwrap());
        for drawing in [&figures, &ratios] {
            assert!(
                drawing.contains(">8 B<") || drawing.contains(">1 B<"),
                "{drawing}"
            );
        }
        assert!(figures.contains(">reference<") && figures.contains(">MB/s<"));
        assert!(ratios.contains("more is better") && ratios.contains("stroke-dasharray"));
    }
}
