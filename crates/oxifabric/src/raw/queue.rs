//! Completion queues; reading them is on the hot path. Source: fi_cq(3).

use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, Weak};

use oxifabric_abi::{
    FI_ADDR_NOTAVAIL, FI_CQ_FORMAT_TAGGED, FI_EAGAIN, FI_EAVAIL, FI_EINTR, FI_GETWAIT,
    FI_REMOTE_READ, FI_REMOTE_WRITE, FI_SOURCE, FI_WAIT_FD, FI_WAIT_NONE, FI_WAIT_UNSPEC,
    fi_addr_t, fi_control, fi_cq_attr, fi_cq_err_entry, fi_cq_open, fi_cq_read, fi_cq_readerr,
    fi_cq_readfrom, fi_cq_signal, fi_cq_sread, fi_cq_sreadfrom, fi_cq_strerror, fi_cq_tagged_entry,
    fi_trywait, fid, fid_cq,
};
use oxifabric_types::Errno;

use super::handle::Handle;
use super::slots::{Claim, ReadGuard, Slots};
use super::{DomainObject, InFlightOp, Memory, Op, Peer, Peers, check, errno, error_text};
use crate::Completion;
use crate::atomic::Fetched;
use crate::lock::lock;

/// Flags of entries for accesses by peers, which belong to no operation of this process.
const REMOTE: u64 = FI_REMOTE_READ | FI_REMOTE_WRITE;

/// How a thread can wait for a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    /// Threads cannot wait.
    No,
    /// In a blocking read.
    Somehow,
    /// In a blocking read, or on a descriptor.
    Descriptor,
}

/// The result of one read of the queue.
pub(crate) enum Polled<'a> {
    /// No completion.
    Empty,
    /// A completion.
    Arrived(Arrival<'a>),
    /// An error or an error entry, for [`Queue::read_other`].
    Other(isize),
}

/// The meaning of a read that returned no completion.
pub(crate) enum Other {
    /// The queue is empty.
    Empty,
    /// A completion in error.
    Failed(ErrorEntry),
    /// An error entry of an operation whose endpoint is closed.
    Orphan,
}

/// Memory for a completion as the library writes it; the source is written for queues that report sources.
pub(crate) struct Room {
    entry: MaybeUninit<fi_cq_tagged_entry>,
    source: MaybeUninit<fi_addr_t>,
}

impl Room {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self {
            entry: MaybeUninit::uninit(),
            source: MaybeUninit::uninit(),
        }
    }
}

/// A completion as the library has written it.
pub(crate) struct Arrival<'a> {
    entry: &'a fi_cq_tagged_entry,
    source: fi_addr_t,
}

impl<'a> Arrival<'a> {
    /// Makes a completion of an entry and a source that the library has written.
    pub(super) fn new(entry: &'a fi_cq_tagged_entry, source: fi_addr_t) -> Self {
        Self { entry, source }
    }

    /// Returns the access by a peer to this process's memory, if the completion reports one.
    #[inline(always)]
    pub(crate) fn remote(&self) -> Option<Remote> {
        let Self { entry, .. } = self;
        (entry.flags & REMOTE != 0).then_some(Remote {
            flags: entry.flags,
            len: entry.len,
            data: entry.data,
        })
    }
}

/// A completed operation and its slot.
pub(crate) struct Done<'a> {
    claim: Claim<'a>,
    arrival: Arrival<'a>,
}

impl Done<'_> {
    /// Returns whether the operation has a buffer of its own and fetched nothing, as nearly all have.
    #[inline(always)]
    pub(crate) fn is_plain(&self) -> bool {
        let in_flight = self.claim.in_flight();
        matches!(in_flight.memory, Memory::Buffer(_)) && !in_flight.operation.fetches()
    }

    /// Finishes an operation that may have fetched something.
    pub(crate) fn finish(self) -> Entry {
        let fetched = self.claim.fetched();
        Entry {
            fetched,
            ..self.finish_plain()
        }
    }

    /// Finishes an operation that has fetched nothing.
    #[inline(always)]
    pub(crate) fn finish_plain(self) -> Entry {
        let (op, in_flight) = (self.claim.op(), self.claim.finish());
        let Arrival { entry, source } = self.arrival;
        Entry {
            op,
            source: Peer::new(source, in_flight.vector),
            in_flight,
            flags: entry.flags,
            len: entry.len,
            data: entry.data,
            tag: entry.tag,
            fetched: Fetched::NOTHING,
        }
    }
}

/// A completion, and what the slot stored of its operation.
pub(crate) struct Entry {
    pub(crate) op: Op,
    pub(crate) in_flight: InFlightOp,
    pub(crate) flags: u64,
    pub(crate) len: usize,
    pub(crate) data: u64,
    pub(crate) tag: u64,
    pub(crate) source: Option<Peer>,
    pub(crate) fetched: Fetched,
}

/// An access by a peer to this process's memory.
pub(crate) struct Remote {
    pub(crate) flags: u64,
    pub(crate) len: usize,
    pub(crate) data: u64,
}

/// A completion in error.
pub(crate) struct ErrorEntry {
    pub(crate) op: Op,
    pub(crate) in_flight: InFlightOp,
    pub(crate) errno: Errno,
    pub(crate) overflow: usize,
    pub(crate) prov_errno: i32,
    pub(crate) detail: String,
}

/// Work for the next reader before it reads.
#[derive(Default)]
struct PendingWork {
    /// Completions that were read on behalf of a scope and are for other readers.
    kept: VecDeque<Completion>,
    /// Numbers of endpoints that a thread other than the owner closed; the owner thread frees their buffers.
    closed: Vec<u32>,
    /// Whether there are slots of closed endpoints to be freed once the queue is empty.
    orphans: bool,
}

impl PendingWork {
    fn is_done(&self) -> bool {
        self.kept.is_empty() && self.closed.is_empty() && !self.orphans
    }
}

/// An open completion queue and the operations that complete in it.
pub(crate) struct Queue {
    handle: Handle<fid_cq>,
    /// The table of slots; dropped after the queue, which may name them until it is closed.
    slots: Slots,
    /// Whether completions report their senders.
    sources: bool,
    /// The address vectors of its endpoints, for the addresses of peers in errors.
    vectors: Mutex<Vec<Weak<Peers>>>,
    /// Work for the next reader, and whether there is any.
    pending: Mutex<PendingWork>,
    has_pending_work: AtomicBool,
    domain: Arc<DomainObject>,
}

impl Queue {
    /// Opens a queue in the format with the most fields.
    pub(crate) fn open(
        domain: Arc<DomainObject>,
        size: usize,
        waits: Waits,
    ) -> Result<Self, Errno> {
        let mut attr = fi_cq_attr {
            size,
            format: FI_CQ_FORMAT_TAGGED,
            wait_obj: match waits {
                Waits::No => FI_WAIT_NONE,
                Waits::Somehow => FI_WAIT_UNSPEC,
                Waits::Descriptor => FI_WAIT_FD,
            },
            ..fi_cq_attr::ZERO
        };
        let parent = domain.as_ptr();
        // SAFETY: the domain is open, and the attributes outlive the call.
        let handle =
            unsafe { Handle::open(|cq| fi_cq_open(parent, &mut attr, cq, ptr::null_mut())) }?;
        Ok(Self {
            handle,
            slots: Slots::new(),
            sources: domain.info().caps() & FI_SOURCE != 0,
            vectors: Mutex::default(),
            pending: Mutex::default(),
            has_pending_work: AtomicBool::new(false),
            domain,
        })
    }

    /// Keeps a completion for the next thread that reads the queue.
    #[cold]
    pub(crate) fn keep(&self, completion: Completion) {
        self.update_pending(|pending| pending.kept.push_back(completion));
        // Wakes a sleeping reader; a queue that is only polled has none.
        let _ = self.signal();
    }

    /// Frees the buffers of an endpoint: now, or if another thread owns the table, when that thread reads next, or when the queue is
    /// closed.
    ///
    /// # Safety
    ///
    /// The endpoint must be closed: the provider touches none of its buffers any more.
    pub(super) unsafe fn abandon(&self, endpoint: u32) {
        lock(&self.pending).closed.push(endpoint);
        self.abandon_closed();
    }

    /// Frees the buffers of the endpoints that were closed, if this thread may.
    fn abandon_closed(&self) {
        let mut closed = core::mem::take(&mut lock(&self.pending).closed);
        let mut freed = Vec::new();
        // SAFETY: these endpoints are closed.
        closed.retain(|endpoint| match unsafe { self.slots.abandon(*endpoint) } {
            Some(mut abandoned) => {
                freed.append(&mut abandoned);
                false
            }
            None => true,
        });
        self.update_pending(|pending| {
            pending.closed.append(&mut closed);
            pending.orphans |= !freed.is_empty();
        });
        // Without the lock, because this may run code of the application, which may panic or use the queue.
        drop(freed);
    }

    /// Changes the pending work.
    fn update_pending<R>(&self, change: impl FnOnce(&mut PendingWork) -> R) -> R {
        let mut pending = lock(&self.pending);
        let result = change(&mut pending);
        self.has_pending_work
            .store(!pending.is_done(), Ordering::Release);
        result
    }

    /// Returns whether this thread can free slots of closed endpoints as soon as it finds the queue empty.
    pub(crate) fn has_orphans(&self) -> bool {
        self.has_pending_work() && self.slots.is_owner() && lock(&self.pending).orphans
    }

    /// Reads one completion without waiting. If there is none, it frees the slots of closed endpoints.
    pub(crate) fn read_or_reclaim<'a>(&self, room: &'a mut Room) -> Polled<'a> {
        let has_orphans = self.has_orphans();
        let polled = self.read(None, room);
        if has_orphans && matches!(polled, Polled::Empty) {
            // SAFETY: only this thread makes orphans, and it has just found the queue empty.
            let reclaimed = unsafe { self.slots.reclaim() };
            self.update_pending(|pending| pending.orphans &= !reclaimed);
        }
        polled
    }

    /// Returns whether there may be work before the queue is read.
    #[inline]
    pub(crate) fn has_pending_work(&self) -> bool {
        self.has_pending_work.load(Ordering::Acquire)
    }

    /// Does the pending work.
    #[cold]
    pub(crate) fn do_pending_work(&self) {
        self.abandon_closed();
    }

    /// Takes the oldest completion that was kept.
    #[cold]
    pub(crate) fn take_kept(&self) -> Option<Completion> {
        self.update_pending(|pending| pending.kept.pop_front())
    }

    /// Adds the address vector of an endpoint that the queue is bound to.
    pub(super) fn add_vector(&self, peers: &Arc<Peers>) {
        let mut vectors = lock(&self.vectors);
        vectors.retain(|vector| vector.strong_count() > 0);
        vectors.push(Arc::downgrade(peers));
    }

    /// Returns the address of a peer of one of the queue's endpoints.
    pub(crate) fn address(&self, peer: Peer) -> Option<Vec<u8>> {
        let vectors = lock(&self.vectors);
        let mut open = vectors.iter().filter_map(Weak::upgrade);
        open.find_map(|vector| vector.lookup(peer).ok())
    }

    pub(crate) fn domain(&self) -> &Arc<DomainObject> {
        &self.domain
    }

    pub(super) fn fid(&self) -> *mut fid {
        self.handle.fid()
    }

    pub(super) fn as_ptr(&self) -> *mut fid_cq {
        self.handle.as_ptr()
    }

    /// Returns whether completions report their senders.
    pub(super) fn reports_sources(&self) -> bool {
        self.sources
    }

    #[inline]
    pub(super) fn slots(&self) -> &Slots {
        &self.slots
    }

    /// Returns the descriptor that becomes readable when the queue has something; `INVAL` or `NOSYS` if it has none.
    pub(crate) fn descriptor(&self) -> Result<BorrowedFd<'_>, Errno> {
        let mut fd: c_int = -1;
        // SAFETY: the queue is open, and a queue with a descriptor writes that.
        check(unsafe { fi_control(self.fid(), FI_GETWAIT, (&raw mut fd).cast()) })?;
        if fd < 0 {
            return Err(Errno::NOSYS);
        }
        // SAFETY: the descriptor is open as long as the queue.
        Ok(unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// Returns whether a thread may sleep on the descriptor now: nothing is in the queue that would not wake it.
    pub(crate) fn may_sleep(&self) -> Result<bool, Errno> {
        let mut fids = [self.fid()];
        let fabric = self.domain.fabric().as_ptr();
        // SAFETY: the fabric and the queue are open.
        match check(unsafe { fi_trywait(fabric, fids.as_mut_ptr(), 1) }) {
            Ok(()) => Ok(true),
            Err(Errno::AGAIN) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    /// Wakes a thread that waits for the queue.
    pub(crate) fn signal(&self) -> Result<(), Errno> {
        // SAFETY: the queue is open.
        check(unsafe { fi_cq_signal(self.handle.as_ptr()) })
    }

    /// Reads one completion. Without a timeout it does not wait; with a negative one it waits for ever.
    ///
    /// The completion stays where the library wrote it: every message runs this.
    #[inline(always)]
    pub(crate) fn read<'a>(&self, timeout_ms: Option<c_int>, room: &'a mut Room) -> Polled<'a> {
        const AGAIN: isize = -(FI_EAGAIN as isize);
        match self.read_raw(room, timeout_ms) {
            1 => Polled::Arrived(Arrival {
                // SAFETY: the library has written one entry.
                entry: unsafe { room.entry.assume_init_ref() },
                source: if self.sources {
                    // SAFETY: it was written before the call.
                    unsafe { room.source.assume_init() }
                } else {
                    FI_ADDR_NOTAVAIL
                },
            }),
            AGAIN => Polled::Empty,
            other => Polled::Other(other),
        }
    }

    /// Begins reading the queue: the guard is held from before a read until what was read is finished.
    #[inline(always)]
    pub(crate) fn begin_read(&self) -> ReadGuard<'_> {
        self.slots.begin_read()
    }

    /// Returns the operation whose completion has arrived; `None` if its endpoint is closed.
    #[inline(always)]
    pub(crate) fn done<'a>(
        &'a self,
        guard: &ReadGuard<'_>,
        arrival: Arrival<'a>,
    ) -> Option<Done<'a>> {
        if arrival.entry.flags & REMOTE != 0 {
            return None;
        }
        // SAFETY: only operations with slots of this table complete in this queue, and this one has completed.
        let claim = unsafe { self.slots.claim(guard, arrival.entry.op_context) }?;
        Some(Done { claim, arrival })
    }

    #[inline(always)]
    fn read_raw(&self, room: &mut Room, timeout_ms: Option<c_int>) -> isize {
        let (cq, entry) = (self.handle.as_ptr(), room.entry.as_mut_ptr().cast());
        if self.sources {
            // Not every library writes one for each completion.
            room.source.write(FI_ADDR_NOTAVAIL);
        }
        let source = room.source.as_mut_ptr();
        // SAFETY: the queue is open; there is room for one entry and one source.
        unsafe {
            match (timeout_ms, self.sources) {
                (None, false) => fi_cq_read(cq, entry, 1),
                (None, true) => fi_cq_readfrom(cq, entry, 1, source),
                (Some(timeout), false) => fi_cq_sread(cq, entry, 1, ptr::null(), timeout),
                (Some(timeout), true) => {
                    fi_cq_sreadfrom(cq, entry, 1, source, ptr::null(), timeout)
                }
            }
        }
    }

    /// Interprets a read that returned no completion.
    pub(crate) fn read_other(&self, guard: &ReadGuard<'_>, ret: isize) -> Result<Other, Errno> {
        const INTR: isize = -(FI_EINTR as isize);
        const AVAIL: isize = -(FI_EAVAIL as isize);
        match ret {
            0 | INTR => Ok(Other::Empty),
            AVAIL => self.read_error(guard),
            other => Err(errno(other)),
        }
    }

    fn read_error(&self, guard: &ReadGuard<'_>) -> Result<Other, Errno> {
        let mut entry = fi_cq_err_entry::ZERO;
        // SAFETY: the queue is open, and the entry, without space for error data of its own, outlives the call.
        let ret = unsafe { fi_cq_readerr(self.handle.as_ptr(), &mut entry, 0) };
        if ret == -(FI_EAGAIN as isize) {
            return Ok(Other::Empty);
        }
        if ret < 0 {
            return Err(errno(ret));
        }
        let detail = self.strerror(&entry);
        // SAFETY: as for a completion without error.
        let claim = unsafe { self.slots.claim(guard, entry.op_context) };
        Ok(claim.map_or(Other::Orphan, |claim| {
            Other::Failed(ErrorEntry {
                op: claim.op(),
                in_flight: claim.finish(),
                errno: Errno::from_raw(entry.err),
                overflow: entry.olen,
                prov_errno: entry.prov_errno,
                detail,
            })
        }))
    }

    /// Returns the provider's text for an error.
    fn strerror(&self, entry: &fi_cq_err_entry) -> String {
        let cq = self.handle.as_ptr();
        // SAFETY: the queue is open, and the entry is one that it returned.
        unsafe {
            error_text(|text, len| fi_cq_strerror(cq, entry.prov_errno, entry.err_data, text, len))
        }
    }
}
