//! A peer is gone: everything that waits for it fails, nothing else is disturbed.

use oxifabric_types::{Errno, PeerId};

use crate::engine::Engine;
use crate::message::MatchState;
use crate::slab::Key;
use crate::{Completions, HeaderFlags};

impl Engine {
    /// Fails sends to the peer, receives that its messages matched or that only it could satisfy, and drops
    /// what it had not sent completely. Messages that are here stay receivable.
    pub(crate) fn lose_peer(&mut self, out: &mut impl Completions, peer: PeerId, why: Errno) {
        self.fail_sends_to(out, peer, why);
        for key in self.unexpected.keys_in_need_of(peer) {
            self.lose_message(out, key, why);
        }
        if self.peers.is_named(peer) {
            self.posted.fail_from(peer, why, out);
            self.lose_member(peer, why);
        }
        self.collectives.forget_given_up(peer);
        if self.unexpected.held_from(peer) > 0 && out.may_drop_left(peer) {
            self.unexpected.orphan(peer);
        }
        self.peers.lose(peer, why);
        self.retry_stalled = true;
    }

    fn fail_sends_to(&mut self, out: &mut impl Completions, peer: PeerId, why: Errno) {
        for key in self.sends_to(peer) {
            if let Some(send) = self.sends.get_mut(key).filter(|send| send.peer == peer) {
                send.pending = 0;
                self.fail_send(out, key, why);
            }
        }
    }

    fn lose_message(&mut self, out: &mut impl Completions, key: Key, why: Errno) {
        let Some(message) = self.unexpected.get_mut(key) else {
            return;
        };
        let waits = matches!(
            message.match_state,
            MatchState::Waiting | MatchState::Claimed(_)
        );
        if waits && message.is_here() {
            // The peer that would be acknowledged is gone.
            message.arrival.flags &= HeaderFlags::DATA;
        } else {
            self.finish(out, key, Err(why));
        }
    }
}
