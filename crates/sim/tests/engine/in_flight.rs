//! Frames on their way.

use oxifabric_engine::{Header, Kind, RemoteIov, Target, TxToken};
use oxifabric_mem::Iov;

use crate::one_sided::Access;

/// A frame between its post and its arrival.
pub(crate) struct InFlight {
    pub(crate) header: Header,
    pub(crate) body: Vec<u8>,
    pub(crate) remote: Option<RemoteIov>,
    pub(crate) targets: Vec<Target>,
    /// The memory is read when this is reported.
    pub(crate) pending: Option<(Iov, TxToken)>,
    /// The network carries it out by itself.
    pub(crate) access: Option<Access>,
    pub(crate) arrives: u64,
}

impl InFlight {
    /// Returns a frame without a body.
    pub(crate) fn bare(header: Header, arrives: u64) -> Self {
        Self {
            header,
            body: Vec::new(),
            remote: None,
            targets: Vec::new(),
            pending: None,
            access: None,
            arrives,
        }
    }

    /// Returns what the sender is still to hear of.
    pub(crate) fn token(&self) -> Option<TxToken> {
        let pending = self.pending.as_ref().map(|pending| pending.1);
        pending.or(self.access.as_ref().map(|access| access.token))
    }

    /// Returns whether it arrives before a later frame on a wire without order: messages keep theirs, and a first frame comes
    /// before its segments.
    pub(crate) fn precedes(&self, later: &Self) -> bool {
        let is_message = |kind| {
            use Kind::{Collective, CollectiveRts, Msg, MsgRts, Tagged, TaggedRts};
            matches!(
                kind,
                Msg | Tagged | MsgRts | TaggedRts | Collective | CollectiveRts
            )
        };
        let (kind, next) = (self.header.kind, later.header.kind);
        let begins_it = self.header.id == later.header.id
            && (is_message(kind) || matches!(kind, Kind::Write | Kind::Response) || is_rts(kind));
        (is_message(kind) && is_message(next)) || (next == Kind::Segment && begins_it)
    }
}

pub(crate) fn is_rts(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::MsgRts | Kind::TaggedRts | Kind::WriteRts | Kind::ResponseRts | Kind::CollectiveRts
    )
}

pub(crate) fn bytes(iov: &Iov) -> Vec<u8> {
    let mut out = vec![0; iov.len()];
    iov.read(0, &mut out);
    out
}
