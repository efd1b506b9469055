//! Packets that belong to no channel (protocol section 3.3): the link keeps no state of their source, answers from what they contain, and
//! makes a channel only with a source that has received the answer. Cold path.

use alloc::collections::{BTreeSet, VecDeque};
use core::time::Duration;

use oxifabric_engine::PeerSet;
use oxifabric_engine::link::Sink;
use oxifabric_types::{Errno, PeerId};
use oxifabric_wire::reliable::packet::{HEADER_LEN, Handshake, Packet, PacketKind};

use super::fold::Slot;
use super::peer::Peer;
use super::queues::UnknownQueues;
use super::{PacketPort, ReliableLink, To};
use crate::channel::{handshake_in, micros};
use crate::receiver::CREDIT;
use crate::sender::QUEUE_BYTES;

/// Maximum number of channels with peers that the application does not know: it has not addressed them, nor are they in its
/// address vector. An open one costs two kilobytes, an idle one some hundred bytes.
const UNKNOWN_MAX: usize = 4096;

/// How long nothing must have come from an unknown peer before its channel is closed to make room for another one; the channel that is
/// idle longest is closed. A peer with pending operations probes this end once a second.
const SILENT: Duration = Duration::from_secs(3);

/// Time after which a never used channel with an unknown peer is closed.
const UNUSED: Duration = Duration::from_secs(30);

/// Number of ids of ended channels that are remembered: they are not given again.
const ENDED_MAX: usize = 4096;

/// The bits of a channel's id that repeat those of the peer's id of the channel; the others prove that the peer has got the id from this end.
const SALT: u64 = 0xffff;

/// Admission of peers: the channels that known and unknown peers may have, and those that have ended.
#[derive(Debug)]
pub(super) struct Admission {
    /// Peers that the application knows.
    known: PeerSet,
    /// Number of channels with unknown peers.
    pub(super) unknown: usize,
    pub(super) queues: UnknownQueues,
    /// Unknown peers whose channels have ended, and whose numbers may still be in use.
    pub(super) parted: BTreeSet<PeerId>,
    /// Ids of channels that have ended, the latest last.
    ended: VecDeque<u64>,
    /// Secret that ids are made with.
    secret: u64,
}

impl Admission {
    pub(super) fn new(secret: u64) -> Self {
        Self {
            known: PeerSet::default(),
            unknown: 0,
            queues: UnknownQueues::default(),
            parted: BTreeSet::new(),
            ended: VecDeque::new(),
            secret,
        }
    }

    /// Returns whether numbers of peers are still to be given back.
    pub(super) fn is_waiting(&self) -> bool {
        !self.parted.is_empty()
    }

    /// Admits a channel with a peer; returns whether the application knows the peer.
    pub(super) fn begin(&mut self, peer: PeerId) -> bool {
        if self.known.contains(peer) {
            return true;
        }
        self.unknown += 1;
        false
    }

    /// Notes the end of a channel with a peer.
    pub(super) fn end(&mut self, id: PeerId, peer: &Peer) {
        self.note_ended(peer.channel.id());
        if !peer.is_known {
            self.leave(id, peer.channel.queue());
        }
    }

    /// Notes that this id must not be given to a channel again.
    pub(super) fn note_ended(&mut self, name: u64) {
        if self.ended.len() >= ENDED_MAX {
            self.ended.pop_front();
        }
        self.ended.push_back(name);
    }

    /// Notes that there is no channel with an unknown peer any more, whose queue had that length.
    pub(super) fn leave(&mut self, peer: PeerId, queue: usize) {
        self.queues.give_back(queue);
        self.unknown = self.unknown.saturating_sub(1);
        self.parted.insert(peer);
    }
}

impl<P: PacketPort> ReliableLink<P> {
    /// Notes that the application addresses a peer.
    pub fn know(&mut self, id: PeerId) {
        let admission = &mut self.admission;
        if !admission.known.insert(id) {
            return;
        }
        match self.peers.get_mut(id.index()) {
            Some(Slot::Open(peer)) => {
                peer.is_known = true;
                admission.queues.give_back(peer.channel.queue());
                peer.channel.set_queue(QUEUE_BYTES);
            }
            Some(Slot::Folded(peer)) => peer.is_known = true,
            Some(Slot::Empty) | None => return,
        }
        admission.unknown = admission.unknown.saturating_sub(1);
    }

    /// Answers the packet at hand, which is for no channel with its source. Returns the peer if the packet opens a channel.
    #[cold]
    pub(super) fn meet_source(&mut self, packet: &Packet, sink: &mut impl Sink) -> Option<PeerId> {
        if let Some(id) = self.wake(packet, sink) {
            return Some(id);
        }
        let (_, bytes) = self.port.packet();
        let handshake = handshake_in(bytes.get(HEADER_LEN..).unwrap_or_default());
        match (packet.kind, handshake) {
            // A Hello that answers another is not answered: two ends without a channel would answer each other for ever.
            (PacketKind::Hello, Some(handshake)) if handshake.to == 0 => {
                let name = self.name_for(handshake.from);
                self.invite(packet, name, handshake.from);
            }
            // That the channel of a Bye is unknown is no news for its source.
            (PacketKind::Hello | PacketKind::Unknown | PacketKind::Bye, _) => {}
            (PacketKind::Welcome, Some(handshake)) if self.is_invited(packet.to) => {
                return self.admit(packet.to, &handshake, sink);
            }
            // The Welcome that the source sent before was lost.
            (PacketKind::Data | PacketKind::Part | PacketKind::Probe | PacketKind::Ack, _)
                if self.is_invited(packet.to) =>
            {
                self.invite(packet, packet.to, packet.to);
            }
            _ if packet.to != 0 => {
                let header = Packet::new(PacketKind::Unknown, packet.to).emit();
                self.port.answer(&header, &[]);
            }
            _ => {}
        }
        None
    }

    /// Lets idle channels with unknown peers rest, closes those that were never used, and gives numbers of peers back; called once a second.
    pub(super) fn part(&mut self, sink: &mut impl Sink) {
        if self.admission.unknown != 0 {
            self.shorten_queues();
            self.rest_idle(sink);
            self.dismiss_unused(sink);
        }
        if self.admission.is_waiting() {
            self.give_numbers_back(sink);
        }
    }

    /// Closes channels with unknown peers that were never used.
    fn dismiss_unused(&mut self, sink: &mut impl Sink) {
        let now = self.now;
        let mut at = 0;
        while let Some(further) = self.peers.iter().skip(at).position(|row| {
            row.open().is_some_and(|peer| {
                !peer.is_known && peer.channel.is_unused() && peer.heard_at.after(UNUSED) <= now
            })
        }) {
            at += further;
            self.dismiss(PeerId(at as u32), sink);
            at += 1;
        }
    }

    fn give_numbers_back(&mut self, sink: &mut impl Sink) {
        let mut parted = core::mem::take(&mut self.admission.parted);
        sink.involved(&mut |id| {
            if parted.remove(&id) {
                self.admission.parted.insert(id);
            }
        });
        for id in parted {
            let is_back = (self.peers.get(id.index())).is_some_and(|slot| !slot.is_empty());
            if is_back || self.admission.known.contains(id) {
                continue;
            }
            sink.forget_peer(id);
            self.port.release(id);
        }
    }

    /// Returns the id of a channel with the source of the packet at hand, whose id of it is `other`.
    fn name_for(&self, other: u64) -> u64 {
        let salt = other & SALT;
        let proof = mix(self.port.source() ^ mix(self.admission.secret ^ salt));
        ((proof & !SALT) | salt).max(1)
    }

    /// Returns whether the source of the packet at hand has got this id from here.
    fn is_invited(&self, name: u64) -> bool {
        name == self.name_for(name) && !self.admission.ended.contains(&name)
    }

    /// Sends a Hello to the source of the packet at hand. Only its answer makes a channel.
    fn invite(&mut self, heard: &Packet, name: u64, other: u64) {
        let handshake = Handshake {
            from: name,
            to: other,
            payload: self.payload(),
            port: 0,
        };
        let header = Packet {
            credit: CREDIT as u16,
            sent: micros(self.port.now()),
            echo: heard.sent,
            ..Packet::new(PacketKind::Hello, 0)
        };
        self.port.answer(&header.emit(), &handshake.emit());
    }

    /// Admits the source of the packet at hand, which has proved its address: it gets a channel, or has one already, of another
    /// id.
    fn admit(&mut self, name: u64, handshake: &Handshake, sink: &mut impl Sink) -> Option<PeerId> {
        let (from, _) = self.port.packet();
        if let Some(peer) = self.peer(from) {
            if !peer.channel.is_with(handshake.from) {
                peer.channel.doubt();
                self.warm(from);
                return None;
            }
            let before = peer.channel.id();
            peer.channel.rename(name);
            self.ids.remove(&before);
            self.ids.insert(name, from);
            return Some(from);
        }
        self.admit_source(name, sink)
    }

    /// Begins a channel of this id with the source of the packet at hand, which has none; `None` if there are too many.
    pub(super) fn admit_source(&mut self, name: u64, sink: &mut impl Sink) -> Option<PeerId> {
        let id = self.port.number()?;
        if sink.is_known(id) {
            self.admission.known.insert(id);
        }
        let is_known = self.admission.known.contains(id);
        if !is_known && self.admission.unknown >= UNKNOWN_MAX && !self.make_room(sink) {
            self.port.release(id);
            return None;
        }
        self.meet_as(id, name);
        Some(id)
    }

    /// Closes the channel that has been idle longest, or lets it rest, of those with unknown peers; returns false if none has been idle for
    /// long enough.
    fn make_room(&mut self, sink: &mut impl Sink) -> bool {
        let peers = (0..).zip(&self.peers);
        let unknown = peers.filter_map(|(id, peer)| {
            let (is_known, heard_at) = peer.heard()?;
            (!is_known).then_some((heard_at, id))
        });
        match unknown.min() {
            Some((heard_at, id)) if heard_at.after(SILENT) <= self.now => {
                if !self.rest_channel(PeerId(id), sink) {
                    self.dismiss(PeerId(id), sink);
                }
                true
            }
            _ => false,
        }
    }

    fn dismiss(&mut self, id: PeerId, sink: &mut impl Sink) {
        self.unfold(id);
        if let Some(Slot::Open(peer)) = self.peers.get_mut(id.index()) {
            peer.channel.close(self.now, &mut To(&mut self.port, id));
            self.down(id, Errno::CONNRESET, sink);
        }
    }
}

/// Spreads the bits of a number: the last step of splitmix64.
const fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
