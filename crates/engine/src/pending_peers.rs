//! Peers with operations pending, and peers that anything here is about.
//!
//! A link without connection state sends keepalives to the former only, and gives up no channel with the latter.

use oxifabric_types::PeerId;

use crate::Completions;
use crate::engine::Engine;

impl Engine {
    /// Names each peer without which something under way cannot end: it owes an answer or the rest of a message, or a
    /// receive takes from it alone. A peer may be named several times.
    pub(crate) fn peers_with_pending(&self, each: &mut dyn FnMut(PeerId)) {
        let sends = self.sends.iter().map(|(_, send)| send);
        for send in sends.filter(|send| send.awaits_answer()) {
            each(send.peer);
        }
        self.posted.each_source(each);
        self.unexpected.unfinished().for_each(&mut *each);
        self.collectives.peers_with_pending().for_each(each);
    }

    /// Names each peer that anything here is about: an operation, a message that is here or on its way, an answer that waits.
    /// A peer may be named several times.
    pub(crate) fn involved(&self, each: &mut dyn FnMut(PeerId)) {
        self.sends.iter().for_each(|(_, send)| each(send.peer));
        self.posted.each_source(each);
        self.unexpected.senders().for_each(&mut *each);
        self.peers.answered().for_each(&mut *each);
        self.collectives.peers_that_gave_up().for_each(&mut *each);
        self.collectives.peers_with_pending().for_each(each);
    }

    /// Forgets a peer: its number means another one from now on. Nothing here is about it ([`Engine::involved`]).
    pub(crate) fn forget_peer(&mut self, out: &mut impl Completions, peer: PeerId) {
        self.peers.reset(peer);
        self.peers.forget(peer);
        out.forgotten(peer);
    }
}
