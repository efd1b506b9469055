//! What an endpoint remembers of its peers.

use oxifabric_engine::Limits;
use oxifabric_provider::peer_table::PeerTable;
use oxifabric_types::{Address, Errno, Instant, PeerId};
use oxifabric_wire::shm::handshake::{Ability, MAX_NAME};

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
    pub(crate) name: Box<str>,
    /// Whether the engine may have its number: the application has named it, or something of it has arrived.
    pub(crate) known: bool,
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
    /// The address of that number in the other process; none yet of the acceptor.
    pub(crate) probe: u64,
    /// Whether this side can read the other's memory, or why not.
    pub(crate) reads: Result<(), String>,
}

/// All peers of an endpoint, by name.
pub(crate) type Peers = PeerTable<String, Peer>;

/// Returns the number of the peer with this name, making one if there is none.
///
/// # Errors
/// `INVAL` for a name that no endpoint can have, `NOMEM` when there are no numbers left.
pub(crate) fn number(peers: &mut Peers, name: &str, limits: &Limits) -> Result<PeerId, Errno> {
    if let Some(peer) = peers.find(name) {
        return Ok(peer);
    }
    if !is_name(name) {
        return Err(Errno::INVAL);
    }
    let number = peers.number(name, |_, _| {
        (Address::Name(name.into()), Peer::new(name, limits))
    });
    number.ok_or(Errno::NOMEM)
}

/// Returns the number of a peer that the application names.
///
/// # Errors
/// As [`number`].
pub(crate) fn name(peers: &mut Peers, name: &str, limits: &Limits) -> Result<PeerId, Errno> {
    let peer = number(peers, name, limits)?;
    peers.name(peer);
    if let Some(row) = peers.get_mut(peer) {
        row.known = true;
    }
    Ok(peer)
}

/// Releases the number of a peer that has no connection and that the engine does not know: that of an initiator that leaves
/// without a message at once, others by [`PeerTable::vacate`].
pub(crate) fn recycle(peers: &mut Peers, peer: PeerId) {
    let is_idle = |row: &Peer| !row.known && matches!(row.state, ConnState::Closed);
    if peers.get(peer).is_some_and(is_idle) {
        peers.release(peer);
    }
}

/// Returns the peers without a connection that the application has not named and the engine may know. Results of those that
/// left in the poll that is under way may not have been looked at.
pub(crate) fn departed(peers: &Peers, poll: u32) -> Vec<PeerId> {
    peers.departed(|row| {
        row.known
            && !row.wanted
            && row.left_in != poll
            && row.conn == NO_CONN
            && matches!(row.state, ConnState::Closed)
    })
}

impl Peer {
    fn new(name: &str, limits: &Limits) -> Self {
        Self {
            conn: NO_CONN,
            limits: *limits,
            state: ConnState::Closed,
            wanted: false,
            name: name.into(),
            known: false,
            left_in: 0,
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
        assert_eq!(number(&mut peers, "a", &limits), Ok(PeerId(0)));
        assert_eq!(number(&mut peers, "b", &limits), Ok(PeerId(1)));
        assert_eq!(number(&mut peers, "a", &limits), Ok(PeerId(0)));
        assert_eq!(peers.find("b"), Some(PeerId(1)));
        assert_eq!(number(&mut peers, "", &limits), Err(Errno::INVAL));
        assert_eq!(
            number(&mut peers, &"x".repeat(256), &limits),
            Err(Errno::INVAL)
        );
    }

    #[test]
    fn the_row_of_an_initiator_that_sent_nothing_is_reused_and_that_of_a_named_peer_is_not() {
        let limits = conn::expected_limits(Params::of_environment());
        let mut peers = Peers::default();
        assert_eq!(number(&mut peers, "initiator", &limits), Ok(PeerId(0)));
        assert_eq!(name(&mut peers, "named", &limits), Ok(PeerId(1)));
        for peer in [PeerId(0), PeerId(0), PeerId(1)] {
            recycle(&mut peers, peer);
        }
        assert_eq!(peers.find("initiator"), None);
        assert_eq!(peers.find("named"), Some(PeerId(1)));
        assert_eq!(number(&mut peers, "next", &limits), Ok(PeerId(0)));
        assert_eq!(number(&mut peers, "another", &limits), Ok(PeerId(2)));
    }
}
