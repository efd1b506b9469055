//! What a fence waits for beyond the ends of operations: an injected write is complete when its packet is with the device, and nothing keeps what follows from
//! overtaking it on the way, or in the peer's queue. Path class: cold.
//!
//! Packets of this end are over when the peer's device has them. A device reads and writes memory without the peer, and at a peer that keeps no more messages atomics wait
//! behind these while reads and writes do not: so after writes and atomics the peer is sent a write of nothing to nowhere whose receipt says that everything before it is done.

use oxifabric_types::{Errno, PeerId};

use super::EfaRdm;
use super::operations::OperationKind;
use super::send::{NOTHING, write_of_nothing};

impl EfaRdm {
    /// Returns whether nothing of what was posted to a peer can be overtaken by what is posted now; the engine waits to post otherwise.
    #[cold]
    pub(super) fn is_settled(&mut self, peer: PeerId) -> bool {
        let is_over = !self.tx.any_to(peer);
        let row = self.peers.get(peer);
        let Some(row) = row.filter(|row| row.gone.is_none() && !row.is_doomed) else {
            return true;
        };
        let is_settling = row.is_settling;
        let asks = row.is_unsettled;
        if is_over && !is_settling && !asks {
            return true;
        }
        if is_settling {
            self.ask_if_silent(peer);
        } else if is_over {
            self.ask_to_settle(peer);
        }
        self.is_quiet = false;
        self.idle_period.end();
        let _again = self.block(peer);
        false
    }

    /// Notes that a peer was sent a write or an atomic in packets.
    #[inline(always)]
    pub(super) fn unsettle(&mut self, peer: PeerId) {
        if let Some(row) = self.peers.get_mut(peer) {
            row.is_unsettled = true;
        }
    }

    /// Notes that what a peer was sent before it was asked is in its memory.
    pub(super) fn settled(&mut self, peer: PeerId) {
        if let Some(row) = self.peers.get_mut(peer) {
            row.is_settling = false;
        }
    }

    /// Asks a peer to say when what it was sent is in its memory; when there is no room, that is tried again.
    fn ask_to_settle(&mut self, peer: PeerId) {
        let asked = match self.operations.insert(peer, OperationKind::Settling) {
            Some(id) => {
                let asked = self.send(peer, &write_of_nothing(Some(id)), NOTHING, None);
                self.keep_if(asked, peer, Some(id))
            }
            None => Err(Errno::AGAIN),
        };
        match (asked, self.peers.get_mut(peer)) {
            (Ok(()), Some(row)) => (row.is_unsettled, row.is_settling) = (false, true),
            (Ok(()) | Err(Errno::AGAIN), _) => {}
            (Err(errno), _) => self.doom(peer, errno, "a fence could not be asked for".to_owned()),
        }
    }
}
