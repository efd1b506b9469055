//! `kofi_verbs.ko`: the provider of endpoints over RDMA devices.
#![no_std]

use core::ffi::{c_char, c_int, c_void};

use oxifabric_abi::{fi_fabric_attr, fi_info, fid_fabric};
use oxifabric_kernel_verbs::Verbs;
use oxifabric_types::Errno;

/// Prepares the provider; returns zero, or an error number.
#[unsafe(no_mangle)]
pub extern "C" fn kofi_verbs_rs_init() -> c_int {
    match oxifabric_kernel_objects::init() {
        true => 0,
        false => -Errno::NOMEM.raw(),
    }
}

/// Undoes `kofi_verbs_rs_init`; returns how many allocations are left.
///
/// # Safety
/// The module is being unloaded: nothing of it is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kofi_verbs_rs_exit() -> usize {
    // SAFETY: the caller's contract.
    unsafe { oxifabric_kernel_objects::exit() };
    krt::live_allocations()
}

/// The provider's `getinfo`.
///
/// # Safety
/// As [`oxifabric_kernel_objects::getinfo`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kofi_verbs_rs_getinfo(
    _version: u32,
    node: *const c_char,
    service: c_int,
    flags: u64,
    hints: *mut fi_info,
    info: *mut *mut fi_info,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { oxifabric_kernel_objects::getinfo::<Verbs>(node, service, flags, hints, info) }
}

/// The provider's `freeinfo`.
///
/// # Safety
/// As [`oxifabric_kernel_objects::freeinfo`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kofi_verbs_rs_freeinfo(info: *mut fi_info) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { oxifabric_kernel_objects::freeinfo(info) }
}

/// The provider's `fabric`.
///
/// # Safety
/// As [`oxifabric_kernel_objects::open_fabric`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kofi_verbs_rs_fabric(
    attr: *mut fi_fabric_attr,
    fabric: *mut *mut fid_fabric,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { oxifabric_kernel_objects::open_fabric::<Verbs>(attr, fabric, context) }
}

/// Queues the task that a connection names.
///
/// # Safety
/// As [`oxifabric_kernel_verbs::wake`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kofi_verbs_rs_wake(owner: *const c_void) {
    // SAFETY: the caller's contract.
    unsafe { oxifabric_kernel_verbs::wake(owner) }
}
