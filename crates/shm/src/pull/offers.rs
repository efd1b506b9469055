//! Which memory a peer was told it may read: messages that were offered to it, until it answers.
//!
//! Whoever asks for help names memory of this process, which this process then reads with its own rights. They may be more
//! than the peer's, so only what was offered counts.

use super::assist::Assist;

/// The long messages that were offered to one peer.
#[derive(Debug, Default)]
pub(super) struct Offers(Vec<Offer>);

#[derive(Clone, Copy, Debug)]
struct Offer {
    id: u32,
    address: u64,
    len: u64,
}

impl Offers {
    /// Tells whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a message; one of the same name is over.
    pub(super) fn add(&mut self, id: u32, address: u64, len: u64) {
        self.end(id);
        self.0.push(Offer { id, address, len });
    }

    /// Forgets a message; tells whether there was one of this name.
    pub(super) fn end(&mut self, id: u32) -> bool {
        let at = self.0.iter().position(|offer| offer.id == id);
        at.map(|at| self.0.swap_remove(at)).is_some()
    }

    /// Tells whether a request is about one of the messages.
    pub(super) fn contain(&self, assist: &Assist) -> bool {
        self.0.iter().any(|offer| {
            let within = assist.source.checked_sub(offer.address);
            within
                .and_then(|offset| offset.checked_add(assist.len))
                .is_some_and(|end| end <= offer.len)
        })
    }
}
