//! Charts: [`terminal`] prints curves with letters, [`svg`] draws them for pages, [`bars`] does both with one figure for each name.

pub mod bars;
pub mod svg;
pub mod terminal;

use crate::statistics::range;

/// One curve of a chart.
#[derive(Clone, Debug)]
pub struct Series {
    /// What the curve is of.
    pub name: String,
    /// Where its points are, across and upwards.
    pub points: Vec<(f64, f64)>,
}

/// How values are spread over an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Equal differences have equal lengths.
    Linear,
    /// Equal ratios have equal lengths; values above zero only.
    Logarithmic,
}

/// An axis of a chart.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
}

impl Axis {
    /// Returns the axis that all values have room on; `None` if there is none to show.
    #[must_use]
    pub fn around(scale: Scale, values: impl Iterator<Item = f64>) -> Option<Self> {
        let shown = values.filter(|value| scale == Scale::Linear || *value > 0.0);
        let (low, high) = range(shown.map(|value| scale.place(value)))?;
        Some(Self {
            scale,
            low,
            high: high.max(low + 0.1),
        })
    }

    /// Returns an axis with this share of its length free at each end.
    #[must_use]
    pub fn with_margin(self, share: f64) -> Self {
        let margin = (self.high - self.low) * share;
        Self {
            low: self.low - margin,
            high: self.high + margin,
            ..self
        }
    }

    /// Returns where on the axis a value is, from 0 to 1.
    #[must_use]
    pub fn share(&self, value: f64) -> f64 {
        ((self.scale.place(value) - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    /// Returns the value at a share of the axis.
    #[must_use]
    pub fn value(&self, share: f64) -> f64 {
        let place = self.low + share * (self.high - self.low);
        match self.scale {
            Scale::Linear => place,
            Scale::Logarithmic => 10_f64.powf(place),
        }
    }

    /// Returns round values on the axis: three or more powers of ten and, where there are fewer, their halves and fifths.
    #[must_use]
    pub fn ticks(&self) -> Vec<f64> {
        let (low, high) = (self.value(0.0), self.value(1.0));
        match self.scale {
            Scale::Linear => {
                let step = round_step((high - low) / 5.0);
                let steps = (low / step).ceil() as i64..=(high / step).floor() as i64;
                steps.map(|at| at as f64 * step).collect()
            }
            Scale::Logarithmic => {
                let powers = self.low.floor() as i32..=self.high.ceil() as i32;
                let of = |factors: &[f64]| -> Vec<f64> {
                    let all = powers.clone().flat_map(|power| {
                        factors
                            .iter()
                            .map(move |factor| factor * 10_f64.powi(power))
                    });
                    all.filter(|tick| (low..=high).contains(tick)).collect()
                };
                let powers = of(&[1.0]);
                match powers.len() {
                    3.. => powers,
                    _ => of(&[1.0, 2.0, 5.0]),
                }
            }
        }
    }
}

impl Scale {
    /// Returns the place of a value in units of the axis.
    fn place(self, value: f64) -> f64 {
        match self {
            Self::Linear => value,
            Self::Logarithmic => value.max(f64::MIN_POSITIVE).log10(),
        }
    }
}

/// Returns the next greater 1, 2 or 5 with a power of ten.
fn round_step(step: f64) -> f64 {
    let power = 10_f64.powf(step.log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    let found = factors.iter().find(|factor| **factor * power >= step);
    found.unwrap_or(&10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logarithmic_axis_has_its_middle_at_the_geometric_mean() {
        let axis = Axis::around(Scale::Logarithmic, [1.0, 10_000.0].into_iter()).unwrap();
        assert_eq!(
            [1.0, 100.0, 1e9].map(|value| axis.share(value)),
            [0.0, 0.5, 1.0]
        );
        assert!((axis.value(0.25) - 10.0).abs() < 1e-9);
        assert_eq!(axis.ticks(), [1.0, 10.0, 100.0, 1000.0, 10_000.0]);
    }

    #[test]
    fn a_linear_axis_has_round_ticks() {
        let axis = Axis::around(Scale::Linear, [0.0, 4.4].into_iter()).unwrap();
        assert_eq!(axis.ticks(), [0.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!(axis.with_margin(0.5).value(0.5), 2.2);
    }

    #[test]
    fn a_short_logarithmic_axis_has_ticks_too() {
        let axis = Axis::around(Scale::Logarithmic, [0.9, 2.5].into_iter()).unwrap();
        assert_eq!(axis.ticks(), [1.0, 2.0]);
    }

    #[test]
    fn one_value_has_an_axis_and_none_has_not() {
        let axis = Axis::around(Scale::Logarithmic, [7.0].into_iter()).unwrap();
        assert_eq!(axis.share(7.0), 0.0);
        assert!(Axis::around(Scale::Linear, std::iter::empty()).is_none());
        assert!(Axis::around(Scale::Logarithmic, [0.0].into_iter()).is_none());
    }
}
