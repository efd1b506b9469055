//! Counters of completions: fi_cntr(3).
//!
//! Counting is on the hot path of operations that have a counter: an addition, and two loads that tell whether work
//! waits for this value and whether a thread sleeps.

use core::ffi::{c_int, c_void};
use core::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use oxifabric_abi::compat::fi_cntr_attr_1_9;
use oxifabric_abi::{
    FI_CLASS_CNTR, FI_CNTR_EVENTS_BYTES, FI_CNTR_EVENTS_COMP, fi_ops, fi_ops_cntr, fid, fid_cntr,
};
use oxifabric_types::Errno;

use crate::absent::{self, no3};
use crate::domain::Domain;
use crate::drive::Drive;
use crate::handle::{self, Fid, Object, Ref, Uses, object, publish, status, table};
use crate::queue_endpoints::QueueEndpoints;
use crate::wait::{Deadline, Doorbell};
use crate::wait_set::{Attached, WaitSet, Waitable};

/// A counter.
#[repr(C)]
pub(crate) struct Cntr {
    fid: Fid<fid_cntr>,
    /// The place in a wait set. Before the rest, so that the object leaves the set before it is taken apart.
    set: OnceLock<Attached>,
    uses: Uses,
    domain: Ref<Domain>,
    /// Counts bytes instead of operations (`FI_CNTR_EVENTS_BYTES`).
    bytes: bool,
    value: AtomicU64,
    errors: AtomicU64,
    /// The smallest sum of value and errors that work waits for.
    awaited: AtomicU64,
    /// The values that a poll set reported last, or that the application set.
    reported: Snapshot,
    /// The values that a wait set reported last.
    woken: Snapshot,
    endpoints: QueueEndpoints,
    bell: Doorbell,
}

/// Value and errors at a moment.
#[derive(Default)]
struct Snapshot(AtomicU64, AtomicU64);

impl Snapshot {
    /// Takes over what is there now; returns whether it is anything new.
    fn take(&self, (value, errors): (u64, u64)) -> bool {
        let old = (
            self.0.swap(value, Ordering::Relaxed),
            self.1.swap(errors, Ordering::Relaxed),
        );
        old != (value, errors)
    }
}

/// No work waits.
const NEVER: u64 = u64::MAX;

// SAFETY: `repr(C)`, begins with its handle; `publish` boxes every one with `BASE`.
unsafe impl Object for Cntr {
    type Handle = fid_cntr;
    const CLASS: usize = FI_CLASS_CNTR;

    fn ops() -> &'static fi_ops {
        &BASE
    }

    fn uses(&self) -> &Uses {
        &self.uses
    }
}

impl Cntr {
    /// Opens a counter in a domain; without attributes, one that counts completions and cannot be waited for.
    ///
    /// # Errors
    /// `INVAL`, `BADFLAGS`, `MFILE`.
    ///
    /// # Safety
    /// The attributes of `FI_WAIT_SET` name an open wait set.
    pub(crate) unsafe fn open(
        domain: &Domain,
        attr: Option<&fi_cntr_attr_1_9>,
        context: *mut c_void,
    ) -> Result<*mut fid_cntr, Errno> {
        let attr = attr.copied().unwrap_or_default();
        if !matches!(attr.events, FI_CNTR_EVENTS_COMP | FI_CNTR_EVENTS_BYTES) {
            return Err(Errno::INVAL);
        }
        if attr.flags != 0 {
            return Err(Errno::BADFLAGS);
        }
        // SAFETY: the caller's contract.
        let set = unsafe { WaitSet::of(attr.wait_obj, attr.wait_set) }?;
        let bell = domain.bell(set, attr.wait_obj)?;
        let fid = fid_cntr {
            fid: handle::new_fid::<Self>(context),
            ops: table(&OPS),
        };
        let cntr = publish(Self {
            fid: Fid::new(fid),
            set: OnceLock::new(),
            uses: Uses::none(),
            domain: Ref::to(domain),
            bytes: attr.events == FI_CNTR_EVENTS_BYTES,
            value: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            awaited: AtomicU64::new(NEVER),
            reported: Snapshot::default(),
            woken: Snapshot::default(),
            endpoints: QueueEndpoints::none(domain.locks(), Some(Arc::clone(domain.progress()))),
            bell,
        });
        // SAFETY: the counter was just published and no other thread has it; it leaves the set before it goes.
        unsafe { WaitSet::admit(set, cntr, |cntr: &Self| &cntr.set) }
    }

    /// Returns the handle, which tells counters apart.
    pub(crate) const fn handle(&self) -> *const fid_cntr {
        self.fid.as_ptr()
    }

    /// Returns the domain.
    pub(crate) fn domain(&self) -> &Domain {
        &self.domain
    }

    /// Counts an operation that succeeded and moved `bytes` bytes.
    #[inline]
    pub(crate) fn count(&self, bytes: u64) {
        self.add(if self.bytes { bytes } else { 1 });
    }

    /// Counts an operation that failed, whatever is counted (fi_cntr(3) "FI_CNTR_EVENTS_BYTES").
    pub(crate) fn count_error(&self) {
        self.add_errors(1);
    }

    #[inline]
    pub(crate) fn add(&self, by: u64) {
        self.value.fetch_add(by, Ordering::SeqCst);
        self.changed();
    }

    fn add_errors(&self, by: u64) {
        self.errors.fetch_add(by, Ordering::SeqCst);
        self.changed();
    }

    /// Sets the value (fi_cntr_set).
    pub(crate) fn set(&self, value: u64) {
        self.value.store(value, Ordering::SeqCst);
        self.changed();
    }

    /// Looks for work that waits for this value, and wakes sleepers. Locks of endpoints may be held, so that work is only
    /// moved to the due queue here.
    #[inline]
    fn changed(&self) {
        if self.sum() >= self.awaited.load(Ordering::SeqCst) {
            self.cross();
        }
        self.bell.ring();
    }

    #[cold]
    fn cross(&self) {
        let progress = self.domain.progress();
        if progress.deferred_work().cross(self) {
            progress.deferred_work_is_due();
        }
    }

    /// Returns what thresholds of work are compared with (fi_trigger(3)): operations that ended, well or not.
    pub(crate) fn sum(&self) -> u64 {
        let (value, errors) = self.snapshot();
        value.saturating_add(errors)
    }

    /// Sets the sum that work waits for next. A thread that counts compares it after counting; so the caller reads the
    /// sum after this.
    pub(crate) fn await_sum(&self, sum: Option<u64>) {
        self.awaited.store(sum.unwrap_or(NEVER), Ordering::SeqCst);
    }

    /// Starts work that the application's own change made due. No locks are held.
    fn changed_by_hand(&self) {
        self.reported.take(self.snapshot());
        self.domain.progress().run_deferred_work();
    }

    /// Lets the counter drive every endpoint of its domain: what it counts may come from any of them.
    ///
    /// # Errors
    /// `MFILE`.
    pub(crate) fn widen(&self) -> Result<(), Errno> {
        let all_endpoints = self.domain.progress().all_endpoints()?;
        // SAFETY: the domain outlives its counters, and so do its endpoints taken together.
        unsafe { self.endpoints.add(all_endpoints, &self.bell) }
    }

    /// Moves what can be moved; returns whether the counter changed since [`Cntr::take_news`] or the application's last own
    /// change (fi_poll(3)).
    pub(crate) fn drive(&self) -> bool {
        self.endpoints.progress();
        let (value, errors) = self.snapshot();
        let Snapshot(reported, reported_errors) = &self.reported;
        (
            reported.load(Ordering::Relaxed),
            reported_errors.load(Ordering::Relaxed),
        ) != (value, errors)
    }

    /// Marks the current values as reported; returns whether they were new.
    pub(crate) fn take_news(&self) -> bool {
        self.reported.take(self.snapshot())
    }

    /// Returns whether threads may sleep until it changes.
    pub(crate) const fn waits(&self) -> bool {
        self.bell.has_fd()
    }

    /// Lets an endpoint count here and be driven from here.
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

    /// Ends what [`Cntr::join`] began.
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
        Ok(self.ready_to_sleep(self.snapshot()) && self.domain.lets_sleep(&self.bell))
    }

    fn ready_to_sleep(&self, seen: (u64, u64)) -> bool {
        self.endpoints
            .try_sleep(&self.bell, || self.snapshot() == seen)
    }

    fn snapshot(&self) -> (u64, u64) {
        let value = self.value.load(Ordering::SeqCst);
        (value, self.errors.load(Ordering::SeqCst))
    }

    /// Blocks until the counter reaches `threshold` (fi_cntr(3) "fi_cntr_wait"). Programs are known to wait for counters
    /// that they opened without a wait object; they poll here instead of failing.
    fn wait(&self, threshold: u64, timeout_ms: c_int) -> Result<(), Errno> {
        if self.set.get().is_some() {
            return Err(Errno::NOSYS);
        }
        let deadline = Deadline::after_ms(timeout_ms);
        let errors = self.errors.load(Ordering::SeqCst);
        loop {
            self.endpoints.progress();
            let (value, now) = self.snapshot();
            if value >= threshold {
                return Ok(());
            }
            if now != errors {
                return Err(Errno::AVAIL);
            }
            if deadline.passed() {
                return Err(Errno::TIMEDOUT);
            }
            if self.ready_to_sleep((value, now)) {
                self.bell.sleep(deadline.slice(self.endpoints.slice()));
            }
        }
    }
}

impl Waitable for Cntr {
    fn is_quiet(&self) -> bool {
        let seen = self.snapshot();
        if self.woken.take(seen) {
            return false;
        }
        self.ready_to_sleep(seen)
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

static OPS: fi_ops_cntr = fi_ops_cntr {
    read: Some(read),
    readerr: Some(readerr),
    add: Some(add),
    set: Some(set),
    wait: Some(wait),
    adderr: Some(adderr),
    seterr: Some(seterr),
    export_xpu: Some(no3),
    ..fi_ops_cntr::NONE
};

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: the table is only in the handles of counters.
    let cntr: &Cntr = unsafe { object(fid.cast()) };
    // Another thread may have started the last work that waited for it, or counted its end there, and refer to it for a moment longer.
    cntr.domain.progress().deferred_work().await_others();
    // SAFETY: as above, and the application gives this one up.
    status(unsafe { handle::close::<Cntr>(fid) })
}

unsafe extern "C" fn control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: the table is only in the handles of counters.
    let cntr: &Cntr = unsafe { object(fid.cast()) };
    // SAFETY: the application passes what the command takes.
    status(unsafe {
        match cntr.set.get() {
            Some(set) => set.control(command, arg),
            None => cntr.bell.control(command, arg),
        }
    })
}

unsafe extern "C" fn read(cntr: *mut fid_cntr) -> u64 {
    // SAFETY: the table is only in the handles of counters.
    let cntr: &Cntr = unsafe { object(cntr) };
    cntr.endpoints.progress();
    cntr.value.load(Ordering::SeqCst)
}

unsafe extern "C" fn readerr(cntr: *mut fid_cntr) -> u64 {
    // SAFETY: the table is only in the handles of counters.
    let cntr: &Cntr = unsafe { object(cntr) };
    cntr.endpoints.progress();
    cntr.errors.load(Ordering::SeqCst)
}

unsafe extern "C" fn add(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: the table is only in the handles of counters.
    let cntr: &Cntr = unsafe { object(cntr) };
    cntr.add(value);
    cntr.changed_by_hand();
    0
}

unsafe extern "C" fn adderr(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: the table is only in the handles of counters.
    let cntr: &Cntr = unsafe { object(cntr) };
    cntr.add_errors(value);
    cntr.changed_by_hand();
    0
}

unsafe extern "C" fn set(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: the table is only in the handles of counters.
    let cntr: &Cntr = unsafe { object(cntr) };
    cntr.set(value);
    cntr.changed_by_hand();
    0
}

unsafe extern "C" fn seterr(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: the table is only in the handles of counters.
    let cntr: &Cntr = unsafe { object(cntr) };
    cntr.errors.store(value, Ordering::SeqCst);
    cntr.changed();
    cntr.changed_by_hand();
    0
}

unsafe extern "C" fn wait(cntr: *mut fid_cntr, threshold: u64, timeout: c_int) -> c_int {
    // SAFETY: the table is only in the handles of counters.
    status(unsafe { object::<Cntr>(cntr) }.wait(threshold, timeout))
}
