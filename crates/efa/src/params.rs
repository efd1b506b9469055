//! The provider's parameters: one table, read once. Source: fi_efa(7).

use std::sync::OnceLock;
use std::time::Duration;

use oxifabric_ibv::EfaCaps;
use oxifabric_provider::params::{Parameter, ParameterKind};
use oxifabric_types::Errno;

use crate::hardware::Hardware;

/// Version 1.18 of the interface, and the first two kinds of devices.
const API_1_18: u32 = 1 << 16 | 18;
const EARLY: [u32; 2] = [0xefa0, 0xefa1];

/// The first pause of what is sent again, where none is said, and the longest pause that may be said, which is upstream's.
const PAUSE: Duration = Duration::from_micros(500);
/// The longest pause that can be asked for is the C library's: what a request waits for, the end of its peer and of the endpoint wait for as well.
const PAUSE_LIMIT: Duration = Duration::from_secs(1);
const PAUSE_LEAST: Duration = Duration::from_micros(1);

const fn micros(count: usize) -> Duration {
    Duration::from_micros(count as u64)
}

/// The values of the parameters.
#[derive(Clone, Debug)]
pub(crate) struct Params {
    /// Names of devices; empty for all.
    ifaces: Vec<String>,
    pub(crate) tx_size: Option<usize>,
    pub(crate) rx_size: Option<usize>,
    pub(crate) unsolicited: bool,
    /// Whether devices read and write memory of peers for endpoints with an engine; as they can if it is not said.
    rdma: Option<bool>,
    /// From which length on a message, and what is written, is read by the receiver's device.
    pub(crate) min_read_message: usize,
    pub(crate) min_read_write: usize,
    /// Up to which length a message is sent before its receiver asks for it.
    pub(crate) max_medium: usize,
    /// How long a request waits at first, and at most, before it is made again for a receiver that was not ready.
    pub(crate) first_pause: Duration,
    pub(crate) longest_pause: Duration,
    /// Memory that is registered stays the parent's after fork(2), on kernels that would not see to that.
    pub(crate) is_fork_safe: bool,
}

/// The table that `fi_info -e` prints.
pub(crate) static TABLE: [Parameter; 11] = [
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
    Parameter {
        name: "use_device_rdma",
        kind: ParameterKind::Bool,
        help: "Let devices read and write memory of peers; 0: by messages, whatever they can; 1: leave out devices that cannot read",
        default: "1",
    },
    Parameter {
        name: "inter_min_read_message_size",
        kind: ParameterKind::Size,
        help: "Let the receiver's device read messages of at least this length, where both devices can",
        default: "1048576",
    },
    Parameter {
        name: "inter_min_read_write_size",
        kind: ParameterKind::Size,
        help: "Let the target's device read what is written, of at least this length, where both devices can read and one cannot write",
        default: "65536",
    },
    Parameter {
        name: "inter_max_medium_message_size",
        kind: ParameterKind::Size,
        help: "Send messages of at most this length at once, in several packets if need be; longer ones when the receiver asks for them",
        default: "65536",
    },
    Parameter {
        name: "timeout_interval",
        kind: ParameterKind::Size,
        help: "Microseconds before a packet is sent again whose receiver was not ready, after the device's own retries; twice as long each time; 0: 500",
        default: "0",
    },
    Parameter {
        name: "max_timeout",
        kind: ParameterKind::Size,
        help: "Microseconds at most between two attempts to send a packet whose receiver is not ready, 1 to 1000000",
        default: "32000",
    },
    Parameter {
        name: "fork_safe",
        kind: ParameterKind::Bool,
        help: "Let libibverbs keep registered memory out of children, by ibv_fork_init(3); kernels since 5.13 need no such thing",
        default: "0",
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
                rdma: TABLE[4].text("efa").map(|_| TABLE[4].bool("efa")),
                min_read_message: TABLE[5].size("efa"),
                min_read_write: TABLE[6].size("efa"),
                max_medium: TABLE[7].size("efa"),
                first_pause: size(8).map_or(PAUSE, micros),
                longest_pause: micros(TABLE[9].size("efa")).clamp(PAUSE_LEAST, PAUSE_LIMIT),
                is_fork_safe: TABLE[10].bool("efa"),
            }
        })
    }

    /// Returns whether a device that reads does so for endpoints with an engine, of this kind of device. Applications before version 1.18 of the
    /// interface do not know that the first two kinds read, fi_efa(7).
    pub(crate) fn uses_rdma(&self, api_version: u32, part: u32) -> bool {
        let is_early = api_version < API_1_18 && EARLY.contains(&part);
        self.rdma.unwrap_or(!is_early)
    }

    /// Checks that an application with this version of the interface may say whether devices read and write memory of peers.
    ///
    /// # Errors
    /// `NOPROTOOPT` before version 1.18, `INVAL` if the environment says otherwise.
    pub(crate) fn admits_rdma(&self, api_version: u32, wanted: bool) -> Result<(), Errno> {
        if api_version < API_1_18 {
            return Err(Errno::NOPROTOOPT);
        }
        match self.rdma {
            Some(said) if said != wanted => Err(Errno::INVAL),
            _ => Ok(()),
        }
    }

    /// Returns whether a device may be used, by its name and what it can.
    pub(crate) fn admits_device(&self, at: &Hardware) -> bool {
        let fits = self.rdma != Some(true) || at.can(EfaCaps::RDMA_READ);
        fits && self.admits(&at.nic.name)
    }

    /// Returns whether a device of this name may be used.
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

    fn unset() -> Params {
        Params {
            ifaces: Vec::new(),
            tx_size: None,
            rx_size: None,
            unsolicited: true,
            rdma: None,
            max_medium: 0,
            min_read_message: 0,
            min_read_write: 0,
            first_pause: PAUSE,
            longest_pause: PAUSE,
            is_fork_safe: false,
        }
    }

    #[test]
    fn devices_are_admitted_by_their_whole_names() {
        let with = |text| Params {
            ifaces: names(text),
            ..unset()
        };
        for text in ["", "all", " , "] {
            assert!(with(text).admits("efa_0"), "{text:?}");
        }
        let two = with("efa_1, efa_10");
        assert!(two.admits("efa_10") && two.admits("efa_1"));
        assert!(!two.admits("efa_0") && !two.admits("EFA_1"));
    }

    #[test]
    fn devices_read_unless_they_are_told_not_to_or_the_application_is_old() {
        let with = |rdma| Params { rdma, ..unset() };
        let uses = |rdma, minor: u32, part| with(rdma).uses_rdma((1 << 16) | minor, part);
        assert!(uses(None, 18, 0xefa1) && uses(None, 17, 0xefa2));
        assert!(!uses(None, 17, 0xefa1) && uses(Some(true), 17, 0xefa1));
        assert!(!uses(Some(false), 18, 0xefa2));
        let may = |rdma, minor: u32| with(rdma).admits_rdma((1 << 16) | minor, true);
        assert_eq!((may(None, 18), may(Some(true), 18)), (Ok(()), Ok(())));
        assert_eq!(may(Some(false), 18), Err(Errno::INVAL));
        assert_eq!(may(Some(false), 17), Err(Errno::NOPROTOOPT));
    }
}
