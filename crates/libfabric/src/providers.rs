//! Which providers this library has.

use oxifabric_core::provider::{ProviderEntry, entry};
use oxifabric_core::registry::Registry;
use oxifabric_shm::Shm;
use oxifabric_tcp::Tcp;

static SHM: ProviderEntry = entry::<Shm>();
static TCP: ProviderEntry = entry::<Tcp>();

/// The providers, best first: memory of this host before the network.
static ENTRIES: [&ProviderEntry; 2] = [&SHM, &TCP];

/// Returns the providers of this library.
pub fn registry() -> &'static Registry {
    static REGISTRY: Registry = Registry::new(&ENTRIES);
    &REGISTRY
}
