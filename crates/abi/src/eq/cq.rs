//! Completion queues. Source: fi_cq(3).

use crate::*;
use core::ffi::{c_char, c_int, c_void};

/// Which entry structure a completion queue is read with.
pub type fi_cq_format = u32;
pub const FI_CQ_FORMAT_UNSPEC: fi_cq_format = 0;
pub const FI_CQ_FORMAT_CONTEXT: fi_cq_format = 1;
pub const FI_CQ_FORMAT_MSG: fi_cq_format = 2;
pub const FI_CQ_FORMAT_DATA: fi_cq_format = 3;
pub const FI_CQ_FORMAT_TAGGED: fi_cq_format = 4;

/// What the condition of a blocking read means.
pub type fi_cq_wait_cond = u32;
pub const FI_CQ_COND_NONE: fi_cq_wait_cond = 0;
pub const FI_CQ_COND_THRESHOLD: fi_cq_wait_cond = 1;

/// How to open a completion queue. Source: fi_cq(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_cq_attr {
    pub size: usize,
    pub flags: u64,
    pub format: fi_cq_format,
    pub wait_obj: fi_wait_obj,
    pub signaling_vector: c_int,
    pub wait_cond: fi_cq_wait_cond,
    pub wait_set: *mut fid_wait,
    /// Only there under the flag `FI_XPU`: structures of applications built before 2.7 end ahead of it.
    pub xpu_ctx: *mut fid_xpu_ctx,
}

/// Completion in `FI_CQ_FORMAT_CONTEXT`. Source: fi_cq(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_cq_entry {
    pub op_context: *mut c_void,
}

/// Completion in `FI_CQ_FORMAT_MSG`. Source: fi_cq(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_cq_msg_entry {
    pub op_context: *mut c_void,
    pub flags: u64,
    pub len: usize,
}

/// Completion in `FI_CQ_FORMAT_DATA`. Source: fi_cq(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_cq_data_entry {
    pub op_context: *mut c_void,
    pub flags: u64,
    pub len: usize,
    pub buf: *mut c_void,
    pub data: u64,
}

/// Completion in `FI_CQ_FORMAT_TAGGED`. Source: fi_cq(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_cq_tagged_entry {
    pub op_context: *mut c_void,
    pub flags: u64,
    pub len: usize,
    pub buf: *mut c_void,
    pub data: u64,
    pub tag: u64,
}

/// Completion in error. Applications before API 1.5 have no `err_data_size`, those before 1.20 no `src_addr`. Source: fi_cq(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_cq_err_entry {
    pub op_context: *mut c_void,
    pub flags: u64,
    pub len: usize,
    pub buf: *mut c_void,
    pub data: u64,
    pub tag: u64,
    pub olen: usize,
    pub err: c_int,
    pub prov_errno: c_int,
    pub err_data: *mut c_void,
    pub err_data_size: usize,
    pub src_addr: fi_addr_t,
}

/// A completion queue. Source: fi_cq(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fid_cq {
    pub fid: fid,
    pub ops: *mut fi_ops_cq,
}

ops_table! {
    /// Operations of a completion queue. Source: fi_cq(3).
    fi_ops_cq {
        read(cq: *mut fid_cq, buf: *mut c_void, count: usize) -> isize;
        readfrom(
            cq: *mut fid_cq,
            buf: *mut c_void,
            count: usize,
            src_addr: *mut fi_addr_t,
        ) -> isize;
        readerr(cq: *mut fid_cq, buf: *mut fi_cq_err_entry, flags: u64) -> isize;
        sread(
            cq: *mut fid_cq,
            buf: *mut c_void,
            count: usize,
            cond: *const c_void,
            timeout: c_int,
        ) -> isize;
        sreadfrom(
            cq: *mut fid_cq,
            buf: *mut c_void,
            count: usize,
            src_addr: *mut fi_addr_t,
            cond: *const c_void,
            timeout: c_int,
        ) -> isize;
        signal(cq: *mut fid_cq) -> c_int;
        strerror(
            cq: *mut fid_cq,
            prov_errno: c_int,
            err_data: *const c_void,
            buf: *mut c_char,
            len: usize,
        ) -> *const c_char;
        export_xpu(cq: *mut fid_cq, flags: u64, xpu_cq: *mut fid_xpu_cq) -> c_int;
    }
}

zeroed!(
    fi_cq_attr,
    fi_cq_entry,
    fi_cq_msg_entry,
    fi_cq_data_entry,
    fi_cq_tagged_entry,
    fi_cq_err_entry
);
