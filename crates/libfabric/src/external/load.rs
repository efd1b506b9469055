//! Loading of the files of external providers, and the checks that each has to pass.

use core::ffi::{CStr, c_char, c_void};
use core::mem::transmute;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use oxifabric_abi::{FI_PROV_INI, FI_VERSION, fi_prov_ini, fi_provider};
use oxifabric_provider::log;

use super::path::Candidate;
use super::{External, SearchPath, dotted};

/// The oldest API whose providers can be used, as in the C library.
const OLDEST: u32 = FI_VERSION(1, 3);

/// A file that holds no provider for this library, or a provider that another one of the same name hides.
#[derive(Clone, Debug)]
pub(crate) struct Rejected {
    /// The provider's name, or the file if it was rejected before the name was known.
    pub(crate) what: &'static str,
    pub(crate) why: String,
}

impl Rejected {
    pub(super) fn new(file: &Path, why: impl Into<String>) -> Self {
        Self {
            what: file.display().to_string().leak(),
            why: why.into(),
        }
    }
}

/// Loads every provider on the path, in the order of the path; what is wrong with the others is added to `rejected`.
pub(crate) fn load_all(path: &SearchPath, rejected: &mut Vec<Rejected>) -> Vec<External> {
    let mut handles = Vec::new();
    let mut loaded = Vec::new();
    for candidate in path.candidates(rejected) {
        match load(&candidate, &mut handles) {
            Ok(external) => loaded.extend(external.map(|external| External {
                turn: loaded.len(),
                ..external
            })),
            Err(why) => {
                log::warn!("", Core, "{}: {why}", candidate.file.display());
                rejected.push(Rejected::new(&candidate.file, why));
            }
        }
    }
    loaded
}

/// Loads a file; `None` if it is not there, or was loaded before under another name.
fn load(candidate: &Candidate, handles: &mut Vec<*mut c_void>) -> Result<Option<External>, String> {
    let name = CString::new(candidate.file.as_os_str().as_bytes())
        .map_err(|_| "the name holds a zero byte".to_owned())?;
    // SAFETY: loading runs the initializers of a file that the user put where providers are looked for.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
    if handle.is_null() {
        let why = last_error();
        log::debug!("", Core, "{}: {why}", candidate.file.display());
        return if candidate.exists { Err(why) } else { Ok(None) };
    }
    if handles.contains(&handle) {
        unload(handle);
        return Ok(None);
    }
    match initialize(handle, candidate) {
        Ok(external) => {
            handles.push(handle);
            log::info!(
                external.name,
                Core,
                "version {} from {}",
                dotted(external.version),
                external.file.display()
            );
            Ok(Some(external))
        }
        Err(why) => {
            unload(handle);
            Err(why)
        }
    }
}

fn initialize(handle: *mut c_void, candidate: &Candidate) -> Result<External, String> {
    // SAFETY: the handle is open and the name ends.
    let symbol = unsafe { libc::dlsym(handle, FI_PROV_INI.as_ptr()) };
    if symbol.is_null() {
        return Err("it has no function fi_prov_ini".to_owned());
    }
    // SAFETY: a function of this name is of this type in every provider, and is called once.
    let provider = unsafe { transmute::<*mut c_void, fi_prov_ini>(symbol)() };
    // SAFETY: it returned null or its structure, which stays as long as the file is loaded.
    let Some(calls) = (unsafe { provider.as_ref() }) else {
        return Err("it cannot run here: fi_prov_ini returned nothing".to_owned());
    };
    check(calls).inspect_err(|_| {
        if let Some(cleanup) = calls.cleanup {
            // SAFETY: it was initialized, and is not used from here on.
            unsafe { cleanup() };
        }
    })?;
    // SAFETY: `check` saw a name, which is a string of the file.
    let name = unsafe { CStr::from_ptr(calls.name) };
    Ok(External {
        provider,
        name: String::leak(name.to_string_lossy().into_owned()),
        version: calls.version,
        fi_version: calls.fi_version,
        file: whole_path(symbol).unwrap_or_else(|| candidate.file.clone()),
        preferred: candidate.preferred,
        turn: 0,
    })
}

/// Checks the structure that a provider returned: its name, its functions and its API version.
fn check(calls: &fi_provider) -> Result<(), String> {
    if calls.name.is_null() {
        return Err("it has no name".to_owned());
    }
    if calls.fabric.is_none() {
        return Err("it lacks the function fabric".to_owned());
    }
    if calls.fi_version < OLDEST {
        let version = dotted(calls.fi_version);
        return Err(format!(
            "it was built for the API {version}; the oldest that works is {}",
            dotted(OLDEST)
        ));
    }
    Ok(())
}

/// Returns the file that an address was loaded from.
fn whole_path(symbol: *mut c_void) -> Option<PathBuf> {
    // SAFETY: all zeroes is a value, and any address may be asked about.
    let name = unsafe {
        let mut found: libc::Dl_info = core::mem::zeroed();
        if libc::dladdr(symbol, &mut found) == 0 || found.dli_fname.is_null() {
            return None;
        }
        CStr::from_ptr(found.dli_fname).to_bytes()
    };
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(name)))
}

/// Returns the text of the last error of the dynamic loader.
fn last_error() -> String {
    // SAFETY: the text is copied before the next call.
    unsafe {
        let text: *const c_char = libc::dlerror();
        if text.is_null() {
            return "the dynamic loader gives no reason".to_owned();
        }
        CStr::from_ptr(text).to_string_lossy().into_owned()
    }
}

fn unload(handle: *mut c_void) {
    // SAFETY: the handle is open, and nothing of the file is used any more.
    unsafe { libc::dlclose(handle) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ffi::c_int;
    use oxifabric_abi::{fi_context, fi_fabric_attr, fid_fabric};

    unsafe extern "C" fn fabric(
        _: *mut fi_fabric_attr,
        _: *mut *mut fid_fabric,
        _: *mut c_void,
    ) -> c_int {
        0
    }

    const GOOD: fi_provider = fi_provider {
        version: FI_VERSION(1, 0),
        fi_version: FI_VERSION(1, 3),
        context: fi_context::ZERO,
        name: c"good".as_ptr(),
        getinfo: None,
        fabric: Some(fabric),
        cleanup: None,
    };

    #[test]
    fn a_provider_has_a_name_a_fabric_and_an_api_of_1_3_or_later() {
        assert_eq!(check(&GOOD), Ok(()));
        let nameless = fi_provider {
            name: core::ptr::null(),
            ..GOOD
        };
        assert_eq!(check(&nameless), Err("it has no name".to_owned()));
        let empty = fi_provider {
            fabric: None,
            ..GOOD
        };
        assert_eq!(
            check(&empty),
            Err("it lacks the function fabric".to_owned())
        );
        let old = fi_provider {
            fi_version: FI_VERSION(1, 2),
            ..GOOD
        };
        assert!(check(&old).unwrap_err().contains("API 1.2"));
    }

    #[test]
    fn a_file_without_the_entry_point_is_refused_and_one_that_is_not_there_is_not() {
        let mut handles = Vec::new();
        let libc = Candidate {
            file: PathBuf::from("libc.so.6"),
            preferred: false,
            exists: true,
        };
        let why = load(&libc, &mut handles).unwrap_err();
        assert_eq!(why, "it has no function fi_prov_ini");
        let absent = Candidate {
            file: PathBuf::from("libabsent-fi.so"),
            exists: false,
            ..libc
        };
        assert!(load(&absent, &mut handles).unwrap().is_none());
        let demanded = Candidate {
            exists: true,
            ..absent
        };
        assert!(load(&demanded, &mut handles).is_err());
    }
}
