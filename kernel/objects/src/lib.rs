//! The objects of the fabric interface in a kernel: what a provider module links, and what its consumers call through the C tables.
//!
//! A provider implements [`Provider`] with the [`Device`] of its endpoints, which an engine or queues of the device give [`Operations`], and gets fabric, domain, queues, counters, address vectors,
//! memory regions, passive and active endpoints.
//!
//! - `handle`: how the C structures and the objects find each other, and what keeps an object open.
//! - Objects, one module each: `fabric` opens `domain`, `eq` and `pep`; a domain opens `cq`, `cntr`, `av`, `mr` and `ep`.
//!
//! All calls may sleep, except those that only raise something. Order of locks: that of a work which a waiting thread runs, that of an endpoint, then a device's, then those of queues and
//! tables, of which one at a time is held. No lock is held while a consumer is called.
#![no_std]

extern crate alloc;

mod av;
mod cntr;
mod cq;
mod domain;
mod ep;
mod eq;
mod fabric;
mod getinfo;
mod handle;
mod mr;
mod operations;
mod pep;
mod provider;

pub use fabric::open as open_fabric;
pub use getinfo::{freeinfo, getinfo};
pub use operations::{Operations, Queued, Queues};
pub use provider::{Arrival, ConnectionEvent, Device, Listener, Provider, ProviderDomain};

use oxifabric_kernel_sync::{Global, Mutex};

/// Places of locks in the order in which they are taken.
pub mod level {
    /// An endpoint.
    pub const ENDPOINT: u32 = 1;
    /// What a provider's devices share.
    pub const PROVIDER: u32 = 3;
    /// Updates of memory by atomics.
    pub const ATOMICS: u32 = 4;
    /// A queue.
    pub const QUEUE: u32 = 5;
    /// A table of a domain, and the list of an object.
    pub const TABLE: u32 = 6;
}

/// Keeps updates of memory by atomics apart, whichever endpoints carry them out.
static ATOMICS: Global<Mutex<()>> = Global::new();

/// Prepares the objects when a module is loaded; returns false when there is not enough memory.
pub fn init() -> bool {
    Mutex::new(level::ATOMICS, ()).is_some_and(|atomics| ATOMICS.set(atomics))
}

/// Undoes [`init`] when the module is unloaded.
///
/// # Safety
/// No object is open any more.
pub unsafe fn exit() {
    // SAFETY: the caller's contract.
    unsafe { ATOMICS.clear() }
}

/// Runs an update of memory while no other one runs.
pub(crate) fn exclusively(update: impl FnOnce()) {
    let _alone = ATOMICS.get().map(Mutex::lock);
    update();
}
