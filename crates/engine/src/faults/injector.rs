//! Fault injection at posts: a [`FaultPlan`] has frames wait for a later poll, and connections end.
//!
//! Only peers marked [`TxBlock::FAULTY`] come by here, so that others pay nothing for it. No link has a part in it but for
//! [`Link::disconnect`] (docs/adr/0045).

use alloc::boxed::Box;
use alloc::vec::Vec;

use oxifabric_types::PeerId;

use super::{Dice, FaultKinds, FaultPlan};
use crate::Completions;
use crate::engine::Engine;
use crate::link::Link;
use crate::peer::{Peer, TxBlock};

/// The cause of a broken connection, in error messages.
const BROKEN: &str = "broken by an injected fault (FI_OXI_FAULTS)";

/// Decides at each post whether a fault is injected.
#[derive(Debug)]
pub(crate) struct FaultInjector {
    plan: FaultPlan,
    dice: Dice,
    /// Peers of which a frame was refused.
    refused: Vec<PeerId>,
    /// How many of these were there at the last poll.
    refused_before: usize,
}

/// Faults that can be injected at a post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InjectedFault {
    /// The frame is not posted before a later poll, as if the link were full.
    Refuse,
    /// The connection with the peer ends.
    Break,
}

impl FaultInjector {
    /// Returns whether the next frame of `row`, the peer's, may be posted. Otherwise it waits until the link takes frames for the
    /// peer again or reports that it is gone, or for [`Engine::retry_refused`].
    #[cold]
    pub(crate) fn admits(
        injector: &mut Option<Box<Self>>,
        row: &mut Peer,
        link: &mut impl Link,
        out: &mut impl Completions,
        peer: PeerId,
    ) -> bool {
        if row.tx_block.intersects(TxBlock::WAITS) {
            return false;
        }
        let (Some(injector), Some(_)) = (injector, row.next()) else {
            return true;
        };
        match injector.draw() {
            Some(InjectedFault::Refuse) => {
                row.tx_block.insert(TxBlock::REFUSED);
                injector.refused.push(peer);
                out.post_refused();
                false
            }
            Some(InjectedFault::Break) if link.disconnect(peer, BROKEN) => {
                row.tx_block.insert(TxBlock::BLOCKED);
                false
            }
            Some(InjectedFault::Break) | None => true,
        }
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
            self.fault_injector = Some(Box::new(FaultInjector {
                plan,
                dice,
                refused: Vec::new(),
                refused_before: 0,
            }));
            self.peers.make_all_faulty();
        }
    }

    /// Makes posts to this peer subject to the fault plan, if there is one; called before the first.
    pub fn include_in_faults(&mut self, peer: PeerId) {
        if self.fault_injector.is_some() {
            self.peers.ensure_row(peer);
        }
    }

    /// Posts what was refused before the last poll; returns how many peers that was, and how many wait for the next poll.
    #[cold]
    pub(crate) fn retry_refused(
        &mut self,
        link: &mut impl Link,
        out: &mut impl Completions,
    ) -> usize {
        let Some(injector) = &mut self.fault_injector else {
            return 0;
        };
        let before = core::mem::take(&mut injector.refused_before);
        for peer in injector.refused.drain(..before) {
            self.peers.admit_refused(peer);
        }
        self.advance_ready(link, out);
        let Some(injector) = &mut self.fault_injector else {
            return before;
        };
        injector.refused_before = injector.refused.len();
        before + injector.refused_before
    }
}
