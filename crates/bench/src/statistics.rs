//! Medians, quartiles and ratios of a few figures.

/// Where the middle half of some figures lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quartiles {
    /// A quarter of the figures are less.
    pub lower: f64,
    /// The middle.
    pub median: f64,
    /// A quarter of the figures are greater.
    pub upper: f64,
}

impl Quartiles {
    /// Returns the quartiles of figures in any order, each between the two figures next to it; not a number without any figure.
    #[must_use]
    pub fn of(figures: &[f64]) -> Self {
        let sorted = sorted(figures);
        Self {
            lower: quantile(&sorted, 0.25),
            median: quantile(&sorted, 0.5),
            upper: quantile(&sorted, 0.75),
        }
    }
}

/// Returns the middle of figures in any order; not a number if there are none.
#[must_use]
pub fn median(figures: &[f64]) -> f64 {
    quantile(&sorted(figures), 0.5)
}

/// Returns the median of some figures in parts of the median of others.
#[must_use]
pub fn ratio(figures: &[f64], others: &[f64]) -> f64 {
    median(figures) / median(others)
}

/// Returns the ratios of pairs of figures that were taken one after the other.
#[must_use]
pub fn ratios(figures: &[f64], others: &[f64]) -> Vec<f64> {
    let pairs = figures.iter().zip(others);
    pairs.map(|(figure, other)| figure / other).collect()
}

/// Returns the mean of ratios, in which a half and a double cancel out; not a number if there are none.
#[must_use]
pub fn geometric_mean(ratios: &[f64]) -> f64 {
    let logs: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
    (logs / ratios.len() as f64).exp()
}

/// Returns the least and the greatest of figures; `None` if there are none.
#[must_use]
pub fn range(figures: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    figures
        .into_iter()
        .map(|figure| (figure, figure))
        .reduce(|(least, most), (figure, _)| (least.min(figure), most.max(figure)))
}

/// Returns how far figures of one thing stray: the greatest in parts of the least, 1 if there are none.
#[must_use]
pub fn spread(figures: &[f64]) -> f64 {
    range(figures.iter().copied()).map_or(1.0, |(least, most)| most / least)
}

fn sorted(figures: &[f64]) -> Vec<f64> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Returns the figure below which this share of sorted figures lies.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return f64::NAN;
    };
    let position = last as f64 * share;
    let below = position as usize;
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * position.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_lie_between_their_neighbours() {
        let quartiles = Quartiles::of(&[4.0, 1.0, 3.0, 2.0]);
        let expected = Quartiles {
            lower: 1.75,
            median: 2.5,
            upper: 3.25,
        };
        assert_eq!(quartiles, expected);
    }

    #[test]
    fn the_median_is_the_middle() {
        assert!(median(&[]).is_nan());
        assert_eq!(median(&[3.0]), 3.0);
        assert_eq!(median(&[9.0, 1.0]), 5.0);
        assert_eq!(median(&[9.0, 1.0, 2.0]), 2.0);
    }

    #[test]
    fn one_outlier_moves_no_ratio_of_medians() {
        let (ours, theirs) = ([1.0, 50.0, 1.0], [2.0, 2.0, 2.0]);
        assert_eq!(ratio(&ours, &theirs), 0.5);
        assert_eq!(ratios(&ours, &theirs), [0.5, 25.0, 0.5]);
        assert_eq!(spread(&ours), 50.0);
        assert_eq!(spread(&[]), 1.0);
    }

    #[test]
    fn a_half_and_a_double_cancel_out() {
        assert!((geometric_mean(&[0.5, 2.0]) - 1.0).abs() < 1e-12);
        assert!((geometric_mean(&[0.5, 0.5]) - 0.5).abs() < 1e-12);
        assert!(geometric_mean(&[]).is_nan());
    }

    #[test]
    fn a_range_needs_a_figure() {
        assert_eq!(range([2.0, 1.0, 3.0]), Some((1.0, 3.0)));
        assert_eq!(range([]), None);
    }
}
