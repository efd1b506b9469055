//! A send between its submission and its completion.
//!
//! The length decides how it goes (see [`Limits`](crate::Limits)): in one frame, at once in several, or only when the receiver
//! asks for it. Which, is decided when the first frame is posted, because the limits may change until then.

pub(crate) mod frames;

use alloc::boxed::Box;
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Flags, PeerId};

use crate::slab::Key;
use crate::{Completion, Completions, Failure, Header, HeaderFlags, Kind, RmaOp, Target, TxOp};

/// Flags of accesses that no link carries out by itself: those that are noticed at their target, or wait for what is before them.
pub(crate) const ONLY_BY_FRAMES: Flags = Flags::FENCE.union(Flags::REMOTE_CQ_DATA);

/// Longest access that a link may carry out when it had to wait: all that waited for a peer are carried out in one poll.
const LONGEST_LATE: usize = 256 << 10;

/// A send, or another operation that begins with a frame to a peer: a write, a read, an atomic, a response.
#[derive(Debug)]
pub(crate) struct Transmit {
    pub(crate) peer: PeerId,
    pub(crate) header: Header,
    /// The data to send; of a read, where it will go.
    pub(crate) body: Iov,
    /// The peer's memory that it is about, if it is about any; of a response, this endpoint's if it is in several pieces.
    pub(crate) targets: Box<[Target]>,
    /// Of an atomic that fetches: where the response goes.
    pub(crate) result: Option<Box<Iov>>,
    pub(crate) flags: Flags,
    context: usize,
    pub(crate) stage: Stage,
    /// Frames whose memory the link still reads, or that it has not seen acknowledged where the send waits for that.
    pub(crate) pending: u32,
    /// Whether an acknowledgement is still to come.
    pub(crate) unacked: bool,
    /// Whether the body is valid during the call only.
    pub(crate) borrowed: bool,
    /// How many bytes the peer lets be sent as segments, until it lets more be.
    granted: usize,
    pub(crate) failure: Option<Errno>,
}

/// State of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Nothing has been handed to the link.
    Queued,
    /// This number of bytes has been handed to the link, the others follow as segments.
    Sending(usize),
    /// The Rts has been handed to the link: the receiver will ask for the data or pull it.
    RtsSent,
    /// Everything has been handed to the link, or is no longer wanted.
    Sent,
}

impl Transmit {
    /// Takes a send in. `key` is its place in the table of sends, and its id on the wire.
    pub(crate) fn new(op: TxOp, key: Key) -> Self {
        Self {
            peer: op.peer,
            header: Header {
                id: key.raw(),
                ..frames::header(&op)
            },
            borrowed: op.flags.contains(Flags::INJECT),
            unacked: wants_ack(op.flags),
            body: op.body,
            targets: Box::default(),
            result: None,
            flags: op.flags,
            context: op.context,
            stage: Stage::Queued,
            pending: 0,
            granted: usize::MAX,
            failure: None,
        }
    }

    /// Takes a read or write in. A read is over when its response is, which takes its place: it asks for no acknowledgement. C's
    /// tcp gives the response the flags of the request and expects no acknowledgement of it.
    pub(crate) fn rma(op: RmaOp<'_>, key: Key) -> Self {
        let targets = Box::from(op.targets);
        let mut transmit = Self::rma_posted(op, key);
        transmit.targets = targets;
        transmit
    }

    /// Takes a read or write in that the link has already, and which need not be posted again.
    #[inline(always)]
    pub(crate) fn rma_posted(op: RmaOp<'_>, key: Key) -> Self {
        let is_read = op.flags.contains(Flags::READ);
        let message = TxOp {
            peer: op.peer,
            tag: 0,
            data: op.data,
            body: op.body,
            flags: op.flags,
            context: op.context,
        };
        let mut transmit = Self::new(message, key);
        transmit.borrowed &= !is_read;
        if is_read {
            transmit.unacked = true;
            let acks = HeaderFlags::DELIVERY | HeaderFlags::MATCH;
            transmit.header.flags.remove(acks);
        }
        transmit
    }

    /// Answers the read that the peer calls `id` with the memory that it names.
    pub(crate) fn response(peer: PeerId, id: u32, body: Iov, targets: &[Target], key: Key) -> Self {
        let message = TxOp {
            peer,
            tag: u64::from(id),
            data: 0,
            body,
            flags: Flags::RMA | Flags::REMOTE_READ,
            context: first_key(targets),
        };
        let mut transmit = Self::new(message, key);
        transmit.targets = several(targets);
        transmit
    }

    /// Answers the atomic that the peer calls `id` with what it fetched; what happened here has been reported.
    pub(crate) fn fetched(peer: PeerId, id: u32, old: Iov, key: Key) -> Self {
        let mut response = Self::response(peer, id, old, &[], key);
        response.flags = Flags::empty();
        response
    }

    /// Returns whether it brings a peer what an atomic fetched.
    pub(crate) const fn is_fetched(&self) -> bool {
        self.is_response() && self.flags.is_empty()
    }

    /// Returns whether it ends with a response: a read, or an atomic that fetches.
    fn is_request(&self) -> bool {
        matches!(
            self.header.kind,
            Kind::Read | Kind::FetchAtomic | Kind::CompareAtomic
        )
    }

    /// Takes a message of the collective `active` in.
    pub(crate) fn collective(peer: PeerId, tag: u64, body: Iov, active: Key, key: Key) -> Self {
        let message = TxOp {
            peer,
            tag,
            data: 0,
            body,
            flags: Flags::COLLECTIVE,
            context: active.raw() as usize,
        };
        Self::new(message, key)
    }

    /// Returns the access that it is, if a link may carry it out in place of its first frame, after which it would be at stage `next`: see
    /// [`Link::carry_out`](crate::Link::carry_out).
    pub(crate) fn as_single_access(&self, next: Stage) -> Option<RmaOp<'_>> {
        let is_asked_for = matches!(
            (self.header.kind, next),
            (Kind::Write, Stage::RtsSent | Stage::Sending(_)) | (Kind::Read, Stage::Sent)
        );
        let is_short = self.body.len() <= LONGEST_LATE;
        let may_be = is_asked_for && is_short && !self.flags.intersects(ONLY_BY_FRAMES);
        (self.stage == Stage::Queued && may_be).then(|| RmaOp {
            peer: self.peer,
            targets: &self.targets,
            body: self.body.clone(),
            data: 0,
            flags: self.flags,
            context: self.context,
        })
    }

    /// Returns whether it waits for its response.
    pub(crate) fn awaits_response(&self) -> bool {
        self.is_request() && self.stage == Stage::Sent && self.unacked
    }

    /// Returns where the response goes.
    pub(crate) fn response_place(&self) -> &Iov {
        self.result.as_deref().unwrap_or(&self.body)
    }

    /// Returns whether an acknowledgement may come.
    pub(crate) fn awaits_ack(&self) -> bool {
        self.unacked && self.stage != Stage::RtsSent && !self.is_request()
    }

    /// Returns whether it answers a request of the peer.
    pub(crate) const fn is_response(&self) -> bool {
        matches!(self.header.kind, Kind::Response)
    }

    /// Returns whether a peer's read asked for it, or a collective, so that the application knows nothing of it.
    pub(crate) const fn is_internal(&self) -> bool {
        matches!(self.header.kind, Kind::Response | Kind::Collective)
    }

    /// Returns whether all of its memory is the engine's: it is injected, or brings a peer what an atomic fetched.
    pub(crate) fn owns_memory(&self) -> bool {
        let is_injected = self.flags.contains(Flags::INJECT) && self.result.is_none();
        is_injected || (self.is_response() && self.body.is_own())
    }

    /// Returns the collective that it is a message of, if it is one.
    pub(crate) fn active_collective(&self) -> Option<Key> {
        let is_collective = matches!(self.header.kind, Kind::Collective);
        is_collective.then(|| u32::try_from(self.context).map_or(Key::NONE, Key::from_raw))
    }

    /// Returns whether it sends from the region with this key because a peer reads it.
    pub(crate) fn sends_from(&self, key: u64) -> bool {
        self.is_response()
            && self.flags.contains(Flags::RMA)
            && is_about(self.context, &self.targets, key)
    }

    /// Returns whether it waits for everything before it, and nothing of it was handed to the link.
    pub(crate) fn is_fenced(&self) -> bool {
        self.stage == Stage::Queued && self.flags.contains(Flags::FENCE)
    }

    /// Returns whether nothing more will happen to it.
    pub(crate) fn is_over(&self) -> bool {
        self.stage == Stage::Sent && self.pending == 0 && !self.unacked
    }

    /// Returns whether the peer owes an answer.
    pub(crate) fn awaits_answer(&self) -> bool {
        match self.stage {
            Stage::Queued => false,
            Stage::RtsSent => true,
            Stage::Sending(_) | Stage::Sent => self.unacked,
        }
    }

    /// Returns the application's pointer.
    pub(crate) const fn context(&self) -> usize {
        self.context
    }

    /// Copies a body that is valid during the call only.
    ///
    /// # Errors
    /// [`Errno::NOMEM`].
    pub(crate) fn own_body(&mut self) -> Result<(), Errno> {
        self.body = self.body.duplicate().ok_or(Errno::NOMEM)?;
        self.borrowed = false;
        Ok(())
    }

    /// Copies a body that is valid during the call only and still needed, when the call ends.
    ///
    /// # Errors
    /// [`Errno::NOMEM`].
    pub(crate) fn keep_body(&mut self) -> Result<(), Errno> {
        match (self.borrowed, self.stage) {
            (false, _) => Ok(()),
            (true, Stage::Queued) => self.own_body(),
            (true, _) => {
                self.borrowed = false;
                Ok(())
            }
        }
    }

    /// Reports how it ended.
    pub(crate) fn report(&self, out: &mut impl Completions) {
        let op = completion(
            self.flags,
            self.context,
            self.body.base() as usize,
            self.header.len,
        );
        match self.failure {
            None if self.is_fetched() => {}
            None if self.is_response() => out.accessed(op, &self.targets),
            None => out.complete(op),
            // The reader is gone, and nothing else waits for it.
            Some(_) if self.header.kind == Kind::Response => {}
            Some(errno) => out.fail(Failure {
                op: Completion {
                    from: self.peer,
                    ..op
                },
                errno,
                overflow: 0,
                code: 0,
            }),
        }
    }
}

/// Returns what completions of accesses by peers have for a context.
pub(crate) fn first_key(targets: &[Target]) -> usize {
    targets.first().map_or(0, |target| target.key as usize)
}

/// Keeps the names of several pieces of memory; a single one is known by its key.
pub(crate) fn several(targets: &[Target]) -> Box<[Target]> {
    match targets {
        [_] => Box::default(),
        targets => Box::from(targets),
    }
}

/// Returns whether an access with this context and these pieces is about the region with this key.
pub(crate) fn is_about(context: usize, targets: &[Target], key: u64) -> bool {
    context as u64 == key || targets.iter().any(|target| target.key == key)
}

/// Returns whether a send completes only with the peer's acknowledgement, fi_cq(3) "COMPLETION EVENT SEMANTICS".
#[inline]
pub(crate) const fn wants_ack(flags: Flags) -> bool {
    flags.intersects(Flags::DELIVERY_COMPLETE.union(Flags::MATCH_COMPLETE))
}

/// Makes the completion of a send.
#[inline(always)]
pub(crate) fn completion(flags: Flags, context: usize, buf: usize, len: u64) -> Completion {
    Completion {
        context,
        flags: what(flags),
        len,
        buf,
        data: 0,
        tag: 0,
        from: PeerId::ANY,
        wanted: flags.contains(Flags::COMPLETION),
    }
}

/// Returns the flags of the completion, fi_cq(3) "COMPLETION FLAGS".
#[inline]
const fn what(flags: Flags) -> Flags {
    const ACCESS: Flags = Flags::RMA.union(Flags::ATOMIC);
    const DONE: Flags = ACCESS
        .union(Flags::READ)
        .union(Flags::WRITE)
        .union(Flags::REMOTE_READ);
    let kind = if flags.contains(Flags::TAGGED) {
        Flags::SEND.union(Flags::TAGGED)
    } else if flags.intersects(ACCESS) {
        flags.intersection(DONE)
    } else {
        Flags::SEND.union(Flags::MSG)
    };
    kind.union(flags.intersection(Flags::DEFERRED))
}
