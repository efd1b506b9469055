//! Long messages and writes that the peer's device reads out of memory of this end: it is registered and announced, until the peer says that it has read
//! it, or that it cannot. Path class: warm.

use oxifabric_engine::{Body, Frame, Kind, OneSided, Sink};
use oxifabric_ibv::{Access, Mr};
use oxifabric_mem::Iov;
use oxifabric_provider::log;
use oxifabric_types::{Errno, PeerId};
use oxifabric_wire::efa::{Content, Form, Message, Piece, Pieces, Write};

use super::offer::CREDITS;
use super::operations::{Announcement, Exposed, Offer, OperationKind};
use super::send::{NOTHING, data_of, pieces, wants_receipt};
use super::take::{Taken, answer};
use super::{Deferred, EfaRdm};
use crate::params::Params;

impl EfaRdm {
    /// Announces a long message or write for the peer's device to read, where both devices can and it is long enough; returns whether it was.
    ///
    /// # Errors
    /// As [`EfaRdm::send_frame`].
    pub(super) fn expose(&mut self, peer: PeerId, frame: &Frame<'_>) -> Result<bool, Errno> {
        let is_write = frame.header.kind == Kind::WriteRts;
        let least = match is_write {
            true => Params::read().min_read_write,
            false => Params::read().min_read_message,
        };
        let reads = self.ways(peer).contains(OneSided::READ);
        if !reads || frame.body.len() < least.max(1) {
            return Ok(false);
        }
        // Memory that cannot be registered is sent.
        let Some((memory, regions)) = self.readable_by_peers(frame.body)? else {
            return Ok(false);
        };
        let announcement = Announcement {
            header: frame.header,
            message: match is_write {
                true => None,
                false => self.peers.get(peer).map(|row| row.next),
            },
            targets: pieces(frame)?,
        };
        let exposed = Exposed {
            announcement,
            regions,
        };
        let kind = OperationKind::Exposed(self.operations.boxed(exposed));
        let id = self.operations.insert(peer, kind).ok_or(Errno::AGAIN)?;
        let form = Form::Read {
            len: frame.header.len,
            memory,
        };
        let sent = self.announce(peer, id, &announcement, form, false);
        self.keep_if(sent, peer, Some(id))?;
        if !is_write {
            self.count(peer);
        }
        Ok(true)
    }

    /// Returns how peers name memory, and the registrations that this takes: none where the application has registered it for such reads, and passed its
    /// descriptor. `None` if the device does not register it, or it is in too many pieces.
    ///
    /// # Errors
    /// `INVAL` if a region that the application has named is closed.
    fn readable_by_peers(&self, body: &Iov) -> Result<Option<(Pieces, Vec<Mr>)>, Errno> {
        if let Some(described) = self.domain.described(body, Access::REMOTE_READ) {
            let piece = Piece {
                addr: described.piece.address(),
                len: body.len() as u64,
                key: described.rkey.into(),
            };
            return Ok(Pieces::new([piece]).map(|memory| (memory, Vec::new())));
        }
        self.domain.hold(body).map(drop)?;
        let Ok(regions) = self.register_with(body, Access::REMOTE_READ) else {
            return Ok(None);
        };
        let memory = Pieces::new(regions.iter().map(piece));
        Ok(memory.map(|memory| (memory, regions)))
    }

    /// Sends an announcement, which has no data.
    fn announce(
        &mut self,
        peer: PeerId,
        send_id: u32,
        announcement: &Announcement,
        form: Form,
        is_after_nack: bool,
    ) -> Result<(), Errno> {
        let header = &announcement.header;
        // A peer that reads says when it has.
        let wants_receipt = is_after_nack && wants_receipt(header);
        let content = match announcement.message {
            Some(number) => Content::Message(Message {
                number,
                wants_receipt,
                is_after_nack,
                send_id,
                ..self.message(peer, header, form)
            }),
            None => Content::Write(Write {
                targets: announcement.targets,
                data: data_of(header),
                wants_receipt,
                send_id,
                form,
                body: &[],
            }),
        };
        self.send(peer, &content, NOTHING, None)
    }

    /// Handles that a peer has read what was announced.
    pub(super) fn take_end_of_read(
        &mut self,
        peer: PeerId,
        id: u32,
        sink: &mut impl Sink,
    ) -> Taken {
        let Some(OperationKind::Exposed(exposed)) = self.operations.get(peer, id) else {
            return Taken::Done;
        };
        let mine = exposed.announcement.header.id;
        self.operations.end_exposed(peer, id);
        sink.arrival(peer, &answer(Kind::Fin, mine, 0, 0), Body::Whole(&[]))
            .into()
    }

    /// Handles that a peer cannot read what was announced: it is sent.
    pub(super) fn take_read_nack(&mut self, peer: PeerId, id: u32) -> Taken {
        let Some(kind) = self.operations.get(peer, id) else {
            return Taken::Done;
        };
        let OperationKind::Exposed(exposed) = kind else {
            return Taken::Done;
        };
        log::info!(
            "efa",
            EpData,
            "what was announced is sent, since its peer cannot read it"
        );
        let announcement = exposed.announcement;
        let header = &announcement.header;
        let is_write = header.kind == Kind::WriteRts;
        *kind = OperationKind::Offer(Offer {
            mine: header.id,
            len: header.len,
            first: 0,
            granted: 0,
            recv_id: None,
            wants_receipt: wants_receipt(header),
            is_write,
        });
        self.mine.insert(header.id, id);
        if is_write {
            self.unsettle(peer);
        }
        self.announce_anew(peer, id, Box::new(announcement));
        Taken::Done
    }

    /// Announces what a peer could not read anew, to be sent when it asks for it.
    pub(super) fn announce_anew(&mut self, peer: PeerId, id: u32, announcement: Box<Announcement>) {
        if self.operations.get(peer, id).is_none() {
            return;
        }
        let form = Form::Long {
            len: announcement.header.len,
            credits: CREDITS,
        };
        match self.announce(peer, id, &announcement, form, true) {
            Ok(()) => {}
            Err(Errno::AGAIN) => {
                let anew = Deferred::Anew(peer, id, announcement);
                self.defer(anew);
            }
            Err(errno) => self.doom(
                peer,
                errno,
                "what it cannot read could not be sent".to_owned(),
            ),
        }
    }
}

fn piece(region: &Mr) -> Piece {
    Piece {
        addr: region.address(),
        len: region.len() as u64,
        key: region.rkey().into(),
    }
}
