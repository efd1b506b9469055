//! The provider's parameters: one table, read once.

use std::sync::OnceLock;
use std::time::Duration;

use oxifabric_provider::params::{Parameter, ParameterKind};

const NAME: &str = "tcp";

/// Maximum number of outstanding operations of an endpoint.
const QUEUE_MAX: usize = 1 << 20;

/// The values of the parameters.
#[derive(Clone, Debug)]
pub(crate) struct Params {
    pub(crate) iface: Option<String>,
    /// Inclusive; `None` lets the system choose.
    pub(crate) ports: Option<(u16, u16)>,
    pub(crate) tx_size: usize,
    pub(crate) rx_size: usize,
    pub(crate) max_inject: usize,
    /// Longer tagged messages wait at the sender until they are matched.
    pub(crate) max_saved_size: usize,
    pub(crate) no_delay: bool,
    pub(crate) firewall: bool,
    /// How long a host may take to accept a connection, and an accepted connection to send its request.
    pub(crate) connect_timeout: Duration,
    /// How long an endpoint may take to answer when its host has taken the connection; `None`: as long as both live.
    pub(crate) answer_timeout: Option<Duration>,
    pub(crate) keep_alive: bool,
    pub(crate) user_timeout: Duration,
    pub(crate) extension: bool,
    /// Maximum number of connections of unknown peers; `None`: as many as there are descriptors for.
    pub(crate) max_unknown: Option<usize>,
    /// Whether messages that are posted between two polls are coalesced.
    pub(crate) gather: bool,
}

/// The table that `fi_info -e` prints.
pub(crate) static TABLE: [Parameter; 25] = [
    Parameter {
        name: "iface",
        kind: ParameterKind::Text,
        help: "Use the addresses of this network interface only",
        default: "",
    },
    Parameter {
        name: "port_low_range",
        kind: ParameterKind::Int,
        help: "First port to listen on when the application names none",
        default: "0",
    },
    Parameter {
        name: "port_high_range",
        kind: ParameterKind::Int,
        help: "Last port to listen on when the application names none; 0 lets the system choose",
        default: "0",
    },
    Parameter {
        name: "tx_size",
        kind: ParameterKind::Size,
        help: "How many sends may be outstanding per endpoint",
        default: "256",
    },
    Parameter {
        name: "rx_size",
        kind: ParameterKind::Size,
        help: "How many receives are expected to be posted per endpoint",
        default: "256",
    },
    Parameter {
        name: "max_inject",
        kind: ParameterKind::Size,
        help: "Longest message that fi_inject takes, in bytes",
        default: "128",
    },
    Parameter {
        name: "max_saved_size",
        kind: ParameterKind::Size,
        help: "Longer tagged messages stay at the sender until a receive matches them, in bytes",
        default: "8388608",
    },
    Parameter {
        name: "nodelay",
        kind: ParameterKind::Bool,
        help: "Send small messages at once instead of letting the kernel gather them",
        default: "1",
    },
    Parameter {
        name: "firewall_addr",
        kind: ParameterKind::Bool,
        help: "Tell peers that they cannot connect to this endpoint",
        default: "0",
    },
    Parameter {
        name: "connect_timeout_ms",
        kind: ParameterKind::Int,
        help: "How long a host may leave an attempt to connect unanswered before it counts as unreachable",
        default: "15000",
    },
    Parameter {
        name: "answer_timeout_ms",
        kind: ParameterKind::Int,
        help: "How long an endpoint may take to answer once its host has taken the connection; 0: as long as its process and host live",
        default: "0",
    },
    Parameter {
        name: "keepalive",
        kind: ParameterKind::Bool,
        help: "Probe silent peers, so that the loss of a host is noticed without traffic",
        default: "1",
    },
    Parameter {
        name: "user_timeout_ms",
        kind: ParameterKind::Int,
        help: "How long a host may leave transmissions unanswered before its endpoints count as down; 0 asks the kernel alone",
        default: "15000",
    },
    Parameter {
        name: "extension",
        kind: ParameterKind::Bool,
        help: "Speak the protocol's extension with peers that know it",
        default: "1",
    },
    Parameter {
        name: "gather",
        kind: ParameterKind::Bool,
        help: "Let short messages that are posted between two polls leave together",
        default: "1",
    },
    Parameter {
        name: "max_unknown_peers",
        kind: ParameterKind::Size,
        help: "How many connections of peers an endpoint has at most that are not in its address vector; beyond that idle ones are closed; 0: half of the descriptors (ulimit -n), up to 4096",
        default: "0",
    },
    Parameter {
        name: "prov_name",
        kind: ParameterKind::Text,
        help: "Of the C library, without effect: names are not changed here",
        default: "",
    },
    Parameter {
        name: "max_saved",
        kind: ParameterKind::Int,
        help: "Of the C library, without effect: the bytes of waiting messages are limited, not their number",
        default: "64",
    },
    Parameter {
        name: "max_rx_size",
        kind: ParameterKind::Size,
        help: "Of the C library, without effect: buffers for arriving messages are as long as the messages",
        default: "16384",
    },
    Parameter {
        name: "staging_sbuf_size",
        kind: ParameterKind::Int,
        help: "Of the C library, without effect: header and body leave in one system call without being gathered first",
        default: "9000",
    },
    Parameter {
        name: "prefetch_rbuf_size",
        kind: ParameterKind::Int,
        help: "Of the C library, without effect: what is read ahead is chosen by what arrives",
        default: "9000",
    },
    Parameter {
        name: "zerocopy_size",
        kind: ParameterKind::Size,
        help: "Of the C library, without effect: the kernel copies what is sent",
        default: "18446744073709551615",
    },
    Parameter {
        name: "trace_msg",
        kind: ParameterKind::Bool,
        help: "Of the C library, without effect: FI_LOG_LEVEL=trace tells what there is to tell",
        default: "0",
    },
    Parameter {
        name: "disable_auto_progress",
        kind: ParameterKind::Bool,
        help: "Of the C library, without effect: threads run only if the application asks for FI_PROGRESS_AUTO",
        default: "0",
    },
    Parameter {
        name: "io_uring",
        kind: ParameterKind::Bool,
        help: "Of the C library, without effect: sockets are polled",
        default: "0",
    },
];

impl Params {
    /// Returns the parameters of this process.
    pub(crate) fn read() -> &'static Self {
        static PARAMS: OnceLock<Params> = OnceLock::new();
        PARAMS.get_or_init(|| Self {
            iface: find("iface")
                .text(NAME)
                .filter(|name| !name.trim().is_empty()),
            ports: port_range(
                find("port_low_range").int(NAME),
                find("port_high_range").int(NAME),
            ),
            tx_size: find("tx_size").size(NAME).clamp(1, QUEUE_MAX),
            rx_size: find("rx_size").size(NAME).clamp(1, QUEUE_MAX),
            max_inject: find("max_inject").size(NAME),
            max_saved_size: find("max_saved_size").size(NAME),
            no_delay: find("nodelay").bool(NAME),
            firewall: find("firewall_addr").bool(NAME),
            connect_timeout: millis(find("connect_timeout_ms").int(NAME).max(1)),
            answer_timeout: Some(millis(find("answer_timeout_ms").int(NAME)))
                .filter(|timeout| !timeout.is_zero()),
            keep_alive: find("keepalive").bool(NAME),
            user_timeout: millis(find("user_timeout_ms").int(NAME)),
            extension: find("extension").bool(NAME),
            max_unknown: Some(find("max_unknown_peers").size(NAME)).filter(|&count| count > 0),
            gather: find("gather").bool(NAME),
        })
    }
}

fn find(name: &str) -> &'static Parameter {
    TABLE
        .iter()
        .find(|parameter| parameter.name == name)
        .expect("every name that is looked for is in the table")
}

fn millis(count: i64) -> Duration {
    Duration::from_millis(u64::try_from(count).unwrap_or(0))
}

/// Returns a range of ports; one that is empty or no range of ports counts as not given.
fn port_range(low: i64, high: i64) -> Option<(u16, u16)> {
    let high = u16::try_from(high.min(u16::MAX.into())).ok()?;
    let low = u16::try_from(low).ok()?;
    (high > 0 && low <= high).then_some((low.max(1), high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_parameter_is_in_the_table() {
        let params = Params::read();
        assert!(params.tx_size > 0 && params.rx_size > 0);
        assert!(params.connect_timeout > Duration::ZERO);
        assert_eq!(params.answer_timeout, None);
    }

    #[test]
    fn whatever_the_c_library_reads_is_listed() {
        for name in [
            "prov_name",
            "iface",
            "port_low_range",
            "port_high_range",
            "tx_size",
            "rx_size",
            "max_inject",
            "max_saved",
            "max_saved_size",
            "max_rx_size",
            "nodelay",
            "staging_sbuf_size",
            "prefetch_rbuf_size",
            "zerocopy_size",
            "trace_msg",
            "disable_auto_progress",
            "io_uring",
            "firewall_addr",
        ] {
            assert!(
                TABLE.iter().any(|parameter| parameter.name == name),
                "{name}"
            );
        }
    }

    #[test]
    fn port_ranges_must_make_sense() {
        assert_eq!(port_range(4000, 4010), Some((4000, 4010)));
        assert_eq!(port_range(4010, 4000), None);
        assert_eq!(port_range(1, 70_000), Some((1, 65_535)));
        assert_eq!(port_range(0, 0), None);
        assert_eq!(port_range(-5, -1), None);
    }
}
