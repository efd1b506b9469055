//! fi_open, and the import of an application's log and of its monitor of memory: rdma/fi_ext.h.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::transmute;
use core::ptr::{self, null, null_mut};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use oxifabric_abi::*;

use crate::library::symbol;

type Open = unsafe extern "C" fn(
    u32,
    *const c_char,
    *mut c_void,
    usize,
    u64,
    *mut *mut fid,
    *mut c_void,
) -> c_int;
type GetInfo = unsafe extern "C" fn(
    u32,
    *const c_char,
    *const c_char,
    u64,
    *const fi_info,
    *mut *mut fi_info,
) -> c_int;

/// How long a warning may take that others of its kind hold back. A bound on a hang, not an expectation.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Messages that the application's log received, with their providers.
static TOLD: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());

extern "C" fn enabled(
    _prov: *const fi_provider,
    level: fi_log_level,
    _subsys: fi_log_subsys,
    _flags: u64,
) -> c_int {
    c_int::from(level == FI_LOG_WARN)
}

unsafe extern "C" fn log(
    prov: *const fi_provider,
    level: fi_log_level,
    _subsys: fi_log_subsys,
    func: *const c_char,
    _line: c_int,
    msg: *const c_char,
) {
    assert_eq!(level, FI_LOG_WARN);
    assert!(!func.is_null());
    // SAFETY: the library passes strings.
    let (prov, msg) = unsafe { (CStr::from_ptr((*prov).name), CStr::from_ptr(msg)) };
    let text = |text: &CStr| text.to_string_lossy().into_owned();
    TOLD.lock()
        .expect("no thread panics with it")
        .push((text(prov), text(msg)));
}

fn open(version: u32, name: &CStr, flags: u64) -> Result<*mut fid, c_int> {
    let mut opened = null_mut();
    // SAFETY: the arguments are those of fi_open.
    let code = unsafe {
        let open = transmute::<*mut c_void, Open>(symbol(c"fi_open", c"FABRIC_1.5"));
        open(
            version,
            name.as_ptr(),
            null_mut(),
            0,
            flags,
            &mut opened,
            null_mut(),
        )
    };
    if code == 0 { Ok(opened) } else { Err(-code) }
}

/// Makes the library warn: there is no such API version yet.
fn provoke(minor: u32) {
    let mut list = null_mut();
    // SAFETY: as fi_getinfo(3) asks.
    let code = unsafe {
        let getinfo = transmute::<*mut c_void, GetInfo>(symbol(c"fi_getinfo", c"FABRIC_1.10"));
        getinfo(FI_VERSION(90, minor), null(), null(), 0, null(), &mut list)
    };
    assert_eq!(code, -FI_ENOSYS);
}

fn told(minor: u32) -> bool {
    let told = TOLD.lock().expect("no thread panics with it");
    told.iter()
        .any(|(prov, msg)| prov == "core" && msg.contains(&format!("90.{minor} was asked for")))
}

#[test]
fn an_application_takes_the_log_until_it_closes_its_own() {
    let newest = FI_VERSION(2, 7);
    assert_eq!(open(newest, c"nothing", 0), Err(FI_ENOSYS));
    assert_eq!(open(FI_VERSION(1, 12), c"logging", 0), Err(FI_EINVAL));
    assert_eq!(open(newest, c"logging", 1), Err(FI_EBADFLAGS));

    let mut ops = fi_ops_log {
        enabled: Some(enabled),
        log: Some(log),
        ..fi_ops_log::NONE
    };
    let mut logging = fid_logging {
        fid: fid {
            fclass: FI_CLASS_LOG,
            context: null_mut(),
            ops: null_mut(),
        },
        ops: ptr::from_mut(&mut ops),
    };
    let logging = ptr::from_mut(&mut logging);
    let importer = open(newest, c"LOGGING", 0).expect("no log was imported yet");
    // SAFETY: the objects are open; the log stays until it is closed.
    unsafe {
        assert_eq!(fi_bind(importer, importer, 1), -FI_EINVAL);
        assert_eq!(fi_bind(importer, logging.cast(), 0), 0);
        assert_eq!(fi_close(importer), 0);
    }
    // Other tests of this process warn of such versions, too, and warnings of a kind are merged for a while.
    let deadline = Instant::now() + TIMEOUT;
    while !told(1) {
        assert!(Instant::now() < deadline, "the warning does not come");
        provoke(1);
        thread::yield_now();
    }
    assert_eq!(open(newest, c"logging", 0), Err(FI_EALREADY));
    // SAFETY: as above.
    assert_eq!(unsafe { fi_close(logging.cast()) }, 0);
    provoke(2);
    assert!(!told(2));
    let importer = open(newest, c"logging", 0).expect("it can be opened again");
    // SAFETY: it is open.
    assert_eq!(unsafe { fi_close(importer) }, 0);
}

extern "C" fn start(_: *mut fid_mem_monitor) -> c_int {
    panic!("there is nothing to watch")
}

extern "C" fn stop(_: *mut fid_mem_monitor) {}

extern "C" fn subscribe(_: *mut fid_mem_monitor, _: *const c_void, _: usize) -> c_int {
    panic!("there is nothing to watch")
}

extern "C" fn unsubscribe(_: *mut fid_mem_monitor, _: *const c_void, _: usize) {}

extern "C" fn valid(_: *mut fid_mem_monitor, _: *const c_void, _: usize) -> bool {
    true
}

fn monitor(export_ops: *mut fi_ops_mem_monitor) -> fid_mem_monitor {
    fid_mem_monitor {
        fid: fid {
            fclass: FI_CLASS_MEM_MONITOR,
            context: null_mut(),
            ops: null_mut(),
        },
        export_ops,
        import_ops: null_mut(),
    }
}

/// What Open MPI does: it opens the cache, lends its monitor, tells it of memory that is gone, and closes both.
#[test]
fn a_monitor_of_memory_is_taken_and_told_what_to_call() {
    let newest = FI_VERSION(2, 6);
    assert_eq!(open(FI_VERSION(1, 12), c"mr_cache", 0), Err(FI_EINVAL));
    assert_eq!(open(newest, c"mr_cache", 1), Err(FI_EBADFLAGS));
    let cache = open(FI_VERSION(1, 13), c"mr_cache", 0).expect("there is the object");

    let mut ops = fi_ops_mem_monitor {
        start: Some(start),
        stop: Some(stop),
        subscribe: Some(subscribe),
        unsubscribe: Some(unsubscribe),
        valid: Some(valid),
        ..fi_ops_mem_monitor::NONE
    };
    let ops = ptr::from_mut(&mut ops);
    let mut older = fi_ops_mem_monitor {
        size: size_of::<fi_ops_mem_monitor>() - 1,
        ..fi_ops_mem_monitor::NONE
    };
    let mut short = monitor(ptr::from_mut(&mut older));
    let mut bare = monitor(null_mut());
    let (mut first, mut second) = (monitor(ops), monitor(ops));
    let (first, second) = (ptr::from_mut(&mut first), ptr::from_mut(&mut second));
    // SAFETY: the objects are open; the monitors stay until they are closed.
    unsafe {
        assert_eq!((*cache).fclass, FI_CLASS_MR_CACHE);
        assert_eq!(fi_bind(cache, cache, 0), -FI_EINVAL);
        assert_eq!(
            fi_bind(cache, ptr::from_mut(&mut short).cast(), 0),
            -FI_EINVAL
        );
        assert_eq!(
            fi_bind(cache, ptr::from_mut(&mut bare).cast(), 0),
            -FI_EINVAL
        );
        assert_eq!(fi_bind(cache, first.cast(), 1), -FI_EINVAL);
        assert_eq!(fi_bind(cache, first.cast(), 0), 0);
        assert_eq!(fi_bind(cache, second.cast(), 0), -FI_EBUSY);
        let notify = (*(*first).import_ops).notify.expect("an operation");
        notify(first, ptr::dangling(), 4096);
        assert_eq!(fi_close(cache), 0);
        notify(first, ptr::dangling(), 4096);
        assert_eq!(fi_close(first.cast()), 0);

        let cache = open(newest, c"MR_CACHE", 0).expect("it can be opened again");
        assert_eq!(fi_bind(cache, second.cast(), 0), 0);
        assert_eq!((fi_close(second.cast()), fi_close(cache)), (0, 0));
    }
}
