//! fi_getparams, fi_freeparams: the configuration variables, which `fi_info -e` prints. Source: fabric(7).

use core::ffi::{c_char, c_int};
use core::ptr;
use std::ffi::CString;
use std::os::unix::ffi::OsStringExt;

use oxifabric_abi::{FI_EINVAL, FI_ENOMEM, fi_param};
use oxifabric_core::params::{external, of_library};
use oxifabric_provider::params::{Parameter, setting};

use crate::providers::registry;

/// Lists all variables in `params`, ended by one without a name; [`freeparams`] releases the list.
///
/// # Safety
/// `params` and `count` are null or may be written.
pub(crate) unsafe extern "C" fn getparams(params: *mut *mut fi_param, count: *mut c_int) -> c_int {
    // SAFETY: the caller vouches for both results.
    let (Some(params), Some(count)) = (unsafe { (params.as_mut(), count.as_mut()) }) else {
        return -FI_EINVAL;
    };
    let rows = rows();
    // SAFETY: `calloc` has no preconditions.
    let list: *mut fi_param = unsafe { libc::calloc(rows.len() + 1, size_of::<fi_param>()).cast() };
    if list.is_null() {
        return -FI_ENOMEM;
    }
    for (index, row) in rows.iter().enumerate() {
        let param = row.to_c();
        let complete = !param.name.is_null() && !param.help_string.is_null();
        // SAFETY: the list has one more entry than there are rows.
        unsafe { list.add(index).write(param) };
        if !complete {
            // SAFETY: the list is ours, and zero behind what is filled.
            unsafe { freeparams(list) };
            return -FI_ENOMEM;
        }
    }
    *params = list;
    *count = c_int::try_from(rows.len()).unwrap_or(c_int::MAX);
    0
}

/// Releases a list of [`getparams`]; null is allowed.
///
/// # Safety
/// `params` is null or such a list.
pub(crate) unsafe extern "C" fn freeparams(params: *mut fi_param) {
    let mut next = params;
    // SAFETY: the list ends with an entry without a name; every string is one of libc.
    unsafe {
        while let Some(param) = next.as_ref().filter(|param| !param.name.is_null()) {
            libc::free(param.name.cast_mut().cast());
            libc::free(param.help_string.cast_mut().cast());
            libc::free(param.value.cast_mut().cast());
            next = next.add(1);
        }
        libc::free(params.cast());
    }
}

/// One variable.
struct Row {
    variable: CString,
    kind: u32,
    help: CString,
}

impl Row {
    /// Builds the C structure; a string is null when memory is out, the value also when the variable is not set.
    fn to_c(&self) -> fi_param {
        let value = self.variable.to_str().ok().and_then(setting);
        let value = value.and_then(|value| CString::new(value.into_vec()).ok());
        fi_param {
            name: copy(&self.variable),
            type_: self.kind,
            help_string: copy(&self.help),
            value: value.as_ref().map_or(ptr::null(), copy),
        }
    }
}

/// Lists the variables of the library, of its providers, and those that other code defined.
fn rows() -> Vec<Row> {
    let of_library = of_library()
        .chain(&crate::external::PARAMETERS)
        .chain(&crate::hook::PARAMETERS);
    let of_library = of_library.map(|parameter| row("", parameter));
    let of_providers = registry().providers().flat_map(|entry| {
        let parameters = (entry.parameters)().iter();
        parameters.map(|parameter| row(entry.layer(), parameter))
    });
    let defined = external::all().into_iter().map(|defined| Row {
        variable: defined.variable,
        kind: defined.kind,
        help: c_string(defined.help),
    });
    let of_hooks = crate::hook::MONITOR_PARAMETERS.iter();
    let of_hooks = of_hooks.map(|parameter| row("ofi_hook_monitor", parameter));
    of_library
        .chain(of_hooks)
        .chain(of_providers)
        .chain(defined)
        .collect()
}

fn row(provider: &str, parameter: &Parameter) -> Row {
    Row {
        variable: c_string(parameter.variable(provider)),
        kind: parameter.kind.raw(),
        help: c_string(parameter.description(provider)),
    }
}

/// Makes a C string; a zero byte, which none of our texts has, would end it.
fn c_string(text: String) -> CString {
    let bytes = text.into_bytes();
    let end = bytes.iter().position(|&byte| byte == 0);
    CString::new(&bytes[..end.unwrap_or(bytes.len())]).unwrap_or_default()
}

fn copy(text: &CString) -> *const c_char {
    // SAFETY: the string ends.
    unsafe { libc::strdup(text.as_ptr()) }
}
