//! The provider's parameters: one table, read once.

use std::sync::OnceLock;

use oxifabric_core::params::{Parameter, ParameterKind};

/// What the environment asks for.
#[derive(Clone, Debug)]
pub(crate) struct Params {
    pub(crate) iface: Option<String>,
}

/// The table that `fi_info -e` prints.
pub(crate) static TABLE: [Parameter; 1] = [Parameter {
    name: "iface",
    kind: ParameterKind::Text,
    help: "Use the addresses of this network interface only",
    default: "",
}];

impl Params {
    /// Returns the parameters of this process.
    pub(crate) fn read() -> &'static Self {
        static PARAMS: OnceLock<Params> = OnceLock::new();
        PARAMS.get_or_init(|| Self {
            iface: TABLE[0].text("udp").filter(|name| !name.trim().is_empty()),
        })
    }
}
