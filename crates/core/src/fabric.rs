//! Fabrics: what fi_fabric(3) opens, and what its domains and event queues hold on to. What they open is in [`ops`].

pub(crate) mod ops;

use std::sync::{Arc, Mutex};

use oxifabric_abi::fid_fabric;

use crate::handle::{Fid, Uses};
use crate::lock::lock;
use crate::progress::DomainProgress;
use crate::provider_entry::ProviderEntry;

/// An opened fabric.
#[repr(C)]
pub(crate) struct Fabric {
    fid: Fid<fid_fabric>,
    uses: Uses,
    entry: &'static ProviderEntry,
    api_version: u32,
    /// Progress of domains whose deferred work may wait for the application to read an event queue.
    driven: Mutex<Vec<Arc<DomainProgress>>>,
}

impl Fabric {
    /// Returns the provider.
    pub(crate) const fn entry(&self) -> &'static ProviderEntry {
        self.entry
    }

    /// Returns the API version that the application was built for.
    pub(crate) const fn api_version(&self) -> u32 {
        self.api_version
    }

    /// Registers a domain whose operations may be triggered, so that reading an event queue drives it: an application may
    /// read nothing else while it waits for them (fi_trigger(3)).
    pub(crate) fn register(&self, progress: &Arc<DomainProgress>) {
        lock(&self.driven).push(Arc::clone(progress));
    }

    /// Ends what [`Fabric::register`] began.
    pub(crate) fn unregister(&self, progress: &Arc<DomainProgress>) {
        lock(&self.driven).retain(|other| !Arc::ptr_eq(other, progress));
    }

    /// Drives the domains in which deferred work waits. Call it without locks in hand.
    pub(crate) fn drive_for_deferred_work(&self) {
        let driven = lock(&self.driven).clone();
        driven
            .iter()
            .for_each(|progress| progress.drive_for_deferred_work());
    }

    /// Returns whether deferred work waits for a thread that drives its domain.
    pub(crate) fn has_deferred_work(&self) -> bool {
        lock(&self.driven)
            .iter()
            .any(|progress| progress.has_deferred_work())
    }
}
