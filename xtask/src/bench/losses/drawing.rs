//! Curves over the share of lost packets, as SVG: the share from left to right, MB/s upwards in powers of ten.

use std::fmt::Write as _;

/// A curve and what it is of.
pub(super) struct Curve {
    pub(super) name: String,
    /// Percent, and MB/s.
    pub(super) points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 90.0;
const TOP: f64 = 20.0;
const BOTTOM: f64 = 50.0;

/// The largest share, in percent.
const MOST: f64 = 20.0;
/// The powers of ten at the bottom and at the top.
const DECADES: (i32, i32) = (0, 4);

const COLOURS: [&str; 4] = ["#1b6ca8", "#c8553d", "#3a7d44", "#6b4c9a"];

/// Draws the curves.
pub(super) fn svg(curves: &[Curve]) -> String {
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n"
    );
    axes(&mut text);
    for (curve, colour) in curves.iter().zip(COLOURS.iter().cycle()) {
        draw(&mut text, curve, colour);
    }
    text.push_str("</svg>\n");
    text
}

fn axes(text: &mut String) {
    let (left, right) = (LEFT, WIDTH - RIGHT);
    for decade in DECADES.0..=DECADES.1 {
        let (figure, y) = (10f64.powi(decade), y(10f64.powi(decade)));
        let label = left - 8.0;
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "<path d=\"M{left} {y:.1}H{right}\" stroke=\"#ddd\"/><text x=\"{label}\" y=\"{y:.1}\" dy=\"4\" text-anchor=\"end\">{figure}</text>"
        );
    }
    let base = HEIGHT - BOTTOM;
    for share in [0.0, 1.0, 2.0, 5.0, 10.0, 20.0] {
        let (x, label) = (x(share), base + 18.0);
        let _ = writeln!(
            text,
            "<path d=\"M{x:.1} {base}v5\" stroke=\"#888\"/><text x=\"{x:.1}\" y=\"{label}\" text-anchor=\"middle\">{share} %</text>"
        );
    }
    let (middle, below) = ((left + right) / 2.0, HEIGHT - 10.0);
    let _ = writeln!(
        text,
        "<text x=\"{middle}\" y=\"{below}\" text-anchor=\"middle\">packets lost, each way</text>\
         <text x=\"14\" y=\"{}\" transform=\"rotate(-90 14 {})\" text-anchor=\"middle\">goodput, MB/s</text>",
        HEIGHT / 2.0,
        HEIGHT / 2.0
    );
}

fn draw(text: &mut String, curve: &Curve, colour: &str) {
    let points: Vec<String> = (curve.points.iter())
        .map(|&(share, figure)| format!("{:.1},{:.1}", x(share), y(figure)))
        .collect();
    let joined = points.join(" ");
    let _ = writeln!(
        text,
        "<polyline points=\"{joined}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>"
    );
    if let Some(&(share, figure)) = curve.points.last() {
        let (x, y, name) = (x(share) + 6.0, y(figure), &curve.name);
        let _ = writeln!(
            text,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" dy=\"4\" fill=\"{colour}\">{name}</text>"
        );
    }
}

/// Small shares have more room: the square root of the share counts.
fn x(share: f64) -> f64 {
    LEFT + (WIDTH - LEFT - RIGHT) * (share / MOST).sqrt()
}

fn y(figure: f64) -> f64 {
    let (lowest, highest) = (f64::from(DECADES.0), f64::from(DECADES.1));
    let part = (figure.max(1.0).log10() - lowest) / (highest - lowest);
    HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * part.clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_loss_is_further_right_and_more_goodput_further_up() {
        assert!(x(0.0) < x(0.1) && x(0.1) < x(20.0) && x(20.0) <= WIDTH - RIGHT);
        assert!(y(10.0) > y(1000.0) && y(1e9) >= TOP && y(0.0) <= HEIGHT - BOTTOM);
    }

    #[test]
    fn each_curve_is_drawn_with_its_name() {
        let curve = Curve {
            name: "1 KiB".into(),
            points: vec![(0.0, 100.0), (20.0, 10.0)],
        };
        let text = svg(&[curve]);
        assert_eq!(text.matches("<polyline").count(), 1);
        assert!(text.contains(">1 KiB</text>") && text.ends_with("</svg>\n"));
    }
}
