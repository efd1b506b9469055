//! What the provider offers: what any reliable endpoint over packets can do, or what the adapters of the plan can. Set-up path; source:
//! fi_getinfo(3).

use oxifabric_engine::OneSided;
use oxifabric_provider::device::VECTORS;
use oxifabric_provider::packets;
use oxifabric_types::{Caps, DomainAttr, EpAttr, FabricAttr, Info, Order, RxAttr, TxAttr};

use crate::plan::{NicPlan, PacketOrder};
use crate::{NAME, params};

/// FI_ADDR_STR.
pub(crate) const ADDR_STR: u32 = 9;
/// Advisable number of objects of a kind.
const OBJECTS: usize = 1 << 16;
/// The protocol of the engine between adapters.
const PROTO_ADAPTERS: u32 = 0x8000_0002;

/// Describes the endpoints.
pub(crate) fn info() -> Info {
    let over_packets = over_packets();
    let nic = params::plan().ok().and_then(|plan| plan.nic.as_ref());
    match nic {
        None => over_packets,
        Some(nic) => over_adapters(nic, over_packets),
    }
}

fn over_packets() -> Info {
    let any = packets::info(NAME);
    Info {
        caps: any.caps | Caps::LOCAL_COMM,
        addr_format: ADDR_STR,
        domain: DomainAttr {
            name: NAME.into(),
            cq_cnt: OBJECTS,
            ep_cnt: OBJECTS,
            tx_ctx_cnt: OBJECTS,
            rx_ctx_cnt: OBJECTS,
            cntr_cnt: OBJECTS,
            caps: Caps::LOCAL_COMM | VECTORS,
            ..any.domain
        },
        fabric: FabricAttr {
            name: NAME.into(),
            ..any.fabric
        },
        ..any
    }
}

/// Takes away what adapters do not keep to.
fn over_adapters(nic: &NicPlan, any: Info) -> Info {
    let order = order(nic);
    let keeps = |what: Order, size: usize| match order.contains(what) {
        true => size,
        false => 0,
    };
    let events = match nic.one_sided().is_empty() {
        true => Caps::empty(),
        // No software of the target is told of an access that an adapter carries out.
        false => Caps::RMA_EVENT,
    };
    Info {
        caps: any.caps - events,
        tx: TxAttr {
            msg_order: any.tx.msg_order & order,
            ..any.tx
        },
        rx: RxAttr {
            caps: any.rx.caps - events,
            msg_order: any.rx.msg_order & order,
            ..any.rx
        },
        ep: EpAttr {
            protocol: PROTO_ADAPTERS,
            max_order_raw_size: keeps(Order::RAW, any.ep.max_order_raw_size),
            max_order_war_size: keeps(Order::ATOMIC_WAR, any.ep.max_order_war_size),
            max_order_waw_size: keeps(Order::WAW, any.ep.max_order_waw_size),
            ..any.ep
        },
        ..any
    }
}

/// Returns the order that the endpoints keep. Messages keep theirs on any wire, since the link restores it.
fn order(nic: &NicPlan) -> Order {
    let accesses = Order::RAR | Order::RAW | Order::ATOMIC_WAR | Order::WAW;
    match (nic.order, nic.one_sided()) {
        (PacketOrder::Ordered, none) if none.is_empty() => Order::all(),
        // Accesses are carried out when they arrive, messages when the endpoint is polled.
        (PacketOrder::Ordered, all) if all == OneSided::all() => accesses | Order::SAW | Order::SAS,
        _ => Order::SAS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::AccessPlan;

    fn offered(order: PacketOrder, one_sided: &[AccessPlan]) -> Info {
        let nic = NicPlan {
            order,
            one_sided: one_sided.to_vec(),
        };
        over_adapters(&nic, over_packets())
    }

    #[test]
    fn only_the_order_that_adapters_keep_is_offered() {
        use AccessPlan::{Atomic, Read, Write};
        let usual = over_packets();
        let strict = offered(PacketOrder::Ordered, &[]);
        assert_eq!(strict.tx.msg_order, usual.tx.msg_order);
        assert_eq!(strict.ep.max_order_waw_size, usize::MAX);
        let rdma = offered(PacketOrder::Ordered, &[Read, Write, Atomic]);
        assert!(rdma.tx.msg_order.contains(Order::WAW | Order::SAW));
        assert!(!rdma.tx.msg_order.intersects(Order::WAS | Order::RAS));
        for loose in [
            offered(PacketOrder::Unordered, &[]),
            offered(PacketOrder::Unordered, &[Read, Write, Atomic]),
            offered(PacketOrder::Ordered, &[Read]),
        ] {
            assert_eq!(
                (loose.tx.msg_order, loose.rx.msg_order),
                (Order::SAS, Order::SAS)
            );
            let sizes = [
                loose.ep.max_order_raw_size,
                loose.ep.max_order_war_size,
                loose.ep.max_order_waw_size,
            ];
            assert_eq!(sizes, [0; 3]);
        }
    }

    #[test]
    fn events_of_accesses_are_offered_where_software_sees_them() {
        let seen = offered(PacketOrder::Unordered, &[]);
        assert!(seen.caps.contains(Caps::RMA_EVENT) && seen.rx.caps.contains(Caps::RMA_EVENT));
        let unseen = offered(PacketOrder::Ordered, &[AccessPlan::Write]);
        assert!(
            !unseen.caps.intersects(Caps::RMA_EVENT) && !unseen.rx.caps.intersects(Caps::RMA_EVENT)
        );
    }
}
