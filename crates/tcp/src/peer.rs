//! The peer table of an endpoint. Set-up path.

use std::net::{IpAddr, SocketAddr};

use oxifabric_provider::peer_table::PeerTable;
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
}

impl Peer {
    /// Returns a peer without a connection, after a former one with its number.
    fn new(id: PeerId, at: SocketAddr, former: Option<&Self>) -> Self {
        Self {
            driver: match former {
                Some(former) => former.driver.begin_anew(at),
                None => ConnDriver::new(id, at),
            },
            firewalled: false,
        }
    }
}

/// All peers of an endpoint, found by what ranks an address.
pub(crate) type Peers = PeerTable<(IpAddr, u16), Peer>;

/// Returns the number of the peer at an address, a new one if need be; `None` when there are too many.
pub(crate) fn number(peers: &mut Peers, at: &SocketAddr) -> Option<PeerId> {
    peers.number(&rank(at), |id, former| {
        (Address::Inet(*at), Peer::new(id, *at, former))
    })
}

/// Returns the unknown peers without a connection. Results of those that left in the poll that is under way may not have been
/// looked at.
pub(crate) fn departed(peers: &Peers, poll: u32) -> Vec<PeerId> {
    peers.departed(|Peer { driver, .. }| {
        driver.ended_in != poll && matches!(driver.state, ConnState::Idle)
    })
}
