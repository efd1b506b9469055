//! Fences: an operation with `FENCE` starts only when every earlier one to its peer is complete, and those after it wait
//! behind it, fi_msg(3) and fi_rma(3) "FI_FENCE".
//!
//! Large path. A fence is met where an operation would be handed to the link: whatever is complete by then does not count,
//! whatever is behind it is still queued.

use oxifabric_types::{Errno, Flags, PeerId};

use crate::engine::Engine;
use crate::link::Link;
use crate::matching::Class;
use crate::peer::TxBlock;
use crate::slab::Key;
use crate::transmit::Stage;

impl Engine {
    /// Returns whether the next operation to a peer has to wait: the peer is fenced then until one completes, or blocked until the link has settled what was posted
    /// to it.
    pub(crate) fn meets_fence(&mut self, link: &mut impl Link, peer: PeerId, key: Key) -> bool {
        let is_fenced = self.sends.get(key).is_some_and(|send| send.is_fenced());
        if !is_fenced {
            return false;
        }
        let block = match self.has_begun(peer) {
            true => TxBlock::FENCED,
            false if link.settles(peer) => return false,
            false => TxBlock::BLOCKED,
        };
        if let Some(row) = self.peers.get_mut(peer) {
            row.tx_block.insert(block);
        }
        true
    }

    /// Refuses a fenced operation with this endpoint itself while an earlier one is under way: such operations never
    /// wait in a queue.
    ///
    /// # Errors
    /// [`Errno::AGAIN`].
    pub(crate) fn check_own_fence(&self, flags: Flags) -> Result<(), Errno> {
        match flags.contains(Flags::FENCE) && self.has_begun(self.me) {
            true => Err(Errno::AGAIN),
            false => Ok(()),
        }
    }

    /// Returns whether an operation with a peer has begun and is not complete. Responses are the peer's operations.
    fn has_begun(&self, peer: PeerId) -> bool {
        let mut sends = self.sends.iter();
        let begun = sends.any(|(_, send)| {
            send.peer == peer && send.stage != Stage::Queued && !send.is_internal()
        });
        begun || self.unexpected.any_from(peer, Class::is_answer)
    }
}
