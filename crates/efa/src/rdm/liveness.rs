//! Peers that are gone: how the endpoint notices, and what it does with what is under way.
//!
//! The device reports what it could not deliver. A peer that owes an answer and is not sent anything is sent another handshake now and then,
//! which every endpoint takes at any time, so that its end is noticed. So is one that the application does not know, and that has sent packets which wait for others, or
//! is one of many: those that are gone leave their places to the next ones.

use std::time::Duration;

use oxifabric_engine::Sink;
use oxifabric_provider::log;
use oxifabric_types::{Errno, PeerId};

use super::peers::Peer;
use super::{EfaRdm, UNKNOWN_MAX};

/// How often a peer that is awaited and silent is sent a handshake.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Number of peers that the application does not know, from which on all that are silent are asked whether they are there.
const CROWD: usize = UNKNOWN_MAX / 4;

/// The share of the idle buffers that such questions take at a time.
const ASKING_SHARE: usize = 2;

impl EfaRdm {
    /// Has a peer given up at the end of this poll; the first cause counts. Operations with it that fail from now on have the reason.
    pub(super) fn doom(&mut self, peer: PeerId, why: Errno, reason: String) {
        if let Some(row) = self.peers.get_mut(peer)
            && row.gone.is_none()
            && !std::mem::replace(&mut row.is_doomed, true)
        {
            log::info!("efa", EpCtrl, "connection lost: {reason}");
            self.peers.directory().explain(peer, Some(reason));
            self.doomed.push((peer, why));
            self.idle_period.end();
        }
    }

    /// Gives up the peers whose end has been decided, but for those of which the device has something yet: it may still write to memory that the
    /// application would have back, or send what is there by then. Returns how many there were.
    #[inline(always)]
    pub(super) fn end_doomed(&mut self, sink: &mut impl Sink) -> usize {
        match self.doomed.is_empty() {
            true => 0,
            false => self.end_some(sink),
        }
    }

    #[cold]
    fn end_some(&mut self, sink: &mut impl Sink) -> usize {
        let mut count = 0;
        for (peer, why) in std::mem::take(&mut self.doomed) {
            if self.stop_accesses(peer, why, sink) {
                self.end(peer, why, sink);
                count += 1;
            } else {
                self.doomed.push((peer, why));
            }
        }
        count
    }

    /// Gives a peer up for good: its address names this one endpoint, which has lost packets.
    fn end(&mut self, peer: PeerId, why: Errno, sink: &mut impl Sink) {
        let Some(row) = self.peers.get_mut(peer) else {
            return;
        };
        if row.gone.is_some() {
            return;
        }
        row.gone = Some(why);
        row.is_doomed = false;
        (row.is_blocked, row.owes_handshake) = (false, false);
        row.begun.clear();
        self.waiting.remove(peer);
        self.hold(peer, |row| {
            (row.order, row.backlog) = Default::default();
            row.is_stalled = false;
        });
        self.operations.remove_all(peer);
        let operations = &self.operations;
        self.mine.retain(|_, id| operations.has(*id));
        for token in self.tx.forget(peer) {
            sink.sent(token, Err(why));
        }
        sink.peer_down(peer, why);
    }

    /// Looks at the peers that owe an answer, once in a while.
    #[inline(always)]
    pub(super) fn look(&mut self, sink: &mut impl Sink) {
        if self.now >= self.look_at {
            self.look_now(sink);
        }
    }

    #[cold]
    fn look_now(&mut self, sink: &mut impl Sink) {
        self.look_at = self.now.after(ASK_AGAIN / 2);
        let mut awaited = Vec::new();
        sink.peers_with_pending(&mut |peer| awaited.push(peer));
        // What is to be posted may wait for a handshake, which is in no operation.
        awaited.extend(self.waiting.all());
        if self.early_bytes > 0 {
            awaited.extend(self.unknown_early().map(|(peer, _)| peer));
        }
        awaited.sort_unstable();
        awaited.dedup();
        self.is_quiet = awaited.is_empty();
        for peer in awaited {
            if let Some(why) = self.peers.get(peer).and_then(|row| row.gone) {
                // A receive from it alone was posted since: its address names no other endpoint, ever.
                sink.peer_down(peer, why);
            } else {
                self.ask_if_silent(peer);
            }
        }
        if self.peers.unknown() >= CROWD {
            self.look_at_crowd(sink);
        }
    }

    /// Makes room among the peers that the application does not know: those that are gone are forgotten, and those that are silent asked whether they are there, some
    /// at a time.
    #[cold]
    fn look_at_crowd(&mut self, sink: &mut impl Sink) {
        self.forget_now(sink);
        let rows = self.peers.table.rows() as u32;
        let most = self.tx.room() / ASKING_SHARE;
        for _ in 0..rows {
            self.asked_up_to = (self.asked_up_to + 1) % rows;
            let peer = PeerId(self.asked_up_to);
            if !self.peers.table.is_named(peer)
                && self.peers.get(peer).is_some_and(|row| row.gone.is_none())
            {
                self.ask_if_silent(peer);
            }
            if self.attention.len() >= most {
                break;
            }
        }
    }

    /// Sends a peer that is awaited a handshake if it is silent, so that its end is noticed.
    pub(super) fn ask_if_silent(&mut self, peer: PeerId) {
        let now = self.now;
        if let Some(row) = self.peers.get_mut(peer)
            && row.has_met
            && now.since(row.heard_at) >= ASK_AGAIN
        {
            row.heard_at = now;
            self.owe_handshake(peer);
        }
    }

    /// Forgets peers that no operation is about, when there are many.
    #[inline(always)]
    pub(super) fn forget_departed(&mut self, sink: &mut impl Sink) {
        if self.peers.table.is_crowded() {
            self.forget_now(sink);
        }
    }

    #[cold]
    fn forget_now(&mut self, sink: &mut impl Sink) {
        let mut departed = self.peers.table.departed(|peer: &Peer| peer.gone.is_some());
        let gone = departed.len();
        let mut involved = Vec::new();
        sink.involved(&mut |peer| involved.push(peer));
        involved.sort_unstable();
        // A request that is made again would go to the next peer with this number.
        departed.retain(|peer| {
            let is_involved = involved.binary_search(peer).is_ok();
            !is_involved && !sink.is_known(*peer) && !self.tx.any_to(*peer)
        });
        self.peers.left_messages = gone - departed.len();
        departed.iter().for_each(|peer| sink.forget_peer(*peer));
        self.peers.table.vacate(&departed);
    }
}
