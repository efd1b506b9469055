//! What is queued for peers that the application does not know: a little for each, and more out of what they share. Cold path.

use super::fold::Slot;
use super::handshake::Admission;
use super::peer::Peer;
use super::{PacketPort, ROOM, ReliableLink};
use crate::sender::QUEUE_BYTES;

/// Bytes that all queues of unknown peers together may have beyond the first ones: as much as such peers may make an endpoint keep
/// of what they send.
const SHARED: usize = 128 << 20;

/// The part by which a queue becomes longer, so that this is rare.
const STEP: usize = 128 << 10;

/// The bytes that queues of unknown peers have beyond their first length.
#[derive(Debug, Default)]
pub(super) struct UnknownQueues {
    taken: usize,
}

impl UnknownQueues {
    /// The length of a queue at first, whatever others have: the longest frame with its header fits, beside a little that is under
    /// way.
    pub(super) const FIRST: usize = ROOM + (8 << 10);

    /// Takes back what a queue had beyond a length.
    pub(super) const fn shorten(&mut self, queue: usize, length: usize) {
        self.taken = self.taken.saturating_sub(queue.saturating_sub(length));
    }

    /// Takes back what a queue had beyond its first length.
    pub(super) const fn give_back(&mut self, queue: usize) {
        self.shorten(queue, Self::FIRST);
    }
}

/// Returns the length of a peer's queue at first.
pub(super) const fn first(is_known: bool) -> usize {
    match is_known {
        true => QUEUE_BYTES,
        false => UnknownQueues::FIRST,
    }
}

impl Admission {
    /// Makes the queue of an unknown peer longer, if its share allows it; returns whether a frame has room then.
    #[cold]
    pub(super) fn lengthen(&mut self, peer: &mut Peer, wanted: usize) -> bool {
        if peer.is_known || !peer.channel.is_open() {
            return false;
        }
        let queue = peer.channel.queue();
        let share = (SHARED / self.unknown.max(1)).min(QUEUE_BYTES);
        let free = SHARED.saturating_sub(self.queues.taken);
        let more = share.saturating_sub(queue).min(free).min(STEP);
        self.queues.taken += more;
        peer.channel.set_queue(queue + more);
        peer.large.is_none() && peer.channel.room() >= wanted
    }
}

impl<P: PacketPort> ReliableLink<P> {
    /// Takes back the room in queues of unknown peers that is not used; called once a second.
    pub(super) fn shorten_queues(&mut self) {
        for slot in &mut self.peers {
            // What a folded peer had was taken back.
            let Slot::Open(peer) = slot else {
                continue;
            };
            let (queue, used) = (peer.channel.queue(), peer.channel.queued());
            let length = used.max(UnknownQueues::FIRST);
            if !peer.is_known && queue > length {
                self.admission.queues.shorten(queue, length);
                peer.channel.set_queue(length);
            }
        }
    }
}
