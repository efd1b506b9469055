//! Calls of `rdma/fabric.h`: what every object has, and opening what a fabric holds.

use crate::*;
use core::ffi::{c_char, c_int, c_void};

calls! {
    /// Closes an object; it must not be used afterwards if this succeeds. Source: fi_fabric(3).
    pub fi_close: ops.close(fid: *mut fid) -> c_int;

    /// Binds one object to another, for the purposes in `flags`. Source: fi_endpoint(3).
    pub fi_bind: ops.bind(fid: *mut fid, bfid: *mut fid, flags: u64) -> c_int;

    /// Gives a command, one of the constants beside [`FI_GETFIDFLAG`], to an object. Source: fi_control(3).
    pub fi_control: ops.control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int;

    /// Opens operations of an object by the name of their set. Source: fi_open_ops(3).
    pub fi_open_ops: ops.ops_open(
        fid: *mut fid,
        name: *const c_char,
        flags: u64,
        ops: *mut *mut c_void,
        context: *mut c_void,
    ) -> c_int;

    /// Replaces operations of an object by the name of their set. Source: fi_open_ops(3).
    pub fi_set_ops: ops.ops_set(
        fid: *mut fid,
        name: *const c_char,
        flags: u64,
        ops: *mut c_void,
        context: *mut c_void,
    ) -> c_int, in fi_ops;
}

/// Makes a second handle of an object, with other flags. Source: fi_endpoint(3).
///
/// # Safety
///
/// The object must be open, and every other argument valid in the way, and for as long as, the man page says.
#[inline]
pub unsafe fn fi_alias(fid: *mut fid, alias_fid: *mut *mut fid, flags: u64) -> c_int {
    let mut alias = fi_alias {
        fid: alias_fid,
        flags,
    };
    // SAFETY: the argument is what the command takes, and outlives the call.
    unsafe { fi_control(fid, FI_ALIAS, (&raw mut alias).cast()) }
}

/// Reads a named value of an object into `val`. Source: fi_control(3).
///
/// # Safety
///
/// The object must be open, and every other argument valid in the way, and for as long as, the man page says.
#[inline]
pub unsafe fn fi_get_val(fid: *mut fid, name: c_int, val: *mut c_void) -> c_int {
    let mut var = fi_fid_var { name, val };
    // SAFETY: the argument is what the command takes, and outlives the call.
    unsafe { fi_control(fid, FI_GET_VAL, (&raw mut var).cast()) }
}

/// Sets a named value of an object from `val`. Source: fi_control(3).
///
/// # Safety
///
/// The object must be open, and every other argument valid in the way, and for as long as, the man page says.
#[inline]
pub unsafe fn fi_set_val(fid: *mut fid, name: c_int, val: *mut c_void) -> c_int {
    let mut var = fi_fid_var { name, val };
    // SAFETY: the argument is what the command takes, and outlives the call.
    unsafe { fi_control(fid, FI_SET_VAL, (&raw mut var).cast()) }
}
