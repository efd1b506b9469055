//! Calls on counters. Source: fi_cntr(3).

use crate::*;
use core::ffi::c_int;

calls! {
    /// The count of successes. Source: fi_cntr(3).
    pub fi_cntr_read: ops.read(cntr: *mut fid_cntr) -> u64;

    /// The count of errors. Source: fi_cntr(3).
    pub fi_cntr_readerr: ops.readerr(cntr: *mut fid_cntr) -> u64;

    /// Adds to the count of successes. Source: fi_cntr(3).
    pub fi_cntr_add: ops.add(cntr: *mut fid_cntr, value: u64) -> c_int;

    /// Adds to the count of errors. Source: fi_cntr(3).
    pub fi_cntr_adderr: ops.adderr(cntr: *mut fid_cntr, value: u64) -> c_int, in fi_ops_cntr;

    /// Sets the count of successes. Source: fi_cntr(3).
    pub fi_cntr_set: ops.set(cntr: *mut fid_cntr, value: u64) -> c_int;

    /// Sets the count of errors. Source: fi_cntr(3).
    pub fi_cntr_seterr: ops.seterr(cntr: *mut fid_cntr, value: u64) -> c_int, in fi_ops_cntr;

    /// Waits up to `timeout` milliseconds for the count to reach `threshold`. Source: fi_cntr(3).
    pub fi_cntr_wait: ops.wait(cntr: *mut fid_cntr, threshold: u64, timeout: c_int) -> c_int;

    /// Exports a counter to code on an accelerator. Source: fi_xpu(3).
    pub fi_cntr_export_xpu: ops.export_xpu(
        cntr: *mut fid_cntr,
        flags: u64,
        xpu_cntr: *mut fid_xpu_cntr,
    ) -> c_int, in fi_ops_cntr;
}
