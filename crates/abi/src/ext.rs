//! Mirror of `rdma/fi_ext.h`: objects that the caller lends to the library.

use crate::*;
use core::ffi::{c_char, c_int, c_void};

// Codes of providers for their own options, which are negative.
pub const FI_PROV_SPECIFIC_EFA: c_int = 0xefa << 16;
pub const FI_PROV_SPECIFIC_TCP: c_int = 0x7cb << 16;

// Options of the efa provider.
pub const FI_OPT_EFA_RNR_RETRY: c_int = -251265024;
pub const FI_OPT_EFA_EMULATED_READ: c_int = -251265023;
pub const FI_OPT_EFA_EMULATED_WRITE: c_int = -251265022;
pub const FI_OPT_EFA_EMULATED_ATOMICS: c_int = -251265021;
pub const FI_OPT_EFA_USE_DEVICE_RDMA: c_int = -251265020;
pub const FI_OPT_EFA_SENDRECV_IN_ORDER_ALIGNED_128_BYTES: c_int = -251265019;
pub const FI_OPT_EFA_WRITE_IN_ORDER_ALIGNED_128_BYTES: c_int = -251265018;
pub const FI_OPT_EFA_HOMOGENEOUS_PEERS: c_int = -251265017;
pub const FI_OPT_EFA_USE_UNSOLICITED_WRITE_RECV: c_int = -251265016;

/// Argument of `FI_EXPORT_FID`. Source: fi_control(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_fid_export {
    pub fid: *mut *mut fid,
    pub flags: u64,
    pub context: *mut c_void,
}

/// A memory monitor, which tells when mappings of memory change. Source: fi_mr(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fid_mem_monitor {
    pub fid: fid,
    pub export_ops: *mut fi_ops_mem_monitor,
    pub import_ops: *mut fi_ops_mem_notify,
}

ops_table! {
    /// The operations of a memory monitor that the library exports. Source: fi_mr(3).
    fi_ops_mem_monitor {
        start(monitor: *mut fid_mem_monitor) -> c_int;
        stop(monitor: *mut fid_mem_monitor);
        subscribe(monitor: *mut fid_mem_monitor, addr: *const c_void, len: usize) -> c_int;
        unsubscribe(monitor: *mut fid_mem_monitor, addr: *const c_void, len: usize);
        valid(monitor: *mut fid_mem_monitor, addr: *const c_void, len: usize) -> bool;
    }
}

ops_table! {
    /// Notice that a mapping has gone, given to the library. Source: fi_mr(3).
    fi_ops_mem_notify {
        notify(monitor: *mut fid_mem_monitor, addr: *const c_void, len: usize);
    }
}

/// The logging object of the caller. Source: fi_control(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fid_logging {
    pub fid: fid,
    pub ops: *mut fi_ops_log,
}

ops_table! {
    /// Logging that the caller supplies in place of the library's own. Source: fi_control(3).
    fi_ops_log {
        enabled(
            prov: *const fi_provider,
            level: fi_log_level,
            subsys: fi_log_subsys,
            flags: u64,
        ) -> c_int;
        ready(
            prov: *const fi_provider,
            level: fi_log_level,
            subsys: fi_log_subsys,
            flags: u64,
            showtime: *mut u64,
        ) -> c_int;
        log(
            prov: *const fi_provider,
            level: fi_log_level,
            subsys: fi_log_subsys,
            func: *const c_char,
            line: c_int,
            msg: *const c_char,
        );
    }
}

/// Flag of [`fi_ops_log`]: the library has already applied its filter of providers.
pub const FI_LOG_PROV_FILTERED: u64 = 1 << 0;
