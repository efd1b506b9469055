//! What the provider offers.

use alloc::vec;
use alloc::vec::Vec;

use oxifabric_types::{
    AvType, Caps, DomainAttr, EpAttr, EpType, FabricAttr, Flags, Info, Order, Progress,
    ResourceMgmt, RxAttr, Threading, TxAttr,
};

/// FI_ADDR_STR.
const ADDR_STR: u32 = 9;
/// A protocol of our own: the highest bit says so, FI_PROV_SPECIFIC.
const PROTOCOL: u32 = 1 << 31 | 0x6b6c;
/// Every bit of a tag is the application's.
const TAG_GENERIC: u64 = 0xaaaa_aaaa_aaaa_aaaa;
const IOV_LIMIT: usize = 4;
const INJECT_SIZE: usize = 256;
const QUEUE_SIZE: usize = 256;
/// Longest message; a kernel's buffers are shorter.
const MAX_MSG_SIZE: usize = 1 << 30;
/// Longest atomic, in bytes.
const MAX_ATOMIC: usize = oxifabric_engine::MAX_ATOMIC_BYTES;

/// Returns the offers, the first one first to be taken.
pub(crate) fn all() -> Vec<Info> {
    vec![offer(EpType::Rdm), offer(EpType::Msg)]
}

fn offer(kind: EpType) -> Info {
    let transfers = Caps::MSG | Caps::TAGGED | Caps::RMA | Caps::ATOMIC;
    let tx_caps = transfers | Caps::SEND | Caps::READ | Caps::WRITE | Caps::FENCE;
    let directed = match kind {
        EpType::Rdm => Caps::DIRECTED_RECV | Caps::SOURCE,
        _ => Caps::empty(),
    };
    let targets = Caps::REMOTE_READ | Caps::REMOTE_WRITE;
    let rx_caps = transfers | Caps::RECV | targets | directed;
    let order = Order::SAS | Order::WAS | Order::RAS | Order::ATOMICS;
    Info {
        caps: tx_caps | rx_caps | Caps::LOCAL_COMM,
        addr_format: ADDR_STR,
        tx: TxAttr {
            caps: tx_caps,
            op_flags: Flags::INJECT
                | Flags::INJECT_COMPLETE
                | Flags::TRANSMIT_COMPLETE
                | Flags::DELIVERY_COMPLETE
                | Flags::MATCH_COMPLETE
                | Flags::COMPLETION,
            msg_order: order,
            inject_size: INJECT_SIZE,
            size: QUEUE_SIZE,
            iov_limit: IOV_LIMIT,
            rma_iov_limit: IOV_LIMIT,
            ..TxAttr::default()
        },
        rx: RxAttr {
            caps: rx_caps,
            op_flags: Flags::COMPLETION,
            msg_order: order,
            size: QUEUE_SIZE,
            iov_limit: IOV_LIMIT,
            ..RxAttr::default()
        },
        ep: EpAttr {
            kind,
            protocol: PROTOCOL,
            protocol_version: 1,
            max_msg_size: MAX_MSG_SIZE,
            max_order_raw_size: MAX_ATOMIC,
            max_order_war_size: MAX_ATOMIC,
            max_order_waw_size: MAX_ATOMIC,
            mem_tag_format: TAG_GENERIC,
            tx_ctx_cnt: 1,
            rx_ctx_cnt: 1,
            ..EpAttr::default()
        },
        domain: domain(),
        fabric: FabricAttr {
            name: "kofi_loop".into(),
            prov_name: "kofi_loop".into(),
            prov_version: 1 << 16,
            api_version: 0,
        },
        ..Info::default()
    }
}

fn domain() -> DomainAttr {
    DomainAttr {
        name: "kofi_loop".into(),
        threading: Threading::Safe,
        control_progress: Progress::Auto,
        data_progress: Progress::Auto,
        resource_mgmt: ResourceMgmt::Enabled,
        av_type: AvType::Table,
        mr_key_size: 8,
        cq_data_size: 8,
        cq_cnt: 1024,
        ep_cnt: 1024,
        tx_ctx_cnt: 1,
        rx_ctx_cnt: 1,
        max_ep_tx_ctx: 1,
        max_ep_rx_ctx: 1,
        cntr_cnt: 1024,
        mr_iov_limit: IOV_LIMIT,
        caps: Caps::LOCAL_COMM,
        mr_cnt: 1 << 16,
        ..DomainAttr::default()
    }
}
