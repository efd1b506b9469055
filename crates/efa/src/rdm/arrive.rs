//! From packets to frames of the engine. Path class: hot.
//!
//! All input is checked: ids reach operations of the sender only, lengths are those of the operation, and what does not fit ends
//! the peer that sent it.

use oxifabric_engine::{Body, Header, HeaderFlags, Kind, Placement, RemoteIov, Sink, Target};
use oxifabric_ibv::Completion;
use oxifabric_provider::log;
use oxifabric_types::{Errno, PeerId};
use oxifabric_wire::efa::{
    Atomic, AtomicForm, Content, Form, Message, Packet, Pieces, Read, Reference, Write,
};

use super::operations::{Incoming, OperationKind, Reading, Stage};
use super::order::Turn;
use super::peers::Peer;
use super::{Deferred, EfaRdm};
use crate::status;

/// What packets that came before others may cost, for each peer.
const EARLY_MAX: usize = 64 << 20;
/// What packets of a peer that the application does not know may cost, of those that the engine has no room for.
const UNKNOWN_HELD_MAX: usize = 4 << 20;

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    /// It is dealt with.
    Done,
    /// The engine has no room for it: it is to be kept.
    Stalled,
    /// It breaks the protocol.
    Broken,
}

impl From<Placement> for Taken {
    fn from(placement: Placement) -> Self {
        match placement {
            Placement::Stall => Self::Stalled,
            Placement::Refuse => Self::Broken,
            _ => Self::Done,
        }
    }
}

impl EfaRdm {
    /// Handles a packet that the device has put into a buffer.
    pub(super) fn received(&mut self, completion: &Completion, at: u32, sink: &mut impl Sink) {
        // The pool of buffers is taken out, since its packet is read while everything else may change.
        let rx = std::mem::take(&mut self.rx);
        if let Some(buffers) = &rx {
            let bytes = buffers.packet(at, completion.byte_len as usize);
            match Packet::decode(bytes) {
                Ok(packet) => self.packet(completion, &packet, bytes, sink),
                Err(error) => log::debug!(
                    "efa",
                    EpData,
                    "a packet that is none was dropped: {error:?}"
                ),
            }
        }
        self.rx = rx;
    }

    fn packet(
        &mut self,
        completion: &Completion,
        packet: &Packet<'_>,
        bytes: &[u8],
        sink: &mut impl Sink,
    ) {
        let Some(peer) = self.peers.source(&self.domain, completion, &packet.sender) else {
            log::debug!(
                "efa",
                EpData,
                "a packet of a source that cannot be told was dropped"
            );
            return;
        };
        if packet.sender.address.is_some() {
            for former in self.peers.replaced_by(peer) {
                self.doom(
                    former,
                    Errno::CONNRESET,
                    "another endpoint has its queue pair".to_owned(),
                );
            }
        }
        let now = self.now;
        let Some(row) = self.peers.get_mut(peer).filter(|row| row.gone.is_none()) else {
            return;
        };
        row.heard_at = now;
        if !std::mem::replace(&mut row.was_heard, true) {
            self.owe_handshake(peer);
        }
        self.handle(peer, &packet.content, bytes, sink);
    }

    /// Notes that a handshake is to be sent to a peer.
    pub(super) fn owe_handshake(&mut self, peer: PeerId) {
        if let Some(row) = self.peers.get_mut(peer) {
            row.owes_handshake = true;
            self.attention.push(peer);
        }
    }

    /// Handles a packet of a peer, or keeps it.
    fn handle(&mut self, peer: PeerId, content: &Content<'_>, bytes: &[u8], sink: &mut impl Sink) {
        let taken = match ordered(content) {
            Some(number) => return self.handle_ordered(peer, number, content, bytes, sink),
            None if is_request(content) && self.is_stalled(peer) => Taken::Stalled,
            None => self.take(peer, content, sink),
        };
        match taken {
            Taken::Done => {}
            Taken::Stalled => self.hold(peer, |row| {
                row.is_stalled = true;
                row.backlog.push(bytes);
            }),
            Taken::Broken => self.broken(peer, content),
        }
    }

    /// Handles a message or atomic: those of a peer take their turns.
    fn handle_ordered(
        &mut self,
        peer: PeerId,
        number: u32,
        content: &Content<'_>,
        bytes: &[u8],
        sink: &mut impl Sink,
    ) {
        let Some(row) = self.peers.get_mut(peer) else {
            return;
        };
        if let Content::Message(message) = content
            && (message.is_after_nack || row.begun.contains_key(&number))
        {
            return match self.take_further(peer, message, sink) {
                Taken::Broken => self.broken(peer, content),
                _ => {}
            };
        }
        match row.order.turn(number) {
            Turn::Over => {}
            Turn::Now if !row.is_stalled && !row.order.is_ready() => {
                self.take_turn(peer, content, bytes, sink);
                self.take_turns(peer, sink);
            }
            Turn::Now | Turn::Later => {
                self.hold(peer, |row| row.order.keep(number, bytes));
                let is_too_much = |row: &Peer| !row.is_stalled && row.order.bytes() > EARLY_MAX;
                if self.peers.get(peer).is_some_and(is_too_much) {
                    self.doom(
                        peer,
                        Errno::PROTO,
                        "too much of it came before what it has to follow".to_owned(),
                    );
                }
            }
        }
    }

    /// Takes a packet whose turn it is; one for which there is no room waits. Returns whether it was taken.
    fn take_turn(
        &mut self,
        peer: PeerId,
        content: &Content<'_>,
        bytes: &[u8],
        sink: &mut impl Sink,
    ) -> bool {
        match self.take(peer, content, sink) {
            Taken::Stalled => {
                self.hold(peer, |row| {
                    row.is_stalled = true;
                    row.order.put_back(bytes.into());
                });
                return false;
            }
            Taken::Broken => self.broken(peer, content),
            Taken::Done => {}
        }
        if let Some(row) = self.peers.get_mut(peer) {
            row.order.advance();
        }
        true
    }

    /// Takes the packets of a peer that have their turn now.
    fn take_turns(&mut self, peer: PeerId, sink: &mut impl Sink) -> usize {
        let mut count = 0;
        while let Some(row) = self.peers.get_mut(peer)
            && !row.is_stalled
            && row.order.is_ready()
        {
            let mut next = None;
            self.hold(peer, |row| next = row.order.take());
            let Some(bytes) = next else {
                break;
            };
            let Ok(Packet { content, .. }) = Packet::decode(&bytes) else {
                continue;
            };
            let row = self.peers.get(peer);
            let is_further = |number: u32| row.is_some_and(|row| row.begun.contains_key(&number));
            match &content {
                Content::Message(message) if is_further(message.number) => {
                    if self.take_further(peer, message, sink) == Taken::Broken {
                        self.broken(peer, &content);
                    }
                }
                content => match ordered(content) {
                    Some(number) if row.is_some_and(|row| row.order.turn(number) == Turn::Now) => {
                        if !self.take_turn(peer, content, &bytes, sink) {
                            break;
                        }
                    }
                    // A second packet of a number that had its turn.
                    _ => {}
                },
            }
            count += 1;
        }
        count
    }

    /// Does what is due for peers: sends handshakes, and delivers what had no room.
    pub(super) fn attend(&mut self, sink: &mut impl Sink) -> usize {
        let mut events = 0;
        for peer in std::mem::take(&mut self.attention) {
            let Some(row) = self.peers.get_mut(peer).filter(|row| row.gone.is_none()) else {
                continue;
            };
            if row.owes_handshake {
                row.owes_handshake = false;
                match self.send_handshake(peer) {
                    Err(Errno::AGAIN) => self.owe_handshake(peer),
                    Err(errno) => {
                        self.doom(peer, errno, "a handshake could not be sent".to_owned())
                    }
                    Ok(()) => {}
                }
            }
            events += self.take_turns(peer, sink) + self.take_backlog(peer, sink);
        }
        events
    }

    fn take_backlog(&mut self, peer: PeerId, sink: &mut impl Sink) -> usize {
        let mut count = 0;
        while !self.is_stalled(peer) {
            let mut next = None;
            self.hold(peer, |row| next = row.backlog.pop());
            let Some(bytes) = next else {
                break;
            };
            if let Ok(Packet { content, .. }) = Packet::decode(&bytes) {
                match self.take(peer, &content, sink) {
                    Taken::Done => {}
                    Taken::Broken => self.broken(peer, &content),
                    Taken::Stalled => self.hold(peer, |row| {
                        row.is_stalled = true;
                        row.backlog.put_back(bytes.clone());
                    }),
                }
            }
            count += 1;
        }
        count
    }

    fn is_stalled(&self, peer: PeerId) -> bool {
        self.peers.get(peer).is_none_or(|row| row.is_stalled)
    }

    /// Changes what is kept of a peer, and counts what waits there for the engine.
    pub(super) fn hold(&mut self, peer: PeerId, change: impl FnOnce(&mut Peer)) {
        let Some(row) = self.peers.get_mut(peer) else {
            return;
        };
        let before = row.stalled_bytes();
        change(row);
        let after = row.stalled_bytes();
        self.stalled_bytes = self.stalled_bytes + after - before;
        if after > UNKNOWN_HELD_MAX && after > before && !self.peers.table.is_named(peer) {
            self.doom(
                peer,
                Errno::NOBUFS,
                "it sends more than this endpoint takes".to_owned(),
            );
        }
    }

    /// Handles a packet that breaks the protocol. One that names memory which it may not reach is dropped, as nothing tells its
    /// sender; after any other one nothing of the peer can be relied on.
    fn broken(&mut self, peer: PeerId, content: &Content<'_>) {
        match content {
            Content::Write(_) | Content::Read(_) | Content::Atomic(_) => {
                log::info!(
                    "efa",
                    EpData,
                    "an access of a peer to memory that it may not reach was dropped"
                );
            }
            _ => self.doom(peer, Errno::PROTO, "it broke the protocol".to_owned()),
        }
    }

    /// Gives the engine what a packet says.
    fn take(&mut self, peer: PeerId, content: &Content<'_>, sink: &mut impl Sink) -> Taken {
        match content {
            Content::Message(message) => self.take_message(peer, message, sink),
            Content::Write(write) => self.take_write(peer, write, sink),
            Content::Read(read) => self.take_read(peer, read, sink),
            Content::Atomic(atomic) => self.take_atomic(peer, atomic, sink),
            Content::Cts {
                send_id,
                recv_id,
                len,
                ..
            } => self.take_cts(peer, *send_id, *recv_id, *len, sink),
            Content::Data {
                recv_id,
                offset,
                body,
            } => self.take_data(peer, *recv_id, *offset, body, sink),
            Content::ReadResponse {
                recv_id,
                send_id,
                body,
            } => {
                if let Some(OperationKind::Reading(reading)) = self.operations.get(peer, *recv_id) {
                    reading.send_id = Some(*send_id);
                }
                self.take_data(peer, *recv_id, 0, body, sink)
            }
            Content::AtomicResponse { recv_id, body } => {
                self.take_fetched(peer, *recv_id, body, sink)
            }
            Content::Handshake { features, .. } => {
                if let Some(row) = self.peers.get_mut(peer) {
                    row.features = Some(*features);
                }
                Taken::Done
            }
            Content::Receipt { send_id, .. } => self.take_receipt(peer, *send_id, sink),
            Content::PeerError {
                id,
                reference,
                cause,
            } => self.take_error(peer, *id, *reference, *cause, sink),
            // Nothing that this end announces is read by the peer's device.
            Content::EndOfRead { .. } | Content::ReadNack { .. } => Taken::Broken,
        }
    }

    fn take_message(&mut self, peer: PeerId, message: &Message<'_>, sink: &mut impl Sink) -> Taken {
        let kind = match message.tag {
            None => (Kind::Msg, Kind::MsgRts),
            Some(_) => (Kind::Tagged, Kind::TaggedRts),
        };
        let mut header = Header {
            kind: kind.0,
            flags: flags(message.data, message.wants_receipt),
            id: 0,
            tag: message.tag.unwrap_or(0),
            data: message.data.unwrap_or(0),
            len: message.body.len() as u64,
        };
        let (len, stage) = match message.form {
            Form::Eager => return self.take_whole(peer, message, &mut header, sink),
            // All of it came with the announcement.
            Form::Long { len, .. } if len == message.body.len() as u64 => {
                return self.take_whole(peer, message, &mut header, sink);
            }
            Form::Medium { len, .. } => (len, Stage::Unasked),
            Form::Long { len, .. } => (len, Stage::Announced),
            Form::Read { len, .. } | Form::Runt { len, .. } => (len, Stage::Readable),
        };
        let first = match message.form {
            Form::Long { .. } | Form::Runt { .. } if !message.body.is_empty() => {
                vec![(offset_of(message.form), message.body.into())]
            }
            _ => Vec::new(),
        };
        let kept: u64 = first
            .iter()
            .map(|(_, part): &(u64, Box<[u8]>)| part.len() as u64)
            .sum();
        if kept >= len {
            return Taken::Broken;
        }
        let incoming = Incoming {
            message: Some(message.number),
            len,
            received: 0,
            send_id: message.send_id,
            wants_receipt: message.wants_receipt,
            stage,
            first,
        };
        let Some(id) = self
            .operations
            .insert(peer, OperationKind::Incoming(incoming))
        else {
            return Taken::Broken;
        };
        (header.id, header.len) = (id, len);
        if stage != Stage::Unasked {
            header.kind = kind.1;
        }
        let body = match message.form {
            Form::Medium { offset: 0, .. } => Body::Whole(message.body),
            Form::Read { memory, .. } => match remote(&memory) {
                Some(remote) => Body::Remote(remote),
                None => Body::Whole(&[]),
            },
            _ => Body::Whole(&[]),
        };
        let taken = Taken::from(sink.arrival(peer, &header, body));
        if taken != Taken::Done {
            self.operations.remove(peer, id);
            return taken;
        }
        let is_in_parts = matches!(message.form, Form::Medium { .. } | Form::Runt { .. });
        if let Some(row) = self.peers.get_mut(peer).filter(|_| is_in_parts) {
            row.begun.insert(message.number, id);
        }
        match message.form {
            Form::Medium { offset: 0, .. } => {
                self.count_received(peer, id, message.body.len() as u64)
            }
            Form::Medium { offset, .. } => {
                return self.take_data(peer, id, offset, message.body, sink);
            }
            _ => {}
        }
        Taken::Done
    }

    /// Takes a message that is here as a whole.
    fn take_whole(
        &mut self,
        peer: PeerId,
        message: &Message<'_>,
        header: &mut Header,
        sink: &mut impl Sink,
    ) -> Taken {
        let mut owed = None;
        if message.wants_receipt {
            let kind = OperationKind::Owed {
                send_id: message.send_id,
                message: message.number,
            };
            owed = self.operations.insert(peer, kind);
            let Some(id) = owed else {
                return Taken::Broken;
            };
            header.id = id;
        }
        let taken = Taken::from(sink.arrival(peer, header, Body::Whole(message.body)));
        if let (Taken::Stalled | Taken::Broken, Some(id)) = (taken, owed) {
            self.operations.remove(peer, id);
        }
        taken
    }

    /// Takes a further packet of a message in several ones, or the new announcement of one that was to be read.
    fn take_further(&mut self, peer: PeerId, message: &Message<'_>, sink: &mut impl Sink) -> Taken {
        let row = self.peers.get(peer);
        let Some(id) = row.and_then(|row| row.begun.get(&message.number)).copied() else {
            return Taken::Done;
        };
        match message.form {
            Form::Medium { offset, .. } => self.take_data(peer, id, offset, message.body, sink),
            _ => Taken::Broken,
        }
    }

    /// Takes a part of the data of an operation.
    fn take_data(
        &mut self,
        peer: PeerId,
        id: u32,
        offset: u64,
        body: &[u8],
        sink: &mut impl Sink,
    ) -> Taken {
        let (len, begins) = match self.operations.get(peer, id) {
            Some(OperationKind::Incoming(incoming))
                if matches!(incoming.stage, Stage::Unasked | Stage::Asked) =>
            {
                (incoming.len, None)
            }
            Some(OperationKind::Reading(reading)) => {
                (reading.len, (!reading.has_begun).then_some(reading.mine))
            }
            // What is over, or of another peer.
            _ => return Taken::Done,
        };
        if let Some(mine) = begins {
            let header = Header {
                kind: Kind::Response,
                flags: HeaderFlags::empty(),
                id,
                tag: mine.into(),
                data: 0,
                len,
            };
            let is_first = offset == 0;
            let first = Body::Whole(if is_first { body } else { &[] });
            let taken = Taken::from(sink.arrival(peer, &header, first));
            if taken != Taken::Done {
                return taken;
            }
            if let Some(OperationKind::Reading(reading)) = self.operations.get(peer, id) {
                reading.has_begun = true;
            }
            if is_first {
                self.count_received(peer, id, body.len() as u64);
                return Taken::Done;
            }
        }
        if body.is_empty() {
            return Taken::Done;
        }
        let header = Header {
            kind: Kind::Segment,
            flags: HeaderFlags::empty(),
            id,
            tag: offset,
            data: 0,
            len,
        };
        let taken = Taken::from(sink.unordered_segment(peer, &header, Body::Whole(body)));
        if taken == Taken::Done {
            self.count_received(peer, id, body.len() as u64);
        }
        taken
    }

    /// Counts data of an operation that has arrived; the last byte ends it.
    fn count_received(&mut self, peer: PeerId, id: u32, len: u64) {
        match self.operations.get(peer, id) {
            Some(OperationKind::Incoming(incoming)) => {
                incoming.received += len;
                if incoming.received < incoming.len {
                    return;
                }
                let (message, send_id) = (incoming.message, incoming.send_id);
                let wants_receipt = incoming.wants_receipt;
                if let (Some(number), Some(row)) = (message, self.peers.get_mut(peer)) {
                    row.begun.remove(&number);
                }
                match self.operations.get(peer, id) {
                    Some(kind) if wants_receipt => {
                        let message = message.unwrap_or(0);
                        *kind = OperationKind::Owed { send_id, message };
                    }
                    _ => drop(self.operations.remove(peer, id)),
                }
            }
            Some(OperationKind::Reading(reading)) => {
                reading.received += len;
                let reading = *reading;
                if reading.received >= reading.len {
                    self.operations.remove(peer, id);
                } else if reading.received >= reading.granted {
                    self.grant_more(peer, id, reading);
                }
            }
            _ => {}
        }
    }

    /// Lets a peer send more of what is read.
    fn grant_more(&mut self, peer: PeerId, id: u32, reading: Reading) {
        let Some(send_id) = reading.send_id else {
            return;
        };
        let more = (reading.len - reading.granted).min(u32::MAX.into());
        match self.grant(peer, send_id, id, more) {
            Ok(()) => {
                if let Some(OperationKind::Reading(reading)) = self.operations.get(peer, id) {
                    reading.granted += more;
                }
            }
            Err(Errno::AGAIN) => self.deferred.push_back(Deferred::Grant(peer, id)),
            Err(errno) => self.doom(peer, errno, "a read could not go on".to_owned()),
        }
    }

    fn take_write(&mut self, peer: PeerId, write: &Write<'_>, sink: &mut impl Sink) -> Taken {
        let (len, stage) = match write.form {
            Form::Eager => (write.body.len() as u64, None),
            Form::Long { len, .. } if write.body.len() as u64 >= len => return Taken::Broken,
            Form::Long { len, .. } => (len, Some(Stage::Announced)),
            Form::Read { len, .. } => (len, Some(Stage::Readable)),
            Form::Medium { .. } | Form::Runt { .. } => return Taken::Broken,
        };
        let kind = match stage {
            Some(stage) => Some(OperationKind::Incoming(Incoming {
                message: None,
                len,
                received: 0,
                send_id: write.send_id,
                wants_receipt: write.wants_receipt,
                stage,
                first: vec![(0, write.body.into())],
            })),
            None if write.wants_receipt => Some(OperationKind::Owed {
                send_id: write.send_id,
                message: 0,
            }),
            None => None,
        };
        let id = match kind.map(|kind| self.operations.insert(peer, kind)) {
            Some(None) => return Taken::Broken,
            Some(id) => id,
            None => None,
        };
        let header = Header {
            kind: if stage.is_some() {
                Kind::WriteRts
            } else {
                Kind::Write
            },
            flags: flags(write.data, write.wants_receipt),
            id: id.unwrap_or(0),
            tag: 0,
            data: write.data.unwrap_or(0),
            len,
        };
        let body = match (stage, write.form) {
            (None, _) => Body::Whole(write.body),
            (_, Form::Read { memory, .. }) => match remote(&memory) {
                Some(remote) => Body::Remote(remote),
                None => Body::Whole(&[]),
            },
            _ => Body::Whole(&[]),
        };
        let placement = sink.access(peer, &header, &targets(&write.targets), body);
        self.keep_if_taken(placement.into(), peer, id)
    }

    fn take_read(&mut self, peer: PeerId, read: &Read, sink: &mut impl Sink) -> Taken {
        let kind = OperationKind::Answer {
            recv_id: read.recv_id,
            window: read.window.into(),
        };
        let Some(id) = self.operations.insert(peer, kind) else {
            return Taken::Broken;
        };
        let header = Header {
            kind: Kind::Read,
            flags: HeaderFlags::empty(),
            id,
            tag: 0,
            data: 0,
            len: read.len,
        };
        let placement = sink.access(peer, &header, &targets(&read.targets), Body::Whole(&[]));
        self.keep_if_taken(placement.into(), peer, Some(id))
    }

    fn take_atomic(&mut self, peer: PeerId, atomic: &Atomic<'_>, sink: &mut impl Sink) -> Taken {
        let (kind, operation) = match atomic.form {
            AtomicForm::Base => (Kind::Atomic, None),
            AtomicForm::BaseWithReceipt => (
                Kind::Atomic,
                Some(OperationKind::Owed {
                    send_id: atomic.id,
                    message: atomic.number,
                }),
            ),
            AtomicForm::Fetch => (
                Kind::FetchAtomic,
                Some(OperationKind::Fetch { recv_id: atomic.id }),
            ),
            AtomicForm::Compare => (
                Kind::CompareAtomic,
                Some(OperationKind::Fetch { recv_id: atomic.id }),
            ),
        };
        let id = match operation.map(|operation| self.operations.insert(peer, operation)) {
            Some(None) => return Taken::Broken,
            Some(id) => id,
            None => None,
        };
        let wants_receipt = atomic.form == AtomicForm::BaseWithReceipt;
        let header = Header {
            kind,
            flags: flags(atomic.data, wants_receipt),
            id: id.unwrap_or(0),
            tag: u64::from(atomic.datatype & 0xff) | u64::from(atomic.operation) << 8,
            data: atomic.data.unwrap_or(0),
            len: atomic.body.len() as u64,
        };
        let placement = sink.access(
            peer,
            &header,
            &targets(&atomic.targets),
            Body::Whole(atomic.body),
        );
        self.keep_if_taken(placement.into(), peer, id)
    }

    /// Drops the operation of a packet that was not taken.
    fn keep_if_taken(&mut self, taken: Taken, peer: PeerId, id: Option<u32>) -> Taken {
        if let (Taken::Stalled | Taken::Broken, Some(id)) = (taken, id) {
            self.operations.remove(peer, id);
        }
        taken
    }

    fn take_fetched(&mut self, peer: PeerId, id: u32, body: &[u8], sink: &mut impl Sink) -> Taken {
        let Some(OperationKind::Fetching { mine }) = self.operations.get(peer, id) else {
            return Taken::Done;
        };
        let header = Header {
            kind: Kind::Response,
            flags: HeaderFlags::empty(),
            id,
            tag: u64::from(*mine),
            data: 0,
            len: body.len() as u64,
        };
        let taken = Taken::from(sink.arrival(peer, &header, Body::Whole(body)));
        if taken == Taken::Done {
            self.operations.remove(peer, id);
        }
        taken
    }

    fn take_cts(
        &mut self,
        peer: PeerId,
        send_id: u32,
        recv_id: u32,
        len: u64,
        sink: &mut impl Sink,
    ) -> Taken {
        let Some(OperationKind::Offer(offer)) = self.operations.get(peer, send_id) else {
            return Taken::Done;
        };
        if len == 0 || offer.recv_id.is_some_and(|known| known != recv_id) {
            return Taken::Broken;
        }
        offer.recv_id = Some(recv_id);
        offer.granted = offer.granted.saturating_add(len);
        let granted = if offer.granted >= offer.len {
            0
        } else {
            offer.granted
        };
        let header = answer(Kind::Cts, offer.mine, granted, offer.len);
        sink.arrival(peer, &header, Body::Whole(&[])).into()
    }

    fn take_receipt(&mut self, peer: PeerId, id: u32, sink: &mut impl Sink) -> Taken {
        let Some(OperationKind::Sent { mine }) = self.operations.get(peer, id) else {
            return Taken::Done;
        };
        let header = answer(Kind::Ack, *mine, 0, 0);
        self.operations.remove(peer, id);
        sink.arrival(peer, &header, Body::Whole(&[])).into()
    }

    /// Ends an operation that the peer has given up.
    fn take_error(
        &mut self,
        peer: PeerId,
        id: u32,
        reference: Reference,
        cause: u32,
        sink: &mut impl Sink,
    ) -> Taken {
        let errno = status::error(cause, false).errno;
        if reference == Reference::Operation
            && let Some(
                OperationKind::Sent { mine }
                | OperationKind::Fetching { mine }
                | OperationKind::Reading(Reading {
                    mine,
                    has_begun: false,
                    ..
                }),
            ) = self.operations.get(peer, id)
        {
            let header = answer(Kind::Fin, *mine, errno.raw() as u64, 0);
            self.operations.remove(peer, id);
            return sink.arrival(peer, &header, Body::Whole(&[])).into();
        }
        // What it had promised to send does not come, and others wait for it.
        self.doom(
            peer,
            Errno::CONNABORTED,
            "it gave up what it was sending".to_owned(),
        );
        Taken::Done
    }

    /// Tells the engine what was put off; returns how much that was.
    pub(super) fn tell_deferred(&mut self, sink: &mut impl Sink) -> usize {
        let deferred = std::mem::take(&mut self.deferred);
        let count = deferred.len();
        for deferred in deferred {
            let (peer, taken) = match deferred {
                Deferred::FirstPart(peer, id) => (peer, self.tell_first(peer, id, sink)),
                Deferred::Cts(peer, id, granted) => {
                    let header = answer(Kind::Cts, id, granted, 0);
                    (peer, sink.arrival(peer, &header, Body::Whole(&[])).into())
                }
                Deferred::Fin(peer, id) => {
                    let header = answer(Kind::Fin, id, 0, 0);
                    (peer, sink.arrival(peer, &header, Body::Whole(&[])).into())
                }
                Deferred::Grant(peer, id) => {
                    self.count_received(peer, id, 0);
                    continue;
                }
            };
            if taken == Taken::Broken {
                self.doom(peer, Errno::PROTO, "it broke the protocol".to_owned());
            }
        }
        count
    }

    /// Tells the engine the data that came with an announcement.
    fn tell_first(&mut self, peer: PeerId, id: u32, sink: &mut impl Sink) -> Taken {
        let Some(OperationKind::Incoming(incoming)) = self.operations.get(peer, id) else {
            return Taken::Done;
        };
        for (offset, part) in std::mem::take(&mut incoming.first) {
            let taken = self.take_data(peer, id, offset, &part, sink);
            if taken != Taken::Done {
                return taken;
            }
        }
        Taken::Done
    }
}

/// Returns the number of what takes its turn in the order of a peer's messages and atomics.
const fn ordered(content: &Content<'_>) -> Option<u32> {
    match content {
        Content::Message(message) => Some(message.number),
        Content::Atomic(atomic) => Some(atomic.number),
        _ => None,
    }
}

const fn is_request(content: &Content<'_>) -> bool {
    matches!(content, Content::Write(_) | Content::Read(_))
}

fn flags(data: Option<u64>, wants_receipt: bool) -> HeaderFlags {
    let mut flags = HeaderFlags::empty();
    flags.set(HeaderFlags::DATA, data.is_some());
    flags.set(HeaderFlags::DELIVERY, wants_receipt);
    flags
}

const fn offset_of(form: Form) -> u64 {
    match form {
        Form::Medium { offset, .. } | Form::Runt { offset, .. } => offset,
        _ => 0,
    }
}

const fn answer(kind: Kind, id: u32, data: u64, len: u64) -> Header {
    Header {
        kind,
        flags: HeaderFlags::empty(),
        id,
        tag: 0,
        data,
        len,
    }
}

fn targets(pieces: &Pieces) -> Vec<Target> {
    let targets = pieces.all().iter().map(|piece| Target {
        addr: piece.addr,
        len: piece.len,
        key: piece.key,
    });
    targets.collect()
}

fn remote(memory: &Pieces) -> Option<RemoteIov> {
    RemoteIov::new(&targets(memory))
}
