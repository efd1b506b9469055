//! Reads and writes of memory of peers that the device carries out by itself (RDMA). Path class: hot.
//!
//! An access is cut into pieces where its memory is, at either end, and by what the device does at once. A short one goes through the buffers of the
//! packets; for a longer one the memory is registered while it lasts. Where that fails it goes through the buffers too.

use std::time::Duration;

use oxifabric_engine::{
    Frame, HeaderFlags, Kind, PostError, Posted, RemoteIov, RxToken, Sink, TxToken,
};
use oxifabric_ibv::{Access as Rights, Mr};
use oxifabric_mem::Iov;
use oxifabric_provider::log;
use oxifabric_types::{Errno, PeerId};
use oxifabric_wire::efa::{Content, Form, Pieces, Write};

use super::access_table::{Access, Accesses, Tell, is_nameable};
use super::peers::Peer;
use super::tx::{AccessPiece, Sent, What};
use super::{Deferred, EfaRdm};
use crate::post::wire_data;
use crate::{status, sys};

/// How long messages are not read after memory could not be registered.
const WITHOUT_REGIONS: Duration = Duration::from_millis(100);

/// Statuses of the device by which one access fails, and nothing else: what is wrong is the access, not the peer.
const OF_ACCESS: [u32; 8] = [2, 3, 4, 5, 6, 7, 14, 18];

/// What follows from an attempt to post a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// There may be another one.
    More,
    /// There is none, or none now.
    Rest,
    /// The device takes none now.
    Blocked,
}

impl EfaRdm {
    /// Checks that it is known whether the device carries out accesses with a peer, and asks the peer for its handshake if it is not: by a write of
    /// nothing to nowhere, as the C library does.
    pub(super) fn ask_for_handshake(&mut self, peer: PeerId) -> Result<(), PostError> {
        let row = self.peers.get(peer);
        let Some(row) = row.filter(|row| self.awaits_handshake(row)) else {
            return Ok(());
        };
        if !row.was_asked {
            let nothing = Write {
                targets: Pieces::default(),
                data: None,
                wants_receipt: false,
                send_id: 0,
                form: Form::Eager,
                body: &[],
            };
            let asked = self.send(peer, Content::Write(nothing), &Iov::empty(), None);
            match asked {
                Ok(()) | Err(Errno::AGAIN) => {}
                Err(errno) => return Err(PostError::Down(errno)),
            }
            if let Some(row) = self.peers.get_mut(peer) {
                row.was_asked = asked.is_ok();
            }
        }
        Err(self.block(peer))
    }

    /// Returns whether it depends on the handshake of a peer how it is reached, and that is not here.
    fn awaits_handshake(&self, row: &Peer) -> bool {
        self.reach.reads && !self.reach.peers_are_alike && row.features.is_none()
    }

    /// Begins a read or write that the device carries out.
    pub(super) fn begin_access(
        &mut self,
        peer: PeerId,
        frame: &Frame<'_>,
        token: TxToken,
    ) -> Result<Posted, PostError> {
        let header = &frame.header;
        let tell = match header.kind {
            Kind::Read => Tell::Read(token),
            _ => Tell::Written(token),
        };
        let remote = RemoteIov::new(frame.targets).ok_or(PostError::Down(Errno::INVAL))?;
        let has_data = header.flags.contains(HeaderFlags::DATA);
        let data = has_data.then(|| wire_data(header.data));
        // What is lent for the call only is copied into buffers now, but for a last piece that has to wait.
        let buffers = match frame.transient {
            true => frame.body.len() / self.tx.buffer_len() + 1 + frame.targets.len(),
            false => 1,
        };
        if self.tx.room() < buffers {
            return Err(self.block(peer));
        }
        let id = self.begin_any(peer, tell, frame.body.clone(), remote, data)?;
        if frame.transient
            && let Some(access) = self.accesses.get_mut(id)
        {
            access.own_body(Iov::duplicate);
            if access.is_over() {
                self.deferred.push_back(Deferred::Accessed(id));
            }
        }
        Ok(Posted::Pending)
    }

    /// Begins to read what a peer announced.
    pub(super) fn begin_pull(
        &mut self,
        peer: PeerId,
        remote: &RemoteIov,
        into: Iov,
        token: RxToken,
    ) -> Result<Posted, PostError> {
        self.begin_any(peer, Tell::Pulled(token), into, *remote, None)?;
        Ok(Posted::Pending)
    }

    fn begin_any(
        &mut self,
        peer: PeerId,
        tell: Tell,
        body: Iov,
        remote: RemoteIov,
        data: Option<u32>,
    ) -> Result<u32, PostError> {
        let is_pull = matches!(tell, Tell::Pulled(_));
        if !is_nameable(remote.pieces(), body.len(), is_pull) {
            return Err(PostError::Down(Errno::INVAL));
        }
        if !self.accesses.has_room() {
            return Err(self.block(peer));
        }
        let is_long = body.len() > self.tx.buffer_len();
        let regions = match is_long {
            true => self.register(&body, tell.is_read()),
            false => Vec::new(),
        };
        let access = Access {
            peer,
            tell,
            body,
            remote,
            data,
            regions,
            posted: 0,
            is_posted: false,
            pending: 0,
            failure: None,
        };
        let Some(id) = self.accesses.insert(access) else {
            return Err(self.block(peer));
        };
        loop {
            match self.post_piece(id) {
                Step::More => {}
                Step::Rest => return Ok(id),
                Step::Blocked => {
                    self.accesses.ready.push_back(id);
                    return Ok(id);
                }
            }
        }
    }

    /// Registers the segments of memory that an access goes to or comes from; returns none where that fails, and for some time does not read
    /// what is announced then.
    fn register(&mut self, body: &Iov, is_read: bool) -> Vec<Mr> {
        let rights = match is_read {
            true => Rights::LOCAL_WRITE,
            false => Rights::default(),
        };
        self.register_with(body, rights).unwrap_or_else(|errno| {
            log::info!(
                "efa",
                EpData,
                "memory cannot be registered, and is copied: {errno}"
            );
            self.reads_again_at = self.now.after(WITHOUT_REGIONS);
            Vec::new()
        })
    }

    /// Registers the segments of memory with these rights.
    ///
    /// # Errors
    /// What the device says.
    pub(super) fn register_with(&self, body: &Iov, rights: Rights) -> Result<Vec<Mr>, Errno> {
        let segments = body.segments().iter().filter(|segment| !segment.is_empty());
        let regions = segments.map(|segment| self.domain.pd.register(sys::lend(*segment), rights));
        regions.collect()
    }

    /// Asks the device for the next piece of an access.
    fn post_piece(&mut self, id: u32) -> Step {
        let most = self.domain.hardware.efa.max_rdma_len.max(1) as usize;
        let buffer = self.tx.buffer_len();
        let Some(access) = self.accesses.get_mut(id) else {
            return Step::Rest;
        };
        let Some((piece, request)) = access.next(most, buffer) else {
            return Step::Rest;
        };
        let Some(row) = self.peers.get_mut(access.peer) else {
            return Step::Rest;
        };
        row.has_met = true;
        let sent = Sent {
            peer: access.peer,
            what: What::Piece(AccessPiece {
                access: id,
                ..piece
            }),
        };
        let body = match piece.is_buffered && !request.is_read {
            true => access.body.slice(piece.offset, piece.len),
            false => Iov::empty(),
        };
        let posted = self
            .tx
            .access(&self.qp, row.destination(), request, &body, sent);
        match posted {
            Ok(()) => {
                access.pending += 1;
                access.posted += piece.len;
                access.is_posted = access.posted == access.body.len();
                Step::More
            }
            Err(Errno::AGAIN) => Step::Blocked,
            Err(errno) => {
                access.failure = Some(errno);
                if access.is_over() {
                    self.deferred.push_back(Deferred::Accessed(id));
                }
                Step::Rest
            }
        }
    }

    /// Asks the device for more of the accesses that wait for it, in turns.
    pub(super) fn go_on_with_accesses(&mut self) {
        let mut has_posted = false;
        while Accesses::may_go_on(self.tx.room()) {
            let Some(id) = self.accesses.ready.pop_front() else {
                break;
            };
            match self.post_piece(id) {
                Step::More => {
                    self.accesses.ready.push_back(id);
                    has_posted = true;
                }
                Step::Rest => {}
                Step::Blocked => {
                    self.accesses.ready.push_front(id);
                    break;
                }
            }
        }
        self.accesses.had_turn(has_posted);
    }

    /// Handles the end of a piece of an access; `result` is the device's status.
    pub(super) fn piece_ended(
        &mut self,
        at: u32,
        piece: AccessPiece,
        result: Result<(), u32>,
        sink: &mut impl Sink,
    ) {
        let Some(access) = self.accesses.get_mut(piece.access) else {
            return;
        };
        access.pending -= 1;
        let peer = access.peer;
        match result {
            Ok(()) if piece.is_buffered && access.tell.is_read() && access.failure.is_none() => {
                let into = access.body.slice(piece.offset, piece.len);
                self.tx.copy_out(at, &into);
            }
            Ok(()) => {}
            Err(code) => {
                let error = status::error(code, false);
                access.failure.get_or_insert(error.errno);
                if !OF_ACCESS.contains(&error.code) {
                    let address = self.peers.directory().address(peer);
                    let reason = status::explain(error.code, address.as_ref());
                    self.doom(peer, error.errno, reason);
                }
            }
        }
        self.end_access(piece.access, sink);
        // Its last piece, with completion data, may have waited for this one.
        let waits = |access: &mut Access| access.pending == 0 && access.data.is_some();
        if self.accesses.get_mut(piece.access).is_some_and(waits)
            && !self.accesses.ready.contains(&piece.access)
        {
            self.accesses.ready.push_back(piece.access);
        }
    }

    /// Tells the engine of an access that is over.
    pub(super) fn end_access(&mut self, id: u32, sink: &mut impl Sink) {
        let Some(over) = self.accesses.take_over(id) else {
            return;
        };
        // The memory is the application's again when it is told.
        drop(over.regions);
        over.tell.tell(over.failure.map_or(Ok(()), Err), sink);
    }

    /// Gives up the accesses to a peer as far as the device does not have them; returns whether it has none.
    pub(super) fn stop_accesses(&mut self, peer: PeerId, why: Errno, sink: &mut impl Sink) -> bool {
        for id in self.accesses.numbers_with(peer) {
            if let Some(access) = self.accesses.get_mut(id) {
                access.failure.get_or_insert(why);
            }
            self.end_access(id, sink);
        }
        !self.accesses.any_with(peer)
    }
}
