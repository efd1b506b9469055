//! What any reliable endpoint over packets can do, wherever the packets travel. Set-up path; source: fi_getinfo(3).

use oxifabric_types::{
    Caps, DomainAttr, EpAttr, EpType, FabricAttr, Flags, Info, MrMode, Order, Progress,
    ResourceMgmt, RxAttr, Threading, TxAttr,
};

use crate::device::{RECEIVING, VECTORS};
use crate::{MAX_CONTEXTS, PROVIDER_VERSION};

/// Not the protocol of the C library's RxD (8): docs/protocol/reliable.md.
const PROTO_RELIABLE: u32 = 0x8000_0001;
const PROTO_VERSION: u32 = 1;
const TAG_GENERIC: u64 = 0xaaaa_aaaa_aaaa_aaaa;
/// Longest message that is copied at once.
const INJECT: usize = 4096;
const IOV_LIMIT: usize = oxifabric_mem::MAX_SEGMENTS;
/// How many operations may be outstanding.
const QUEUE_SIZE: usize = 1024;

/// Describes the endpoints of a provider, but for their addresses and names, which peers they reach, and how many of each
/// object are advisable.
pub fn info(provider: &str) -> Info {
    let transfers = Caps::MSG | Caps::TAGGED | Caps::RMA | Caps::ATOMIC | Caps::COLLECTIVE;
    let sends =
        Caps::SEND | Caps::READ | Caps::WRITE | Caps::FENCE | Caps::NAMED_RX_CTX | Caps::TRIGGER;
    let targets = Caps::REMOTE_READ | Caps::REMOTE_WRITE | Caps::RMA_EVENT;
    let receives = RECEIVING | targets | Caps::TRIGGER;
    // Frames are dealt with in their order; what a read brings is taken when its response leaves.
    let messages = Order::RAS | Order::WAS | Order::SAW | Order::SAS;
    let order = Order::RAR | Order::RAW | Order::ATOMIC_WAR | Order::WAW | messages;
    Info {
        caps: transfers | sends | receives | VECTORS,
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
        domain: DomainAttr {
            threading: Threading::Safe,
            control_progress: Progress::Auto,
            data_progress: Progress::Auto,
            resource_mgmt: ResourceMgmt::Enabled,
            mr_mode: MrMode::BASIC | MrMode::SCALABLE,
            mr_key_size: 8,
            cq_data_size: 8,
            max_ep_tx_ctx: MAX_CONTEXTS,
            max_ep_rx_ctx: MAX_CONTEXTS,
            max_ep_stx_ctx: 256,
            max_ep_srx_ctx: 256,
            mr_iov_limit: IOV_LIMIT,
            ..DomainAttr::default()
        },
        fabric: FabricAttr {
            prov_name: provider.into(),
            prov_version: PROVIDER_VERSION,
            ..FabricAttr::default()
        },
        ..Info::default()
    }
}
