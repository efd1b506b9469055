//! What travels on a connection of the tcp provider, docs/protocol/tcp.md.
//!
//! A connection starts with one message in each direction ([`cm`]) that carries the sender's identity ([`handshake`]).
//! After that both sides send frames: a header ([`frame`]) and a body. How numbers are written was agreed in
//! between ([`Dialect`]).

mod cursor;

pub mod cm;
pub mod frame;
pub mod handshake;

/// In which order the bytes of a number travel (docs/protocol/tcp.md section 2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteOrder {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl ByteOrder {
    /// The order of this machine.
    pub const NATIVE: Self = if cfg!(target_endian = "little") {
        Self::Little
    } else {
        Self::Big
    };
}

/// Byte format of frame headers that the two ends of a connection agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialect {
    /// The byte order of all numbers.
    pub order: ByteOrder,
    /// Frames may carry the fields of docs/protocol/tcp.md section 5.
    pub named: bool,
    /// Frames may be atomics (section 5.6); only where they may have names.
    pub atomics: bool,
}
