//! The functions of another libfabric, through the dynamic loader.

use core::ffi::{CStr, c_void};
use std::ffi::CString;
use std::path::Path;

use super::EntryPoints;

impl EntryPoints {
    /// Loads another libfabric.so.1 for the rest of the process.
    ///
    /// # Errors
    /// What the dynamic loader says, or which function is missing.
    pub fn load(path: &Path) -> Result<Self, String> {
        let name = CString::new(path.as_os_str().as_encoded_bytes())
            .map_err(|_| "the path contains a zero byte".to_owned())?;
        // SAFETY: loading a shared object runs its initializers; libfabric's are made for that. It is never unloaded, since its
        // providers may have threads.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            // SAFETY: an error is pending, and its text is copied before the next call.
            let said = unsafe { CStr::from_ptr(libc::dlerror()) };
            return Err(said.to_string_lossy().into_owned());
        }
        // SAFETY: the library is loaded and stays so; the type of each field is the C header's signature of that function, and
        // those that take structures are asked for at layouts that this crate mirrors.
        unsafe {
            Ok(Self {
                getinfo: function(library, c"fi_getinfo")?,
                freeinfo: function(library, c"fi_freeinfo")?,
                dupinfo: function(library, c"fi_dupinfo")?,
                fabric: function(library, c"fi_fabric")?,
                version: function(library, c"fi_version")?,
                strerror: function(library, c"fi_strerror")?,
                tostr_r: function(library, c"fi_tostr_r")?,
                getparams: function(library, c"fi_getparams")?,
                freeparams: function(library, c"fi_freeparams")?,
            })
        }
    }
}

/// Finds a function of a library.
///
/// # Safety
///
/// `library` must be loaded, and `F` be the type of the pointer to the function.
unsafe fn function<F: Copy>(library: *mut c_void, name: &CStr) -> Result<F, String> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: the library is loaded.
    let symbol = unsafe { symbol(library, name) }?;
    // SAFETY: a pointer to a function has the size of one to data here, and the caller vouches for its type.
    Ok(unsafe { core::mem::transmute_copy(&symbol) })
}

/// Symbol versions of structures that this crate mirrors, newest first; older libraries have prefixes of them.
const VERSIONS: [&CStr; 5] = [
    c"FABRIC_1.10",
    c"FABRIC_1.9",
    c"FABRIC_1.8",
    c"FABRIC_1.7",
    c"FABRIC_1.3",
];

/// Finds a function, at the newest known version if it has versions.
///
/// # Safety
///
/// `library` must be loaded.
unsafe fn symbol(library: *mut c_void, name: &CStr) -> Result<*mut c_void, String> {
    for version in VERSIONS {
        // SAFETY: the library is loaded and both strings end.
        let found = unsafe { libc::dlvsym(library, name.as_ptr(), version.as_ptr()) };
        if !found.is_null() {
            return Ok(found);
        }
    }
    // SAFETY: as above.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    if found.is_null() {
        return Err(format!("it has no function {}", name.to_string_lossy()));
    }
    Ok(found)
}
