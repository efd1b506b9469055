//! How providers ask for each other: one that layers over others is itself a program that calls fi_getinfo(3), with flags
//! that no header for applications has. Source: include/ofi.h of the C library.

use oxifabric_core::registry::filter_of_environment;
use oxifabric_provider::params::NameFilter;

/// The list is for the library itself: FI_PROVIDER need not name what is in it (OFI_GETINFO_INTERNAL).
const INTERNAL: u64 = 1 << 58;
/// What is wanted is to be layered over: providers at the bottom of stacks (OFI_CORE_PROV_ONLY).
const CORE_ONLY: u64 = 1 << 59;
/// Providers that FI_PROVIDER leaves out are wanted as well (OFI_GETINFO_HIDDEN).
const HIDDEN: u64 = 1 << 60;
/// Providers that take over a part of others' work are wanted (OFI_OFFLOAD_PROV_ONLY).
const OFFLOAD_ONLY: u64 = 1 << 61;

/// Providers over which others come only when they are named together, as in the C library: they do all by themselves.
const ALONE: [&str; 6] = ["sockets", "shm", "efa", "psm3", "ucx", "cxi"];

/// The caller of fi_getinfo(3): an application or, as its flags show, a provider.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Requester(u64);

impl Requester {
    /// Reads it off the flags of the call.
    pub(crate) const fn of(flags: u64) -> Self {
        Self(flags & (INTERNAL | CORE_ONLY | HIDDEN | OFFLOAD_ONLY))
    }

    /// Returns whether it is a provider.
    pub(crate) const fn is_provider(self) -> bool {
        self.0 != 0
    }

    /// Returns which providers there are for it: those that FI_PROVIDER admits, at the bottom of a stack or alone.
    pub(crate) fn filter(self) -> NameFilter {
        if self.0 & HIDDEN != 0 {
            return NameFilter::default();
        }
        let filter = filter_of_environment();
        if self.is_provider() {
            return filter.of_cores();
        }
        filter.clone()
    }

    /// Returns why the requester gets no endpoints of a provider, if so; `asked` are the names in the hints.
    pub(crate) fn refuses(self, name: &str, asked: &str) -> Option<&'static str> {
        let layers = name.contains(';') || is_utility(name);
        let is_asked_for = asked
            .split(';')
            .any(|part| !part.is_empty() && !part.starts_with('^'));
        if is_offload(name) != (self.0 & OFFLOAD_ONLY != 0) {
            return Some("what takes over work of other providers is for those alone");
        }
        if self.0 & CORE_ONLY == 0 {
            return None;
        }
        if layers {
            return Some("a provider asks for what it can layer over");
        }
        let stands_alone = ALONE.iter().any(|alone| alone.eq_ignore_ascii_case(name));
        (stands_alone && !is_asked_for).then_some("nothing layers over it unless both are named")
    }

    /// Returns whether a provider that layers may come over another one that alone was asked for.
    pub(crate) fn may_layer(over: &str) -> bool {
        !ALONE.iter().any(|alone| alone.eq_ignore_ascii_case(over))
    }
}

/// Returns whether a provider of this name layers over others: its endpoints are then named `core;name`.
pub(crate) fn is_utility(name: &str) -> bool {
    starts_with(name, "ofi_")
}

/// Returns whether a provider of this name takes over work of others.
fn is_offload(name: &str) -> bool {
    starts_with(name, "off_")
}

fn starts_with(name: &str, prefix: &str) -> bool {
    let head = name.get(..prefix.len());
    head.is_some_and(|head| head.eq_ignore_ascii_case(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_for(flags: u64, name: &str, asked: &str) -> bool {
        Requester::of(flags).refuses(name, asked).is_none()
    }

    #[test]
    fn a_provider_that_layers_gets_what_is_at_the_bottom() {
        for name in ["tcp", "udp;ofi_rxd", "ofi_rxm", "shm"] {
            assert!(is_for(0, name, ""), "{name}");
        }
        assert!(is_for(CORE_ONLY, "tcp", "^ofi_rxm"));
        assert!(!is_for(CORE_ONLY, "udp;ofi_rxd", "^ofi_rxm"));
        assert!(!is_for(CORE_ONLY, "ofi_rxm", ""));
        assert!(!is_for(CORE_ONLY, "shm", "^ofi_rxm"));
        assert!(is_for(CORE_ONLY, "shm", "shm;^ofi_rxm"));
        assert!(is_for(HIDDEN | INTERNAL, "udp;ofi_rxd", ""));
    }

    #[test]
    fn what_takes_over_work_is_for_providers_that_ask_for_it() {
        assert!(!is_for(0, "off_coll", ""));
        assert!(!is_for(HIDDEN, "off_coll", ""));
        assert!(is_for(OFFLOAD_ONLY, "off_coll", "off_coll"));
        assert!(!is_for(OFFLOAD_ONLY, "tcp", ""));
    }

    #[test]
    fn other_flags_are_those_of_an_application() {
        assert!(!Requester::of(!(INTERNAL | CORE_ONLY | HIDDEN | OFFLOAD_ONLY)).is_provider());
        assert!(Requester::of(INTERNAL).is_provider());
        assert_eq!(Requester::of(HIDDEN).filter(), NameFilter::default());
        assert!(Requester::may_layer("tcp") && !Requester::may_layer("SHM"));
    }
}
