//! Receives of a shared context, fi_srx_context(3): several endpoints take from one list.
//!
//! The list is not here. A message for which this endpoint has no receive of its own asks for one
//! ([`Completions::shared_receive`]); one that gets none waits as any other, until [`Engine::feed`] asks again.
//! An endpoint without a shared context comes here only with unexpected messages.

use alloc::vec::Vec;
use oxifabric_types::Flags;

use crate::engine::Engine;
use crate::matching::{Arrival, Class};
use crate::rx_placement::RxPlacement;
use crate::{Completions, Link};

impl Engine {
    /// Lets messages that wait have the receives that a shared context got meanwhile.
    pub fn feed(&mut self, link: &mut impl Link, out: &mut impl Completions) {
        for class in [Class::Msg, Class::Tagged] {
            let waiting: Vec<_> = self.unexpected.waiting_of(class).collect();
            for (key, tag, from, len) in waiting {
                match out.shared_receive(kind(class), tag, from, len) {
                    Some(op) => self.assign(out, key, RxPlacement::new(op)),
                    // A context that took no first message of this class would take no second one, from any peer.
                    None if class == Class::Msg && !self.config.directed_recv => break,
                    None => {}
                }
            }
        }
        // What was not let in may find a receive now.
        self.retry_stalled = true;
        self.advance_ready(link, out);
        self.resume_stalled(link);
    }
}

/// Asks the shared context, if there is one, for the place of a message.
#[cold]
pub(crate) fn placement_for(out: &mut impl Completions, arrival: &Arrival) -> Option<RxPlacement> {
    match kind(arrival.class) {
        none if none.is_empty() => None,
        class => {
            let op = out.shared_receive(class, arrival.tag, arrival.from, arrival.len)?;
            Some(RxPlacement::new(op))
        }
    }
}

/// Returns the flag of a class of messages.
fn kind(class: Class) -> Flags {
    class.flags() & (Flags::MSG | Flags::TAGGED)
}
