//! Counters. Source: fi_cntr(3).

use crate::*;
use core::ffi::c_int;

/// What a counter counts.
pub type fi_cntr_events = u32;
pub const FI_CNTR_EVENTS_COMP: fi_cntr_events = 0;
pub const FI_CNTR_EVENTS_BYTES: fi_cntr_events = 1;

/// How to open a counter. Source: fi_cntr(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_cntr_attr {
    pub events: fi_cntr_events,
    pub wait_obj: fi_wait_obj,
    pub wait_set: *mut fid_wait,
    pub flags: u64,
    /// Only there under the flag `FI_XPU`: structures of applications built before 2.7 end ahead of it.
    pub xpu_ctx: *mut fid_xpu_ctx,
}

/// A counter of completions. Source: fi_cntr(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fid_cntr {
    pub fid: fid,
    pub ops: *mut fi_ops_cntr,
}

ops_table! {
    /// Operations of a counter. Source: fi_cntr(3).
    fi_ops_cntr {
        read(cntr: *mut fid_cntr) -> u64;
        readerr(cntr: *mut fid_cntr) -> u64;
        add(cntr: *mut fid_cntr, value: u64) -> c_int;
        set(cntr: *mut fid_cntr, value: u64) -> c_int;
        wait(cntr: *mut fid_cntr, threshold: u64, timeout: c_int) -> c_int;
        adderr(cntr: *mut fid_cntr, value: u64) -> c_int;
        seterr(cntr: *mut fid_cntr, value: u64) -> c_int;
        export_xpu(cntr: *mut fid_cntr, flags: u64, xpu_cntr: *mut fid_xpu_cntr) -> c_int;
    }
}

zeroed!(fi_cntr_attr);
