//! Counters of completions. Source: fi_cntr(3).

use alloc::sync::Arc;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU64, Ordering};

use oxifabric_abi::{
    FI_CLASS_CNTR, FI_CNTR_EVENTS_COMP, FI_WAIT_NONE, FI_WAIT_UNSPEC, fi_cntr_attr, fi_ops,
    fi_ops_cntr, fid, fid_cntr, fid_domain,
};
use oxifabric_kernel_sync::{Ended, Signal, Timeout};
use oxifabric_types::Errno;

use crate::domain::Domain;
use crate::handle::{Fid, Object, Ref, Uses, close, new_fid, object, publish, status, table};

/// An open counter.
#[repr(C)]
pub(crate) struct Cntr {
    fid: Fid<fid_cntr>,
    uses: Uses,
    _domain: Ref<Domain>,
    value: AtomicU64,
    errors: AtomicU64,
    changed: Signal,
}

// SAFETY: it begins with the handle, and only `open` makes one, of this type.
unsafe impl Object for Cntr {
    type Handle = fid_cntr;
    const CLASS: usize = FI_CLASS_CNTR;

    fn uses(&self) -> &Uses {
        &self.uses
    }
}

static OPS: fi_ops = fi_ops {
    close: Some(close_cntr),
    ..fi_ops::NONE
};

static TABLE: fi_ops_cntr = fi_ops_cntr {
    read: Some(read),
    readerr: Some(readerr),
    add: Some(add),
    set: Some(set),
    wait: Some(wait),
    adderr: Some(adderr),
    seterr: Some(seterr),
    ..fi_ops_cntr::NONE
};

impl Cntr {
    pub(crate) unsafe extern "C" fn open(
        domain: *mut fid_domain,
        attr: *mut fi_cntr_attr,
        place: *mut *mut fid_cntr,
        context: *mut c_void,
    ) -> c_int {
        // SAFETY: the table is only in handles of domains; the consumer passes attributes, or null.
        let (domain, attr) = unsafe { (Ref::<Domain>::of(domain), attr.as_ref()) };
        let is_known = attr.is_none_or(|attr| {
            attr.events == FI_CNTR_EVENTS_COMP
                && matches!(attr.wait_obj, FI_WAIT_NONE | FI_WAIT_UNSPEC)
        });
        if !is_known {
            return -Errno::NOSYS.raw();
        }
        let opened = Self::new(domain, context);
        // SAFETY: the consumer passes a place for the handle.
        status(opened.map(|cntr| unsafe { publish(cntr, place) }))
    }

    fn new(domain: Ref<Domain>, context: *mut c_void) -> Result<Arc<Self>, Errno> {
        let handle = fid_cntr {
            fid: new_fid::<Self>(context, &OPS),
            ops: table(&TABLE),
        };
        Ok(Arc::new(Self {
            fid: Fid::new(handle),
            uses: Uses::default(),
            _domain: domain,
            value: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            changed: Signal::new().ok_or(Errno::NOMEM)?,
        }))
    }

    /// Counts an operation that ended well, or did not.
    pub(crate) fn count(&self, is_well: bool) {
        let counter = if is_well { &self.value } else { &self.errors };
        counter.fetch_add(1, Ordering::Release);
        self.changed.raise();
    }

    /// Waits until the counter reaches `threshold`, or an error is counted.
    fn wait(&self, threshold: u64, mut timeout: Timeout) -> Result<(), Errno> {
        let errors = self.errors.load(Ordering::Acquire);
        loop {
            let number = self.changed.number();
            if self.value.load(Ordering::Acquire) >= threshold {
                return Ok(());
            }
            if self.errors.load(Ordering::Acquire) != errors {
                return Err(Errno::AVAIL);
            }
            let ended;
            (ended, timeout) = self.changed.wait(number, timeout);
            match ended {
                Ended::Raised => {}
                Ended::TimedOut => return Err(Errno::TIMEDOUT),
                Ended::Interrupted => return Err(Errno::INTR),
            }
        }
    }

    fn change(&self, change: impl FnOnce()) -> c_int {
        change();
        self.changed.raise();
        0
    }
}

unsafe extern "C" fn read(cntr: *mut fid_cntr) -> u64 {
    // SAFETY: the table is only in handles of counters.
    let cntr = unsafe { object::<Cntr>(cntr) };
    cntr.value.load(Ordering::Acquire)
}

unsafe extern "C" fn readerr(cntr: *mut fid_cntr) -> u64 {
    // SAFETY: as above.
    let cntr = unsafe { object::<Cntr>(cntr) };
    cntr.errors.load(Ordering::Acquire)
}

unsafe extern "C" fn add(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: as above.
    let cntr = unsafe { object::<Cntr>(cntr) };
    cntr.change(|| _ = cntr.value.fetch_add(value, Ordering::Release))
}

unsafe extern "C" fn set(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: as above.
    let cntr = unsafe { object::<Cntr>(cntr) };
    cntr.change(|| cntr.value.store(value, Ordering::Release))
}

unsafe extern "C" fn adderr(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: as above.
    let cntr = unsafe { object::<Cntr>(cntr) };
    cntr.change(|| _ = cntr.errors.fetch_add(value, Ordering::Release))
}

unsafe extern "C" fn seterr(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: as above.
    let cntr = unsafe { object::<Cntr>(cntr) };
    cntr.change(|| cntr.errors.store(value, Ordering::Release))
}

unsafe extern "C" fn wait(cntr: *mut fid_cntr, threshold: u64, timeout: c_int) -> c_int {
    // SAFETY: as above.
    let cntr = unsafe { object::<Cntr>(cntr) };
    status(cntr.wait(threshold, Timeout::from_ms(timeout)))
}

unsafe extern "C" fn close_cntr(fid: *mut fid) -> c_int {
    // SAFETY: the table is only in handles of counters.
    unsafe { close::<Cntr>(fid, |_| Ok(())) }
}
