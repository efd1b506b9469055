//! fi_open, and what it opens: the log, into which an application imports its own, and the registration cache, which takes
//! the application's monitor of memory. Source: rdma/fi_ext.h.

mod log;
mod monitor;

use core::ffi::{c_char, c_int, c_void};
use std::ffi::CStr;

use oxifabric_abi::*;

/// The first API version with objects to import.
const SINCE: u32 = FI_VERSION(1, 13);

/// Opens an object of the library by name, as something to import into: `logging`, or `mr_cache`.
///
/// Returns `-FI_ENOSYS` for other names, `-FI_EALREADY` while a log is imported, `-FI_EINVAL`, `-FI_EBADFLAGS`.
///
/// # Safety
/// `name` is null or a string, `fid` is null or may be written.
pub(super) unsafe extern "C" fn open(
    version: u32,
    name: *const c_char,
    _attr: *mut c_void,
    attr_len: usize,
    flags: u64,
    fid: *mut *mut fid,
    context: *mut c_void,
) -> c_int {
    if name.is_null() || fid.is_null() {
        return -FI_EINVAL;
    }
    // SAFETY: the caller vouches for the string.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    let (fclass, ops) = if name.eq_ignore_ascii_case(b"logging") {
        (FI_CLASS_LOG, &log::IMPORTER)
    } else if name.eq_ignore_ascii_case(b"mr_cache") {
        (FI_CLASS_MR_CACHE, &monitor::IMPORTER)
    } else {
        return -FI_ENOSYS;
    };
    if version < SINCE || attr_len != 0 {
        return -FI_EINVAL;
    }
    if flags != 0 {
        return -FI_EBADFLAGS;
    }
    if fclass == FI_CLASS_LOG && log::is_imported() {
        return -FI_EALREADY;
    }
    let importer = Box::new(oxifabric_abi::fid {
        fclass,
        context,
        ops: core::ptr::from_ref(ops).cast_mut(),
    });
    // SAFETY: the caller vouches for the place.
    unsafe { *fid = Box::into_raw(importer) };
    0
}

/// Operations of what [`open`] opens: an importer; each kind imports something else.
const IMPORTER: fi_ops = fi_ops {
    close: Some(close),
    bind: Some(no_bind),
    control: Some(no_control),
    ops_open: Some(no_ops),
    tostr: Some(no_tostr),
    ops_set: Some(no_ops),
    ..fi_ops::NONE
};

/// Releases the handle.
///
/// # Safety
/// As for fi_close(3).
unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: the table is only in what `open` boxed, and the application gives it up.
    drop(unsafe { Box::from_raw(fid) });
    0
}

extern "C" fn no_bind(_fid: *mut fid, _bfid: *mut fid, _flags: u64) -> c_int {
    -FI_ENOSYS
}

extern "C" fn no_control(_fid: *mut fid, _command: c_int, _arg: *mut c_void) -> c_int {
    -FI_ENOSYS
}

extern "C" fn no_tostr(_fid: *const fid, _buf: *mut c_char, _len: usize) -> c_int {
    -FI_ENOSYS
}

extern "C" fn no_ops<T>(
    _fid: *mut fid,
    _name: *const c_char,
    _flags: u64,
    _ops: T,
    _context: *mut c_void,
) -> c_int {
    -FI_ENOSYS
}
