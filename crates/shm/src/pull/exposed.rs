//! The memory that a peer may ask this side to copy from: messages whose Rts it has, until it answers.
//!
//! A request names memory of this process, which this process then reads with its own rights. They may be more than the
//! peer's, so only exposed memory counts.

use super::sender_copy::SenderCopy;

/// The long messages that are exposed to one peer.
#[derive(Debug, Default)]
pub(super) struct ExposedMessages(Vec<ExposedMessage>);

#[derive(Clone, Copy, Debug)]
struct ExposedMessage {
    id: u32,
    address: u64,
    len: u64,
}

impl ExposedMessages {
    /// Returns whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a message; an earlier one of the same id is over.
    pub(super) fn add(&mut self, id: u32, address: u64, len: u64) {
        self.end(id);
        self.0.push(ExposedMessage { id, address, len });
    }

    /// Removes a message; returns whether there was one of this id.
    pub(super) fn end(&mut self, id: u32) -> bool {
        let at = self.0.iter().position(|exposed| exposed.id == id);
        at.map(|at| self.0.swap_remove(at)).is_some()
    }

    /// Returns whether a request is about one of the messages.
    pub(super) fn contain(&self, copy: &SenderCopy) -> bool {
        self.0.iter().any(|exposed| {
            let within = copy.source.checked_sub(exposed.address);
            within
                .and_then(|offset| offset.checked_add(copy.len))
                .is_some_and(|end| end <= exposed.len)
        })
    }
}
