//! Sources that receives of a shared context name: FI_DIRECTED_RECV, fi_getinfo(3).
//!
//! A name is an index of an address vector, and each endpoint has its own. So an endpoint that matches sources looks a name
//! up when a receive brings it, and remembers which of its peers that is.

use std::collections::HashMap;

use oxifabric_abi::{FI_ADDR_UNSPEC, fi_addr_t};
use oxifabric_types::{Flags, PeerId};

/// The sources of receives that one endpoint has resolved.
#[derive(Default)]
pub(in crate::endpoint) struct SharedSources {
    /// Of which messages the source counts: `MSG`, `TAGGED`.
    kinds: Flags,
    peers: HashMap<fi_addr_t, PeerId>,
}

impl SharedSources {
    pub(in crate::endpoint) fn new(kinds: Flags) -> Self {
        Self {
            kinds,
            peers: HashMap::new(),
        }
    }

    /// Keeps the peer that a name stands for; `None` when the endpoint's vector has no such name.
    pub(in crate::endpoint) fn learn(&mut self, name: fi_addr_t, peer: Option<PeerId>) {
        match peer {
            Some(peer) => drop(self.peers.insert(name, peer)),
            None => drop(self.peers.remove(&name)),
        }
    }

    /// Returns whether a receive with this source takes a message of this class from this peer.
    pub(in crate::endpoint) fn accept(&self, class: Flags, from: PeerId, name: fi_addr_t) -> bool {
        name == FI_ADDR_UNSPEC
            || !class.intersects(self.kinds)
            || self.peers.get(&name) == Some(&from)
    }

    /// Returns whether the source of any message counts.
    pub(in crate::endpoint) const fn count(&self) -> bool {
        !self.kinds.is_empty()
    }
}
