//! Reads and writes of memory of peers that the device carries out by itself (RDMA). Path class: hot.
//!
//! An access is cut into pieces where its memory is, at either end, and by what the device does at once. A short one goes through the buffers of the
//! packets; for a longer one the memory is registered while it lasts, unless the application has registered it and passed its descriptor. Where that fails it
//! goes through the buffers too.

use std::time::Duration;

use oxifabric_engine::{
    Frame, Header, HeaderFlags, Kind, Link, Placement, PostError, Posted, RemoteIov, RxToken, Sink,
    Target, TxToken,
};
use oxifabric_ibv::{Access as Rights, Mr};
use oxifabric_mem::Iov;
use oxifabric_provider::log;
use oxifabric_types::{Errno, PeerId};

use super::access_table::{Access, Accesses, Memory, Tell, is_nameable};
use super::peers::Peer;
use super::send::{NOTHING, write_of_nothing};
use super::tx::{AccessPiece, AccessRequest, Sent, What};
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
    NoMore,
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
            let asked = self.send(peer, &write_of_nothing(None), NOTHING, None);
            match asked {
                Ok(()) | Err(Errno::AGAIN) => {}
                Err(errno) => return Err(PostError::Down(errno)),
            }
            let now = self.now;
            if let Some(row) = self.peers.get_mut(peer) {
                (row.was_asked, row.heard_at) = (asked.is_ok(), now);
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
        let has_data = header.flags.contains(HeaderFlags::DATA);
        let data = has_data.then(|| wire_data(header.data));
        if let Some(request) = self.in_one_piece(frame, data) {
            return self.post_access(peer, request, What::Access(token));
        }
        self.domain
            .hold(frame.body)
            .map(drop)
            .map_err(PostError::Down)?;
        let tell = match header.kind {
            Kind::Read => Tell::Read(token),
            _ => Tell::Written(token),
        };
        let remote = RemoteIov::new(frame.targets).ok_or(PostError::Down(Errno::INVAL))?;
        // What is lent for the call only is copied into buffers now, but for a last piece that has to wait.
        let buffers = match frame.transient {
            true => frame.body.len() / self.tx.buffer_len() + 1 + frame.targets.len(),
            false => 1,
        };
        if self.tx.room() < buffers {
            return Err(self.block(peer));
        }
        let id = self.begin_any(
            peer,
            tell,
            frame.body.clone(),
            remote,
            data,
            frame.transient,
        )?;
        if frame.transient
            && let Some(access) = self.accesses.get_mut(id)
        {
            access.own_body(Iov::duplicate);
            if access.is_over() {
                self.defer(Deferred::Accessed(id));
            }
        }
        Ok(Posted::Pending)
    }

    /// Returns an access as one request, if it is one: from memory of the application, which has passed its descriptor, to one piece of memory of the peer, or
    /// back. Nothing but the request is kept of it then.
    fn in_one_piece(&self, frame: &Frame<'_>, data: Option<u32>) -> Option<AccessRequest> {
        let &[target] = frame.targets else {
            return None;
        };
        if target.len != frame.body.len() as u64 || frame.transient {
            return None;
        }
        let is_read = frame.header.kind == Kind::Read;
        self.one_request(&target, frame.body, is_read, data)
    }

    /// Returns the request that reads so much of a piece of memory of a peer as there is room for, or writes it; `None` where one request does not do.
    #[inline(always)]
    fn one_request(
        &self,
        target: &Target,
        body: &Iov,
        is_read: bool,
        data: Option<u32>,
    ) -> Option<AccessRequest> {
        let len = body.len();
        let is_one =
            target.len >= len as u64 && len <= self.domain.hardware.efa.max_rdma_len as usize;
        let key = u32::try_from(target.key).ok().filter(|_| is_one)?;
        let described = self.domain.described(body, local_rights(is_read))?;
        Some(AccessRequest {
            is_read,
            local: Some(described.piece),
            addr: target.addr,
            key,
            len,
            data,
        })
    }

    /// Has the device carry out an access that is one request.
    fn post_access(
        &mut self,
        peer: PeerId,
        request: AccessRequest,
        what: What,
    ) -> Result<Posted, PostError> {
        let row = self.peers.get_mut(peer);
        let row = row.ok_or(PostError::Down(Errno::INVAL))?;
        row.has_met = true;
        let sent = Sent { peer, what };
        let destination = row.destination();
        let posted = self
            .tx
            .access(&mut self.qp, destination, request, None, sent);
        match posted {
            Ok(()) => Ok(Posted::Pending),
            Err(Errno::AGAIN) => Err(self.block(peer)),
            Err(errno) => Err(PostError::Down(errno)),
        }
    }

    /// Begins to read what a peer announced.
    pub(super) fn begin_pull(
        &mut self,
        peer: PeerId,
        remote: &RemoteIov,
        into: Iov,
        token: RxToken,
    ) -> Result<Posted, PostError> {
        if let &[target] = remote.pieces()
            && let Some(request) = self.one_request(&target, &into, true, None)
        {
            return self.post_access(peer, request, What::Pull(token));
        }
        self.begin_any(peer, Tell::Pulled(token), into, *remote, None, false)?;
        Ok(Posted::Pending)
    }

    /// Gives the engine an announcement, and begins to read what was announced if that has a place.
    #[inline(always)]
    pub(super) fn begin_read(
        &mut self,
        peer: PeerId,
        header: &Header,
        targets: &[Target],
        memory: &RemoteIov,
        sink: &mut impl Sink,
    ) -> Placement {
        let placement = sink.begin_pull(peer, header, targets, memory);
        let Placement::Into(into, token) = placement else {
            return placement;
        };
        match self.pull(peer, memory, into, token) {
            Ok(Posted::Pending) => {}
            Ok(Posted::Done) => sink.pulled(token, Ok(())),
            Err(PostError::Again) => sink.put_off(token, memory),
            Err(PostError::Down(errno)) => sink.pulled(token, Err(errno)),
        }
        Placement::Done
    }

    fn begin_any(
        &mut self,
        peer: PeerId,
        tell: Tell,
        body: Iov,
        remote: RemoteIov,
        data: Option<u32>,
        is_transient: bool,
    ) -> Result<u32, PostError> {
        let is_pull = matches!(tell, Tell::Pulled(_));
        if !is_nameable(remote.pieces(), body.len(), is_pull) {
            return Err(PostError::Down(Errno::INVAL));
        }
        if !self.accesses.has_room() {
            return Err(self.block(peer));
        }
        // What is lent for the call only is the caller's again when it returns: the device must not read it by the registration that came with it.
        let memory = match is_transient {
            true => Memory::Buffered,
            false => self.memory(&body, tell.is_read()),
        };
        let access = Access {
            peer,
            tell,
            body,
            remote,
            data,
            memory,
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
                Step::NoMore => return Ok(id),
                Step::Blocked => {
                    self.wait_for_more(id);
                    return Ok(id);
                }
            }
        }
    }

    /// Returns how the device reaches memory that an access goes to or comes from: by the application's registration, if it passed its descriptor; else a short
    /// one goes through buffers, and what is longer is registered. Where that fails it is copied too, and for some time what is announced is not read.
    fn memory(&mut self, body: &Iov, is_read: bool) -> Memory {
        let rights = local_rights(is_read);
        if let Some(described) = self.domain.described(body, rights) {
            return Memory::Described(described.piece);
        }
        if body.len() <= self.tx.buffer_len() {
            return Memory::Buffered;
        }
        match self.register_with(body, rights) {
            Ok(regions) => Memory::Registered(regions),
            Err(errno) => {
                log::info!(
                    "efa",
                    EpData,
                    "memory cannot be registered, and is copied: {errno}"
                );
                self.reads_again_at = self.now.after(WITHOUT_REGIONS);
                Memory::Buffered
            }
        }
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
            return Step::NoMore;
        };
        let Some((piece, request)) = access.next(most, buffer) else {
            return Step::NoMore;
        };
        let Some(row) = self.peers.get_mut(access.peer) else {
            return Step::NoMore;
        };
        row.has_met = true;
        let sent = Sent {
            peer: access.peer,
            what: What::Piece(AccessPiece {
                access: id,
                ..piece
            }),
        };
        let is_copied = piece.is_buffered && !request.is_read;
        let body = is_copied.then(|| access.body.slice(piece.offset, piece.len));
        let posted = self.tx.access(
            &mut self.qp,
            row.destination(),
            request,
            body.as_ref(),
            sent,
        );
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
                    self.defer(Deferred::Accessed(id));
                }
                Step::NoMore
            }
        }
    }

    /// Has an access wait for more of it to be posted.
    fn wait_for_more(&mut self, id: u32) {
        self.accesses.ready.push_back(id);
        self.idle_period.end();
    }

    /// Asks the device for more of the accesses that wait for it, in turns.
    #[inline(always)]
    pub(super) fn go_on_with_accesses(&mut self) {
        if !self.accesses.is_none_ready() {
            self.go_on_with_some();
        }
    }

    #[inline(never)]
    fn go_on_with_some(&mut self) {
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
                Step::NoMore => {}
                Step::Blocked => {
                    self.accesses.ready.push_front(id);
                    break;
                }
            }
        }
        self.accesses.had_turn(has_posted);
    }

    /// Handles the end of a piece of an access.
    pub(super) fn piece_ended(
        &mut self,
        at: u32,
        piece: AccessPiece,
        result: Result<(), Errno>,
        sink: &mut impl Sink,
    ) {
        let Some(access) = self.accesses.get_mut(piece.access) else {
            return;
        };
        access.pending -= 1;
        match result {
            Ok(()) if piece.is_buffered && access.tell.is_read() && access.failure.is_none() => {
                let into = access.body.slice(piece.offset, piece.len);
                self.tx.copy_out(at, &into);
            }
            Ok(()) => {}
            Err(errno) => {
                access.failure.get_or_insert(errno);
            }
        }
        self.end_access(piece.access, sink);
        // Its last piece, with completion data, may have waited for this one.
        let waits = |access: &mut Access| access.pending == 0 && access.data.is_some();
        if self.accesses.get_mut(piece.access).is_some_and(waits)
            && !self.accesses.ready.contains(&piece.access)
        {
            self.wait_for_more(piece.access);
        }
    }

    /// Notes that the device has not carried out an access with a peer; returns why. A status that is not about the access ends the peer.
    pub(super) fn not_carried_out(&mut self, peer: PeerId, code: u32) -> Errno {
        let error = status::error(code, false);
        if !OF_ACCESS.contains(&error.code) {
            let address = self.peers.directory().address(peer);
            let reason = status::explain(error.code, address.as_ref());
            self.doom(peer, error.errno, reason);
        }
        error.errno
    }

    /// Tells the engine of an access that is over.
    pub(super) fn end_access(&mut self, id: u32, sink: &mut impl Sink) {
        let Some(over) = self.accesses.take_over(id) else {
            return;
        };
        // The memory is the application's again when it is told.
        drop(over.memory);
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
        !self.device_has_of(peer)
    }

    /// Returns whether the device has something of a peer that reads or writes memory of the application.
    pub(super) fn device_has_of(&self, peer: PeerId) -> bool {
        self.accesses.any_with(peer) || self.parts.any_with(peer) || self.tx.has_access_with(peer)
    }
}

/// Returns what memory of this end has to be registered for.
const fn local_rights(is_read: bool) -> Rights {
    match is_read {
        true => Rights::LOCAL_WRITE,
        false => Rights(0),
    }
}
