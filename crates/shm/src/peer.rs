//! What an endpoint remembers of its peers.

use std::collections::HashMap;

use oxifabric_engine::Limits;
use oxifabric_types::{Address, Errno, Instant, PeerId};
use oxifabric_wire::shm::greeting::{Ability, MAX_NAME};

use crate::conn::Conn;
use crate::handshake::PeerState;
use crate::region::Region;
use crate::sys::identity::Identity;

/// A peer: its name, and the state of the connection with it.
#[derive(Debug)]
pub(crate) struct Peer {
    /// Index of its open connection, or [`NO_CONN`]: all that the data path looks at, with the limits.
    pub(crate) conn: u32,
    pub(crate) limits: Limits,
    pub(crate) state: ConnState,
    /// Whether a frame was refused because there was no connection yet: the engine waits for one.
    pub(crate) wanted: bool,
    pub(crate) address: Address,
    /// Why there is no connection, or by what path long messages go.
    pub(crate) reason: Option<String>,
    /// Whether the engine may have its number: the application has named it, or something of it has arrived.
    pub(crate) known: bool,
    /// Whether the application has named it, or has it in its address vector.
    pub(crate) named: bool,
    /// The poll in which its last connection ended.
    pub(crate) left_in: u32,
}

/// Index of a peer without an open connection.
pub(crate) const NO_CONN: u32 = u32::MAX;

/// State of the connection with a peer.
#[derive(Debug)]
pub(crate) enum ConnState {
    /// No connection, and no frame to send.
    Closed,
    /// A frame is to be sent; the peer has not been reached yet. The next poll sets how long it may take to appear.
    Wanted(Option<Instant>),
    /// The hello was sent.
    HelloSent(Box<HalfOpen>),
    /// The peer sent a hello at the same time, which counts. If that has not arrived by this time, this side sends
    /// another one.
    Yielded(Instant),
    /// The peer's hello was accepted.
    AcceptSent(Box<HalfOpen>),
    /// Frames move.
    Open,
    /// The other side is gone; what it published is still delivered.
    Ending,
}

/// A connection whose handshake is under way.
#[derive(Debug)]
pub(crate) struct HalfOpen {
    pub(crate) region: Region,
    /// When to give up, should the other process live and not answer.
    pub(crate) deadline: Instant,
    /// Index of its entry in the connection table.
    pub(crate) entry: usize,
    /// The process at the other end.
    pub(crate) process: Identity,
    /// Abilities that the other end has announced; none yet of the acceptor.
    pub(crate) ability: Ability,
    pub(crate) incarnation: u64,
    /// Whether this side can read the other's memory, or why not.
    pub(crate) reads: Result<(), String>,
}

/// Rows below which none is looked for that could be used again.
const ROWS_MIN: usize = 64;

/// All peers, in the order in which they were first named. Numbers that the application never used are given to other peers
/// once theirs are gone.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    all: Vec<Peer>,
    by_name: HashMap<Box<str>, PeerId>,
    /// Free rows, of initiators that have left.
    free: Vec<PeerId>,
    /// Number of rows in use after the last look for rows that could be used again.
    in_use: usize,
}

impl Peers {
    /// Returns the number of the peer with this name, making one if there is none.
    ///
    /// # Errors
    /// `INVAL` for a name that no endpoint can have, `NOMEM` when there are no numbers left.
    pub(crate) fn named(&mut self, name: &str, limits: &Limits) -> Result<PeerId, Errno> {
        if let Some(&peer) = self.by_name.get(name) {
            return Ok(peer);
        }
        if !is_name(name) {
            return Err(Errno::INVAL);
        }
        let row = Peer {
            conn: NO_CONN,
            limits: *limits,
            state: ConnState::Closed,
            wanted: false,
            address: Address::Name(name.into()),
            reason: None,
            known: false,
            named: false,
            left_in: 0,
        };
        let peer = match self.free.pop() {
            Some(free) => free,
            None => u32::try_from(self.all.len())
                .ok()
                .map(PeerId)
                .filter(|&peer| peer != PeerId::ANY)
                .ok_or(Errno::NOMEM)?,
        };
        match self.all.get_mut(peer.index()) {
            Some(place) => *place = row,
            None => self.all.push(row),
        }
        self.by_name.insert(name.into(), peer);
        Ok(peer)
    }

    /// Returns the number of a peer that the application names.
    pub(crate) fn name(&mut self, name: &str, limits: &Limits) -> Result<PeerId, Errno> {
        let peer = self.named(name, limits)?;
        if let Some(row) = self.get_mut(peer) {
            row.known = true;
            row.named = true;
        }
        Ok(peer)
    }

    /// Frees the row of a peer that has no connection and no number that the engine may have: that of an initiator that leaves
    /// without a message at once, others by [`Self::vacate`].
    pub(crate) fn recycle(&mut self, peer: PeerId) {
        let Some(row) = self.all.get(peer.index()) else {
            return;
        };
        let idle = !row.known && matches!(row.state, ConnState::Closed);
        // A row that is free has no name any more.
        if idle && self.by_name.remove(row.name()).is_some() {
            self.free.push(peer);
        }
    }

    /// Returns whether it is time to look for rows that could be used again: they have doubled since the last look.
    pub(crate) fn is_crowded(&self) -> bool {
        self.free.is_empty() && self.all.len() >= (2 * self.in_use).max(ROWS_MIN)
    }

    /// Returns the peers without a connection that the application has not named and the engine may know. Results of those that
    /// left in the poll that is under way may not have been looked at.
    pub(crate) fn departed(&self, poll: u32) -> Vec<PeerId> {
        let is_departed = |row: &Peer| {
            row.known
                && !row.named
                && !row.wanted
                && row.left_in != poll
                && row.conn == NO_CONN
                && matches!(row.state, ConnState::Closed)
        };
        let rows = (0..).map(PeerId).zip(&self.all);
        let departed = rows.filter(|(_, row)| is_departed(row));
        departed.map(|(peer, _)| peer).collect()
    }

    /// Frees the rows of these peers, whose numbers the engine forgets.
    pub(crate) fn vacate(&mut self, departed: &[PeerId]) {
        for &peer in departed {
            if let Some(row) = self.all.get_mut(peer.index()) {
                row.known = false;
                self.recycle(peer);
            }
        }
        self.in_use = self.all.len() - self.free.len();
    }

    #[cfg(test)]
    pub(crate) fn rows(&self) -> usize {
        self.all.len()
    }

    /// Returns the number of the peer with this name.
    pub(crate) fn find(&self, name: &str) -> Option<PeerId> {
        self.by_name.get(name).copied()
    }

    #[inline]
    pub(crate) fn get(&self, peer: PeerId) -> Option<&Peer> {
        self.all.get(peer.index())
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, peer: PeerId) -> Option<&mut Peer> {
        self.all.get_mut(peer.index())
    }
}

impl Peer {
    /// Returns the peer's name.
    pub(crate) fn name(&self) -> &str {
        match &self.address {
            Address::Name(name) => name,
            Address::Inet(_) => "",
        }
    }

    /// Returns the state of the connection, for a hello. `conn` is an open one that has not begun to end.
    pub(crate) fn peer_state(&self, conn: Option<&Conn>) -> PeerState {
        let connected = |incarnation, process: &Identity| PeerState::Connected {
            incarnation,
            lives: process.runs(),
        };
        match &self.state {
            ConnState::Closed | ConnState::Yielded(_) | ConnState::Wanted(_) => PeerState::Closed,
            ConnState::HelloSent(_) => PeerState::Connecting,
            ConnState::AcceptSent(half) => connected(half.incarnation, &half.process),
            ConnState::Open => conn.map_or(PeerState::Ending, |conn| {
                connected(conn.incarnation, &conn.process)
            }),
            ConnState::Ending => PeerState::Ending,
        }
    }

    /// Returns whether a handshake with this peer is under way.
    pub(crate) fn is_opening(&self) -> bool {
        !matches!(
            self.state,
            ConnState::Closed | ConnState::Open | ConnState::Ending
        )
    }
}

/// Returns whether an endpoint can have this name.
pub(crate) fn is_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len()) && !name.contains('\0')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conn;
    use crate::params::Params;

    #[test]
    fn peers_are_numbered_as_they_are_named_and_keep_their_number() {
        let limits = conn::expected_limits(Params::of_environment());
        let mut peers = Peers::default();
        assert_eq!(peers.named("a", &limits), Ok(PeerId(0)));
        assert_eq!(peers.named("b", &limits), Ok(PeerId(1)));
        assert_eq!(peers.named("a", &limits), Ok(PeerId(0)));
        assert_eq!(peers.find("b"), Some(PeerId(1)));
        assert_eq!(peers.named("", &limits), Err(Errno::INVAL));
        assert_eq!(peers.named(&"x".repeat(256), &limits), Err(Errno::INVAL));
    }

    #[test]
    fn the_row_of_an_initiator_that_sent_nothing_is_reused_and_that_of_a_named_peer_is_not() {
        let limits = conn::expected_limits(Params::of_environment());
        let mut peers = Peers::default();
        assert_eq!(peers.named("initiator", &limits), Ok(PeerId(0)));
        assert_eq!(peers.name("named", &limits), Ok(PeerId(1)));
        for peer in [PeerId(0), PeerId(0), PeerId(1)] {
            peers.recycle(peer);
        }
        assert_eq!(peers.find("initiator"), None);
        assert_eq!(peers.find("named"), Some(PeerId(1)));
        assert_eq!(peers.named("next", &limits), Ok(PeerId(0)));
        assert_eq!(peers.named("another", &limits), Ok(PeerId(2)));
    }
}
