//! What the provider offers: connected endpoints of each device, with and without access to memory of peers.

use alloc::vec::Vec;
use core::net::{Ipv4Addr, SocketAddrV4};

use oxifabric_types::{
    AvType, Caps, DomainAttr, EpAttr, EpType, FabricAttr, Flags, Info, MrMode, Order, Progress,
    ResourceMgmt, RxAttr, Threading, TxAttr,
};

use crate::parts::{DeviceFacts, MOST_PIECES};
use crate::unsignaled::MOST_IN_A_ROW;
use crate::{address, place};

/// FI_SOCKADDR_IN.
const SOCKADDR_IN: u32 = 2;
/// FI_PROTO_RDMA_CM_IB_RC.
const PROTO_RDMA_CM_IB_RC: u32 = 1;
/// FI_RX_CQ_DATA: a write with data takes a receive.
const RX_CQ_DATA: u64 = 1 << 56;
const IOV_LIMIT: usize = 4;
const INJECT_SIZE: usize = 256;
/// Most work in a queue; devices have more.
const QUEUE_SIZE: usize = 256;

/// Returns the offers of devices, those with access to memory of peers first.
pub(crate) fn all(devices: &[DeviceFacts]) -> Vec<Info> {
    let mut offers = Vec::new();
    for device in devices {
        if device.regions > 0 {
            offers.push(offer(device, true));
        }
        offers.push(offer(device, false));
    }
    offers
}

/// Returns how many operations of an application a queue of a device has, beside sends that have ended and were not reported.
pub(crate) fn queue_size(device: &DeviceFacts) -> usize {
    QUEUE_SIZE.min((device.depth as usize).saturating_sub(MOST_IN_A_ROW))
}

/// Returns whether an offer's source is an address of its device.
pub(crate) fn is_at(offer: &Info, devices: &[DeviceFacts]) -> bool {
    let Some(Ok(at)) = offer.src.as_ref().map(place) else {
        return false;
    };
    let mut devices = devices.iter();
    let device = devices.find(|device| device.name() == offer.domain.name);
    device.is_some_and(|device| device.host == at.ip().to_bits())
}

fn offer(device: &DeviceFacts, has_access: bool) -> Info {
    let accesses = |caps| match has_access {
        true => caps,
        false => Caps::empty(),
    };
    let tx_caps =
        Caps::MSG | Caps::SEND | accesses(Caps::RMA | Caps::READ | Caps::WRITE) | Caps::FENCE;
    let targets = Caps::RMA | Caps::REMOTE_READ | Caps::REMOTE_WRITE;
    let rx_caps = Caps::MSG | Caps::RECV | accesses(targets);
    let writes = Order::WAW | Order::WAS | Order::RAW;
    let order = Order::SAS | Order::RAS | Order::SAW | writes | Order::RAR;
    let pieces = IOV_LIMIT.min(device.pieces as usize).min(MOST_PIECES);
    let sent_pieces = match has_access {
        // A read is limited like a send.
        true => pieces.min(device.read_pieces as usize),
        false => pieces,
    };
    let longest = usize::try_from(device.longest).unwrap_or(usize::MAX);
    let longest = longest.min(1 << 30);
    let host = Ipv4Addr::from_bits(device.host);
    Info {
        caps: tx_caps | rx_caps | Caps::LOCAL_COMM | Caps::REMOTE_COMM,
        addr_format: SOCKADDR_IN,
        src: Some(address(SocketAddrV4::new(host, 0))),
        tx: TxAttr {
            caps: tx_caps,
            op_flags: Flags::INJECT
                | Flags::INJECT_COMPLETE
                | Flags::TRANSMIT_COMPLETE
                | Flags::COMPLETION,
            msg_order: order,
            inject_size: INJECT_SIZE,
            size: queue_size(device),
            iov_limit: sent_pieces,
            rma_iov_limit: 1,
            ..TxAttr::default()
        },
        rx: RxAttr {
            caps: rx_caps,
            mode: if has_access { RX_CQ_DATA } else { 0 },
            op_flags: Flags::COMPLETION,
            msg_order: order,
            size: queue_size(device),
            iov_limit: pieces,
            ..RxAttr::default()
        },
        ep: EpAttr {
            kind: EpType::Msg,
            protocol: PROTO_RDMA_CM_IB_RC,
            protocol_version: 1,
            max_msg_size: longest,
            max_order_raw_size: longest,
            max_order_waw_size: longest,
            tx_ctx_cnt: 1,
            rx_ctx_cnt: 1,
            ..EpAttr::default()
        },
        domain: domain(device, has_access),
        fabric: FabricAttr {
            name: "kofi_verbs".into(),
            prov_name: "kofi_verbs".into(),
            prov_version: 1 << 16,
            api_version: 0,
        },
        ..Info::default()
    }
}

fn domain(device: &DeviceFacts, has_access: bool) -> DomainAttr {
    // Any memory of the kernel has pages, so that FI_MR_ALLOCATED is not asked for.
    let mr_mode = match has_access {
        true => MrMode::VIRT_ADDR | MrMode::PROV_KEY,
        false => MrMode::empty(),
    };
    DomainAttr {
        name: device.name().into(),
        threading: Threading::Safe,
        control_progress: Progress::Auto,
        data_progress: Progress::Auto,
        resource_mgmt: ResourceMgmt::Enabled,
        av_type: AvType::Table,
        mr_mode,
        mr_key_size: 4,
        cq_data_size: 4,
        cq_cnt: device.queues as usize,
        ep_cnt: device.queue_pairs as usize,
        tx_ctx_cnt: 1,
        rx_ctx_cnt: 1,
        max_ep_tx_ctx: 1,
        max_ep_rx_ctx: 1,
        cntr_cnt: 1024,
        mr_iov_limit: 1,
        caps: Caps::LOCAL_COMM | Caps::REMOTE_COMM,
        mr_cnt: device.regions as usize,
        ..DomainAttr::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(name: &str, host: u32, regions: u32) -> DeviceFacts {
        let mut device = DeviceFacts {
            host,
            depth: 100,
            pieces: 2,
            regions,
            region_pages: 512,
            longest: 1 << 31,
            ..DeviceFacts::NONE
        };
        device.name[..name.len()].copy_from_slice(name.as_bytes());
        device
    }

    #[test]
    fn a_device_is_offered_with_what_it_can_do() {
        let offers = all(&[device("a", 1, 0), device("b", 2, 9)]);
        let names: Vec<_> = offers.iter().map(|offer| &offer.domain.name[..]).collect();
        assert_eq!(names, ["a", "b", "b"]);
        assert!(!offers[0].caps.contains(Caps::RMA) && offers[1].caps.contains(Caps::RMA));
        assert_eq!((offers[1].rx.mode, offers[2].rx.mode), (RX_CQ_DATA, 0));
        assert_eq!((offers[0].tx.size, offers[0].tx.iov_limit), (84, 2));
        assert_eq!(offers[0].ep.max_msg_size, 1 << 30);
    }

    #[test]
    fn an_endpoint_that_reads_has_as_many_pieces_as_a_read() {
        let mut device = device("a", 1, 9);
        (device.pieces, device.read_pieces) = (4, 1);
        let offers = all(&[device]);
        assert_eq!((offers[0].tx.iov_limit, offers[1].tx.iov_limit), (1, 4));
        assert_eq!(offers[0].rx.iov_limit, 4);
    }

    #[test]
    fn an_offer_is_only_at_an_address_of_its_device() {
        let devices = [device("a", 1, 0), device("b", 2, 9)];
        let mut offers = all(&devices);
        let source = offers[0].src.clone();
        for offer in &mut offers {
            assert!(is_at(offer, &devices));
            offer.src.clone_from(&source);
        }
        offers.retain(|offer| is_at(offer, &devices));
        assert_eq!(offers.len(), 1);
        offers[0].src = None;
        assert!(!is_at(&offers[0], &devices));
    }
}
