//! The providers of this library: its own, and the external ones that it finds.

#[cfg(feature = "export")]
use std::cmp::Reverse;
use std::sync::OnceLock;

use oxifabric_core::provider_entry::make::{engine_entry, entry, msg_entry};
use oxifabric_core::provider_entry::{Listed, ProviderEntry};
use oxifabric_core::registry::{Answer, Registry, Request, filter_of_environment};
use oxifabric_efa::Efa;
use oxifabric_provider::log;
use oxifabric_shm::Shm;
#[cfg(feature = "sim")]
use oxifabric_sim::Sim;
use oxifabric_tcp::{Tcp, alias};
use oxifabric_udp::{Rxd, Udp};

use crate::external::{
    External, ProviderVersion, Rejected, Requester, SearchPath, load_all, select,
};
use crate::order::Order;

static SHM: ProviderEntry = entry::<Shm>();
static TCP: ProviderEntry = msg_entry::<Tcp>();
static UDP: ProviderEntry = entry::<Udp>();
static EFA: ProviderEntry = engine_entry::<Efa>();
static RXD: ProviderEntry = entry::<Rxd>();
#[cfg(feature = "sim")]
static SIM: ProviderEntry = entry::<Sim>();
static TCP_RXM: ProviderEntry =
    msg_entry::<Tcp>().alias("tcp;ofi_rxm", Listed::OnNeeds, alias::rxm_infos, || {
        alias::RXM
    });
static SOCKETS: ProviderEntry =
    msg_entry::<Tcp>().alias("sockets", Listed::ByName, alias::sockets_infos, || {
        alias::SOCKETS
    });
static NET: ProviderEntry =
    msg_entry::<Tcp>().alias("net", Listed::ByName, alias::net_infos, || &[]);

/// The providers. The order in which their endpoints are returned is that of [`Order`].
static ENTRIES: &[&ProviderEntry] = &[
    &TCP,
    &SHM,
    &UDP,
    &RXD,
    &EFA,
    #[cfg(feature = "sim")]
    &SIM,
    &TCP_RXM,
    &SOCKETS,
    &NET,
];

/// The providers of a plugin: a host tells providers apart by the names of their fabrics alone, and those of udp are those of tcp.
static PLUGIN_ENTRIES: &[&ProviderEntry] = &[&TCP, &SHM];

/// Returns the providers in this library, but for those that an external one replaces.
pub fn registry() -> &'static Registry {
    &all().registry
}

/// Lists the active external providers, in the order of discovery.
pub(crate) fn externals() -> &'static [External] {
    &all().externals
}

/// Finds an active external provider by name; case does not matter.
pub(crate) fn external(name: &str) -> Option<&'static External> {
    let is_it = |external: &&External| external.name.eq_ignore_ascii_case(name);
    externals().iter().find(is_it)
}

/// Lists the files and providers that cannot be used, with the reasons.
pub(crate) fn rejected() -> &'static [Rejected] {
    &all().rejected
}

/// Answers a request with the providers in this library, under FI_PROVIDER.
pub(crate) fn query(request: &Request<'_>) -> Answer {
    let requester = Requester::of(request.flags);
    if requester.is_provider() {
        return query_by_provider(request, requester);
    }
    let filter = filter_of_environment();
    let admits =
        |external: &External| filter.admits_core(external.name) || filter.has_layer(external.name);
    let mut answer = match externals().iter().any(admits) {
        true => registry().query_filtered(request, filter),
        false => registry().query(request),
    };
    let order = Order::of_hints(request.hints);
    answer
        .infos
        .sort_by_key(|info| order.standing(&info.fabric.prov_name, info.ep.kind));
    answer
}

/// Answers a provider that looks for other providers below it ([`Requester`]).
fn query_by_provider(request: &Request<'_>, requester: Requester) -> Answer {
    let asked = request.hints.map_or("", |hints| &hints.fabric.prov_name);
    let mut answer = registry().query_filtered(request, &requester.filter());
    answer
        .infos
        .retain(|info| requester.refuses(&info.fabric.prov_name, asked).is_none());
    answer
}

/// The providers, as they were found when the library was first asked for them.
#[derive(Debug)]
struct Providers {
    registry: Registry,
    externals: Vec<External>,
    /// External providers that another one of the same name hides; they stay loaded until the process ends.
    hidden: Vec<External>,
    rejected: Vec<Rejected>,
}

static ALL: OnceLock<Providers> = OnceLock::new();

fn all() -> &'static Providers {
    ALL.get_or_init(|| {
        if cfg!(feature = "plugin") {
            return Providers::only_ours();
        }
        Providers::found_on(&SearchPath::of_environment())
    })
}

impl Providers {
    fn only_ours() -> Self {
        let entries = match cfg!(feature = "plugin") {
            true => PLUGIN_ENTRIES,
            false => ENTRIES,
        };
        Self {
            registry: Registry::new(entries),
            externals: Vec::new(),
            hidden: Vec::new(),
            rejected: Vec::new(),
        }
    }

    /// Loads what there is and lets one provider of each name win. External ones are found before our own.
    fn found_on(path: &SearchPath) -> Self {
        let mut found = Self::only_ours();
        let loaded = load_all(path, &mut found.rejected);
        if loaded.is_empty() {
            return found;
        }
        let version_of = |external: &External| ProviderVersion {
            name: external.name,
            version: external.version,
            preferred: external.preferred,
        };
        // A layered name of ours, such as `tcp;ofi_rxm`, competes with the external provider of its layer, `ofi_rxm`.
        let ours = |entry: &&ProviderEntry| ProviderVersion {
            name: entry.layer(),
            version: entry.version,
            preferred: false,
        };
        let versions: Vec<ProviderVersion<'_>> = loaded
            .iter()
            .map(version_of)
            .chain(ENTRIES.iter().map(ours))
            .collect();
        let winners = select(&versions, path.first_wins);
        let entries = ENTRIES.iter().enumerate();
        // An alias of ours is left out where an external provider has the name of its layer.
        let is_there = |entry: &ProviderEntry| {
            let is_it = |external: &External| external.name.eq_ignore_ascii_case(entry.layer());
            entry.listed != Listed::Always && loaded.iter().any(is_it)
        };
        let active = entries.filter(|(index, entry)| {
            winners[loaded.len() + index] == loaded.len() + index && !is_there(entry)
        });
        let active: Vec<&'static ProviderEntry> = active.map(|(_, entry)| *entry).collect();
        for (index, winner) in winners
            .iter()
            .enumerate()
            .filter(|(index, winner)| index != *winner)
        {
            let by = loaded.get(*winner).map_or_else(
                || "the one in this library".to_owned(),
                |winner| winner.file.display().to_string(),
            );
            let name = versions[index].name;
            let version = crate::external::dotted(versions[index].version);
            let why = format!("version {version} is hidden by the provider of this name from {by}");
            log::info!(name, Core, "{why}");
            found.rejected.push(Rejected {
                what: name.to_owned().leak(),
                why,
            });
        }
        for (index, external) in loaded.into_iter().enumerate() {
            if winners[index] == index {
                found.externals.push(external);
            } else {
                found.hidden.push(external);
            }
        }
        found.registry = Registry::new(Vec::leak(active));
        found
    }
}

/// Lets external providers clean up, at the end of the process: the last one that was loaded first, since it may use those
/// before it.
#[cfg(feature = "export")]
pub(crate) fn finish() {
    let Some(all) = ALL.get() else {
        return;
    };
    let mut loaded: Vec<&External> = all.externals.iter().chain(&all.hidden).collect();
    loaded.sort_by_key(|external| Reverse(external.turn));
    loaded.into_iter().for_each(External::cleanup);
}
