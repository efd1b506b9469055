//! Traffic patterns: which node sends to which.

use clap::ValueEnum;

/// A pattern of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Pattern {
    /// Each to the next
    Ring,
    /// Each to all others, in turns
    AllToAll,
    /// All to the first
    Incast,
    /// Each to one other, which gets from no third
    Permutation,
    /// Each message to a random node
    Random,
}

impl Pattern {
    /// Returns the name, as it is typed.
    pub(super) fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// Chance that a seed decides: SplitMix64.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed ^ 0x6f78_6973_696d)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number between 0 and 1, never 0.
    pub(super) fn share(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    fn below(&mut self, end: u32) -> u32 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u32
    }
}

/// A pattern among a number of nodes.
pub(super) struct Plot {
    pattern: Pattern,
    nodes: u32,
    /// Number of other nodes that a node sends to in the pattern random.
    partners: u32,
    /// The target of each node in a permutation.
    images: Vec<u32>,
}

impl Plot {
    pub(super) fn new(
        pattern: Pattern,
        nodes: u32,
        partners: Option<u32>,
        random: &mut Random,
    ) -> Self {
        Self {
            pattern,
            nodes,
            partners: partners.unwrap_or(nodes - 1).clamp(1, nodes - 1),
            images: cycle(nodes, random),
        }
    }

    /// Returns the target of a node's message of this number; `None` if it sends none.
    pub(super) fn target(&self, node: u32, number: u64, random: &mut Random) -> Option<u32> {
        let ahead = |steps: u64| ((u64::from(node) + 1 + steps) % u64::from(self.nodes)) as u32;
        match self.pattern {
            Pattern::Ring => Some(ahead(0)),
            Pattern::AllToAll => Some(ahead(number % u64::from(self.nodes - 1))),
            Pattern::Incast => (node != 0).then_some(0),
            Pattern::Permutation => self.images.get(node as usize).copied(),
            Pattern::Random => {
                // Few partners are spread over the whole network.
                let stride = u64::from((self.nodes - 1) / self.partners);
                Some(ahead(u64::from(random.below(self.partners)) * stride))
            }
        }
    }
}

/// Returns a permutation without a fixed point: one cycle through all (Sattolo).
fn cycle(nodes: u32, random: &mut Random) -> Vec<u32> {
    let mut images: Vec<u32> = (0..nodes).collect();
    for last in (1..images.len()).rev() {
        images.swap(last, random.below(last as u32) as usize);
    }
    images
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(pattern: Pattern, node: u32, partners: Option<u32>) -> Vec<u32> {
        let mut random = Random::new(7);
        let plot = Plot::new(pattern, 9, partners, &mut random);
        let numbers = 0..80;
        let mut to: Vec<u32> = numbers
            .filter_map(|number| plot.target(node, number, &mut random))
            .collect();
        to.sort_unstable();
        to.dedup();
        to
    }

    #[test]
    fn each_pattern_has_its_targets() {
        assert_eq!(targets(Pattern::Ring, 8, None), [0]);
        assert_eq!(
            targets(Pattern::AllToAll, 3, None),
            [0, 1, 2, 4, 5, 6, 7, 8]
        );
        assert_eq!(targets(Pattern::Incast, 3, None), [0]);
        assert!(targets(Pattern::Incast, 0, None).is_empty());
        assert_eq!(targets(Pattern::Random, 3, None), [0, 1, 2, 4, 5, 6, 7, 8]);
        assert_eq!(targets(Pattern::Random, 3, Some(2)), [4, 8]);
    }

    #[test]
    fn a_permutation_reaches_everybody_but_oneself() {
        let all: Vec<Vec<u32>> = (0..9)
            .map(|node| targets(Pattern::Permutation, node, None))
            .collect();
        assert!(
            all.iter()
                .enumerate()
                .all(|(node, to)| to.len() == 1 && to[0] != node as u32)
        );
        let mut reached: Vec<u32> = all.into_iter().flatten().collect();
        reached.sort_unstable();
        assert_eq!(reached, (0..9).collect::<Vec<_>>());
    }
}
