//! Fault injection at posts: a [`FaultPlan`] has the link refuse frames and lose connections.
//!
//! Only peers marked [`crate::peer::TxBlock::FAULTY`] come by here, so that others pay nothing for it. The link itself
//! carries the fault out ([`Link::inject_fault`]): the engine sees what it sees when the fault happens by chance.

use alloc::boxed::Box;

use oxifabric_types::PeerId;

use super::{Dice, FaultKinds, FaultPlan};
use crate::engine::Engine;
use crate::link::{InjectedFault, Link};
use crate::peer::{Peer, TxBlock};

/// Decides at each post whether a fault is injected.
#[derive(Debug)]
pub(crate) struct FaultInjector {
    plan: FaultPlan,
    dice: Dice,
}

impl FaultInjector {
    /// Returns whether the next frame of `row`, the peer's, may be posted. Otherwise the peer is blocked until the link
    /// takes frames for it again or reports that it is gone.
    #[cold]
    pub(crate) fn admits(
        injector: &mut Option<Box<Self>>,
        row: &mut Peer,
        link: &mut impl Link,
        peer: PeerId,
    ) -> bool {
        if row.tx_block.contains(TxBlock::BLOCKED) {
            return false;
        }
        let (Some(injector), Some(_)) = (injector, row.next()) else {
            return true;
        };
        let injected = injector
            .draw()
            .is_some_and(|how| link.inject_fault(peer, how));
        row.tx_block.set(TxBlock::BLOCKED, injected);
        !injected
    }

    fn draw(&mut self) -> Option<InjectedFault> {
        let FaultPlan {
            refuse,
            breaks,
            panics,
            ..
        } = self.plan;
        let chance = self.dice.share();
        if chance < breaks {
            Some(InjectedFault::Break)
        } else if chance < breaks + refuse {
            Some(InjectedFault::Refuse)
        } else if chance < breaks + refuse + panics {
            panic!("injected (FI_OXI_FAULTS)");
        } else {
            None
        }
    }
}

impl Engine {
    /// Injects the faults of a plan into posts, to peers given to [`Engine::include_in_faults`].
    pub fn plan_faults(&mut self, plan: &FaultPlan) {
        if plan.kinds().intersects(FaultKinds::POSTS) {
            let (plan, dice) = (*plan, Dice(plan.seed));
            self.fault_injector = Some(Box::new(FaultInjector { plan, dice }));
            self.peers.make_all_faulty();
        }
    }

    /// Makes posts to this peer subject to the fault plan, if there is one; called before the first.
    pub fn include_in_faults(&mut self, peer: PeerId) {
        if self.fault_injector.is_some() {
            self.peers.ensure_row(peer);
        }
    }
}
