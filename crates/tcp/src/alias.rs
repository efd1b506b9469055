//! Other names for the endpoints of this provider, with what programs that use them expect: `tcp;ofi_rxm`, `sockets` and
//! `net` (docs/adr/0026). The bytes on the wire are those of `tcp` under every name. Set-up path.

use std::sync::OnceLock;

use oxifabric_provider::params::{Parameter, ParameterKind};
use oxifabric_types::Info;

use crate::info::{connected_at, datagrams_at};
use crate::params::Params;

/// FI_PROTO_RXM.
const PROTO_RXM: u32 = 11;
/// FI_PROTO_SOCK_TCP.
const PROTO_SOCK_TCP: u32 = 6;
/// What fi_inject(3) takes under the name `sockets`.
const SOCKETS_INJECT: usize = 255;

macro_rules! table {
    ($($name:literal: $kind:ident, $default:literal, $help:literal;)*) => {
        &[$(Parameter {
            name: $name,
            kind: ParameterKind::$kind,
            help: $help,
            default: $default,
        },)*]
    };
}

/// FI_OFI_RXM_*: the first three count here.
pub static RXM: &[Parameter] = table! {
    "tx_size": Size, "2048", "How many sends may be outstanding per endpoint of tcp;ofi_rxm";
    "rx_size": Size, "2048", "How many receives are expected to be posted per endpoint of tcp;ofi_rxm";
    "buffer_size": Size, "16384", "Longest message that fi_inject takes on tcp;ofi_rxm, in bytes";
    "comp_per_progress": Int, "1", "Of the C library, without effect: a poll reads what has arrived";
    "sar_limit": Size, "131072", "Of the C library, without effect: messages are cut by the protocol of tcp";
    "use_srx": Bool, "0", "Of the C library, without effect: no receives are posted below an endpoint";
    "msg_tx_size": Size, "128", "Of the C library, without effect: there are no endpoints below an endpoint";
    "msg_rx_size": Size, "128", "Of the C library, without effect: there are no endpoints below an endpoint";
    "cm_progress_interval": Int, "10000", "Of the C library, without effect: connections are made by every poll";
    "cq_eq_fairness": Int, "128", "Of the C library, without effect: connections are made by every poll";
    "data_auto_progress": Bool, "0", "Of the C library, without effect: threads run only if the application asks for FI_PROGRESS_AUTO";
    "use_rndv_write": Bool, "0", "Of the C library, without effect: long messages go as on tcp";
    "enable_direct_send": Bool, "1", "Of the C library, without effect: messages are never copied before they are sent";
    "enable_passthru": Bool, "0", "Of the C library, without effect: there are no endpoints below an endpoint";
    "detect_hmem_iface": Bool, "0", "Of the C library, without effect: there is no device memory";
    "rescan": Bool, "-1", "Of the C library, without effect: network interfaces are looked up by each fi_getinfo";
    "def_wait_obj": Text, "fd", "Of the C library, without effect: queues wait for descriptors";
    "def_tcp_wait_obj": Text, "fd", "Of the C library, without effect: queues wait for descriptors";
    "num_msg_eps": Int, "1", "Of the C library, without effect: two endpoints share one connection";
};

/// FI_SOCKETS_*: the first one counts here.
pub static SOCKETS: &[Parameter] = table! {
    "iface": Text, "", "Use the addresses of this network interface only, under the name sockets";
    "pe_waittime": Int, "10", "Of the C library, without effect: the thread sleeps until there is something to do";
    "pe_affinity": Text, "", "Of the C library, without effect: the system places the thread";
    "conn_timeout": Int, "30000", "Of the C library, without effect: FI_TCP_CONNECT_TIMEOUT_MS counts";
    "max_conn_retry": Int, "5", "Of the C library, without effect: FI_TCP_CONNECT_TIMEOUT_MS counts";
    "def_conn_map_sz": Int, "256", "Of the C library, without effect: tables grow with the peers that there are";
    "def_av_sz": Int, "256", "Of the C library, without effect: tables grow with the peers that there are";
    "def_cq_sz": Int, "256", "Of the C library, without effect: queues grow with what is under way";
    "def_eq_sz": Int, "256", "Of the C library, without effect: queues grow with what is under way";
    "keepalive_enable": Bool, "0", "Of the C library, without effect: FI_TCP_KEEPALIVE counts";
    "keepalive_time": Int, "-1", "Of the C library, without effect: FI_TCP_USER_TIMEOUT_MS counts";
    "keepalive_intvl": Int, "-1", "Of the C library, without effect: FI_TCP_USER_TIMEOUT_MS counts";
    "keepalive_probes": Int, "-1", "Of the C library, without effect: FI_TCP_USER_TIMEOUT_MS counts";
    "max_buf_sz": Int, "0", "Of the C library, without effect: the kernel sizes the buffers of sockets";
    "dgram_drop_rate": Int, "0", "Of the C library, without effect: there are no datagram endpoints under this name";
};

/// The values of the parameters of the other names.
struct Settings {
    tx_size: usize,
    rx_size: usize,
    inject_size: usize,
    iface: Option<String>,
}

impl Settings {
    fn read() -> &'static Self {
        static SETTINGS: OnceLock<Settings> = OnceLock::new();
        SETTINGS.get_or_init(|| Self {
            tx_size: RXM[0].size("ofi_rxm").max(1),
            rx_size: RXM[1].size("ofi_rxm").max(1),
            inject_size: RXM[2].size("ofi_rxm"),
            iface: SOCKETS[0]
                .text("sockets")
                .filter(|name| !name.trim().is_empty()),
        })
    }
}

/// Describes the endpoints of tcp under the name `tcp;ofi_rxm`: reliable datagrams, with the sizes of that name.
pub fn rxm_infos() -> Vec<Info> {
    let (params, settings) = (Params::read(), Settings::read());
    let mut infos = datagrams_at(params.iface.as_deref(), params);
    for info in &mut infos {
        info.ep.protocol = PROTO_RXM;
        (info.tx.size, info.rx.size) = (settings.tx_size, settings.rx_size);
        info.tx.inject_size = settings.inject_size.max(params.max_inject);
    }
    infos
}

/// Describes the endpoints of tcp under the name `sockets`, with the protocol number of that name.
pub fn sockets_infos() -> Vec<Info> {
    let iface = Settings::read().iface.as_deref();
    let mut infos = all(iface.or(Params::read().iface.as_deref()));
    for info in &mut infos {
        info.tx.inject_size = info.tx.inject_size.max(SOCKETS_INJECT);
        info.ep.protocol = PROTO_SOCK_TCP;
    }
    infos
}

/// Describes the endpoints of tcp under the name `net`.
pub fn net_infos() -> Vec<Info> {
    all(Params::read().iface.as_deref())
}

fn all(iface: Option<&str>) -> Vec<Info> {
    let params = Params::read();
    let mut infos = datagrams_at(iface, params);
    infos.extend(connected_at(iface, params));
    infos
}

#[cfg(test)]
mod tests {
    use oxifabric_types::EpType;

    use super::*;

    #[test]
    fn other_names_have_the_protocols_that_programs_compare() {
        let protocols = |infos: &[Info]| -> Vec<(EpType, u32)> {
            let mut found: Vec<_> = infos
                .iter()
                .map(|info| (info.ep.kind, info.ep.protocol))
                .collect();
            found.dedup();
            found
        };
        assert_eq!(protocols(&rxm_infos()), [(EpType::Rdm, 11)]);
        assert_eq!(
            protocols(&sockets_infos()),
            [(EpType::Rdm, 6), (EpType::Msg, 6)]
        );
        assert_eq!(
            protocols(&net_infos()),
            [(EpType::Rdm, 25), (EpType::Msg, 6)]
        );
    }

    #[test]
    fn sizes_of_tcp_ofi_rxm_are_those_that_its_programs_know() {
        let info = &rxm_infos()[0];
        assert_eq!((info.tx.size, info.rx.size), (2048, 2048));
        assert!(info.tx.max_size >= 16_384 && info.rx.max_size >= 65_536);
        assert_eq!(info.tx.inject_size, 16_384);
    }

    #[test]
    fn whatever_the_c_library_reads_is_listed() {
        let has = |table: &[Parameter], names: &[&str]| {
            names
                .iter()
                .all(|name| table.iter().any(|row| row.name == *name))
        };
        assert!(has(
            RXM,
            &[
                "sar_limit",
                "use_srx",
                "def_tcp_wait_obj",
                "enable_passthru",
                "rescan"
            ]
        ));
        assert!(has(
            SOCKETS,
            &[
                "pe_waittime",
                "max_conn_retry",
                "keepalive_time",
                "max_buf_sz"
            ]
        ));
        assert_eq!((RXM.len(), SOCKETS.len()), (19, 15));
    }
}
