//! Curves as SVG.

use std::error::Error;

use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;

/// A curve and what it is of.
pub(super) struct Curve {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
}

/// What is said beside the axes.
pub(super) struct Labels<'a> {
    pub(super) caption: &'a str,
    pub(super) across: &'a str,
    pub(super) upwards: &'a str,
    /// How a value across is written.
    pub(super) spell: &'a dyn Fn(&f64) -> String,
}

const SIZE: (u32, u32) = (720, 420);
/// Colours that differ for the colour-blind, too (Okabe and Ito).
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];

/// Draws the curves over two axes.
///
/// # Errors
/// An axis has no length.
pub(super) fn svg<X, Y>(
    labels: &Labels<'_>,
    across: X,
    upwards: Y,
    curves: &[Curve],
) -> Result<String, Box<dyn Error>>
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(labels.caption, ("sans-serif", 17))
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(across, upwards)?;
        chart
            .configure_mesh()
            .x_desc(labels.across)
            .y_desc(labels.upwards)
            .x_label_formatter(labels.spell)
            .light_line_style(WHITE)
            .draw()?;
        for (curve, colour) in curves.iter().zip(COLOURS.iter().cycle()) {
            let style = colour.stroke_width(2);
            chart
                .draw_series(LineSeries::new(curve.points.iter().copied(), style))?
                .label(&curve.name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::LowerRight)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.2))
            .draw()?;
        area.present()?;
    }
    Ok(text)
}

/// The least and the greatest of the figures, so far apart that each lies between them on a logarithmic axis.
pub(super) fn span(figures: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
    let (least, most) = figures.fold((f64::MAX, f64::MIN_POSITIVE), |(least, most), figure| {
        (least.min(figure), most.max(figure))
    });
    least.min(most) / 1.5..most * 1.5
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_curve_is_drawn_with_its_name() {
        let curves = ["ours", "theirs"].map(|name| Curve {
            name: name.to_owned(),
            points: vec![(1.0, 100.0), (20.0, 10.0)],
        });
        let labels = Labels {
            caption: "speed",
            across: "bytes",
            upwards: "us",
            spell: &|bytes| format!("{bytes} B"),
        };
        let text = svg(&labels, (1.0..20.0).log_scale(), 0.0..100.0, &curves).expect("a drawing");
        for word in ["<svg", "ours", "theirs", "speed", "bytes", " B\n"] {
            assert!(text.contains(word), "{word} is missing");
        }
    }

    #[test]
    fn spans_have_a_length() {
        assert_eq!(span([2.0, 8.0].into_iter()), 2.0 / 1.5..12.0);
        assert!(!span([1.0].into_iter()).is_empty());
        assert!(!span(std::iter::empty()).is_empty());
    }
}
