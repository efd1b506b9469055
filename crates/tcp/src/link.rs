//! All connections of one endpoint: the [`Link`] that the engine posts to and polls.
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

use oxifabric_engine::{Frame, Limits, Link, PostError, Posted, RemoteIov, RxToken, Sink, TxToken};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Instant, PeerId};

use crate::acceptor::Acceptor;
use crate::cm::LocalParams;
use crate::conns::Conns;
use crate::driver::UNKNOWN;
use crate::peer::Peers;
use crate::poll::Connected;
use challenge::Challenge;

/// The tcp provider's link: all connections of one endpoint.
#[derive(Debug)]
pub struct TcpLink {
    conns: Conns,
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

impl Link for TcpLink {
    fn limits(&self, peer: PeerId) -> &Limits {
        let peer = self.peers.get(peer);
        peer.map_or(&UNKNOWN, |peer| &peer.driver.limits)
    }

    #[inline]
    fn post(&mut self, id: PeerId, frame: Frame<'_>, token: TxToken) -> Result<Posted, PostError> {
        self.post_to(id, &frame, token)
    }

    fn pull(&mut self, _: PeerId, _: &RemoteIov, _: Iov, _: RxToken) -> Result<Posted, PostError> {
        Err(PostError::Down(Errno::OPNOTSUPP))
    }

    fn flush(&mut self) {
        self.flush_held();
    }

    #[inline]
    fn poll(&mut self, now: Instant, sink: &mut impl Sink) -> usize {
        self.progress(now, sink)
    }

    fn resume(&mut self, id: PeerId) {
        self.resume_from(id);
    }

    fn disconnect(&mut self, id: PeerId, why: &'static str) -> bool {
        self.disconnect_from(id, why)
    }
}

#[cfg(test)]
pub(crate) mod tests;
