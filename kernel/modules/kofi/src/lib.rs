//! `kofi.ko`: the providers of the kernel, and fi_getinfo over all of them.
#![no_std]

use core::ffi::{c_char, c_int, c_uint, c_void};
use core::fmt;

use oxifabric_abi::{fi_fabric_attr, fi_info, fid_fabric};
use oxifabric_kernel_registry::{System, fabric, getinfo, kofi_provider, provider};
use oxifabric_types::Errno;

unsafe extern "C" {
    fn kofi_module_get(module: *mut c_void) -> bool;
    fn kofi_module_put(module: *mut c_void);
}

const SYSTEM: System = System {
    // SAFETY: a registered provider names its module.
    get_module: |module| unsafe { kofi_module_get(module) },
    // SAFETY: as above, and it was got.
    put_module: |module| unsafe { kofi_module_put(module) },
    log,
};

fn log(text: fmt::Arguments<'_>) {
    krt::info!("{text}");
}

fn status(result: Result<(), Errno>) -> c_int {
    result.map_or_else(|errno| -errno.raw(), |()| 0)
}

/// Prepares the registry; returns zero, or an error number.
#[unsafe(no_mangle)]
pub extern "C" fn kofi_rs_init() -> c_int {
    match oxifabric_kernel_registry::init(SYSTEM) {
        true => 0,
        false => -Errno::NOMEM.raw(),
    }
}

/// Undoes `kofi_rs_init`; returns how many allocations are left.
///
/// # Safety
/// The module is being unloaded: nothing is registered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kofi_rs_exit() -> usize {
    // SAFETY: the caller's contract.
    unsafe { oxifabric_kernel_registry::exit() };
    krt::live_allocations()
}

/// `kofi_provider_register`, with the module filled in.
///
/// # Safety
/// As [`provider::register`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kofi_rs_register(version: c_uint, provider: *mut kofi_provider) -> c_int {
    // SAFETY: the caller's contract.
    status(unsafe { provider::register(version, provider) })
}

/// `kofi_provider_deregister`.
#[unsafe(no_mangle)]
pub extern "C" fn kofi_rs_deregister(provider: *mut kofi_provider) -> c_int {
    status(provider::deregister(provider))
}

/// `kofi_getinfo`.
///
/// # Safety
/// As [`getinfo::getinfo`]; `info` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kofi_rs_getinfo(
    version: u32,
    node: *const c_char,
    service: c_int,
    flags: u64,
    hints: *mut fi_info,
    info: *mut *mut fi_info,
) -> c_int {
    // SAFETY: the caller's contract.
    let found = unsafe { getinfo::getinfo(version, node, service, flags, hints) };
    // SAFETY: the caller's contract.
    status(found.map(|list| unsafe { info.write(list) }))
}

/// `kofi_freeinfo`.
///
/// # Safety
/// The list is of this module, and not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kofi_rs_freeinfo(info: *mut fi_info) {
    // SAFETY: the caller's contract.
    unsafe { oxifabric_info::free(info) }
}

/// `kofi_dupinfo`: a copy of an entry, or an empty one for null.
///
/// # Safety
/// `info` is null or an entry.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kofi_rs_dupinfo(info: *const fi_info) -> *mut fi_info {
    // SAFETY: the caller's contract.
    unsafe { oxifabric_info::dup(info) }
}

/// `kofi_fabric`.
///
/// # Safety
/// As [`fabric::open`]; `place` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kofi_rs_fabric(
    attr: *mut fi_fabric_attr,
    place: *mut *mut fid_fabric,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's contract.
    let opened = unsafe { fabric::open(attr, context) };
    // SAFETY: the caller's contract.
    status(opened.map(|fabric| unsafe { place.write(fabric) }))
}
