//! The figures of a work, in rounds.

use oxifabric_bench::statistics::{Quartiles, range, ratio, ratios};

/// The figures of both libraries, one pair a round, and in the same rounds those of UCX and of the machine where they have the work.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    pub(crate) ours: Vec<f64>,
    pub(crate) reference: Vec<f64>,
    pub(crate) ucx: Vec<f64>,
    pub(crate) limit: Vec<f64>,
}

impl Comparison {
    /// Returns the ratio of our median to that of figures of others, if there are any.
    pub(crate) fn ratio_to(&self, others: &[f64]) -> Option<f64> {
        (!others.is_empty()).then(|| ratio(&self.ours, others))
    }

    /// Returns the ratio of the medians, ours to the reference.
    pub(crate) fn ratio(&self) -> f64 {
        ratio(&self.ours, &self.reference)
    }

    /// Returns the ratio of the best figures: what is left when other work on the machine disturbed some rounds.
    pub(crate) fn best_ratio(&self, lower_is_better: bool) -> f64 {
        let best = |figures: &[f64]| {
            let (least, most) = range(figures.iter().copied()).unwrap_or((f64::NAN, f64::NAN));
            if lower_is_better { least } else { most }
        };
        best(&self.ours) / best(&self.reference)
    }

    /// Returns the quartiles of the ratios within each round: how far a single round strays.
    pub(crate) fn ratios(&self) -> Quartiles {
        Quartiles::of(&ratios(&self.ours, &self.reference))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
