//! One peer's part of the data path: frames into cells and back, docs/protocol/shm.md "Frames".
//!
//! The sender copies a body into the lane, and the receiver lends it to the sink in place, so the sink must be done with it
//! when it returns. Words from the lane are read once and checked; a peer that breaks the protocol loses its connection.

mod direct;
mod ending;
mod rts;

use std::sync::Arc;

use oxifabric_engine::{
    Body, Frame, Header, HeaderFlags, Kind, Limits, OneSided, Placement, PostError, RemoteIov,
    Sink, Target,
};
use oxifabric_mem::{Iov, IovSegment};
use oxifabric_sync::spsc::{Cell as LaneCell, Layout};
use oxifabric_types::{Errno, Instant, PeerId};
use oxifabric_wire::shm::cell::{
    self, Cell, INLINE, INLINE_ACCESS, MAX_PIECES, MAX_TARGETS, PIECE, Rest, TARGET,
};

use crate::direct::{DirectAccess, GRANT, SHORTEST};
use crate::doorbell::Doorbell;
use crate::params::{INJECT_SIZE, LISTS, Params};
use crate::pull::{self, CmaQueue, SenderCopy};
use crate::region::Side;
use crate::rndv_threshold::{Path, RndvThreshold};
use crate::sys::identity::Identity;
use crate::sys::memory::{Mapping, Rx, Tx};
use crate::sys::socket::Socket;
use crate::wire_kind;

/// Arrivals of one peer that one poll delivers at most, so that other peers are served too.
const BURST: usize = 32;

/// Longest message, in bytes, that is copied in one piece, and longest that does not wait for its receive, where no
/// memory can be pulled: a rendezvous would only be a round trip more.
const COPIED: (usize, usize) = (16 * 1024, 32 * 1024);

/// An open connection.
#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) peer: PeerId,
    pub(crate) rx: Rx,
    /// Sum of the cells gone either way at the last rebalance; `None` if the connection has become active since.
    pub(crate) cells_seen: Option<u64>,
    /// Whether the sink has no room for the next arrival.
    pub(crate) stalled: bool,
    /// Length of the ring body of a frame that was refused because the lane was full.
    pub(crate) blocked: Option<usize>,
    /// Why the connection ends, once the lane is empty.
    pub(crate) ending: Option<Errno>,
    /// Number of cells taken when the connection began to end.
    pub(crate) ended_at: u64,
    /// Position in the order in which connections began to end.
    pub(crate) departure: u64,
    /// Whether the stalled message of an ending connection will never be complete; `None` before this side has checked.
    pub(crate) cut_short: Option<bool>,
    /// When this side stops waiting for the peer, which may be copying into buffers of pulls that end.
    pub(crate) settled_by: Option<Instant>,
    /// Whether the lane's contents cannot be trusted.
    pub(crate) broken: bool,
    pub(crate) tx: Tx,
    pub(crate) bell: Doorbell,
    /// Whether each side can read the other's memory.
    pub(crate) pull: bool,
    /// The process at the other end.
    pub(crate) process: Identity,
    /// Socket of the handshake, which carries the doorbell; `None` once the connection ends.
    pub(crate) socket: Option<Socket>,
    /// Index of its entry in the connection table.
    pub(crate) entry: usize,
    pub(crate) incarnation: u64,
    /// Where that number is in the other process.
    pub(crate) probe: u64,
    pub(crate) cma: CmaQueue,
    /// Which memory each side may access by itself.
    pub(crate) direct: DirectAccess,
}

/// Returns the limits that a connection can be expected to have, before there is one.
pub(crate) fn expected_limits(params: &Params) -> Limits {
    limits(params, params.layout(), !params.disable_cma)
}

/// Returns the rendezvous threshold of a new connection: a parameter fixes it, or measurements adjust it.
pub(crate) fn threshold(
    params: &Params,
    layout: Layout,
    head: &Arc<Mapping>,
    side: Side,
) -> RndvThreshold {
    let head = Arc::clone(head);
    match params.segmented_size {
        0 => {
            let eager = limits(params, layout, true).eager;
            RndvThreshold::measured(head, side, eager, layout.bytes())
        }
        fixed => RndvThreshold::fixed(head, side, fixed),
    }
}

/// Returns the longest message that goes in one frame, whatever else the frame lists: a quarter of the ring. The receiver copies the segments of a longer
/// one while the sender writes the next ones.
pub(crate) const fn longest_eager(layout: Layout) -> usize {
    layout.bytes() / 4 - LISTS
}

/// Returns the limits of a connection with such lanes.
pub(crate) fn limits(params: &Params, layout: Layout, pull: bool) -> Limits {
    let longest = longest_eager(layout);
    let (copied, sent) = if pull { (0, 0) } else { COPIED };
    let eager = params.eager_size.max(copied).clamp(INJECT_SIZE, longest);
    Limits {
        eager,
        segmented: params.segmented_size.max(sent).max(eager),
        segmented_rma: true,
        segment: params.segment_size.clamp(INJECT_SIZE, longest),
        rndv_msg: true,
        rndv_tagged: true,
        rndv_rma: true,
        pull,
        ack_on_arrival: false,
        one_sided: OneSided::empty(),
    }
}

impl Conn {
    /// Puts a frame into the lane; returns whether it is held back. A short message or write is put there by code
    /// inlined into the caller; any other frame is handed on as a copy, so that its fields can stay in registers.
    #[inline(always)]
    pub(crate) fn post(&mut self, frame: &Frame<'_>) -> Result<bool, PostError> {
        if let [target] = frame.targets
            && is_for_whole(frame, target)
        {
            return if (1..=INLINE_ACCESS).contains(&frame.len) {
                self.post_short_write(frame, target)
            } else {
                let (frame, target) = (*frame, *target);
                self.post_one_target(&frame, &target)
            };
        }
        let is_inline = (1..=INLINE).contains(&frame.len) && frame.len as u64 == frame.header.len;
        if !is_inline || !frame.targets.is_empty() || is_rts(frame.header.kind) {
            let frame = *frame;
            return self.post_other(&frame);
        }
        let mut bytes = [0; INLINE];
        frame.body.read(frame.offset, &mut bytes[..frame.len]);
        let len = frame.len as u8;
        let words = cell::inline_words(&bytes);
        let body = cell::Body::Inline { words, len };
        self.put(&frame.header, body, 0, frame.may_wait())
    }

    #[inline(never)]
    fn post_other(&mut self, frame: &Frame<'_>) -> Result<bool, PostError> {
        if !frame.targets.is_empty() {
            return self.post_access(frame);
        }
        let cell = self.tx.pushed();
        let held = self.post_untargeted(frame)?;
        if may_be_overtaken(frame.header.kind) {
            self.direct.order.note_unordered(cell);
        }
        Ok(held)
    }

    fn post_untargeted(&mut self, frame: &Frame<'_>) -> Result<bool, PostError> {
        let header = &frame.header;
        if is_rts(header.kind) {
            return self.post_rts(frame);
        }
        if frame.len == 0 {
            return self.put(header, cell::Body::Bare, 0, frame.may_wait());
        }
        let start = self.reserve(frame.len)?;
        let body = self.tx.body_mut(start, frame.len);
        frame.body.read(frame.offset, body);
        let len = frame.len as u32;
        // Long bodies are worth being seen at once: the receiver copies one while the next one is written.
        self.emit(header, cell::Body::Ring { len }, frame.len, false);
        Ok(false)
    }

    /// Posts an Rts with the addresses of its message, if the peer can use them.
    #[cold]
    fn post_rts(&mut self, frame: &Frame<'_>) -> Result<bool, PostError> {
        let header = &frame.header;
        let segments = frame.body.segments();
        if !self.pull || segments.len() > MAX_PIECES {
            return self.put(header, cell::Body::Bare, 0, frame.may_wait());
        }
        if let [only] = segments {
            let (address, len) = (only.base() as u64, only.len() as u64);
            let body = cell::Body::Remote { address, len };
            let held = self.put(header, body, 0, frame.may_wait())?;
            self.cma.expose(header.id, address, len);
            return Ok(held);
        }
        let len = segments.len() * PIECE;
        let start = self.reserve(len)?;
        list_pieces(self.tx.body_mut(start, len), segments);
        let count = segments.len() as u8;
        self.emit(header, cell::Body::RemoteRing { count }, len, false);
        Ok(false)
    }

    /// Posts a write that fits its cell.
    #[inline(always)]
    fn post_short_write(&mut self, frame: &Frame<'_>, target: &Target) -> Result<bool, PostError> {
        let mut bytes = [0; INLINE_ACCESS];
        frame.body.read(frame.offset, &mut bytes[..frame.len]);
        let body = cell::Body::Access {
            key: target.key,
            words: cell::access_words(&bytes),
            len: frame.len as u8,
        };
        let header = Header {
            tag: target.addr,
            ..frame.header
        };
        self.put(&header, body, 0, frame.may_wait())
    }

    /// Posts a read, or a write whose body goes into the byte ring, of one piece of the peer's memory.
    #[inline(never)]
    fn post_one_target(&mut self, frame: &Frame<'_>, target: &Target) -> Result<bool, PostError> {
        let start = self.reserve(frame.len)?;
        let room = self.tx.body_mut(start, frame.len);
        frame.body.read(frame.offset, room);
        let header = Header {
            tag: target.addr,
            ..frame.header
        };
        let body = cell::Body::OneTarget {
            key: target.key,
            ring_len: frame.len as u32,
        };
        if header.kind == Kind::Read && header.len >= SHORTEST {
            self.direct.note_posted(self.tx.pushed(), header.id);
        }
        self.emit(&header, body, frame.len, false);
        Ok(false)
    }

    /// Posts a frame about the peer's memory: a list of its targets precedes the body.
    #[inline(never)]
    fn post_access(&mut self, frame: &Frame<'_>) -> Result<bool, PostError> {
        let segments = frame.body.segments();
        let rts = is_rts(frame.header.kind);
        let (rest, rest_len) = match segments.len() {
            count if rts && self.pull && count <= MAX_PIECES => (Rest::Pieces, count * PIECE),
            _ if rts || frame.len == 0 => (Rest::Nothing, 0),
            _ => (Rest::Body, frame.len),
        };
        if frame.targets.len() > MAX_TARGETS {
            return Err(PostError::Down(Errno::INVAL));
        }
        let list_len = frame.targets.len() * TARGET;
        let len = list_len + rest_len;
        let start = self.reserve(len)?;
        let (list, room) = self.tx.body_mut(start, len).split_at_mut(list_len);
        for (to, target) in list.as_chunks_mut().0.iter_mut().zip(frame.targets) {
            *to = cell::emit_target(target.addr, target.len, target.key);
        }
        match rest {
            Rest::Nothing => {}
            Rest::Body => drop(frame.body.read(frame.offset, room)),
            Rest::Pieces => list_pieces(room, segments),
        }
        if let (Rest::Pieces, [only]) = (rest, segments) {
            let (address, len) = (only.base() as u64, only.len() as u64);
            self.cma.expose(frame.header.id, address, len);
        }
        let body = cell::Body::Targeted {
            ring_len: len as u32,
            targets: frame.targets.len() as u8,
            rest,
        };
        if rts {
            self.direct.note_posted(self.tx.pushed(), frame.header.id);
        }
        self.emit(&frame.header, body, len, false);
        Ok(false)
    }

    #[inline(always)]
    fn put(
        &mut self,
        header: &Header,
        body: cell::Body,
        ring_len: usize,
        hold: bool,
    ) -> Result<bool, PostError> {
        self.reserve(ring_len)?;
        self.emit(header, body, ring_len, hold);
        Ok(hold)
    }

    /// Reserves space in the lane, or remembers how much a refused frame needs.
    #[inline(always)]
    fn reserve(&mut self, len: usize) -> Result<usize, PostError> {
        if self.ending.is_none() {
            match self.tx.reserve(len) {
                Ok(Some(start)) => return Ok(start),
                Ok(None) => {}
                Err(_) => self.fail(Errno::PROTO),
            }
        }
        // What was held back is visible now: a sleeping peer must be woken to take it.
        self.ring();
        self.blocked = Some(len);
        Err(PostError::Again)
    }

    #[inline(always)]
    fn emit(&mut self, header: &Header, body: cell::Body, ring_len: usize, hold: bool) {
        let cell = Cell {
            kind: wire_kind::number(header.kind),
            flags: header.flags.bits(),
            id: header.id,
            tag: header.tag,
            data: header.data,
            len: header.len,
            body,
        };
        self.push(&cell, ring_len, hold);
    }

    #[inline(always)]
    fn push(&mut self, cell: &Cell, ring_len: usize, hold: bool) {
        let (meta, words) = cell.emit();
        self.tx.push(&LaneCell { meta, words }, ring_len, hold);
        self.tx.expect_more();
        if !hold {
            self.ring();
        }
    }

    /// Pulls a message at once, if its sender would not copy a part of it, and runs. Returns whether the message is complete; if not, it is
    /// left to the next poll.
    pub(crate) fn pull_now(&mut self, remote: &RemoteIov, into: &Iov) -> bool {
        let is_alone = self.cma.came_alone() && self.rx.peek().is_none();
        self.ending.is_none()
            && self.process.ran_just_now()
            && (self.cma).copy_now(self.process.pid(), remote, into, is_alone)
    }

    /// Asks the sender of the next long messages to copy a part of them, as long as the lane has space for requests.
    pub(crate) fn request_sender_copies(&mut self) {
        while self.ending.is_none()
            && let Some(at) = self.cma.next_to_share()
            && self.has_cell()
            && let Some(cell) = self.cma.request(at)
        {
            self.push_unordered(&cell);
        }
    }

    /// Returns the longest message that goes in one frame.
    pub(crate) const fn longest_eager(&self) -> usize {
        longest_eager(self.tx.layout())
    }

    /// Returns whether the lane has a cell left.
    fn has_cell(&mut self) -> bool {
        let is_left = matches!(self.tx.reserve(0), Ok(Some(_)));
        if !is_left {
            // What was held back is visible now: a sleeping peer must be woken to take it.
            self.ring();
        }
        is_left
    }

    /// Pushes a cell that accesses may overtake.
    #[inline]
    fn push_unordered(&mut self, cell: &Cell) {
        self.direct.order.note_unordered(self.tx.pushed());
        self.push(cell, 0, false);
    }

    /// Publishes the cells that were held back.
    pub(crate) fn flush(&mut self) {
        if self.tx.publish() {
            self.ring();
        }
    }

    /// Wakes the peer if it sleeps. A full socket means that it has been woken; a broken one is seen elsewhere.
    #[inline(always)]
    fn ring(&self) {
        if self.bell.must_ring() {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        if let Some(socket) = &self.socket {
            let _ = socket.send(&[0], None);
        }
    }

    /// Ends the connection without looking at the lane again.
    pub(crate) fn fail(&mut self, why: Errno) {
        self.broken = true;
        self.ending = Some(why);
    }

    /// Delivers what has arrived; returns how many events there were.
    #[inline]
    pub(crate) fn poll(&mut self, sink: &mut impl Sink) -> usize {
        let mut events = 0;
        self.cma.begin_poll();
        while events < BURST && !self.stalled && !self.broken {
            let Some(arrived) = self.rx.peek() else {
                if self.direct.awaits_position || events > 0 && self.direct.has_granted() {
                    self.publish_position();
                }
                break;
            };
            events += 1;
            match self.deliver(&arrived, sink) {
                Ok(Some(ring_len)) => {
                    if self.rx.advance(ring_len) {
                        self.ring();
                    }
                }
                Ok(None) => {
                    self.stalled = true;
                    return events - 1;
                }
                Err(why) => self.fail(why),
            }
        }
        if events == BURST {
            self.direct.awaits_position = self.direct.has_granted();
        }
        if let Some(len) = self.blocked
            && !self.tx.is_stuck(len)
        {
            events += self.unblock(len, sink);
        }
        events
    }

    /// Tells the peer that everything was taken: it may carry out its next access by itself. A peer that sleeps has no use for that, and one that waits for room is woken
    /// when a quarter is free.
    #[cold]
    fn publish_position(&mut self) {
        self.direct.awaits_position = false;
        self.rx.publish();
    }

    /// Returns whether a cell has gone either way since the last rebalance.
    pub(crate) fn was_used(&mut self) -> bool {
        let cells = self.tx.pushed().wrapping_add(self.rx.taken());
        self.cells_seen.replace(cells) != Some(cells)
    }

    /// Returns whether this side has nothing to do before the other side publishes a cell.
    pub(crate) fn is_quiet(&self) -> bool {
        !self.stalled && self.blocked.is_none() && self.ending.is_none() && self.cma.is_idle()
    }

    /// Returns whether an ending connection has nothing left to deliver.
    #[inline]
    pub(crate) fn is_over(&mut self) -> bool {
        self.ending.is_some() && self.is_drained()
    }

    #[cold]
    fn unblock(&mut self, len: usize, sink: &mut impl Sink) -> usize {
        if self.ending.is_some() {
            return 0;
        }
        match self.tx.reserve(len) {
            Ok(None) => return 0,
            Err(_) => self.fail(Errno::PROTO),
            Ok(Some(_)) => {
                self.blocked = None;
                sink.writable(self.peer);
            }
        }
        1
    }

    /// Delivers one arrival to the sink; returns the length of its ring body, or `None` if it has to wait.
    #[inline(always)]
    fn deliver(
        &mut self,
        arrived: &LaneCell,
        sink: &mut impl Sink,
    ) -> Result<Option<usize>, Errno> {
        if !cell::is_inline(arrived.meta) {
            let arrived = *arrived;
            return match arrived.meta {
                meta if cell::is_ring(meta) => self.deliver_ring(&arrived, sink),
                meta if cell::is_one_target(meta) => self.deliver_one_target(&arrived, sink),
                meta if cell::is_access(meta) => self.deliver_short_write(&arrived, sink),
                _ => self.deliver_other(&arrived, sink),
            };
        }
        let cell = Cell::parse_inline(arrived.meta, &arrived.words).map_err(|_| Errno::PROTO)?;
        let header = header_of(&cell).ok_or(Errno::PROTO)?;
        let cell::Body::Inline { words, len } = cell.body else {
            return Err(Errno::PROTO);
        };
        let bytes = cell::inline_bytes(words);
        let whole = &bytes[..usize::from(len).min(INLINE)];
        let placement = sink.arrival(self.peer, &header, Body::Whole(whole));
        place(placement, whole, 0, sink)
    }

    /// Delivers an arrival whose cell does not hold a whole message.
    #[inline(never)]
    fn deliver_other(
        &mut self,
        arrived: &LaneCell,
        sink: &mut impl Sink,
    ) -> Result<Option<usize>, Errno> {
        let cell = Cell::parse(arrived.meta, &arrived.words).map_err(|_| Errno::PROTO)?;
        if let cell::Body::Link { words } = cell.body {
            return self.accept_link(&cell, words).map(|()| Some(0));
        }
        let header = header_of(&cell).ok_or(Errno::PROTO)?;
        if let cell::Body::Targeted {
            ring_len,
            targets,
            rest,
        } = cell.body
        {
            return self.deliver_access(&header, ring_len as usize, targets, rest, sink);
        }
        if let (Kind::MsgRts | Kind::TaggedRts, cell::Body::Remote { address, len }) =
            (header.kind, &cell.body)
        {
            let piece = Target::unkeyed(*address, *len);
            let placement = self.deliver_rts(&header, piece, sink);
            return place(placement, &[], 0, sink);
        }
        if header.kind == Kind::ResponseRts {
            self.direct.order.answered(header.tag as u32);
        }
        let (ring_len, start) = match cell.body {
            cell::Body::RemoteRing { count } => self.locate(usize::from(count) * PIECE)?,
            cell::Body::Bare => {
                if matches!(header.kind, Kind::Fin | Kind::Cts) {
                    self.cma.answered(header.id);
                    self.direct.order.answered(header.id);
                }
                (0, 0)
            }
            _ => (0, 0),
        };
        let ring = self.rx.body(start, ring_len);
        let body = match &cell.body {
            cell::Body::Remote { address, len } => self.remote(&[Target::unkeyed(*address, *len)]),
            cell::Body::RemoteRing { .. } => self.remote_listed(ring),
            _ => Body::Whole(&[]),
        };
        let placement = sink.arrival(self.peer, &header, body);
        place(placement, &[], ring_len, sink)
    }

    /// Delivers an arrival whose body is in the byte ring.
    #[inline(never)]
    fn deliver_ring(
        &mut self,
        arrived: &LaneCell,
        sink: &mut impl Sink,
    ) -> Result<Option<usize>, Errno> {
        let (cell, len) = Cell::parse_ring(arrived.meta, &arrived.words);
        let header = header_of(&cell).ok_or(Errno::PROTO)?;
        if header.kind == Kind::Response {
            self.direct.order.answered(header.tag as u32);
        }
        let (_, start) = self.locate(len)?;
        let whole = self.rx.body(start, len);
        let placement = sink.arrival(self.peer, &header, Body::Whole(whole));
        let placed = place(placement, whole, len, sink);
        if let Ok(Some(_)) = &placed {
            self.cma.threshold.note(header.len, len, Path::Ring);
        }
        placed
    }

    /// Delivers a write that fits its cell.
    #[inline(never)]
    fn deliver_short_write(
        &mut self,
        arrived: &LaneCell,
        sink: &mut impl Sink,
    ) -> Result<Option<usize>, Errno> {
        let cell = Cell::parse_access(arrived.meta, &arrived.words).map_err(|_| Errno::PROTO)?;
        let header = header_of(&cell).ok_or(Errno::PROTO)?;
        let cell::Body::Access { key, words, len } = cell.body else {
            return Err(Errno::PROTO);
        };
        if header.kind != Kind::Write || len == 0 {
            return Err(Errno::PROTO);
        }
        let target = Target {
            addr: header.tag,
            len: u64::from(len),
            key,
        };
        let bytes = cell::access_bytes(words);
        let whole = &bytes[..usize::from(len).min(INLINE_ACCESS)];
        let header = Header { tag: 0, ..header };
        let placement = sink.access(self.peer, &header, &[target], Body::Whole(whole));
        place(placement, whole, 0, sink)
    }

    /// Delivers a read or write of one piece of memory.
    #[inline(never)]
    fn deliver_one_target(
        &mut self,
        arrived: &LaneCell,
        sink: &mut impl Sink,
    ) -> Result<Option<usize>, Errno> {
        let (cell, key, ring_len) = Cell::parse_one_target(arrived.meta, &arrived.words);
        let header = header_of(&cell).ok_or(Errno::PROTO)?;
        if !matches!(header.kind, Kind::Write | Kind::Read) {
            return Err(Errno::PROTO);
        }
        if header.kind == Kind::Read && header.len >= SHORTEST {
            self.grant(header.len, key, sink);
        }
        let (_, start) = self.locate(ring_len)?;
        let whole = self.rx.body(start, ring_len);
        let target = Target {
            addr: header.tag,
            len: header.len,
            key,
        };
        let header = Header { tag: 0, ..header };
        let placement = sink.access(self.peer, &header, &[target], Body::Whole(whole));
        place(placement, whole, ring_len, sink)
    }

    /// Delivers a frame about this endpoint's memory.
    #[inline(never)]
    fn deliver_access(
        &mut self,
        header: &Header,
        ring_len: usize,
        count: u8,
        rest: Rest,
        sink: &mut impl Sink,
    ) -> Result<Option<usize>, Errno> {
        let (_, start) = self.locate(ring_len)?;
        let ring = self.rx.body(start, ring_len);
        let list_len = (usize::from(count) * TARGET).min(ring.len());
        let list = &ring[..list_len];
        let mut targets = [Target::default(); MAX_TARGETS];
        for (target, bytes) in targets.iter_mut().zip(list.as_chunks().0) {
            let (addr, len, key) = cell::parse_target(bytes);
            *target = Target { addr, len, key };
        }
        let named = &targets[..usize::from(count).min(MAX_TARGETS)];
        let mut is_granted = false;
        if let (Kind::WriteRts, [target]) = (header.kind, named) {
            is_granted = self.grant(header.len, target.key, sink);
        }
        let bytes = &self.rx.body(start, ring_len)[list_len..];
        let body = match rest {
            Rest::Nothing => Body::Whole(&[]),
            Rest::Body => Body::Whole(bytes),
            // Such a write is announced so that a refusal can be answered; where the ring is faster, it is asked for, not pulled. Of granted memory the
            // peer carries out the next ones by itself.
            Rest::Pieces if !is_granted && self.cma.threshold.is_copied(header.len) => {
                Body::Whole(&[])
            }
            Rest::Pieces => self.remote_listed(bytes),
        };
        let whole = whole_of(&body);
        let placement = sink.access(self.peer, header, named, body);
        place(placement, whole, ring_len, sink)
    }

    fn locate(&self, len: usize) -> Result<(usize, usize), Errno> {
        let start = self.rx.locate(len).map_err(|_| Errno::PROTO)?;
        Ok((len, start))
    }

    /// Returns the sender's memory as the body, or an empty body where it cannot be read: the sink then asks for the
    /// data.
    fn remote(&self, pieces: &[Target]) -> Body<'static> {
        match RemoteIov::new(pieces) {
            Some(remote) if self.pull => Body::Remote(remote),
            _ => Body::Whole(&[]),
        }
    }

    #[cold]
    fn remote_listed(&self, ring: &[u8]) -> Body<'static> {
        let mut pieces = [Target::default(); MAX_PIECES];
        let listed = ring.as_chunks::<PIECE>().0;
        for (piece, bytes) in pieces.iter_mut().zip(listed) {
            let (addr, len) = cell::parse_piece(bytes);
            *piece = Target::unkeyed(addr, len);
        }
        self.remote(&pieces[..listed.len().min(MAX_PIECES)])
    }

    #[cold]
    fn accept_link(&mut self, cell: &Cell, words: [u64; 2]) -> Result<(), Errno> {
        match cell.kind {
            pull::SENDER_COPY if self.pull => {
                let copy = SenderCopy::asked(cell, words).ok_or(Errno::PROTO)?;
                self.cma.add_request(copy);
                Ok(())
            }
            GRANT if self.pull => {
                let pushed = self.tx.pushed();
                let taken = self.direct.take_grant(cell, words, pushed);
                taken.ok_or(Errno::PROTO)
            }
            _ => Err(Errno::PROTO),
        }
    }
}

/// Carries out the sink's placement of a body that is here; returns its length in the ring, or `None` if it has to
/// wait.
#[inline(always)]
fn place(
    placement: Placement,
    whole: &[u8],
    ring_len: usize,
    sink: &mut impl Sink,
) -> Result<Option<usize>, Errno> {
    match placement {
        Placement::Done | Placement::Discard => Ok(Some(ring_len)),
        Placement::Into(iov, token) => {
            iov.write(0, whole);
            sink.placed(token, Ok(()));
            Ok(Some(ring_len))
        }
        Placement::Stall => Ok(None),
        Placement::Refuse => Err(Errno::PROTO),
    }
}

#[inline]
fn whole_of<'a>(body: &Body<'a>) -> &'a [u8] {
    match body {
        Body::Whole(bytes) => bytes,
        _ => &[],
    }
}

/// Returns whether a frame is a whole read or write of one piece of memory, which need not be listed then.
#[inline(always)]
fn is_for_whole(frame: &Frame<'_>, target: &Target) -> bool {
    let header = &frame.header;
    let sent = match header.kind {
        Kind::Write => header.len,
        Kind::Read => 0,
        _ => return false,
    };
    (frame.len as u64, header.tag, target.len) == (sent, 0, header.len)
}

const fn is_rts(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::MsgRts | Kind::TaggedRts | Kind::WriteRts | Kind::ResponseRts | Kind::CollectiveRts
    )
}

/// Returns whether later accesses of this side may overtake a frame: it answers one of the peer. Messages come first, and so do segments, which
/// may belong to a message or to a write that its initiator takes to be over.
const fn may_be_overtaken(kind: Kind) -> bool {
    use Kind::{Ack, Cts, Fin, Response, ResponseRts};
    matches!(kind, Ack | Cts | Fin | Response | ResponseRts)
}

fn list_pieces(ring: &mut [u8], segments: &[IovSegment]) {
    for (to, from) in ring.as_chunks_mut().0.iter_mut().zip(segments) {
        *to = cell::emit_piece(from.base() as u64, from.len() as u64);
    }
}

fn header_of(cell: &Cell) -> Option<Header> {
    let kind = wire_kind::kind(cell.kind)?;
    Some(Header {
        kind,
        flags: HeaderFlags::from_bits(cell.flags)?,
        id: cell.id,
        tag: cell.tag,
        data: cell.data,
        len: cell.len,
    })
}

#[cfg(test)]
mod tests {
    use oxifabric_wire::shm::kind;

    use super::*;

    #[test]
    fn unknown_kinds_and_flags_are_refused() {
        let cell = |kind| Cell {
            kind,
            flags: 7,
            id: 1,
            tag: 2,
            data: 3,
            len: 4,
            body: cell::Body::Bare,
        };
        let header = header_of(&cell(kind::FIN));
        assert_eq!(header.map(|header| header.kind), Some(Kind::Fin));
        assert!(header_of(&cell(kind::COLLECTIVE_RTS + 1)).is_none());
        let unknown_flag = Cell {
            flags: 8,
            ..cell(kind::MSG)
        };
        assert!(header_of(&unknown_flag).is_none());
    }

    #[test]
    fn limits_keep_the_promise_of_inject_and_fit_the_lane() {
        let params = Params {
            eager_size: 1,
            segment_size: usize::MAX,
            ..Params::of_environment().clone()
        };
        let layout = Layout::new(16, 1 << 16).expect("powers of two");
        let with_pulls = limits(&params, layout, true);
        assert_eq!(with_pulls.eager, INJECT_SIZE);
        assert_eq!(with_pulls.segment, longest_eager(layout));
        let without = limits(&params, layout, false);
        assert_eq!(without.eager, longest_eager(layout));
        assert_eq!(without.segmented, COPIED.1);
    }
}
