//! Calls on completion queues. Source: fi_cq(3).

use crate::*;
use core::ffi::{c_char, c_int, c_void};

calls! {
    /// Takes up to `count` completions, or returns `-FI_EAGAIN` or `-FI_EAVAIL`. Source: fi_cq(3).
    pub fi_cq_read: ops.read(cq: *mut fid_cq, buf: *mut c_void, count: usize) -> isize;

    /// Takes completions and the names of their senders. Source: fi_cq(3).
    pub fi_cq_readfrom: ops.readfrom(
        cq: *mut fid_cq,
        buf: *mut c_void,
        count: usize,
        src_addr: *mut fi_addr_t,
    ) -> isize;

    /// Takes completions, waiting up to `timeout` milliseconds. Source: fi_cq(3).
    pub fi_cq_sread: ops.sread(
        cq: *mut fid_cq,
        buf: *mut c_void,
        count: usize,
        cond: *const c_void,
        timeout: c_int,
    ) -> isize;

    /// Takes completions and the names of their senders, waiting up to `timeout` milliseconds. Source: fi_cq(3).
    pub fi_cq_sreadfrom: ops.sreadfrom(
        cq: *mut fid_cq,
        buf: *mut c_void,
        count: usize,
        src_addr: *mut fi_addr_t,
        cond: *const c_void,
        timeout: c_int,
    ) -> isize;

    /// Wakes a thread that waits. Source: fi_cq(3).
    pub fi_cq_signal: ops.signal(cq: *mut fid_cq) -> c_int;

    /// Spells an error of the provider. Source: fi_cq(3).
    pub fi_cq_strerror: ops.strerror(
        cq: *mut fid_cq,
        prov_errno: c_int,
        err_data: *const c_void,
        buf: *mut c_char,
        len: usize,
    ) -> *const c_char;

    /// Exports a queue to code on an accelerator. Source: fi_xpu(3).
    pub fi_cq_export_xpu: ops.export_xpu(
        cq: *mut fid_cq,
        flags: u64,
        xpu_cq: *mut fid_xpu_cq,
    ) -> c_int, in fi_ops_cq;
}

calls! {
    /// Takes one completion in error, whose `src_addr` an older provider may leave as it is.
    read_error: ops.readerr(cq: *mut fid_cq, buf: *mut fi_cq_err_entry, flags: u64) -> isize;
}

/// Takes one completion in error. Source: fi_cq(3).
///
/// # Safety
///
/// The object must be open, and every other argument valid in the way, and for as long as, the man page says.
#[inline]
pub unsafe fn fi_cq_readerr(cq: *mut fid_cq, buf: *mut fi_cq_err_entry, flags: u64) -> isize {
    if !buf.is_null() {
        // SAFETY: the caller passes a whole entry; providers before 1.20 do not know this member.
        unsafe { (*buf).src_addr = FI_ADDR_NOTAVAIL };
    }
    // SAFETY: the caller's contract, passed on.
    unsafe { read_error(cq, buf, flags) }
}
