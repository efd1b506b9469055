//! Completion queues; reading them is on the short path. Source: fi_cq(3).

use core::ffi::{c_int, c_void};
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
use super::slots::Slots;
use super::{DomainObject, Load, Op, Peer, Peers, check, errno, said_of_error};
use crate::Completion;
use crate::atomic::Fetched;
use crate::lock::lock;

/// Flags of entries that belong to no operation of this process.
const REMOTE: u64 = FI_REMOTE_READ | FI_REMOTE_WRITE;

/// How threads can wait for a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    /// They cannot.
    No,
    /// In a blocking read.
    Somehow,
    /// In a blocking read, or on a descriptor.
    Descriptor,
}

/// What one read of the queue found.
pub(crate) enum Polled {
    /// Nothing.
    Empty,
    /// A completion.
    Done(Entry),
    /// A completion in error; boxed, so that the other case stays small.
    Failed(Box<ErrorEntry>),
    /// The completion of an operation whose endpoint is closed.
    Orphan,
    /// Something that a peer did to this process's memory.
    Remote(Remote),
}

/// A completion and what its operation gives back.
pub(crate) struct Entry {
    pub(crate) op: Op,
    pub(crate) load: Load,
    pub(crate) flags: u64,
    pub(crate) len: usize,
    pub(crate) data: u64,
    pub(crate) tag: u64,
    pub(crate) source: Option<Peer>,
    pub(crate) fetched: Fetched,
}

/// What a peer did to this process's memory.
pub(crate) struct Remote {
    pub(crate) flags: u64,
    pub(crate) len: usize,
    pub(crate) data: u64,
}

/// A completion in error.
pub(crate) struct ErrorEntry {
    pub(crate) op: Op,
    pub(crate) load: Load,
    pub(crate) errno: Errno,
    pub(crate) overflow: usize,
    pub(crate) prov_errno: i32,
    pub(crate) detail: String,
}

/// An open completion queue and the operations that complete in it.
pub(crate) struct Queue {
    handle: Handle<fid_cq>,
    /// After the queue, which may name its slots until it is closed.
    slots: Slots,
    /// Whether completions name their senders.
    sources: bool,
    /// The address vectors of its endpoints, for the addresses of peers in errors.
    vectors: Mutex<Vec<Weak<Peers>>>,
    /// Completions that were read on behalf of a scope and are for others, and whether there are any.
    kept: Mutex<VecDeque<Completion>>,
    has_kept: AtomicBool,
    domain: Arc<DomainObject>,
}

impl Queue {
    /// Opens a queue of the format with the most fields.
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
            kept: Mutex::default(),
            has_kept: AtomicBool::new(false),
            domain,
        })
    }

    /// Keeps a completion for whoever reads the queue.
    #[cold]
    pub(crate) fn keep(&self, completion: Completion) {
        let mut kept = lock(&self.kept);
        kept.push_back(completion);
        self.has_kept.store(true, Ordering::Release);
        // A thread that sleeps shall take it; a queue that is only polled has no such thread.
        let _ = self.signal();
    }

    /// Whether there may be completions that were kept.
    #[inline]
    pub(crate) fn has_kept(&self) -> bool {
        self.has_kept.load(Ordering::Acquire)
    }

    /// Takes the oldest completion that was kept.
    #[cold]
    pub(crate) fn kept(&self) -> Option<Completion> {
        let mut kept = lock(&self.kept);
        let oldest = kept.pop_front();
        self.has_kept.store(!kept.is_empty(), Ordering::Release);
        oldest
    }

    /// Remembers the address vector of an endpoint that the queue is bound to.
    pub(super) fn knows(&self, peers: &Arc<Peers>) {
        let mut vectors = lock(&self.vectors);
        vectors.retain(|vector| vector.strong_count() > 0);
        vectors.push(Arc::downgrade(peers));
    }

    /// The address of a peer of one of the queue's endpoints.
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

    #[inline]
    pub(super) fn slots(&self) -> &Slots {
        &self.slots
    }

    /// The descriptor that becomes readable when the queue has something; `INVAL` or `NOSYS` if it has none.
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

    /// Whether a thread may sleep on the descriptor now: nothing is in the queue that it would not notice.
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

    /// Reads one completion. Without a timeout it does not wait; a negative one waits for ever.
    #[inline]
    pub(crate) fn read(&self, timeout_ms: Option<c_int>) -> Result<Polled, Errno> {
        let mut entry = fi_cq_tagged_entry::ZERO;
        let mut source = FI_ADDR_NOTAVAIL;
        // SAFETY: there is room for one entry and one source.
        let ret = unsafe { self.read_raw(&mut entry, &mut source, timeout_ms) };
        if ret == 1 {
            if entry.flags & REMOTE != 0 {
                return Ok(Polled::Remote(Remote {
                    flags: entry.flags,
                    len: entry.len,
                    data: entry.data,
                }));
            }
            // SAFETY: only operations with slots of this table complete in this queue, and this one has completed.
            let done = unsafe { self.slots.complete(entry.op_context) };
            return Ok(done.map_or(Polled::Orphan, |(op, load, fetched)| {
                Polled::Done(Entry {
                    op,
                    source: Peer::new(source, load.vector),
                    load,
                    flags: entry.flags,
                    len: entry.len,
                    data: entry.data,
                    tag: entry.tag,
                    fetched,
                })
            }));
        }
        self.read_other(ret)
    }

    /// # Safety
    ///
    /// `entry` and `source` must be writable.
    #[inline]
    unsafe fn read_raw(
        &self,
        entry: *mut fi_cq_tagged_entry,
        source: *mut fi_addr_t,
        timeout_ms: Option<c_int>,
    ) -> isize {
        let (cq, entry) = (self.handle.as_ptr(), entry.cast::<c_void>());
        // SAFETY: the queue is open; the caller vouches for the rest.
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

    /// What a read means that returned no entry.
    fn read_other(&self, ret: isize) -> Result<Polled, Errno> {
        const AGAIN: isize = -(FI_EAGAIN as isize);
        const INTR: isize = -(FI_EINTR as isize);
        const AVAIL: isize = -(FI_EAVAIL as isize);
        match ret {
            0 | AGAIN | INTR => Ok(Polled::Empty),
            AVAIL => self.read_error(),
            other => Err(errno(other)),
        }
    }

    fn read_error(&self) -> Result<Polled, Errno> {
        let mut entry = fi_cq_err_entry::ZERO;
        // SAFETY: the queue is open, and the entry, without room for data of its own, outlives the call.
        let ret = unsafe { fi_cq_readerr(self.handle.as_ptr(), &mut entry, 0) };
        if ret == -(FI_EAGAIN as isize) {
            return Ok(Polled::Empty);
        }
        if ret < 0 {
            return Err(errno(ret));
        }
        let detail = self.strerror(&entry);
        // SAFETY: as for a completion without error.
        let done = unsafe { self.slots.complete(entry.op_context) };
        Ok(done.map_or(Polled::Orphan, |(op, load, _)| {
            Polled::Failed(Box::new(ErrorEntry {
                op,
                load,
                errno: Errno::from_raw(entry.err),
                overflow: entry.olen,
                prov_errno: entry.prov_errno,
                detail,
            }))
        }))
    }

    /// What the provider says about an error.
    fn strerror(&self, entry: &fi_cq_err_entry) -> String {
        let cq = self.handle.as_ptr();
        // SAFETY: the queue is open, and the entry is one that it returned.
        unsafe {
            said_of_error(|text, len| {
                fi_cq_strerror(cq, entry.prov_errno, entry.err_data, text, len)
            })
        }
    }
}
