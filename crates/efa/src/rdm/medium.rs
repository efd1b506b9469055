//! Messages that are sent in several packets before the receiver asks for them. Path class: warm.
//!
//! Each packet says which message it is a part of, how long that is, and where the part begins: they arrive in any order.

use oxifabric_engine::{Frame, TxToken};
use oxifabric_types::{Errno, PeerId};
use oxifabric_wire::efa::{Content, Form, Message};

use super::EfaRdm;
use super::operations::{Medium, OperationKind};
use super::send::wants_receipt;

impl EfaRdm {
    /// Sends the first packet of a message.
    pub(super) fn begin_medium(
        &mut self,
        peer: PeerId,
        frame: &Frame<'_>,
        token: Option<TxToken>,
    ) -> Result<(), Errno> {
        let medium = Medium {
            header: frame.header,
            number: self.peers.get(peer).map_or(0, |row| row.next),
        };
        let kind = OperationKind::Medium(medium);
        let id = self.operations.insert(peer, kind).ok_or(Errno::AGAIN)?;
        let sent = self.send_part(peer, frame, id, &medium, token);
        self.keep_if(sent, peer, Some(id))?;
        self.mine.insert(medium.header.id, id);
        self.count(peer);
        Ok(())
    }

    /// Sends another packet of a message.
    pub(super) fn go_on_with_medium(
        &mut self,
        peer: PeerId,
        frame: &Frame<'_>,
        id: u32,
        medium: Medium,
        token: Option<TxToken>,
    ) -> Result<(), Errno> {
        self.send_part(peer, frame, id, &medium, token)?;
        if frame.offset + frame.len == frame.body.len() {
            let header = &medium.header;
            self.end_sending(peer, id, header.id, wants_receipt(header));
        }
        Ok(())
    }

    fn send_part(
        &mut self,
        peer: PeerId,
        frame: &Frame<'_>,
        id: u32,
        medium: &Medium,
        token: Option<TxToken>,
    ) -> Result<(), Errno> {
        let form = Form::Medium {
            len: frame.body.len() as u64,
            offset: frame.offset as u64,
        };
        let wants_receipt = wants_receipt(&medium.header);
        let message = Message {
            number: medium.number,
            wants_receipt,
            send_id: if wants_receipt { id } else { 0 },
            ..self.message(peer, &medium.header, form)
        };
        let body = frame.body.slice(frame.offset, frame.len);
        self.send(peer, Content::Message(message), &body, token)
    }
}
