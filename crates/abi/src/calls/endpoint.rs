//! Calls of `rdma/fi_endpoint.h` beside data transfer.

use super::Absent;
use crate::*;
use core::ffi::{c_int, c_void};
use core::ptr;

calls! {
    /// Opens a passive endpoint. Source: fi_endpoint(3).
    pub fi_passive_ep: ops.passive_ep(
        fabric: *mut fid_fabric,
        info: *mut fi_info,
        pep: *mut *mut fid_pep,
        context: *mut c_void,
    ) -> c_int;

    /// Opens an endpoint, disabled. Source: fi_endpoint(3).
    pub fi_endpoint: ops.endpoint(
        domain: *mut fid_domain,
        info: *mut fi_info,
        ep: *mut *mut fid_ep,
        context: *mut c_void,
    ) -> c_int;

    /// Opens a scalable endpoint. Source: fi_endpoint(3).
    pub fi_scalable_ep: ops.scalable_ep(
        domain: *mut fid_domain,
        info: *mut fi_info,
        sep: *mut *mut fid_ep,
        context: *mut c_void,
    ) -> c_int;

    /// Opens a transmit context of a scalable endpoint. Source: fi_endpoint(3).
    pub fi_tx_context: ops.tx_ctx(
        ep: *mut fid_ep,
        idx: c_int,
        attr: *mut fi_tx_attr,
        tx_ep: *mut *mut fid_ep,
        context: *mut c_void,
    ) -> c_int;

    /// Opens a receive context of a scalable endpoint. Source: fi_endpoint(3).
    pub fi_rx_context: ops.rx_ctx(
        ep: *mut fid_ep,
        idx: c_int,
        attr: *mut fi_rx_attr,
        rx_ep: *mut *mut fid_ep,
        context: *mut c_void,
    ) -> c_int;

    /// How many receives fit, deprecated. Source: fi_endpoint(3).
    pub fi_rx_size_left: ops.rx_size_left(ep: *mut fid_ep) -> isize;

    /// How many sends fit, deprecated. Source: fi_endpoint(3).
    pub fi_tx_size_left: ops.tx_size_left(ep: *mut fid_ep) -> isize;

    /// Exports an enabled endpoint to code on an accelerator. Source: fi_xpu(3).
    pub fi_ep_export_xpu: ops.export_xpu(
        ep: *mut fid_ep,
        flags: u64,
        xpu_ep: *mut fid_xpu_ep,
    ) -> c_int, in fi_ops_ep;

    /// Opens a shared transmit context. Source: fi_endpoint(3).
    pub fi_stx_context: ops.stx_ctx(
        domain: *mut fid_domain,
        attr: *mut fi_tx_attr,
        stx: *mut *mut fid_stx,
        context: *mut c_void,
    ) -> c_int;

    /// Opens a shared receive context. Source: fi_endpoint(3).
    pub fi_srx_context: ops.srx_ctx(
        domain: *mut fid_domain,
        attr: *mut fi_rx_attr,
        rx_ep: *mut *mut fid_ep,
        context: *mut c_void,
    ) -> c_int;
}

calls! {
    /// Opens an endpoint with flags, on domains that know them.
    endpoint_with_flags: ops.endpoint2(
        domain: *mut fid_domain,
        info: *mut fi_info,
        ep: *mut *mut fid_ep,
        flags: u64,
        context: *mut c_void,
    ) -> c_int, in fi_ops_domain;
}

/// Opens an endpoint with flags. Source: fi_endpoint(3).
///
/// # Safety
///
/// The object must be open, and every other argument valid in the way, and for as long as, the man page says.
#[inline]
pub unsafe fn fi_endpoint2(
    domain: *mut fid_domain,
    info: *mut fi_info,
    ep: *mut *mut fid_ep,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    if flags == 0 {
        // SAFETY: the caller's contract is that of the plain call.
        return unsafe { fi_endpoint(domain, info, ep, context) };
    }
    // SAFETY: the caller's contract, passed on.
    unsafe { endpoint_with_flags(domain, info, ep, flags, context) }
}

/// Binds a queue, a counter, an address vector or a shared context to an endpoint. Source: fi_endpoint(3).
///
/// # Safety
///
/// The object must be open, and every other argument valid in the way, and for as long as, the man page says.
#[inline]
pub unsafe fn fi_ep_bind(ep: *mut fid_ep, bfid: *mut fid, flags: u64) -> c_int {
    // SAFETY: the object is open, and its first member is its `fid`.
    unsafe { fi_bind(ep.cast(), bfid, flags) }
}

/// Binds an event queue to a passive endpoint. Source: fi_endpoint(3).
///
/// # Safety
///
/// The object must be open, and every other argument valid in the way, and for as long as, the man page says.
#[inline]
pub unsafe fn fi_pep_bind(pep: *mut fid_pep, bfid: *mut fid, flags: u64) -> c_int {
    // SAFETY: the object is open, and its first member is its `fid`.
    unsafe { fi_bind(pep.cast(), bfid, flags) }
}

/// Binds an address vector to a scalable endpoint. Source: fi_endpoint(3).
///
/// # Safety
///
/// The object must be open, and every other argument valid in the way, and for as long as, the man page says.
#[inline]
pub unsafe fn fi_scalable_ep_bind(sep: *mut fid_ep, bfid: *mut fid, flags: u64) -> c_int {
    // SAFETY: the object is open, and its first member is its `fid`.
    unsafe { fi_bind(sep.cast(), bfid, flags) }
}

/// Enables an endpoint for transfers. Source: fi_endpoint(3).
///
/// # Safety
///
/// The object must be open, and every other argument valid in the way, and for as long as, the man page says.
#[inline]
pub unsafe fn fi_enable(ep: *mut fid_ep) -> c_int {
    // SAFETY: the object is open, and its first member is its `fid`.
    unsafe { fi_control(ep.cast(), FI_ENABLE, ptr::null_mut()) }
}

/// Cancels the operation of that context; its completion is then `FI_ECANCELED`. Source: fi_endpoint(3).
///
/// # Safety
///
/// `fid` must be an open endpoint of any kind, and the other arguments valid as the man page says.
#[inline]
pub unsafe fn fi_cancel(fid: fid_t, context: *mut c_void) -> isize {
    let ep: *mut fid_ep = fid.cast();
    // SAFETY: endpoints of every kind have their operations where `fid_ep` has them.
    let op = unsafe { (*ep).ops.as_ref().and_then(|ops| ops.cancel) };
    match op {
        // SAFETY: the caller vouches for the arguments of this very operation.
        Some(op) => unsafe { op(fid, context) },
        None => <isize>::ABSENT,
    }
}

/// Sets an option, one of the constants beside [`FI_OPT_MIN_MULTI_RECV`]. Source: fi_endpoint(3).
///
/// # Safety
///
/// `fid` must be an open endpoint of any kind, and the other arguments valid as the man page says.
#[inline]
pub unsafe fn fi_setopt(
    fid: fid_t,
    level: c_int,
    optname: c_int,
    optval: *const c_void,
    optlen: usize,
) -> c_int {
    let ep: *mut fid_ep = fid.cast();
    // SAFETY: endpoints of every kind have their operations where `fid_ep` has them.
    let op = unsafe { (*ep).ops.as_ref().and_then(|ops| ops.setopt) };
    match op {
        // SAFETY: the caller vouches for the arguments of this very operation.
        Some(op) => unsafe { op(fid, level, optname, optval, optlen) },
        None => <c_int>::ABSENT,
    }
}

/// Reads an option; `optlen` is the room before and the length after. Source: fi_endpoint(3).
///
/// # Safety
///
/// `fid` must be an open endpoint of any kind, and the other arguments valid as the man page says.
#[inline]
pub unsafe fn fi_getopt(
    fid: fid_t,
    level: c_int,
    optname: c_int,
    optval: *mut c_void,
    optlen: *mut usize,
) -> c_int {
    let ep: *mut fid_ep = fid.cast();
    // SAFETY: endpoints of every kind have their operations where `fid_ep` has them.
    let op = unsafe { (*ep).ops.as_ref().and_then(|ops| ops.getopt) };
    match op {
        // SAFETY: the caller vouches for the arguments of this very operation.
        Some(op) => unsafe { op(fid, level, optname, optval, optlen) },
        None => <c_int>::ABSENT,
    }
}

/// Makes a second handle of an endpoint, with other flags. Source: fi_endpoint(3).
///
/// # Safety
///
/// The object must be open, and every other argument valid in the way, and for as long as, the man page says.
#[inline]
pub unsafe fn fi_ep_alias(ep: *mut fid_ep, alias_ep: *mut *mut fid_ep, flags: u64) -> c_int {
    // SAFETY: the object is open, and its first member is its `fid`.
    unsafe { fi_alias(ep.cast(), alias_ep.cast(), flags) }
}
