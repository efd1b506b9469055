//! What an endpoint's engine reports goes to queues and counters, and the memory that peers name is found in the domain.

use alloc::sync::Arc;
use alloc::vec::Vec;

use oxifabric_abi::{
    FI_READ, FI_RECV, FI_REMOTE_READ, FI_REMOTE_WRITE, FI_SELECTIVE_COMPLETION, FI_SEND, FI_WRITE,
    fi_addr_t,
};
use oxifabric_engine::{Completion, Completions, Failure, Target};
use oxifabric_kernel_sync::Work;
use oxifabric_mem::Iov;
use oxifabric_types::{Caps, Errno, Flags, PeerId};

use super::state::source_of;
use crate::cntr::Cntr;
use crate::cq::{Cq, Entry};
use crate::domain::Domain;
use crate::handle::Ref;

/// What counters count, each with the flag of completions that it is of; of those at a peer's memory first.
const COUNTED: [(u64, Flags); 6] = [
    (FI_REMOTE_READ, Flags::REMOTE_READ),
    (FI_REMOTE_WRITE, Flags::REMOTE_WRITE),
    (FI_SEND, Flags::SEND),
    (FI_RECV, Flags::RECV),
    (FI_READ, Flags::READ),
    (FI_WRITE, Flags::WRITE),
];

/// A queue, and what of it belongs to this endpoint.
#[derive(Default)]
struct Side {
    cq: Option<Ref<Cq>>,
    is_selective: bool,
    /// Operations that have not ended; each has a place in the queue.
    outstanding: usize,
}

impl Side {
    fn ended(&mut self, entry: Option<Entry>) {
        self.outstanding = self.outstanding.saturating_sub(1);
        if let Some(cq) = &self.cq {
            cq.push(entry, true);
        }
    }
}

pub(crate) struct Report {
    domain: Ref<Domain>,
    tx: Side,
    rx: Side,
    cntrs: [Option<Ref<Cntr>>; COUNTED.len()],
    /// The numbers that the address vector has for the peers.
    pub(super) sources: Vec<fi_addr_t>,
    /// An access of a peer waits for room in the queue.
    holds_accesses: bool,
}

impl Report {
    pub(super) fn new(domain: Ref<Domain>) -> Self {
        Self {
            domain,
            tx: Side::default(),
            rx: Side::default(),
            cntrs: Default::default(),
            sources: Vec::new(),
            holds_accesses: false,
        }
    }

    /// Binds a queue for sends, receives, or both; where it fails, for none.
    pub(super) fn bind_cq(
        &mut self,
        cq: Ref<Cq>,
        flags: u64,
        work: &Arc<Work>,
    ) -> Result<(), Errno> {
        const SIDES: u64 = FI_SEND | FI_RECV;
        if flags & SIDES == 0 || flags & !(SIDES | FI_SELECTIVE_COMPLETION) != 0 {
            return Err(Errno::BADFLAGS);
        }
        let sides = [(&mut self.tx, FI_SEND), (&mut self.rx, FI_RECV)];
        let mut sides = sides.map(|(side, flag)| (flags & flag != 0).then_some(side));
        let mut wanted = sides.iter().flatten();
        if wanted.any(|side| side.cq.is_some()) {
            return Err(Errno::INVAL);
        }
        // The last that can fail, so that a bind that fails leaves nothing bound.
        cq.feed_from(work)?;
        for side in sides.iter_mut().flatten() {
            side.cq = Some(cq.clone());
            side.is_selective = flags & FI_SELECTIVE_COMPLETION != 0;
        }
        Ok(())
    }

    /// Binds a counter.
    pub(super) fn bind_cntr(&mut self, cntr: Ref<Cntr>, flags: u64) -> Result<(), Errno> {
        let known = COUNTED.iter().fold(0, |all, (flag, _)| all | flag);
        if flags == 0 || flags & !known != 0 {
            return Err(Errno::BADFLAGS);
        }
        for (place, (flag, _)) in self.cntrs.iter_mut().zip(COUNTED) {
            if flags & flag != 0 {
                *place = Some(cntr.clone());
            }
        }
        Ok(())
    }

    /// Checks that there is a queue for all that an endpoint with these capabilities starts.
    pub(super) fn check(&self, caps: Caps) -> Result<(), Errno> {
        let sends = caps.intersects(Caps::SEND | Caps::READ | Caps::WRITE);
        let is_missing =
            (sends && self.tx.cq.is_none()) || (caps.contains(Caps::RECV) && self.rx.cq.is_none());
        if is_missing { Err(Errno::NOCQ) } else { Ok(()) }
    }

    /// Returns whether completions are selective, of sends and of receives.
    pub(super) const fn selective(&self) -> (bool, bool) {
        (self.tx.is_selective, self.rx.is_selective)
    }

    /// Returns whether the queue has no room for what peers cause.
    fn is_full(&self) -> bool {
        self.rx.cq.as_ref().is_some_and(|cq| cq.is_full())
    }

    /// Returns once whether accesses of peers that waited for room in the queue may go on.
    pub(super) fn lets_in(&mut self) -> bool {
        self.holds_accesses && !self.is_full() && core::mem::take(&mut self.holds_accesses)
    }

    fn side(&mut self, is_receive: bool) -> &mut Side {
        if is_receive {
            &mut self.rx
        } else {
            &mut self.tx
        }
    }

    /// Reserves a place for the end of an operation.
    pub(super) fn reserve(&mut self, is_receive: bool) -> Result<(), Errno> {
        let side = self.side(is_receive);
        side.cq.as_ref().ok_or(Errno::NOCQ)?.reserve()?;
        side.outstanding += 1;
        Ok(())
    }

    /// Gives up the place of an operation that was not started.
    pub(super) fn release(&mut self, is_receive: bool) {
        self.side(is_receive).ended(None);
    }

    /// Gives up all places, queues and counters.
    pub(super) fn end(&mut self) {
        for side in [&mut self.tx, &mut self.rx] {
            if let Some(cq) = side.cq.take() {
                cq.release(side.outstanding);
            }
            side.outstanding = 0;
        }
        self.cntrs = Default::default();
    }

    fn count(&self, flags: Flags, is_well: bool) {
        let kind = COUNTED.iter().position(|(_, of)| flags.intersects(*of));
        if let Some(Some(cntr)) = kind.and_then(|at| self.cntrs.get(at)) {
            cntr.count(is_well);
        }
    }

    fn entry(&self, of: &Completion, failure: Option<(Errno, u64)>) -> Entry {
        let is_remote = is_remote(of.flags);
        let told = match has_taken_receive(of.flags) {
            true => of.flags.difference(Flags::RECV),
            false => of.flags,
        };
        Entry {
            context: if is_remote { 0 } else { of.context },
            flags: told.bits(),
            len: of.len as usize,
            buf: of.buf,
            data: of.data,
            tag: of.tag,
            source: source_of(&self.sources, of.from),
            errno: failure.map(|(errno, _)| errno),
            overflow: failure.map_or(0, |(_, overflow)| overflow as usize),
        }
    }
}

/// Returns whether it is a peer's access to memory of this endpoint, which has no place in the queue.
const fn is_remote(flags: Flags) -> bool {
    flags.intersects(Flags::REMOTE_READ.union(Flags::REMOTE_WRITE)) && !has_taken_receive(flags)
}

/// Returns whether it is a peer's write with data that has taken a receive, FI_RX_CQ_DATA.
const fn has_taken_receive(flags: Flags) -> bool {
    flags.contains(Flags::REMOTE_WRITE.union(Flags::RECV))
}

impl Completions for Report {
    fn complete(&mut self, completion: Completion) {
        self.count(completion.flags, true);
        let entry = completion.wanted.then(|| self.entry(&completion, None));
        if is_remote(completion.flags) {
            if let (Some(cq), Some(entry)) = (&self.rx.cq, entry) {
                cq.push(Some(entry), false);
            }
            return;
        }
        self.side(completion.flags.contains(Flags::RECV))
            .ended(entry);
    }

    fn fail(&mut self, failure: Failure) {
        self.count(failure.op.flags, false);
        let entry = self.entry(&failure.op, Some((failure.errno, failure.overflow)));
        if is_remote(failure.op.flags) {
            if let Some(cq) = &self.rx.cq {
                cq.push(Some(entry), false);
            }
            return;
        }
        self.side(failure.op.flags.contains(Flags::RECV))
            .ended(Some(entry));
    }

    fn exclusively(&self, update: impl FnOnce()) {
        crate::exclusively(update);
    }

    /// Finds memory while there is room for the completion that the access may have.
    fn region(&self, targets: &[Target], access: Flags) -> Result<Iov, Errno> {
        if self.is_full() {
            return Err(Errno::NOKEY);
        }
        self.domain.regions.lock().find(targets, access)
    }

    /// Finds the memory of an access, or makes a peer's access wait (`AGAIN`) while the completion queue is full. Accesses of this endpoint to itself have a
    /// place in it and never wait.
    fn guarded_region(
        &mut self,
        from: PeerId,
        targets: &[Target],
        access: Flags,
    ) -> Result<Iov, Errno> {
        if from != PeerId::ANY && self.is_full() {
            self.holds_accesses = true;
            return Err(Errno::AGAIN);
        }
        self.domain.regions.lock().find(targets, access)
    }
}
