//! What the provider has to offer: for each device reliable datagrams as they are, those with the protocol above them, and datagrams
//! that may be lost. Set-up path; source: fi_efa(7).

use oxifabric_engine::MAX_ATOMIC_BYTES;
use oxifabric_ibv::EfaCaps;
use oxifabric_provider::PROVIDER_VERSION;
use oxifabric_provider::device::{RECEIVING, VECTORS};
use oxifabric_types::{
    Address, AvType, Caps, DomainAttr, EpAttr, EpType, FabricAttr, Flags, Info, MrMode, Order,
    Progress, ResourceMgmt, RxAttr, Threading, TxAttr,
};
use oxifabric_wire::efa::HEADER_MAX;

use crate::hardware::Hardware;
use crate::params::Params;

/// The format of addresses, the protocol, and mode bits, with the C headers' values.
const ADDR_EFA: u32 = 12;
const PROTO_EFA: u32 = 20;
pub(crate) const MSG_PREFIX: u64 = 1 << 58;
pub(crate) const RX_CQ_DATA: u64 = 1 << 56;

/// The fabric of reliable datagrams, and that of the others.
const DIRECT: &str = "efa-direct";
const FABRIC: &str = "efa";

/// How many bytes of routing header the device writes in front of a datagram.
const ROUTING_HEADER: usize = 40;
/// Bytes of keys, and of completion data.
const KEY: usize = 4;
const DATA: usize = 4;
/// Bytes of completion data of endpoints with an engine, and of what they inject; the version of their protocol, and the format of tags.
const DATA_WITH_ENGINE: usize = 8;
const INJECT: usize = 4096;
const VERSION: u32 = 4;
const TAG_GENERIC: u64 = 0xaaaa_aaaa_aaaa_aaaa;
/// How many contexts a domain is said to have at most.
const CONTEXTS: usize = 1024;

const REMOTE: Caps = Caps::REMOTE_READ.union(Caps::REMOTE_WRITE);
const RMA: Caps = Caps::RMA.union(Caps::READ).union(Caps::WRITE);

/// Describes the endpoints of every device that may be used, the reliable ones first.
pub(crate) fn infos(found: &[Hardware], params: &Params) -> Vec<Info> {
    let usable = || found.iter().filter(|at| params.admits_device(at));
    let direct = usable().flat_map(|at| direct(at, params));
    direct
        .chain(usable().map(|at| with_engine(at, params)))
        .chain(usable().map(|at| datagrams(at, params)))
        .collect()
}

/// Returns whether endpoints with this description have an engine: reliable ones of any fabric but that of the device's own messages.
pub(crate) fn has_engine(info: &Info) -> bool {
    info.fabric.name != DIRECT && !info.domain.name.ends_with("-dgrm")
}

/// Describes endpoints with an engine. Their packets are put together in memory of the endpoint, so that memory of operations needs no
/// registration.
fn with_engine(at: &Hardware, params: &Params) -> Info {
    let mut transfers = Caps::MSG | Caps::TAGGED | Caps::RMA;
    let mut order = Order::SAS;
    let mut info = reliable(at, params);
    // An atomic is one packet. It has a number, as a message has, and is taken in its order.
    if at.mtu >= HEADER_MAX + MAX_ATOMIC_BYTES {
        transfers |= Caps::ATOMIC;
        order |= Order::ATOMICS;
        info.ep.max_order_raw_size = MAX_ATOMIC_BYTES;
        info.ep.max_order_war_size = MAX_ATOMIC_BYTES;
        info.ep.max_order_waw_size = MAX_ATOMIC_BYTES;
    }
    info.fabric.name = FABRIC.to_owned();
    info.tx.caps |= transfers | RMA | Caps::FENCE | Caps::TRIGGER;
    info.rx.caps |= transfers | RECEIVING | REMOTE | Caps::RMA_EVENT | Caps::TRIGGER;
    info.caps |= info.tx.caps | info.rx.caps | VECTORS;
    info.ep.protocol_version = VERSION;
    info.ep.max_msg_size = usize::MAX;
    info.ep.mem_tag_format = TAG_GENERIC;
    info.tx.op_flags |= Flags::MATCH_COMPLETE;
    info.tx.msg_order = order;
    info.rx.msg_order = order;
    info.tx.inject_size = INJECT;
    info.tx.iov_limit = oxifabric_mem::MAX_SEGMENTS;
    info.rx.iov_limit = oxifabric_mem::MAX_SEGMENTS;
    info.tx.rma_iov_limit = oxifabric_mem::MAX_SEGMENTS;
    info.rx.op_flags |= Flags::MULTI_RECV;
    info.domain.mr_mode.remove(MrMode::LOCAL);
    info.domain.control_progress = Progress::Manual;
    info.domain.data_progress = Progress::Manual;
    info.domain.cq_data_size = DATA_WITH_ENGINE;
    info
}

/// Adjusts what an application gets: without an engine messages are short, only accesses are long. With one, an application is told of the accesses
/// of peers only if it asks for that: no device tells of them, so they would go by messages. It may take it upon itself that peers have room for its messages, and that
/// writes of peers with data find receives, which they then use up.
pub(crate) fn settle(info: &mut Info, asked: Option<&Info>) {
    if let Some(hints) = asked
        && hints.domain.resource_mgmt == ResourceMgmt::Disabled
    {
        info.domain.resource_mgmt = ResourceMgmt::Disabled;
    }
    let reports = asked.is_some_and(|hints| (hints.caps | hints.rx.caps).contains(Caps::RMA_EVENT));
    if has_engine(info) && !reports {
        info.caps.remove(Caps::RMA_EVENT);
        info.rx.caps.remove(Caps::RMA_EVENT);
    }
    if let Some(hints) = asked
        && hints.mode & RX_CQ_DATA != 0
        && !has_engine(info)
        && info.caps.contains(Caps::RMA)
    {
        for mode in [&mut info.mode, &mut info.rx.mode] {
            *mode |= RX_CQ_DATA;
        }
    }
    if let Some(nic) = &info.nic
        && !has_engine(info)
        && !info.caps.contains(Caps::RMA)
    {
        info.ep.max_msg_size = info.ep.max_msg_size.min(nic.link.mtu);
    }
}

/// Describes reliable datagrams. Where a peer's write with data uses up a receive, applications with accesses have to agree to that,
/// and the others get an offer without.
fn direct(at: &Hardware, params: &Params) -> Vec<Info> {
    let plain = reliable(at, params);
    if !at.has_rma() {
        return vec![plain];
    }
    let mut accesses = plain.clone();
    accesses.caps |= RMA | REMOTE;
    accesses.tx.caps |= RMA;
    accesses.rx.caps |= Caps::RMA | REMOTE;
    accesses.ep.max_msg_size = at.mtu.max(at.efa.max_rdma_len as usize);
    if at.can(EfaCaps::UNSOLICITED_WRITE_RECV) && params.unsolicited {
        return vec![accesses];
    }
    for mode in [&mut accesses.mode, &mut accesses.rx.mode] {
        *mode |= RX_CQ_DATA;
    }
    vec![accesses, plain]
}

fn reliable(at: &Hardware, params: &Params) -> Info {
    let mut info = any(at, params, EpType::Rdm, DIRECT);
    info.domain.name = format!("{}-rdm", at.nic.name);
    info.domain.av_type = AvType::Table;
    info.domain.resource_mgmt = ResourceMgmt::Enabled;
    info.tx.rma_iov_limit = 1;
    info.tx.op_flags |= Flags::DELIVERY_COMPLETE;
    info
}

fn datagrams(at: &Hardware, params: &Params) -> Info {
    let mut info = any(at, params, EpType::Dgram, FABRIC);
    info.domain.name = format!("{}-dgrm", at.nic.name);
    info.ep.msg_prefix_size = ROUTING_HEADER;
    for mode in [&mut info.mode, &mut info.tx.mode, &mut info.rx.mode] {
        *mode |= MSG_PREFIX;
    }
    info
}

/// What applications have to obey whose memory peers reach; FI_MR_BASIC is the old name of these three (fi_mr(3)).
const TARGETS: MrMode = MrMode::VIRT_ADDR
    .union(MrMode::ALLOCATED)
    .union(MrMode::PROV_KEY);

/// Describes what both kinds have in common.
fn any(at: &Hardware, params: &Params, kind: EpType, fabric: &str) -> Info {
    let sends = Caps::MSG | Caps::SEND;
    let receives = Caps::MSG | Caps::RECV | Caps::SOURCE;
    Info {
        caps: sends | receives | Caps::LOCAL_COMM | Caps::REMOTE_COMM,
        addr_format: ADDR_EFA,
        src: Some(Address::Efa(at.place())),
        tx: tx(at, params, sends),
        rx: rx(at, params, receives),
        ep: EpAttr {
            kind,
            protocol: PROTO_EFA,
            protocol_version: 1,
            max_msg_size: at.mtu,
            tx_ctx_cnt: 1,
            rx_ctx_cnt: 1,
            ..EpAttr::default()
        },
        domain: domain(at),
        fabric: FabricAttr {
            name: fabric.to_owned(),
            prov_name: "efa".to_owned(),
            prov_version: PROVIDER_VERSION,
            api_version: 0,
        },
        nic: Some(Box::new(at.nic.clone())),
        ..Info::default()
    }
}

fn tx(at: &Hardware, params: &Params, caps: Caps) -> TxAttr {
    let most = floor_to_power(at.efa.max_sq_wr as usize);
    TxAttr {
        caps,
        op_flags: Flags::INJECT
            | Flags::COMPLETION
            | Flags::INJECT_COMPLETE
            | Flags::TRANSMIT_COMPLETE,
        inject_size: at.efa.inline_len.into(),
        size: params.tx_size.unwrap_or(most).min(most),
        iov_limit: at.efa.max_sq_sge.into(),
        ..TxAttr::default()
    }
}

fn rx(at: &Hardware, params: &Params, caps: Caps) -> RxAttr {
    let pieces = usize::from(at.efa.max_rq_sge).clamp(1, oxifabric_mem::MAX_SEGMENTS);
    let most = floor_to_power(at.efa.max_rq_wr as usize / pieces);
    RxAttr {
        caps,
        op_flags: Flags::COMPLETION,
        size: params.rx_size.unwrap_or(most).min(most),
        iov_limit: pieces,
        ..RxAttr::default()
    }
}

fn domain(at: &Hardware) -> DomainAttr {
    let attributes = &at.attributes;
    DomainAttr {
        threading: Threading::Safe,
        control_progress: Progress::Auto,
        data_progress: Progress::Auto,
        resource_mgmt: ResourceMgmt::Disabled,
        mr_mode: MrMode::LOCAL | TARGETS | MrMode::BASIC,
        mr_key_size: KEY,
        cq_data_size: DATA,
        cq_cnt: attributes.max_cq,
        ep_cnt: attributes.max_qp,
        tx_ctx_cnt: attributes.max_qp.min(CONTEXTS),
        rx_ctx_cnt: attributes.max_qp.min(CONTEXTS),
        max_ep_tx_ctx: 1,
        max_ep_rx_ctx: 1,
        mr_iov_limit: 1,
        mr_cnt: attributes.max_mr,
        caps: Caps::LOCAL_COMM | Caps::REMOTE_COMM,
        ..DomainAttr::default()
    }
}

/// Returns the largest power of two that is no larger; zero of zero.
fn floor_to_power(number: usize) -> usize {
    match number.checked_ilog2() {
        Some(bits) => 1 << bits,
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_with_data_use_up_receives_of_an_application_that_offers_it() {
        let offer = |fabric: &str, caps| {
            let mut info = Info::default();
            info.ep.kind = EpType::Rdm;
            info.fabric.name = fabric.to_owned();
            info.caps = caps;
            info
        };
        let mode = |mut info: Info, mode| {
            let hints = Info {
                mode,
                ..Info::default()
            };
            settle(&mut info, Some(&hints));
            assert_eq!(info.mode, info.rx.mode);
            info.mode
        };
        let accesses = || offer(DIRECT, Caps::MSG | Caps::RMA);
        assert_eq!(mode(accesses(), RX_CQ_DATA), RX_CQ_DATA);
        assert_eq!(mode(accesses(), 0), 0);
        assert_eq!(mode(offer(DIRECT, Caps::MSG), RX_CQ_DATA), 0);
        // The engine has receives of its own.
        assert_eq!(mode(offer(FABRIC, Caps::MSG | Caps::RMA), RX_CQ_DATA), 0);
    }

    #[test]
    fn sizes_are_powers_of_two() {
        assert_eq!(
            [0, 1, 5, 4096, 8191].map(floor_to_power),
            [0, 1, 4, 4096, 4096]
        );
    }
}
