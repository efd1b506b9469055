//! Fault injection: what happens to each packet, as plan and seed decide.
//!
//! A decision depends on the seed, the sender and how many packets that has sent before, and on nothing else: however processes run against each other, the
//! n-th request of a process has the same fate under the same seed.

use std::time::Duration;

use crate::plan::Plan;

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fate {
    pub(crate) delay: Duration,
    /// How many later packets to the same process come first; none at 0.
    pub(crate) overtaken_by: u32,
    /// The receiver is said not to be ready.
    pub(crate) is_rnr: bool,
    /// The status that its sender is told instead of the true one, and whether the request is carried out all the same.
    pub(crate) error: Option<(u8, bool)>,
}

/// Numbers out of a seed: SplitMix64, of Steele, Lea and Flood (2014).
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Returns true for this share of the calls.
    fn chance(&mut self, share: f64) -> bool {
        ((self.next() >> 11) as f64) < share * (1_u64 << 53) as f64
    }

    /// Returns a number of a range, its ends included.
    fn within(&mut self, from: u32, to: u32) -> u32 {
        let span = u64::from(to.saturating_sub(from)) + 1;
        from + (self.next() % span) as u32
    }
}

/// Decides about the n-th packet of a sender.
pub(crate) fn decide(plan: &Plan, sender: u32, number: u64, is_message: bool) -> Fate {
    let mut random = Random(plan.seed ^ u64::from(sender) << 40 ^ number.rotate_left(17));
    // The first number of neighbouring seeds is thrown away; it differs little.
    random.next();
    let [shortest, longest] = plan.delay_us;
    let delay = Duration::from_micros(random.within(shortest, longest).into());
    let is_overtaken = random.chance(plan.reorder);
    let by = random.within(1, plan.reorder_window);
    let is_rnr = random.chance(plan.rnr);
    let mut error = None;
    for planned in &plan.error {
        if random.chance(planned.share) && error.is_none() {
            error = Some((planned.status.number(), planned.delivered));
        }
    }
    Fate {
        delay,
        overtaken_by: if is_overtaken { by } else { 0 },
        is_rnr: is_rnr && is_message,
        error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(plan: &Plan, is: impl Fn(&Fate) -> bool) -> f64 {
        let fates = (0..10_000).map(|number| decide(plan, 3, number, true));
        fates.filter(is).count() as f64 / 10_000.0
    }

    #[test]
    fn shares_are_kept() {
        let plan = Plan {
            rnr: 0.1,
            ..Plan::default()
        };
        let reordered = share(&plan, |fate| fate.overtaken_by > 0);
        assert!((0.24..0.26).contains(&reordered), "{reordered}");
        let rnr = share(&plan, |fate| fate.is_rnr);
        assert!((0.09..0.11).contains(&rnr), "{rnr}");
        assert!((0..1000).all(|number| !decide(&plan, 0, number, false).is_rnr));
    }

    #[test]
    fn the_seed_decides() {
        let fates = |seed: u64, sender: u32| {
            let plan = Plan {
                seed,
                delay_us: [0, 1000],
                ..Plan::default()
            };
            let fates = (0..100).map(|number| decide(&plan, sender, number, true));
            fates.collect::<Vec<Fate>>()
        };
        assert_eq!(fates(1, 0), fates(1, 0));
        assert_ne!(fates(1, 0), fates(2, 0));
        assert_ne!(fates(1, 0), fates(1, 1));
        assert!(fates(5, 0).iter().all(|fate| fate.overtaken_by <= 16));
    }
}
