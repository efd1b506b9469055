//! Medians and quartiles of a few figures.

/// The figures of both libraries, one pair a round, and in the same rounds those of UCX and of the machine where they have the work.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    pub(super) ours: Vec<f64>,
    pub(super) reference: Vec<f64>,
    pub(super) ucx: Vec<f64>,
    pub(super) limit: Vec<f64>,
}

impl Comparison {
    /// The ratio of our median to that of figures of others, if there are any.
    pub(super) fn ratio_to(&self, others: &[f64]) -> Option<f64> {
        let median = Quartiles::of(others).median;
        (!others.is_empty()).then(|| Quartiles::of(&self.ours).median / median)
    }

    /// The ratio of the medians, ours to the reference.
    pub(super) fn ratio(&self) -> f64 {
        Quartiles::of(&self.ours).median / Quartiles::of(&self.reference).median
    }

    /// The ratio of the best figures: what is left when other work on the machine disturbed some rounds.
    pub(super) fn best_ratio(&self, lower_is_better: bool) -> f64 {
        let best = |figures: &[f64]| {
            let choose = if lower_is_better { f64::min } else { f64::max };
            figures.iter().copied().reduce(choose).unwrap_or(f64::NAN)
        };
        best(&self.ours) / best(&self.reference)
    }

    /// The quartiles of the ratios within each round: how far a single round strays.
    pub(super) fn ratios(&self) -> Quartiles {
        let pairs = self.ours.iter().zip(&self.reference);
        let ratios: Vec<f64> = pairs.map(|(ours, reference)| ours / reference).collect();
        Quartiles::of(&ratios)
    }
}

/// Where the middle half of the figures lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Quartiles {
    pub(super) lower: f64,
    pub(super) median: f64,
    pub(super) upper: f64,
}

impl Quartiles {
    /// The quartiles, each between the two figures next to it; not a number without any figure.
    pub(super) fn of(figures: &[f64]) -> Self {
        let mut sorted = figures.to_vec();
        sorted.sort_by(f64::total_cmp);
        Self {
            lower: quantile(&sorted, 1),
            median: quantile(&sorted, 2),
            upper: quantile(&sorted, 3),
        }
    }
}

/// The figure at so many quarters of the sorted list.
fn quantile(sorted: &[f64], quarters: usize) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return f64::NAN;
    };
    let position = last * quarters;
    let (below, rest) = (position / 4, position % 4);
    let above = sorted[(below + 1).min(last)];
    let fraction = [0.0, 0.25, 0.5, 0.75][rest];
    sorted[below] + (above - sorted[below]) * fraction
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
        assert_eq!(Quartiles::of(&[7.0]).median, 7.0);
        assert!(Quartiles::of(&[]).median.is_nan());
    }

    #[test]
    fn one_outlier_does_not_move_the_ratio() {
        let mut compared = Comparison::default();
        for (ours, reference) in [(1.0, 2.0), (1.0, 2.0), (50.0, 2.0)] {
            compared.ours.push(ours);
            compared.reference.push(reference);
        }
        assert_eq!(compared.ratio(), 0.5);
        assert_eq!(compared.ratios().lower, 0.5);
        assert_eq!(compared.best_ratio(true), 0.5);
        assert_eq!(compared.best_ratio(false), 25.0);
        assert_eq!(compared.ratio_to(&[]), None);
        assert_eq!(compared.ratio_to(&[4.0]), Some(0.25));
    }
}
