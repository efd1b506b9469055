//! The providers of a kernel: their registration, fi_getinfo over all of them, and the fabrics that are open.
//!
//! - [`provider`]: registration, and what keeps a provider from going.
//! - [`getinfo`]: offers of all providers that fit the hints, or the reasons why none does.
//! - [`fabric`]: a fabric, whose close gives the provider free.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod fabric;
pub mod getinfo;
pub mod provider;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;
use core::ffi::c_void;
use core::fmt;

use oxifabric_abi::FI_VERSION;
use oxifabric_kernel_sync::{Global, Mutex};

pub use provider::kofi_provider;

/// The version of the interface, and of the API of libfabric that it follows.
pub const VERSION: u32 = FI_VERSION(2, 7);

/// Place of the lock among the kernel's: the first.
const LOCK_LEVEL: u32 = 0;

/// What the registry needs of its module.
#[derive(Clone, Copy)]
pub struct System {
    /// Keeps the module from being unloaded that owns a provider; returns false when it is about to be.
    pub get_module: fn(*mut c_void) -> bool,
    /// Undoes that.
    pub put_module: fn(*mut c_void),
    /// Writes a line to the log.
    pub log: fn(fmt::Arguments<'_>),
}

pub(crate) struct Registry {
    system: System,
    entries: Mutex<Vec<provider::Entry>>,
}

static REGISTRY: Global<Registry> = Global::new();

/// Prepares the registry; returns false when there is not enough memory.
pub fn init(system: System) -> bool {
    match Mutex::new(LOCK_LEVEL, Vec::new()) {
        Some(entries) => REGISTRY.set(Registry { system, entries }),
        None => false,
    }
}

/// Undoes [`init`].
///
/// # Safety
/// No provider is registered any more, and no other call is under way.
pub unsafe fn exit() {
    // SAFETY: the caller's contract.
    unsafe { REGISTRY.clear() }
}

fn log(text: fmt::Arguments<'_>) {
    if let Some(registry) = REGISTRY.get() {
        (registry.system.log)(text);
    }
}
