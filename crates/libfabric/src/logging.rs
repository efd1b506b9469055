//! The log and the parameters as external providers use them. Source: fi_provider(3).
//!
//! `fi_log` and `fi_param_define` take a format and a variable number of arguments, which Rust can call but not define:
//! `exports::variadic` gathers them and calls [`log`] and [`param_define`] here.

use core::ffi::{CStr, c_char, c_int, c_void};

use oxifabric_abi::{FI_EINVAL, fi_provider};
use oxifabric_core::params::external::{self, Value};
use oxifabric_provider::log;

use crate::exports::variadic::Registers;

/// Longest message that is printed whole.
const MESSAGE_SIZE: usize = 1024;

unsafe extern "C" {
    /// The formatter of libc; `args` is a `va_list` as the platform passes it.
    fn vsnprintf(buf: *mut c_char, size: usize, format: *const c_char, args: *mut c_void) -> c_int;
}

/// Returns whether messages of this kind are printed (fi_log_enabled).
///
/// # Safety
/// `prov` is null or valid.
pub(crate) unsafe extern "C" fn log_enabled(
    prov: *const fi_provider,
    level: c_int,
    subsys: c_int,
) -> c_int {
    // SAFETY: the caller's contract, passed on.
    let name = unsafe { provider_name(prov) };
    c_int::from(log::enabled_raw(&name, level as u32, subsys as u32))
}

/// Returns whether a message of this kind may be printed now, and when so moves the time in `showtime` on (fi_log_ready).
///
/// # Safety
/// `prov` is null or valid; `showtime` may be written.
pub(crate) unsafe extern "C" fn log_ready(
    prov: *const fi_provider,
    level: c_int,
    subsys: c_int,
    showtime: *mut u64,
) -> c_int {
    // SAFETY: the caller's contract, passed on.
    let (name, showtime) = unsafe { (provider_name(prov), showtime.as_mut()) };
    let ready = |next| log::ready(&name, level as u32, subsys as u32, next);
    c_int::from(showtime.is_some_and(ready))
}

/// `fi_log(prov, level, subsys, func, line, fmt, ...)`: prints a message, which ends its line itself.
///
/// # Safety
/// The registers hold those arguments: `prov` valid, `func` and `fmt` strings, and `args` the values that `fmt` wants.
pub(crate) unsafe extern "C" fn log(registers: &Registers, args: *mut c_void) {
    let [prov, level, subsys, func, line, format] = registers.first();
    let mut message = [0_u8; MESSAGE_SIZE];
    // SAFETY: the caller vouches for the arguments.
    let (name, func) = unsafe {
        vsnprintf(message.as_mut_ptr().cast(), MESSAGE_SIZE, format as _, args);
        (provider_name(prov as _), text(func as _))
    };
    let message = CStr::from_bytes_until_nul(&message).unwrap_or_default();
    let message = message.to_string_lossy();
    log::write_line(
        &name,
        level as u32,
        subsys as u32,
        (&func, line as u32),
        &message,
    );
}

/// `fi_param_define(prov, name, type, fmt, ...)`: defines a variable whose help is the formatted text.
///
/// # Safety
/// The registers hold those arguments: `prov` null or valid, `name` and `fmt` null or strings, and `args` the values that
/// `fmt` wants.
pub(crate) unsafe extern "C" fn param_define(registers: &Registers, args: *mut c_void) -> c_int {
    let [prov, name, kind, format, ..] = registers.first();
    if name == 0 || format == 0 {
        return -FI_EINVAL;
    }
    let mut help = [0_u8; MESSAGE_SIZE];
    // SAFETY: the caller vouches for the arguments.
    let (provider, name) = unsafe {
        vsnprintf(help.as_mut_ptr().cast(), MESSAGE_SIZE, format as _, args);
        (provider_name(prov as _), text(name as _))
    };
    let help = CStr::from_bytes_until_nul(&help).unwrap_or_default();
    let separator = if provider.is_empty() { "" } else { ": " };
    let help = format!("{provider}{separator}{}", help.to_string_lossy());
    match external::define(prov, &provider, &name, kind as u32, help) {
        Ok(()) => 0,
        Err(errno) => -errno.raw(),
    }
}

/// Reads a variable into `value`, whose type was said when it was defined (fi_param_get).
///
/// Returns `-FI_ENODATA` if it is not set, `-FI_ENOENT` if it was not defined, `-FI_EINVAL` for a bad truth value.
///
/// # Safety
/// `name` is null or a string; `value` is null or may be written as `char *`, `int` or `size_t`.
pub(crate) unsafe extern "C" fn param_get(
    prov: *mut fi_provider,
    name: *const c_char,
    value: *mut c_void,
) -> c_int {
    if name.is_null() || value.is_null() {
        return -FI_EINVAL;
    }
    // SAFETY: the name is a string.
    let name = unsafe { text(name) };
    // SAFETY: the caller vouches for a result of the type that the definition names.
    unsafe {
        match external::value(prov.addr(), &name) {
            Ok(Value::Text(text)) => value.cast::<*const c_char>().write(text),
            Ok(Value::Int(number)) => value.cast::<c_int>().write(number),
            Ok(Value::Size(size)) => value.cast::<usize>().write(size),
            Err(errno) => return -errno.raw(),
        }
    }
    0
}

/// Copies the name of a provider; empty for the library itself.
///
/// # Safety
/// `prov` is null or valid.
unsafe fn provider_name(prov: *const fi_provider) -> String {
    // SAFETY: the caller vouches for the structure, whose name is null or a string.
    unsafe {
        let name = prov.as_ref().map_or(core::ptr::null(), |prov| prov.name);
        text(name)
    }
}

/// Copies a C string; empty for null.
///
/// # Safety
/// `text` is null or a string.
unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller vouches for the string.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}
