//! Curves as SVG, on white so that they can be read on pages of any colour.

use core::fmt::Write;

use super::{Axis, Scale, Series};
use crate::units::spell_value;

/// What a drawing says beside its curves.
#[derive(Clone, Copy, Debug)]
pub struct Labels<'a> {
    /// What is drawn.
    pub title: &'a str,
    /// What lies across.
    pub across: &'a str,
    /// What lies upwards.
    pub upwards: &'a str,
}

/// A chart of curves.
pub struct Drawing<'a> {
    labels: Labels<'a>,
    x: Axis,
    y: Axis,
    /// Values across that have a label, with it.
    marks: Vec<(f64, String)>,
    /// A value upwards that a line shows.
    level: Option<f64>,
    series: &'a [Series],
}

/// Units of the picture: its width and height, and the plot in it from left and top to right and bottom.
const SIZE: (f64, f64) = (720.0, 420.0);
const PLOT: [f64; 4] = [76.0, 44.0, 700.0, 364.0];
/// Distance of the lines of the legend.
const LINE: f64 = 18.0;
/// Colours that differ for the colour-blind, too (Okabe and Ito).
const COLOURS: [&str; 6] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#000000",
];

impl<'a> Drawing<'a> {
    /// Returns the drawing of curves over two axes; `None` where there is nothing to draw.
    #[must_use]
    pub fn new(labels: Labels<'a>, scales: [Scale; 2], series: &'a [Series]) -> Option<Self> {
        let points = || series.iter().flat_map(|series| &series.points);
        let x = Axis::around(scales[0], points().map(|point| point.0))?;
        let y = Axis::around(scales[1], points().map(|point| point.1))?;
        let marks = x.ticks().into_iter();
        Some(Self {
            labels,
            x,
            y: y.with_margin(0.04),
            marks: marks.map(|tick| (tick, spell(tick))).collect(),
            level: None,
            series,
        })
    }

    /// Puts labels at these values across.
    #[must_use]
    pub fn marks(mut self, marks: Vec<(f64, String)>) -> Self {
        self.marks = marks;
        self
    }

    /// Shows one value upwards by a line.
    #[must_use]
    pub fn level(mut self, value: f64) -> Self {
        self.level = Some(value);
        self
    }

    /// Writes it.
    #[must_use]
    pub fn svg(&self) -> String {
        let ((width, height), title) = (SIZE, escape(self.labels.title));
        let mut svg = format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" font-family="sans-serif" font-size="12">
<title>{title}</title>
<rect width="{width}" height="{height}" fill="#ffffff"/>
<text x="16" y="26" font-size="15" font-weight="bold">{title}</text>
"##
        );
        // Writing to a string cannot fail.
        _ = self.frame(&mut svg);
        for (at, series) in self.series.iter().enumerate() {
            _ = self.curve(&mut svg, at, series);
        }
        svg + "</svg>\n"
    }

    /// Writes both axes with their values.
    fn frame(&self, svg: &mut String) -> core::fmt::Result {
        let [left, top, right, bottom] = PLOT;
        for tick in self.y.ticks() {
            let (y, value) = (self.place((0.0, tick)).1, spell(tick));
            writeln!(
                svg,
                r##"<path d="M{left} {y:.1}H{right}" stroke="#e0e0e0"/><text x="{:.1}" y="{:.1}" text-anchor="end">{value}</text>"##,
                left - 6.0,
                y + 4.0
            )?;
        }
        for (value, label) in &self.marks {
            let (x, label) = (self.place((*value, 0.0)).0, escape(label));
            writeln!(
                svg,
                r##"<path d="M{x:.1} {top}V{bottom}" stroke="#f0f0f0"/><text x="{x:.1}" y="{:.1}" text-anchor="middle">{label}</text>"##,
                bottom + 16.0
            )?;
        }
        if let Some(level) = self.level {
            let y = self.place((0.0, level)).1;
            writeln!(
                svg,
                r##"<path d="M{left} {y:.1}H{right}" stroke="#555555" stroke-dasharray="4 3"/>"##
            )?;
        }
        let (across, upwards) = (escape(self.labels.across), escape(self.labels.upwards));
        let (middle, centre, foot) = ((left + right) / 2.0, (top + bottom) / 2.0, bottom + 40.0);
        writeln!(
            svg,
            r##"<path d="M{left} {top}V{bottom}H{right}" fill="none" stroke="#000000"/>
<text x="{middle}" y="{foot}" text-anchor="middle">{across}</text>
<text x="16" y="{centre}" text-anchor="middle" transform="rotate(-90 16 {centre})">{upwards}</text>"##
        )
    }

    /// Writes one curve, and its line of the legend.
    fn curve(&self, svg: &mut String, at: usize, series: &Series) -> core::fmt::Result {
        let (colour, name) = (COLOURS[at % COLOURS.len()], escape(&series.name));
        let places = series.points.iter().map(|point| self.place(*point));
        let path: Vec<String> = places.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let (left, y) = (PLOT[0] + 14.0, PLOT[1] + 6.0 + LINE * at as f64);
        writeln!(
            svg,
            r##"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="2"/>
<path d="M{left} {y}h18" stroke="{colour}" stroke-width="2"/><text x="{}" y="{}">{name}</text>"##,
            path.join(" "),
            left + 24.0,
            y + 4.0
        )
    }

    fn place(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let [left, top, right, bottom] = PLOT;
        let across = left + self.x.share(x) * (right - left);
        (across, bottom - self.y.share(y) * (bottom - top))
    }
}

/// Returns the label of a round value.
fn spell(tick: f64) -> String {
    match tick.abs() {
        0.0..10.0 => format!("{}", (tick * 1e9).round() / 1e9),
        _ => spell_value(tick),
    }
}

/// Returns text as XML spells it.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(series: &[Series]) -> Option<String> {
        let labels = Labels {
            title: "speed & more",
            across: "bytes",
            upwards: "us",
        };
        let drawing = Drawing::new(labels, [Scale::Logarithmic, Scale::Linear], series)?;
        let marks = vec![(1.0, "1 B".to_owned())];
        Some(drawing.marks(marks).level(50.0).svg())
    }

    #[test]
    fn each_curve_is_drawn_with_its_name_from_edge_to_edge() {
        let series = ["ours", "theirs < all"].map(|name| Series {
            name: name.to_owned(),
            points: vec![(1.0, 100.0), (20.0, 10.0)],
        });
        let text = drawn(&series).expect("a drawing");
        assert_eq!(text.matches("<polyline").count(), 2);
        for word in [
            "<svg",
            ">ours<",
            "theirs &lt; all",
            "speed &amp; more",
            ">1 B<",
            "4 3",
        ] {
            assert!(text.contains(word), "{word} is missing in {text}");
        }
        let [left, top, right, bottom] = PLOT;
        let corner = 0.04 / 1.08 * (bottom - top);
        let expected = format!(
            "{left:.1},{:.1} {right:.1},{:.1}",
            top + corner,
            bottom - corner
        );
        assert!(text.contains(&expected), "{expected} is missing in {text}");
    }

    #[test]
    fn labels_have_no_more_digits_than_they_need() {
        let ticks = [0.0, 0.001, 0.30000000000000004, 5.0, 100.0, 1e6];
        let labels = ["0", "0.001", "0.3", "5", "100", "1,000,000"];
        assert_eq!(ticks.map(spell), labels);
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        assert!(drawn(&[]).is_none());
    }
}
