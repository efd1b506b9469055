//! Where one way of sending becomes better than another.

/// What was measured of one size in two ways; less is better.
pub(super) struct Rivals {
    /// The way that short messages go.
    pub(super) short: f64,
    /// The way that long ones go.
    pub(super) long: f64,
}

/// Returns how many of the sizes, from the smallest on, should go the way of the short ones, so that the product of all
/// costs is least: one size that was measured wrong does not decide. Where nothing tells two numbers apart, the smaller one.
pub(super) fn divide(rows: &[Rivals]) -> usize {
    let mut total: f64 = 0.0;
    let (mut best, mut least) = (0, 0.0);
    for (at, row) in rows.iter().enumerate() {
        total += (row.short / row.long).ln();
        if total < least {
            (best, least) = (at + 1, total);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(costs: &[(f64, f64)]) -> Vec<Rivals> {
        let rivals = |&(short, long): &(f64, f64)| Rivals { short, long };
        costs.iter().map(rivals).collect()
    }

    #[test]
    fn sizes_are_divided_where_the_costs_cross() {
        for (costs, expected) in [
            (&[][..], 0),
            (&[(1.0, 2.0), (2.0, 3.0), (4.0, 3.5), (8.0, 4.0)], 2),
            (&[(2.0, 1.0), (3.0, 1.0)], 0),
            (&[(1.0, 2.0), (1.0, 2.0)], 2),
            (&[(1.0, 1.0), (1.0, 1.0)], 0),
        ] {
            assert_eq!(divide(&rows(costs)), expected, "{costs:?}");
        }
    }

    #[test]
    fn one_wrong_measurement_does_not_decide() {
        let costs = [(1.0, 2.0), (1.2, 1.0), (1.0, 2.0), (2.0, 1.0), (2.0, 1.0)];
        assert_eq!(divide(&rows(&costs)), 3);
    }
}
