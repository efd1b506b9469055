//! The peer table of an endpoint. Set-up path, except for connections in use.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use oxifabric_engine::{Limits, OneSided};
use oxifabric_types::{Address, Errno, Instant, PeerId};

use crate::cm::{CmReader, Negotiated, PeerState, rank};
use crate::conn::Conn;
use crate::sys::Socket;

/// A peer: its address, and the state of the connection to it.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) at: SocketAddr,
    pub(crate) state: ConnState,
    /// Number of connections so far, so that events of an earlier one are told apart.
    pub(crate) generation: u32,
    pub(crate) limits: Limits,
    /// Whether a post was answered with "again": [`oxifabric_engine::Sink::writable`] is owed.
    pub(crate) wanted: bool,
    /// Whether it is in the list of those that hold frames back.
    pub(crate) held: bool,
    /// Whether the application declared that it cannot be connected to. What a peer declares of itself does not count:
    /// it may be another one in its name.
    pub(crate) firewalled: bool,
    /// Why the last connection failed.
    pub(crate) reason: Option<String>,
    /// Whether the application has named it, or has it in its address vector.
    pub(crate) named: bool,
    /// The poll in which its last connection ended.
    pub(crate) left_in: u32,
    /// Whether its number is free for another peer.
    vacant: bool,
    address: Address,
}

/// State of the connection to a peer.
#[derive(Debug)]
pub(crate) enum ConnState {
    /// No connection.
    Idle,
    /// This side connects.
    Dialing(Dial),
    /// Our request was refused: wait for the peer's own, then try again.
    Paused(Pause),
    /// A connection in use.
    Ready(Box<Conn>),
    /// It failed while there was no sink to report that to.
    Failed(Option<Box<Conn>>, Errno),
}

/// An attempt to connect.
#[derive(Debug)]
pub(crate) struct Dial {
    pub(crate) socket: Socket,
    /// Where the answer to our request goes; `None` until the request is sent.
    pub(crate) reader: Option<CmReader>,
    pub(crate) pause: Pause,
}

/// When an attempt is given up, or retried.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pause {
    /// When the host, or then the endpoint, must have answered; `None` until the time is known.
    pub(crate) deadline: Option<Instant>,
    /// When to try no more, once a request was refused.
    pub(crate) give_up_at: Option<Instant>,
    /// When to try again.
    pub(crate) until: Option<Instant>,
    /// Number of requests that were refused.
    pub(crate) refusals: u32,
}

impl ConnState {
    /// Returns the state by which a request is accepted or refused.
    pub(crate) fn peer_state(&self) -> PeerState {
        match self {
            Self::Idle | Self::Paused(_) | Self::Failed(..) => PeerState::Idle,
            Self::Dialing(_) => PeerState::Dialing,
            Self::Ready(conn) if conn.is_closing() || conn.socket.is_closed_by_peer() => {
                PeerState::Closed
            }
            Self::Ready(conn) => PeerState::Ready {
                pid: conn.negotiated.pid,
            },
        }
    }
}

impl Peer {
    fn new(at: SocketAddr) -> Self {
        Self {
            at,
            state: ConnState::Idle,
            generation: 0,
            limits: UNKNOWN,
            wanted: false,
            held: false,
            firewalled: false,
            reason: None,
            named: false,
            left_in: 0,
            vacant: false,
            address: Address::Inet(at),
        }
    }

    /// Becomes another peer. Events of the former one's connections stay apart from its own.
    fn begin_anew(&mut self, at: SocketAddr) {
        let mut peer = Self::new(at);
        peer.generation = self.generation.wrapping_add(1) & GENERATION_MAX;
        *self = peer;
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// Returns whether bytes that were accepted for it wait for its socket.
    pub(crate) fn blocked(&self) -> bool {
        matches!(&self.state, ConnState::Ready(conn) if conn.blocked() && !conn.is_closing())
    }

    /// Puts another state in place; returns the old one.
    pub(crate) fn replace(&mut self, state: ConnState) -> ConnState {
        self.generation = self.generation.wrapping_add(1) & GENERATION_MAX;
        std::mem::replace(&mut self.state, state)
    }
}

/// The generation shares a key of 64 bits with the number and a mark.
const GENERATION_MAX: u32 = 0x3fff_ffff;

/// What any peer can take, before negotiation.
pub(crate) const UNKNOWN: Limits = Limits {
    eager: usize::MAX,
    segmented: usize::MAX,
    segment: usize::MAX,
    rndv_msg: false,
    rndv_tagged: false,
    rndv_rma: false,
    pull: false,
    ack_on_arrival: true,
    one_sided: OneSided::empty(),
};

/// Returns what a peer can take after negotiation. Longer messages than `eager` wait at the sender (rendezvous).
pub(crate) fn limits(negotiated: &Negotiated, eager: usize) -> Limits {
    let named = negotiated.dialect.named;
    let rndv_tagged = named || negotiated.rndv;
    let eager = if rndv_tagged { eager } else { usize::MAX };
    Limits {
        eager,
        segmented: eager,
        rndv_msg: named,
        rndv_tagged,
        ack_on_arrival: !named,
        ..UNKNOWN
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
        self.list.push(Peer::new(at));
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
                && peer.left_in != poll
                && matches!(peer.state, ConnState::Idle)
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
                self.by_rank.remove(&rank(&peer.at));
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
