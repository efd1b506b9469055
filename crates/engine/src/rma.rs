//! Remote memory access: data whose target is known beforehand, fi_rma(3).
//!
//! A write is a message whose target a key names, instead of a posted receive; a read asks the peer for a message that the read's id
//! matches. Everything else, from segments to rendezvous, is shared with messages.
//!
//! The hot path is [`Engine::write_now`] at the initiator, and [`Engine::write_whole`] at the target: a write that
//! fits one frame touches no table on either side.

use alloc::boxed::Box;

use oxifabric_types::{Errno, Flags, PeerId};

use crate::engine::Engine;
use crate::matching::{Arrival, Class};
use crate::message::{MatchState, Message, RxData};
use crate::peer::{Peers, Reply};
use crate::rndv::covers;
use crate::rx_placement::{RxPlacement, received};
use crate::slab::Key;
use crate::transmit::{self, ONLY_BY_FRAMES, Transmit, first_key, several};
use crate::tx::Sent;
use crate::{
    Body, Completion, Completions, Failure, Frame, Header, HeaderFlags, Kind, Limits, Link,
    OneSided, Placement, PostError, Posted, RemoteWrite, RmaOp, Target, TxToken,
};

impl Engine {
    /// Starts a read or a write, fi_rma(3).
    ///
    /// Operations to one peer begin there in the order of these calls and those of [`Engine::send`]. A read
    /// completes when the data is here, a write as a send does.
    ///
    /// # Errors
    /// As [`Engine::send`]. What the peer refuses is reported as a [`crate::Failure`].
    #[inline]
    pub fn rma<L: Link>(
        &mut self,
        link: &mut L,
        out: &mut impl Completions,
        op: RmaOp<'_>,
    ) -> Result<(), Errno> {
        if !Peers::is_valid(op.peer) {
            return Err(Errno::INVAL);
        }
        if self.is_busy() {
            return Err(Errno::AGAIN);
        }
        if op.peer == self.me {
            self.check_own_fence(op.flags)?;
            rma_with_self(out, &op);
            return Ok(());
        }
        let key = self.sends.vacant().ok_or(Errno::AGAIN)?;
        if L::CARRIES_OUT && op.flags.contains(Flags::READ) && reads_by_itself(link.limits(op.peer))
        {
            return self.read_by_link(link, out, op, key);
        }
        let is_short = is_one_frame(link, &op)
            && !op.flags.intersects(Flags::READ | Flags::FENCE)
            && self.peers.is_clear(op.peer);
        let sent = match is_short {
            true => self.write_now(link, out, &op, key),
            false => Sent::Blocked,
        };
        match sent {
            Sent::Over => {
                self.resume_stalled(link);
                Ok(())
            }
            Sent::Posted(posted) if L::CARRIES_OUT => {
                self.keep_posted(link, op, key, posted);
                self.resume_stalled(link);
                Ok(())
            }
            Sent::Blocked if L::CARRIES_OUT && !is_short => self.long_access(link, out, op, key),
            sent => self.after_write(link, out, op, key, sent, is_short),
        }
    }

    /// Hands the link a write that fits one frame, to a peer for which nothing waits; returns what is to be done if that did not end it.
    #[inline(always)]
    fn write_now(
        &mut self,
        link: &mut impl Link,
        out: &mut impl Completions,
        op: &RmaOp<'_>,
        key: Key,
    ) -> Sent {
        let mut unacked = transmit::wants_ack(op.flags);
        let mut header = transmit::frames::write_header(op);
        if unacked {
            unacked = !link.limits(op.peer).carries_out(&header);
            header.id = key.raw();
        }
        let frame = Frame {
            targets: op.targets,
            transient: op.flags.contains(Flags::INJECT),
            more: op.flags.contains(Flags::MORE),
            ..Frame::whole(header, &op.body)
        };
        match link.post(op.peer, frame, TxToken(key.raw())) {
            Ok(Posted::Done) if !unacked => {
                let (buf, len) = (op.body.base() as usize, op.body.len() as u64);
                out.complete(transmit::completion(op.flags, op.context, buf, len));
                Sent::Over
            }
            Ok(posted) => Sent::Posted(posted),
            Err(PostError::Again) => Sent::Blocked,
            Err(PostError::Down(errno)) => Sent::Failed(errno),
        }
    }

    /// Begins an access that is not one frame, or is to wait.
    #[inline(always)]
    fn long_access(
        &mut self,
        link: &mut impl Link,
        out: &mut impl Completions,
        op: RmaOp<'_>,
        key: Key,
    ) -> Result<(), Errno> {
        if self.access_now(link, out, &op) {
            return Ok(());
        }
        match self.announce_write(link, out, op, key) {
            Ok(()) => {
                self.resume_stalled(link);
                Ok(())
            }
            Err(op) => self.go_on_with_write(link, out, op, key, Sent::Blocked, false),
        }
    }

    /// Has the link carry out a read, or a write longer than one frame, at once, where it can and nothing waits for the peer; returns whether it did.
    fn access_now(
        &mut self,
        link: &mut impl Link,
        out: &mut impl Completions,
        op: &RmaOp<'_>,
    ) -> bool {
        if op.flags.intersects(ONLY_BY_FRAMES)
            || !self.peers.is_clear(op.peer)
            || !link.carry_out(op)
        {
            return false;
        }
        let (buf, len) = (op.body.base() as usize, op.body.len() as u64);
        out.complete(transmit::completion(op.flags, op.context, buf, len));
        true
    }

    /// Hands the link a read that it carries out by itself, with a peer for which nothing waits; returns what it says, `None` where that is not so.
    #[inline(always)]
    fn read_now(
        &mut self,
        link: &mut impl Link,
        op: &RmaOp<'_>,
        key: Key,
    ) -> Option<Result<Posted, PostError>> {
        let header = Header {
            kind: Kind::Read,
            flags: HeaderFlags::empty(),
            id: key.raw(),
            tag: 0,
            data: 0,
            len: op.body.len() as u64,
        };
        if !link.limits(op.peer).carries_out(&header)
            || op.flags.contains(Flags::FENCE)
            || !self.peers.is_clear(op.peer)
        {
            return None;
        }
        let frame = Frame {
            targets: op.targets,
            more: op.flags.contains(Flags::MORE),
            len: 0,
            ..Frame::whole(header, &op.body)
        };
        Some(link.post(op.peer, frame, TxToken(key.raw())))
    }

    /// Goes on with an access that the link did not take at once.
    #[inline(never)]
    fn after_write(
        &mut self,
        link: &mut impl Link,
        out: &mut impl Completions,
        op: RmaOp<'_>,
        key: Key,
        sent: Sent,
        was_posted: bool,
    ) -> Result<(), Errno> {
        if !was_posted && self.access_now(link, out, &op) {
            return Ok(());
        }
        self.go_on_with_write(link, out, op, key, sent, was_posted)
    }

    /// Goes on with an access that the link does not carry out at once either.
    ///
    /// # Errors
    /// As [`Engine::start`].
    #[inline]
    fn go_on_with_write(
        &mut self,
        link: &mut impl Link,
        out: &mut impl Completions,
        op: RmaOp<'_>,
        key: Key,
        sent: Sent,
        was_posted: bool,
    ) -> Result<(), Errno> {
        let peer = op.peer;
        if !was_posted && op.flags.contains(Flags::INJECT) && self.peers.refuses_inject(peer) {
            return Err(Errno::AGAIN);
        }
        match sent {
            Sent::Over => {}
            Sent::Posted(posted) => self.keep_posted(link, op, key, posted),
            Sent::Blocked => {
                if was_posted {
                    self.peers.block(peer);
                }
                self.start(link, out, Transmit::rma(op, key), key)?;
            }
            Sent::Failed(errno) => Self::report_failed(out, op, key, errno),
        }
        self.resume_stalled(link);
        Ok(())
    }

    /// Keeps a write of which something is to follow.
    #[inline(always)]
    fn keep_posted(&mut self, link: &impl Link, op: RmaOp<'_>, key: Key, posted: Posted) {
        let mut transmit = Transmit::rma_posted(op, key);
        transmit.note_posted(link.limits(transmit.peer));
        self.remember(transmit, posted);
    }

    /// Has the link carry out a read by itself, unless the read is to wait, or to go another way.
    #[inline(always)]
    fn read_by_link(
        &mut self,
        link: &mut impl Link,
        out: &mut impl Completions,
        op: RmaOp<'_>,
        key: Key,
    ) -> Result<(), Errno> {
        match self.read_now(link, &op, key) {
            Some(Ok(posted)) => {
                let mut transmit = Transmit::rma_posted(op, key);
                transmit.unacked = false;
                self.remember(transmit, posted);
                if posted == Posted::Done {
                    self.check_sent(out, key);
                }
                self.resume_stalled(link);
                Ok(())
            }
            Some(Err(PostError::Again)) => {
                self.after_write(link, out, op, key, Sent::Blocked, true)
            }
            Some(Err(PostError::Down(errno))) => {
                self.after_write(link, out, op, key, Sent::Failed(errno), true)
            }
            None => self.after_write(link, out, op, key, Sent::Blocked, false),
        }
    }

    /// Reports an access that its link could not send.
    fn report_failed(out: &mut impl Completions, op: RmaOp<'_>, key: Key, errno: Errno) {
        let mut transmit = Transmit::rma_posted(op, key);
        transmit.failure = Some(errno);
        transmit.report(out);
    }

    /// Takes a peer's write: its data goes to its targets, if the peer may write them.
    #[inline(always)]
    pub(crate) fn write(
        &mut self,
        out: &mut impl Completions,
        from: PeerId,
        header: &Header,
        targets: &[Target],
        body: Body<'_>,
    ) -> Placement {
        let Some(arrival) = Arrival::new(from, Class::Write, header) else {
            return Placement::Refuse;
        };
        match body {
            Body::Whole(bytes) if bytes.len() == arrival.len && header.kind == Kind::Write => {
                self.write_whole(out, &arrival, targets, bytes)
            }
            body => {
                let is_rts = header.kind == Kind::WriteRts;
                self.write_in_parts(out, &arrival, is_rts, targets, body)
            }
        }
    }

    /// Carries out a write that is here as a whole.
    #[inline(always)]
    fn write_whole(
        &mut self,
        out: &mut impl Completions,
        arrival: &Arrival,
        targets: &[Target],
        bytes: &[u8],
    ) -> Placement {
        if arrival.wants_ack() && !self.peers.can_reply(arrival.from) {
            return self.stall(arrival.from);
        }
        if targets.is_empty() {
            return self.write_nowhere(arrival);
        }
        let region = match Self::region(out, arrival.from, targets, Flags::REMOTE_WRITE) {
            Ok(region) if region.len() == arrival.len => region,
            Ok(_) => return Placement::Refuse,
            Err(errno) => return self.refuse_access(arrival, false, &Body::Whole(bytes), errno),
        };
        region.write(0, bytes);
        if arrival.wants_ack() {
            self.peers.reply(arrival.from, Reply::Ack(arrival.id));
        }
        let buf = region.base() as usize;
        let access = received(
            arrival,
            wanted_flags(arrival),
            first_key(targets),
            buf,
            arrival.len,
        );
        out.accessed(access, targets);
        Placement::Done
    }

    /// Takes a write that names no memory. Any peer can send one, since it takes no key: nothing is reported of it, and its completion data is dropped.
    #[cold]
    fn write_nowhere(&mut self, arrival: &Arrival) -> Placement {
        if arrival.len > 0 {
            return Placement::Refuse;
        }
        if arrival.wants_ack() {
            self.peers.reply(arrival.from, Reply::Ack(arrival.id));
        }
        Placement::Done
    }

    /// Takes a write whose data follows, or is announced by an Rts.
    #[inline(never)]
    pub(crate) fn write_in_parts(
        &mut self,
        out: &mut impl Completions,
        arrival: &Arrival,
        is_rts: bool,
        targets: &[Target],
        body: Body<'_>,
    ) -> Placement {
        let (arrival, from) = (*arrival, arrival.from);
        if targets.is_empty() {
            return Placement::Refuse;
        }
        if self.unexpected.is_full(from) || !self.peers.can_reply(from) {
            return self.stall(from);
        }
        let region = match Self::region(out, from, targets, Flags::REMOTE_WRITE) {
            Ok(region) if region.len() == arrival.len => region,
            Ok(_) => return Placement::Refuse,
            Err(errno) => return self.refuse_access(&arrival, is_rts, &body, errno),
        };
        let placement = RxPlacement::of_write(region, &arrival, targets);
        let match_state = MatchState::Matched(placement);
        self.land_on(out, arrival, match_state, several(targets), body, is_rts)
            .unwrap_or_else(|_| self.stall(from))
    }

    /// Answers a peer that asks for data of this endpoint's memory.
    pub(crate) fn read(
        &mut self,
        out: &mut impl Completions,
        from: PeerId,
        header: &Header,
        targets: &[Target],
    ) -> Placement {
        if targets.is_empty() {
            return Placement::Refuse;
        }
        if !self.can_respond(from) {
            return self.stall(from);
        }
        let region = match Self::region(out, from, targets, Flags::REMOTE_READ) {
            Ok(region) if region.len() as u64 == header.len => region,
            Ok(_) => return Placement::Refuse,
            Err(errno) => {
                if let Some(placement) = self.refusal(from, errno) {
                    return placement;
                }
                self.peers.reply(from, Reply::Fin(header.id, Err(errno)));
                return Placement::Done;
            }
        };
        let id = header.id;
        let respond = |key| Transmit::response(from, id, region, targets, key);
        match self.respond(from, respond) {
            true => Placement::Done,
            false => self.stall(from),
        }
    }

    /// Takes the data that a read asked for, or where it is.
    pub(crate) fn response(
        &mut self,
        out: &mut impl Completions,
        from: PeerId,
        header: &Header,
        body: Body<'_>,
    ) -> Placement {
        let Ok(id) = u32::try_from(header.tag) else {
            return Placement::Refuse;
        };
        let key = Key::from_raw(id);
        let untagged = Header { tag: 0, ..*header };
        let read = self.sends.get(key).filter(|send| send.peer == from);
        let Some(read) = read.filter(|read| read.awaits_response()) else {
            return Placement::Refuse;
        };
        let class = match read.flags.contains(Flags::ATOMIC) {
            true => Class::Fetched,
            false => Class::Response,
        };
        let Some(arrival) = Arrival::new(from, class, &untagged) else {
            return Placement::Refuse;
        };
        let place = read.response_place();
        if place.len() != arrival.len {
            return Placement::Refuse;
        }
        if let Body::Whole(bytes) = &body
            && header.kind == Kind::Response
            && bytes.len() == arrival.len
            && !arrival.wants_ack()
        {
            place.write(0, bytes);
            let buf = place.base() as usize;
            let completion = received(&arrival, read.flags, read.context(), buf, arrival.len);
            self.sends.remove(key);
            self.peers.lift_fence(from);
            self.retry_stalled = true;
            out.complete(completion);
            return Placement::Done;
        }
        let placement = RxPlacement {
            room: arrival.len,
            body: place.clone(),
            offset: 0,
            flags: read.flags,
            context: read.context(),
            shared: Key::NONE,
        };
        let is_rts = header.kind == Kind::ResponseRts;
        match self.land(out, arrival, MatchState::Matched(placement), body, is_rts) {
            // The connection breaks, and the read fails with it.
            Ok(Placement::Refuse) => Placement::Refuse,
            Ok(placement) => {
                self.sends.remove(key);
                placement
            }
            Err(Full) => self.stall(from),
        }
    }

    /// Places a message whose match state is known.
    pub(crate) fn land(
        &mut self,
        out: &mut impl Completions,
        arrival: Arrival,
        match_state: MatchState,
        body: Body<'_>,
        is_rts: bool,
    ) -> Result<Placement, Full> {
        self.land_on(out, arrival, match_state, Box::default(), body, is_rts)
    }

    /// Places a message whose match state is known, and which may be a write to several pieces of memory.
    fn land_on(
        &mut self,
        out: &mut impl Completions,
        mut arrival: Arrival,
        match_state: MatchState,
        targets: Box<[Target]>,
        body: Body<'_>,
        is_rts: bool,
    ) -> Result<Placement, Full> {
        if self.unexpected.is_full(arrival.from) || !self.peers.can_reply(arrival.from) {
            return Err(Full);
        }
        let (rx_data, len) = match &body {
            Body::Whole(bytes) if !is_rts => (RxData::Nothing, bytes.len()),
            Body::Stream(len) if !is_rts => (RxData::Nothing, *len),
            Body::Whole([]) | Body::Stream(0) if arrival.len > 0 => (RxData::Remote(None), 0),
            Body::Remote(remote) if is_rts && covers(remote, arrival.len) => {
                (RxData::Remote(Some(*remote)), 0)
            }
            _ => return Ok(Placement::Refuse),
        };
        let (from, more_follows) = (arrival.from, len < arrival.len);
        if len > arrival.len || (more_follows && self.unexpected.knows(from, arrival.id)) {
            return Ok(Placement::Refuse);
        }
        if is_rts {
            // The sender learns of the match from the answer to its Rts.
            arrival.flags.remove(HeaderFlags::MATCH);
        }
        let mut message = Message::new(arrival, rx_data, match_state);
        message.targets = targets;
        let Some(key) = self.unexpected.insert(message) else {
            return Err(Full);
        };
        if is_rts {
            self.peers.reply(from, Reply::Begin(key));
            return Ok(Placement::Done);
        }
        if more_follows {
            self.unexpected.name(key);
        }
        Ok(self.place(out, key, len, body))
    }

    /// Answers a write with a refusal. Where the write has no id that an answer could name, the connection is dropped, so
    /// that the refusal does not go unnoticed.
    fn refuse_access(
        &mut self,
        arrival: &Arrival,
        is_rts: bool,
        body: &Body<'_>,
        errno: Errno,
    ) -> Placement {
        if let Some(placement) = self.refusal(arrival.from, errno) {
            return placement;
        }
        let is_named = is_rts || arrival.wants_ack();
        // If the body comes in several frames, the later ones could not be told from those of another operation.
        let is_over = match body {
            Body::Whole(bytes) => is_rts || bytes.len() == arrival.len,
            Body::Stream(len) => is_rts || *len == arrival.len,
            Body::Remote(_) => is_rts,
        };
        if !is_named || !is_over || !self.peers.can_reply(arrival.from) {
            return Placement::Refuse;
        }
        self.peers
            .reply(arrival.from, Reply::Fin(arrival.id, Err(errno)));
        match body {
            Body::Stream(1..) => Placement::Discard,
            _ => Placement::Done,
        }
    }
}

/// Returns whether the link carries out reads by itself.
#[inline(always)]
fn reads_by_itself(limits: &Limits) -> bool {
    limits.one_sided.contains(OneSided::READ)
}

/// Returns whether a write goes in one frame: it is short, or the link carries it out by itself.
#[inline(always)]
fn is_one_frame<L: Link>(link: &L, op: &RmaOp<'_>) -> bool {
    let (limits, len) = (link.limits(op.peer), op.body.len());
    len <= link.eager_write(limits)
        || (len <= limits.eager && is_only_by_frames(op.flags, op.targets))
        || (L::CARRIES_OUT && limits.carries_out(&transmit::frames::write_header(op)))
}

/// Returns whether no link carries a write out by itself, for its flags or because it has several targets.
#[inline(always)]
pub(crate) fn is_only_by_frames(flags: Flags, targets: &[Target]) -> bool {
    flags.intersects(ONLY_BY_FRAMES) || targets.len() != 1
}

/// Reports a write that a peer's link carried out by itself.
pub(crate) fn written(out: &mut impl Completions, from: PeerId, write: RemoteWrite) {
    let access = Completion {
        context: write.key as usize,
        flags: Flags::RMA | Flags::REMOTE_WRITE | Flags::REMOTE_CQ_DATA,
        len: write.len,
        buf: 0,
        data: write.data,
        tag: 0,
        from,
        wanted: true,
    };
    out.accessed(access, &[]);
}

/// The error that there is no room for one more message.
pub(crate) struct Full;

/// Returns the flags that a peer's write is reported with: a completion only if the write brings data.
#[inline]
pub(crate) fn wanted_flags(arrival: &Arrival) -> Flags {
    match arrival.flags.contains(HeaderFlags::DATA) {
        true => Flags::COMPLETION,
        false => Flags::empty(),
    }
}

/// Reads or writes memory of this endpoint itself.
fn rma_with_self(out: &mut impl Completions, op: &RmaOp<'_>) {
    let is_read = op.flags.contains(Flags::READ);
    let (remote, access) = match is_read {
        true => (Flags::RMA | Flags::REMOTE_READ, Flags::REMOTE_READ),
        false => (Flags::RMA | Flags::REMOTE_WRITE, Flags::REMOTE_WRITE),
    };
    let len = op.body.len() as u64;
    let mine = transmit::completion(op.flags, op.context, op.body.base() as usize, len);
    let region = match Engine::region(out, PeerId::ANY, op.targets, access) {
        Ok(region) if region.len() == op.body.len() => region,
        Ok(_) => return out.fail(failure(mine, Errno::INVAL)),
        Err(errno) => return out.fail(failure(mine, errno)),
    };
    if is_read {
        op.body.copy_from(0, &region);
    } else {
        region.copy_from(0, &op.body);
    }
    let has_data = !is_read && op.flags.contains(Flags::REMOTE_CQ_DATA);
    out.complete(mine);
    let access = Completion {
        context: first_key(op.targets),
        flags: if has_data {
            remote | Flags::REMOTE_CQ_DATA
        } else {
            remote
        },
        len,
        buf: region.base() as usize,
        data: if has_data { op.data } else { 0 },
        tag: 0,
        from: op.peer,
        wanted: has_data,
    };
    out.accessed(access, op.targets);
}

fn failure(op: Completion, errno: Errno) -> Failure {
    Failure {
        op,
        errno,
        overflow: 0,
        code: 0,
    }
}
