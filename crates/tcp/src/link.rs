//! Reliable datagram endpoints, which make and take connections with any number of peers by themselves.
//!
//! - `device`: opening, naming, sleeping.
//! - `connect`: outgoing connections.
//! - `admit`: incoming connections. `challenge`: those in the name of a peer that has one.
//! - `unknown_peers`: bounds on connections of peers that are not in the AV.
//! - `progress`: what polling does beside the connections in use.

mod admit;
mod challenge;
mod connect;
mod device;
mod progress;
mod unknown_peers;

use std::collections::VecDeque;

use oxifabric_types::{Instant, PeerId};

use crate::acceptor::Acceptor;
use crate::cm::LocalParams;
use crate::endpoint::Endpoint;
use crate::peer::Peers;
use challenge::Challenge;

/// The tcp provider's link: all connections of one reliable datagram endpoint.
pub type TcpLink = Endpoint<Rdm>;

/// What a reliable datagram endpoint has beside its connections.
#[derive(Debug)]
pub struct Rdm {
    peers: Peers,
    local_params: LocalParams,
    acceptor: Acceptor,
    /// Requests that wait until it is known whether the connections that they would replace are alive.
    challenges: Vec<Challenge>,
    /// Connections of which this end is closed, with their generations; those that began first come first.
    closing: VecDeque<(PeerId, u32)>,
    /// Until when connections of unknown peers count as taking the place of others.
    displacing_until: Option<Instant>,
    /// When it is looked again for connections of unknown peers that may go, if none could.
    crowded_until: Option<Instant>,
}

#[cfg(test)]
pub(crate) mod tests;
