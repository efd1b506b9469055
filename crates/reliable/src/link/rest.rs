//! Idle channels of peers that the application does not know come to rest: the channel, the peer's number and what the engine
//! keeps of it are given up, and a few numbers stay, with which the next packet of the peer goes on (protocol section 3.5). Cold
//! path.

use alloc::collections::{BTreeMap, VecDeque};
use core::time::Duration;

use oxifabric_engine::link::Sink;
use oxifabric_types::PeerId;
use oxifabric_wire::reliable::packet::{HEADER_LEN, Packet, PacketKind};

use super::fold::Slot;
use super::{PacketPort, ReliableLink};
use crate::channel::rest::RestingChannel;
use crate::channel::{Channel, handshake_in};

/// Time for which nothing must have come from an unknown peer before its channel rests. A peer that waits for something is never
/// silent for so long (protocol section 6.4), and one that computes seldom is. Resting costs a peer that comes back one round trip measured anew.
const IDLE: Duration = Duration::from_secs(300);

/// Maximum number of channels at rest; the one that has rested longest is forgotten. They cost about a hundred bytes each, 7 MiB in
/// all, and as many as an endpoint has numbers for unknown peers.
const RESTING_MAX: usize = 1 << 16;

/// The channels at rest.
#[derive(Debug, Default)]
pub(super) struct RestingChannels {
    /// By the id that this end gave the channel.
    by_id: BTreeMap<u64, Resting>,
    /// Ids and serial numbers in the order in which they came to rest; those that have gone on are skipped.
    order: VecDeque<(u64, u64)>,
    serial: u64,
}

#[derive(Debug)]
struct Resting {
    channel: RestingChannel,
    /// The number that stands for the peer's address ([`PacketPort::source`]).
    source: u64,
    serial: u64,
}

impl RestingChannels {
    /// Takes a channel in; returns the id of one that is forgotten instead, if there are too many.
    fn insert(&mut self, channel: RestingChannel, source: u64) -> Option<u64> {
        let id = channel.id();
        self.serial += 1;
        let serial = self.serial;
        self.order.push_back((id, serial));
        let resting = Resting {
            channel,
            source,
            serial,
        };
        self.by_id.insert(id, resting);
        if self.order.len() <= RESTING_MAX {
            return None;
        }
        let (oldest, serial) = self.order.pop_front()?;
        let is_it = (self.by_id.get(&oldest)).is_some_and(|found| found.serial == serial);
        is_it.then(|| self.by_id.remove(&oldest));
        is_it.then_some(oldest)
    }

    /// Returns the channel of that id with that source.
    fn find(&self, id: u64, source: u64) -> Option<RestingChannel> {
        let found = self.by_id.get(&id)?;
        (found.source == source).then_some(found.channel)
    }

    fn remove(&mut self, id: u64) {
        self.by_id.remove(&id);
    }
}

impl<P: PacketPort> ReliableLink<P> {
    /// Lets the channels of unknown peers rest that have been idle for long; called once a second.
    pub(super) fn rest_idle(&mut self, sink: &impl Sink) {
        let idle = IDLE.max(self.config.deadline);
        for at in 0..self.peers.len() {
            let id = PeerId(at as u32);
            let heard = self.peers.get(at).and_then(Slot::heard);
            if heard.is_some_and(|(is_known, at)| !is_known && at.after(idle) <= self.now) {
                self.rest_channel(id, sink);
            }
        }
    }

    /// Lets the channel of an unknown peer rest; false if something of it is under way here or waits for a receive.
    pub(super) fn rest_channel(&mut self, id: PeerId, sink: &impl Sink) -> bool {
        let Some(peer) = self.peer(id) else {
            return false;
        };
        if !peer.is_at_rest() || sink.holds(id) {
            return false;
        }
        let Some(source) = self.port.source_of(id) else {
            return false;
        };
        let Some(Slot::Open(peer)) = self.peers.get_mut(id.index()).map(core::mem::take) else {
            return false;
        };
        let (rest, queue) = (peer.channel.rest(), peer.channel.queue());
        self.repeated += peer.channel.repeated();
        self.ids.remove(&rest.id());
        self.admission.leave(id, queue);
        if let Some(forgotten) = self.resting.insert(rest, source) {
            self.admission.note_ended(forgotten);
        }
        true
    }

    /// Goes on with the channel at rest that the packet at hand is for. Returns the peer, if there is one and it has a place.
    pub(super) fn wake(&mut self, packet: &Packet, sink: &mut impl Sink) -> Option<PeerId> {
        let rest = self.resting.find(packet.to, self.port.source())?;
        let (from, bytes) = self.port.packet();
        if packet.kind == PacketKind::Welcome {
            let payload = bytes.get(HEADER_LEN..);
            let handshake = handshake_in(payload.unwrap_or_default())?;
            if handshake.from != rest.other() {
                // A new process at the same address has got the same id.
                self.resting.remove(packet.to);
                return None;
            }
        }
        let id = match self.peers.get(from.index()) {
            // The application has addressed the peer meanwhile, and the peer asks about the channel that it knows.
            Some(Slot::Open(peer)) if peer.channel.is_unanswered() => from,
            Some(Slot::Open(_) | Slot::Folded(_)) => return None,
            Some(Slot::Empty) | None => self.admit_source(rest.id(), sink)?,
        };
        self.resting.remove(packet.to);
        let me = self.identity(rest.id());
        let channel = Channel::wake(&rest, me, self.config_with(id), self.now);
        let peer = self.peer(id)?;
        let before = peer.channel.id();
        peer.go_on_with(channel);
        self.ids.remove(&before);
        self.ids.insert(rest.id(), id);
        Some(id)
    }
}
