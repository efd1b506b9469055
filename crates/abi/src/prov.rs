//! Mirror of `rdma/providers/fi_prov.h` and `fi_log.h`: what the library and an external provider know of each other.

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

/// Part of the library that a message of the log comes from.
pub type fi_log_subsys = u32;
pub const FI_LOG_CORE: fi_log_subsys = 0;
pub const FI_LOG_FABRIC: fi_log_subsys = 1;
pub const FI_LOG_DOMAIN: fi_log_subsys = 2;
pub const FI_LOG_EP_CTRL: fi_log_subsys = 3;
pub const FI_LOG_EP_DATA: fi_log_subsys = 4;
pub const FI_LOG_AV: fi_log_subsys = 5;
pub const FI_LOG_CQ: fi_log_subsys = 6;
pub const FI_LOG_EQ: fi_log_subsys = 7;
pub const FI_LOG_MR: fi_log_subsys = 8;
pub const FI_LOG_CNTR: fi_log_subsys = 9;

/// Weight of a message of the log.
pub type fi_log_level = u32;
pub const FI_LOG_WARN: fi_log_level = 0;
pub const FI_LOG_TRACE: fi_log_level = 1;
pub const FI_LOG_INFO: fi_log_level = 2;
pub const FI_LOG_DEBUG: fi_log_level = 3;
