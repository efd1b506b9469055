//! Requests in the name of a peer that has a connection already, with another process (docs/protocol/tcp.md section 3.7,
//! docs/adr/0034). The peer may have been started again; or the request is an untrusted peer's, which shares the address
//! with it. So the kernel asks the host of the old connection whether that is alive, and the requester waits for the answer.
//! Set-up path.

use std::time::{Duration, Instant as Clock};

use oxifabric_engine::Sink;
use oxifabric_provider::log;
use oxifabric_types::{Instant, PeerId};

use super::TcpLink;
use super::admit::OpeningRequest;
use crate::driver::ConnState;
use crate::sys::Socket;

/// Maximum number of requests that wait at once. Peers of large jobs are not started again all at once; a request that finds no room
/// is refused, and comes again.
const CHALLENGES_MAX: usize = 64;

/// Time between two looks whether the old connection has answered. An answer takes as long as a packet there and back.
const LOOK: Duration = Duration::from_millis(20);

/// How long the host of the old connection may take to answer. The request has just come from there, so that it is up;
/// this bounds what packets lost on the way cost.
const CHALLENGE_TIMEOUT: Duration = Duration::from_secs(7);

/// Probes that the kernel sends meanwhile, a second apart.
const PROBES: i32 = 5;

/// A request that waits.
#[derive(Debug)]
pub(super) struct Challenge {
    id: PeerId,
    /// Generation of the old connection.
    generation: u32,
    request: OpeningRequest,
    since: Clock,
    until: Instant,
}

/// State of an old connection, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finding {
    /// Its host has answered since it was asked.
    Alive,
    /// Its host has not answered.
    Silent,
    /// It is over.
    Gone,
}

impl TcpLink {
    /// Probes the host of the connection that a request would replace (keepalive).
    pub(super) fn challenge(&mut self, id: PeerId, mut request: OpeningRequest) {
        let room = self.kind.challenges.len() < CHALLENGES_MAX && !self.is_challenged(id);
        let Some(peer) = self.kind.peers.get(id).filter(|_| room) else {
            return self.refuse(&request);
        };
        let ConnState::Ready(conn) = &peer.driver.state else {
            return self.refuse(&request);
        };
        let asked = conn.socket().set_keepalive_at_once(PROBES);
        if asked.is_err() || request.conn.unwatch(&self.conns.reactor).is_err() {
            return self.refuse(&request);
        }
        let now = self.now();
        self.kind.challenges.push(Challenge {
            id,
            generation: peer.driver.generation,
            request,
            since: Clock::now(),
            until: now.after(CHALLENGE_TIMEOUT),
        });
        self.conns.reactor.expect(Some(now.after(LOOK)));
    }

    /// Returns whether a request in the name of a peer waits.
    pub(super) fn is_challenged(&self, id: PeerId) -> bool {
        let challenges = &self.kind.challenges;
        challenges.iter().any(|challenge| challenge.id == id)
    }

    /// Answers the requests for which it is known by now whether the old connection is alive.
    pub(super) fn settle_challenges(&mut self, sink: &mut impl Sink) -> usize {
        let mut settled = 0;
        for challenge in std::mem::take(&mut self.kind.challenges) {
            let late = challenge.until <= self.now();
            let Challenge { id, .. } = challenge;
            match self.find_out(&challenge) {
                Finding::Silent if !late => {
                    self.kind.challenges.push(challenge);
                    continue;
                }
                Finding::Silent => self.replace(id, challenge.request, sink),
                Finding::Gone => self.decide(id, challenge.request, sink),
                Finding::Alive => self.reject(&challenge),
            }
            settled += 1;
        }
        settled
    }

    /// Returns when to look again.
    pub(super) fn next_look(&self) -> Option<Instant> {
        let waits = !self.kind.challenges.is_empty();
        waits.then(|| self.now().after(LOOK))
    }

    fn find_out(&self, challenge: &Challenge) -> Finding {
        let Some(peer) = self.kind.peers.get(challenge.id) else {
            return Finding::Gone;
        };
        match &peer.driver.state {
            ConnState::Ready(conn) if peer.driver.generation == challenge.generation => {
                look_at(conn.socket(), challenge.since)
            }
            _ => Finding::Gone,
        }
    }

    fn reject(&mut self, challenge: &Challenge) {
        if let Some(peer) = self.kind.peers.get(challenge.id) {
            log::warn!(
                "tcp",
                EpCtrl,
                "{}: refused a connection in the name of {}, whose own is alive",
                challenge.request.conn.from,
                peer.driver.at
            );
            if let ConnState::Ready(conn) = &peer.driver.state {
                // From here on it is probed as other connections are.
                let reactor = &self.conns.reactor;
                let _ = match reactor.params.keep_alive {
                    true => reactor.prepare(conn.socket(), peer.driver.at.is_ipv4()),
                    false => conn.socket().clear_keepalive(),
                };
            }
        }
        self.refuse(&challenge.request);
    }
}

fn look_at(socket: &Socket, since: Clock) -> Finding {
    if socket.is_closed_by_peer() {
        return Finding::Gone;
    }
    match socket.was_heard_within(since.elapsed()) {
        true => Finding::Alive,
        false => Finding::Silent,
    }
}
