//! What differs for a connected endpoint: its application says when it connects, and is told what came of it.

use alloc::sync::Arc;
use core::mem;
use core::net::SocketAddrV4;

use oxifabric_kernel_objects::ConnectionEvent;
use oxifabric_kernel_sync::Work;
use oxifabric_tcp_stream::cm::{Answer, CmMessage, Negotiated, Retry, send_cm};
use oxifabric_types::{EpType, Errno, PeerId};
use oxifabric_wire::tcp::cm::{CmKind, DATA_MAX};
use oxifabric_wire::tcp::{ByteOrder, Dialect};

use crate::acceptor::ConnRequest;
use crate::device::TcpDevice;
use crate::socket::{Socket, now};

/// The peer of a connection.
const PEER: PeerId = PeerId(0);

/// What the application has done for the connection, and what came of it.
#[derive(Debug)]
pub(crate) enum Stage {
    /// The endpoint has an address.
    Fresh(Socket),
    /// The peer has asked for a connection.
    Invited(ConnRequest),
    /// This side connects.
    Connecting,
    /// The connection is in use.
    Connected,
    /// It was in use, or could not be made.
    Over,
}

impl TcpDevice {
    /// Makes the device of the endpoint that accepts a request.
    pub(crate) fn invited(mut request: ConnRequest, work: &Arc<Work>) -> Result<Self, Errno> {
        request.socket.set_owner(work);
        let mut device = Self::at(EpType::Msg, request.socket.name()?, work)?;
        device.peers.name(request.from).ok_or(Errno::NOMEM)?;
        *device.stage = Stage::Invited(request);
        Ok(device)
    }

    /// Asks for a connection.
    pub(crate) fn connect_to(&mut self, to: SocketAddrV4, data: &[u8]) -> Result<(), Errno> {
        if self.kind != EpType::Msg {
            return Err(Errno::OPNOTSUPP);
        }
        if to.port() == 0 || data.len() > DATA_MAX {
            return Err(Errno::INVAL);
        }
        let socket = match mem::replace(&mut *self.stage, Stage::Connecting) {
            Stage::Fresh(socket) => socket,
            other => {
                *self.stage = other;
                return Err(Errno::ISCONN);
            }
        };
        let id = self.peers.name(to).ok_or(Errno::NOMEM)?;
        self.peers.enliven(id);
        let request = CmMessage::new(CmKind::Request, data);
        let conn = self.peers.conn(id).ok_or(Errno::NOMEM)?;
        conn.dial(socket, request, Retry::default(), now())
    }

    /// Accepts the connection that a request asked for.
    pub(crate) fn accept_request(&mut self, data: &[u8]) -> Result<(), Errno> {
        if data.len() > DATA_MAX {
            return Err(Errno::INVAL);
        }
        let request = match mem::replace(&mut *self.stage, Stage::Over) {
            Stage::Invited(request) => request,
            other => {
                *self.stage = other;
                return Err(Errno::NOTCONN);
            }
        };
        send_cm(&request.socket, &CmMessage::new(CmKind::Response, data))?;
        let conn = self.peers.conn(PEER).ok_or(Errno::NOTCONN)?;
        conn.establish(request.socket, plain(request.order));
        self.peers.enliven(PEER);
        self.connected(&[]);
        Ok(())
    }

    /// Takes the answer to our request.
    pub(crate) fn answered_once(&mut self, answer: Answer) {
        match answer {
            Answer::Response { order, data } => {
                if let Some(conn) = self.peers.conn(PEER) {
                    conn.agreed(plain(order));
                }
                self.connected(&data);
            }
            Answer::Refusal { data } => self.give_up(Errno::CONNREFUSED, &data),
        }
    }

    fn connected(&mut self, data: &[u8]) {
        *self.stage = Stage::Connected;
        self.events
            .push_back(ConnectionEvent::Connected(data.to_vec()));
        self.work.queue();
    }

    /// Ends an attempt, of which the application hears and decides.
    pub(crate) fn give_up(&mut self, why: Errno, data: &[u8]) {
        self.dial_failed(PEER, why);
        *self.stage = Stage::Over;
        self.events
            .push_back(ConnectionEvent::Refused(why, data.to_vec()));
    }

    /// Ends the connection.
    pub(crate) fn shut_down(&mut self) -> Result<(), Errno> {
        match *self.stage {
            Stage::Fresh(_) => return Err(Errno::NOTCONN),
            Stage::Over => return Ok(()),
            Stage::Invited(_) => {}
            Stage::Connecting | Stage::Connected => {
                if let Some(conn) = self.peers.conn(PEER) {
                    conn.fail(Errno::CANCELED);
                }
            }
        }
        *self.stage = Stage::Over;
        self.events.push_back(ConnectionEvent::Shutdown);
        Ok(())
    }

    /// Notes that the connection in use has ended, if it has.
    pub(crate) fn note_end(&mut self) {
        let is_up = self
            .peers
            .get(PEER)
            .is_some_and(|peer| peer.conn.is_ready());
        if matches!(*self.stage, Stage::Connected) && !is_up {
            *self.stage = Stage::Over;
            self.events.push_back(ConnectionEvent::Shutdown);
        }
    }
}

/// Returns what is spoken between connected endpoints: nothing is negotiated (protocol section 7.1).
fn plain(order: ByteOrder) -> Negotiated {
    Negotiated {
        dialect: Dialect {
            order,
            named: false,
            atomics: false,
        },
        rndv: false,
        collectives: false,
        pid: 0,
    }
}
