//! From frames of the engine to packets. Path class: hot.

use oxifabric_engine::{Frame, Header, HeaderFlags, Kind, TxToken};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, PeerId};
use oxifabric_wire::efa::{
    Atomic, AtomicForm, Content, Form, HEADER_MAX, Message, Piece, Pieces, Read, Write,
};

use super::EfaRdm;
use super::operations::{OperationKind, Reading};
use super::tx::{Sent, What};

/// The body of a packet without one.
pub(super) const NOTHING: &Iov = &Iov::empty();

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
        let part = part(frame);
        let body = part.as_ref().unwrap_or(frame.body);
        let sent = self.send(peer, &Content::Message(message), body, token);
        self.keep_if(sent, peer, send_id)?;
        self.count(peer);
        Ok(())
    }

    /// Describes a message that has its turn in the order of those to the peer.
    pub(super) fn message(&self, peer: PeerId, header: &Header, form: Form) -> Message<'static> {
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
    pub(super) fn count(&mut self, peer: PeerId) {
        if let Some(row) = self.peers.get_mut(peer) {
            row.next = row.next.wrapping_add(1);
        }
    }

    /// Makes the operation that a receipt will name, if the sender waits for one.
    pub(super) fn expect_receipt(
        &mut self,
        peer: PeerId,
        header: &Header,
    ) -> Result<Option<u32>, Errno> {
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
    pub(super) fn keep_if(
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

    fn send_write(
        &mut self,
        peer: PeerId,
        frame: &Frame<'_>,
        token: Option<TxToken>,
    ) -> Result<(), Errno> {
        let send_id = self.expect_receipt(peer, &frame.header)?;
        let write = write(frame, send_id.unwrap_or(0), Form::Eager);
        let part = part(frame);
        let body = part.as_ref().unwrap_or(frame.body);
        let sent = self.send(peer, &Content::Write(write?), body, token);
        self.keep_if(sent, peer, send_id)?;
        self.unsettle(peer);
        Ok(())
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
        let sent = self.send(peer, &Content::Read(read), NOTHING, None);
        self.keep_if(sent, peer, Some(id))
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
        let part = part(frame);
        let body = part.as_ref().unwrap_or(frame.body);
        let sent = self.send(peer, &Content::Atomic(atomic), body, token);
        self.keep_if(sent, peer, id)?;
        self.count(peer);
        self.unsettle(peer);
        Ok(())
    }

    /// Returns whether a message fails if its receiver is not ready: it is in one packet, and the application said that it sees to receives itself.
    fn fails_not_ready(&self, message: &Message<'_>) -> bool {
        self.reach.fails_not_ready && matches!(message.form, Form::Eager)
    }

    /// Sends a packet, whose body is copied.
    ///
    /// # Errors
    /// `AGAIN` when there is no buffer now, `INVAL` if the body's memory is no longer registered, and what the device says.
    pub(super) fn send(
        &mut self,
        peer: PeerId,
        content: &Content<'_>,
        body: &Iov,
        token: Option<TxToken>,
    ) -> Result<(), Errno> {
        let what = match (token, content) {
            (Some(token), Content::Message(message)) if self.fails_not_ready(message) => {
                What::Message(token, message.wants_receipt.then_some(message.send_id))
            }
            _ => What::Packet(token),
        };
        let _hold = self.domain.hold(body)?;
        let row = self.peers.get_mut(peer).ok_or(Errno::INVAL)?;
        let is_request = matches!(
            content,
            Content::Message(_) | Content::Write(_) | Content::Read(_) | Content::Atomic(_)
        );
        let sender = row.sender(&self.name, is_request);
        row.has_met = true;
        self.header.clear();
        self.header.reserve(HEADER_MAX);
        content.encode(&sender, body.len(), &mut self.header);
        let sent = Sent { peer, what };
        self.tx
            .send(&mut self.qp, row.destination(), &self.header, body, sent)
    }
}

/// Returns a write of nothing to nowhere, which a peer takes as any other; with an id, by which the peer acknowledges it.
pub(super) fn write_of_nothing(receipt: Option<u32>) -> Content<'static> {
    Content::Write(Write {
        targets: Pieces::default(),
        data: None,
        wants_receipt: receipt.is_some(),
        send_id: receipt.unwrap_or(0),
        form: Form::Eager,
        body: &[],
    })
}

/// Describes the memory that a frame sends, if that is not all of its body.
fn part(frame: &Frame<'_>) -> Option<Iov> {
    let is_all = frame.offset == 0 && frame.len == frame.body.len();
    (!is_all).then(|| frame.body.slice(frame.offset, frame.len))
}

pub(super) fn wants_receipt(header: &Header) -> bool {
    header
        .flags
        .intersects(HeaderFlags::DELIVERY | HeaderFlags::MATCH)
}

pub(super) fn data_of(header: &Header) -> Option<u64> {
    header
        .flags
        .contains(HeaderFlags::DATA)
        .then_some(header.data)
}

#[inline(always)]
pub(super) fn write(frame: &Frame<'_>, send_id: u32, form: Form) -> Result<Write<'static>, Errno> {
    Ok(Write {
        targets: pieces(frame)?,
        data: data_of(&frame.header),
        wants_receipt: wants_receipt(&frame.header),
        send_id,
        form,
        body: &[],
    })
}

#[inline(always)]
pub(super) fn pieces(frame: &Frame<'_>) -> Result<Pieces, Errno> {
    let pieces = frame.targets.iter().map(|target| Piece {
        addr: target.addr,
        len: target.len,
        key: target.key,
    });
    Pieces::new(pieces).ok_or(Errno::INVAL)
}
