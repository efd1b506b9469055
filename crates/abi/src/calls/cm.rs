//! Calls of `rdma/fi_cm.h`: names, connections and groups. Source: fi_cm(3).

use super::Absent;
use crate::*;
use core::ffi::{c_int, c_void};

calls! {
    /// Copies the address of the connected peer. Source: fi_cm(3).
    pub fi_getpeer: cm.getpeer(ep: *mut fid_ep, addr: *mut c_void, addrlen: *mut usize) -> c_int;

    /// Begins to listen for connections. Source: fi_cm(3).
    pub fi_listen: cm.listen(pep: *mut fid_pep) -> c_int;

    /// Asks for a connection; the answer comes as an event. Source: fi_cm(3).
    pub fi_connect: cm.connect(
        ep: *mut fid_ep,
        addr: *const c_void,
        param: *const c_void,
        paramlen: usize,
    ) -> c_int;

    /// Accepts the request that the endpoint was opened from. Source: fi_cm(3).
    pub fi_accept: cm.accept(ep: *mut fid_ep, param: *const c_void, paramlen: usize) -> c_int;

    /// Rejects a request. Source: fi_cm(3).
    pub fi_reject: cm.reject(
        pep: *mut fid_pep,
        handle: fid_t,
        param: *const c_void,
        paramlen: usize,
    ) -> c_int;

    /// Ends a connection. Source: fi_cm(3).
    pub fi_shutdown: cm.shutdown(ep: *mut fid_ep, flags: u64) -> c_int;

    /// Joins a multicast or collective group; the end of it comes as an event. Source: fi_cm(3).
    pub fi_join: cm.join(
        ep: *mut fid_ep,
        addr: *const c_void,
        flags: u64,
        mc: *mut *mut fid_mc,
        context: *mut c_void,
    ) -> c_int, in fi_ops_cm;
}

/// Sets the address of an endpoint before it is enabled or listens. Source: fi_cm(3).
///
/// # Safety
///
/// `fid` must be an open endpoint, active or passive, and the other arguments valid as the man page says.
#[inline]
pub unsafe fn fi_setname(fid: fid_t, addr: *mut c_void, addrlen: usize) -> c_int {
    let ep: *mut fid_ep = fid.cast();
    // SAFETY: endpoints of every kind have their names where `fid_ep` has them.
    let op = unsafe { (*ep).cm.as_ref().and_then(|ops| ops.setname) };
    match op {
        // SAFETY: the caller vouches for the arguments of this very operation.
        Some(op) => unsafe { op(fid, addr, addrlen) },
        None => <c_int>::ABSENT,
    }
}

/// Copies the address of an endpoint; `addrlen` is the room before and the length after. Source: fi_cm(3).
///
/// # Safety
///
/// `fid` must be an open endpoint, active or passive, and the other arguments valid as the man page says.
#[inline]
pub unsafe fn fi_getname(fid: fid_t, addr: *mut c_void, addrlen: *mut usize) -> c_int {
    let ep: *mut fid_ep = fid.cast();
    // SAFETY: endpoints of every kind have their names where `fid_ep` has them.
    let op = unsafe { (*ep).cm.as_ref().and_then(|ops| ops.getname) };
    match op {
        // SAFETY: the caller vouches for the arguments of this very operation.
        Some(op) => unsafe { op(fid, addr, addrlen) },
        None => <c_int>::ABSENT,
    }
}

/// The address of a group, for sends to it. Source: fi_cm(3).
///
/// # Safety
///
/// The group must be open.
#[inline]
pub unsafe fn fi_mc_addr(mc: *mut fid_mc) -> fi_addr_t {
    // SAFETY: the group is open.
    unsafe { (*mc).fi_addr }
}
