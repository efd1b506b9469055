//! What peers read: responses to reads and to atomics that fetch (docs/adr/0035).
//!
//! They wait among the sends, because links and peers name them alike, but are counted apart: what peers ask for never takes the
//! place of what the application sends.

use oxifabric_types::PeerId;

use crate::engine::Engine;
use crate::slab::Key;
use crate::transmit::Transmit;

/// Maximum number of requests of one peer that are answered at a time: as many as an endpoint may have under way.
const OF_PEER: usize = 1 << 16;

/// Maximum number of requests of all peers together that are answered at a time. A response costs some hundred bytes.
const IN_ALL: usize = 1 << 18;

/// Number of requests of each peer that are answered at a time, whatever others ask for.
const ALWAYS: usize = 64;

impl Engine {
    /// Returns whether one more request of a peer can be answered. If not it waits in its link.
    pub(crate) fn can_respond(&self, peer: PeerId) -> bool {
        let own = self.peers.responses(peer);
        let fits = own < OF_PEER && (own < ALWAYS || self.responses() < IN_ALL);
        fits && self.peers.can_reply(peer) && self.sends.vacant().is_some()
    }

    /// Queues a response; `make` gets its id. Returns whether there was room.
    pub(crate) fn respond(&mut self, peer: PeerId, make: impl FnOnce(Key) -> Transmit) -> bool {
        let Some(key) = self.sends.vacant() else {
            return false;
        };
        if self.sends.insert(make(key)).is_none() {
            return false;
        }
        self.most_sends += 1;
        self.peers.queue_bulk(peer, key);
        if let Some(row) = self.peers.get_mut(peer) {
            row.responses += 1;
        }
        true
    }

    /// Counts a response that is over.
    pub(crate) fn responded(&mut self, peer: PeerId) {
        self.most_sends = self.most_sends.saturating_sub(1).max(self.config.tx_size);
        self.retry_stalled = true;
        if let Some(row) = self.peers.get_mut(peer) {
            row.responses = row.responses.saturating_sub(1);
        }
    }
}
