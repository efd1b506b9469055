//! The provider's parameters: one table, read once. Source: fi_efa(7).

use std::sync::OnceLock;

use oxifabric_provider::params::{Parameter, ParameterKind};

/// The values of the parameters.
#[derive(Clone, Debug)]
pub(crate) struct Params {
    /// Names of devices; empty for all.
    ifaces: Vec<String>,
    pub(crate) tx_size: Option<usize>,
    pub(crate) rx_size: Option<usize>,
    pub(crate) unsolicited: bool,
}

/// The table that `fi_info -e` prints.
pub(crate) static TABLE: [Parameter; 4] = [
    Parameter {
        name: "iface",
        kind: ParameterKind::Text,
        help: "Use only these devices, with commas between their names; case matters",
        default: "all",
    },
    Parameter {
        name: "tx_size",
        kind: ParameterKind::Size,
        help: "How many sends may be outstanding on an endpoint; 0: as many as the device takes",
        default: "0",
    },
    Parameter {
        name: "rx_size",
        kind: ParameterKind::Size,
        help: "How many receives may be posted on an endpoint; 0: as many as the device takes",
        default: "0",
    },
    Parameter {
        name: "use_unsolicited_write_recv",
        kind: ParameterKind::Bool,
        help: "Let writes of peers with completion data use up no receive, where the device can do that",
        default: "1",
    },
];

impl Params {
    /// Returns the parameters of this process.
    pub(crate) fn read() -> &'static Self {
        static PARAMS: OnceLock<Params> = OnceLock::new();
        PARAMS.get_or_init(|| {
            let size = |at: usize| Some(TABLE[at].size("efa")).filter(|&size| size != 0);
            Self {
                ifaces: names(&TABLE[0].text("efa").unwrap_or_default()),
                tx_size: size(1),
                rx_size: size(2),
                unsolicited: TABLE[3].bool("efa"),
            }
        })
    }

    /// Returns whether a device may be used.
    pub(crate) fn admits(&self, device: &str) -> bool {
        self.ifaces.is_empty() || self.ifaces.iter().any(|name| name == device)
    }
}

/// Reads a list of names; `all` is none.
fn names(text: &str) -> Vec<String> {
    let names = text.split(',').map(str::trim);
    let names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
    match names.as_slice() {
        ["all"] => Vec::new(),
        names => names.iter().map(|&name| name.to_owned()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_admitted_by_their_whole_names() {
        let with = |text| Params {
            ifaces: names(text),
            tx_size: None,
            rx_size: None,
            unsolicited: true,
        };
        for text in ["", "all", " , "] {
            assert!(with(text).admits("efa_0"), "{text:?}");
        }
        let two = with("efa_1, efa_10");
        assert!(two.admits("efa_10") && two.admits("efa_1"));
        assert!(!two.admits("efa_0") && !two.admits("EFA_1"));
    }
}
