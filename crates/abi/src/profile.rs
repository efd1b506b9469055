//! Mirror of `rdma/fi_profile.h`: variables and events that a provider lets be watched.

use crate::*;
use core::ffi::{c_char, c_int, c_void};

// Variables.
pub const FI_VAR_UNEXP_MSG_CNT: u32 = 0;
pub const FI_VAR_UNEXP_MSG_QUEUE: u32 = 1;
pub const FI_VAR_MSG_QUEUE_CNT: u32 = 2;
pub const FI_VAR_CONNECTION_CNT: u32 = 3;
pub const FI_VAR_CONN_REQUEST: u32 = 4;
pub const FI_VAR_CONN_ACCEPT: u32 = 5;
pub const FI_VAR_CONN_REJECT: u32 = 6;
pub const FI_VAR_OFI_MEM: u32 = 7;

// Events.
pub const FI_EVENT_UNEXP_MSG_RECVD: u32 = 0;
pub const FI_EVENT_UNEXP_MSG_MATCHED: u32 = 1;

/// How the type of a variable is given.
pub type fi_profile_type = u32;
pub const fi_primitive_type: fi_profile_type = 0;
pub const fi_defined_type: fi_profile_type = 1;

/// Description of a variable or an event. Source: fi_profile(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_profile_desc {
    pub id: u32,
    pub datatype_sel: fi_profile_type,
    // UNION enum fi_datatype primitive| enum fi_type defined| datatype
    pub flags: u64,
    pub size: usize,
    pub name: *const c_char,
    pub desc: *const c_char,
}

/// An opened profile. Source: fi_profile(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fid_profile {
    pub fid: fid,
    pub ops: *mut fi_profile_ops,
}

/* OPS */
