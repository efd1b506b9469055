//! The library under test.

use core::ffi::{CStr, c_void};
use std::env;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Returns the folder of the library, which is built at the first call if the environment names none.
pub(crate) fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| match env::var_os("OXI_DIST") {
        Some(dist) => Path::new(&dist).join("lib"),
        None => build(),
    })
}

/// Returns the path of the library.
pub(crate) fn path() -> PathBuf {
    folder().join("libfabric.so.1")
}

fn build() -> PathBuf {
    let dist = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dist");
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["run", "--quiet", "--package", "xtask", "--", "dist"])
        .args(["--profile", "dev", "--out"])
        .arg(&dist)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .expect("cargo runs");
    assert!(status.success(), "cargo xtask dist: {status}");
    dist.join("lib")
}

/// Returns the address of a function at one of its versions.
pub(crate) fn symbol(name: &CStr, version: &CStr) -> *mut c_void {
    // SAFETY: the library is loaded and both strings end.
    let found = unsafe { libc::dlvsym(handle() as *mut c_void, name.as_ptr(), version.as_ptr()) };
    assert!(!found.is_null(), "{name:?} has no version {version:?}");
    found
}

/// Loads the library, for the rest of the process.
fn handle() -> usize {
    static HANDLE: OnceLock<usize> = OnceLock::new();
    *HANDLE.get_or_init(|| {
        let path = CString::new(path().as_os_str().as_bytes()).expect("a path has no zero byte");
        // SAFETY: the library has no initializer but that of the Rust runtime.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!handle.is_null(), "{path:?} cannot be loaded");
        handle as usize
    })
}
