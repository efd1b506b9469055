//! What packets say, as frames of the engine: messages, their data and what answers them. Path class: hot.

use oxifabric_engine::{Body, Header, HeaderFlags, Kind, Placement, RemoteIov, Sink, Target};
use oxifabric_types::{Errno, PeerId};
use oxifabric_wire::efa::{Content, Form, MAX_PIECES, Message, Piece, Pieces};

use super::access_table::is_nameable;
use super::operations::{Incoming, OperationKind, Reading, Stage};
use super::{Deferred, EfaRdm, reach};

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
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
    /// Gives the engine what a packet says.
    pub(super) fn take(
        &mut self,
        peer: PeerId,
        content: &Content<'_>,
        sink: &mut impl Sink,
    ) -> Taken {
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
            Content::Handshake { features, device } => {
                if let Some(row) = self.peers.get_mut(peer) {
                    row.features = Some(*features);
                    row.ways = reach::index(self.reach.with(*features, *device));
                }
                Taken::Done
            }
            Content::Receipt { send_id, .. } => self.take_receipt(peer, *send_id, sink),
            Content::PeerError {
                id,
                reference,
                cause,
            } => self.take_error(peer, *id, *reference, *cause, sink),
            Content::EndOfRead { send_id, .. } => self.take_end_of_read(peer, *send_id, sink),
            Content::ReadNack { send_id, .. } => self.take_read_nack(peer, *send_id),
        }
    }

    fn take_message(&mut self, peer: PeerId, message: &Message<'_>, sink: &mut impl Sink) -> Taken {
        let message = &as_it_travels(message);
        match message.form {
            Form::Eager => self.take_whole(peer, message, sink),
            // All of it came with the announcement.
            Form::Long { len, .. } if len == message.body.len() as u64 => {
                self.take_whole(peer, message, sink)
            }
            _ => self.take_first(peer, message, sink),
        }
    }

    /// Takes a message that is here as a whole.
    fn take_whole(&mut self, peer: PeerId, message: &Message<'_>, sink: &mut impl Sink) -> Taken {
        let mut header = header(message);
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
        let taken = Taken::from(sink.arrival(peer, &header, Body::Whole(message.body)));
        if let (Taken::Stalled | Taken::Broken, Some(id)) = (taken, owed) {
            self.operations.remove(peer, id);
        }
        taken
    }

    /// Takes the packet that arrives first of a message in several ones, or the announcement of one.
    fn take_first(&mut self, peer: PeerId, message: &Message<'_>, sink: &mut impl Sink) -> Taken {
        let Some((incoming, memory)) = self.incoming(message) else {
            return Taken::Broken;
        };
        let (len, stage) = (incoming.len, incoming.stage);
        let kind = OperationKind::Incoming(incoming);
        let Some(id) = self.operations.insert(peer, kind) else {
            return Taken::Broken;
        };
        let mut header = header(message);
        (header.id, header.len) = (id, len);
        if stage != Stage::Unasked {
            header.kind = match message.tag {
                None => Kind::MsgRts,
                Some(_) => Kind::TaggedRts,
            };
        }
        let placement = match (&memory, message.form) {
            (Some(memory), _) => self.begin_read(peer, &header, &[], memory, sink),
            (None, Form::Medium { offset: 0, .. }) => {
                sink.arrival(peer, &header, Body::Whole(message.body))
            }
            // What came with the announcement of a long message is kept here.
            (None, Form::Long { .. }) => sink.announced_in_part(peer, &header, message.body.len()),
            _ => sink.arrival(peer, &header, Body::Whole(&[])),
        };
        let taken = Taken::from(placement);
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
                self.count_received(peer, id, message.body.len() as u64);
                Taken::Done
            }
            Form::Medium { offset, .. } => self.take_data(peer, id, offset, message.body, sink),
            _ => Taken::Done,
        }
    }

    /// Describes a message of which more is to come, with the memory that is read for it; `None` if it breaks the protocol.
    fn incoming(&self, message: &Message<'_>) -> Option<(Incoming, Option<RemoteIov>)> {
        let (len, stage, kept) = match message.form {
            Form::Eager => return None,
            Form::Medium { len, .. } => (len, Stage::Unasked, 0),
            Form::Long { len, .. } => (len, Stage::Announced, message.body.len()),
            // All of it is read, so the parts that are sent are counted, and not kept.
            Form::Read { len, .. } | Form::Runt { len, .. } => {
                (len, Stage::Readable, message.body.len())
            }
        };
        if kept as u64 >= len {
            return None;
        }
        let memory = match message.form {
            Form::Runt { .. } if !self.reach.reads => return None,
            Form::Runt { memory, .. } => Some(readable(&memory, len)?),
            Form::Read { memory, .. } => {
                let memory = readable(&memory, len)?;
                self.reads_now().then_some(memory)
            }
            _ => None,
        };
        let incoming = Incoming {
            message: Some(message.number),
            len,
            received: 0,
            send_id: message.send_id,
            wants_receipt: message.wants_receipt,
            stage,
            is_anew: false,
            runt: match message.form {
                Form::Runt { runt, .. } => runt.saturating_sub(message.body.len() as u64),
                _ => 0,
            },
            is_read: false,
            first: match message.form {
                Form::Long { .. } => first_part(message.body),
                _ => Vec::new(),
            },
        };
        Some((incoming, memory))
    }

    /// Takes a further packet of a message in several ones, or the new announcement of one that was to be read; `id` is its operation, if there is one.
    pub(super) fn take_further(
        &mut self,
        peer: PeerId,
        message: &Message<'_>,
        id: Option<u32>,
        sink: &mut impl Sink,
    ) -> Taken {
        let Some(id) = id else {
            return Taken::Done;
        };
        match message.form {
            Form::Medium { offset, .. } => self.take_data(peer, id, offset, message.body, sink),
            Form::Runt {
                len, runt, offset, ..
            } if is_all(runt, len) => self.take_data(peer, id, offset, message.body, sink),
            Form::Runt { .. } => {
                if let Some(OperationKind::Incoming(incoming)) = self.operations.get(peer, id)
                    && incoming.count_runt(message.body.len() as u64)
                {
                    self.defer(Deferred::Read(peer, id));
                    if let Some(row) = self.peers.get_mut(peer) {
                        row.unfinished.ended();
                    }
                }
                Taken::Done
            }
            Form::Long { len, .. } if message.is_after_nack => {
                self.take_anew(peer, id, message, len)
            }
            _ => Taken::Broken,
        }
    }

    /// Takes the new announcement of a message that was to be read, and could not be.
    fn take_anew(&mut self, peer: PeerId, id: u32, message: &Message<'_>, len: u64) -> Taken {
        let Some(OperationKind::Incoming(incoming)) = self.operations.get(peer, id) else {
            return Taken::Done;
        };
        if incoming.stage != Stage::Refused
            || incoming.len != len
            || message.body.len() as u64 > len
        {
            return Taken::Broken;
        }
        incoming.first = first_part(message.body);
        incoming.stage = Stage::Announced;
        incoming.is_anew = true;
        incoming.send_id = message.send_id;
        incoming.wants_receipt = message.wants_receipt;
        self.defer(Deferred::Ask(peer, id));
        Taken::Done
    }

    /// Returns whether the device reads what is announced now.
    fn reads_now(&self) -> bool {
        self.reach.reads && self.now >= self.reads_again_at
    }

    /// Takes a part of the data of an operation.
    pub(super) fn take_data(
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
    pub(super) fn count_received(&mut self, peer: PeerId, id: u32, len: u64) {
        match self.operations.get(peer, id) {
            Some(OperationKind::Incoming(incoming)) => {
                incoming.received += len;
                if incoming.received < incoming.len {
                    return;
                }
                let (message, send_id) = (incoming.message, incoming.send_id);
                let (wants_receipt, is_anew) = (incoming.wants_receipt, incoming.is_anew);
                if let (Some(number), Some(row)) = (message, self.peers.get_mut(peer)) {
                    row.begun.remove(&number);
                }
                match self.operations.get(peer, id) {
                    Some(kind) if wants_receipt => {
                        let message = message.unwrap_or(0);
                        *kind = OperationKind::Owed { send_id, message };
                        if is_anew {
                            self.defer(Deferred::Receipt(peer, id));
                        }
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
            Err(Errno::AGAIN) => self.defer(Deferred::Grant(peer, id)),
            Err(errno) => self.doom(peer, errno, "a read could not go on".to_owned()),
        }
    }
}

pub(super) fn flags(data: Option<u64>, wants_receipt: bool) -> HeaderFlags {
    let mut flags = HeaderFlags::empty();
    flags.set(HeaderFlags::DATA, data.is_some());
    flags.set(HeaderFlags::DELIVERY, wants_receipt);
    flags
}

/// Returns whether all of a message comes in packets, of which so many bytes do, so that nothing of it is to be read.
const fn is_all(runt: u64, len: u64) -> bool {
    runt >= len
}

/// Returns a message, as one in several packets if it is one of which the rest is to be read and there is no rest.
const fn as_it_travels<'a>(message: &Message<'a>) -> Message<'a> {
    let form = match message.form {
        Form::Runt {
            len, offset, runt, ..
        } if is_all(runt, len) => Form::Medium { len, offset },
        form => form,
    };
    Message { form, ..*message }
}

pub(super) const fn answer(kind: Kind, id: u32, data: u64, len: u64) -> Header {
    Header {
        kind,
        flags: HeaderFlags::empty(),
        id,
        tag: 0,
        data,
        len,
    }
}

/// Memory that a packet names, as the engine does.
pub(super) struct Targets {
    list: [Target; MAX_PIECES],
    count: usize,
}

impl Targets {
    pub(super) fn all(&self) -> &[Target] {
        &self.list[..self.count]
    }
}

/// Returns the header of a message that is here as a whole, as the engine has it.
fn header(message: &Message<'_>) -> Header {
    Header {
        kind: match message.tag {
            None => Kind::Msg,
            Some(_) => Kind::Tagged,
        },
        flags: flags(message.data, message.wants_receipt),
        id: 0,
        tag: message.tag.unwrap_or(0),
        data: message.data.unwrap_or(0),
        len: message.body.len() as u64,
    }
}

#[inline(always)]
pub(super) fn targets(pieces: &Pieces) -> Targets {
    let mut list = [Target::default(); MAX_PIECES];
    for (place, piece) in list.iter_mut().zip(pieces.all()) {
        *place = target(piece);
    }
    let count = pieces.all().len().min(MAX_PIECES);
    Targets { list, count }
}

/// Returns a piece of memory that a packet names, as the engine does.
#[inline(always)]
fn target(piece: &Piece) -> Target {
    Target {
        addr: piece.addr,
        len: piece.len,
        key: piece.key,
    }
}

/// Keeps the data that came with an announcement, if there is some.
pub(super) fn first_part(body: &[u8]) -> Vec<(u64, Box<[u8]>)> {
    match body {
        [] => Vec::new(),
        body => vec![(0, body.into())],
    }
}

/// Returns the memory that a device is to read so many bytes from; `None` if it has fewer, or no device can name it.
#[inline(always)]
pub(super) fn readable(memory: &Pieces, len: u64) -> Option<RemoteIov> {
    let memory = RemoteIov::of(memory.all().iter().map(target))?;
    let len = usize::try_from(len).ok()?;
    is_nameable(memory.pieces(), len, true).then_some(memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_no_device_can_read_is_refused() {
        let piece = |len, key| Piece { addr: 64, len, key };
        let named = |pieces: &[Piece]| Pieces::new(pieces.iter().copied()).expect("few");
        let whole = named(&[piece(60, 7), piece(40, u32::MAX.into())]);
        assert!(readable(&whole, 100).is_some() && readable(&whole, 101).is_none());
        assert!(readable(&named(&[piece(100, 1 << 32)]), 100).is_none());
        assert!(readable(&named(&[piece(u64::MAX, 7), piece(100, 7)]), 100).is_none());
        assert!(readable(&named(&[]), 1).is_none());
    }
}
