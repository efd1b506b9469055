//! The peers of an endpoint: where messages to them go, and which of them a message came from.

use std::collections::HashMap;
use std::sync::Arc;

use oxifabric_ibv::{Ah, Completion};
use oxifabric_provider::peer_table::PeerTable;
use oxifabric_types::{Address, EfaAddress, Errno, PeerId};

use crate::domain::{EfaDomain, Source};

/// The peers of one endpoint, all of which are or were in the vector of the application.
#[derive(Debug)]
pub(crate) struct Peers {
    table: PeerTable<EfaAddress, Peer>,
    /// What is known of sources: none is asked about twice.
    sources: HashMap<Source, PeerId>,
    /// At which count of changes of the domain that was.
    seen: u64,
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
            sources: HashMap::new(),
            seen: 0,
        }
    }

    /// Returns the number of the peer at an address, a new one if need be.
    ///
    /// # Errors
    /// `NOMEM` when there are too many, and what the device says of the way there.
    pub(crate) fn number(&mut self, domain: &EfaDomain, at: EfaAddress) -> Result<PeerId, Errno> {
        if let Some(known) = self.table.find(&at) {
            return Ok(known);
        }
        let ah = domain.handle(&at.gid)?;
        let peer = Peer {
            ah,
            qpn: at.qpn.into(),
            qkey: at.connid,
        };
        let number = self.table.number(&at, |_, _| (Address::Efa(at), peer));
        let number = number.ok_or(Errno::NOMEM)?;
        self.table.name(number);
        Ok(number)
    }

    /// Returns where messages to a peer go.
    #[inline]
    pub(crate) fn get(&self, peer: PeerId) -> Option<&Peer> {
        self.table.get(peer)
    }

    pub(crate) fn address(&self, peer: PeerId) -> Option<&Address> {
        self.table.address(peer)
    }

    /// Returns which peer a message came from, or any if it is in no vector of the domain.
    #[inline]
    pub(crate) fn source(&mut self, domain: &EfaDomain, message: &Completion) -> PeerId {
        let (Ok(handle), Ok(qpn)) = (message.slid.try_into(), message.src_qp.try_into()) else {
            return PeerId::ANY;
        };
        let changes = domain.changes();
        if self.seen != changes {
            self.sources.clear();
            self.seen = changes;
        }
        match self.sources.get(&(handle, qpn)) {
            Some(&known) => known,
            None => self.look_up(domain, (handle, qpn)),
        }
    }

    #[cold]
    fn look_up(&mut self, domain: &EfaDomain, source: Source) -> PeerId {
        // What is unknown is not remembered: unknown peers would make the table grow.
        let Some(at) = domain.source(source) else {
            return PeerId::ANY;
        };
        let number = self.number(domain, at).unwrap_or(PeerId::ANY);
        self.sources.insert(source, number);
        number
    }
}
