//! The provider's parameters: one table, read once.

use std::sync::OnceLock;
use std::time::Duration;

use oxifabric_core::params::{Parameter, ParameterKind};

/// What the parameters ask for.
#[derive(Clone, Debug)]
pub(crate) struct Params {
    pub(crate) iface: Option<String>,
    /// How long a peer of a reliable endpoint may leave everything unanswered.
    pub(crate) patience: Duration,
}

/// The table that `fi_info -e` prints.
pub(crate) static TABLE: [Parameter; 1] = [Parameter {
    name: "iface",
    kind: ParameterKind::Text,
    help: "Use the addresses of this network interface only",
    default: "",
}];

/// The table of reliable endpoints, whose parameters begin with FI_OFI_RXD.
pub(crate) static RELIABLE: [Parameter; 1] = [Parameter {
    name: "patience_ms",
    kind: ParameterKind::Int,
    help: "How long a peer whose host is there may leave everything unanswered, because it computes and does not poll",
    default: "120000",
}];

impl Params {
    /// Returns the parameters of this process.
    pub(crate) fn read() -> &'static Self {
        static PARAMS: OnceLock<Params> = OnceLock::new();
        PARAMS.get_or_init(|| Self {
            iface: TABLE[0].text("udp").filter(|name| !name.trim().is_empty()),
            patience: Duration::from_millis(RELIABLE[0].int("ofi_rxd").max(1) as u64),
        })
    }
}
