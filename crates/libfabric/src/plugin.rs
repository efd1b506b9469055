//! The providers of this library as one external provider of another libfabric, the host: the entry point of `liboxifabric-fi.so`. Source:
//! fi_provider(3).
//!
//! A file has one provider with one name. This one is called `oxifabric` and returns the endpoints of all providers in this
//! library; the names of fabric and domain and the protocol tell which provider an endpoint is of. So it stands beside the host's
//! own `tcp` and `shm`, and hides neither.
//!
//! The host passes `fi_info` in its own layout, which its version tells, and takes ours, which begins like any older one.

use core::ffi::{c_char, c_int, c_void};
use core::{mem, ptr};

use oxifabric_abi::{
    FI_EINVAL, FI_ENODATA, FI_MAJOR_VERSION, FI_MINOR_VERSION, FI_PARAM_STRING, FI_VERSION,
    fi_context, fi_fabric_attr, fi_info, fi_provider, fid_fabric,
};
use oxifabric_core::info::{Abi, from_c, to_c_list, widened};
use oxifabric_core::provider_entry::ProviderEntry;
use oxifabric_core::registry::Request;
use oxifabric_provider::PROVIDER_VERSION;
use oxifabric_provider::params::NameFilter;
use oxifabric_provider::{log, params};
use oxifabric_types::Info;

use crate::calls::text;
use crate::providers::registry;

/// The provider as the host sees it.
struct Plugin(fi_provider);

// SAFETY: the host writes into its `context` before it uses the provider; this library reads nothing of it.
unsafe impl Sync for Plugin {}

static mut PLUGIN: Plugin = Plugin(fi_provider {
    version: PROVIDER_VERSION,
    fi_version: FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION),
    context: fi_context::ZERO,
    name: c"oxifabric".as_ptr(),
    getinfo: Some(getinfo),
    fabric: Some(fabric),
    cleanup: Some(cleanup),
});

/// Which of the providers in this library are used, as in FI_PROVIDER.
const FILTER: &str = "FI_OXIFABRIC_PROVIDER";

/// Returns the provider to the host.
#[cfg_attr(feature = "plugin", unsafe(no_mangle))]
pub(crate) extern "C" fn fi_prov_ini() -> *mut fi_provider {
    #[cfg(feature = "plugin")]
    crate::defect::report_panics();
    let plugin = &raw mut PLUGIN;
    // SAFETY: only the address is taken.
    let provider = unsafe { &raw mut (*plugin).0 };
    define_parameter(provider);
    provider
}

/// Lists the endpoints of the providers in this library. Source: fi_getinfo(3).
unsafe extern "C" fn getinfo(
    version: u32,
    node: *const c_char,
    service: *const c_char,
    flags: u64,
    hints: *const fi_info,
    info: *mut *mut fi_info,
) -> c_int {
    let read = |hints: *const fi_info| {
        // SAFETY: the host passes null or a valid entry, which is in the newest layout here.
        (!hints.is_null())
            .then(|| unsafe { from_c(hints) })
            .transpose()
    };
    // SAFETY: hints are in the host's layout; strings are null or end; the list goes to the host.
    unsafe {
        let hints = match Abi::of_release(host::version()) {
            Some(abi) => widened(hints.cast(), &abi, read),
            None => read(hints),
        };
        let (Ok(node), Ok(service), Ok(hints)) = (text(node), text(service), hints) else {
            return -FI_ENODATA;
        };
        // The host asked for us by the name of the file's provider, which none of ours has.
        let hints = hints.map(|mut hints: Info| {
            hints.fabric.prov_name.clear();
            hints
        });
        let request = Request {
            version,
            node,
            service,
            flags,
            hints: hints.as_ref(),
        };
        let filter = NameFilter::parse(
            &params::setting(FILTER)
                .unwrap_or_default()
                .to_string_lossy(),
        );
        let infos = registry().query_filtered(&request, &filter).infos;
        *info = to_c_list(&infos);
        take_names(*info);
        if (*info).is_null() { -FI_ENODATA } else { 0 }
    }
}

/// Removes the names of providers from a list: the host fills in its own name for the file.
///
/// # Safety
/// The list was built by this library.
unsafe fn take_names(mut list: *mut fi_info) {
    // SAFETY: entries have all attributes, and strings of the allocator of libc.
    unsafe {
        while let Some(entry) = list.as_ref() {
            let attr = &mut *entry.fabric_attr;
            libc::free(mem::replace(&mut attr.prov_name, ptr::null_mut()).cast());
            list = entry.next;
        }
    }
}

/// Opens a fabric of the provider that has one of this name. Source: fi_fabric(3).
unsafe extern "C" fn fabric(
    attr: *mut fi_fabric_attr,
    fabric: *mut *mut fid_fabric,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the host passes attributes with a name; before 1.5 they end ahead of the version.
    unsafe {
        let Some(named) = attr.as_ref() else {
            return -FI_EINVAL;
        };
        let Ok(Some(name)) = text(named.name) else {
            return -FI_EINVAL;
        };
        let api_version = if host::version() < FI_VERSION(1, 5) {
            FI_VERSION(1, 0)
        } else {
            named.api_version
        };
        match registry().providers().find(|entry| has_fabric(entry, name)) {
            Some(entry) => entry.open_fabric(attr, api_version, fabric, context),
            None => -FI_ENODATA,
        }
    }
}

fn has_fabric(entry: &ProviderEntry, name: &str) -> bool {
    let infos = (entry.infos)();
    infos
        .iter()
        .any(|info| info.fabric.name.eq_ignore_ascii_case(name))
}

extern "C" fn cleanup() {
    log::debug!("oxifabric", Core, "the host is done");
}

/// Makes the parameter known to the host, so that its `fi_info -e` shows it.
fn define_parameter(provider: *mut fi_provider) {
    type Define =
        unsafe extern "C" fn(*const fi_provider, *const c_char, u32, *const c_char, ...) -> c_int;
    let Some(define) = host::symbol(c"fi_param_define") else {
        return;
    };
    let help = c"Which of its providers to use, with commas between them; a ^ in front leaves them out (default: all)";
    // SAFETY: the function is of this type in every libfabric, and copies its strings.
    unsafe {
        let define = mem::transmute::<*mut c_void, Define>(define.as_ptr());
        define(
            provider,
            c"provider".as_ptr(),
            FI_PARAM_STRING,
            c"%s".as_ptr(),
            help.as_ptr(),
        );
    }
}

/// The libfabric that loaded this file.
mod host {
    use core::ffi::{CStr, c_void};
    use core::ptr::NonNull;
    use std::sync::OnceLock;

    use oxifabric_abi::{FI_MAJOR_VERSION, FI_MINOR_VERSION, FI_VERSION};

    /// Returns the host's version, which tells the layout of its structures.
    pub(super) fn version() -> u32 {
        static VERSION: OnceLock<u32> = OnceLock::new();
        *VERSION.get_or_init(|| match symbol(c"fi_version") {
            // SAFETY: the function is of this type in every libfabric.
            Some(version) => unsafe {
                core::mem::transmute::<*mut c_void, extern "C" fn() -> u32>(version.as_ptr())()
            },
            None => FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION),
        })
    }

    /// Finds a function of the host. The host need not be in the global scope of the loader: its file is looked up by name.
    pub(super) fn symbol(name: &CStr) -> Option<NonNull<c_void>> {
        // SAFETY: nothing is loaded that is not already, and strings end. The handle is kept: the host stays.
        unsafe {
            let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD;
            let handle = libc::dlopen(c"libfabric.so.1".as_ptr(), flags);
            let scope = if handle.is_null() {
                libc::RTLD_DEFAULT
            } else {
                handle
            };
            NonNull::new(libc::dlsym(scope, name.as_ptr()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ffi::CStr;

    #[test]
    fn the_host_gets_nameless_endpoints_of_all_providers() {
        // SAFETY: the arguments are those of a host; the list is released as by it.
        unsafe {
            let provider = &*fi_prov_ini();
            assert_eq!(CStr::from_ptr(provider.name), c"oxifabric");
            let mut list = ptr::null_mut();
            let getinfo = provider.getinfo.expect("it has one");
            let version = FI_VERSION(1, 17);
            assert_eq!(
                getinfo(version, ptr::null(), ptr::null(), 0, ptr::null(), &mut list),
                0
            );
            let mut protocols = Vec::new();
            let mut next = list;
            while let Some(entry) = next.as_ref() {
                assert!((*entry.fabric_attr).prov_name.is_null());
                protocols.push((*entry.ep_attr).protocol);
                next = entry.next;
            }
            oxifabric_core::info::free(list);
            let request = Request {
                version,
                node: None,
                service: None,
                flags: 0,
                hints: None,
            };
            let own = registry()
                .query_filtered(&request, &NameFilter::parse(""))
                .infos;
            let own: Vec<u32> = own.iter().map(|info| info.ep.protocol).collect();
            assert_eq!(protocols, own);
        }
    }
}
