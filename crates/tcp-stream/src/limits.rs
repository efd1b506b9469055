//! What a peer can take. Set-up path.

use oxifabric_engine::{Limits, OneSided};

use crate::cm::Negotiated;

/// What any peer can take, before negotiation.
pub const UNKNOWN: Limits = Limits {
    eager: usize::MAX,
    segmented: usize::MAX,
    segmented_rma: true,
    segment: usize::MAX,
    rndv_msg: false,
    rndv_tagged: false,
    rndv_rma: false,
    pull: false,
    ack_on_arrival: true,
    one_sided: OneSided::empty(),
};

/// Returns what a peer can take after negotiation. Longer messages than `eager` wait at the sender (rendezvous).
pub fn limits(negotiated: &Negotiated, eager: usize) -> Limits {
    let named = negotiated.dialect.named;
    let rndv_tagged = named || negotiated.rndv;
    let eager = if rndv_tagged { eager } else { usize::MAX };
    Limits {
        eager,
        segmented: eager,
        rndv_msg: named,
        rndv_tagged,
        ack_on_arrival: !named,
        ..UNKNOWN
    }
}
