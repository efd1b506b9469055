//! Calls of `rdma/fi_domain.h`: opening a domain and its objects.

use crate::*;
use core::ffi::{c_int, c_void};

calls! {
    /// Opens a domain. Source: fi_domain(3).
    pub fi_domain: ops.domain(
        fabric: *mut fid_fabric,
        info: *mut fi_info,
        domain: *mut *mut fid_domain,
        context: *mut c_void,
    ) -> c_int;

    /// Opens a completion queue. Source: fi_cq(3).
    pub fi_cq_open: ops.cq_open(
        domain: *mut fid_domain,
        attr: *mut fi_cq_attr,
        cq: *mut *mut fid_cq,
        context: *mut c_void,
    ) -> c_int;

    /// Opens a counter. Source: fi_cntr(3).
    pub fi_cntr_open: ops.cntr_open(
        domain: *mut fid_domain,
        attr: *mut fi_cntr_attr,
        cntr: *mut *mut fid_cntr,
        context: *mut c_void,
    ) -> c_int;

    /// Opens a wait set, deprecated. Source: fi_poll(3).
    pub fi_wait_open: ops.wait_open(
        fabric: *mut fid_fabric,
        attr: *mut fi_wait_attr,
        waitset: *mut *mut fid_wait,
    ) -> c_int;

    /// Opens a poll set, deprecated. Source: fi_poll(3).
    pub fi_poll_open: ops.poll_open(
        domain: *mut fid_domain,
        attr: *mut fi_poll_attr,
        pollset: *mut *mut fid_poll,
    ) -> c_int;

    /// Opens an address vector. Source: fi_av(3).
    pub fi_av_open: ops.av_open(
        domain: *mut fid_domain,
        attr: *mut fi_av_attr,
        av: *mut *mut fid_av,
        context: *mut c_void,
    ) -> c_int;
}

calls! {
    /// Opens a domain with flags, on fabrics that know them.
    domain_with_flags: ops.domain2(
        fabric: *mut fid_fabric,
        info: *mut fi_info,
        domain: *mut *mut fid_domain,
        flags: u64,
        context: *mut c_void,
    ) -> c_int, in fi_ops_fabric;
}

/// Opens a domain with flags. Source: fi_domain(3).
///
/// # Safety
///
/// The object must be open, and every other argument valid in the way, and for as long as, the man page says.
#[inline]
pub unsafe fn fi_domain2(
    fabric: *mut fid_fabric,
    info: *mut fi_info,
    domain: *mut *mut fid_domain,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    if flags == 0 {
        // SAFETY: the caller's contract is that of the plain call.
        return unsafe { fi_domain(fabric, info, domain, context) };
    }
    // SAFETY: the caller's contract, passed on.
    unsafe { domain_with_flags(fabric, info, domain, flags, context) }
}

/// Binds an event queue to a domain. Source: fi_domain(3).
///
/// # Safety
///
/// The object must be open, and every other argument valid in the way, and for as long as, the man page says.
#[inline]
pub unsafe fn fi_domain_bind(domain: *mut fid_domain, fid: *mut fid, flags: u64) -> c_int {
    // SAFETY: the object is open, and its first member is its `fid`.
    unsafe { fi_bind(domain.cast(), fid, flags) }
}
