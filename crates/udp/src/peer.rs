//! The peer table: addresses and their numbers.

use std::collections::VecDeque;
use std::net::SocketAddr;

use oxifabric_provider::inet::RawAddr;
use oxifabric_provider::peer_directory::PeerDirectory;
use oxifabric_provider::peer_table::PeerTable;
use oxifabric_types::{Address, PeerId};

/// Source of datagrams when FI_SOURCE is off, or when the table has no space for another unknown source.
pub(crate) const UNKNOWN_PEER: PeerId = PeerId(0);

/// Maximum number of unknown sources: addresses that the application did not name.
const MAX_UNKNOWN: usize = 1 << 16;

/// The peers of an endpoint: addresses and their numbers, from 1 on.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    table: PeerTable<SocketAddr, KernelAddr, 1>,
    /// Unknown sources that [`Peers::number_or_add`] added, the oldest first.
    added: VecDeque<PeerId>,
    /// Source of the last datagram: often the next one comes from there too.
    last: Option<(SocketAddr, PeerId)>,
}

/// What is kept of a peer.
#[derive(Debug)]
struct KernelAddr {
    raw: RawAddr,
    len: u32,
}

/// An address in the kernel's form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Destination<'a> {
    pub(crate) raw: &'a RawAddr,
    pub(crate) len: u32,
}

impl Peers {
    /// Returns the number of an address that the application named; `None` when there are too many.
    pub(crate) fn number(&mut self, at: &SocketAddr) -> Option<PeerId> {
        let number = self.insert(at)?;
        self.table.name(number);
        Some(number)
    }

    /// Returns the number of an address that is in the table.
    pub(crate) fn find(&self, at: &SocketAddr) -> Option<PeerId> {
        self.table.find(at)
    }

    /// Returns the number of the address that a datagram came from, if it has one.
    #[inline]
    pub(crate) fn known(&mut self, from: &RawAddr) -> Option<PeerId> {
        let at = from.address()?;
        if let Some((last, number)) = self.last
            && last == at
        {
            return Some(number);
        }
        let number = self.find(&at)?;
        self.last = Some((at, number));
        Some(number)
    }

    /// Returns the number of a datagram's source, which is added if it has none. If there are too many unknown sources,
    /// the oldest one is removed if `may_go` allows it; else returns [`UNKNOWN_PEER`].
    #[inline]
    pub(crate) fn number_or_add(
        &mut self,
        from: &RawAddr,
        may_go: impl FnOnce(PeerId) -> bool,
    ) -> PeerId {
        match self.known(from) {
            Some(number) => number,
            None => self.add_or_replace(from, may_go).unwrap_or(UNKNOWN_PEER),
        }
    }

    #[cold]
    fn add_or_replace(
        &mut self,
        from: &RawAddr,
        may_go: impl FnOnce(PeerId) -> bool,
    ) -> Option<PeerId> {
        if self.table.unnamed() >= MAX_UNKNOWN
            && let Some(oldest) = self.added.pop_front()
        {
            let is_named = self.table.is_named(oldest);
            if !is_named && may_go(oldest) {
                self.release(oldest);
            } else if !is_named {
                self.added.push_back(oldest);
            }
        }
        let added = self.add(from)?;
        self.added.push_back(added);
        Some(added)
    }

    /// Adds an unknown source, the address that a datagram came from; `None` if there are too many.
    #[cold]
    pub(crate) fn add(&mut self, from: &RawAddr) -> Option<PeerId> {
        let at = from.address()?;
        if self.table.unnamed() >= MAX_UNKNOWN {
            return None;
        }
        self.insert(&at)
    }

    /// Removes an unknown source, so that its number is free.
    pub(crate) fn release(&mut self, peer: PeerId) {
        self.table.release(peer);
        self.last = None;
    }

    fn insert(&mut self, at: &SocketAddr) -> Option<PeerId> {
        self.table.number(at, |_, _| {
            let (raw, len) = RawAddr::of(at);
            (Address::Inet(*at), KernelAddr { raw, len })
        })
    }

    /// Returns the address of a peer.
    pub(crate) fn socket_address(&self, peer: PeerId) -> Option<&SocketAddr> {
        self.table.key(peer)
    }

    /// Returns the directory of the peers.
    pub(crate) const fn directory(&self) -> &PeerDirectory {
        self.table.directory()
    }

    /// Returns where to send what goes to a peer.
    #[inline]
    pub(crate) fn destination(&self, peer: PeerId) -> Option<Destination<'_>> {
        self.table.get(peer).map(|kept| Destination {
            raw: &kept.raw,
            len: kept.len,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    fn number_or_add(peers: &mut Peers, port: u16) -> PeerId {
        let (raw, _) = RawAddr::of(&at(port));
        peers.number_or_add(&raw, |_| false)
    }

    #[test]
    fn an_address_keeps_its_number_however_it_became_known() {
        let mut peers = Peers::default();
        let first = number_or_add(&mut peers, 1);
        let second = peers.number(&at(2)).expect("there is room");
        assert_ne!(first, second);
        assert_eq!(peers.number(&at(1)), Some(first));
        assert_eq!(number_or_add(&mut peers, 2), second);
        assert_eq!(peers.socket_address(second), Some(&at(2)));
        assert_eq!(peers.socket_address(UNKNOWN_PEER), None);
    }

    #[test]
    fn unknown_sources_do_not_fill_the_table() {
        let mut peers = Peers::default();
        for host in 1..MAX_UNKNOWN as u32 {
            let (raw, _) = RawAddr::of(&SocketAddr::from((host.to_be_bytes(), 1)));
            assert!(peers.add(&raw).is_some(), "{host} of {MAX_UNKNOWN}");
        }
        let last = number_or_add(&mut peers, 1);
        assert_eq!(number_or_add(&mut peers, 2), UNKNOWN_PEER);
        assert_eq!(number_or_add(&mut peers, 1), last);
        // An address that the application names is no unknown source any more.
        assert_eq!(number_or_add(&mut peers, 2), UNKNOWN_PEER);
        let named = peers.number(&at(2)).expect("there is room");
        assert_eq!(number_or_add(&mut peers, 2), named);
        peers.release(named);
        assert_eq!(
            number_or_add(&mut peers, 2),
            named,
            "the application named it"
        );
        peers.release(last);
        peers.release(last);
        assert_eq!(number_or_add(&mut peers, 3), last);
        assert_eq!(number_or_add(&mut peers, 1), UNKNOWN_PEER);
        let (raw, _) = RawAddr::of(&at(4));
        assert_eq!(peers.number_or_add(&raw, |oldest| oldest == last), last);
        assert_eq!(number_or_add(&mut peers, 3), UNKNOWN_PEER);
        assert_eq!(peers.socket_address(last), Some(&at(4)));
    }

    #[test]
    fn a_source_has_no_number_before_it_is_added() {
        let mut peers = Peers::default();
        let (raw, _) = RawAddr::of(&at(1));
        assert_eq!(peers.known(&raw), None);
        let added = peers.add(&raw);
        assert!(added.is_some() && peers.known(&raw) == added);
    }
}
