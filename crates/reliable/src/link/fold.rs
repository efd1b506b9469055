//! Idle channels are folded: what an open one needs to move data, a few kilobytes, is given up, and comes back when the channel is used
//! again (docs/adr/0043). The peer keeps its number, and neither side notices. Cold path.
//!
//! Every open peer is in [`FoldQueue`]. The link looks at the first peers of it when another peer opens, and at all of them once a second.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::time::Duration;

use oxifabric_types::{Instant, PeerId};

use super::peer::Peer;
use super::{PacketPort, ReliableLink};
use crate::channel::rest::RestingChannel;
use crate::channel::{Channel, ChannelConfig, Identity};
use crate::path::PathSummary;

/// Time without a packet from the peer after which its channel is folded. Opening it again costs about as much as sending a packet.
const IDLE: Duration = Duration::from_millis(20);

/// Number of peers that are looked at when another one opens: more than one, so that each peer in the queue has its turn although the queue
/// grows.
const LOOKS: usize = 2;

/// What a link keeps of a peer that it has a number for.
#[derive(Debug, Default)]
pub(super) enum Slot {
    /// There is no channel.
    #[default]
    Empty,
    Open(Box<Peer>),
    Folded(Box<FoldedPeer>),
}

/// What is kept of a peer whose channel is idle.
#[derive(Debug)]
pub(super) struct FoldedPeer {
    channel: RestingChannel,
    path: PathSummary,
    /// See [`Peer::heard_at`].
    pub(super) heard_at: Instant,
    /// See [`Peer::is_known`].
    pub(super) is_known: bool,
}

/// The queue of peers to be looked at: all open ones, and some that have been folded or closed since they were put here.
#[derive(Debug, Default)]
pub(super) struct FoldQueue(VecDeque<PeerId>);

impl FoldQueue {
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Appends a peer whose channel is open now.
    pub(super) fn push(&mut self, id: PeerId) {
        self.0.push_back(id);
    }
}

impl Slot {
    pub(super) const fn is_empty(&self) -> bool {
        matches!(self, Self::Empty)
    }

    /// Returns the peer if its channel is not folded.
    pub(super) fn open(&self) -> Option<&Peer> {
        match self {
            Self::Open(peer) => Some(peer),
            Self::Empty | Self::Folded(_) => None,
        }
    }

    /// Returns whether the application knows the peer, and when a packet came from it last.
    pub(super) fn heard(&self) -> Option<(bool, Instant)> {
        match self {
            Self::Empty => None,
            Self::Open(peer) => Some((peer.is_known, peer.heard_at)),
            Self::Folded(peer) => Some((peer.is_known, peer.heard_at)),
        }
    }

    /// Returns the peer, opened again if it was folded; `None` if there is no channel.
    pub(super) fn unfolded(
        &mut self,
        payload: u32,
        config: ChannelConfig,
        now: Instant,
    ) -> Option<&mut Peer> {
        if let Self::Folded(folded) = self {
            let mut channel = folded.channel(payload, config, now);
            channel.resume_path(&folded.path);
            let mut peer = Peer::new(channel, folded.is_known, folded.heard_at);
            peer.channel
                .set_queue(super::queues::first(folded.is_known));
            *self = Self::Open(Box::new(peer));
        }
        match self {
            Self::Open(peer) => Some(peer),
            Self::Empty | Self::Folded(_) => None,
        }
    }
}

impl FoldedPeer {
    /// Returns a channel that goes on where the folded one stopped, on a path that is measured anew.
    pub(super) fn channel(&self, payload: u32, config: ChannelConfig, now: Instant) -> Channel {
        let me = Identity {
            id: self.channel.id(),
            payload,
            port: 0,
        };
        Channel::wake(&self.channel, me, config, now)
    }
}

impl<P: PacketPort> ReliableLink<P> {
    /// Returns a peer, opened again if it was folded; `None` if there is no channel with it.
    #[inline]
    pub(super) fn peer(&mut self, id: PeerId) -> Option<&mut Peer> {
        if matches!(self.peers.get(id.index()), Some(Slot::Folded(_))) {
            self.unfold(id);
        }
        match self.peers.get_mut(id.index()) {
            Some(Slot::Open(peer)) => Some(peer),
            _ => None,
        }
    }

    /// Opens a folded peer again; returns whether there is a channel with it.
    #[cold]
    pub(super) fn unfold(&mut self, id: PeerId) -> bool {
        match self.peers.get(id.index()) {
            None | Some(Slot::Empty) => return false,
            Some(Slot::Open(_)) => return true,
            Some(Slot::Folded(_)) => {}
        }
        // Others are folded before this peer is opened: until it is used, it would count as idle itself.
        self.fold_some(LOOKS);
        let (payload, config, now) = (self.payload(), self.config_with(id), self.now);
        if let Some(slot) = self.peers.get_mut(id.index()) {
            slot.unfolded(payload, config, now);
        }
        self.open.push(id);
        true
    }

    /// Takes note that a new peer is open, and folds others that are idle.
    pub(super) fn opened(&mut self, id: PeerId) {
        self.fold_some(LOOKS);
        self.open.push(id);
    }

    /// Folds all idle peers; called once a second.
    pub(super) fn fold_idle(&mut self) {
        if self.open.0.is_empty() {
            return;
        }
        self.fold_some(self.open.0.len());
        self.open.0.shrink_to(2 * self.open.0.len());
    }

    /// Folds those that are idle of the first `most` peers in the queue.
    fn fold_some(&mut self, most: usize) {
        for _ in 0..most {
            let Some(id) = self.open.0.pop_front() else {
                return;
            };
            let is_open = matches!(self.peers.get(id.index()), Some(Slot::Open(_)));
            if is_open && !self.fold(id) {
                self.open.0.push_back(id);
            }
        }
    }

    /// Folds a peer; returns false if it is not idle.
    fn fold(&mut self, id: PeerId) -> bool {
        let Some(Slot::Open(peer)) = self.peers.get_mut(id.index()) else {
            return false;
        };
        let is_idle = peer.heard_at.after(IDLE) <= self.now;
        if !is_idle || peer.hot || !peer.is_at_rest() || !peer.channel.has_whole_path() {
            return false;
        }
        self.repeated += peer.channel.repeated();
        if !peer.is_known {
            self.admission.queues.give_back(peer.channel.queue());
        }
        let folded = FoldedPeer {
            channel: peer.channel.rest(),
            path: peer.channel.path_summary(),
            heard_at: peer.heard_at,
            is_known: peer.is_known,
        };
        self.peers[id.index()] = Slot::Folded(Box::new(folded));
        true
    }
}
