//! The peers of an endpoint: where messages to them go, and which of them a message came from.

use std::collections::HashMap;
use std::sync::Arc;

use oxifabric_ibv::{Ah, Completion};
use oxifabric_provider::peer_directory::PeerDirectory;
use oxifabric_provider::peer_table::PeerTable;
use oxifabric_types::{Address, EfaAddress, Errno, PeerId};

use crate::domain::{EfaDomain, Source};

/// The peers of one endpoint, all of which are or were in the vector of the application.
#[derive(Debug)]
pub(crate) struct Peers {
    table: PeerTable<EfaAddress, Peer>,
    sources: Sources,
}

/// What is known of the sources of messages: the domain is asked about each once.
#[derive(Debug, Default)]
struct Sources {
    known: HashMap<Source, PeerId>,
    /// At which count of changes of the domain that was.
    seen: u64,
}

impl Sources {
    /// Returns which peer a source is, as `look_up` says; any for one that is in no vector, of which nothing is kept.
    #[inline]
    fn find(
        &mut self,
        source: Source,
        changes: u64,
        look_up: impl FnOnce() -> Option<PeerId>,
    ) -> PeerId {
        if self.seen != changes {
            self.known.clear();
            self.seen = changes;
        }
        if let Some(&known) = self.known.get(&source) {
            return known;
        }
        let Some(peer) = look_up() else {
            return PeerId::ANY;
        };
        self.known.insert(source, peer);
        peer
    }
}

/// Where messages to a peer go.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) ah: Arc<Ah>,
    pub(crate) qpn: u32,
    pub(crate) qkey: u32,
}

impl Peers {
    pub(crate) fn new() -> Self {
        Self {
            table: PeerTable::default(),
            sources: Sources::default(),
        }
    }

    /// Returns the number of the peer at an address, a new one if need be.
    ///
    /// # Errors
    /// `NOMEM` when there are too many, and what the device says of the way there.
    pub(crate) fn number(&mut self, domain: &EfaDomain, at: EfaAddress) -> Result<PeerId, Errno> {
        number(&mut self.table, domain, at)
    }

    /// Returns where messages to a peer go.
    #[inline]
    pub(crate) fn get(&self, peer: PeerId) -> Option<&Peer> {
        self.table.get(peer)
    }

    /// Returns the directory of the peers.
    pub(crate) const fn directory(&self) -> &PeerDirectory {
        self.table.directory()
    }

    /// Returns which peer a message came from, or any if it is in no vector of the domain.
    #[inline]
    pub(crate) fn source(&mut self, domain: &EfaDomain, message: &Completion) -> PeerId {
        let (Ok(handle), Ok(qpn)) = (message.slid.try_into(), message.src_qp.try_into()) else {
            return PeerId::ANY;
        };
        let (source, table) = ((handle, qpn), &mut self.table);
        self.sources.find(source, domain.changes(), || {
            number(table, domain, domain.source(source)?).ok()
        })
    }
}

fn number(
    table: &mut PeerTable<EfaAddress, Peer>,
    domain: &EfaDomain,
    at: EfaAddress,
) -> Result<PeerId, Errno> {
    if let Some(known) = table.find(&at) {
        return Ok(known);
    }
    let ah = domain.handle(&at.gid)?;
    let peer = Peer {
        ah,
        qpn: at.qpn.into(),
        qkey: at.connid,
    };
    let number = table.number(&at, |_, _| (Address::Efa(at), peer));
    let number = number.ok_or(Errno::NOMEM)?;
    table.name(number);
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_is_in_no_vector_leaves_nothing_behind() {
        let mut sources = Sources::default();
        for qpn in 0..=u16::MAX {
            assert_eq!(sources.find((1, qpn), 1, || None), PeerId::ANY);
        }
        assert!(sources.known.is_empty());
    }

    #[test]
    fn a_source_is_looked_up_once_until_the_vectors_change() {
        let mut sources = Sources::default();
        let first = sources.find((1, 2), 1, || Some(PeerId(7)));
        assert_eq!(first, PeerId(7));
        let again = sources.find((1, 2), 1, || panic!("it is known"));
        assert_eq!(again, PeerId(7));
        assert_eq!(sources.find((1, 2), 2, || Some(PeerId(8))), PeerId(8));
        assert_eq!(sources.find((1, 2), 3, || None), PeerId::ANY);
    }
}
