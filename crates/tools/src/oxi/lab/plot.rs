//! Figures as a picture for pages.

use core::fmt::Write;

use super::super::table::spell_value;
use super::{Row, share};

/// Units of the picture: its width, the columns of labels and of bars, and the height of a row.
const WIDTH: usize = 720;
const LABELS: usize = 300;
const BARS: usize = 300;
const ROW: usize = 30;

/// Draws horizontal bars, one below the other, on white so that they can be read on pages of any colour.
pub(super) fn draw(title: &str, sentence: &str, rows: &[Row]) -> String {
    let height = ROW * (rows.len() + 3);
    let mut svg = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" font-family="sans-serif" font-size="14">
<title>{title}</title>
<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>
<text x="16" y="26" font-weight="bold">{}</text>
"##,
        escape(sentence)
    );
    for (at, row) in rows.iter().enumerate() {
        // Writing to a string cannot fail.
        _ = write_row(&mut svg, row, share(row, rows), ROW * (at + 2));
    }
    let foot = height - ROW / 2;
    _ = writeln!(
        svg,
        r##"<text x="16" y="{foot}" fill="#555555" font-size="12">{title}; the bars are logarithmic</text>"##
    );
    svg + "</svg>\n"
}

fn write_row(svg: &mut String, row: &Row, share: f64, baseline: usize) -> core::fmt::Result {
    let (label, top) = (escape(&row.label), baseline - ROW / 2);
    let (bar, height) = (share * BARS as f64, ROW * 2 / 3);
    let (end, value) = (LABELS as f64 + bar + 8.0, spell_value(row.time_ns));
    let right = LABELS - 8;
    writeln!(
        svg,
        r##"<text x="{right}" y="{baseline}" text-anchor="end">{label}</text>
<rect x="{LABELS}" y="{top}" width="{bar:.0}" height="{height}" fill="#2a78b5"/>
<text x="{end:.0}" y="{baseline}">{value} ns</text>"##
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_has_its_bar() {
        let rows = [Row::new("a < b", 1.0), Row::new("c", 100.0)];
        let svg = draw("oxi lab x", "What it costs.", &rows);
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert_eq!(svg.matches("fill=\"#2a78b5\"").count(), rows.len());
        assert!(svg.contains("a &lt; b") && svg.contains(">1.00 ns<") && svg.contains(">100 ns<"));
        assert!(svg.contains(&format!("width=\"{BARS}\"")), "{svg}");
    }
}
