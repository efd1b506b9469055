//! Providers outside this library: files `*-fi.so` with the function `fi_prov_ini`. Source: fi_provider(3), fabric(7).
//!
//! They are loaded once, when the library is first asked for its providers, and stay loaded: handles that applications
//! hold point into them. Setup path.
//!
//! - `path`: where FI_PROVIDER_PATH says to look;
//! - `load`: one file, checked before it is believed;
//! - `selection`: which of several providers of one name is active;
//! - `requester`: the caller of fi_getinfo(3), an application or another provider;
//! - `query`: fi_getinfo(3) asked of one provider; `adopt`: what it returns, in the newest layout.

mod adopt;
mod load;
mod path;
mod query;
mod requester;
mod selection;

use core::ffi::{c_int, c_void};
use std::path::PathBuf;

use oxifabric_abi::{FI_ENODEV, FI_VERSION, fi_fabric_attr, fi_provider, fid_fabric};
use oxifabric_provider::params::{Parameter, ParameterKind};

pub(crate) use load::{Rejected, load_all};
pub(crate) use path::SearchPath;
pub(crate) use query::{InfoRequest, query_one};
pub(crate) use requester::Requester;
pub(crate) use selection::{ProviderVersion, select};

/// Parameters of the search for external providers.
pub(crate) static PARAMETERS: [Parameter; 1] = [Parameter {
    name: "provider_path",
    kind: ParameterKind::Text,
    help: "Folders, with colons between them, in which external providers (*-fi.so) are looked for; +FILE is one that \
           is preferred to all others of its name; a @ in front lets the first of a name win and not the newest",
    default: "the folder libfabric beside this library",
}];

/// An external provider that was loaded and accepted.
#[derive(Debug)]
pub(crate) struct External {
    /// What `fi_prov_ini` returned; it belongs to the file.
    provider: *mut fi_provider,
    pub(crate) name: &'static str,
    /// The provider's own version.
    pub(crate) version: u32,
    /// The API that it was built for.
    pub(crate) fi_version: u32,
    pub(crate) file: PathBuf,
    /// FI_PROVIDER_PATH names the very file.
    pub(crate) preferred: bool,
    /// How many were loaded before it.
    #[cfg_attr(
        not(feature = "export"),
        expect(dead_code, reason = "a process ends with the whole library only")
    )]
    pub(crate) turn: usize,
}

// SAFETY: the structure is read only, and the functions in it are those of a library, which any thread may call.
unsafe impl Send for External {}
// SAFETY: as for `Send`.
unsafe impl Sync for External {}

impl External {
    /// Returns the provider's functions.
    fn calls(&self) -> &fi_provider {
        // SAFETY: `load` checked the pointer; the file stays loaded.
        unsafe { &*self.provider }
    }

    /// Returns whether it layers over other providers: its endpoints are then named `core;name`.
    pub(crate) fn is_utility(&self) -> bool {
        requester::is_utility(self.name)
    }

    /// Opens a fabric of this provider. Source: fi_fabric(3).
    ///
    /// # Safety
    /// As for fi_fabric(3) with both pointers valid.
    pub(crate) unsafe fn open_fabric(
        &self,
        attr: *mut fi_fabric_attr,
        fabric: *mut *mut fid_fabric,
        context: *mut c_void,
    ) -> c_int {
        let Some(open) = self.calls().fabric else {
            return -FI_ENODEV;
        };
        // SAFETY: the caller's contract, passed on.
        let code = unsafe { open(attr, fabric, context) };
        if code == 0 && self.fi_version >= FI_VERSION(1, 5) {
            // SAFETY: the provider opened it; before 1.5 the handle had no such field.
            unsafe { (**fabric).api_version = (*attr).api_version };
        }
        code
    }

    /// Lets the provider clean up, at the end of the process.
    #[cfg(feature = "export")]
    pub(crate) fn cleanup(&self) {
        oxifabric_provider::log::debug!(self.name, Core, "cleaning up {}", self.file.display());
        if let Some(cleanup) = self.calls().cleanup {
            // SAFETY: `fi_prov_ini` was called and nothing of the provider is in use any more.
            unsafe { cleanup() };
        }
    }
}

/// Returns an API version as people write it.
pub(crate) fn dotted(version: u32) -> String {
    format!("{}.{}", version >> 16, version & 0xffff)
}
