//! Incoming connections: which requests are granted (docs/protocol/tcp.md sections 1.5, 3.5 and 3.7). Set-up path.

use std::net::SocketAddr;

use oxifabric_engine::Sink;
use oxifabric_types::{Errno, PeerId};
use oxifabric_wire::tcp::handshake::Handshake;

use super::TcpLink;
use crate::acceptor::{Accepted, ConnRequest, PER_POLL};
use crate::cm::{ConnTrouble, Verdict, resolve_crossing};
use crate::sys::Socket;

/// Turns of reading that a connection gets which another replaces; one ends with each read into a large body.
const LAST_TURNS: usize = 8;

/// A request whose data is a handshake.
#[derive(Debug)]
pub(super) struct OpeningRequest {
    pub(super) conn: ConnRequest,
    handshake: Handshake,
}

impl OpeningRequest {
    fn read(conn: &ConnRequest) -> Result<Handshake, ConnTrouble> {
        match Handshake::parse(&conn.data) {
            Ok(handshake) if handshake.port == 0 => Err(ConnTrouble::NoPort),
            Ok(handshake) => Ok(handshake),
            Err(why) => Err(ConnTrouble::Handshake(why)),
        }
    }

    /// Returns where the peer listens in whose name the request comes.
    fn claimed(&self) -> SocketAddr {
        let mut remote = self.conn.from;
        remote.set_port(self.handshake.port);
        remote
    }
}

impl TcpLink {
    /// Accepts the connections that wait, and reads their requests.
    pub(super) fn accept_waiting(&mut self, sink: &mut impl Sink) {
        let mut budget = PER_POLL;
        loop {
            let reactor = &mut self.conns.reactor;
            match self.kind.acceptor.accept(&mut budget, reactor) {
                Accepted::Request(conn) => self.admit(conn, sink),
                Accepted::NoDescriptor if self.give_up_some(sink) => {}
                Accepted::NoDescriptor => {
                    let refused = self.kind.acceptor.refuse_waiting(&mut self.conns.reactor);
                    self.conns.counts.rejected += refused as u64;
                    return;
                }
                Accepted::Enough => return,
            }
        }
    }

    /// Reads what has arrived on a pending connection, and acts on it when it is complete.
    pub(super) fn read_pending(&mut self, serial: u32, sink: &mut impl Sink) {
        if let Some(conn) = self.kind.acceptor.read(serial) {
            self.admit(conn, sink);
        }
    }

    fn admit(&mut self, conn: ConnRequest, sink: &mut impl Sink) {
        let handshake = match OpeningRequest::read(&conn) {
            Ok(handshake) => handshake,
            Err(trouble) => return self.kind.acceptor.waste(conn.from, trouble),
        };
        let request = OpeningRequest { conn, handshake };
        if let Some(id) = self.number(&request.claimed(), sink) {
            self.decide(id, request, sink);
        }
    }

    /// Answers a request by the state of its peer.
    pub(super) fn decide(&mut self, id: PeerId, request: OpeningRequest, sink: &mut impl Sink) {
        let local = self.local_to(&request.conn.socket);
        let Some(peer) = self.kind.peers.get(id) else {
            return;
        };
        let state = peer.driver.state.peer_state();
        match resolve_crossing(state, &local, &request.claimed(), request.handshake.pid) {
            Verdict::Refuse => self.refuse(&request),
            Verdict::Challenge => self.challenge(id, request),
            Verdict::Accept | Verdict::Yield => self.respond(id, request, sink),
            Verdict::Replace => self.replace(id, request, sink),
        }
    }

    /// Refuses a request.
    pub(super) fn refuse(&mut self, request: &OpeningRequest) {
        self.conns.counts.rejected += 1;
        let message = self.kind.local_params.refuse(&request.handshake);
        request.conn.refuse(&message);
    }

    /// Accepts a request in place of the connection in use.
    pub(super) fn replace(&mut self, id: PeerId, request: OpeningRequest, sink: &mut impl Sink) {
        // What the old connection still brings was sent before the new one was made.
        self.read_rest(id, sink);
        self.end(id, Errno::CONNRESET, "replaced by a new connection", sink);
        self.respond(id, request, sink);
    }

    /// Reads what a connection that will end has brought.
    pub(super) fn read_rest(&mut self, id: PeerId, sink: &mut impl Sink) {
        for _ in 0..LAST_TURNS {
            if self.read(id, true, sink) == 0 {
                break;
            }
        }
    }

    /// Accepts a request; an attempt of ours, or the remains of one, is dropped.
    fn respond(&mut self, id: PeerId, request: OpeningRequest, sink: &mut impl Sink) {
        if !self.has_place(id, sink) {
            self.kind.acceptor.wasted += 1;
            return self.refuse(&request);
        }
        self.kind.acceptor.wasted += usize::from(self.is_displacing(id));
        let OpeningRequest { conn, handshake } = request;
        let (message, negotiated) = self.kind.local_params.respond(&handshake, conn.order);
        if conn.answer(&message).is_err() {
            // The requester is gone already; our own attempt, if any, goes on.
            return;
        }
        self.conns.counts.accepted += 1;
        if let Some((driver, conns)) = self.driver(id) {
            driver.report(conns, sink);
            driver.establish(conns, conn.socket, negotiated, conn.watched);
        }
    }

    /// Returns the address by which a peer reaches this endpoint (protocol section 3.5).
    fn local_to(&self, socket: &Socket) -> SocketAddr {
        let mut local = *self.kind.acceptor.listener.name();
        if local.ip().is_unspecified()
            && let Ok(at) = socket.local()
        {
            local.set_ip(at.ip());
        }
        local
    }
}
