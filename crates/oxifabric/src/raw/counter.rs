//! Counters. Source: fi_cntr(3).

use core::ffi::c_int;
use core::ptr;
use std::sync::Arc;

use oxifabric_abi::{
    FI_CNTR_EVENTS_COMP, FI_WAIT_NONE, FI_WAIT_UNSPEC, fi_cntr_add, fi_cntr_attr, fi_cntr_open,
    fi_cntr_read, fi_cntr_readerr, fi_cntr_set, fi_cntr_wait, fid, fid_cntr,
};
use oxifabric_types::Errno;

use super::handle::Handle;
use super::{DomainObject, check};

/// An open counter.
pub(crate) struct CounterObject {
    handle: Handle<fid_cntr>,
    domain: Arc<DomainObject>,
}

impl CounterObject {
    /// Opens a counter of completions; `waits` makes blocking waits possible.
    pub(crate) fn open(domain: Arc<DomainObject>, waits: bool) -> Result<Self, Errno> {
        let mut attr = fi_cntr_attr {
            events: FI_CNTR_EVENTS_COMP,
            wait_obj: if waits { FI_WAIT_UNSPEC } else { FI_WAIT_NONE },
            ..fi_cntr_attr::ZERO
        };
        let parent = domain.as_ptr();
        // SAFETY: the domain is open, and the attributes outlive the call.
        let handle = unsafe {
            Handle::open(|counter| fi_cntr_open(parent, &mut attr, counter, ptr::null_mut()))
        }?;
        Ok(Self { handle, domain })
    }

    pub(crate) fn domain(&self) -> &Arc<DomainObject> {
        &self.domain
    }

    pub(super) fn fid(&self) -> *mut fid {
        self.handle.fid()
    }

    pub(crate) fn read(&self) -> u64 {
        // SAFETY: the counter is open.
        unsafe { fi_cntr_read(self.handle.as_ptr()) }
    }

    pub(crate) fn errors(&self) -> u64 {
        // SAFETY: the counter is open.
        unsafe { fi_cntr_readerr(self.handle.as_ptr()) }
    }

    pub(crate) fn add(&self, value: u64) -> Result<(), Errno> {
        // SAFETY: the counter is open.
        check(unsafe { fi_cntr_add(self.handle.as_ptr(), value) })
    }

    pub(crate) fn set(&self, value: u64) -> Result<(), Errno> {
        // SAFETY: the counter is open.
        check(unsafe { fi_cntr_set(self.handle.as_ptr(), value) })
    }

    /// Waits until the value is at least the threshold; `AVAIL` when an operation failed meanwhile.
    pub(crate) fn wait(&self, threshold: u64, timeout_ms: c_int) -> Result<(), Errno> {
        // SAFETY: the counter is open.
        check(unsafe { fi_cntr_wait(self.handle.as_ptr(), threshold, timeout_ms) })
    }
}
