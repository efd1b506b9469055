//! Outgoing connections (docs/protocol/tcp.md sections 1.2 to 1.4 and 3.6). Set-up path.

use std::io;
use std::net::SocketAddr;

use oxifabric_types::{Errno, PeerId};
use oxifabric_wire::tcp::handshake::Handshake;

use super::{Rdm, TcpLink};
use crate::cm::{Answer, Retry};
use crate::dial::reachable;
use crate::endpoint::EndpointKind;
use crate::sys::{self, Socket};

impl TcpLink {
    /// Starts to connect to a peer.
    pub(super) fn dial(&mut self, id: PeerId, retry: Retry) {
        let Some(peer) = self.kind.peers.get_mut(id) else {
            return;
        };
        let to = reachable(peer.driver.at, self.kind.acceptor.listener.name());
        let socket = self.socket(&to).map_err(|error| sys::errno_of(&error));
        let request = self.kind.local_params.request();
        let Some((driver, conns)) = self.driver(id) else {
            return;
        };
        let started = socket.and_then(|socket| driver.dial(conns, socket, &to, request, retry));
        if let Err(why) = started {
            Rdm::dial_failed(self, id, why);
        }
    }

    /// Opens a socket that connects from the address of this endpoint.
    fn socket(&self, to: &SocketAddr) -> io::Result<Socket> {
        let socket = Socket::open(to)?;
        let name = self.kind.acceptor.listener.name();
        self.conns.reactor.prepare(&socket, name.is_ipv4())?;
        if !name.ip().is_unspecified() {
            let mut from = *name;
            from.set_port(0);
            // Without it the system merely runs out of ports earlier.
            let _ = socket.set_bind_address_no_port();
            socket.bind(&from)?;
        }
        Ok(socket)
    }

    /// Takes the answer to a request of ours.
    pub(super) fn answered(&mut self, id: PeerId, answer: &Answer) {
        let local_params = self.kind.local_params;
        let Some((driver, conns)) = self.driver(id) else {
            return;
        };
        let failed = match answer {
            Answer::Response { order, data } => match Handshake::parse(data) {
                Ok(handshake) => {
                    driver.agreed(conns, local_params.negotiated(&handshake, *order));
                    None
                }
                Err(_) => Some(Errno::PROTO),
            },
            // The data of a refusal is ignored (protocol section 3.1).
            Answer::Refusal { .. } => (!driver.pause(conns)).then_some(Errno::CONNREFUSED),
        };
        if let Some(why) = failed {
            Rdm::dial_failed(self, id, why);
        }
    }

    /// Begins the attempts again whose pause is over.
    pub(super) fn redial(&mut self) {
        let now = self.now();
        for id in self.conns.dialing.clone() {
            let peer = self.kind.peers.get(id);
            if let Some(retry) = peer.and_then(|peer| peer.driver.paused_until(now)) {
                self.dial(id, retry);
            }
        }
    }
}
