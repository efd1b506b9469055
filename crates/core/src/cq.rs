//! Completion queues: fi_cq(3).
//!
//! Reading drives the endpoints that report here, whenever there is nothing to read and now and then otherwise.

mod entries;
mod error;
mod ring;

use core::ffi::{c_char, c_int, c_void};
use core::ptr::NonNull;
use std::ffi::CString;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use oxifabric_abi::compat::fi_cq_attr_1_9;
use oxifabric_abi::{
    FI_AFFINITY, FI_CLASS_CQ, FI_CQ_COND_NONE, FI_CQ_COND_THRESHOLD, fi_addr_t, fi_cq_err_entry,
    fi_ops, fi_ops_cq, fid, fid_cq,
};
use oxifabric_engine::{Completion, Failure};
use oxifabric_sync::SwitchLock;
use oxifabric_types::Errno;

pub(crate) use ring::NO_SOURCE;

use crate::absent::{self, no3};
use crate::domain::Domain;
use crate::drive::Drive;
use crate::handle::{self, Fid, Object, Ref, Uses, count, failed, object, publish, status, table};
use crate::queue_endpoints::QueueEndpoints;
use crate::wait::{Deadline, Doorbell};
use crate::wait_set::{Attached, WaitSet, Waitable};
use error::LastError;
use ring::{Detail, Entry, Format, Ring};

/// How many entries a queue has room for when the application has no opinion.
const DEFAULT_SIZE: usize = 1024;

/// How many entries are reserved at most; a longer queue grows as it fills.
const RESERVED: usize = 1 << 16;

/// Number of entries beyond which a queue counts as left unread, unless the application asked for a longer one. They are what an application
/// may find after it computed for long, and need 64 MiB.
pub(crate) const UNREAD: usize = 1 << 20;

/// How long a blocking read looks again and again before it sleeps.
const SPIN: Duration = Duration::from_micros(20);

/// Reads from a queue that is not empty, after which the endpoints are driven all the same.
const READS_PER_DRIVE: u32 = 32;

/// A completion queue.
#[repr(C)]
pub(crate) struct Cq {
    fid: Fid<fid_cq>,
    /// The place in a wait set. Before the rest, so that the object leaves the set before it is taken apart.
    set: OnceLock<Attached>,
    uses: Uses,
    domain: Ref<Domain>,
    ring: SwitchLock<Ring>,
    /// How many entries the ring has: a hint that spares taking the lock of an empty one.
    queued: AtomicUsize,
    /// How many it may have before it counts as left unread.
    unread: usize,
    /// Reads since the endpoints were driven last; a hint, so races on it do no harm.
    reads: AtomicU32,
    endpoints: QueueEndpoints,
    bell: Doorbell,
    /// The condition of blocking reads is a number of entries.
    threshold: bool,
    last_error: LastError,
}

// SAFETY: `repr(C)`, begins with its handle; `publish` boxes every one with `BASE`.
unsafe impl Object for Cq {
    type Handle = fid_cq;
    const CLASS: usize = FI_CLASS_CQ;

    fn ops() -> &'static fi_ops {
        &BASE
    }

    fn uses(&self) -> &Uses {
        &self.uses
    }
}

impl Cq {
    /// Opens a queue in a domain; without attributes, one for contexts that cannot be waited for.
    ///
    /// # Errors
    /// `INVAL`, `MFILE`.
    ///
    /// # Safety
    /// The attributes of `FI_WAIT_SET` name an open wait set.
    pub(crate) unsafe fn open(
        domain: &Domain,
        attr: Option<&fi_cq_attr_1_9>,
        context: *mut c_void,
    ) -> Result<*mut fid_cq, Errno> {
        let attr = attr.copied().unwrap_or_default();
        let format = Format::from_raw(attr.format).ok_or(Errno::INVAL)?;
        if attr.flags & !FI_AFFINITY != 0
            || !matches!(attr.wait_cond, FI_CQ_COND_NONE | FI_CQ_COND_THRESHOLD)
        {
            return Err(Errno::INVAL);
        }
        // SAFETY: the caller's contract.
        let set = unsafe { WaitSet::of(attr.wait_obj, attr.wait_set) }?;
        let bell = domain.bell(set, attr.wait_obj)?;
        let size = if attr.size == 0 {
            DEFAULT_SIZE
        } else {
            attr.size.min(RESERVED)
        };
        let fid = fid_cq {
            fid: handle::new_fid::<Self>(context),
            ops: table(&OPS),
        };
        // SAFETY: with the lock off, the application promised that one thread at a time uses the domain's objects; the
        // ring calls no other object.
        let ring = unsafe { SwitchLock::new(Ring::new(format, size), domain.locks()) };
        let cq = publish(Self {
            fid: Fid::new(fid),
            uses: Uses::none(),
            domain: Ref::to(domain),
            ring,
            queued: AtomicUsize::new(0),
            unread: attr.size.max(UNREAD),
            reads: AtomicU32::new(0),
            endpoints: QueueEndpoints::none(domain.locks(), Some(Arc::clone(domain.progress()))),
            bell,
            set: OnceLock::new(),
            threshold: attr.wait_cond == FI_CQ_COND_THRESHOLD,
            last_error: LastError::none(),
        });
        // SAFETY: the queue was just published and no other thread has it; it leaves the set before it goes.
        unsafe { WaitSet::admit(set, cq, |cq: &Self| &cq.set) }
    }

    /// Queues an operation that ended well.
    #[inline(always)]
    pub(crate) fn push(&self, completion: &Completion, source: fi_addr_t) {
        let mut ring = self.ring.lock();
        ring.push(completion, source);
        self.queued.store(ring.len(), Ordering::Relaxed);
        drop(ring);
        self.bell.ring();
    }

    /// Queues an operation that failed.
    pub(crate) fn push_failure(
        &self,
        failure: &Failure,
        source: fi_addr_t,
        reason: Option<CString>,
    ) {
        self.with_ring(|ring| ring.push_failure(failure, source, reason));
        self.bell.ring();
    }

    /// Queues a message that was received, but from an address that is not in the vector.
    #[cold]
    pub(crate) fn push_unknown(&self, completion: &Completion, address: Vec<u8>) {
        self.with_ring(|ring| ring.push_unknown(completion, address));
        self.bell.ring();
    }

    /// Takes the error at the front.
    fn take_failure(&self) -> Option<(Entry, Detail)> {
        self.with_ring(Ring::take_failure)
    }

    /// Takes the lock of the ring, and keeps the hint up to date.
    #[inline(always)]
    fn with_ring<R>(&self, call: impl FnOnce(&mut Ring) -> R) -> R {
        let mut ring = self.ring.lock();
        let result = call(&mut ring);
        self.queued.store(ring.len(), Ordering::Relaxed);
        result
    }

    /// Returns whether the application leaves entries unread, so many that no thread adds to them which does not read the queue.
    pub(crate) fn is_left_unread(&self) -> bool {
        self.queued.load(Ordering::Relaxed) >= self.unread
    }

    /// Returns how many entries wait.
    #[cfg(test)]
    pub(crate) fn queued(&self) -> usize {
        self.queued.load(Ordering::Relaxed)
    }

    /// Returns the domain.
    pub(crate) fn domain(&self) -> &Domain {
        &self.domain
    }

    /// Returns whether threads may sleep until something is queued.
    pub(crate) const fn waits(&self) -> bool {
        self.bell.has_fd()
    }

    /// Lets an endpoint report here and be driven from here.
    ///
    /// # Errors
    /// As [`QueueEndpoints::add`].
    ///
    /// # Safety
    /// As [`QueueEndpoints::add`].
    pub(crate) unsafe fn join(&self, endpoint: NonNull<dyn Drive>) -> Result<(), Errno> {
        // SAFETY: the caller's contract, passed on.
        unsafe { self.endpoints.add(endpoint, &self.bell) }
    }

    /// Ends what [`Cq::join`] began. Entries of the endpoint stay readable.
    pub(crate) fn leave(&self, endpoint: NonNull<dyn Drive>) {
        self.endpoints.remove(endpoint, &self.bell);
    }

    /// Wakes the threads that sleep here: they look by themselves.
    pub(crate) fn wake_sleepers(&self) {
        self.bell.ring();
    }

    /// Gets ready for sleep (fi_trywait(3)).
    ///
    /// # Errors
    /// `INVAL` without a file descriptor.
    pub(crate) fn try_sleep(&self) -> Result<bool, Errno> {
        if !self.bell.has_fd() {
            return Err(Errno::INVAL);
        }
        Ok(self.ready_to_sleep(1) && self.domain.lets_sleep(&self.bell))
    }

    fn ready_to_sleep(&self, wanted: usize) -> bool {
        self.endpoints
            .try_sleep(&self.bell, || !self.ring.lock().satisfies(wanted))
    }

    /// Reads without waiting (fi_cq(3) "fi_cq_read").
    ///
    /// # Safety
    /// As [`Ring::take`].
    #[inline(always)]
    unsafe fn read(&self, buf: *mut u8, count: usize, sources: *mut u64) -> Result<usize, Errno> {
        if count == 0 {
            return self.drive();
        }
        if buf.is_null() {
            return Err(Errno::INVAL);
        }
        let due = self.reads.load(Ordering::Relaxed);
        if due < READS_PER_DRIVE
            && self.queued.load(Ordering::Relaxed) != 0
            && !self.domain.progress().is_holding()
        {
            self.reads.store(due + 1, Ordering::Relaxed);
        } else {
            self.reads.store(0, Ordering::Relaxed);
            self.endpoints.drive();
            if self.queued.load(Ordering::Relaxed) == 0 {
                return Err(Errno::AGAIN);
            }
        }
        // SAFETY: the caller's contract, passed on.
        unsafe { self.take(buf, count, sources) }
    }

    /// Takes entries out of the ring.
    ///
    /// # Safety
    /// As [`Ring::take`].
    #[inline(always)]
    unsafe fn take(&self, buf: *mut u8, count: usize, sources: *mut u64) -> Result<usize, Errno> {
        let mut ring = self.ring.lock();
        // SAFETY: the caller's contract, passed on.
        let taken = unsafe { ring.take(buf, count, sources) };
        self.queued.store(ring.len(), Ordering::Relaxed);
        taken
    }

    /// Drives the endpoints: a read of no entries.
    ///
    /// # Errors
    /// `AGAIN` when nothing is queued.
    pub(crate) fn drive(&self) -> Result<usize, Errno> {
        self.endpoints.progress();
        match self.queued.load(Ordering::Relaxed) {
            0 => Err(Errno::AGAIN),
            _ => Ok(0),
        }
    }

    /// Reads, waiting until something is there (fi_cq(3) "fi_cq_sread").
    ///
    /// # Safety
    /// As [`Ring::take`].
    unsafe fn read_wait(
        &self,
        buf: *mut u8,
        count: usize,
        sources: *mut u64,
        wanted: usize,
        timeout_ms: c_int,
    ) -> Result<usize, Errno> {
        if !self.bell.blocks() {
            return Err(Errno::NOSYS);
        }
        let deadline = Deadline::after_ms(timeout_ms);
        let spin = Instant::now() + SPIN;
        loop {
            if self.has(wanted) || deadline.passed() {
                // SAFETY: the caller's contract, passed on.
                match unsafe { self.read(buf, count, sources) } {
                    Err(Errno::AGAIN) if !deadline.passed() => {}
                    read => return read,
                }
            }
            if self.bell.take_signal() {
                return Err(Errno::AGAIN);
            }
            if Instant::now() < spin || !self.ready_to_sleep(wanted) {
                continue;
            }
            if !self.bell.sleep(deadline.slice(self.endpoints.slice())) {
                return Err(Errno::AGAIN);
            }
        }
    }

    /// Returns whether `wanted` entries wait, or an error, after driving the endpoints if they do not.
    fn has(&self, wanted: usize) -> bool {
        if self.ring.lock().satisfies(wanted) {
            return true;
        }
        self.endpoints.progress();
        self.ring.lock().satisfies(wanted)
    }

    /// Returns how many entries a blocking read waits for. The condition is the number itself, not a pointer to one.
    fn wanted(&self, count: usize, cond: *const c_void) -> usize {
        if self.threshold {
            cond.addr().clamp(1, count.max(1))
        } else {
            1
        }
    }
}

impl Waitable for Cq {
    fn is_quiet(&self) -> bool {
        self.ready_to_sleep(1)
    }

    fn bell(&self) -> &Doorbell {
        &self.bell
    }
}

static BASE: fi_ops = fi_ops {
    close: Some(close),
    control: Some(control),
    ..absent::BASE
};

static OPS: fi_ops_cq = fi_ops_cq {
    read: Some(read),
    readfrom: Some(readfrom),
    readerr: Some(readerr),
    sread: Some(sread),
    sreadfrom: Some(sreadfrom),
    signal: Some(signal),
    strerror: Some(strerror),
    export_xpu: Some(no3),
    ..fi_ops_cq::NONE
};

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: the table is only in the handles of queues, and the application gives this one up.
    status(unsafe { handle::close::<Cq>(fid) })
}

unsafe extern "C" fn control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: the table is only in the handles of queues.
    let cq: &Cq = unsafe { object(fid.cast()) };
    // SAFETY: the application passes what the command takes.
    status(unsafe {
        match cq.set.get() {
            Some(set) => set.control(command, arg),
            None => cq.bell.control(command, arg),
        }
    })
}

unsafe extern "C" fn read(cq: *mut fid_cq, buf: *mut c_void, entries: usize) -> isize {
    // SAFETY: the table is only in the handles of queues; the buffer is the application's.
    count(unsafe { object::<Cq>(cq).read(buf.cast(), entries, core::ptr::null_mut()) })
}

unsafe extern "C" fn readfrom(
    cq: *mut fid_cq,
    buf: *mut c_void,
    entries: usize,
    src_addr: *mut fi_addr_t,
) -> isize {
    // SAFETY: the table is only in the handles of queues; the buffers are the application's.
    count(unsafe { object::<Cq>(cq).read(buf.cast(), entries, src_addr) })
}

unsafe extern "C" fn sread(
    cq: *mut fid_cq,
    buf: *mut c_void,
    entries: usize,
    cond: *const c_void,
    timeout: c_int,
) -> isize {
    // SAFETY: the arguments are those of `sreadfrom`, which takes no addresses as well.
    unsafe { sreadfrom(cq, buf, entries, core::ptr::null_mut(), cond, timeout) }
}

unsafe extern "C" fn sreadfrom(
    cq: *mut fid_cq,
    buf: *mut c_void,
    entries: usize,
    src_addr: *mut fi_addr_t,
    cond: *const c_void,
    timeout: c_int,
) -> isize {
    // SAFETY: the table is only in the handles of queues.
    let cq: &Cq = unsafe { object(cq) };
    let wanted = cq.wanted(entries, cond);
    // SAFETY: the buffers are the application's.
    count(unsafe { cq.read_wait(buf.cast(), entries, src_addr, wanted, timeout) })
}

unsafe extern "C" fn readerr(cq: *mut fid_cq, buf: *mut fi_cq_err_entry, _flags: u64) -> isize {
    if buf.is_null() {
        return failed(Errno::INVAL);
    }
    // SAFETY: the table is only in the handles of queues; the entry is the application's.
    count(unsafe { object::<Cq>(cq).read_error(buf) })
}

unsafe extern "C" fn signal(cq: *mut fid_cq) -> c_int {
    // SAFETY: the table is only in the handles of queues.
    status(unsafe { object::<Cq>(cq) }.bell.signal())
}

unsafe extern "C" fn strerror(
    cq: *mut fid_cq,
    prov_errno: c_int,
    _err_data: *const c_void,
    buf: *mut c_char,
    len: usize,
) -> *const c_char {
    // SAFETY: the table is only in the handles of queues.
    let cq: &Cq = unsafe { object(cq) };
    // SAFETY: the buffer is the application's.
    unsafe { cq.last_error.spell(prov_errno, buf, len) }
}
