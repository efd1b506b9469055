//! Messages that are sent in several packets before the receiver asks for them. Path class: hot.
//!
//! Each packet says which message it is a part of, how long that is, and where the part begins: they arrive in any order. All of them are handed to the device at
//! once. A message for which there are not enough buffers has its turn among the peers that wait, and then gets those that come back, until there are enough.

use std::sync::Arc;

use oxifabric_engine::{Frame, Posted, TxToken};
use oxifabric_ibv::{Access, Piece};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, PeerId};
use oxifabric_wire::efa::{Content, Form, HEADER_MAX, Message, set_offset};

use super::EfaRdm;
use super::tx::{Sent, What};

impl EfaRdm {
    /// Returns the longest body of a packet.
    pub(super) const fn part_max(&self) -> usize {
        self.limits[0].eager
    }

    /// Returns memory of a message as the device names it, where the application passed its descriptor, and the device takes a packet in two pieces.
    pub(super) fn lent(&self, frame: &Frame<'_>) -> Option<Piece> {
        match frame.transient || !self.gathers {
            true => None,
            false => {
                let described = self.domain.described(frame.body, Access::default());
                described.map(|described| described.piece)
            }
        }
    }

    /// Sends a message in several packets.
    ///
    /// # Errors
    /// `AGAIN` when there are too few buffers now, `INVAL` if its memory is no longer registered, and what the device says.
    pub(super) fn send_medium(
        &mut self,
        peer: PeerId,
        frame: &Frame<'_>,
        token: TxToken,
    ) -> Result<Posted, Errno> {
        let packets = frame.body.len().div_ceil(self.part_max().max(1));
        if self.tx.room() < packets {
            self.waiting.keep(peer, packets);
            self.idle_period.end();
            return Err(Errno::AGAIN);
        }
        let lent = self.lent(frame);
        let domain = Arc::clone(&self.domain);
        let _hold = match lent {
            Some(_) => None,
            None => Some(domain.hold(frame.body)?),
        };
        let send_id = self.expect_receipt(peer, &frame.header)?;
        let awaits = frame.transmit_complete || lent.is_some();
        let part = awaits.then(|| self.parts.insert(peer, token, packets));
        let sent = self.send_parts(peer, frame, send_id, lent, part);
        if let (Err(_), Some(part)) = (sent, part) {
            self.parts.remove(part);
        }
        self.keep_if(sent, peer, send_id)?;
        self.waiting.let_go_of(peer);
        self.count(peer);
        match awaits {
            true => Ok(Posted::Pending),
            false => Ok(Posted::Done),
        }
    }

    fn send_parts(
        &mut self,
        peer: PeerId,
        frame: &Frame<'_>,
        send_id: Option<u32>,
        lent: Option<Piece>,
        part: Option<u32>,
    ) -> Result<(), Errno> {
        let whole = frame.body.len();
        let form = Form::Medium {
            len: whole as u64,
            offset: 0,
        };
        let wants_receipt = send_id.is_some();
        let content = Content::Message(Message {
            send_id: send_id.unwrap_or(0),
            wants_receipt,
            ..self.message(peer, &frame.header, form)
        });
        let (part_max, name) = (self.part_max().max(1), self.name);
        let row = self.peers.get_mut(peer).ok_or(Errno::INVAL)?;
        let sender = row.sender(&name, true);
        row.has_met = true;
        let what = match part {
            Some(part) => What::Part(part),
            None => What::Packet(None),
        };
        self.header.clear();
        self.header.reserve(HEADER_MAX);
        content.encode(&sender, part_max, &mut self.header);
        for offset in (0..whole).step_by(part_max) {
            let len = part_max.min(whole - offset);
            set_offset(&mut self.header, wants_receipt, offset as u64);
            let (piece, body) = match lent {
                Some(lent) => (lent.part(offset, len), Iov::empty()),
                None => (None, frame.body.slice(offset, len)),
            };
            let sent = Sent { peer, what };
            self.tx.stage(&self.header, &body, piece, sent)?;
        }
        self.tx.send_staged(&mut self.qp, row.destination())
    }
}
