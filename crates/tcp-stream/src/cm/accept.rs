//! The acceptor's side of a connection without I/O, between endpoints of either kind, until its request is here
//! (docs/protocol/tcp.md sections 1.5 and 7.4). Set-up path.

use core::fmt;

use oxifabric_types::Instant;
use oxifabric_wire::tcp::cm::{CmError, CmKind};
use oxifabric_wire::tcp::handshake::HandshakeError;

use super::{CmEvent, CmReader, Message};

/// A connection that was accepted and whose request has not come.
#[derive(Debug)]
pub struct Accept {
    /// Where the request goes.
    pub reader: CmReader,
    /// When the request must have come, however slowly.
    pub deadline: Instant,
}

/// Why an incoming connection is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnTrouble {
    /// It was closed without a byte, so that it has asked for nothing: one of two that crossed, mostly.
    Closed,
    /// It was closed within the request.
    BrokeOff,
    /// The request did not come in time.
    Late,
    /// It starts with bytes that are no connection message.
    Malformed(CmError),
    /// It starts with another message.
    NoRequest(CmKind),
    /// The data of a reliable datagram endpoint's request is no handshake.
    Handshake(HandshakeError),
    /// The handshake does not say where the endpoint listens.
    NoPort,
}

impl Accept {
    /// Makes the state of a connection whose request must have come by then.
    pub fn new(deadline: Instant) -> Self {
        Self {
            reader: CmReader::default(),
            deadline,
        }
    }

    /// Takes what came of reading the request; returns it.
    ///
    /// # Errors
    /// Why it is none.
    pub fn asked(event: CmEvent) -> Result<Message, ConnTrouble> {
        match event {
            CmEvent::Message(message) if message.kind == CmKind::Request => Ok(message),
            CmEvent::Message(message) => Err(ConnTrouble::NoRequest(message.kind)),
            CmEvent::Malformed(why) => Err(ConnTrouble::Malformed(why)),
            CmEvent::Closed { within: true } => Err(ConnTrouble::BrokeOff),
            CmEvent::Closed { within: false } => Err(ConnTrouble::Closed),
        }
    }
}

impl fmt::Display for ConnTrouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("it was closed"),
            Self::BrokeOff => f.write_str("it broke off"),
            Self::Late => f.write_str("it sent no request in time"),
            Self::Malformed(error) => error.fmt(f),
            Self::NoRequest(kind) => write!(f, "it starts with a {kind:?}"),
            Self::Handshake(error) => error.fmt(f),
            Self::NoPort => f.write_str("its request names no port"),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::boxed::Box;

    use oxifabric_wire::tcp::ByteOrder;

    use super::*;

    fn asked(kind: CmKind) -> Result<Message, ConnTrouble> {
        Accept::asked(CmEvent::Message(Message {
            kind,
            order: ByteOrder::NATIVE,
            data: Box::default(),
        }))
    }

    #[test]
    fn only_a_request_is_one() {
        assert!(asked(CmKind::Request).is_ok());
        for kind in [CmKind::Response, CmKind::Refusal] {
            assert_eq!(asked(kind), Err(ConnTrouble::NoRequest(kind)));
        }
        for (within, trouble) in [(true, ConnTrouble::BrokeOff), (false, ConnTrouble::Closed)] {
            assert_eq!(Accept::asked(CmEvent::Closed { within }), Err(trouble));
        }
    }
}
