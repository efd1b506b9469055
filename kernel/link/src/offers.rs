//! Bodies that were announced and wait to be pulled.

use alloc::vec::Vec;

use oxifabric_engine::{Frame, RemoteIov, Target};
use oxifabric_mem::Iov;

/// The announced bodies of one end, each under a number of its own that travels as the remote address.
#[derive(Debug, Default)]
pub(crate) struct Offers {
    rows: Vec<Offer>,
    next: u64,
}

#[derive(Debug)]
struct Offer {
    /// The engine's id of the announced message or response.
    id: u32,
    number: u64,
    body: Iov,
}

impl Offers {
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Keeps the body that an `Rts` announces, and returns what the receiver pulls it by; `None` if bodies are not pulled, or if
    /// there is no memory to note it: the receiver then asks for the data.
    pub(crate) fn announce(&mut self, frame: &Frame<'_>, is_pulled: bool) -> Option<RemoteIov> {
        if !is_pulled || self.rows.try_reserve(1).is_err() {
            return None;
        }
        self.next += 1;
        let target = Target::unkeyed(self.next, frame.body.len() as u64);
        self.rows.push(Offer {
            id: frame.header.id,
            number: self.next,
            body: frame.body.clone(),
        });
        RemoteIov::new(&[target])
    }

    /// Returns the body that the receiver names.
    pub(crate) fn find(&self, remote: &RemoteIov) -> Option<&Iov> {
        let number = remote.pieces().first()?.addr;
        let offer = self.rows.iter().find(|offer| offer.number == number)?;
        Some(&offer.body)
    }

    /// Forgets the body of a message or response that is not pulled any more.
    pub(crate) fn withdraw(&mut self, id: u32) {
        self.rows.retain(|offer| offer.id != id);
    }
}
