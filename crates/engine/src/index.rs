//! Hash index of long queues, so that a row is found without walking past all others.
//!
//! A queue is indexed once a walk along it was long, and no longer when it is empty: short queues, and those whose
//! first row is always the right one, cost nothing. Each chain keeps the order in which its rows came, so the first
//! fitting row of a chain is the first fitting one of all that hash alike.

use alloc::vec::Vec;

use crate::list::{Linked, List};
use crate::slab::{Key, Slab};

/// A walk past more rows than this is long.
pub(crate) const LONG_WALK: usize = 32;

/// Number of chains of a fresh index; a power of two.
const CHAINS: usize = 256;

/// A row that can be indexed for a purpose.
pub(crate) trait Indexed<By>: Linked<By> {
    /// Returns the hash that it is indexed by, see [`hash`].
    fn hash(&self) -> u64;
}

/// The rows of a queue in chains, one for each hash or for several.
#[derive(Debug)]
pub(crate) struct Index<By> {
    chains: Vec<List<By>>,
    len: usize,
}

impl<By: Copy> Index<By> {
    /// Makes an index without rows.
    pub(crate) fn new() -> Self {
        Self {
            chains: alloc::vec![List::new(); CHAINS],
            len: 0,
        }
    }

    /// Returns how many rows are indexed.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Returns the rows of that hash, in order, with others among them.
    pub(crate) fn chain(&self, hash: u64) -> &List<By> {
        &self.chains[self.row(hash)]
    }

    /// Adds a row behind all others.
    pub(crate) fn push<T: Indexed<By>>(&mut self, slab: &mut Slab<T>, key: Key) {
        if self.len >= self.chains.len() {
            self.grow(slab);
        }
        self.append(slab, key);
        self.len += 1;
    }

    /// Takes a row out.
    pub(crate) fn unlink<T: Indexed<By>>(&mut self, slab: &mut Slab<T>, key: Key) {
        if let Some(hash) = slab.get(key).map(Indexed::hash) {
            let row = self.row(hash);
            self.chains[row].unlink(slab, key);
            self.len -= 1;
        }
    }

    /// Spreads the rows over four times as many chains. The rows of a chain go to four others and stay in order.
    fn grow<T: Indexed<By>>(&mut self, slab: &mut Slab<T>) {
        let chains = alloc::vec![List::new(); 4 * self.chains.len()];
        for old in core::mem::replace(&mut self.chains, chains) {
            old.visit(slab, |slab, key| self.append(slab, key));
        }
    }

    /// Puts a row at the end of its chain.
    fn append<T: Indexed<By>>(&mut self, slab: &mut Slab<T>, key: Key) {
        if let Some(hash) = slab.get(key).map(Indexed::hash) {
            let row = self.row(hash);
            self.chains[row].push_back(slab, key);
        }
    }

    /// Returns the chain of a hash, by its upper bits, which are the best mixed ones.
    fn row(&self, hash: u64) -> usize {
        (hash >> (u64::BITS - self.chains.len().ilog2())) as usize
    }
}

/// Mixes two numbers, after Fibonacci: neighbouring tags and peers spread over all chains.
pub(crate) const fn hash(a: u64, b: u64) -> u64 {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = (a.rotate_left(32) ^ b).wrapping_mul(GOLDEN);
    (mixed ^ (mixed >> 32) ^ a).wrapping_mul(GOLDEN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list::Links;

    #[derive(Clone, Copy, Debug)]
    struct ByValue;

    struct Row(Links, u64);

    impl Linked<ByValue> for Row {
        fn links(&self) -> &Links {
            &self.0
        }
        fn links_mut(&mut self) -> &mut Links {
            &mut self.0
        }
    }

    impl Indexed<ByValue> for Row {
        fn hash(&self) -> u64 {
            hash(self.1, 7)
        }
    }

    #[test]
    fn chains_keep_the_order_while_the_index_grows_and_shrinks() {
        let (mut slab, mut index) = (Slab::with_capacity(0), Index::<ByValue>::new());
        let mut keys = Vec::new();
        for turn in 0..3000u64 {
            let key = slab.insert(Row(Links::NONE, turn % 100)).expect("room");
            index.push(&mut slab, key);
            keys.push(key);
        }
        assert_eq!(index.len(), 3000);
        for key in keys.iter().skip(1).step_by(3) {
            index.unlink(&mut slab, *key);
        }
        for value in 0..100 {
            let chain = index.chain(hash(value, 7)).iter(&slab);
            let found: Vec<_> = chain
                .filter(|(_, row)| row.1 == value)
                .map(|(key, _)| key)
                .collect();
            let left = |at: &usize| at % 100 == value as usize && at % 3 != 1;
            let expected: Vec<_> = (0..3000).filter(left).map(|at| keys[at]).collect();
            assert_eq!(found, expected);
        }
        assert_eq!(index.len(), 2000);
    }

    #[test]
    fn neighbouring_numbers_spread() {
        let mut index = Index::<ByValue>::new();
        let mut slab = Slab::with_capacity(0);
        for value in 0..200 {
            let key = slab.insert(Row(Links::NONE, value)).expect("room");
            index.push(&mut slab, key);
        }
        let longest = index.chains.iter().map(List::len).max();
        assert!(longest < Some(8), "{longest:?} of 200 rows in one chain");
    }
}
