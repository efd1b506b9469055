//! The symbols of libfabric.so.1, each under every version that a program may have been linked to.
//!
//! Rust has no notion of symbol versions, so every exported symbol is a jump in assembly with a `.symver` of its own; the
//! linker script `libfabric.map` beside this crate's manifest declares the versions and hides everything else.

mod import;
mod older;
pub(crate) mod variadic;

use core::ffi::{c_int, c_void};

use oxifabric_abi::{FI_EINVAL, fi_info, fid_fabric};

use crate::{calls, defect, logging, params, tostr};

/// Defines `symbol`, which jumps to `target` and is exported as `name` of `version` (`@@` the newest, `@` an older one).
macro_rules! export {
    ($($symbol:literal, $name:literal, $version:literal => $target:path;)*) => { $(
        core::arch::global_asm!(
            concat!(".section .text.", $symbol, ",\"ax\",%progbits"),
            concat!(".globl ", $symbol),
            concat!(".type ", $symbol, ", %function"),
            concat!(".symver ", $symbol, ", ", $name, $version),
            concat!($symbol, ":"),
            #[cfg(target_arch = "x86_64")]
            "jmp {target}",
            #[cfg(target_arch = "aarch64")]
            "b {target}",
            concat!(".size ", $symbol, ", . - ", $symbol),
            ".text",
            target = sym $target,
        );
    )* };
}

export! {
    "fi_getinfo_1_0", "fi_getinfo", "@FABRIC_1.0" => older::getinfo_1_0;
    "fi_getinfo_1_1", "fi_getinfo", "@FABRIC_1.1" => older::getinfo_1_1;
    "fi_getinfo_1_2", "fi_getinfo", "@FABRIC_1.2" => older::getinfo_1_2;
    "fi_getinfo_1_3", "fi_getinfo", "@FABRIC_1.3" => older::getinfo_1_3;
    "fi_getinfo_1_7", "fi_getinfo", "@FABRIC_1.7" => older::getinfo_1_7;
    "fi_getinfo_1_8", "fi_getinfo", "@FABRIC_1.8" => older::getinfo_1_8;
    "fi_getinfo_1_9", "fi_getinfo", "@FABRIC_1.9" => older::getinfo_1_9;
    "fi_getinfo_1_10", "fi_getinfo", "@@FABRIC_1.10" => calls::getinfo;

    "fi_dupinfo_1_0", "fi_dupinfo", "@FABRIC_1.0" => older::dupinfo_1_0;
    "fi_dupinfo_1_1", "fi_dupinfo", "@FABRIC_1.1" => older::dupinfo_1_1;
    "fi_dupinfo_1_2", "fi_dupinfo", "@FABRIC_1.2" => older::dupinfo_1_2;
    "fi_dupinfo_1_3", "fi_dupinfo", "@FABRIC_1.3" => older::dupinfo_1_3;
    "fi_dupinfo_1_7", "fi_dupinfo", "@FABRIC_1.7" => older::dupinfo_1_7;
    "fi_dupinfo_1_8", "fi_dupinfo", "@FABRIC_1.8" => older::dupinfo_1_8;
    "fi_dupinfo_1_9", "fi_dupinfo", "@FABRIC_1.9" => older::dupinfo_1_9;
    "fi_dupinfo_1_10", "fi_dupinfo", "@@FABRIC_1.10" => calls::dupinfo;

    // Every list was built by this library in the newest layout, whichever version of the function releases it.
    "fi_freeinfo_1_0", "fi_freeinfo", "@FABRIC_1.0" => calls::freeinfo;
    "fi_freeinfo_1_1", "fi_freeinfo", "@FABRIC_1.1" => calls::freeinfo;
    "fi_freeinfo_1_2", "fi_freeinfo", "@FABRIC_1.2" => calls::freeinfo;
    "fi_freeinfo_1_3", "fi_freeinfo", "@FABRIC_1.3" => calls::freeinfo;
    "fi_freeinfo_1_7", "fi_freeinfo", "@FABRIC_1.7" => calls::freeinfo;
    "fi_freeinfo_1_8", "fi_freeinfo", "@FABRIC_1.8" => calls::freeinfo;
    "fi_freeinfo_1_9", "fi_freeinfo", "@FABRIC_1.9" => calls::freeinfo;
    "fi_freeinfo_1_10", "fi_freeinfo", "@@FABRIC_1.10" => calls::freeinfo;

    "fi_fabric_1_0", "fi_fabric", "@FABRIC_1.0" => older::fabric_1_0;
    "fi_fabric_1_1", "fi_fabric", "@@FABRIC_1.1" => calls::fabric;
    "fi_fabric2_1_8", "fi_fabric2", "@@FABRIC_1.8" => fabric2;
    "fi_open_1_5", "fi_open", "@@FABRIC_1.5" => import::open;

    "fi_version_1_0", "fi_version", "@@FABRIC_1.0" => calls::version;
    "fi_strerror_1_0", "fi_strerror", "@@FABRIC_1.0" => calls::strerror;
    "fi_tostr_1_0", "fi_tostr", "@@FABRIC_1.0" => tostr::fi_tostr;
    "fi_tostr_r_1_4", "fi_tostr_r", "@@FABRIC_1.4" => tostr::fi_tostr_r;

    "fi_log_enabled_1_0", "fi_log_enabled", "@@FABRIC_1.0" => logging::log_enabled;
    "fi_log_ready_1_6", "fi_log_ready", "@@FABRIC_1.6" => logging::log_ready;
    "fi_log_1_0", "fi_log", "@@FABRIC_1.0" => variadic::log;
    "fi_param_define_1_0", "fi_param_define", "@@FABRIC_1.0" => variadic::param_define;
    "fi_param_get_1_0", "fi_param_get", "@@FABRIC_1.0" => logging::param_get;
    "fi_getparams_1_0", "fi_getparams", "@@FABRIC_1.0" => params::getparams;
    "fi_freeparams_1_0", "fi_freeparams", "@@FABRIC_1.0" => params::freeparams;
}

/// Runs when the library is loaded.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn start() {
    defect::report_panics();
}

/// Runs when the process ends, after the handlers that the program registered.
#[used]
#[unsafe(link_section = ".fini_array")]
static FINISH: extern "C" fn() = finish;

extern "C" fn finish() {
    crate::providers::finish();
}

/// Opens the fabric of an entry; no flags are defined. Source: fi_fabric(3).
///
/// # Safety
/// `info` is null or valid; `fabric` may be written.
unsafe extern "C" fn fabric2(
    info: *mut fi_info,
    fabric: *mut *mut fid_fabric,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller vouches for the entry.
    match unsafe { info.as_ref() } {
        // SAFETY: the caller's contract, passed on.
        Some(info) if flags == 0 => unsafe { calls::fabric(info.fabric_attr, fabric, context) },
        _ => -FI_EINVAL,
    }
}
