//! Links of simulated adapters: frames arrive once, in order or in any order, and accesses are carried out where they arrive.

use std::sync::Arc;

use oxifabric_mem::{Iov, MemoryKind};
use oxifabric_provider::domain::{ProviderDomain, RegistrationRequest};
use oxifabric_sim::plan::{AccessPlan, Cut, LinkPlan, NicPlan, PacketOrder, PeerTimeout};
use oxifabric_sim::{Plan, SimDomain, SimNic, World as Network};
use oxifabric_types::{Address, Flags, PeerId};

use crate::packets::TIMEOUT;

/// What the adapters do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nics {
    pub(crate) order: PacketOrder,
    pub(crate) one_sided: &'static [AccessPlan],
    /// The first endpoint is cut off early on, for this time in milliseconds.
    pub(crate) cut_ms: Option<f64>,
}

/// All kinds of accesses.
pub(crate) const ALL: &[AccessPlan] = &[AccessPlan::Read, AccessPlan::Write, AccessPlan::Atomic];

impl Nics {
    pub(crate) fn network(&self, seed: u64) -> Arc<Network> {
        let cut = |ms| Cut {
            nodes: vec![0],
            from_ms: 0.2 + (seed % 16) as f64 * 0.1,
            for_ms: Some(ms),
            every_ms: None,
        };
        let plan = Plan {
            seed,
            peer_timeout_ms: PeerTimeout(TIMEOUT.as_millis() as u64),
            nic: Some(NicPlan {
                order: self.order,
                one_sided: self.one_sided.to_vec(),
            }),
            link: LinkPlan::default(),
            cut: self.cut_ms.map(cut).into_iter().collect(),
            ..Plan::default()
        };
        assert_eq!(plan.check(), Ok(()));
        Arc::new(Network::new(plan))
    }

    /// Returns the domain of all endpoints.
    pub(crate) fn domain(&self) -> Arc<SimDomain> {
        Arc::new(SimDomain::with_memory(false))
    }

    /// Peers are given up that are cut off for so long.
    pub(crate) fn loses_peers(&self) -> bool {
        self.cut_ms
            .is_some_and(|ms| ms >= TIMEOUT.as_millis() as f64)
    }
}

/// Gives memory a key.
pub(crate) fn register(domain: &SimDomain, memory: &Iov, key: u64) {
    let request = RegistrationRequest {
        pieces: memory.segments(),
        access: Flags::REMOTE_READ | Flags::REMOTE_WRITE,
        kind: MemoryKind::Host,
        device: 0,
        key: Some(key),
    };
    let registered = domain.register(&request);
    assert!(registered.is_ok_and(|registered| registered.key.is_none()));
}

/// An adapter that remembers which peers it lost.
pub(crate) struct NicLink {
    pub(crate) nic: SimNic,
    pub(crate) lost: Vec<usize>,
}

impl NicLink {
    /// Opens one; its peers have the numbers of the endpoints.
    pub(crate) fn open(
        me: usize,
        nodes: usize,
        network: &Arc<Network>,
        domain: &SimDomain,
    ) -> Self {
        let name = |node: usize| format!("fi_sim://{node}");
        let nic = SimNic::settle(network, &name(me), domain, TIMEOUT);
        let mut nic = nic.expect("the node is free");
        for node in 0..nodes {
            let peer = nic.number(&Address::Name(name(node).into()));
            assert_eq!(peer, Ok(PeerId(node as u32)));
        }
        nic.open();
        Self {
            nic,
            lost: Vec::new(),
        }
    }
}
