//! Mirror of `rdma/providers/fi_prov.h`: what the library and an external provider know of each other.

use crate::*;
use core::ffi::{CStr, c_char, c_int, c_void};

/// How the file name of an external provider ends. Source: fi_provider(3).
pub const FI_LIB_SUFFIX: &str = "fi.so";

/// Name of the entry point of an external provider, of type [`fi_prov_ini`].
pub const FI_PROV_INI: &CStr = c"fi_prov_ini";

/// The entry point of an external provider; null means that it cannot run here. Source: fi_provider(3).
pub type fi_prov_ini = unsafe extern "C" fn() -> *mut fi_provider;

/// What an external provider hands to the library from `fi_prov_ini`. Source: fi_provider(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_provider {
    pub version: u32,
    pub fi_version: u32,
    pub context: fi_context,
    pub name: *const c_char,
    pub getinfo: Option<
        unsafe extern "C" fn(
            version: u32,
            node: *const c_char,
            service: *const c_char,
            flags: u64,
            hints: *const fi_info,
            info: *mut *mut fi_info,
        ) -> c_int,
    >,
    pub fabric: Option<
        unsafe extern "C" fn(
            attr: *mut fi_fabric_attr,
            fabric: *mut *mut fid_fabric,
            context: *mut c_void,
        ) -> c_int,
    >,
    pub cleanup: Option<unsafe extern "C" fn()>,
}
