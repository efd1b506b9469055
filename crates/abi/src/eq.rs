//! Mirror of `rdma/fi_eq.h`: event queues, completion queues, counters and wait objects.

mod cntr;
mod cq;
mod wait;

pub use cntr::*;
pub use cq::*;
pub use wait::*;

use crate::*;
use core::ffi::{c_char, c_int, c_void};

// Events of an event queue.
pub const FI_NOTIFY: u32 = 0;
pub const FI_CONNREQ: u32 = 1;
pub const FI_CONNECTED: u32 = 2;
pub const FI_SHUTDOWN: u32 = 3;
pub const FI_MR_COMPLETE: u32 = 4;
pub const FI_AV_COMPLETE: u32 = 5;
pub const FI_JOIN_COMPLETE: u32 = 6;

/// How to open an event queue. Source: fi_eq(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_eq_attr {
    pub size: usize,
    pub flags: u64,
    pub wait_obj: fi_wait_obj,
    pub signaling_vector: c_int,
    pub wait_set: *mut fid_wait,
}

/// Event that an asynchronous control operation has completed. Source: fi_eq(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_eq_entry {
    pub fid: fid_t,
    pub context: *mut c_void,
    pub data: u64,
}

/// Event that a control operation has failed. Source: fi_eq(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_eq_err_entry {
    pub fid: fid_t,
    pub context: *mut c_void,
    pub data: u64,
    pub err: c_int,
    pub prov_errno: c_int,
    pub err_data: *mut c_void,
    pub err_data_size: usize,
}

/// Event of connection management; the data of the peer follow it. Source: fi_eq(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_eq_cm_entry {
    pub fid: fid_t,
    pub info: *mut fi_info,
    pub data: [u8; 0],
}

/// An event queue. Source: fi_eq(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fid_eq {
    pub fid: fid,
    pub ops: *mut fi_ops_eq,
}

ops_table! {
    /// Operations of an event queue. Source: fi_eq(3).
    fi_ops_eq {
        read(eq: *mut fid_eq, event: *mut u32, buf: *mut c_void, len: usize, flags: u64) -> isize;
        readerr(eq: *mut fid_eq, buf: *mut fi_eq_err_entry, flags: u64) -> isize;
        write(eq: *mut fid_eq, event: u32, buf: *const c_void, len: usize, flags: u64) -> isize;
        sread(
            eq: *mut fid_eq,
            event: *mut u32,
            buf: *mut c_void,
            len: usize,
            timeout: c_int,
            flags: u64,
        ) -> isize;
        strerror(
            eq: *mut fid_eq,
            prov_errno: c_int,
            err_data: *const c_void,
            buf: *mut c_char,
            len: usize,
        ) -> *const c_char;
    }
}

zeroed!(fi_eq_attr, fi_eq_entry, fi_eq_err_entry, fi_eq_cm_entry);
