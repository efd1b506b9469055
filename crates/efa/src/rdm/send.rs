//! From frames of the engine to packets. Path class: hot.

use oxifabric_engine::{Frame, Header, HeaderFlags, Kind, TxToken};
use oxifabric_ibv::EfaCaps;
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, PeerId};
use oxifabric_wire::efa::{
    Atomic, AtomicForm, Content, Form, HEADER_MAX, Message, Packet, Piece, Pieces, RESPONSE_HEADER,
    Read, Reference, Sender, Write, feature,
};

use super::operations::{Incoming, Offer, OperationKind, Reading, Stage};
use super::tx::SentPacket;
use super::{Deferred, EfaRdm};

/// How many packets a peer is asked to take at once; it decides itself.
const CREDITS: u32 = 32;

/// The cause of a refusal, as the device would give it: the memory is not registered under that key, or not for this.
const BAD_ADDRESS: u32 = 7;

impl EfaRdm {
    /// Sends what a frame is; returns whether that is a packet, with whose end the token is told.
    ///
    /// # Errors
    /// `AGAIN` when there is no room, and what the device says.
    pub(super) fn send_frame(
        &mut self,
        peer: PeerId,
        frame: &Frame<'_>,
        token: Option<TxToken>,
    ) -> Result<bool, Errno> {
        let header = &frame.header;
        match header.kind {
            Kind::Msg | Kind::Tagged => self.send_message(peer, frame, token)?,
            Kind::MsgRts | Kind::TaggedRts => self.announce_message(peer, frame)?,
            Kind::Segment => return self.send_segment(peer, frame, token),
            Kind::Cts => self.ask_for_data(peer, header.id)?,
            Kind::Ack => self.acknowledge(peer, header.id)?,
            Kind::Fin => self.finish(peer, header.id, header.data)?,
            Kind::Write => self.send_write(peer, frame, token)?,
            Kind::WriteRts => self.announce_write(peer, frame)?,
            Kind::Read => self.send_read(peer, frame)?,
            Kind::Response => self.send_response(peer, frame, token)?,
            Kind::ResponseRts => self.announce_response(peer, frame)?,
            Kind::Atomic | Kind::FetchAtomic | Kind::CompareAtomic => {
                self.send_atomic(peer, frame, token)?
            }
            // Not offered: the protocol has no messages of collectives.
            Kind::Collective | Kind::CollectiveRts => return Err(Errno::OPNOTSUPP),
        }
        Ok(true)
    }

    fn send_message(
        &mut self,
        peer: PeerId,
        frame: &Frame<'_>,
        token: Option<TxToken>,
    ) -> Result<(), Errno> {
        let send_id = self.expect_receipt(peer, &frame.header)?;
        let message = Message {
            send_id: send_id.unwrap_or(0),
            wants_receipt: send_id.is_some(),
            ..self.message(peer, &frame.header, Form::Eager)
        };
        let body = frame.body.slice(frame.offset, frame.len);
        let sent = self.send(peer, Content::Message(message), &body, token);
        self.keep_if(sent, peer, send_id)?;
        self.count(peer);
        Ok(())
    }

    /// Describes a message that has its turn in the order of those to the peer.
    fn message(&self, peer: PeerId, header: &Header, form: Form) -> Message<'static> {
        Message {
            number: self.peers.get(peer).map_or(0, |row| row.next),
            tag: matches!(header.kind, Kind::Tagged | Kind::TaggedRts).then_some(header.tag),
            data: data_of(header),
            wants_receipt: false,
            is_after_nack: false,
            send_id: 0,
            form,
            body: &[],
        }
    }

    /// Notes that a number was used.
    fn count(&mut self, peer: PeerId) {
        if let Some(row) = self.peers.get_mut(peer) {
            row.next = row.next.wrapping_add(1);
        }
    }

    /// Makes the operation that a receipt will name, if the sender waits for one.
    fn expect_receipt(&mut self, peer: PeerId, header: &Header) -> Result<Option<u32>, Errno> {
        if !wants_receipt(header) {
            return Ok(None);
        }
        let kind = OperationKind::Sent { mine: header.id };
        self.operations
            .insert(peer, kind)
            .map(Some)
            .ok_or(Errno::AGAIN)
    }

    /// Drops an operation again whose packet could not be sent.
    fn keep_if(
        &mut self,
        sent: Result<(), Errno>,
        peer: PeerId,
        id: Option<u32>,
    ) -> Result<(), Errno> {
        if let (Err(_), Some(id)) = (sent, id) {
            self.operations.remove(peer, id);
        }
        sent
    }

    fn announce_message(&mut self, peer: PeerId, frame: &Frame<'_>) -> Result<(), Errno> {
        let len = frame.body.len() as u64;
        let form = Form::Long {
            len,
            credits: CREDITS,
        };
        let first = frame.body.slice(0, self.limits.eager);
        let send_id = self.offer(peer, &frame.header, first.len())?;
        let message = Message {
            send_id,
            wants_receipt: wants_receipt(&frame.header),
            ..self.message(peer, &frame.header, form)
        };
        let sent = self.send(peer, Content::Message(message), &first, None);
        self.keep_offer_if(sent, peer, &frame.header, send_id)?;
        self.count(peer);
        Ok(())
    }

    /// Makes the operation of data that is announced, of which the first bytes go along.
    fn offer(&mut self, peer: PeerId, header: &Header, first: usize) -> Result<u32, Errno> {
        let offer = Offer {
            mine: header.id,
            len: header.len,
            first: first as u64,
            granted: first as u64,
            recv_id: None,
            wants_receipt: wants_receipt(header),
        };
        let id = self.operations.insert(peer, OperationKind::Offer(offer));
        let id = id.ok_or(Errno::AGAIN)?;
        self.mine.insert(header.id, id);
        Ok(id)
    }

    fn keep_offer_if(
        &mut self,
        sent: Result<(), Errno>,
        peer: PeerId,
        header: &Header,
        id: u32,
    ) -> Result<(), Errno> {
        if sent.is_err() {
            self.mine.remove(&header.id);
        }
        self.keep_if(sent, peer, Some(id))
    }

    /// Sends a part of data that the peer asked for; what went with the announcement is left out. Returns whether there was a packet.
    fn send_segment(
        &mut self,
        peer: PeerId,
        frame: &Frame<'_>,
        token: Option<TxToken>,
    ) -> Result<bool, Errno> {
        let id = self.mine.get(&frame.header.id).copied();
        let id = id.ok_or(Errno::CONNRESET)?;
        let Some(OperationKind::Offer(offer)) = self.operations.get(peer, id) else {
            return Err(Errno::CONNRESET);
        };
        let (offer, end) = (*offer, (frame.offset + frame.len) as u64);
        let recv_id = offer.recv_id.ok_or(Errno::CONNRESET)?;
        let skipped = offer
            .first
            .saturating_sub(frame.offset as u64)
            .min(frame.len as u64) as usize;
        let (offset, len) = (frame.offset + skipped, frame.len - skipped);
        if len > 0 {
            let content = Content::Data {
                recv_id,
                offset: offset as u64,
                body: &[],
            };
            self.send(peer, content, &frame.body.slice(offset, len), token)?;
        }
        if end == offer.len {
            self.mine.remove(&offer.mine);
            match self.operations.get(peer, id) {
                Some(kind) if offer.wants_receipt => {
                    *kind = OperationKind::Sent { mine: offer.mine }
                }
                _ => drop(self.operations.remove(peer, id)),
            }
        }
        Ok(len > 0)
    }

    /// Asks for the data of what was announced.
    fn ask_for_data(&mut self, peer: PeerId, id: u32) -> Result<(), Errno> {
        let Some(OperationKind::Incoming(incoming)) = self.operations.get(peer, id) else {
            return Ok(());
        };
        let send_id = incoming.send_id;
        if incoming.stage == Stage::Readable {
            self.send(
                peer,
                Content::ReadNack {
                    send_id,
                    recv_id: id,
                },
                &Iov::empty(),
                None,
            )?;
            if let Some(OperationKind::Incoming(incoming)) = self.operations.get(peer, id) {
                incoming.stage = Stage::Refused;
            }
            return Ok(());
        }
        let here: u64 = incoming
            .first
            .iter()
            .map(|(_, part)| part.len() as u64)
            .sum();
        let len = incoming.len.saturating_sub(here);
        let content = Content::Cts {
            send_id,
            recv_id: id,
            len,
            is_read: false,
        };
        self.send(peer, content, &Iov::empty(), None)?;
        if let Some(OperationKind::Incoming(incoming)) = self.operations.get(peer, id) {
            incoming.stage = Stage::Asked;
        }
        self.deferred.push_back(Deferred::FirstPart(peer, id));
        Ok(())
    }

    fn acknowledge(&mut self, peer: PeerId, id: u32) -> Result<(), Errno> {
        let Some(OperationKind::Owed { send_id, message }) = self.operations.get(peer, id) else {
            return Ok(());
        };
        let content = Content::Receipt {
            send_id: *send_id,
            message: *message,
        };
        self.send(peer, content, &Iov::empty(), None)?;
        self.operations.remove(peer, id);
        Ok(())
    }

    /// Tells a peer that its data was read, or that what it asked for is refused. What has no id there, or if the peer knows no such packet,
    /// it is not told.
    fn finish(&mut self, peer: PeerId, id: u32, result: u64) -> Result<(), Errno> {
        let (theirs, content) = match self.operations.get(peer, id) {
            Some(OperationKind::Incoming(Incoming {
                stage: Stage::Readable,
                send_id,
                ..
            })) => (
                *send_id,
                Some(Content::EndOfRead {
                    send_id: *send_id,
                    recv_id: id,
                }),
            ),
            Some(
                OperationKind::Incoming(Incoming { send_id, .. })
                | OperationKind::Owed { send_id, .. },
            ) => (*send_id, None),
            Some(OperationKind::Answer { recv_id, .. } | OperationKind::Fetch { recv_id }) => {
                (*recv_id, None)
            }
            _ => return Ok(()),
        };
        let refusal = Content::PeerError {
            id: theirs,
            reference: Reference::Operation,
            cause: BAD_ADDRESS,
        };
        match content {
            Some(content) if result == 0 => self.send(peer, content, &Iov::empty(), None)?,
            _ if self
                .peers
                .get(peer)
                .is_some_and(|row| row.has(feature::PEER_ERROR)) =>
            {
                self.send(peer, refusal, &Iov::empty(), None)?;
            }
            _ => {}
        }
        self.operations.remove(peer, id);
        Ok(())
    }

    fn send_write(
        &mut self,
        peer: PeerId,
        frame: &Frame<'_>,
        token: Option<TxToken>,
    ) -> Result<(), Errno> {
        let send_id = self.expect_receipt(peer, &frame.header)?;
        let write = write(frame, send_id.unwrap_or(0), Form::Eager);
        let body = frame.body.slice(frame.offset, frame.len);
        let sent = self.send(peer, Content::Write(write?), &body, token);
        self.keep_if(sent, peer, send_id)
    }

    fn announce_write(&mut self, peer: PeerId, frame: &Frame<'_>) -> Result<(), Errno> {
        let len = frame.body.len() as u64;
        let first = frame.body.slice(0, self.limits.eager);
        let send_id = self.offer(peer, &frame.header, first.len())?;
        let form = Form::Long {
            len,
            credits: CREDITS,
        };
        let write = write(frame, send_id, form);
        let sent = write.and_then(|write| self.send(peer, Content::Write(write), &first, None));
        self.keep_offer_if(sent, peer, &frame.header, send_id)
    }

    fn send_read(&mut self, peer: PeerId, frame: &Frame<'_>) -> Result<(), Errno> {
        let len = frame.header.len;
        let window = u32::try_from(len).unwrap_or(u32::MAX);
        let reading = Reading {
            mine: frame.header.id,
            len,
            received: 0,
            granted: window.into(),
            send_id: None,
            has_begun: false,
        };
        let id = self
            .operations
            .insert(peer, OperationKind::Reading(reading));
        let id = id.ok_or(Errno::AGAIN)?;
        let read = Read {
            targets: pieces(frame)?,
            len,
            recv_id: id,
            window,
            is_short: len as usize <= self.response_max(),
        };
        let sent = self.send(peer, Content::Read(read), &Iov::empty(), None);
        self.keep_if(sent, peer, Some(id))
    }

    /// Returns how much fits the packet of a response.
    fn response_max(&self) -> usize {
        self.domain.hardware.mtu.saturating_sub(RESPONSE_HEADER)
    }

    /// Sends a response that fits a packet: to a read, or to an atomic.
    fn send_response(
        &mut self,
        peer: PeerId,
        frame: &Frame<'_>,
        token: Option<TxToken>,
    ) -> Result<(), Errno> {
        let Ok(id) = u32::try_from(frame.header.tag) else {
            return Ok(());
        };
        let content = match self.operations.get(peer, id) {
            Some(OperationKind::Fetch { recv_id }) => Content::AtomicResponse {
                recv_id: *recv_id,
                body: &[],
            },
            Some(OperationKind::Answer { recv_id, .. }) => Content::ReadResponse {
                recv_id: *recv_id,
                send_id: id,
                body: &[],
            },
            _ => return Ok(()),
        };
        self.send(
            peer,
            content,
            &frame.body.slice(frame.offset, frame.len),
            token,
        )?;
        self.operations.remove(peer, id);
        Ok(())
    }

    /// Begins a response: the first part goes at once, and the rest as far as the reader lets it.
    fn announce_response(&mut self, peer: PeerId, frame: &Frame<'_>) -> Result<(), Errno> {
        let Ok(id) = u32::try_from(frame.header.tag) else {
            return Ok(());
        };
        let Some(&mut OperationKind::Answer { recv_id, window }) = self.operations.get(peer, id)
        else {
            return Ok(());
        };
        let first = frame.body.slice(0, self.response_max());
        let (mine, sent) = (frame.header.id, first.len() as u64);
        let content = Content::ReadResponse {
            recv_id,
            send_id: id,
            body: &[],
        };
        self.send(peer, content, &first, None)?;
        if sent == frame.header.len {
            self.operations.remove(peer, id);
            self.deferred.push_back(Deferred::Fin(peer, mine));
            return Ok(());
        }
        let granted = window.max(sent);
        if let Some(kind) = self.operations.get(peer, id) {
            *kind = OperationKind::Offer(Offer {
                mine,
                len: frame.header.len,
                first: sent,
                granted,
                recv_id: Some(recv_id),
                wants_receipt: false,
            });
        }
        self.mine.insert(mine, id);
        let all_or = if granted >= frame.header.len {
            0
        } else {
            granted
        };
        self.deferred.push_back(Deferred::Cts(peer, mine, all_or));
        Ok(())
    }

    fn send_atomic(
        &mut self,
        peer: PeerId,
        frame: &Frame<'_>,
        token: Option<TxToken>,
    ) -> Result<(), Errno> {
        let header = &frame.header;
        let (form, kind) = match header.kind {
            Kind::FetchAtomic => (
                AtomicForm::Fetch,
                Some(OperationKind::Fetching { mine: header.id }),
            ),
            Kind::CompareAtomic => (
                AtomicForm::Compare,
                Some(OperationKind::Fetching { mine: header.id }),
            ),
            _ if wants_receipt(header) => (
                AtomicForm::BaseWithReceipt,
                Some(OperationKind::Sent { mine: header.id }),
            ),
            _ => (AtomicForm::Base, None),
        };
        let targets = pieces(frame)?;
        let id = match kind {
            Some(kind) => Some(self.operations.insert(peer, kind).ok_or(Errno::AGAIN)?),
            None => None,
        };
        let atomic = Atomic {
            number: self.peers.get(peer).map_or(0, |row| row.next),
            form,
            datatype: (header.tag & 0xff) as u32,
            operation: (header.tag >> 8) as u32,
            id: id.unwrap_or(0),
            targets,
            data: data_of(header),
            body: &[],
        };
        let body = frame.body.slice(frame.offset, frame.len);
        let sent = self.send(peer, Content::Atomic(atomic), &body, token);
        self.keep_if(sent, peer, id)?;
        self.count(peer);
        Ok(())
    }

    /// Sends a handshake to a peer that is owed one.
    pub(super) fn send_handshake(&mut self, peer: PeerId) -> Result<(), Errno> {
        let hardware = self.domain.hardware;
        let mut features = feature::DELIVERY_COMPLETE
            | feature::CONNID
            | feature::RUNT
            | feature::READ_NACK
            | feature::PEER_ERROR;
        if hardware.can(EfaCaps::UNSOLICITED_WRITE_RECV) && self.tells_unsolicited {
            features |= feature::UNSOLICITED;
        }
        let content = Content::Handshake {
            features,
            device: Some(hardware.attributes.part),
        };
        self.send(peer, content, &Iov::empty(), None)
    }

    /// Asks a reader's peer for more of what it reads.
    pub(super) fn grant(
        &mut self,
        peer: PeerId,
        send_id: u32,
        recv_id: u32,
        len: u64,
    ) -> Result<(), Errno> {
        let content = Content::Cts {
            send_id,
            recv_id,
            len,
            is_read: true,
        };
        self.send(peer, content, &Iov::empty(), None)
    }

    /// Sends a packet. Requests have the address of this end until the peer is known to know it, everything else the connid.
    fn send(
        &mut self,
        peer: PeerId,
        content: Content<'_>,
        body: &Iov,
        token: Option<TxToken>,
    ) -> Result<(), Errno> {
        let row = self.peers.get_mut(peer).ok_or(Errno::INVAL)?;
        let is_request = matches!(
            content,
            Content::Message(_) | Content::Write(_) | Content::Read(_) | Content::Atomic(_)
        );
        let sender = match is_request && row.features.is_none() {
            true => Sender {
                address: Some(self.name.to_bytes()),
                connid: None,
            },
            false => Sender {
                address: None,
                connid: Some(self.name.connid),
            },
        };
        row.has_met = true;
        self.header.clear();
        self.header.reserve(HEADER_MAX);
        Packet { sender, content }.encode(body.len(), &mut self.header);
        let sent = SentPacket { peer, token };
        self.tx
            .send(&self.qp, row.destination(), &self.header, body, sent)
    }
}

fn wants_receipt(header: &Header) -> bool {
    header
        .flags
        .intersects(HeaderFlags::DELIVERY | HeaderFlags::MATCH)
}

fn data_of(header: &Header) -> Option<u64> {
    header
        .flags
        .contains(HeaderFlags::DATA)
        .then_some(header.data)
}

fn write(frame: &Frame<'_>, send_id: u32, form: Form) -> Result<Write<'static>, Errno> {
    Ok(Write {
        targets: pieces(frame)?,
        data: data_of(&frame.header),
        wants_receipt: wants_receipt(&frame.header),
        send_id,
        form,
        body: &[],
    })
}

fn pieces(frame: &Frame<'_>) -> Result<Pieces, Errno> {
    let pieces = frame.targets.iter().map(|target| Piece {
        addr: target.addr,
        len: target.len,
        key: target.key,
    });
    Pieces::new(pieces).ok_or(Errno::INVAL)
}
