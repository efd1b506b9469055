//! The provider's parameters: one table, read once.

use std::sync::OnceLock;
use std::time::Duration;

use oxifabric_provider::params::{Parameter, ParameterKind};

/// The values of the parameters.
#[derive(Clone, Debug)]
pub(crate) struct Params {
    pub(crate) iface: Option<String>,
    /// How long a peer of a reliable endpoint may leave everything unanswered.
    pub(crate) peer_timeout: Duration,
}

/// The table that `fi_info -e` prints.
pub(crate) static TABLE: [Parameter; 1] = [Parameter {
    name: "iface",
    kind: ParameterKind::Text,
    help: "Use the addresses of this network interface only",
    default: "",
}];

/// The table of reliable endpoints, whose parameters begin with FI_OFI_RXD.
pub(crate) static RELIABLE: [Parameter; 6] = [
    Parameter {
        name: "patience_ms",
        kind: ParameterKind::Int,
        help: "How long a peer whose host is there may leave everything unanswered, because it computes and does not poll",
        default: "120000",
    },
    Parameter {
        name: "retry",
        kind: ParameterKind::Bool,
        help: "Of the C library, without effect: what is lost is always sent again",
        default: "1",
    },
    Parameter {
        name: "max_peers",
        kind: ParameterKind::Int,
        help: "Of the C library, without effect: tables grow with the peers that there are",
        default: "1024",
    },
    Parameter {
        name: "max_unacked",
        kind: ParameterKind::Int,
        help: "Of the C library, without effect: how much is under way follows what the network carries",
        default: "128",
    },
    Parameter {
        name: "spin_count",
        kind: ParameterKind::Int,
        help: "Of the C library, without effect: a poll reads what has arrived",
        default: "1000",
    },
    Parameter {
        name: "rescan",
        kind: ParameterKind::Bool,
        help: "Of the C library, without effect: network interfaces are looked up by each fi_getinfo",
        default: "-1",
    },
];

impl Params {
    /// Returns the parameters of this process.
    pub(crate) fn read() -> &'static Self {
        static PARAMS: OnceLock<Params> = OnceLock::new();
        PARAMS.get_or_init(|| Self {
            iface: TABLE[0].text("udp").filter(|name| !name.trim().is_empty()),
            peer_timeout: Duration::from_millis(RELIABLE[0].int("ofi_rxd").max(1) as u64),
        })
    }
}
