//! Who is known: addresses and their numbers.

use std::collections::HashMap;
use std::net::SocketAddr;

use oxifabric_core::inet::RawAddr;
use oxifabric_types::{Address, PeerId};

/// Whoever sent a datagram, where nobody asks; and whoever comes when the table of strangers is full.
pub(crate) const NOBODY: PeerId = PeerId(0);

/// How many addresses are remembered that were only heard of. Anybody can make them up.
const MAX_STRANGERS: usize = 1 << 16;

/// How many peers there may be.
const MAX_PEERS: usize = 1 << 24;

/// Addresses and their numbers, dense from 1 on.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    rows: Vec<Row>,
    numbers: HashMap<SocketAddr, PeerId>,
    strangers: usize,
    /// From whom the last datagram came: often the next one comes from there too.
    last: Option<(SocketAddr, PeerId)>,
}

#[derive(Debug)]
struct Row {
    address: Address,
    raw: RawAddr,
    raw_len: u32,
}

/// An address as the kernel wants it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Destination<'a> {
    pub(crate) raw: &'a RawAddr,
    pub(crate) len: u32,
}

impl Peers {
    /// Returns the number of an address that the application named; `None` when there are too many.
    pub(crate) fn number(&mut self, at: &SocketAddr) -> Option<PeerId> {
        match self.numbers.get(at) {
            Some(&known) => Some(known),
            None => self.insert(*at),
        }
    }

    /// Returns the number of an address that is known.
    pub(crate) fn find(&self, at: &SocketAddr) -> Option<PeerId> {
        self.numbers.get(at).copied()
    }

    /// Returns the number of the address that a datagram came from.
    #[inline]
    pub(crate) fn heard(&mut self, from: &RawAddr) -> PeerId {
        let Some(at) = from.address() else {
            return NOBODY;
        };
        if let Some((last, number)) = self.last
            && last == at
        {
            return number;
        }
        let number = self.find_or_meet(at);
        self.last = Some((at, number));
        number
    }

    fn find_or_meet(&mut self, at: SocketAddr) -> PeerId {
        if let Some(&known) = self.numbers.get(&at) {
            return known;
        }
        if self.strangers == MAX_STRANGERS {
            return NOBODY;
        }
        self.strangers += 1;
        self.insert(at).unwrap_or(NOBODY)
    }

    fn insert(&mut self, at: SocketAddr) -> Option<PeerId> {
        if self.rows.len() >= MAX_PEERS - 1 {
            return None;
        }
        let (raw, raw_len) = RawAddr::of(&at);
        self.rows.push(Row {
            address: Address::Inet(at),
            raw,
            raw_len,
        });
        let number = PeerId(self.rows.len() as u32);
        self.numbers.insert(at, number);
        if self.last.is_some_and(|(last, _)| last == at) {
            self.last = None;
        }
        Some(number)
    }

    /// Returns the address of a peer.
    pub(crate) fn address(&self, peer: PeerId) -> Option<&Address> {
        self.row(peer).map(|row| &row.address)
    }

    /// Returns where to send what goes to a peer.
    #[inline]
    pub(crate) fn destination(&self, peer: PeerId) -> Option<Destination<'_>> {
        self.row(peer).map(|row| Destination {
            raw: &row.raw,
            len: row.raw_len,
        })
    }

    #[inline]
    fn row(&self, peer: PeerId) -> Option<&Row> {
        self.rows.get(peer.index().checked_sub(1)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    fn heard(peers: &mut Peers, port: u16) -> PeerId {
        let (raw, _) = RawAddr::of(&at(port));
        peers.heard(&raw)
    }

    #[test]
    fn an_address_keeps_its_number_however_it_became_known() {
        let mut peers = Peers::default();
        let first = heard(&mut peers, 1);
        let second = peers.number(&at(2)).expect("there is room");
        assert_ne!(first, second);
        assert_eq!(peers.number(&at(1)), Some(first));
        assert_eq!(heard(&mut peers, 2), second);
        assert_eq!(peers.address(second), Some(&Address::Inet(at(2))));
        assert_eq!(peers.address(NOBODY), None);
    }

    #[test]
    fn strangers_do_not_fill_the_table() {
        let mut peers = Peers {
            strangers: MAX_STRANGERS - 1,
            ..Peers::default()
        };
        let last = heard(&mut peers, 1);
        assert_eq!(heard(&mut peers, 2), NOBODY);
        assert_eq!(heard(&mut peers, 1), last);
        // Whoever the application names is no stranger, even if he was one before.
        assert_eq!(heard(&mut peers, 2), NOBODY);
        let named = peers.number(&at(2)).expect("there is room");
        assert_eq!(heard(&mut peers, 2), named);
    }
}
