//! Mirror of `rdma/fi_profile.h`: variables and events that a provider publishes.

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
#[derive(Clone, Copy)]
pub struct fi_profile_desc {
    pub id: u32,
    pub datatype_sel: fi_profile_type,
    pub datatype: fi_profile_datatype,
    pub flags: u64,
    pub size: usize,
    pub name: *const c_char,
    pub desc: *const c_char,
}

/// Type of a variable, by `datatype_sel`.
#[repr(C)]
#[derive(Clone, Copy)]
pub union fi_profile_datatype {
    pub primitive: fi_datatype,
    pub defined: fi_type,
}

/// An opened profile. Source: fi_profile(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fid_profile {
    pub fid: fid,
    pub ops: *mut fi_profile_ops,
}

/// Called when an event of a profile happens, with the context given at registration.
pub type fi_profile_callback = unsafe extern "C" fn(
    prof_fid: *mut fid_profile,
    event: *mut fi_profile_desc,
    param: *mut c_void,
    size: usize,
    context: *mut c_void,
) -> c_int;

ops_table! {
    /// Operations of a profile. Source: fi_profile(3).
    fi_profile_ops {
        reset(prof_fid: *mut fid_profile, flags: u64);
        query_vars(prof_fid: *mut fid_profile, varlist: *mut fi_profile_desc, count: *mut usize) -> isize;
        query_events(prof_fid: *mut fid_profile, eventlist: *mut fi_profile_desc, count: *mut usize) -> isize;
        read_var(prof_fid: *mut fid_profile, var_id: u32, data: *mut c_void, size: *mut usize) -> isize;
        reg_callback(
            prof_fid: *mut fid_profile,
            event_id: u32,
            callback: Option<fi_profile_callback>,
            context: *mut c_void,
        ) -> c_int;
        start_reads(prof_fid: *mut fid_profile, flags: u64);
        end_reads(prof_fid: *mut fid_profile, flags: u64);
    }
}
