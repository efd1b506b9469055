//! A set of peers: one bit each, because links give out dense numbers.

use alloc::vec::Vec;
use oxifabric_types::PeerId;

/// Peers of which something is known.
#[derive(Debug, Default)]
pub struct PeerSet(Vec<u64>);

impl PeerSet {
    /// Takes a peer in; returns whether it was not there.
    #[inline]
    pub fn insert(&mut self, peer: PeerId) -> bool {
        let (word, bit) = place(peer);
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        let before = self.0[word];
        self.0[word] |= bit;
        before & bit == 0
    }

    /// Takes a peer out.
    #[inline]
    pub fn remove(&mut self, peer: PeerId) {
        let (word, bit) = place(peer);
        if let Some(word) = self.0.get_mut(word) {
            *word &= !bit;
        }
    }

    /// Returns whether a peer is there.
    #[inline]
    pub fn contains(&self, peer: PeerId) -> bool {
        let (word, bit) = place(peer);
        self.0.get(word).is_some_and(|word| word & bit != 0)
    }
}

#[inline]
const fn place(peer: PeerId) -> (usize, u64) {
    (peer.index() / 64, 1 << (peer.index() % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_come_and_go() {
        let mut set = PeerSet::default();
        let (one, other) = (PeerId(63), PeerId(64));
        assert!(!set.contains(one) && !set.contains(PeerId::ANY));
        assert!(set.insert(one) && set.insert(other) && !set.insert(one));
        set.remove(one);
        set.remove(PeerId(1 << 20));
        assert!(!set.contains(one) && set.contains(other));
    }
}
