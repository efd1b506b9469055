//! Calls on memory regions. Source: fi_mr(3).

use crate::system::iovec;
use crate::*;
use core::ffi::{c_int, c_void};
use core::ptr;

/// Registers one run of memory. Source: fi_mr(3).
///
/// # Safety
///
/// The domain must be open. The memory must stay mapped until the region is closed.
#[inline]
pub unsafe fn fi_mr_reg(
    domain: *mut fid_domain,
    buf: *const c_void,
    len: usize,
    acs: u64,
    offset: u64,
    requested_key: u64,
    flags: u64,
    mr: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: an open domain points to its operations until it is closed.
    let op = unsafe { (*domain).mr.as_ref().and_then(|ops| ops.reg) };
    match op {
        // SAFETY: the caller vouches for the arguments; the first member of a domain is its `fid`.
        Some(op) => unsafe {
            op(
                domain.cast(),
                buf,
                len,
                acs,
                offset,
                requested_key,
                flags,
                mr,
                context,
            )
        },
        None => -FI_ENOSYS,
    }
}

/// Registers several runs of memory as one region. Source: fi_mr(3).
///
/// # Safety
///
/// The domain must be open. The memory must stay mapped until the region is closed.
#[inline]
pub unsafe fn fi_mr_regv(
    domain: *mut fid_domain,
    iov: *const iovec,
    count: usize,
    acs: u64,
    offset: u64,
    requested_key: u64,
    flags: u64,
    mr: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: an open domain points to its operations until it is closed.
    let op = unsafe { (*domain).mr.as_ref().and_then(|ops| ops.regv) };
    match op {
        // SAFETY: the caller vouches for the arguments; the first member of a domain is its `fid`.
        Some(op) => unsafe {
            op(
                domain.cast(),
                iov,
                count,
                acs,
                offset,
                requested_key,
                flags,
                mr,
                context,
            )
        },
        None => -FI_ENOSYS,
    }
}

/// Registers memory by its full description. Source: fi_mr(3).
///
/// # Safety
///
/// The domain must be open. The memory must stay mapped until the region is closed.
#[inline]
pub unsafe fn fi_mr_regattr(
    domain: *mut fid_domain,
    attr: *const fi_mr_attr,
    flags: u64,
    mr: *mut *mut fid_mr,
) -> c_int {
    // SAFETY: an open domain points to its operations until it is closed.
    let op = unsafe { (*domain).mr.as_ref().and_then(|ops| ops.regattr) };
    match op {
        // SAFETY: the caller vouches for the arguments; the first member of a domain is its `fid`.
        Some(op) => unsafe { op(domain.cast(), attr, flags, mr) },
        None => -FI_ENOSYS,
    }
}

/// The local descriptor of a region. Source: fi_mr(3).
///
/// # Safety
///
/// The region must be open.
#[inline]
pub unsafe fn fi_mr_desc(mr: *mut fid_mr) -> *mut c_void {
    // SAFETY: the region is open.
    unsafe { (*mr).mem_desc }
}

/// The key that peers use, or `FI_KEY_NOTAVAIL`. Source: fi_mr(3).
///
/// # Safety
///
/// The region must be open.
#[inline]
pub unsafe fn fi_mr_key(mr: *mut fid_mr) -> u64 {
    // SAFETY: the region is open.
    unsafe { (*mr).key }
}

/// Copies the raw key of a region, for keys wider than 64 bits. Source: fi_mr(3).
///
/// # Safety
///
/// The object must be open, and every other argument valid in the way, and for as long as, the man page says.
#[inline]
pub unsafe fn fi_mr_raw_attr(
    mr: *mut fid_mr,
    base_addr: *mut u64,
    raw_key: *mut u8,
    key_size: *mut usize,
    flags: u64,
) -> c_int {
    let mut attr = fi_mr_raw_attr {
        flags,
        base_addr,
        raw_key,
        key_size,
    };
    // SAFETY: the argument is what the command takes, and outlives the call.
    unsafe { fi_control(mr.cast(), FI_GET_RAW_MR, (&raw mut attr).cast()) }
}

/// Maps the raw key of a peer to a 64-bit one. Source: fi_mr(3).
///
/// # Safety
///
/// The object must be open, and every other argument valid in the way, and for as long as, the man page says.
#[inline]
pub unsafe fn fi_mr_map_raw(
    domain: *mut fid_domain,
    base_addr: u64,
    raw_key: *mut u8,
    key_size: usize,
    key: *mut u64,
    flags: u64,
) -> c_int {
    let mut map = fi_mr_map_raw {
        flags,
        base_addr,
        raw_key,
        key_size,
        key,
    };
    // SAFETY: the argument is what the command takes, and outlives the call.
    unsafe { fi_control(domain.cast(), FI_MAP_RAW_MR, (&raw mut map).cast()) }
}

/// Gives a mapped key back. Source: fi_mr(3).
///
/// # Safety
///
/// The object must be open, and every other argument valid in the way, and for as long as, the man page says.
#[inline]
pub unsafe fn fi_mr_unmap_key(domain: *mut fid_domain, mut key: u64) -> c_int {
    // SAFETY: the argument is what the command takes, and outlives the call.
    unsafe { fi_control(domain.cast(), FI_UNMAP_KEY, (&raw mut key).cast()) }
}

/// Copies a descriptor for code on an accelerator; `len` is its room before and its length after. Source: fi_mr(3).
///
/// # Safety
///
/// The object must be open, and every other argument valid in the way, and for as long as, the man page says.
#[inline]
pub unsafe fn fi_mr_get_xpu_desc(
    mr: *mut fid_mr,
    buf: *mut c_void,
    len: *mut usize,
    flags: u64,
    ctx: *mut fid_xpu_ctx,
) -> c_int {
    let mut desc = fi_mr_xpu_desc {
        buf,
        len,
        flags,
        ctx,
    };
    // SAFETY: the argument is what the command takes, and outlives the call.
    unsafe { fi_control(mr.cast(), FI_GET_MR_XPU_DESC, (&raw mut desc).cast()) }
}

/// Binds an endpoint or a counter to a region. Source: fi_mr(3).
///
/// # Safety
///
/// The object must be open, and every other argument valid in the way, and for as long as, the man page says.
#[inline]
pub unsafe fn fi_mr_bind(mr: *mut fid_mr, bfid: *mut fid, flags: u64) -> c_int {
    // SAFETY: the object is open, and its first member is its `fid`.
    unsafe { fi_bind(mr.cast(), bfid, flags) }
}

/// Notifies the provider that pages of a region have changed. Source: fi_mr(3).
///
/// # Safety
///
/// The object must be open, and every other argument valid in the way, and for as long as, the man page says.
#[inline]
pub unsafe fn fi_mr_refresh(mr: *mut fid_mr, iov: *const iovec, count: usize, flags: u64) -> c_int {
    let mut modify = fi_mr_modify {
        flags,
        attr: fi_mr_attr {
            mr_iov: iov,
            iov_count: count,
            ..fi_mr_attr::ZERO
        },
    };
    // SAFETY: the argument is what the command takes, and outlives the call.
    unsafe { fi_control(mr.cast(), FI_REFRESH, (&raw mut modify).cast()) }
}

/// Enables a region that was bound. Source: fi_mr(3).
///
/// # Safety
///
/// The object must be open, and every other argument valid in the way, and for as long as, the man page says.
#[inline]
pub unsafe fn fi_mr_enable(mr: *mut fid_mr) -> c_int {
    // SAFETY: the object is open, and its first member is its `fid`.
    unsafe { fi_control(mr.cast(), FI_ENABLE, ptr::null_mut()) }
}
