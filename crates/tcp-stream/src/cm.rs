//! Connection management without I/O: messages in pieces, what both ends negotiate, and which connection stays when
//! both sides connect at once (docs/protocol/tcp.md sections 1 to 3). Set-up path.
//!
//! - `attempt`: the initiator's side of a connection. `accept`: the acceptor's.

mod accept;
mod attempt;

pub use accept::{Accept, ConnTrouble};
pub use attempt::{Answer, Attempt, Retry};

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use oxifabric_types::Errno;

use oxifabric_wire::tcp::cm::{CmError, CmHeader, CmKind, DATA_MAX, HEADER_LEN};
use oxifabric_wire::tcp::handshake::{FEATURE_FIREWALL, HANDSHAKE_MAX, Handshake, VERSION_RNDV};
use oxifabric_wire::tcp::{ByteOrder, Dialect};

use crate::socket::Socket;

/// Extension bit of protocol section 5.1: frames carry names.
const EXTENSION_NAMES: u32 = 1;

/// Extension bit of protocol section 5.1: frames may be atomics. It counts only with names.
const EXTENSION_ATOMICS: u32 = 2;

/// Extension bit of protocol section 5.1: frames may be messages of collectives. It counts only with names.
const EXTENSION_COLLECTIVES: u32 = 4;

/// All extensions that this endpoint supports.
const EXTENSIONS: u32 = EXTENSION_NAMES | EXTENSION_ATOMICS | EXTENSION_COLLECTIVES;

/// What an endpoint announces to every peer about itself.
#[derive(Clone, Copy, Debug)]
pub struct LocalParams {
    /// Port where it listens.
    pub port: u16,
    /// Its process.
    pub pid: u32,
    /// Whether no peer can connect to it.
    pub firewall: bool,
    /// Whether it supports the extension.
    pub names: bool,
}

/// What the two ends of a connection negotiated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// The form of frame headers.
    pub dialect: Dialect,
    /// Whether tagged rendezvous is spoken.
    pub rndv: bool,
    /// Whether messages of collectives are spoken.
    pub collectives: bool,
    /// The peer's process.
    pub pid: u32,
}

/// A connection message, ready to be sent.
#[derive(Clone, Debug)]
pub struct CmMessage(Vec<u8>);

impl CmMessage {
    /// Encodes a message with this data, at most `DATA_MAX` bytes: the application's between connected endpoints (protocol
    /// section 7), else a handshake.
    pub fn new(kind: CmKind, data: &[u8]) -> Self {
        let data = &data[..data.len().min(DATA_MAX)];
        let mut bytes = vec![0; HEADER_LEN + data.len()];
        let header = CmHeader {
            kind,
            data_len: data.len() as u16,
            order: ByteOrder::NATIVE,
        };
        header
            .emit(&mut bytes)
            .expect("HEADER_LEN bytes hold any header");
        bytes[HEADER_LEN..].copy_from_slice(data);
        Self(bytes)
    }

    /// Returns its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn with_handshake(kind: CmKind, handshake: &Handshake) -> Self {
        let mut data = [0; HANDSHAKE_MAX];
        let len = handshake
            .emit(&mut data)
            .expect("HANDSHAKE_MAX bytes hold any handshake");
        Self::new(kind, &data[..len])
    }
}

impl LocalParams {
    /// Encodes the request of this endpoint.
    pub fn request(&self) -> CmMessage {
        CmMessage::with_handshake(CmKind::Request, &self.handshake())
    }

    /// Answers a request: returns the response, and what is negotiated by it (protocol sections 3.2, 3.3, 5.1).
    pub fn respond(&self, request: &Handshake, order: ByteOrder) -> (CmMessage, Negotiated) {
        let response = Handshake {
            version: request.version.min(VERSION_RNDV),
            checked: request.version > 0,
            features: request.features & FEATURE_FIREWALL,
            port: request.port,
            pid: self.pid,
            extension: request
                .extension
                .filter(|_| self.names)
                .map(|bits| bits & EXTENSIONS),
        };
        let negotiated = Negotiated {
            pid: request.pid,
            ..self.negotiated(&response, order)
        };
        (
            CmMessage::with_handshake(CmKind::Response, &response),
            negotiated,
        )
    }

    /// Refuses a request.
    pub fn refuse(&self, request: &Handshake) -> CmMessage {
        let plain = Handshake {
            extension: None,
            ..*request
        };
        CmMessage::with_handshake(CmKind::Refusal, &plain)
    }

    /// Returns what a response to our request negotiates.
    pub fn negotiated(&self, response: &Handshake, order: ByteOrder) -> Negotiated {
        let extension = response.extension.filter(|_| self.names).unwrap_or(0);
        // Bodies are never converted, so operations that compute need one byte order.
        let computes_with = |bit: u32| {
            let bits = EXTENSION_NAMES | bit;
            extension & bits == bits && order == ByteOrder::NATIVE
        };
        Negotiated {
            dialect: Dialect {
                order,
                named: extension & EXTENSION_NAMES != 0,
                atomics: computes_with(EXTENSION_ATOMICS),
            },
            collectives: computes_with(EXTENSION_COLLECTIVES),
            rndv: response.checked && response.version >= VERSION_RNDV,
            pid: response.pid,
        }
    }

    fn handshake(&self) -> Handshake {
        Handshake {
            version: VERSION_RNDV,
            checked: false,
            features: if self.firewall { FEATURE_FIREWALL } else { 0 },
            port: self.port,
            pid: self.pid,
            extension: self.names.then_some(EXTENSIONS),
        }
    }
}

/// A connection message that arrives in pieces. It asks for exactly its own bytes, so that frames that follow
/// stay in the socket.
#[derive(Debug)]
pub struct CmReader {
    bytes: Box<[u8; HEADER_LEN + DATA_MAX]>,
    have: usize,
}

/// A complete connection message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its kind.
    pub kind: CmKind,
    /// The byte order that frame headers will have.
    pub order: ByteOrder,
    /// Its data.
    pub data: Box<[u8]>,
}

/// The result of reading a connection message.
#[derive(Debug, PartialEq, Eq)]
pub enum CmEvent {
    /// A whole message.
    Message(Message),
    /// Bytes that are no connection message.
    Malformed(CmError),
    /// The peer has closed the connection; in the middle of its message, or before it.
    Closed {
        /// Whether a part of the message has come.
        within: bool,
    },
}

impl Default for CmReader {
    fn default() -> Self {
        Self {
            bytes: Box::new([0; HEADER_LEN + DATA_MAX]),
            have: 0,
        }
    }
}

impl CmReader {
    /// Returns the space for the bytes that are wanted next; never empty until the message is complete.
    pub fn room(&mut self) -> &mut [u8] {
        let end = self.end();
        &mut self.bytes[self.have..end]
    }

    /// Counts bytes that were put into the space; returns whether the message is complete.
    pub fn filled(&mut self, count: usize) -> Result<bool, CmError> {
        self.have = (self.have + count).min(self.end());
        if self.have < HEADER_LEN {
            return Ok(false);
        }
        let header = self.header()?;
        Ok(self.have == HEADER_LEN + usize::from(header.data_len))
    }

    /// Returns a complete message.
    pub fn message(&self) -> Result<Message, CmError> {
        let header = self.header()?;
        Ok(Message {
            kind: header.kind,
            order: header.order,
            data: self.bytes[HEADER_LEN..self.have].into(),
        })
    }

    /// Returns whether nothing has come yet.
    pub fn is_empty(&self) -> bool {
        self.have == 0
    }

    fn end(&self) -> usize {
        if self.have < HEADER_LEN {
            return HEADER_LEN;
        }
        HEADER_LEN + self.header().map_or(0, |header| header.data_len.into())
    }

    fn header(&self) -> Result<CmHeader, CmError> {
        CmHeader::parse(&self.bytes[..HEADER_LEN])
    }
}

/// State of the connection with a peer when its request arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerState {
    /// No connection, or our request was refused.
    Idle,
    /// This side connects, or has sent a request.
    Dialing,
    /// A connection with this process, which the peer has not closed.
    Ready {
        /// The process.
        pid: u32,
    },
    /// A connection that the peer has closed.
    Closed,
}

/// What to do with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Respond.
    Accept,
    /// Abandon our own attempt, then respond.
    Yield,
    /// End the old connection, then respond.
    Replace,
    /// Respond if the old connection turns out to be gone, else refuse.
    Challenge,
    /// Refuse.
    Refuse,
}

/// Decides about a request of the endpoint at `remote`, which may have crossed our own (protocol sections 3.5 and 3.7).
pub fn resolve_crossing(
    peer_state: PeerState,
    local: &SocketAddr,
    remote: &SocketAddr,
    pid: u32,
) -> Verdict {
    let remote_wins = rank(remote) > rank(local);
    match peer_state {
        _ if rank(remote) == rank(local) => Verdict::Refuse,
        PeerState::Idle => Verdict::Accept,
        PeerState::Dialing if remote_wins => Verdict::Yield,
        PeerState::Dialing => Verdict::Refuse,
        PeerState::Ready { pid: known } if known == pid => Verdict::Refuse,
        PeerState::Ready { .. } => Verdict::Challenge,
        PeerState::Closed => Verdict::Replace,
    }
}

/// Returns the part of an address by which peers are compared and found: without scopes and flow labels, which
/// have a meaning on one host only.
pub fn rank(address: &SocketAddr) -> (IpAddr, u16) {
    (address.ip(), address.port())
}

/// Reads a connection message, and not a byte more; `None` until it is complete.
pub fn read_cm(socket: &impl Socket, reader: &mut CmReader) -> Option<CmEvent> {
    loop {
        match socket.recv(reader.room()) {
            Ok(0) => return Some(closed(reader)),
            Ok(count) => match reader.filled(count) {
                Ok(false) => {}
                Ok(true) => {
                    let message = reader.message();
                    return Some(message.map_or_else(CmEvent::Malformed, CmEvent::Message));
                }
                Err(why) => return Some(CmEvent::Malformed(why)),
            },
            Err(Errno::AGAIN) => return None,
            Err(Errno::INTR) => {}
            Err(_) => return Some(closed(reader)),
        }
    }
}

fn closed(reader: &CmReader) -> CmEvent {
    CmEvent::Closed {
        within: !reader.is_empty(),
    }
}

/// Sends a connection message: a socket that carried nothing yet takes it whole, or something is wrong with it.
///
/// # Errors
/// The error of the socket; `IO` if it took a part only.
pub fn send_cm(socket: &impl Socket, message: &CmMessage) -> Result<(), Errno> {
    match socket.send(message.bytes())? {
        count if count == message.bytes().len() => Ok(()),
        _ => Err(Errno::IO),
    }
}

#[cfg(test)]
mod tests;
