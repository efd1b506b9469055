//! Where endpoints may be: the offers of a provider with the addresses that a request names.

use std::net::{IpAddr, SocketAddr};

use oxifabric_types::{Address, Caps, EfaAddress, Info, Reason};

use super::Request;
use crate::info::address_to_c;
use crate::provider_entry::ProviderEntry;

/// Capabilities that follow from the address of an endpoint.
const REACH: Caps = Caps::LOCAL_COMM.union(Caps::REMOTE_COMM);

/// Lists the offers of a provider, each with the addresses of the local side and of the peer that the request names.
///
/// With FI_SOURCE, node and service name the local side; otherwise they name the peer, and the local side is that of
/// the hints or the one that the peer is reached from. Without node and service both come from the hints.
///
/// # Errors
/// A name that cannot be resolved, or a provider that has nothing on this host.
pub(super) fn places(entry: &ProviderEntry, request: &Request<'_>) -> Result<Vec<Info>, Reason> {
    let offers = offers(entry)?;
    let hinted_src = request.hints.and_then(|hints| hints.src.clone());
    let hinted_dest = request.hints.and_then(|hints| hints.dest.clone());
    let named = request.node.is_some() || request.service.is_some();
    let mut placed = Vec::new();
    if named && request.is_source() {
        let found = resolve(entry, request)?;
        let sources = found.into_iter().map(Some);
        let sources: Vec<_> = match sources.len() {
            0 => vec![None],
            _ => sources.collect(),
        };
        for src in sources {
            let dest = hinted_dest.clone();
            place(entry, request, &offers, src, dest, &mut placed);
        }
    } else if named {
        for dest in resolve(entry, request)? {
            let src = hinted_src.clone().or_else(|| (entry.source_for)(&dest));
            place(entry, request, &offers, src, Some(dest), &mut placed);
        }
    } else {
        let route = || {
            hinted_dest
                .as_ref()
                .and_then(|dest| (entry.source_for)(dest))
        };
        let src = hinted_src.or_else(route);
        place(entry, request, &offers, src, hinted_dest, &mut placed);
    }
    Ok(placed)
}

/// Lists what the provider has, with its name and version filled in.
fn offers(entry: &ProviderEntry) -> Result<Vec<Info>, Reason> {
    let mut offers = (entry.infos)();
    if offers.is_empty() {
        return Err(Reason::Failed {
            field: "src_addr",
            why: "the provider finds nothing on this host that it could use".to_owned(),
        });
    }
    for offer in &mut offers {
        offer.fabric.prov_name = entry.name.to_owned();
        offer.fabric.prov_version = entry.version;
    }
    Ok(offers)
}

fn resolve(entry: &ProviderEntry, request: &Request<'_>) -> Result<Vec<Address>, Reason> {
    let format = request.hints.map_or(0, |hints| hints.addr_format);
    let (node, service) = (request.node, request.service);
    let found = (entry.resolve)(
        node,
        service,
        request.is_source(),
        request.is_numeric(),
        format,
    );
    let field = if node.is_some() { "node" } else { "service" };
    found.map_err(|unresolved| Reason::Failed {
        field,
        why: unresolved.why,
    })
}

/// Adds the offers that can be at `src`, or all of them, with both addresses.
fn place(
    entry: &ProviderEntry,
    request: &Request<'_>,
    offers: &[Info],
    src: Option<Address>,
    dest: Option<Address>,
    placed: &mut Vec<Info>,
) {
    let candidates = match &src {
        Some(Address::Inet(at)) => at_socket_address(entry, request, offers, *at),
        Some(Address::Name(_)) => with_source(offers, src.as_ref()),
        Some(Address::Efa(at)) => at_port(offers, *at),
        None => anywhere(request, offers),
    };
    for mut info in candidates {
        if info.src.is_none() {
            info.src = (entry.fresh_name)();
        }
        info.dest.clone_from(&dest);
        if let Some(known) = info.src.as_ref().or(info.dest.as_ref()) {
            info.addr_format = address_to_c(known).1;
        }
        placed.push(info);
    }
}

/// Lists the offers for a local socket address: those of its interface, or any if no interface has it.
///
/// The application insists on the address, so what the interface can reach is not held against it.
fn at_socket_address(
    entry: &ProviderEntry,
    request: &Request<'_>,
    offers: &[Info],
    at: SocketAddr,
) -> Vec<Info> {
    let mut chosen = of_interface(offers, at);
    if chosen.is_empty() && at.ip().is_unspecified() {
        chosen = of_named_interface(request, offers, at);
    }
    if chosen.is_empty() {
        chosen = of_no_interface(entry, offers, at);
    }
    reach_all(&mut chosen, offers);
    chosen
}

/// Lists all offers. Hints that name fabric and domain are as good as an address: they come from an earlier answer, and
/// what was in it is found again.
fn anywhere(request: &Request<'_>, offers: &[Info]) -> Vec<Info> {
    let mut all = offers.to_vec();
    if let Some(hints) = request.hints {
        for info in &mut all {
            if info.domain.name == hints.domain.name && info.fabric.name == hints.fabric.name {
                reach_all(core::slice::from_mut(info), offers);
            }
        }
    }
    all
}

/// Lets offers reach whatever any offer of the provider can.
fn reach_all(chosen: &mut [Info], offers: &[Info]) {
    let everywhere = offers
        .iter()
        .fold(Caps::empty(), |caps, offer| caps | offer.caps)
        & REACH;
    for info in chosen {
        info.caps |= everywhere;
        info.domain.caps |= everywhere;
    }
}

fn of_interface(offers: &[Info], at: SocketAddr) -> Vec<Info> {
    let here = offers.iter().filter(|offer| ip_of(offer) == Some(at.ip()));
    here.map(|offer| Info {
        src: Some(Address::Inet(at)),
        ..offer.clone()
    })
    .collect()
}

/// For a wildcard address: the address of the interface whose domain or fabric the hints name, with the port.
fn of_named_interface(request: &Request<'_>, offers: &[Info], at: SocketAddr) -> Vec<Info> {
    let Some(hints) = request.hints else {
        return Vec::new();
    };
    let (domain, fabric) = (&hints.domain.name, &hints.fabric.name);
    if domain.is_empty() && fabric.is_empty() {
        return Vec::new();
    }
    let is = |asked: &str, name: &str| asked.is_empty() || asked.eq_ignore_ascii_case(name);
    offers
        .iter()
        .filter(|offer| is(domain, &offer.domain.name) && is(fabric, &offer.fabric.name))
        .filter_map(|offer| {
            let ip = ip_of(offer).filter(|ip| ip.is_ipv4() == at.is_ipv4())?;
            let src = Some(Address::Inet(SocketAddr::new(ip, at.port())));
            Some(Info {
                src,
                ..offer.clone()
            })
        })
        .collect()
}

/// Returns what the provider offers at its first address of the family, under names that stand for no interface.
fn of_no_interface(entry: &ProviderEntry, offers: &[Info], at: SocketAddr) -> Vec<Info> {
    let same_family = |ip: &IpAddr| ip.is_ipv4() == at.is_ipv4();
    let first = offers.iter().filter_map(ip_of).find(same_family);
    let first = first.or_else(|| offers.iter().find_map(ip_of));
    let mut chosen: Vec<Info> = offers
        .iter()
        .filter(|offer| ip_of(offer) == first)
        .cloned()
        .collect();
    for info in &mut chosen {
        info.src = Some(Address::Inet(at));
        info.domain.name = entry.name.to_owned();
        info.fabric.name = entry.name.to_owned();
    }
    chosen
}

fn with_source(offers: &[Info], src: Option<&Address>) -> Vec<Info> {
    offers
        .iter()
        .map(|offer| Info {
            src: src.cloned(),
            ..offer.clone()
        })
        .collect()
}

/// Lists the offers of the port at which an endpoint of an EFA device is to be. Devices number their queue pairs themselves.
fn at_port(offers: &[Info], at: EfaAddress) -> Vec<Info> {
    let is_there =
        |offer: &&Info| matches!(&offer.src, Some(Address::Efa(own)) if own.gid == at.gid);
    offers.iter().filter(is_there).cloned().collect()
}

fn ip_of(offer: &Info) -> Option<IpAddr> {
    match &offer.src {
        Some(Address::Inet(at)) => Some(at.ip()),
        _ => None,
    }
}
