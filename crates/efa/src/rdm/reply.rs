//! What peers are told: that their data may come, is here, was read or is refused, and what they asked for. Path class: warm.

use oxifabric_engine::{Frame, TxToken};
use oxifabric_provider::log;
use oxifabric_types::{Errno, PeerId};
use oxifabric_wire::efa::{Content, RESPONSE_HEADER, Reference, feature};

use super::operations::{Incoming, OperationKind, Stage};
use super::send::NOTHING;
use super::{Deferred, EfaRdm};
use crate::status;

/// Marks the cause of a refusal as an error number of ours, which is in the lower half (docs/protocol/efa.md section 6.14).
const ERRNO: u32 = 0x4f58_0000;

/// Returns the error that a cause is: an error number of ours, or a status of the device.
pub(super) fn error_of(cause: u32) -> Errno {
    match cause & 0xffff_0000 {
        ERRNO => Errno::from_raw((cause & 0xffff) as i32),
        _ => status::error(cause, false).errno,
    }
}

impl EfaRdm {
    /// Asks for the data of what was announced.
    pub(super) fn ask_for_data(&mut self, peer: PeerId, id: u32) -> Result<(), Errno> {
        let Some(OperationKind::Incoming(incoming)) = self.operations.get(peer, id) else {
            return Ok(());
        };
        let send_id = incoming.send_id;
        if incoming.stage == Stage::Readable {
            log::info!(
                "efa",
                EpData,
                "a message that was announced is not read, and asked for"
            );
            self.send(
                peer,
                &Content::ReadNack {
                    send_id,
                    recv_id: id,
                },
                NOTHING,
                None,
            )?;
            let Some(OperationKind::Incoming(incoming)) = self.operations.get(peer, id) else {
                return Ok(());
            };
            incoming.stage = Stage::Refused;
            // What announces it anew has its number.
            if let (Some(number), Some(row)) = (incoming.message, self.peers.get_mut(peer)) {
                row.begun.insert(number, id);
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
        self.send(peer, &content, NOTHING, None)?;
        if let Some(OperationKind::Incoming(incoming)) = self.operations.get(peer, id) {
            incoming.stage = Stage::Asked;
        }
        self.defer(Deferred::FirstPart(peer, id));
        Ok(())
    }

    pub(super) fn acknowledge(&mut self, peer: PeerId, id: u32) -> Result<(), Errno> {
        let Some(OperationKind::Owed { send_id, message }) = self.operations.get(peer, id) else {
            return Ok(());
        };
        let content = Content::Receipt {
            send_id: *send_id,
            message: *message,
        };
        self.send(peer, &content, NOTHING, None)?;
        self.operations.remove(peer, id);
        Ok(())
    }

    /// Tells a peer that its data was read, or that what it asked for is refused. What has no id there, or if the peer knows no such packet,
    /// it is not told.
    pub(super) fn finish(&mut self, peer: PeerId, id: u32, result: u64) -> Result<(), Errno> {
        match self.operations.get(peer, id) {
            Some(OperationKind::Incoming(incoming)) if result == 0 => {
                let (send_id, is_whole) = (incoming.send_id, incoming.runt == 0);
                let is_readable = incoming.stage == Stage::Readable;
                // A sender that is told too early forgets a message of which it still sends packets.
                incoming.is_read |= !is_whole;
                match (is_whole, is_readable) {
                    (true, true) => self.finish_read(peer, id, send_id),
                    (true, false) => self.refuse(peer, id, send_id, result),
                    (false, _) => {
                        self.await_runt(peer);
                        Ok(())
                    }
                }
            }
            Some(
                OperationKind::Incoming(Incoming {
                    send_id: theirs, ..
                })
                | OperationKind::Owed {
                    send_id: theirs, ..
                }
                | OperationKind::Answer {
                    recv_id: theirs, ..
                }
                | OperationKind::Fetch { recv_id: theirs },
            ) => {
                let theirs = *theirs;
                self.refuse(peer, id, theirs, result)
            }
            _ => Ok(()),
        }
    }

    /// Tells a peer that what it announced was read.
    #[inline(always)]
    fn finish_read(&mut self, peer: PeerId, id: u32, send_id: u32) -> Result<(), Errno> {
        let content = Content::EndOfRead {
            send_id,
            recv_id: id,
        };
        self.send(peer, &content, NOTHING, None)?;
        self.end_incoming(peer, id);
        Ok(())
    }

    /// Has the peer's message, which was read, wait for the packets of it that are to come.
    fn await_runt(&mut self, peer: PeerId) {
        let row = self.peers.get_mut(peer);
        if row.is_some_and(|row| row.unfinished.is_too_much()) {
            self.doom(
                peer,
                Errno::PROTO,
                "it does not send what it announces".to_owned(),
            );
        }
    }

    /// Tells a peer that its operation `theirs` is refused, if it takes that.
    fn refuse(&mut self, peer: PeerId, id: u32, theirs: u32, result: u64) -> Result<(), Errno> {
        // Whether it takes the refusal is in its handshake, which is on its way.
        if self.peers.get(peer).and_then(|row| row.features).is_none() {
            return Err(Errno::AGAIN);
        }
        self.send_error(peer, theirs, Errno::from_raw(result as i32))?;
        self.end_incoming(peer, id);
        Ok(())
    }

    /// Forgets an operation of a peer, and the number of its message.
    #[inline(always)]
    fn end_incoming(&mut self, peer: PeerId, id: u32) {
        if let Some(OperationKind::Incoming(Incoming {
            message: Some(number),
            ..
        })) = self.operations.remove(peer, id)
            && let Some(row) = self.peers.get_mut(peer)
            && !row.begun.is_empty()
        {
            row.begun.remove(&number);
        }
    }

    /// Tells a peer that its operation with this number has failed, if the peer takes that.
    ///
    /// # Errors
    /// As [`EfaRdm::send`].
    pub(super) fn send_error(&mut self, peer: PeerId, id: u32, why: Errno) -> Result<(), Errno> {
        let features = self.peers.get(peer).and_then(|row| row.features);
        if features.is_none_or(|features| features & feature::PEER_ERROR == 0) {
            return Ok(());
        }
        let error = Content::PeerError {
            id,
            reference: Reference::Operation,
            cause: ERRNO | (why.raw() as u32 & 0xffff),
        };
        self.send(peer, &error, NOTHING, None)
    }

    /// Returns how much fits the packet of a response.
    pub(super) fn response_max(&self) -> usize {
        self.domain.hardware.mtu.saturating_sub(RESPONSE_HEADER)
    }

    /// Sends a response that fits a packet: to a read, or to an atomic.
    pub(super) fn send_response(
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
            &content,
            &frame.body.slice(frame.offset, frame.len),
            token,
        )?;
        self.operations.remove(peer, id);
        Ok(())
    }

    /// Sends a handshake to a peer that is owed one.
    pub(super) fn send_handshake(&mut self, peer: PeerId) -> Result<(), Errno> {
        let hardware = self.domain.hardware;
        let features = self.reach.features()
            | feature::DELIVERY_COMPLETE
            | feature::CONNID
            | feature::RUNT
            | feature::READ_NACK
            | feature::PEER_ERROR;
        let content = Content::Handshake {
            features,
            device: Some(hardware.attributes.part),
        };
        self.send(peer, &content, NOTHING, None)
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
        self.send(peer, &content, NOTHING, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_error_numbers_or_statuses() {
        assert_eq!(error_of(ERRNO | Errno::ACCES.raw() as u32), Errno::ACCES);
        assert_eq!(error_of(9), Errno::NOTCONN);
    }
}
