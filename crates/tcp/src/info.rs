//! What the provider has to offer: one fi_info for each address of this host. Set-up
//! path; source: fi_getinfo(3), fi_tcp(7).

use oxifabric_provider::PROVIDER_VERSION;
use oxifabric_provider::device::{RECEIVING, VECTORS};
use oxifabric_provider::inet::{Place, addresses};
use oxifabric_types::{
    Address, Caps, DomainAttr, EpAttr, EpType, FabricAttr, Flags, Info, MrMode, Order, Progress,
    ResourceMgmt, RxAttr, Threading, TxAttr,
};

use crate::params::Params;

const PROTO_SOCK_TCP: u32 = 6;
const PROTO_XNET: u32 = 25;
const PROTO_XNET_VERSION: u32 = 1;
/// Maximum number of operations that an endpoint may be asked to take; by default it takes as many as the parameters give.
const QUEUE_MAX: usize = 1 << 16;
/// Maximum number of sends that a connected endpoint may be asked to take. Its receives may be those of many endpoints, in a shared
/// context.
const CONNECTED_SENDS_MAX: usize = 1 << 10;
/// Advised number of connections of a domain.
const MSG_ENDPOINTS: usize = 8192;
const TAG_GENERIC: u64 = 0xaaaa_aaaa_aaaa_aaaa;
const IOV_LIMIT: usize = oxifabric_mem::MAX_SEGMENTS;

/// Describes the endpoints of every usable address, best first: reliable datagrams, then connected ones.
pub(crate) fn infos(params: &Params) -> Vec<Info> {
    let mut infos = datagrams_at(params.iface.as_deref(), params);
    infos.extend(connected_at(params.iface.as_deref(), params));
    infos
}

/// Describes the reliable datagram endpoints of the addresses of this host, or of one interface.
pub(crate) fn datagrams_at(iface: Option<&str>, params: &Params) -> Vec<Info> {
    let places = addresses(iface);
    places.iter().map(|place| describe(place, params)).collect()
}

/// Describes the connected endpoints of the addresses of this host, or of one interface.
pub(crate) fn connected_at(iface: Option<&str>, params: &Params) -> Vec<Info> {
    let datagrams = datagrams_at(iface, params);
    datagrams.into_iter().map(connected).collect()
}

/// Makes a description of a connected endpoint out of that of a reliable datagram endpoint at the same place. There is one
/// peer, so that it needs no naming; and nothing is negotiated, so that what the C library lacks is lacking.
fn connected(mut info: Info) -> Info {
    let lacking = VECTORS
        | Caps::DIRECTED_RECV
        | Caps::TAGGED_DIRECTED_RECV
        | Caps::EXACT_DIRECTED_RECV
        | Caps::SOURCE
        | Caps::SOURCE_ERR
        | Caps::ATOMIC
        | Caps::COLLECTIVE
        | Caps::NAMED_RX_CTX;
    for caps in [&mut info.caps, &mut info.tx.caps, &mut info.rx.caps] {
        caps.remove(lacking);
    }
    info.tx.op_flags.remove(Flags::MATCH_COMPLETE);
    info.tx.max_size = CONNECTED_SENDS_MAX;
    (info.domain.max_ep_tx_ctx, info.domain.max_ep_rx_ctx) = (1, 1);
    info.ep.kind = EpType::Msg;
    info.ep.protocol = PROTO_SOCK_TCP;
    info.ep.protocol_version = 0;
    info.domain.ep_cnt = MSG_ENDPOINTS;
    info
}

fn describe(place: &Place, params: &Params) -> Info {
    let mut transfers = Caps::MSG | Caps::TAGGED | Caps::RMA | Caps::ATOMIC;
    // Only the extension has messages of collectives.
    transfers.set(Caps::COLLECTIVE, params.extension);
    transfers |= Caps::RMA_PMEM;
    let sends =
        Caps::SEND | Caps::READ | Caps::WRITE | Caps::FENCE | Caps::NAMED_RX_CTX | Caps::TRIGGER;
    let targets = Caps::REMOTE_READ | Caps::REMOTE_WRITE | Caps::RMA_EVENT;
    let receives = RECEIVING | targets | Caps::TRIGGER;
    Info {
        caps: transfers | sends | receives | place.reach() | VECTORS,
        mode: 0,
        nic: None,
        addr_format: place.addr_format(),
        src: Some(Address::Inet(place.at)),
        dest: None,
        tx: TxAttr {
            caps: transfers | sends,
            op_flags: Flags::INJECT
                | Flags::INJECT_COMPLETE
                | Flags::TRANSMIT_COMPLETE
                | Flags::DELIVERY_COMPLETE
                | Flags::COMMIT_COMPLETE
                | Flags::MATCH_COMPLETE
                | Flags::COMPLETION,
            msg_order: order(),
            inject_size: params.max_inject,
            size: params.tx_size,
            max_size: QUEUE_MAX,
            iov_limit: IOV_LIMIT,
            rma_iov_limit: IOV_LIMIT,
            ..TxAttr::default()
        },
        rx: RxAttr {
            caps: transfers | receives,
            op_flags: Flags::COMPLETION | Flags::MULTI_RECV,
            msg_order: order(),
            size: params.rx_size,
            max_size: QUEUE_MAX,
            iov_limit: IOV_LIMIT,
            ..RxAttr::default()
        },
        ep: endpoint(),
        domain: domain(place),
        fabric: FabricAttr {
            name: place.network.clone(),
            prov_name: "tcp".into(),
            prov_version: PROVIDER_VERSION,
            api_version: 0,
        },
    }
}

/// Frames are dealt with in their order, but what a read brings is taken when its response leaves: later writes and
/// sends may overtake it. What an atomic fetches is taken when it is carried out.
fn order() -> Order {
    let messages = Order::RAS | Order::WAS | Order::SAW | Order::SAS;
    Order::RAR | Order::RAW | Order::ATOMIC_WAR | Order::WAW | messages
}

fn endpoint() -> EpAttr {
    EpAttr {
        kind: EpType::Rdm,
        protocol: PROTO_XNET,
        protocol_version: PROTO_XNET_VERSION,
        max_msg_size: usize::MAX,
        max_order_raw_size: usize::MAX,
        max_order_war_size: oxifabric_engine::MAX_ATOMIC_BYTES,
        max_order_waw_size: usize::MAX,
        mem_tag_format: TAG_GENERIC,
        tx_ctx_cnt: 1,
        rx_ctx_cnt: 1,
        ..EpAttr::default()
    }
}

fn domain(place: &Place) -> DomainAttr {
    DomainAttr {
        name: place.interface.clone(),
        threading: Threading::Safe,
        control_progress: Progress::Auto,
        data_progress: Progress::Auto,
        resource_mgmt: ResourceMgmt::Enabled,
        mr_mode: MrMode::BASIC | MrMode::SCALABLE,
        mr_key_size: 8,
        cq_data_size: 8,
        cq_cnt: 256,
        ep_cnt: 256,
        tx_ctx_cnt: 256,
        rx_ctx_cnt: 256,
        max_ep_tx_ctx: oxifabric_provider::MAX_CONTEXTS,
        max_ep_rx_ctx: oxifabric_provider::MAX_CONTEXTS,
        max_ep_stx_ctx: 256,
        max_ep_srx_ctx: 256,
        mr_iov_limit: IOV_LIMIT,
        caps: Caps::LOCAL_COMM | Caps::REMOTE_COMM | VECTORS,
        ..DomainAttr::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_always_offered_last_and_is_local() {
        let infos = infos(Params::read());
        let last = infos.last().expect("loopback is there");
        assert_eq!(
            last.src,
            Some(Address::Inet("[::1]:0".parse().expect("an address")))
        );
        assert_eq!(last.fabric.name, "::1/128");
        assert!(!last.caps.contains(Caps::REMOTE_COMM));
        assert!(last.caps.contains(Caps::LOCAL_COMM | Caps::TAGGED));
    }
}
