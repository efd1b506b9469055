//! Mirror of `rdma/fabric.h`: the base of all objects, `fi_info`, and the enumerations that every other header uses.

mod flags;
mod info;
mod kinds;
mod nic;

pub use flags::*;
pub use info::*;
pub use kinds::*;
pub use nic::*;

use crate::{fi_eq_attr, fi_wait_attr, fid_domain, fid_ep, fid_eq, fid_pep, fid_wait, fid_xpu_ctx};
use core::ffi::{c_char, c_int, c_void};

pub const FI_MAJOR_VERSION: u32 = 2;
pub const FI_MINOR_VERSION: u32 = 7;
pub const FI_REVISION_VERSION: u32 = 0;

/// An API version in one word, as `fi_getinfo` takes it. Source: fi_version(3).
pub const fn FI_VERSION(major: u32, minor: u32) -> u32 {
    (major << 16) | minor
}

/// The major part of an API version. Source: fi_version(3).
pub const fn FI_MAJOR(version: u32) -> u32 {
    version >> 16
}

/// The minor part of an API version. Source: fi_version(3).
pub const fn FI_MINOR(version: u32) -> u32 {
    version & 0xffff
}

/// A handle of any object.
pub type fid_t = *mut fid;

/// A peer as an address vector names it. Source: fi_av(3).
pub type fi_addr_t = u64;

pub const FI_ADDR_UNSPEC: fi_addr_t = u64::MAX;
pub const FI_ADDR_NOTAVAIL: fi_addr_t = u64::MAX;
pub const FI_KEY_NOTAVAIL: u64 = u64::MAX;
pub const FI_SHARED_CONTEXT: usize = usize::MAX;
pub const FI_AV_AUTH_KEY: usize = usize::MAX;

/// The traffic class that asks for a DSCP value. Source: fi_endpoint(3).
pub const fn fi_tc_dscp_set(dscp: u8) -> u32 {
    dscp as u32 | FI_TC_DSCP
}

/// The DSCP value in a traffic class, 0 if it holds none. Source: fi_endpoint(3).
pub const fn fi_tc_dscp_get(tclass: u32) -> u8 {
    if tclass & FI_TC_DSCP != 0 {
        tclass as u8
    } else {
        0
    }
}

/// First member of every fabric object: its class, the context that the application gave, its base operations.
///
/// Source: fi_fabric(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fid {
    pub fclass: usize,
    pub context: *mut c_void,
    pub ops: *mut fi_ops,
}

ops_table! {
    /// Operations that every object may have. Source: fi_fabric(3), fi_control(3).
    fi_ops {
        close(fid: *mut fid) -> c_int;
        bind(fid: *mut fid, bfid: *mut fid, flags: u64) -> c_int;
        control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int;
        ops_open(
            fid: *mut fid,
            name: *const c_char,
            flags: u64,
            ops: *mut *mut c_void,
            context: *mut c_void,
        ) -> c_int;
        tostr(fid: *const fid, buf: *mut c_char, len: usize) -> c_int;
        ops_set(
            fid: *mut fid,
            name: *const c_char,
            flags: u64,
            ops: *mut c_void,
            context: *mut c_void,
        ) -> c_int;
    }
}

/// An opened fabric. Source: fi_fabric(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fid_fabric {
    pub fid: fid,
    pub ops: *mut fi_ops_fabric,
    pub api_version: u32,
}

ops_table! {
    /// Operations of a fabric. Source: fi_fabric(3), fi_domain(3), fi_eq(3).
    fi_ops_fabric {
        domain(
            fabric: *mut fid_fabric,
            info: *mut fi_info,
            dom: *mut *mut fid_domain,
            context: *mut c_void,
        ) -> c_int;
        passive_ep(
            fabric: *mut fid_fabric,
            info: *mut fi_info,
            pep: *mut *mut fid_pep,
            context: *mut c_void,
        ) -> c_int;
        eq_open(
            fabric: *mut fid_fabric,
            attr: *mut fi_eq_attr,
            eq: *mut *mut fid_eq,
            context: *mut c_void,
        ) -> c_int;
        wait_open(
            fabric: *mut fid_fabric,
            attr: *mut fi_wait_attr,
            waitset: *mut *mut fid_wait,
        ) -> c_int;
        trywait(fabric: *mut fid_fabric, fids: *mut *mut fid, count: c_int) -> c_int;
        domain2(
            fabric: *mut fid_fabric,
            info: *mut fi_info,
            dom: *mut *mut fid_domain,
            flags: u64,
            context: *mut c_void,
        ) -> c_int;
    }
}

// Commands of `fi_control`.
pub const FI_GETFIDFLAG: c_int = 0;
pub const FI_SETFIDFLAG: c_int = 1;
pub const FI_GETOPSFLAG: c_int = 2;
pub const FI_SETOPSFLAG: c_int = 3;
pub const FI_ALIAS: c_int = 4;
pub const FI_GETWAIT: c_int = 5;
pub const FI_ENABLE: c_int = 6;
pub const FI_BACKLOG: c_int = 7;
pub const FI_GET_RAW_MR: c_int = 8;
pub const FI_MAP_RAW_MR: c_int = 9;
pub const FI_UNMAP_KEY: c_int = 10;
pub const FI_QUEUE_WORK: c_int = 11;
pub const FI_CANCEL_WORK: c_int = 12;
pub const FI_FLUSH_WORK: c_int = 13;
pub const FI_REFRESH: c_int = 14;
pub const FI_DUP: c_int = 15;
pub const FI_GETWAITOBJ: c_int = 16;
pub const FI_GET_VAL: c_int = 17;
pub const FI_SET_VAL: c_int = 18;
pub const FI_EXPORT_FID: c_int = 19;
pub const FI_GET_FD: c_int = 20;
pub const FI_GET_MR_XPU_DESC: c_int = 21;

/// Argument of `FI_ALIAS`. Source: fi_endpoint(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_alias {
    pub fid: *mut *mut fid,
    pub flags: u64,
}

/// Argument of `FI_GET_VAL` and `FI_SET_VAL`. Source: fi_control(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_fid_var {
    pub name: c_int,
    pub val: *mut c_void,
}

/// Argument of `FI_GET_RAW_MR`. Source: fi_mr(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_mr_raw_attr {
    pub flags: u64,
    pub base_addr: *mut u64,
    pub raw_key: *mut u8,
    pub key_size: *mut usize,
}

/// Argument of `FI_MAP_RAW_MR`. Source: fi_mr(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_mr_map_raw {
    pub flags: u64,
    pub base_addr: u64,
    pub raw_key: *mut u8,
    pub key_size: usize,
    pub key: *mut u64,
}

/// Argument of `FI_GET_MR_XPU_DESC`. Source: fi_mr(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_mr_xpu_desc {
    pub buf: *mut c_void,
    pub len: *mut usize,
    pub flags: u64,
    pub ctx: *mut fid_xpu_ctx,
}

/// One configuration variable as `fi_getparams` lists it. Source: fi_provider(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_param {
    pub name: *const c_char,
    pub type_: fi_param_type,
    pub help_string: *const c_char,
    pub value: *const c_char,
}

/// Room that the provider owns while an operation is in flight, under mode `FI_CONTEXT`. Source: fi_getinfo(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_context {
    pub internal: [*mut c_void; 4],
}

/// The larger room of mode `FI_CONTEXT2`. Source: fi_getinfo(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_context2 {
    pub internal: [*mut c_void; 8],
}

/// Context of a receive completion on behalf of an endpoint. Source: fi_cq(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_recv_context {
    pub ep: *mut fid_ep,
    pub context: *mut c_void,
}

/// A run of `count` elements of one datatype, for atomics and collectives. Source: fi_atomic(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_ioc {
    pub addr: *mut c_void,
    pub count: usize,
}

zeroed!(fid, fi_context, fi_context2);
