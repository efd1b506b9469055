//! Figures with a bar each, printed or drawn. The bars are logarithmic.

use core::fmt::Write as _;
use std::io::{self, Write};

use super::svg::escape;
use super::{Axis, Scale};
use crate::units::spell_value;

/// One figure.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Of what.
    pub label: String,
    /// How long that takes, in nanoseconds.
    pub time_ns: f64,
    /// What else there is to say; may be empty.
    pub note: String,
}

impl Bar {
    /// Returns a figure without a note.
    pub fn new(label: impl Into<String>, time_ns: f64) -> Self {
        Self {
            label: label.into(),
            time_ns,
            note: String::new(),
        }
    }

    /// Returns the figure with a note.
    #[must_use]
    pub fn with(self, note: String) -> Self {
        Self { note, ..self }
    }
}

/// Columns of the longest bar.
const COLUMNS: usize = 32;

/// Prints the figures, each with a bar and as a multiple of the first.
///
/// # Errors
/// `out` takes no more.
pub fn print(out: &mut dyn Write, sentence: &str, bars: &[Bar]) -> io::Result<()> {
    let longest = bars.iter().map(|bar| bar.label.chars().count()).max();
    let width = longest.unwrap_or(0);
    writeln!(out, "{sentence}\n")?;
    writeln!(out, "  {:width$}  {:>10}  {:>10}", "", "ns", "times")?;
    for bar in bars {
        let times = bar.time_ns / bars[0].time_ns;
        let cells = (share(bar, bars) * COLUMNS as f64).round() as usize;
        let line = format!(
            "  {:<width$}  {:>10}  {:>10}  {:<COLUMNS$}  {}",
            bar.label,
            spell_value(bar.time_ns),
            spell_value(times),
            "█".repeat(cells.max(1)),
            bar.note,
        );
        writeln!(out, "{}", line.trim_end())?;
    }
    writeln!(out, "\n  The bars are logarithmic.")
}

/// Returns how long the bar of a figure is, from 0 to 1: the longest is 1, and a tenth of the shortest would be 0.
fn share(bar: &Bar, bars: &[Bar]) -> f64 {
    let shortest = bars.iter().map(|bar| bar.time_ns).fold(f64::MAX, f64::min);
    let ends = bars.iter().map(|bar| bar.time_ns).chain([shortest / 10.0]);
    Axis::around(Scale::Logarithmic, ends).map_or(0.0, |axis| axis.share(bar.time_ns))
}

/// Units of the picture: its width, the columns of labels and of bars, and the height of a row.
const WIDTH: usize = 720;
const LABELS: usize = 300;
const BARS: usize = 300;
const ROW: usize = 30;

/// Draws horizontal bars as SVG, one below the other, on white so that they can be read on pages of any colour.
#[must_use]
pub fn draw(title: &str, sentence: &str, bars: &[Bar]) -> String {
    let height = ROW * (bars.len() + 3);
    let mut svg = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" font-family="sans-serif" font-size="14">
<title>{title}</title>
<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>
<text x="16" y="26" font-weight="bold">{}</text>
"##,
        escape(sentence)
    );
    for (at, bar) in bars.iter().enumerate() {
        // Writing to a string cannot fail.
        _ = draw_one(&mut svg, bar, share(bar, bars), ROW * (at + 2));
    }
    let foot = height - ROW / 2;
    _ = writeln!(
        svg,
        r##"<text x="16" y="{foot}" fill="#555555" font-size="12">{title}; the bars are logarithmic</text>"##
    );
    svg + "</svg>\n"
}

fn draw_one(svg: &mut String, bar: &Bar, share: f64, baseline: usize) -> core::fmt::Result {
    let (label, top) = (escape(&bar.label), baseline - ROW / 2);
    let (length, height) = (share * BARS as f64, ROW * 2 / 3);
    let (end, value) = (LABELS as f64 + length + 8.0, spell_value(bar.time_ns));
    let right = LABELS - 8;
    writeln!(
        svg,
        r##"<text x="{right}" y="{baseline}" text-anchor="end">{label}</text>
<rect x="{LABELS}" y="{top}" width="{length:.0}" height="{height}" fill="#2a78b5"/>
<text x="{end:.0}" y="{baseline}">{value} ns</text>"##
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_spelled_and_compared_with_the_first() {
        let bars = [
            Bar::new("one", 2.0),
            Bar::new("another", 200.0).with("and more".to_owned()),
        ];
        let mut out = Vec::new();
        print(&mut out, "What it costs.", &bars).unwrap();
        let text = String::from_utf8(out).unwrap();
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
        assert_eq!(
            (bar(lines[3]), bar(lines[4])),
            (COLUMNS.div_ceil(3), COLUMNS)
        );
    }

    #[test]
    fn every_figure_has_its_bar() {
        let bars = [Bar::new("a < b", 1.0), Bar::new("c", 100.0)];
        let svg = draw("oxi lab x", "What it costs.", &bars);
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert_eq!(svg.matches("fill=\"#2a78b5\"").count(), bars.len());
        assert!(svg.contains("a &lt; b") && svg.contains(">1.00 ns<") && svg.contains(">100 ns<"));
        assert!(svg.contains(&format!("width=\"{BARS}\"")), "{svg}");
    }
}
