//! Messages that are sent in several packets before the receiver asks for them. Path class: warm.
//!
//! Each packet says which message it is a part of, how long that is, and where the part begins: they arrive in any order.

use oxifabric_engine::{Frame, Header, TxToken};
use oxifabric_types::{Errno, PeerId};
use oxifabric_wire::efa::{Content, Form, Message};

use super::EfaRdm;
use super::operations::OperationKind;
use super::send::wants_receipt;

impl EfaRdm {
    /// Sends the first packet of a message.
    pub(super) fn begin_medium(&mut self, peer: PeerId, frame: &Frame<'_>) -> Result<(), Errno> {
        let number = self.peers.get(peer).map_or(0, |row| row.next);
        let header = frame.header;
        let kind = OperationKind::Medium { header, number };
        let id = self.operations.insert(peer, kind).ok_or(Errno::AGAIN)?;
        let sent = self.send_part(peer, frame, (&header, number, id), None);
        self.keep_if(sent, peer, Some(id))?;
        self.mine.insert(header.id, id);
        self.count(peer);
        Ok(())
    }

    /// Sends another packet of a message; with the last one it waits for its receipt, or is forgotten.
    pub(super) fn go_on_with_medium(
        &mut self,
        peer: PeerId,
        frame: &Frame<'_>,
        (header, number, id): (&Header, u32, u32),
        token: Option<TxToken>,
    ) -> Result<(), Errno> {
        self.send_part(peer, frame, (header, number, id), token)?;
        if frame.offset + frame.len == frame.body.len() {
            self.mine.remove(&header.id);
            match self.operations.get(peer, id) {
                Some(kind) if wants_receipt(header) => {
                    *kind = OperationKind::Sent { mine: header.id };
                }
                _ => drop(self.operations.remove(peer, id)),
            }
        }
        Ok(())
    }

    fn send_part(
        &mut self,
        peer: PeerId,
        frame: &Frame<'_>,
        (header, number, id): (&Header, u32, u32),
        token: Option<TxToken>,
    ) -> Result<(), Errno> {
        let form = Form::Medium {
            len: frame.body.len() as u64,
            offset: frame.offset as u64,
        };
        let wants_receipt = wants_receipt(header);
        let message = Message {
            number,
            wants_receipt,
            send_id: if wants_receipt { id } else { 0 },
            ..self.message(peer, header, form)
        };
        let body = frame.body.slice(frame.offset, frame.len);
        self.send(peer, Content::Message(message), &body, token)
    }
}
