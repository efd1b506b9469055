//! Operations that failed. Path class: failures.

use std::ffi::CString;

use oxifabric_engine::{Failure, PIECE};
use oxifabric_types::{Flags, PeerId};

use super::CompletionDispatch;

impl CompletionDispatch {
    /// Routes an operation that failed, with the name of its source and why its peer was lost.
    pub(super) fn route_failure(&mut self, failure: &Failure) {
        if failure.op.flags.contains(PIECE) {
            let mut shown = *failure;
            let end = self.ended(&mut shown.op);
            self.route_failure(&shown);
            return end.iter().for_each(|failure| self.route_end(failure));
        }
        if failure.op.flags.contains(Flags::DEFERRED) {
            return self.route_deferred_failure(failure);
        }
        let source = self.name_or_none(&failure.op);
        let reason = match (failure.code, failure.op.from) {
            (0, PeerId::ANY) => None,
            (0, peer) => self.directory.reason(peer),
            (code, peer) => self.explained(code, peer),
        };
        let reason = reason.and_then(|text| CString::new(text).ok());
        // Only what this endpoint began fails here: what a peer did not finish is the peer's affair.
        let side = self.side(failure.op.flags);
        if let Some(counter) = self.counter(failure.op.flags) {
            counter.count_error();
        }
        if let Some(cq) = &side.cq {
            cq.push_failure(failure, source.0, reason);
        }
    }

    /// Returns what a cause of the device's own means for an operation with a peer.
    fn explained(&self, code: u32, peer: PeerId) -> Option<String> {
        let address = self.directory.address(peer);
        self.explain
            .and_then(|explain| explain(code, address.as_ref()))
    }

    fn route_deferred_failure(&mut self, failure: &Failure) {
        let source = self.name_or_none(&failure.op);
        self.end_deferred(&failure.op, |in_flight, op| {
            if let Some(cntr) = &in_flight.cntr {
                cntr.count_error();
            }
            if let Some(cq) = &self.side(op.flags).cq
                && in_flight.reported
            {
                let shown = Failure {
                    op: *op,
                    ..*failure
                };
                cq.push_failure(&shown, source.0, None);
            }
        });
    }
}
