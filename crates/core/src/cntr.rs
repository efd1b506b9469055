//! Counters of completions: fi_cntr(3).

use core::ffi::{c_int, c_void};
use core::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use oxifabric_abi::{
    FI_CLASS_CNTR, FI_CNTR_EVENTS_COMP, FI_WAIT_NONE, fi_cntr_attr, fi_ops, fi_ops_cntr, fid,
    fid_cntr,
};
use oxifabric_types::Errno;

use crate::absent;
use crate::clock::Deadline;
use crate::domain::Domain;
use crate::handle::{self, Fid, Object, Ref, Uses, object, publish, status, table};
use crate::members::{Drive, Members, try_sleep};
use crate::wait::{Doorbell, SLICE};

/// A counter.
#[repr(C)]
pub(crate) struct Cntr {
    fid: Fid<fid_cntr>,
    uses: Uses,
    domain: Ref<Domain>,
    value: AtomicU64,
    errors: AtomicU64,
    members: Members,
    bell: Doorbell,
}

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
    /// Opens a counter in a domain; without attributes, one that counts completions and can be waited for.
    ///
    /// # Errors
    /// `NOSYS` for other events and for wait sets, `INVAL`, `MFILE`.
    pub(crate) fn open(
        domain: &Domain,
        attr: Option<&fi_cntr_attr>,
        context: *mut c_void,
    ) -> Result<*mut fid_cntr, Errno> {
        let (events, wait_obj, flags) = match attr {
            Some(attr) => (attr.events, attr.wait_obj, attr.flags),
            None => (FI_CNTR_EVENTS_COMP, FI_WAIT_NONE, 0),
        };
        if events != FI_CNTR_EVENTS_COMP {
            return Err(Errno::NOSYS);
        }
        if flags != 0 {
            return Err(Errno::BADFLAGS);
        }
        let fid = fid_cntr {
            fid: handle::new_fid::<Self>(context),
            ops: table(&OPS),
        };
        Ok(publish(Self {
            fid: Fid::new(fid),
            uses: Uses::none(),
            domain: Ref::to(domain),
            value: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            members: Members::none(domain.locks()),
            bell: Doorbell::open(wait_obj)?,
        }))
    }

    /// Returns the domain.
    pub(crate) fn domain(&self) -> &Domain {
        &self.domain
    }

    /// Counts operations that ended well.
    #[inline]
    pub(crate) fn add(&self, by: u64) {
        self.value.fetch_add(by, Ordering::SeqCst);
        self.bell.ring();
    }

    /// Counts operations that failed.
    pub(crate) fn add_errors(&self, by: u64) {
        self.errors.fetch_add(by, Ordering::SeqCst);
        self.bell.ring();
    }

    /// Tells whether threads may sleep until it changes.
    pub(crate) const fn waits(&self) -> bool {
        self.bell.has_fd()
    }

    /// Lets an endpoint count here and be driven from here.
    ///
    /// # Errors
    /// As [`Members::add`].
    ///
    /// # Safety
    /// As [`Members::add`].
    pub(crate) unsafe fn join(&self, endpoint: NonNull<dyn Drive>) -> Result<(), Errno> {
        // SAFETY: the caller's contract, passed on.
        unsafe { self.members.add(endpoint, &self.bell) }
    }

    /// Ends what [`Cntr::join`] began.
    pub(crate) fn leave(&self, endpoint: NonNull<dyn Drive>) {
        self.members.remove(endpoint, &self.bell);
    }

    /// Gets ready for sleep (fi_trywait(3)).
    ///
    /// # Errors
    /// `INVAL` without a file descriptor.
    pub(crate) fn try_sleep(&self) -> Result<bool, Errno> {
        if !self.bell.has_fd() {
            return Err(Errno::INVAL);
        }
        let seen = self.snapshot();
        Ok(try_sleep(&self.members, &self.bell, || {
            self.snapshot() == seen
        }))
    }

    fn snapshot(&self) -> (u64, u64) {
        let value = self.value.load(Ordering::SeqCst);
        (value, self.errors.load(Ordering::SeqCst))
    }

    /// Blocks until the counter reaches `threshold` (fi_cntr(3) "fi_cntr_wait").
    fn wait(&self, threshold: u64, timeout_ms: c_int) -> Result<(), Errno> {
        if !self.bell.blocks() {
            return Err(Errno::NOSYS);
        }
        let deadline = Deadline::after_ms(timeout_ms);
        let errors = self.errors.load(Ordering::SeqCst);
        loop {
            self.members.progress();
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
            let unchanged = || self.snapshot() == (value, now);
            if try_sleep(&self.members, &self.bell, unchanged) {
                self.bell.sleep(deadline.slice(SLICE));
            }
        }
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
    ..fi_ops_cntr::NONE
};

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: the table is only in the handles of counters, and the application gives this one up.
    status(unsafe { handle::close::<Cntr>(fid) })
}

unsafe extern "C" fn control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: the table is only in the handles of counters.
    let cntr: &Cntr = unsafe { object(fid.cast()) };
    // SAFETY: the application passes what the command takes.
    status(unsafe { cntr.bell.control(command, arg) })
}

unsafe extern "C" fn read(cntr: *mut fid_cntr) -> u64 {
    // SAFETY: the table is only in the handles of counters.
    let cntr: &Cntr = unsafe { object(cntr) };
    cntr.members.progress();
    cntr.value.load(Ordering::SeqCst)
}

unsafe extern "C" fn readerr(cntr: *mut fid_cntr) -> u64 {
    // SAFETY: the table is only in the handles of counters.
    let cntr: &Cntr = unsafe { object(cntr) };
    cntr.members.progress();
    cntr.errors.load(Ordering::SeqCst)
}

unsafe extern "C" fn add(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: the table is only in the handles of counters.
    unsafe { object::<Cntr>(cntr) }.add(value);
    0
}

unsafe extern "C" fn adderr(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: the table is only in the handles of counters.
    unsafe { object::<Cntr>(cntr) }.add_errors(value);
    0
}

unsafe extern "C" fn set(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: the table is only in the handles of counters.
    let cntr: &Cntr = unsafe { object(cntr) };
    cntr.value.store(value, Ordering::SeqCst);
    cntr.bell.ring();
    0
}

unsafe extern "C" fn seterr(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: the table is only in the handles of counters.
    let cntr: &Cntr = unsafe { object(cntr) };
    cntr.errors.store(value, Ordering::SeqCst);
    cntr.bell.ring();
    0
}

unsafe extern "C" fn wait(cntr: *mut fid_cntr, threshold: u64, timeout: c_int) -> c_int {
    // SAFETY: the table is only in the handles of counters.
    status(unsafe { object::<Cntr>(cntr) }.wait(threshold, timeout))
}
