//! What is different about endpoints whose messages are datagrams: FI_EP_DGRAM, fi_endpoint(3). Path class: setup.
//!
//! They are engines over devices as all others (docs/adr/0014). A datagram has no header, so that there is nothing beside
//! the message: no tag, no remote data, no acknowledgement.

use oxifabric_abi::fi_ops_msg;
use oxifabric_provider::device::Provider;
use oxifabric_types::Flags;

use super::Endpoint;
use crate::absent::{no5, no7};

/// What a datagram cannot bring about.
const BEYOND: Flags = Flags::REMOTE_CQ_DATA
    .union(Flags::DELIVERY_COMPLETE)
    .union(Flags::MATCH_COMPLETE);

impl<P: Provider> Endpoint<P> {
    /// Untagged messages without remote data.
    pub(super) const DATAGRAMS: fi_ops_msg = fi_ops_msg {
        senddata: Some(no7),
        injectdata: Some(no5),
        ..Self::MSG
    };
}

/// Returns whether a send asks for what its receiver would have to know or to answer.
#[inline]
pub(super) const fn asks_too_much(flags: Flags) -> bool {
    flags.intersects(BEYOND)
}
