//! What peers read: responses to reads and to atomics that fetch (docs/adr/0035).
//!
//! They wait among the sends, because links and peers name them alike, but are counted apart: what peers ask for never takes the
//! place of what the application sends.

use alloc::vec::Vec;

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
        let is_named = self.peers.is_named(peer);
        if let Some(row) = self.peers.get_mut(peer) {
            let waiting = row.waiting_mut();
            waiting.responses += 1;
            if !is_named {
                waiting.answering.push(key);
                self.tidy_responses(peer);
            }
        }
        true
    }

    /// Returns the operations that may send to a peer, and others: all there are, or only its responses if the application does not
    /// address it. So the loss of such a peer costs what it asked for, whatever the application sends.
    pub(crate) fn sends_to(&self, peer: PeerId) -> Vec<Key> {
        if self.peers.is_named(peer) {
            return self.sends.iter().map(|(key, _)| key).collect();
        }
        (self.peers.answering(peer)).to_vec()
    }

    /// Forgets the responses that are over, once they are as many as the others.
    fn tidy_responses(&mut self, peer: PeerId) {
        let sends = &self.sends;
        let row = self.peers.get_mut(peer);
        if let Some(waiting) = row.map(crate::peer::Peer::waiting_mut)
            && waiting.answering.len() >= 2 * (waiting.responses + ALWAYS)
        {
            let is_under_way = |key| sends.get(key).is_some_and(|send| send.peer == peer);
            waiting.answering.retain(|&key| is_under_way(key));
        }
    }

    /// Counts a response that is over.
    #[inline]
    pub(crate) fn responded(&mut self, peer: PeerId) {
        self.most_sends = self.most_sends.saturating_sub(1).max(self.config.tx_size);
        self.retry_stalled = true;
        if let Some(responses) = self.peers.responses_mut(peer) {
            *responses = responses.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use oxifabric_mem::Iov;
    use oxifabric_types::Flags;

    use super::*;
    use crate::{Config, TxOp};

    const KNOWN: PeerId = PeerId(1);
    const UNKNOWN: PeerId = PeerId(2);
    const SENDS: usize = 1000;

    fn transmit(peer: PeerId, key: Key) -> Transmit {
        let op = TxOp {
            peer,
            tag: 0,
            data: 0,
            body: Iov::empty(),
            flags: Flags::empty(),
            context: 0,
        };
        Transmit::new(op, key)
    }

    /// Makes an engine with sends of the application that wait.
    fn engine() -> Engine {
        let mut engine = Engine::new(Config {
            tx_size: SENDS,
            rx_size: 1,
            unexpected_bytes: 1,
            unexpected_ceiling: 1,
            min_multi_recv: 0,
            directed_recv: true,
        });
        engine.name(KNOWN);
        while let Some(key) = engine.sends.vacant().filter(|_| engine.sends.len() < SENDS) {
            assert!(engine.sends.insert(transmit(KNOWN, key)).is_some());
        }
        engine
    }

    #[test]
    fn the_loss_of_an_unknown_peer_costs_what_it_asked_for() {
        let mut engine = engine();
        assert_eq!(engine.sends_to(KNOWN).len(), SENDS);
        assert_eq!(engine.sends_to(UNKNOWN), []);
        for _ in 0..3 {
            assert!(engine.respond(UNKNOWN, |key| transmit(UNKNOWN, key)));
        }
        assert_eq!(engine.sends_to(UNKNOWN).len(), 3);
    }

    #[test]
    fn responses_that_are_over_are_forgotten() {
        let mut engine = engine();
        for _ in 0..10 * SENDS {
            assert!(engine.respond(UNKNOWN, |key| transmit(UNKNOWN, key)));
            let key = *engine.sends_to(UNKNOWN).last().expect("it was added");
            assert!(engine.sends.remove(key).is_some());
            engine.responded(UNKNOWN);
            assert!(engine.sends_to(UNKNOWN).len() <= 2 * (ALWAYS + 1));
        }
    }
}
