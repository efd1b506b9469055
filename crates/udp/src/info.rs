//! What the provider offers: one description for each address of this host. Set-up path; source: fi_getinfo(3), fi_udp(7).

use oxifabric_core::device::{RECEIVING, VECTORS};
use oxifabric_core::inet::{Place, addresses};
use oxifabric_core::provider::PROVIDER_VERSION;
use oxifabric_types::{
    Address, Caps, DomainAttr, EpAttr, EpType, FabricAttr, Flags, Info, MrMode, Order, Progress,
    ResourceMgmt, RxAttr, Threading, TxAttr,
};

use crate::params::Params;

const PROTO_UDP: u32 = 5;
/// Not the protocol of the C library's RxD (8): docs/protocol/reliable.md.
const PROTO_RXD: u32 = 0x8000_0001;
const PROTO_RXD_VERSION: u32 = 1;
const TAG_GENERIC: u64 = 0xaaaa_aaaa_aaaa_aaaa;
/// Longest message that is copied at once.
const RELIABLE_INJECT: usize = 4096;
const IOV_LIMIT: usize = oxifabric_mem::MAX_SEGMENTS;
/// How many operations may be outstanding.
const QUEUE_SIZE: usize = 1024;

/// What fits a frame of Ethernet behind the headers of IP and UDP, and so is never taken apart on the way
/// (docs/protocol/udp.md section 2).
const MAX_V4: usize = 1500 - 20 - 8;
const MAX_V6: usize = 1500 - 40 - 8;

/// Describes the endpoints of every usable address, best first.
pub(crate) fn offers(params: &Params) -> Vec<Info> {
    let places = addresses(params.iface.as_deref());
    places.iter().map(describe).collect()
}

/// Describes the reliable endpoints of every usable address, best first.
pub(crate) fn reliable(params: &Params) -> Vec<Info> {
    let places = addresses(params.iface.as_deref());
    places.iter().map(describe_reliable).collect()
}

fn describe_reliable(place: &Place) -> Info {
    let transfers = Caps::MSG | Caps::TAGGED | Caps::RMA | Caps::ATOMIC | Caps::COLLECTIVE;
    let sends =
        Caps::SEND | Caps::READ | Caps::WRITE | Caps::FENCE | Caps::NAMED_RX_CTX | Caps::TRIGGER;
    let targets = Caps::REMOTE_READ | Caps::REMOTE_WRITE | Caps::RMA_EVENT;
    let receives = RECEIVING | targets | Caps::TRIGGER;
    // Frames are dealt with in their order; what a read brings is taken when its response leaves.
    let messages = Order::RAS | Order::WAS | Order::SAW | Order::SAS;
    let order = Order::RAR | Order::RAW | Order::ATOMIC_WAR | Order::WAW | messages;
    let datagrams = describe(place);
    Info {
        caps: transfers | sends | receives | place.reach() | VECTORS,
        tx: TxAttr {
            caps: transfers | sends,
            op_flags: datagrams.tx.op_flags | Flags::DELIVERY_COMPLETE | Flags::MATCH_COMPLETE,
            msg_order: order,
            inject_size: RELIABLE_INJECT,
            rma_iov_limit: IOV_LIMIT,
            ..datagrams.tx
        },
        rx: RxAttr {
            caps: transfers | receives,
            msg_order: order,
            ..datagrams.rx
        },
        ep: EpAttr {
            kind: EpType::Rdm,
            protocol: PROTO_RXD,
            protocol_version: PROTO_RXD_VERSION,
            max_msg_size: usize::MAX,
            max_order_raw_size: usize::MAX,
            max_order_war_size: oxifabric_engine::MAX_ATOMIC_BYTES,
            max_order_waw_size: usize::MAX,
            mem_tag_format: TAG_GENERIC,
            ..datagrams.ep
        },
        domain: DomainAttr {
            cq_data_size: 8,
            max_ep_tx_ctx: oxifabric_core::MAX_CONTEXTS,
            max_ep_rx_ctx: oxifabric_core::MAX_CONTEXTS,
            max_ep_stx_ctx: 256,
            max_ep_srx_ctx: 256,
            ..datagrams.domain
        },
        ..datagrams
    }
}

fn describe(place: &Place) -> Info {
    let sends = Caps::MSG | Caps::MULTICAST | Caps::SEND;
    let receives = Caps::MSG | Caps::RECV | Caps::MULTI_RECV | Caps::DIRECTED_RECV | Caps::SOURCE;
    let longest = if place.at.is_ipv4() { MAX_V4 } else { MAX_V6 };
    Info {
        caps: sends | receives | place.reach() | VECTORS,
        mode: 0,
        addr_format: place.addr_format(),
        src: Some(Address::Inet(place.at)),
        dest: None,
        tx: TxAttr {
            caps: sends,
            op_flags: Flags::INJECT
                | Flags::INJECT_COMPLETE
                | Flags::TRANSMIT_COMPLETE
                | Flags::COMPLETION,
            inject_size: longest,
            size: QUEUE_SIZE,
            iov_limit: IOV_LIMIT,
            ..TxAttr::default()
        },
        rx: RxAttr {
            caps: receives,
            op_flags: Flags::COMPLETION | Flags::MULTI_RECV,
            size: QUEUE_SIZE,
            iov_limit: IOV_LIMIT,
            ..RxAttr::default()
        },
        ep: EpAttr {
            kind: EpType::Dgram,
            protocol: PROTO_UDP,
            max_msg_size: longest,
            tx_ctx_cnt: 1,
            rx_ctx_cnt: 1,
            ..EpAttr::default()
        },
        domain: domain(place),
        fabric: FabricAttr {
            name: place.network.clone(),
            prov_name: "udp".into(),
            prov_version: PROVIDER_VERSION,
            api_version: 0,
        },
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
        cq_cnt: 256,
        ep_cnt: 256,
        tx_ctx_cnt: 256,
        rx_ctx_cnt: 256,
        max_ep_tx_ctx: 1,
        max_ep_rx_ctx: 1,
        mr_iov_limit: IOV_LIMIT,
        caps: Caps::LOCAL_COMM | Caps::REMOTE_COMM | VECTORS,
        ..DomainAttr::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_fits_one_frame_of_ethernet() {
        for offer in offers(Params::read()) {
            let headers = match offer.src {
                Some(Address::Inet(at)) if at.is_ipv4() => 28,
                _ => 48,
            };
            assert_eq!(offer.ep.max_msg_size + headers, 1500);
            assert_eq!(offer.tx.inject_size, offer.ep.max_msg_size);
        }
    }

    #[test]
    fn datagrams_have_no_tags_no_order_and_no_remote_data() {
        let offers = offers(Params::read());
        let last = offers.last().expect("loopback is there");
        assert_eq!(last.ep.kind, EpType::Dgram);
        assert!(
            !last
                .caps
                .intersects(Caps::TAGGED | Caps::RMA | Caps::ATOMIC)
        );
        assert_eq!(last.domain.cq_data_size, 0);
        assert!(last.tx.msg_order.is_empty() && last.rx.msg_order.is_empty());
    }
}
