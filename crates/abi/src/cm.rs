//! Mirror of `rdma/fi_cm.h`: names, connections and groups.

use crate::*;
use core::ffi::{c_int, c_void};

ops_table! {
    /// Names and connections of endpoints. Source: fi_cm(3).
    fi_ops_cm {
        setname(fid: fid_t, addr: *mut c_void, addrlen: usize) -> c_int;
        getname(fid: fid_t, addr: *mut c_void, addrlen: *mut usize) -> c_int;
        getpeer(ep: *mut fid_ep, addr: *mut c_void, addrlen: *mut usize) -> c_int;
        connect(
            ep: *mut fid_ep,
            addr: *const c_void,
            param: *const c_void,
            paramlen: usize,
        ) -> c_int;
        listen(pep: *mut fid_pep) -> c_int;
        accept(ep: *mut fid_ep, param: *const c_void, paramlen: usize) -> c_int;
        reject(pep: *mut fid_pep, handle: fid_t, param: *const c_void, paramlen: usize) -> c_int;
        shutdown(ep: *mut fid_ep, flags: u64) -> c_int;
        join(
            ep: *mut fid_ep,
            addr: *const c_void,
            flags: u64,
            mc: *mut *mut fid_mc,
            context: *mut c_void,
        ) -> c_int;
    }
}

/// A multicast or collective group. Source: fi_cm(3), fi_collective(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fid_mc {
    pub fid: fid,
    pub fi_addr: fi_addr_t,
}
