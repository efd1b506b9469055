//! The functions of a libfabric that do not belong to an object.

mod load;

use core::ffi::{c_char, c_int, c_void};

use oxifabric_abi::{fi_fabric_attr, fi_info, fi_param, fi_type, fid_fabric};

use crate::{calls, params, tostr};

/// The functions through which everything of a libfabric is reached, each as in the newest C headers.
///
/// [`builtin`] is this library's; the same structure can be filled from another libfabric.so.1.
#[derive(Clone, Copy, Debug)]
pub struct EntryPoints {
    /// fi_getinfo(3).
    pub getinfo: unsafe extern "C" fn(
        version: u32,
        node: *const c_char,
        service: *const c_char,
        flags: u64,
        hints: *const fi_info,
        info: *mut *mut fi_info,
    ) -> c_int,
    /// fi_freeinfo(3).
    pub freeinfo: unsafe extern "C" fn(info: *mut fi_info),
    /// fi_dupinfo(3).
    pub dupinfo: unsafe extern "C" fn(info: *const fi_info) -> *mut fi_info,
    /// fi_fabric(3).
    pub fabric: unsafe extern "C" fn(
        attr: *mut fi_fabric_attr,
        fabric: *mut *mut fid_fabric,
        context: *mut c_void,
    ) -> c_int,
    /// fi_version(3).
    pub version: unsafe extern "C" fn() -> u32,
    /// fi_strerror(3).
    pub strerror: unsafe extern "C" fn(errnum: c_int) -> *const c_char,
    /// fi_tostr_r(3).
    pub tostr_r: unsafe extern "C" fn(
        buf: *mut c_char,
        len: usize,
        data: *const c_void,
        datatype: fi_type,
    ) -> *mut c_char,
    /// fi_getparams, fabric(7).
    pub getparams: unsafe extern "C" fn(params: *mut *mut fi_param, count: *mut c_int) -> c_int,
    /// fi_freeparams, fabric(7).
    pub freeparams: unsafe extern "C" fn(params: *mut fi_param),
}

/// Returns the functions of this library.
pub fn builtin() -> &'static EntryPoints {
    static BUILTIN: EntryPoints = EntryPoints {
        getinfo: calls::getinfo,
        freeinfo: calls::freeinfo,
        dupinfo: calls::dupinfo,
        fabric: calls::fabric,
        version: calls::version,
        strerror: calls::strerror,
        tostr_r: tostr::fi_tostr_r,
        getparams: params::getparams,
        freeparams: params::freeparams,
    };
    &BUILTIN
}
