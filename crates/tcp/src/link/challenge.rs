//! Requests in the name of a peer that has a connection already, with another process (docs/protocol/tcp.md section 3.7,
//! docs/adr/0034). The peer may have been started again; or the request is an untrusted peer's, which shares the address
//! with it. So the kernel asks the host of the old connection whether that is alive, and the requester waits for the answer.
//! Set-up path.

use std::time::{Duration, Instant as Clock};

use oxifabric_engine::Sink;
use oxifabric_types::{Instant, PeerId};

use super::TcpLink;
use crate::cm::Message;
use crate::listen::PendingConn;
use crate::peer::ConnState;
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
    pending: PendingConn,
    message: Message,
    since: Clock,
    until: Instant,
}

impl Challenge {
    pub(super) fn is_about(&self, id: PeerId) -> bool {
        self.id == id
    }
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
    pub(super) fn challenge(&mut self, id: PeerId, pending: PendingConn, message: &Message) {
        let waits = |other: &Challenge| other.is_about(id);
        let room = self.challenges.len() < CHALLENGES_MAX && !self.challenges.iter().any(waits);
        let Some(peer) = self.peers.get(id).filter(|_| room) else {
            return self.refuse(&pending, message);
        };
        let ConnState::Ready(conn) = &peer.state else {
            return self.refuse(&pending, message);
        };
        let asked = conn.socket.probe(PROBES);
        if asked.is_err() || self.poller.remove(pending.socket.fd()).is_err() {
            return self.refuse(&pending, message);
        }
        self.challenges.push(Challenge {
            id,
            generation: peer.generation,
            pending,
            message: *message,
            since: Clock::now(),
            until: self.now.after(CHALLENGE_TIMEOUT),
        });
        self.expect(Some(self.now.after(LOOK)));
    }

    /// Answers the requests for which it is known by now whether the old connection is alive.
    pub(super) fn settle_challenges(&mut self, sink: &mut impl Sink) -> usize {
        let mut settled = 0;
        for challenge in std::mem::take(&mut self.challenges) {
            let late = challenge.until <= self.now;
            match self.find_out(&challenge) {
                Finding::Silent if !late => {
                    self.challenges.push(challenge);
                    continue;
                }
                Finding::Silent => self.replace(
                    challenge.id,
                    challenge.pending,
                    &challenge.message,
                    false,
                    sink,
                ),
                Finding::Gone => self.decide(
                    challenge.id,
                    challenge.pending,
                    &challenge.message,
                    false,
                    sink,
                ),
                Finding::Alive => self.reject(&challenge),
            }
            settled += 1;
        }
        settled
    }

    /// Returns when to look again.
    pub(super) fn next_look(&self) -> Option<Instant> {
        let waits = !self.challenges.is_empty();
        waits.then(|| self.now.after(LOOK))
    }

    fn find_out(&self, challenge: &Challenge) -> Finding {
        let Some(peer) = self.peers.get(challenge.id) else {
            return Finding::Gone;
        };
        match &peer.state {
            ConnState::Ready(conn) if peer.generation == challenge.generation => {
                look_at(&conn.socket, challenge.since)
            }
            _ => Finding::Gone,
        }
    }

    fn reject(&mut self, challenge: &Challenge) {
        if let Some(peer) = self.peers.get(challenge.id) {
            self.log(&format!(
                "{}: refused a connection in the name of {}, whose own is alive",
                challenge.pending.from, peer.at
            ));
            if let ConnState::Ready(conn) = &peer.state {
                // From here on it is probed as other connections are.
                let _ = match self.params.keep_alive {
                    true => self.prepare(&conn.socket),
                    false => conn.socket.let_alone(),
                };
            }
        }
        self.refuse(&challenge.pending, &challenge.message);
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
