//! The addresses of an endpoint's peers, and why connections with them ended, by number: what is shown to the application.
//!
//! The link's table of peers writes it, and what routes the results of operations reads it, while the link is polled too
//! (docs/adr/0047). The endpoint's lock keeps both apart; the lock in here is free whenever one of them takes it. Path class: set-up
//! and failures.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use oxifabric_types::{Address, PeerId};

/// A handle of the directory of one endpoint. Clones are handles of the same directory.
#[derive(Clone, Debug, Default)]
pub struct PeerDirectory(Arc<Mutex<Vec<Option<Entry>>>>);

#[derive(Debug)]
struct Entry {
    address: Address,
    reason: Option<String>,
}

impl PeerDirectory {
    /// Lists a peer under its number, which no other peer has any more.
    pub fn list(&self, peer: PeerId, address: Address) {
        let mut entries = self.entries();
        let at = peer.index();
        if entries.len() <= at {
            entries.resize_with(at + 1, || None);
        }
        entries[at] = Some(Entry {
            address,
            reason: None,
        });
    }

    /// Keeps why the connection to a peer failed, for error messages: address, cause, what to do. `None` forgets it.
    pub fn explain(&self, peer: PeerId, reason: Option<String>) {
        if let Some(Some(entry)) = self.entries().get_mut(peer.index()) {
            entry.reason = reason;
        }
    }

    /// Returns whether there is, or was, a peer with this number.
    pub fn has(&self, peer: PeerId) -> bool {
        matches!(self.entries().get(peer.index()), Some(Some(_)))
    }

    /// Returns the address of a peer.
    pub fn address(&self, peer: PeerId) -> Option<Address> {
        let entries = self.entries();
        let entry = entries.get(peer.index())?.as_ref()?;
        Some(entry.address.clone())
    }

    /// Returns why the connection to a peer failed last.
    pub fn reason(&self, peer: PeerId) -> Option<String> {
        let entries = self.entries();
        entries.get(peer.index())?.as_ref()?.reason.clone()
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Option<Entry>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Address {
        Address::Name(text.into())
    }

    #[test]
    fn all_handles_see_what_one_writes_and_a_new_peer_has_no_reason() {
        let directory = PeerDirectory::default();
        let reader = directory.clone();
        let peer = PeerId(2);
        directory.list(peer, name("a"));
        directory.explain(peer, Some("a: gone".into()));
        assert_eq!(reader.address(peer), Some(name("a")));
        assert_eq!(reader.reason(peer).as_deref(), Some("a: gone"));
        directory.list(peer, name("b"));
        assert_eq!(
            (reader.address(peer), reader.reason(peer)),
            (Some(name("b")), None)
        );
    }

    #[test]
    fn peers_that_were_never_listed_have_neither_address_nor_reason() {
        let directory = PeerDirectory::default();
        directory.list(PeerId(1), name("a"));
        for peer in [PeerId(0), PeerId(2), PeerId::ANY] {
            directory.explain(peer, Some("why".into()));
            assert!(!directory.has(peer));
            assert_eq!(
                (directory.address(peer), directory.reason(peer)),
                (None, None)
            );
        }
    }
}
