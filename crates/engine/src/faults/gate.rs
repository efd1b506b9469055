//! Posts that a link refuses, and connections that it loses, because a plan says so.
//!
//! Only peers that are watched come by here ([`crate::peer::Hurdles::WATCHED`]), so that others pay nothing for it. The link itself
//! provokes what is due ([`Link::disturb`]): what the engine sees is what it sees when that happens by chance.

use alloc::boxed::Box;

use oxifabric_types::PeerId;

use super::{Dice, FaultKinds, FaultPlan};
use crate::engine::Engine;
use crate::link::{Disturbance, Link};
use crate::peer::{Hurdles, Peer};

/// Decides whether a frame gets to the link.
#[derive(Debug)]
pub(crate) struct Gate {
    plan: FaultPlan,
    dice: Dice,
}

impl Gate {
    /// Tells whether a frame for a peer, of which this is the row, may be posted. Otherwise the peer is blocked, until the link
    /// takes frames for it again or says that it is gone.
    #[cold]
    pub(crate) fn opens(
        gate: &mut Option<Box<Self>>,
        row: &mut Peer,
        link: &mut impl Link,
        peer: PeerId,
    ) -> bool {
        if row.hurdles.contains(Hurdles::BLOCKED) {
            return false;
        }
        let (Some(gate), Some(_)) = (gate, row.next()) else {
            return true;
        };
        let struck = gate.strike().is_some_and(|how| link.disturb(peer, how));
        row.hurdles.set(Hurdles::BLOCKED, struck);
        !struck
    }

    fn strike(&mut self) -> Option<Disturbance> {
        let FaultPlan {
            refuse,
            breaks,
            panics,
            ..
        } = self.plan;
        let chance = self.dice.share();
        if chance < breaks {
            Some(Disturbance::Break)
        } else if chance < breaks + refuse {
            Some(Disturbance::Refuse)
        } else if chance < breaks + refuse + panics {
            panic!("on purpose (FI_OXI_FAULTS)");
        } else {
            None
        }
    }
}

impl Engine {
    /// Lets posts fare as a plan says. Peers that are posted to have to be met before ([`Engine::watch`]).
    pub fn plan_faults(&mut self, plan: &FaultPlan) {
        if plan.kinds().intersects(FaultKinds::POSTS) {
            let (plan, dice) = (*plan, Dice(plan.seed));
            self.gate = Some(Box::new(Gate { plan, dice }));
            self.peers.watch_all();
        }
    }

    /// The driver will post to this peer.
    pub fn watch(&mut self, peer: PeerId) {
        if self.gate.is_some() {
            self.peers.meet(peer);
        }
    }
}
