//! What the provider offers: what any reliable endpoint over packets can do. Set-up path; source: fi_getinfo(3).

use oxifabric_core::device::{RECEIVING, VECTORS};
use oxifabric_core::provider::PROVIDER_VERSION;
use oxifabric_types::{
    Caps, DomainAttr, EpAttr, EpType, FabricAttr, Flags, Info, MrMode, Order, Progress,
    ResourceMgmt, RxAttr, Threading, TxAttr,
};

use crate::NAME;

/// FI_ADDR_STR.
pub(crate) const ADDR_STR: u32 = 9;
/// docs/protocol/reliable.md, as over UDP.
const PROTO_RELIABLE: u32 = 0x8000_0001;
const PROTO_VERSION: u32 = 1;
const TAG_GENERIC: u64 = 0xaaaa_aaaa_aaaa_aaaa;
/// Longest message that is copied at once.
const INJECT: usize = 4096;
const IOV_LIMIT: usize = oxifabric_mem::MAX_SEGMENTS;
/// How many operations may be outstanding.
const QUEUE_SIZE: usize = 1024;
/// How many objects of a kind are advisable.
const OBJECTS: usize = 1 << 16;

/// Describes the endpoints.
pub(crate) fn offer() -> Info {
    let transfers = Caps::MSG | Caps::TAGGED | Caps::RMA | Caps::ATOMIC | Caps::COLLECTIVE;
    let sends =
        Caps::SEND | Caps::READ | Caps::WRITE | Caps::FENCE | Caps::NAMED_RX_CTX | Caps::TRIGGER;
    let targets = Caps::REMOTE_READ | Caps::REMOTE_WRITE | Caps::RMA_EVENT;
    let receives = RECEIVING | targets | Caps::TRIGGER;
    let messages = Order::RAS | Order::WAS | Order::SAW | Order::SAS;
    let order = Order::RAR | Order::RAW | Order::ATOMIC_WAR | Order::WAW | messages;
    Info {
        caps: transfers | sends | receives | Caps::LOCAL_COMM | VECTORS,
        addr_format: ADDR_STR,
        tx: TxAttr {
            caps: transfers | sends,
            op_flags: Flags::INJECT
                | Flags::INJECT_COMPLETE
                | Flags::TRANSMIT_COMPLETE
                | Flags::DELIVERY_COMPLETE
                | Flags::MATCH_COMPLETE
                | Flags::COMPLETION,
            msg_order: order,
            inject_size: INJECT,
            size: QUEUE_SIZE,
            iov_limit: IOV_LIMIT,
            rma_iov_limit: IOV_LIMIT,
            ..TxAttr::default()
        },
        rx: RxAttr {
            caps: transfers | receives,
            op_flags: Flags::COMPLETION | Flags::MULTI_RECV,
            msg_order: order,
            size: QUEUE_SIZE,
            iov_limit: IOV_LIMIT,
            ..RxAttr::default()
        },
        ep: EpAttr {
            kind: EpType::Rdm,
            protocol: PROTO_RELIABLE,
            protocol_version: PROTO_VERSION,
            max_msg_size: usize::MAX,
            max_order_raw_size: usize::MAX,
            max_order_war_size: oxifabric_engine::MAX_ATOMIC_BYTES,
            max_order_waw_size: usize::MAX,
            mem_tag_format: TAG_GENERIC,
            tx_ctx_cnt: 1,
            rx_ctx_cnt: 1,
            ..EpAttr::default()
        },
        domain: domain(),
        fabric: FabricAttr {
            name: NAME.into(),
            prov_name: NAME.into(),
            prov_version: PROVIDER_VERSION,
            api_version: 0,
        },
        ..Info::default()
    }
}

fn domain() -> DomainAttr {
    DomainAttr {
        name: NAME.into(),
        threading: Threading::Safe,
        control_progress: Progress::Auto,
        data_progress: Progress::Auto,
        resource_mgmt: ResourceMgmt::Enabled,
        mr_mode: MrMode::BASIC | MrMode::SCALABLE,
        mr_key_size: 8,
        cq_data_size: 8,
        cq_cnt: OBJECTS,
        ep_cnt: OBJECTS,
        tx_ctx_cnt: OBJECTS,
        rx_ctx_cnt: OBJECTS,
        max_ep_tx_ctx: oxifabric_core::MAX_CONTEXTS,
        max_ep_rx_ctx: oxifabric_core::MAX_CONTEXTS,
        max_ep_stx_ctx: 256,
        max_ep_srx_ctx: 256,
        cntr_cnt: OBJECTS,
        mr_iov_limit: IOV_LIMIT,
        caps: Caps::LOCAL_COMM | VECTORS,
        ..DomainAttr::default()
    }
}
