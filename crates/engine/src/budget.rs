//! The budget for unexpected messages, those that no receive matched (docs/adr/0035).
//!
//! Up to [`Config::unexpected_bytes`] anything is kept. Beyond it a message is kept only if a correct program could hang without
//! it, and up to [`Config::unexpected_ceiling`] at most. What is not kept waits at its sender, which is not notified: the link
//! does not read on.
//!
//! [`Config::unexpected_bytes`]: crate::Config::unexpected_bytes
//! [`Config::unexpected_ceiling`]: crate::Config::unexpected_ceiling

use alloc::vec::Vec;
use oxifabric_types::PeerId;

use crate::engine::Engine;
use crate::message::{MatchState, cost};
use crate::slab::Key;
use crate::{Completions, Placement};

/// Bytes reserved for one message beyond the budget. Messages that a link sends without asking first are shorter,
/// unless its peer knows no other way.
const RESERVE_MAX: usize = 1 << 20;

/// Divisor of the ceiling for what the peers that the application does not address may use together. So there is room for
/// the peers that it does address, whatever others send.
const UNKNOWN_IN_ALL: usize = 2;
/// Divisor of the ceiling for what one such peer may use.
const UNKNOWN_EACH: usize = 4;

/// Divisor of the budget for what is freed at once, so that not every message searches for messages that may be dropped.
const STEP: usize = 8;

impl Engine {
    /// Notes that the application addresses a peer: it sends to it, or receives from it alone.
    pub fn name(&mut self, peer: PeerId) {
        self.peers.name(peer);
    }

    /// Decides whether a message that no receive matches may be kept.
    ///
    /// Beyond the budget it may not, with exceptions without which a correct program could hang: the queue holds nothing else
    /// of that peer (up to the ceiling if the application does not address it); something that the application waits for may be behind
    /// it (a receive is posted that the peer could satisfy, or a send waits for the peer's answer); a peek found nothing since the peer was stalled. What peers
    /// left behind goes first.
    pub(crate) fn has_room(
        &mut self,
        out: &mut impl Completions,
        from: PeerId,
        cost: usize,
    ) -> bool {
        if self.is_within(self.config.unexpected_bytes, cost) {
            return true;
        }
        self.drop_orphans(out, cost);
        self.fits_budget(from, cost)
            || (self.is_below_ceiling(from, cost) && self.is_waited_for(from))
    }

    /// Returns whether a message keeps to the budget, or is the only one of its peer. Where sources can be forged there is no limit
    /// to the number of peers: those that the application does not address keep to the ceiling even so.
    pub(crate) fn fits_budget(&self, from: PeerId, cost: usize) -> bool {
        if self.is_within(self.config.unexpected_bytes, cost) {
            return true;
        }
        let is_bounded =
            self.peers.is_named(from) || self.is_within(self.config.unexpected_ceiling, cost);
        is_bounded && self.unexpected.held_from(from) == 0
    }

    /// Returns whether memory for a message of `len` bytes may be reserved when the peer has sent its header alone.
    pub(crate) fn may_reserve(&self, len: usize) -> bool {
        let short = len <= RESERVE_MAX && self.is_within(self.config.unexpected_ceiling, cost(len));
        short || self.is_within(self.config.unexpected_bytes, cost(len))
    }

    /// Stalls a peer: the link delivers nothing more of it until there is room.
    pub(crate) fn stall(&mut self, peer: PeerId) -> Placement {
        self.peers.stall(peer);
        Placement::Stall
    }

    fn is_within(&self, bound: usize, cost: usize) -> bool {
        self.unexpected.held_bytes().saturating_add(cost) <= bound
    }

    /// Returns whether a message may be kept whatever the application waits for.
    fn is_below_ceiling(&self, from: PeerId, cost: usize) -> bool {
        let ceiling = self.config.unexpected_ceiling;
        if self.peers.is_named(from) {
            return self.is_within(ceiling, cost);
        }
        let own = self.unexpected.held_from(from).saturating_add(cost);
        own <= ceiling / UNKNOWN_EACH && self.is_within(ceiling / UNKNOWN_IN_ALL, cost)
    }

    /// Returns whether something may be behind a peer's next message that the application waits for.
    fn is_waited_for(&mut self, from: PeerId) -> bool {
        self.posted.waits_for(from)
            || self.collectives.waits_for(from)
            || self.awaits_answer_of(from)
            || self.peers.use_allowance(from)
    }

    /// Drops what peers left behind that the application does not know, until there is room. Those of the peer that left first go first.
    #[cold]
    fn drop_orphans(&mut self, out: &mut impl Completions, cost: usize) {
        let step = self.config.unexpected_bytes / STEP;
        let wanted = cost.saturating_add(step);
        while !self.is_within(self.config.unexpected_bytes, wanted) {
            let Some(peer) = self.unexpected.next_orphan() else {
                return;
            };
            for key in self.waiting_from(peer) {
                self.discard(out, key);
            }
        }
    }

    fn waiting_from(&self, peer: PeerId) -> Vec<Key> {
        let mut keys = self.unexpected.keys_from(peer);
        keys.retain(|key| {
            let message = self.unexpected.get(*key);
            message.is_some_and(|message| matches!(message.match_state, MatchState::Waiting))
        });
        keys
    }
}
