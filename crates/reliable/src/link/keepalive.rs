//! Keepalive of peers with pending operations, from which nothing else would be received (protocol section 6.4).

use alloc::vec::Vec;
use core::time::Duration;

use oxifabric_engine::link::Sink;
use oxifabric_types::{Instant, PeerId};

use super::fold::Slot;
use super::{PacketPort, ReliableLink};

/// Interval at which the engine is asked for the peers with pending operations.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Keepalive {
    /// When the engine is asked next; never, as long as there is no channel.
    pub(super) at: Instant,
    /// Peers that it named the last time.
    pending: Vec<PeerId>,
}

impl Keepalive {
    pub(super) const fn new() -> Self {
        Self {
            at: Instant::END,
            pending: Vec::new(),
        }
    }

    /// Starts asking: there is a channel.
    pub(super) fn begin(&mut self, now: Instant) {
        if self.at == Instant::END {
            self.at = now.after(PAUSE);
        }
    }
}

impl<P: PacketPort> ReliableLink<P> {
    /// Enables keepalive on the channels of peers with pending operations, and on no others.
    #[cold]
    pub(super) fn update_keepalive(&mut self, sink: &mut impl Sink) {
        self.part(sink);
        let goes_on = self.admission.is_waiting() || !self.peers.iter().all(Slot::is_empty);
        self.keepalive.at = match goes_on {
            true => self.now.after(PAUSE),
            false => Instant::END,
        };
        for id in &self.keepalive.pending {
            if let Some(Slot::Open(peer)) = self.peers.get_mut(id.index()) {
                peer.pending = false;
            }
        }
        let before = self.keepalive.pending.len();
        sink.peers_with_pending(&mut |id| self.note_pending(id));
        let mut at = 0;
        while let Some(&id) = self.keepalive.pending.get(at) {
            self.set_keepalive(id);
            at += 1;
        }
        if before != 0 {
            self.keepalive.pending.drain(..before);
        }
        self.fold_idle();
    }

    /// Takes note of a peer with pending operations: its channel is to be open.
    fn note_pending(&mut self, id: PeerId) {
        let (payload, config, now) = (self.payload(), self.config_with(id), self.now);
        let Some(slot) = self.peers.get_mut(id.index()) else {
            return;
        };
        if matches!(slot, Slot::Folded(_)) {
            self.open.push(id);
        }
        if let Some(peer) = slot.unfolded(payload, config, now)
            && !peer.pending
        {
            peer.pending = true;
            self.keepalive.pending.push(id);
        }
    }

    fn set_keepalive(&mut self, id: PeerId) {
        if let Some(Slot::Open(peer)) = self.peers.get_mut(id.index()) {
            peer.channel.set_keepalive(peer.pending, self.now);
            self.warm(id);
        }
    }
}
