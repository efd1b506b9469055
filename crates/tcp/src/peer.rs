//! The peer table of an endpoint. Set-up path.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use oxifabric_types::{Address, PeerId};

use crate::cm::rank;
use crate::driver::{ConnDriver, ConnState};

/// A peer: its address, and the connection to it.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) driver: ConnDriver,
    /// Whether the application declared that it cannot be connected to. What a peer declares of itself does not count:
    /// it may be another one in its name.
    pub(crate) firewalled: bool,
    /// Whether the application has named it, or has it in its address vector.
    pub(crate) named: bool,
    /// Whether its number is free for another peer.
    vacant: bool,
    address: Address,
}

impl Peer {
    fn new(driver: ConnDriver) -> Self {
        Self {
            address: Address::Inet(driver.at),
            driver,
            firewalled: false,
            named: false,
            vacant: false,
        }
    }

    /// Becomes another peer.
    fn begin_anew(&mut self, at: SocketAddr) {
        self.driver.begin_anew(at);
        self.address = Address::Inet(at);
        (self.firewalled, self.named, self.vacant) = (false, false, false);
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }
}

/// Rows below which none is looked for that could be used again.
const ROWS_MIN: usize = 64;

/// All peers of an endpoint, numbered as they are first named or seen. Numbers that the application never used are
/// given to other peers once theirs are gone.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    list: Vec<Peer>,
    by_rank: HashMap<(IpAddr, u16), PeerId>,
    vacant: Vec<PeerId>,
    /// Number of rows in use after the last look for vacant ones.
    in_use: usize,
}

impl Peers {
    /// Returns the number of the peer at an address, a new one if need be; `None` when there are too many.
    pub(crate) fn number(&mut self, at: &SocketAddr) -> Option<PeerId> {
        if let Some(id) = self.by_rank.get(&rank(at)) {
            return Some(*id);
        }
        let id = match self.vacant.pop() {
            Some(id) => {
                self.list.get_mut(id.index())?.begin_anew(*at);
                id
            }
            None => self.add(*at)?,
        };
        self.by_rank.insert(rank(at), id);
        Some(id)
    }

    fn add(&mut self, at: SocketAddr) -> Option<PeerId> {
        let id = PeerId(u32::try_from(self.list.len()).ok()?);
        if id == PeerId::ANY {
            return None;
        }
        self.list.push(Peer::new(ConnDriver::new(id, at)));
        Some(id)
    }

    /// Returns whether it is time to look for rows that could be used again: they have doubled since the last look.
    pub(crate) fn is_crowded(&self) -> bool {
        self.vacant.is_empty() && self.list.len() >= (2 * self.in_use).max(ROWS_MIN)
    }

    /// Returns the unknown peers without a connection. Results of those that left in the poll that is
    /// under way may not have been looked at.
    pub(crate) fn departed(&self, poll: u32) -> Vec<PeerId> {
        let is_departed = |peer: &Peer| {
            !peer.named
                && !peer.vacant
                && peer.driver.ended_in != poll
                && matches!(peer.driver.state, ConnState::Idle)
        };
        let rows = (0..).map(PeerId).zip(&self.list);
        let departed = rows.filter(|(_, peer)| is_departed(peer));
        departed.map(|(id, _)| id).collect()
    }

    /// Frees these numbers for other peers.
    pub(crate) fn vacate(&mut self, departed: &[PeerId]) {
        for &id in departed {
            if let Some(peer) = self.list.get_mut(id.index()) {
                peer.vacant = true;
                self.by_rank.remove(&rank(&peer.driver.at));
                self.vacant.push(id);
            }
        }
        self.in_use = self.list.len() - self.vacant.len();
    }

    #[cfg(test)]
    pub(crate) fn rows(&self) -> usize {
        self.list.len()
    }

    #[inline]
    pub(crate) fn get(&self, id: PeerId) -> Option<&Peer> {
        self.list.get(id.index())
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: PeerId) -> Option<&mut Peer> {
        self.list.get_mut(id.index())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Peer> + '_ {
        self.list.iter()
    }

    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Peer> + '_ {
        self.list.drain(..)
    }
}
