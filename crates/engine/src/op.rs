//! Operations as the application posts them, and what becomes of them.

use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Flags, PeerId};

use crate::{GroupId, Target};

/// A send.
#[derive(Debug)]
pub struct TxOp {
    /// The destination.
    pub peer: PeerId,
    /// The tag if it is tagged (`flags` has `TAGGED`), otherwise unused.
    pub tag: u64,
    /// Remote completion data if `flags` has `REMOTE_CQ_DATA`.
    pub data: u64,
    /// The message; with `INJECT` its memory is valid during the call only.
    pub body: Iov,
    /// `MSG` or `TAGGED`, and of fi_msg(3): `REMOTE_CQ_DATA COMPLETION INJECT MORE INJECT_COMPLETE
    /// TRANSMIT_COMPLETE DELIVERY_COMPLETE MATCH_COMPLETE FENCE`.
    pub flags: Flags,
    /// The application's pointer, repeated in the completion.
    pub context: usize,
}

impl TxOp {
    /// Copies the operation so that the slow path can borrow the copy while the fast path keeps this one in registers.
    #[inline(always)]
    pub(crate) fn spilled(self) -> Self {
        Self { ..self }
    }
}

/// A receive.
#[derive(Debug)]
pub struct RxOp {
    /// The source; [`PeerId::ANY`] for all.
    pub from: PeerId,
    /// The tag that is wanted.
    pub tag: u64,
    /// Bits of the tag that do not matter.
    pub ignore: u64,
    /// Where the message goes.
    pub body: Iov,
    /// `MSG` or `TAGGED`, and `COMPLETION MULTI_RECV PEEK CLAIM DISCARD MORE`.
    pub flags: Flags,
    /// The application's pointer, repeated in the completion; `CLAIM` finds the claimed message by it.
    pub context: usize,
}

impl RxOp {
    /// Copies the operation so that the slow path can borrow the copy while the fast path keeps this one in registers.
    #[inline(always)]
    pub(crate) fn spilled(self) -> Self {
        Self { ..self }
    }
}

/// Marks a receive of a shared context as a piece of a multi-receive buffer that the context manages. Its completion has
/// this flag too; no receive of the application has it.
pub const PIECE: Flags = Flags::FENCE;

/// A read from or a write to memory of a peer, fi_rma(3).
#[derive(Debug)]
pub struct RmaOp<'a> {
    /// The peer that has the memory.
    pub peer: PeerId,
    /// The target memory: one to [`oxifabric_mem::MAX_SEGMENTS`] pieces, together as long as `body`.
    pub targets: &'a [Target],
    /// Where the data goes or comes from; with `INJECT` valid during the call only.
    pub body: Iov,
    /// Remote completion data of a write, if `flags` has `REMOTE_CQ_DATA`.
    pub data: u64,
    /// `RMA` with `READ` or `WRITE`, and of fi_rma(3): `REMOTE_CQ_DATA COMPLETION INJECT MORE INJECT_COMPLETE
    /// TRANSMIT_COMPLETE DELIVERY_COMPLETE FENCE`.
    pub flags: Flags,
    /// The application's pointer, repeated in the completion.
    pub context: usize,
}

/// An operation that ended well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The operation's context; at the target of a read or write, the key of the first piece of memory.
    pub context: usize,
    /// What ended: `SEND` or `RECV` with `MSG` or `TAGGED`, `REMOTE_CQ_DATA`, `MULTI_RECV` when the buffer was
    /// released, `CLAIM` and `PEEK` never; `RMA` with `READ` or `WRITE` at the initiator, with `REMOTE_READ` or
    /// `REMOTE_WRITE` at the target (wanted only with `REMOTE_CQ_DATA`), with both if an atomic fetches and changes;
    /// `DEFERRED` if the operation had it.
    pub flags: Flags,
    /// Bytes received; of a send, its length.
    pub len: u64,
    /// Where the data is, for multi-receive; otherwise the buffer's address.
    pub buf: usize,
    /// Remote completion data.
    pub data: u64,
    /// The message's tag.
    pub tag: u64,
    /// The source of a message; of a send that failed, its destination; of a receive that failed, the only source that it took; otherwise
    /// [`PeerId::ANY`].
    pub from: PeerId,
    /// The operation asked for a completion entry. Counters count it in any case.
    pub wanted: bool,
}

/// An operation that failed. It is always reported, wanted or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What is known of the operation, as if it had ended well; `len` is what was placed.
    pub op: Completion,
    /// The error.
    pub errno: Errno,
    /// Number of bytes that were cut off, for [`Errno::TRUNC`].
    pub overflow: u64,
    /// The device's own number of the cause, if it has one; zero otherwise.
    pub code: u32,
}

/// A message that waits for a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Its source.
    pub from: PeerId,
    /// `RECV` with `MSG` or `TAGGED`, or `COLLECTIVE`; and `REMOTE_CQ_DATA`.
    pub flags: Flags,
    /// Its tag.
    pub tag: u64,
    /// Remote completion data.
    pub data: u64,
    /// Number of bytes that it has.
    pub len: usize,
}

/// What happens to a message that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitEvent {
    /// No receive took it when it arrived: it begins to wait.
    Begun,
    /// A receive takes it, or a peek discards it.
    Over,
}

/// Takes what became of operations: a completion queue with its counters.
pub trait Completions {
    /// Reports an operation that ended well.
    fn complete(&mut self, completion: Completion);

    /// Reports an operation that failed.
    fn fail(&mut self, failure: Failure);

    /// Takes the first receive of a shared context that takes a message of this class (`MSG` or `TAGGED`) with this tag,
    /// from this peer and of this length. It is for one message; with [`PIECE`] it is part of a larger buffer.
    fn shared_receive(&mut self, class: Flags, tag: u64, from: PeerId, len: usize) -> Option<RxOp> {
        let _ = (class, tag, from, len);
        None
    }

    /// Runs an update of memory that no other update of the same memory may meet, by whatever endpoint.
    fn exclusively(&self, update: impl FnOnce())
    where
        Self: Sized,
    {
        update();
    }

    /// Returns whether [`Completions::waiting`] is to be called.
    #[inline(always)]
    fn watches_waiting(&self) -> bool {
        false
    }

    /// Reports that a message begins or ceases to wait for a receive; `count` wait from now on.
    fn waiting(&mut self, event: WaitEvent, message: &Waiting, count: usize) {
        let _ = (event, message, count);
    }

    /// Returns whether messages of a peer that is gone, which no receive has matched, may be dropped where room is needed: the
    /// application does not know the peer. Otherwise they stay receivable.
    fn may_drop_left(&self, peer: PeerId) -> bool {
        let _ = peer;
        false
    }

    /// Returns whether the application knows a peer: its address is in the address vector.
    fn is_known(&self, peer: PeerId) -> bool {
        let _ = peer;
        false
    }

    /// Forgets a peer: its number means another one from now on.
    fn forgotten(&mut self, peer: PeerId) {
        let _ = peer;
    }

    /// Reports that fault injection has a post wait for a later poll: nothing happens on the link meanwhile, so that a thread which
    /// sleeps is to be woken.
    fn post_refused(&mut self) {}

    /// Reports that a group was joined, or could not be: `context` is that of [`crate::Engine::join`].
    fn joined(&mut self, context: usize, group: GroupId, result: Result<(), Errno>) {
        let _ = (context, group, result);
    }

    /// Finds memory that not every peer may access: called when [`Completions::region`] finds no key. `from` is `ANY` for
    /// accesses of this endpoint itself.
    ///
    /// # Errors
    /// As [`Completions::region`]; `NOKEY` also when this peer must not access it; `AGAIN` when the access has to wait. It is delivered
    /// again after [`crate::Engine::reconsider`].
    fn guarded_region(
        &mut self,
        from: PeerId,
        targets: &[Target],
        access: Flags,
    ) -> Result<Iov, Errno> {
        let _ = (from, targets, access);
        Err(Errno::NOKEY)
    }

    /// Returns the memory with this key as a whole, if peers may access it without [`Completions::accessed`].
    fn open_region(&self, key: u64) -> Option<crate::OpenRegion> {
        let _ = key;
        None
    }

    /// Reports a peer's read or write of this endpoint's memory that ended well. Its context is the key of the memory, or of the
    /// first piece; if it was of several pieces, `targets` names them all, and is empty otherwise.
    #[inline(always)]
    fn accessed(&mut self, access: Completion, targets: &[Target]) {
        let _ = targets;
        self.complete(access);
    }

    /// Finds the memory that a peer names, if it is registered for `access` (`REMOTE_READ`, `REMOTE_WRITE`).
    ///
    /// The result lends all targets, in order. Without registered memory nothing is found.
    ///
    /// # Errors
    /// `NOKEY` when a key is unknown, `ACCES` when a target reaches beyond its region or the region does not
    /// allow the access.
    fn region(&self, targets: &[Target], access: Flags) -> Result<Iov, Errno> {
        let _ = (targets, access);
        Err(Errno::NOKEY)
    }
}
