//! Who is known: addresses and their numbers.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

use oxifabric_core::inet::RawAddr;
use oxifabric_types::{Address, PeerId};

/// Stands for the sender of a datagram where it does not matter, and where no more senders can be told apart.
pub(crate) const NOBODY: PeerId = PeerId(0);

/// How many addresses are remembered that the application did not name.
const MAX_STRANGERS: usize = 1 << 16;

/// How many peers there may be.
const MAX_PEERS: usize = 1 << 24;

/// Addresses and their numbers, dense from 1 on.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    rows: Vec<Row>,
    numbers: HashMap<SocketAddr, PeerId>,
    /// How many rows the application did not name.
    strangers: usize,
    /// Those of [`Peers::heard`] among them, the oldest first.
    met: VecDeque<PeerId>,
    /// Rows that may be used again.
    free: VecDeque<PeerId>,
    /// From whom the last datagram came: often the next one comes from there too.
    last: Option<(SocketAddr, PeerId)>,
}

#[derive(Debug)]
struct Row {
    address: Address,
    at: SocketAddr,
    raw: RawAddr,
    raw_len: u32,
    /// The application named it.
    is_named: bool,
    is_free: bool,
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
        let number = match self.numbers.get(at) {
            Some(&known) => known,
            None => self.insert(*at)?,
        };
        let row = self.rows.get_mut(number.index() - 1)?;
        if !std::mem::replace(&mut row.is_named, true) {
            self.strangers -= 1;
        }
        Some(number)
    }

    /// Returns the number of an address that is known.
    pub(crate) fn find(&self, at: &SocketAddr) -> Option<PeerId> {
        self.numbers.get(at).copied()
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

    /// The same, and gives it one if it has none. If there are too many, the oldest one is given back that `may_go` lets go;
    /// [`NOBODY`] if it lets none.
    #[inline]
    pub(crate) fn heard(&mut self, from: &RawAddr, may_go: impl FnOnce(PeerId) -> bool) -> PeerId {
        match self.known(from) {
            Some(number) => number,
            None => self.meet_for_another(from, may_go).unwrap_or(NOBODY),
        }
    }

    #[cold]
    fn meet_for_another(
        &mut self,
        from: &RawAddr,
        may_go: impl FnOnce(PeerId) -> bool,
    ) -> Option<PeerId> {
        if self.strangers >= MAX_STRANGERS
            && let Some(oldest) = self.met.pop_front()
        {
            let is_named = self.row(oldest).is_some_and(|row| row.is_named);
            if !is_named && may_go(oldest) {
                self.release(oldest);
            } else if !is_named {
                self.met.push_back(oldest);
            }
        }
        let met = self.meet(from)?;
        self.met.push_back(met);
        Some(met)
    }

    /// Gives the address that a datagram came from a number, though the application did not name it; `None` if there are
    /// too many.
    #[cold]
    pub(crate) fn meet(&mut self, from: &RawAddr) -> Option<PeerId> {
        let at = from.address()?;
        if self.strangers >= MAX_STRANGERS {
            return None;
        }
        self.insert(at)
    }

    /// Takes back the number of an address that the application did not name.
    pub(crate) fn release(&mut self, peer: PeerId) {
        let Some(row) = peer
            .index()
            .checked_sub(1)
            .and_then(|at| self.rows.get_mut(at))
        else {
            return;
        };
        if row.is_named || row.is_free {
            return;
        }
        row.is_free = true;
        self.numbers.remove(&row.at);
        self.strangers -= 1;
        self.free.push_back(peer);
        self.last = None;
    }

    fn insert(&mut self, at: SocketAddr) -> Option<PeerId> {
        let (raw, raw_len) = RawAddr::of(&at);
        let row = Row {
            address: Address::Inet(at),
            at,
            raw,
            raw_len,
            is_named: false,
            is_free: false,
        };
        let number = match self.free.pop_front() {
            Some(number) => {
                *self.rows.get_mut(number.index() - 1)? = row;
                number
            }
            None if self.rows.len() >= MAX_PEERS - 1 => return None,
            None => {
                self.rows.push(row);
                PeerId(self.rows.len() as u32)
            }
        };
        self.strangers += 1;
        self.numbers.insert(at, number);
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
        peers.heard(&raw, |_| false)
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
        peers.release(named);
        assert_eq!(heard(&mut peers, 2), named, "the application named it");
        peers.release(last);
        peers.release(last);
        assert_eq!(heard(&mut peers, 3), last);
        assert_eq!(heard(&mut peers, 1), NOBODY);
        let (raw, _) = RawAddr::of(&at(4));
        assert_eq!(peers.heard(&raw, |oldest| oldest == last), last);
        assert_eq!(heard(&mut peers, 3), NOBODY);
        assert_eq!(peers.address(last), Some(&Address::Inet(at(4))));
    }

    #[test]
    fn a_source_has_no_number_before_it_is_met() {
        let mut peers = Peers::default();
        let (raw, _) = RawAddr::of(&at(1));
        assert_eq!(peers.known(&raw), None);
        let met = peers.meet(&raw);
        assert!(met.is_some() && peers.known(&raw) == met);
    }
}
