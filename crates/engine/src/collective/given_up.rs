//! Joins that peers have given up before they begin here.

use alloc::collections::BTreeMap;

use oxifabric_types::{Errno, PeerId};

/// Maximum number of joins that one peer may give up in advance: members are rarely more than a few joins apart.
const OF_PEER: usize = 1 << 10;

/// Maximum number of all peers together; one costs some ten bytes.
const IN_ALL: usize = 1 << 16;

/// Number of joins that each peer may give up in advance, whatever others do.
const ALWAYS: usize = 16;

/// What peers have given up. What goes beyond the bounds is not believed.
#[derive(Debug, Default)]
pub(super) struct GivenUp {
    by_peer: BTreeMap<PeerId, BTreeMap<u32, Errno>>,
    len: usize,
}

impl GivenUp {
    /// Notes that a peer has given up its join with that count.
    pub(super) fn insert(&mut self, peer: PeerId, count: u32, why: Errno) {
        let own = self.by_peer.get(&peer).map_or(0, BTreeMap::len);
        if own >= OF_PEER || (own >= ALWAYS && self.len >= IN_ALL) {
            return;
        }
        let joins = self.by_peer.entry(peer).or_default();
        self.len += usize::from(joins.insert(count, why).is_none());
    }

    /// Takes the reason for which a peer has given up the join with that count.
    pub(super) fn take(&mut self, peer: PeerId, count: u32) -> Option<Errno> {
        let joins = self.by_peer.get_mut(&peer)?;
        let why = joins.remove(&count)?;
        self.len -= 1;
        if joins.is_empty() {
            self.by_peer.remove(&peer);
        }
        Some(why)
    }

    /// Forgets what a peer has given up.
    pub(super) fn forget(&mut self, peer: PeerId) {
        let joins = self.by_peer.remove(&peer);
        self.len -= joins.map_or(0, |joins| joins.len());
    }

    /// Returns the peers that have given up joins.
    pub(super) fn peers(&self) -> impl Iterator<Item = PeerId> {
        self.by_peer.keys().copied()
    }
}
