//! Charts in a terminal: both axes logarithmic, a mark for each measurement, a line between them.

use std::io::{self, Write};

use super::{Axis, Scale, Series};
use crate::units::{spell_size, spell_value};

/// Marks of measurements, one for each series, and how they are coloured.
const MARKS: [(char, u8); 6] = [
    ('●', 36),
    ('▲', 33),
    ('■', 35),
    ('◆', 32),
    ('○', 34),
    ('△', 31),
];
/// What lies between two measurements.
const DOT: char = '·';
/// Columns and rows of the plot.
const WIDTH: usize = 64;
const HEIGHT: usize = 14;
/// Columns of the labels on the left.
const LABELS: usize = 9;

/// Prints a chart over lengths in bytes.
///
/// # Errors
/// `out` takes no more.
pub fn print(out: &mut dyn Write, title: &str, series: &[Series], colour: bool) -> io::Result<()> {
    print_over(out, title, series, colour, spell_size)
}

/// Prints a chart over numbers.
///
/// # Errors
/// As [`print()`].
pub fn print_counts(
    out: &mut dyn Write,
    title: &str,
    series: &[Series],
    colour: bool,
) -> io::Result<()> {
    print_over(out, title, series, colour, |count| {
        spell_value(count as f64)
    })
}

fn print_over(
    out: &mut dyn Write,
    title: &str,
    series: &[Series],
    colour: bool,
    spell: fn(usize) -> String,
) -> io::Result<()> {
    let Some(plot) = Plot::new(series) else {
        return Ok(());
    };
    writeln!(out, "  {title}")?;
    for (row, cells) in plot.cells.iter().enumerate() {
        let label = label(&plot.y, HEIGHT - 1 - row, HEIGHT);
        let axis = if label.is_empty() { '│' } else { '┤' };
        write!(out, "  {label:>LABELS$} {axis}")?;
        write_cells(out, cells, colour)?;
        writeln!(out)?;
    }
    writeln!(out, "  {:LABELS$} └{}", "", "─".repeat(WIDTH))?;
    writeln!(out, "  {:LABELS$}  {}", "", plot.x_labels(spell))?;
    let legend = series.iter().enumerate().map(|(at, series)| {
        let (mark, code) = mark(at);
        format!("{} {}", paint(mark, code, colour), series.name)
    });
    writeln!(
        out,
        "  {:LABELS$}  {}",
        "",
        legend.collect::<Vec<_>>().join("   ")
    )
}

/// A character of the plot and the series that it belongs to.
type Cell = Option<(char, usize)>;

struct Plot {
    cells: Vec<Vec<Cell>>,
    x: Axis,
    y: Axis,
}

impl Plot {
    /// Draws the series; `None` when there is nothing to draw.
    fn new(series: &[Series]) -> Option<Self> {
        let all = || series.iter().flat_map(|series| &series.points);
        let mut plot = Self {
            cells: vec![vec![None; WIDTH]; HEIGHT],
            x: Axis::around(Scale::Logarithmic, all().map(|point| point.0))?,
            y: Axis::around(Scale::Logarithmic, all().map(|point| point.1))?,
        };
        for (at, series) in series.iter().enumerate() {
            for pair in series.points.windows(2) {
                plot.line(pair[0], pair[1], at);
            }
        }
        for (at, series) in series.iter().enumerate() {
            for point in &series.points {
                plot.set(plot.place(*point), Some((mark(at).0, at)));
            }
        }
        Some(plot)
    }

    fn place(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (
            self.x.share(x) * (WIDTH - 1) as f64,
            self.y.share(y) * (HEIGHT - 1) as f64,
        )
    }

    fn line(&mut self, from: (f64, f64), to: (f64, f64), series: usize) {
        let (from, to) = (self.place(from), self.place(to));
        let steps = (to.0 - from.0).abs().max((to.1 - from.1).abs()).ceil() as usize;
        for step in 1..steps {
            let share = step as f64 / steps as f64;
            let at = (
                from.0 + (to.0 - from.0) * share,
                from.1 + (to.1 - from.1) * share,
            );
            self.set(at, Some((DOT, series)));
        }
    }

    fn set(&mut self, (column, row): (f64, f64), cell: Cell) {
        let row = (HEIGHT - 1).saturating_sub(row.round() as usize);
        if let Some(place) = self
            .cells
            .get_mut(row)
            .and_then(|row| row.get_mut(column.round() as usize))
        {
            *place = cell;
        }
    }

    /// Numbers under the plot: the first, the last and some between them.
    fn x_labels(&self, spell: fn(usize) -> String) -> String {
        const BETWEEN: usize = 3;
        let mut line = String::new();
        for at in 0..=BETWEEN {
            let share = at as f64 / (BETWEEN + 1) as f64;
            let column = (share * WIDTH as f64) as usize;
            let missing = column.saturating_sub(line.chars().count());
            line.extend(std::iter::repeat_n(' ', missing));
            line.push_str(&spell(power_of_two(self.x.value(share))));
        }
        let last = spell(power_of_two(self.x.value(1.0)));
        let missing = WIDTH.saturating_sub(line.chars().count());
        format!("{line}{last:>missing$}")
    }
}

/// Returns the nearest power of two.
fn power_of_two(value: f64) -> usize {
    value.log2().round().exp2() as usize
}

/// Returns the label of a step of a logarithmic axis: a power of ten that falls on it, or an end of the axis.
fn label(axis: &Axis, step: usize, steps: usize) -> String {
    let width = 1.0 / (steps - 1) as f64;
    let share = step as f64 * width;
    let power = 10_f64.powf(axis.value(share).log10().round());
    let falls_here = (axis.value(0.0)..=axis.value(1.0)).contains(&power)
        && (axis.share(power) - share).abs() <= width / 2.0;
    if falls_here {
        spell_value(power)
    } else if step == 0 || step == steps - 1 {
        spell_value(axis.value(share))
    } else {
        String::new()
    }
}

fn mark(series: usize) -> (char, u8) {
    MARKS[series % MARKS.len()]
}

fn write_cells(out: &mut dyn Write, cells: &[Cell], colour: bool) -> io::Result<()> {
    let drawn = cells.iter().rposition(Option::is_some);
    for cell in &cells[..drawn.map_or(0, |last| last + 1)] {
        match cell {
            Some((letter, series)) => write!(out, "{}", paint(*letter, mark(*series).1, colour))?,
            None => write!(out, " ")?,
        }
    }
    Ok(())
}

fn paint(letter: char, code: u8, colour: bool) -> String {
    if colour {
        format!("\x1b[{code}m{letter}\x1b[0m")
    } else {
        letter.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(points: Vec<(f64, f64)>) -> String {
        let series = [Series {
            name: "shm".to_owned(),
            points,
        }];
        let mut out = Vec::new();
        print(&mut out, "latency", &series, false).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_rising_line_goes_from_the_lower_left_to_the_upper_right() {
        let text = draw(vec![(8.0, 1.0), (4_194_304.0, 1000.0)]);
        let rows: Vec<&str> = text.lines().collect();
        assert!(rows[1].starts_with("      1,000 ┤"), "{text}");
        assert_eq!(rows[1].chars().last(), Some('●'), "{text}");
        assert!(rows[HEIGHT].starts_with("       1.00 ┤●"), "{text}");
        assert!(rows[HEIGHT + 2].contains("8 B"), "{text}");
        assert!(rows[HEIGHT + 3].contains("● shm"), "{text}");
    }

    #[test]
    fn one_point_and_none_are_drawn_too() {
        assert_eq!(draw(vec![(8.0, 1.0)]).matches('●').count(), 2);
        assert_eq!(draw(vec![]), "");
    }
}
