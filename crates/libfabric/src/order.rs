//! In which order endpoints are returned: programs that say little take the first (docs/adr/0025).

use oxifabric_types::{Caps, EpType, Info};

/// Well-known providers, best first: those that drive hardware, then what is reliable and reaches other hosts, shared
/// memory, and the rest. A name that is not here comes last. The order is the C library's.
const KNOWN: [&str; 15] = [
    "efa", "psm2", "opx", "usnic", "verbs", "cxi", "psm3", "ucx", "tcp", "ofi_rxm", "ofi_rxd",
    "shm", "udp", "sockets", "net",
];

/// How many of [`KNOWN`] drive hardware: a stack upon one of them stands where that stands.
const HARDWARE: usize = 8;

/// How a list is ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    /// Only peers of this host are meant, so that shared memory is best.
    local: bool,
}

/// Returns where a provider stands in a list of providers.
pub(crate) fn rank(name: &str) -> usize {
    let position = |name: &str| {
        let known = |known: &&str| known.eq_ignore_ascii_case(name);
        KNOWN.iter().position(known)
    };
    let bottom = name.split(';').next().and_then(position);
    let top = name.rsplit(';').next().and_then(position);
    bottom
        .filter(|&bottom| bottom < HARDWARE)
        .or(top)
        .unwrap_or(KNOWN.len())
}

impl Order {
    /// Returns the order for hints with these capabilities, those of the domain included.
    ///
    /// Whether a request is local is told by the hints alone, since both sides of a program have the same, while only one of them
    /// names a node.
    pub(crate) fn of_caps(caps: Caps) -> Self {
        let reach = caps & (Caps::LOCAL_COMM | Caps::REMOTE_COMM);
        Self {
            local: reach == Caps::LOCAL_COMM,
        }
    }

    /// Returns the order for a request with these hints.
    pub(crate) fn of_hints(hints: Option<&Info>) -> Self {
        Self::of_caps(hints.map_or(Caps::empty(), |hints| hints.caps | hints.domain.caps))
    }

    /// Returns where an endpoint of a provider stands: lower is before.
    pub(crate) fn standing(self, provider: &str, kind: EpType) -> usize {
        let rank = rank(provider);
        match (KNOWN.get(rank), kind) {
            (Some(&"shm"), _) if self.local => 0,
            // Connected endpoints are for programs that ask for them.
            (Some(&"tcp"), EpType::Msg) => 2 * self::rank("udp") + 2,
            _ => 2 * rank + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(caps: Caps) -> Vec<&'static str> {
        let order = Order::of_caps(caps);
        let mut list = vec![
            ("shm", EpType::Rdm),
            ("tcp", EpType::Msg),
            ("mine", EpType::Rdm),
            ("udp", EpType::Dgram),
            ("udp;ofi_rxd", EpType::Rdm),
            ("tcp;ofi_rxm", EpType::Rdm),
            ("verbs;ofi_rxm", EpType::Rdm),
            ("TCP", EpType::Rdm),
            ("cxi", EpType::Rdm),
        ];
        list.sort_by_key(|&(name, kind)| order.standing(name, kind));
        list.into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn hardware_is_first_then_what_reaches_other_hosts_then_shared_memory() {
        let expected = [
            "verbs;ofi_rxm",
            "cxi",
            "TCP",
            "tcp;ofi_rxm",
            "udp;ofi_rxd",
            "shm",
            "udp",
            "tcp",
            "mine",
        ];
        let both = Caps::LOCAL_COMM | Caps::REMOTE_COMM;
        for caps in [Caps::empty(), Caps::MSG, Caps::REMOTE_COMM, both] {
            assert_eq!(sorted(caps), expected);
        }
    }

    #[test]
    fn shared_memory_is_first_where_only_this_host_is_meant() {
        assert_eq!(
            sorted(Caps::MSG | Caps::LOCAL_COMM)[..2],
            ["shm", "verbs;ofi_rxm"]
        );
    }

    #[test]
    fn hardware_comes_before_software_and_unknown_names_last() {
        assert!(rank("verbs") < rank("tcp") && rank("tcp") < rank("shm"));
        assert!(rank("tcp") < rank("tcp;ofi_rxm"));
        assert!(rank("mine") > rank("net"));
    }
}
