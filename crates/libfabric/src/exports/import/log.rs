//! The log of an application, which takes the library's messages while it is imported. Source: rdma/fi_ext.h.

use core::ffi::c_int;
use core::ptr;
use std::collections::HashMap;
use std::ffi::CString;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use oxifabric_abi::*;
pub(super) use oxifabric_provider::log::is_imported;
use oxifabric_provider::log::{self, Imported};

/// Operations of the object that takes a log.
pub(super) static IMPORTER: fi_ops = fi_ops {
    bind: Some(bind),
    ..super::IMPORTER
};

/// Operations of a log that was imported; they belong to the library from then on.
static TAKEN: fi_ops = fi_ops {
    close: Some(close_imported),
    ..super::IMPORTER
};

/// Imports a log (fi_import_fid): it takes the messages until it is closed, and must stay where it is until then.
///
/// # Safety
/// `log` is null or an object; one of the class of logs is a `fid_logging`.
unsafe extern "C" fn bind(_fid: *mut fid, log: *mut fid, flags: u64) -> c_int {
    // SAFETY: the caller vouches for the object.
    if flags != 0 || log.is_null() || unsafe { (*log).fclass } != FI_CLASS_LOG {
        return -FI_EINVAL;
    }
    let logging = log.cast::<fid_logging>();
    // SAFETY: the class says what it is.
    let ops = unsafe {
        match (*logging).ops.as_ref() {
            Some(ops) if ops.size >= size_of::<fi_ops_log>() => *ops,
            _ => return -FI_EINVAL,
        }
    };
    if !log::import(Arc::new(Log(ops))) {
        return -FI_EALREADY;
    }
    // SAFETY: as above.
    unsafe { (*log).ops = (&raw const TAKEN).cast_mut() };
    0
}

/// Messages go where they went before; the structure remains the application's.
extern "C" fn close_imported(_fid: *mut fid) -> c_int {
    log::end_import();
    0
}

/// The functions of an application. One that is missing leaves its part to the library.
struct Log(fi_ops_log);

impl Imported for Log {
    fn enabled(&self, prov: &str, level: u32, subsys: u32) -> Option<bool> {
        let enabled = self.0.enabled?;
        // SAFETY: the application lent the function until it closes the log.
        Some(unsafe { enabled(provider(prov), level, subsys, 0) } != 0)
    }

    fn ready(&self, prov: &str, level: u32, subsys: u32, next_ms: &mut u64) -> Option<bool> {
        let ready = self.0.ready?;
        // SAFETY: as above; the time may be changed.
        Some(unsafe { ready(provider(prov), level, subsys, 0, next_ms) } != 0)
    }

    fn log(&self, prov: &str, level: u32, subsys: u32, place: (&str, u32), text: &str) -> bool {
        let Some(log) = self.0.log else {
            return false;
        };
        let (function, text) = (c_string(place.0), c_string(text));
        let line = c_int::try_from(place.1).unwrap_or(0);
        // SAFETY: as above; the strings outlive the call.
        unsafe {
            log(
                provider(prov),
                level,
                subsys,
                function.as_ptr(),
                line,
                text.as_ptr(),
            )
        };
        true
    }
}

/// Makes a C string; a zero byte would end it.
fn c_string(text: &str) -> CString {
    let end = text.find('\0').unwrap_or(text.len());
    CString::new(&text[..end]).unwrap_or_default()
}

/// Returns what stands for a provider of this name in calls of an imported log: its name, and nothing else. It stays
/// where it is, since the application may keep the pointer.
fn provider(name: &str) -> *const fi_provider {
    static KNOWN: LazyLock<Mutex<HashMap<String, usize>>> = LazyLock::new(Mutex::default);
    let name = if name.is_empty() { "core" } else { name };
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(&at) = known.get(name) {
        return ptr::with_exposed_provenance(at);
    }
    let provider: &'static fi_provider = Box::leak(Box::new(fi_provider {
        version: 0,
        fi_version: 0,
        // SAFETY: an array of pointers, which may be null.
        context: unsafe { core::mem::zeroed() },
        name: c_string(name).into_raw(),
        getinfo: None,
        fabric: None,
        cleanup: None,
    }));
    known.insert(name.to_owned(), ptr::from_ref(provider).expose_provenance());
    provider
}
