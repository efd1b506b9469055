//! What the provider has to offer: one fi_info for each address of this host. Set-up path; source: fi_getinfo(3),
//! fi_udp(7).

use oxifabric_provider::PROVIDER_VERSION;
use oxifabric_provider::device::VECTORS;
use oxifabric_provider::inet::{Place, addresses};
use oxifabric_provider::packets;
use oxifabric_types::{
    Address, Caps, DomainAttr, EpAttr, EpType, FabricAttr, Flags, Info, MrMode, Progress,
    ResourceMgmt, RxAttr, Threading, TxAttr,
};

use crate::params::Params;

const PROTO_UDP: u32 = 5;
const IOV_LIMIT: usize = oxifabric_mem::MAX_SEGMENTS;
/// Maximum number of outstanding operations.
const QUEUE_SIZE: usize = 1024;
/// Advised number of objects of a kind.
const OBJECTS: usize = 256;

/// What fits a frame of Ethernet behind the headers of IP and UDP, and so is never taken apart on the way
/// (docs/protocol/udp.md section 2).
const MAX_V4: usize = 1500 - 20 - 8;
const MAX_V6: usize = 1500 - 40 - 8;

/// Describes the endpoints of every usable address, best first.
pub(crate) fn infos(params: &Params) -> Vec<Info> {
    let places = addresses(params.iface.as_deref());
    places.iter().map(describe).collect()
}

/// Describes the reliable endpoints of every usable address, best first.
pub(crate) fn reliable(params: &Params) -> Vec<Info> {
    let places = addresses(params.iface.as_deref());
    places.iter().map(describe_reliable).collect()
}

fn describe_reliable(place: &Place) -> Info {
    let (any, datagrams) = (packets::info("udp"), describe(place));
    Info {
        caps: any.caps | place.reach(),
        addr_format: datagrams.addr_format,
        src: datagrams.src,
        domain: DomainAttr {
            name: datagrams.domain.name,
            cq_cnt: OBJECTS,
            ep_cnt: OBJECTS,
            tx_ctx_cnt: OBJECTS,
            rx_ctx_cnt: OBJECTS,
            caps: datagrams.domain.caps,
            ..any.domain
        },
        fabric: datagrams.fabric,
        ..any
    }
}

fn describe(place: &Place) -> Info {
    let sends = Caps::MSG | Caps::MULTICAST | Caps::SEND;
    let receives = Caps::MSG | Caps::RECV | Caps::MULTI_RECV | Caps::DIRECTED_RECV | Caps::SOURCE;
    let longest = if place.at.is_ipv4() { MAX_V4 } else { MAX_V6 };
    Info {
        caps: sends | receives | place.reach() | VECTORS,
        mode: 0,
        nic: None,
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
        cq_cnt: OBJECTS,
        ep_cnt: OBJECTS,
        tx_ctx_cnt: OBJECTS,
        rx_ctx_cnt: OBJECTS,
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
        for info in infos(Params::read()) {
            let headers = match info.src {
                Some(Address::Inet(at)) if at.is_ipv4() => 28,
                _ => 48,
            };
            assert_eq!(info.ep.max_msg_size + headers, 1500);
            assert_eq!(info.tx.inject_size, info.ep.max_msg_size);
        }
    }

    #[test]
    fn datagrams_have_no_tags_no_order_and_no_remote_data() {
        let infos = infos(Params::read());
        let last = infos.last().expect("loopback is there");
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
