//! The monitor of an application, which tells a registration cache what memory is gone. Source: rdma/fi_ext.h, fi_mr(3).
//!
//! There is no cache here, since nothing has to be registered before a device can use it: a monitor is taken and never
//! started, as in the C library while no provider caches anything. What it tells is true and changes nothing.

use core::ffi::{c_int, c_void};
use core::ptr::{self, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};

use oxifabric_abi::*;
use oxifabric_provider::log;

/// Operations of the object that takes a monitor, which stands for the cache.
pub(super) static IMPORTER: fi_ops = fi_ops {
    bind: Some(bind),
    ..super::IMPORTER
};

/// Operations of a monitor while it is imported.
static TAKEN: fi_ops = fi_ops {
    close: Some(close_imported),
    ..super::IMPORTER
};

/// What an imported monitor calls.
static NOTIFY: fi_ops_mem_notify = fi_ops_mem_notify {
    notify: Some(notify),
    ..fi_ops_mem_notify::NONE
};

/// The monitor that is imported. The pointer is compared and never followed.
static IMPORTED: AtomicPtr<fid> = AtomicPtr::new(null_mut());

/// Imports a monitor (fi_import_fid), which gets the operations to notify with and must stay where it is until it is closed.
///
/// Returns `-FI_EBUSY` while there is another one, `-FI_EINVAL` for what is no monitor or lacks operations.
///
/// # Safety
/// `monitor` is null or an object; one of the class of monitors is a `fid_mem_monitor`.
unsafe extern "C" fn bind(_fid: *mut fid, monitor: *mut fid, flags: u64) -> c_int {
    // SAFETY: the caller vouches for the object.
    if flags != 0 || monitor.is_null() || unsafe { (*monitor).fclass } != FI_CLASS_MEM_MONITOR {
        return -FI_EINVAL;
    }
    let whole = monitor.cast::<fid_mem_monitor>();
    // SAFETY: the class says what it is; operations are null or begin with their size.
    let size = unsafe { (*whole).export_ops.as_ref() }.map_or(0, |ops| ops.size);
    if size < size_of::<fi_ops_mem_monitor>() {
        return -FI_EINVAL;
    }
    let (order, failed) = (Ordering::AcqRel, Ordering::Relaxed);
    if IMPORTED
        .compare_exchange(null_mut(), monitor, order, failed)
        .is_err()
    {
        log::warn!("", Mr, "there is an imported monitor of memory already");
        return -FI_EBUSY;
    }
    // SAFETY: as above.
    unsafe {
        (*whole).fid.ops = ptr::from_ref(&TAKEN).cast_mut();
        (*whole).import_ops = ptr::from_ref(&NOTIFY).cast_mut();
    }
    log::info!(
        "",
        Mr,
        "a monitor of memory was imported; there is no cache to tell"
    );
    0
}

/// Another monitor may be imported; the structure remains the application's.
extern "C" fn close_imported(monitor: *mut fid) -> c_int {
    let (order, failed) = (Ordering::AcqRel, Ordering::Relaxed);
    match IMPORTED.compare_exchange(monitor, null_mut(), order, failed) {
        Ok(_) => 0,
        Err(_) => -FI_EINVAL,
    }
}

/// Does nothing: no registration outlives its memory here. May be called from within the application's allocator.
extern "C" fn notify(_monitor: *mut fid_mem_monitor, _addr: *const c_void, _len: usize) {}
