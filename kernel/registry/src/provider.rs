//! Registration of providers.

use alloc::string::String;
use alloc::vec::Vec;
use core::ffi::{CStr, c_char, c_int, c_void};

use oxifabric_abi::{FI_MAJOR, FI_MINOR, fi_fabric_attr, fi_info, fid_fabric};
use oxifabric_types::Errno;

use crate::{REGISTRY, Registry, VERSION, log};

/// What a provider module registers.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types, reason = "the name of the C header")]
pub struct kofi_provider {
    /// Its name, as in `fi_fabric_attr.prov_name`.
    pub name: *const c_char,
    /// Its version.
    pub version: u32,
    /// Returns what it offers.
    pub getinfo: Option<
        unsafe extern "C" fn(
            version: u32,
            node: *const c_char,
            service: c_int,
            flags: u64,
            hints: *mut fi_info,
            info: *mut *mut fi_info,
        ) -> c_int,
    >,
    /// Releases what `getinfo` returned.
    pub freeinfo: Option<unsafe extern "C" fn(info: *mut fi_info) -> c_int>,
    /// Opens a fabric.
    pub fabric: Option<
        unsafe extern "C" fn(
            attr: *mut fi_fabric_attr,
            fabric: *mut *mut fid_fabric,
            context: *mut c_void,
        ) -> c_int,
    >,
    /// Its module, which `kofi_provider_register` fills in.
    pub owner: *mut c_void,
}

/// A registered provider.
pub(crate) struct Entry {
    id: *mut kofi_provider,
    name: String,
    /// Calls that are under way, and fabrics that are open.
    users: usize,
}

// SAFETY: the provider's structure is only read, while it is registered.
unsafe impl Send for Entry {}

/// A provider that is in use: it cannot be deregistered, nor its module unloaded.
#[derive(Debug)]
pub(crate) struct InUse {
    id: *mut kofi_provider,
    pub(crate) name: String,
    pub(crate) calls: kofi_provider,
}

impl Drop for InUse {
    fn drop(&mut self) {
        if let Some(registry) = REGISTRY.get() {
            let mut entries = registry.entries.lock();
            if let Some(entry) = entries.iter_mut().find(|entry| entry.id == self.id) {
                entry.users -= 1;
            }
            drop(entries);
            (registry.system.put_module)(self.calls.owner);
        }
    }
}

/// Adds a provider that was written for `version` of the interface.
///
/// # Errors
/// `NOSYS` for a version that this one does not know; `INVAL` for one without name or calls; `ALREADY` if it, or another of the
/// name, is registered.
///
/// # Safety
/// `provider` is null, or stays valid until it is deregistered.
pub unsafe fn register(version: u32, provider: *mut kofi_provider) -> Result<(), Errno> {
    let registry = REGISTRY.get().ok_or(Errno::NODEV)?;
    if FI_MAJOR(version) != FI_MAJOR(VERSION) || FI_MINOR(version) > FI_MINOR(VERSION) {
        let (major, minor) = (FI_MAJOR(version), FI_MINOR(version));
        log(format_args!(
            "a provider of version {major}.{minor} of the interface is refused"
        ));
        return Err(Errno::NOSYS);
    }
    // SAFETY: the caller's contract.
    let calls = unsafe { provider.as_ref() }.ok_or(Errno::INVAL)?;
    let is_complete = calls.getinfo.is_some() && calls.freeinfo.is_some() && calls.fabric.is_some();
    if calls.name.is_null() || !is_complete {
        return Err(Errno::INVAL);
    }
    // SAFETY: the caller's contract.
    let name = unsafe { CStr::from_ptr(calls.name) };
    let name = name.to_str().map_err(|_| Errno::INVAL)?;
    if name.is_empty() {
        return Err(Errno::INVAL);
    }
    let mut entries = registry.entries.lock();
    if entries.iter().any(|entry| entry.name == name) {
        return Err(Errno::ALREADY);
    }
    entries.try_reserve(1).map_err(|_| Errno::NOMEM)?;
    entries.push(Entry {
        id: provider,
        name: name.into(),
        users: 0,
    });
    drop(entries);
    log(format_args!("provider {name} is registered"));
    Ok(())
}

/// Removes a provider.
///
/// # Errors
/// `NOENT` if it is not registered; `BUSY` while a fabric of it is open, or a call under way.
pub fn deregister(provider: *mut kofi_provider) -> Result<(), Errno> {
    let registry = REGISTRY.get().ok_or(Errno::NODEV)?;
    let mut entries = registry.entries.lock();
    let at = entries.iter().position(|entry| entry.id == provider);
    let at = at.ok_or(Errno::NOENT)?;
    if entries[at].users > 0 {
        return Err(Errno::BUSY);
    }
    let entry = entries.swap_remove(at);
    drop(entries);
    log(format_args!("provider {} is deregistered", entry.name));
    Ok(())
}

/// Returns all providers, in use.
pub(crate) fn all() -> Result<Vec<InUse>, Errno> {
    used(|_| true)
}

/// Returns the provider of a name, in use.
///
/// # Errors
/// `NODEV` if there is none, or if its module is being unloaded.
pub(crate) fn named(name: &str) -> Result<InUse, Errno> {
    let mut found = used(|entry| entry.name.eq_ignore_ascii_case(name))?;
    found.pop().ok_or(Errno::NODEV)
}

fn used(is_wanted: impl Fn(&Entry) -> bool) -> Result<Vec<InUse>, Errno> {
    let registry: &Registry = REGISTRY.get().ok_or(Errno::NODEV)?;
    let mut entries = registry.entries.lock();
    let mut all = Vec::new();
    all.try_reserve(entries.len()).map_err(|_| Errno::NOMEM)?;
    for entry in entries.iter_mut().filter(|entry| is_wanted(entry)) {
        // SAFETY: it stays valid while it is registered.
        let calls = unsafe { *entry.id };
        if !(registry.system.get_module)(calls.owner) {
            continue;
        }
        entry.users += 1;
        all.push(InUse {
            id: entry.id,
            name: entry.name.clone(),
            calls,
        });
    }
    Ok(all)
}
