//! Mirror of `rdma/fi_trigger.h`: triggered operations and deferred work.

use crate::*;
use core::ffi::{c_int, c_void};

/// What starts a triggered operation.
pub type fi_trigger_event = u32;
pub const FI_TRIGGER_THRESHOLD: fi_trigger_event = 0;
pub const FI_TRIGGER_XPU: fi_trigger_event = 1;

/// Type of the operation of deferred work.
pub type fi_op_type = u32;
pub const FI_OP_RECV: fi_op_type = 0;
pub const FI_OP_SEND: fi_op_type = 1;
pub const FI_OP_TRECV: fi_op_type = 2;
pub const FI_OP_TSEND: fi_op_type = 3;
pub const FI_OP_READ: fi_op_type = 4;
pub const FI_OP_WRITE: fi_op_type = 5;
pub const FI_OP_ATOMIC: fi_op_type = 6;
pub const FI_OP_FETCH_ATOMIC: fi_op_type = 7;
pub const FI_OP_COMPARE_ATOMIC: fi_op_type = 8;
pub const FI_OP_CNTR_SET: fi_op_type = 9;
pub const FI_OP_CNTR_ADD: fi_op_type = 10;

/// The context of a triggered operation; as large as `fi_context`. Source: fi_trigger(3).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_triggered_context {
    pub event_type: fi_trigger_event,
    pub trigger: fi_triggered_context_union,
}

/// How to start, by `event_type`.
#[repr(C)]
#[derive(Clone, Copy)]
pub union fi_triggered_context_union {
    pub threshold: fi_trigger_threshold,
    pub xpu: fi_trigger_xpu,
    pub internal: [*mut c_void; 3],
}

/// The context of a triggered operation; as large as `fi_context2`. Source: fi_trigger(3).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_triggered_context2 {
    pub event_type: fi_trigger_event,
    pub trigger: fi_triggered_context2_union,
}

/// How to start, by `event_type`.
#[repr(C)]
#[derive(Clone, Copy)]
pub union fi_triggered_context2_union {
    pub threshold: fi_trigger_threshold,
    pub xpu: fi_trigger_xpu,
    pub internal: [*mut c_void; 7],
}

/// Start when the counter reaches the threshold. Source: fi_trigger(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_trigger_threshold {
    pub cntr: *mut fid_cntr,
    pub threshold: usize,
}

/// Start when a device asks for it. Source: fi_trigger(3).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_trigger_xpu {
    pub count: c_int,
    pub iface: fi_hmem_iface,
    pub device: fi_trigger_device,
    pub var: *mut fi_trigger_var,
}

/// Number of the device, by `iface`.
#[repr(C)]
#[derive(Clone, Copy)]
pub union fi_trigger_device {
    pub reserved: u64,
    pub cuda: c_int,
    pub ze: c_int,
}

/// A variable that a device writes to start an operation. Source: fi_trigger(3).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_trigger_var {
    pub datatype: fi_datatype,
    pub count: c_int,
    pub addr: *mut c_void,
    pub value: fi_trigger_value,
}

/// Value that starts the operation, by `datatype`; `data` if there are several.
#[repr(C)]
#[derive(Clone, Copy)]
pub union fi_trigger_value {
    pub val8: u8,
    pub val16: u16,
    pub val32: u32,
    pub val64: u64,
    pub data: *mut u8,
}

/// An operation queued by `FI_QUEUE_WORK` until a counter reaches its threshold. Source: fi_trigger(3).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_deferred_work {
    pub context: fi_context2,
    pub threshold: u64,
    pub triggering_cntr: *mut fid_cntr,
    pub completion_cntr: *mut fid_cntr,
    pub op_type: fi_op_type,
    pub op: fi_deferred_op,
}

/// The operation, by `op_type`.
#[repr(C)]
#[derive(Clone, Copy)]
pub union fi_deferred_op {
    pub msg: *mut fi_op_msg,
    pub tagged: *mut fi_op_tagged,
    pub rma: *mut fi_op_rma,
    pub atomic: *mut fi_op_atomic,
    pub fetch_atomic: *mut fi_op_fetch_atomic,
    pub compare_atomic: *mut fi_op_compare_atomic,
    pub cntr: *mut fi_op_cntr,
}

/// A deferred message. Source: fi_trigger(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_op_msg {
    pub ep: *mut fid_ep,
    pub msg: fi_msg,
    pub flags: u64,
}

/// A deferred tagged message. Source: fi_trigger(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_op_tagged {
    pub ep: *mut fid_ep,
    pub msg: fi_msg_tagged,
    pub flags: u64,
}

/// A deferred remote read or write. Source: fi_trigger(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_op_rma {
    pub ep: *mut fid_ep,
    pub msg: fi_msg_rma,
    pub flags: u64,
}

/// A deferred atomic. Source: fi_trigger(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_op_atomic {
    pub ep: *mut fid_ep,
    pub msg: fi_msg_atomic,
    pub flags: u64,
}

/// A deferred fetching atomic. Source: fi_trigger(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_op_fetch_atomic {
    pub ep: *mut fid_ep,
    pub msg: fi_msg_atomic,
    pub fetch: fi_msg_fetch,
    pub flags: u64,
}

/// A deferred comparing atomic. Source: fi_trigger(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_op_compare_atomic {
    pub ep: *mut fid_ep,
    pub msg: fi_msg_atomic,
    pub fetch: fi_msg_fetch,
    pub compare: fi_msg_compare,
    pub flags: u64,
}

/// A deferred change of a counter. Source: fi_trigger(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_op_cntr {
    pub cntr: *mut fid_cntr,
    pub value: u64,
}
