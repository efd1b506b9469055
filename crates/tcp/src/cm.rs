//! Connection management without I/O: messages in pieces, what both ends negotiate, and which connection stays when
//! both sides connect at once (docs/protocol/tcp.md sections 1 to 3). Set-up path.

use std::fmt;
use std::net::SocketAddr;

use oxifabric_wire::tcp::cm::{CmError, CmHeader, CmKind, DATA_MAX, HEADER_LEN};
use oxifabric_wire::tcp::greeting::{
    FEATURE_FIREWALL, GREETING_MAX, Greeting, GreetingError, VERSION_RNDV,
};
use oxifabric_wire::tcp::{ByteOrder, Dialect};

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
pub(crate) struct LocalParams {
    /// Port where it listens.
    pub(crate) port: u16,
    /// Its process.
    pub(crate) pid: u32,
    /// Whether no peer can connect to it.
    pub(crate) firewall: bool,
    /// Whether it supports the extension.
    pub(crate) names: bool,
}

/// What the two ends of a connection negotiated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Negotiated {
    pub(crate) dialect: Dialect,
    /// Whether tagged rendezvous is spoken.
    pub(crate) rndv: bool,
    /// Whether messages of collectives are spoken.
    pub(crate) collectives: bool,
    /// The peer's process.
    pub(crate) pid: u32,
}

/// A connection message, ready to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CmMessage {
    bytes: [u8; HEADER_LEN + GREETING_MAX],
    len: usize,
}

impl CmMessage {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn new(kind: CmKind, greeting: &Greeting) -> Self {
        let mut bytes = [0; HEADER_LEN + GREETING_MAX];
        let data_len = greeting
            .emit(&mut bytes[HEADER_LEN..])
            .expect("GREETING_MAX bytes hold any greeting");
        let header = CmHeader {
            kind,
            data_len: data_len as u16,
            order: ByteOrder::NATIVE,
        };
        header
            .emit(&mut bytes)
            .expect("HEADER_LEN bytes hold any header");
        let len = HEADER_LEN + data_len;
        Self { bytes, len }
    }
}

impl LocalParams {
    /// Encodes the request of this endpoint.
    pub(crate) fn request(&self) -> CmMessage {
        CmMessage::new(CmKind::Request, &self.greeting())
    }

    /// Answers a request: returns the response, and what is negotiated by it (protocol sections 3.2, 3.3, 5.1).
    pub(crate) fn respond(&self, request: &Greeting, order: ByteOrder) -> (CmMessage, Negotiated) {
        let response = Greeting {
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
        (CmMessage::new(CmKind::Response, &response), negotiated)
    }

    /// Refuses a request.
    pub(crate) fn refuse(&self, request: &Greeting) -> CmMessage {
        let plain = Greeting {
            extension: None,
            ..*request
        };
        CmMessage::new(CmKind::Refusal, &plain)
    }

    /// Returns what a response to our request negotiates.
    pub(crate) fn negotiated(&self, response: &Greeting, order: ByteOrder) -> Negotiated {
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

    fn greeting(&self) -> Greeting {
        Greeting {
            version: VERSION_RNDV,
            checked: false,
            features: if self.firewall { FEATURE_FIREWALL } else { 0 },
            port: self.port,
            pid: self.pid,
            extension: self.names.then_some(EXTENSIONS),
        }
    }
}

/// Encodes a connection message with data of the application's: those of connected endpoints (protocol section 7).
/// There are at most `DATA_MAX` bytes.
pub(crate) fn encode(kind: CmKind, data: &[u8]) -> Vec<u8> {
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
    bytes
}

/// A connection message that arrives in pieces. It asks for exactly its own bytes, so that frames that follow
/// stay in the socket.
#[derive(Debug)]
pub(crate) struct CmReader {
    bytes: Box<[u8; HEADER_LEN + DATA_MAX]>,
    have: usize,
}

/// A complete connection message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) kind: CmKind,
    pub(crate) order: ByteOrder,
    pub(crate) greeting: Greeting,
}

/// Why bytes are no connection message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    Header(CmError),
    Greeting(GreetingError),
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(error) => error.fmt(f),
            Self::Greeting(error) => error.fmt(f),
        }
    }
}

impl CmReader {
    pub(crate) fn new() -> Self {
        Self {
            bytes: Box::new([0; HEADER_LEN + DATA_MAX]),
            have: 0,
        }
    }

    /// Returns the space for the bytes that are wanted next; never empty until the message is complete.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        let end = self.end();
        &mut self.bytes[self.have..end]
    }

    /// Counts bytes that were put into the space; returns whether the message is complete.
    pub(crate) fn filled(&mut self, count: usize) -> Result<bool, Unreadable> {
        self.have = (self.have + count).min(self.end());
        if self.have < HEADER_LEN {
            return Ok(false);
        }
        let header = self.header()?;
        Ok(self.have == HEADER_LEN + usize::from(header.data_len))
    }

    /// Returns the data of a complete message.
    pub(crate) fn data(&self) -> &[u8] {
        self.bytes.get(HEADER_LEN..self.have).unwrap_or_default()
    }

    /// Reads a complete message between reliable datagram endpoints, whose data is a greeting.
    pub(crate) fn message(&self) -> Result<Message, Unreadable> {
        let header = self.header()?;
        let greeting = match (header.kind, Greeting::parse(self.data())) {
            (_, Ok(greeting)) => greeting,
            (CmKind::Refusal, Err(_)) => EMPTY_GREETING,
            (_, Err(error)) => return Err(Unreadable::Greeting(error)),
        };
        Ok(Message {
            kind: header.kind,
            order: header.order,
            greeting,
        })
    }

    /// Returns whether nothing has come yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.have == 0
    }

    fn end(&self) -> usize {
        if self.have < HEADER_LEN {
            return HEADER_LEN;
        }
        HEADER_LEN + self.header().map_or(0, |header| header.data_len.into())
    }

    pub(crate) fn header(&self) -> Result<CmHeader, Unreadable> {
        CmHeader::parse(&self.bytes[..HEADER_LEN]).map_err(Unreadable::Header)
    }
}

/// The greeting of a refusal that has none.
const EMPTY_GREETING: Greeting = Greeting {
    version: 0,
    checked: false,
    features: 0,
    port: 0,
    pid: 0,
    extension: None,
};

/// State of the connection with a peer when its request arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerState {
    /// No connection, or our request was refused.
    Idle,
    /// This side connects, or has sent a request.
    Dialing,
    /// A connection with this process, which the peer has not closed.
    Ready { pid: u32 },
    /// A connection that the peer has closed.
    Closed,
}

/// What to do with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
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
pub(crate) fn resolve_crossing(
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

/// Returns the part of an address by which peers are compared and found: without scopes and flow labels, which are a
/// host's own affair.
pub(crate) fn rank(address: &SocketAddr) -> (std::net::IpAddr, u16) {
    (address.ip(), address.port())
}

#[cfg(test)]
mod tests;
