//! fi_open, and what it opens: the log, into which an application imports its own. Source: rdma/fi_ext.h.

use core::ffi::{c_char, c_int, c_void};
use core::ptr;
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use oxifabric_abi::*;
use oxifabric_core::log::{self, Imported};

/// The first API version with objects to import.
const SINCE: u32 = FI_VERSION(1, 13);

/// Opens an object of the library by name: `logging`. There is no registration cache (`mr_cache`), so that nothing has to
/// watch the application's memory.
///
/// Returns `-FI_ENOSYS` for other names, `-FI_EALREADY` while a log is imported, `-FI_EINVAL`, `-FI_EBADFLAGS`.
///
/// # Safety
/// `name` is null or a string, `fid` is null or may be written.
pub(super) unsafe extern "C" fn open(
    version: u32,
    name: *const c_char,
    _attr: *mut c_void,
    attr_len: usize,
    flags: u64,
    fid: *mut *mut fid,
    context: *mut c_void,
) -> c_int {
    if name.is_null() || fid.is_null() {
        return -FI_EINVAL;
    }
    // SAFETY: the caller vouches for the string.
    if !unsafe { CStr::from_ptr(name) }
        .to_bytes()
        .eq_ignore_ascii_case(b"logging")
    {
        return -FI_ENOSYS;
    }
    if version < SINCE || attr_len != 0 {
        return -FI_EINVAL;
    }
    if flags != 0 {
        return -FI_EBADFLAGS;
    }
    if log::is_imported() {
        return -FI_EALREADY;
    }
    let door = Box::new(oxifabric_abi::fid {
        fclass: FI_CLASS_LOG,
        context,
        ops: (&raw const DOOR).cast_mut(),
    });
    // SAFETY: the caller vouches for the place.
    unsafe { *fid = Box::into_raw(door) };
    0
}

/// Operations of what [`open`] opens.
static DOOR: fi_ops = fi_ops {
    close: Some(close),
    bind: Some(bind),
    control: Some(no_control),
    ops_open: Some(no_ops),
    tostr: Some(no_tostr),
    ops_set: Some(no_ops),
    ..fi_ops::NONE
};

/// Operations of a log that was imported; they belong to the library from then on.
static TAKEN: fi_ops = fi_ops {
    close: Some(close_imported),
    bind: Some(no_bind),
    ..DOOR
};

/// # Safety
/// As for fi_close(3).
unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: the table is only in what `open` boxed, and the application gives it up.
    drop(unsafe { Box::from_raw(fid) });
    0
}

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

extern "C" fn no_bind(_fid: *mut fid, _bfid: *mut fid, _flags: u64) -> c_int {
    -FI_ENOSYS
}

extern "C" fn no_control(_fid: *mut fid, _command: c_int, _arg: *mut c_void) -> c_int {
    -FI_ENOSYS
}

extern "C" fn no_tostr(_fid: *const fid, _buf: *mut c_char, _len: usize) -> c_int {
    -FI_ENOSYS
}

extern "C" fn no_ops<T>(
    _fid: *mut fid,
    _name: *const c_char,
    _flags: u64,
    _ops: T,
    _context: *mut c_void,
) -> c_int {
    -FI_ENOSYS
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
