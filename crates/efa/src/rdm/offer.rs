//! Data that is announced, and sent as far as the peer lets it be. Path class: warm.

use oxifabric_engine::{Frame, Header, Kind, TxToken};
use oxifabric_types::{Errno, PeerId};
use oxifabric_wire::efa::{Content, Form, Message};

use super::operations::{Offer, OperationKind};
use super::send::{wants_receipt, write};
use super::{Deferred, EfaRdm};

/// How many packets a peer is asked to take at once; it decides itself.
pub(super) const CREDITS: u32 = 32;

impl EfaRdm {
    pub(super) fn announce_message(
        &mut self,
        peer: PeerId,
        frame: &Frame<'_>,
    ) -> Result<(), Errno> {
        if self.expose(peer, frame)? {
            return Ok(());
        }
        let len = frame.body.len() as u64;
        let form = Form::Long {
            len,
            credits: CREDITS,
        };
        let first = frame.body.slice(0, self.limits[0].eager);
        let send_id = self.offer(peer, &frame.header, first.len())?;
        let message = Message {
            send_id,
            wants_receipt: wants_receipt(&frame.header),
            ..self.message(peer, &frame.header, form)
        };
        let sent = self.send(peer, &Content::Message(message), &first, None);
        self.keep_offer_if(sent, peer, &frame.header, send_id)?;
        self.count(peer);
        Ok(())
    }

    /// Makes the operation of data that is announced, of which the first bytes go along.
    pub(super) fn offer(
        &mut self,
        peer: PeerId,
        header: &Header,
        first: usize,
    ) -> Result<u32, Errno> {
        let offer = Offer {
            mine: header.id,
            len: header.len,
            first: first as u64,
            granted: first as u64,
            recv_id: None,
            wants_receipt: wants_receipt(header),
            is_write: header.kind == Kind::WriteRts,
        };
        let id = self.operations.insert(peer, OperationKind::Offer(offer));
        let id = id.ok_or(Errno::AGAIN)?;
        self.mine.insert(header.id, id);
        Ok(id)
    }

    pub(super) fn keep_offer_if(
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

    /// Returns whether data with this id of the engine is that of a write whose end the peer does not tell.
    pub(super) fn is_of_write(&mut self, peer: PeerId, mine: u32) -> bool {
        let id = self.mine.get(&mine).copied();
        match id.and_then(|id| self.operations.get(peer, id)) {
            Some(OperationKind::Offer(offer)) => offer.is_write && !offer.wants_receipt,
            _ => false,
        }
    }

    /// Sends a part of data that the peer asked for; what went with the announcement is left out. Returns whether there was a packet.
    pub(super) fn send_segment(
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
            match self.send(peer, &content, &frame.body.slice(offset, len), token) {
                Err(Errno::INVAL) => return Err(self.withdraw(peer, id, &offer, Errno::INVAL)),
                sent => sent?,
            }
        }
        if end == offer.len {
            self.end_sending(peer, id, offer.mine, offer.wants_receipt);
        }
        Ok(len > 0)
    }

    /// Gives up data whose memory the application has taken away, and tells the peer, which waits for it, as far as it understands that. Returns the reason, or
    /// `AGAIN` when there is no room to tell it.
    fn withdraw(&mut self, peer: PeerId, id: u32, offer: &Offer, why: Errno) -> Errno {
        let told = match offer.recv_id {
            Some(theirs) => self.send_error(peer, theirs, why),
            None => Ok(()),
        };
        if told == Err(Errno::AGAIN) {
            return Errno::AGAIN;
        }
        self.mine.remove(&offer.mine);
        self.operations.remove(peer, id);
        why
    }

    /// Ends an operation of which all is sent: it waits for its receipt, or is forgotten. `mine` is its id in the engine.
    pub(super) fn end_sending(&mut self, peer: PeerId, id: u32, mine: u32, wants_receipt: bool) {
        self.mine.remove(&mine);
        match self.operations.get(peer, id) {
            Some(kind) if wants_receipt => *kind = OperationKind::Sent { mine },
            _ => drop(self.operations.remove(peer, id)),
        }
    }

    pub(super) fn announce_write(&mut self, peer: PeerId, frame: &Frame<'_>) -> Result<(), Errno> {
        if self.expose(peer, frame)? {
            return Ok(());
        }
        let len = frame.body.len() as u64;
        let first = frame.body.slice(0, self.limits[0].eager);
        let send_id = self.offer(peer, &frame.header, first.len())?;
        let form = Form::Long {
            len,
            credits: CREDITS,
        };
        let write = write(frame, send_id, form);
        let sent = write.and_then(|write| self.send(peer, &Content::Write(write), &first, None));
        self.keep_offer_if(sent, peer, &frame.header, send_id)?;
        self.unsettle(peer);
        Ok(())
    }

    /// Begins a response: the first part goes at once, and the rest as far as the reader lets it.
    pub(super) fn announce_response(
        &mut self,
        peer: PeerId,
        frame: &Frame<'_>,
    ) -> Result<(), Errno> {
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
        self.send(peer, &content, &first, None)?;
        if sent == frame.header.len {
            self.operations.remove(peer, id);
            self.defer(Deferred::Fin(peer, mine));
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
                is_write: false,
            });
        }
        self.mine.insert(mine, id);
        let all_or = if granted >= frame.header.len {
            0
        } else {
            granted
        };
        self.defer(Deferred::Cts(peer, mine, all_or));
        Ok(())
    }
}
