//! What the provider has to offer (fi_info), and how its addresses are written, fi_shm(7).

use std::process;

use oxifabric_engine::MAX_ATOMIC_BYTES;
use oxifabric_provider::PROVIDER_VERSION;
use oxifabric_provider::device::{Provider, RECEIVING, Unresolved, VECTORS};
use oxifabric_provider::params::Parameter;
use oxifabric_types::{
    Address, AvType, Caps, DomainAttr, EpAttr, EpType, Errno, FabricAttr, Flags, Info, MrMode,
    Order, Progress, ResourceMgmt, RxAttr, Threading, TxAttr,
};

use crate::link::ShmLink;
use crate::params::{INJECT_SIZE, Params};
use crate::{NAME, params};

/// FI_ADDR_STR.
const ADDR_STR: u32 = 9;
/// FI_PROTO_SHM.
const PROTO_SHM: u32 = 16;
/// FI_TAG_GENERIC: every bit of a tag is the application's.
const TAG_GENERIC: u64 = 0xaaaa_aaaa_aaaa_aaaa;
/// Prefix of names to which something is appended, so that they are unique.
pub(crate) const COMMON_PREFIX: &str = "fi_shm://";

/// The shm provider.
#[derive(Debug)]
pub struct Shm;

impl Provider for Shm {
    const NAME: &'static str = NAME;
    const IS_SHARED_MEMORY: bool = true;
    type Device = ShmLink;

    fn parameters() -> &'static [Parameter] {
        params::TABLE
    }

    fn infos() -> Vec<Info> {
        vec![info(Params::of_environment())]
    }

    fn resolve(
        node: Option<&str>,
        service: Option<&str>,
        _source: bool,
        _numeric: bool,
        addr_format: u32,
    ) -> Result<Vec<Address>, Unresolved> {
        if addr_format != 0 && addr_format != ADDR_STR {
            return Err(Unresolved {
                errno: Errno::NODATA,
                why: "shm has addresses of the format FI_ADDR_STR only".into(),
            });
        }
        Ok(vec![resolve(node, service)])
    }

    fn fresh_name() -> Option<Address> {
        Some(resolve(None, None))
    }
}

/// Returns the address of a node and a service. Source: fi_shm(7) "Address Format".
fn resolve(node: Option<&str>, service: Option<&str>) -> Address {
    let name = match (node, service) {
        (Some(node), _) if node.contains("://") => node.to_owned(),
        (Some(node), Some(service)) => format!("fi_ns://{node}:{service}"),
        (None, Some(service)) => format!("fi_ns://{service}"),
        (Some(node), None) => format!("{COMMON_PREFIX}{node}"),
        (None, None) => format!("{COMMON_PREFIX}{}", process::id()),
    };
    Address::Name(name.into())
}

fn info(params: &Params) -> Info {
    let transfers = Caps::MSG | Caps::TAGGED | Caps::RMA | Caps::ATOMIC | Caps::COLLECTIVE;
    let sends = Caps::NAMED_RX_CTX | Caps::SEND | Caps::FENCE | Caps::TRIGGER;
    let tx_caps = transfers | sends | Caps::READ | Caps::WRITE;
    let targets = Caps::REMOTE_READ | Caps::REMOTE_WRITE | Caps::RMA_EVENT;
    let rx_caps = transfers | RECEIVING | Caps::TRIGGER | targets;
    let domain_caps = Caps::LOCAL_COMM | VECTORS;
    Info {
        caps: tx_caps | rx_caps | domain_caps,
        mode: 0,
        nic: None,
        addr_format: ADDR_STR,
        src: None,
        dest: None,
        tx: TxAttr {
            caps: tx_caps,
            op_flags: Flags::INJECT
                | Flags::INJECT_COMPLETE
                | Flags::TRANSMIT_COMPLETE
                | Flags::DELIVERY_COMPLETE
                | Flags::MATCH_COMPLETE
                | Flags::COMPLETION,
            msg_order: order(),
            inject_size: INJECT_SIZE,
            size: params.tx_size,
            iov_limit: 4,
            rma_iov_limit: 4,
            ..TxAttr::default()
        },
        rx: RxAttr {
            caps: rx_caps,
            op_flags: Flags::COMPLETION | Flags::MULTI_RECV,
            msg_order: order(),
            size: params.rx_size,
            iov_limit: 4,
            ..RxAttr::default()
        },
        ep: EpAttr {
            kind: EpType::Rdm,
            protocol: PROTO_SHM,
            protocol_version: 1,
            max_msg_size: usize::MAX,
            // Of atomics, which are the accesses that have an order.
            max_order_raw_size: MAX_ATOMIC_BYTES,
            max_order_war_size: MAX_ATOMIC_BYTES,
            max_order_waw_size: MAX_ATOMIC_BYTES,
            mem_tag_format: TAG_GENERIC,
            tx_ctx_cnt: 1,
            rx_ctx_cnt: 1,
            ..EpAttr::default()
        },
        domain: domain(domain_caps),
        fabric: FabricAttr {
            name: NAME.into(),
            prov_name: NAME.into(),
            prov_version: PROVIDER_VERSION,
            api_version: 0,
        },
    }
}

/// Returns the order of operations. Long accesses are carried out by their initiator, or pulled by their target or initiator, and what comes
/// later may overtake them. So what is ordered is what comes behind messages, and atomics, which are carried out in their order. What comes
/// behind an access needs FI_FENCE.
fn order() -> Order {
    Order::SAS | Order::WAS | Order::RAS | Order::ATOMICS
}

fn domain(caps: Caps) -> DomainAttr {
    DomainAttr {
        name: NAME.into(),
        threading: Threading::Safe,
        control_progress: Progress::Auto,
        data_progress: Progress::Auto,
        resource_mgmt: ResourceMgmt::Enabled,
        av_type: AvType::Unspec,
        mr_mode: MrMode::BASIC | MrMode::SCALABLE,
        mr_key_size: 8,
        cq_data_size: 8,
        cq_cnt: 1024,
        ep_cnt: 1024,
        tx_ctx_cnt: 1024,
        rx_ctx_cnt: 1024,
        max_ep_tx_ctx: oxifabric_provider::MAX_CONTEXTS,
        max_ep_rx_ctx: oxifabric_provider::MAX_CONTEXTS,
        max_ep_stx_ctx: 1024,
        max_ep_srx_ctx: 1024,
        cntr_cnt: 1024,
        mr_iov_limit: 4,
        caps,
        ..DomainAttr::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(node: Option<&str>, service: Option<&str>) -> String {
        resolve(node, service).to_string()
    }

    #[test]
    fn addresses_are_written_as_the_man_page_says() {
        assert_eq!(name(Some("a://b"), Some("c")), "a://b");
        assert_eq!(name(Some("host"), Some("7")), "fi_ns://host:7");
        assert_eq!(name(None, Some("7")), "fi_ns://7");
        assert_eq!(name(Some("host"), None), "fi_shm://host");
        assert_eq!(name(None, None), format!("fi_shm://{}", process::id()));
    }

    #[test]
    fn other_formats_of_addresses_are_refused_with_a_reason() {
        let refused = Shm::resolve(Some("host"), None, false, false, 2);
        assert!(refused.is_err_and(|refused| refused.why.contains("FI_ADDR_STR")));
    }

    #[test]
    fn what_is_offered_fits_what_a_lane_takes() {
        let info = &Shm::infos()[0];
        let lane = crate::params::MIN_LAYOUT;
        assert!(info.tx.inject_size <= crate::conn::longest_eager(lane));
        assert_eq!(params::TABLE.len(), Shm::parameters().len());
    }

    #[test]
    fn what_comes_behind_messages_is_ordered_and_what_comes_behind_accesses_is_not() {
        let info = &Shm::infos()[0];
        for order in [info.tx.msg_order, info.rx.msg_order] {
            assert!(order.contains(Order::SAS | Order::WAS | Order::RAS));
            assert!(!order.intersects(Order::RMA_WAW | Order::RMA_RAW | Order::SAW));
        }
    }
}
