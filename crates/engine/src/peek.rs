//! Looking for messages without receiving them: FI_PEEK, FI_CLAIM and FI_DISCARD of fi_tagged(3).

use oxifabric_types::{Errno, Flags, PeerId};

use crate::engine::Engine;
use crate::matching::{Arrival, Class, Pattern};
use crate::rx_placement::RxPlacement;
use crate::slab::Key;
use crate::{Completion, Completions, Failure, RxOp};

impl Engine {
    /// Deals with a receive that has one of the three flags.
    pub(crate) fn peek_or_claim(&mut self, out: &mut impl Completions, op: RxOp) {
        if op.flags.contains(Flags::PEEK) {
            self.peek(out, &op);
        } else {
            self.take_claimed(out, op);
        }
    }

    /// Returns whether a message is here that a receive with `PEEK`, or with `CLAIM` alone, is about. It moves none; messages
    /// that were not let in may come after a look for them.
    pub fn sees(&mut self, op: &RxOp) -> bool {
        if !op.flags.contains(Flags::PEEK) {
            return self.unexpected.find_claimed(op.context).is_some();
        }
        let pattern = Pattern::new(op, self.config.directed_recv);
        let found = self.unexpected.find(&pattern).is_some();
        if !found {
            self.peers.allow(|peer| pattern.takes_from(peer));
            self.retry_stalled = true;
        }
        found
    }

    /// "The peek flag may be used to see if a specified message has arrived": reports it, and claims or
    /// drops it if asked to.
    fn peek(&mut self, out: &mut impl Completions, op: &RxOp) {
        let pattern = Pattern::new(op, self.config.directed_recv);
        let Some((key, arrival)) = self.find_arrival(&pattern) else {
            self.peers.allow(|peer| pattern.takes_from(peer));
            self.retry_stalled = true;
            return out.fail(nothing_found(op));
        };
        out.complete(found(op, &arrival));
        if op.flags.contains(Flags::DISCARD) {
            self.discard(out, key);
        } else if op.flags.contains(Flags::CLAIM) {
            self.unexpected.claim(key, op.context);
        }
    }

    /// "A receive operation with the FI_CLAIM flag set, but FI_PEEK not set is used to retrieve a previously
    /// claimed message": the context says which.
    fn take_claimed(&mut self, out: &mut impl Completions, op: RxOp) {
        let found_arrival = self.unexpected.find_claimed(op.context).and_then(|key| {
            let message = self.unexpected.get(key)?;
            Some((key, message.arrival))
        });
        match found_arrival {
            None => out.fail(nothing_found(&op)),
            Some((key, arrival)) if op.flags.contains(Flags::DISCARD) => {
                out.complete(found(&op, &arrival));
                self.discard(out, key);
            }
            Some((key, _)) => self.assign(out, key, RxPlacement::new(op)),
        }
    }

    fn find_arrival(&mut self, pattern: &Pattern) -> Option<(Key, Arrival)> {
        let key = self.unexpected.find(pattern)?;
        let message = self.unexpected.get(key)?;
        Some((key, message.arrival))
    }
}

/// "The returned completion data will indicate the meta-data associated with the message".
fn found(op: &RxOp, arrival: &Arrival) -> Completion {
    Completion {
        context: op.context,
        flags: arrival.completion_flags(),
        len: arrival.len as u64,
        buf: 0,
        data: arrival.data,
        tag: arrival.tag,
        from: arrival.from,
        wanted: op.flags.contains(Flags::COMPLETION),
    }
}

/// "If no message is found (...) then a completion queue error entry with err field set to FI_ENOMSG will be
/// available."
fn nothing_found(op: &RxOp) -> Failure {
    Failure {
        op: Completion {
            context: op.context,
            flags: Class::of(op.flags).flags(),
            len: 0,
            buf: 0,
            data: 0,
            tag: op.tag,
            from: PeerId::ANY,
            wanted: true,
        },
        errno: Errno::NOMSG,
        overflow: 0,
        code: 0,
    }
}
