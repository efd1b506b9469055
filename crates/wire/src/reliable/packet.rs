//! The packets of a reliable channel, docs/protocol/reliable.md section 2.
//!
//! All numbers are little-endian. [`Packet`] is the fixed part in front of every payload; [`Handshake`] is the payload of the
//! two packets that open a channel.

use core::fmt;

use super::{put, take};

/// Bytes in front of a payload.
pub const HEADER_LEN: usize = 56;
/// Bytes of a [`Handshake`].
pub const HANDSHAKE_LEN: usize = 32;
/// Bytes of a [`PartHead`].
pub const PART_HEAD_LEN: usize = 8;
/// Number of packets behind the first missing one that are acknowledged one by one.
pub const SELECTIVE: u64 = 128;

const VERSION: u8 = 1;

/// What a packet is (section 2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketKind {
    /// Opens a channel; a [`Handshake`] follows.
    Hello,
    /// Answers a Hello; a [`Handshake`] follows.
    Welcome,
    /// Numbered bytes of the stream.
    Data,
    /// What has arrived, and nothing else.
    Ack,
    /// Asks for an acknowledgement.
    Probe,
    /// Answers a packet whose `to` names no channel here; `to` repeats it.
    Unknown,
    /// The sender has closed the channel.
    Bye,
    /// A part of a data packet that its path does not carry whole; a [`PartHead`] and bytes follow.
    Part,
}

/// The header of a packet (section 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// What the packet is.
    pub kind: PacketKind,
    /// Credit: number of packets from `ack` on that the sender of this one has room for.
    pub credit: u16,
    /// For how many microseconds `echo` was held back; saturates.
    pub held: u32,
    /// The channel, as its receiver calls it; zero in a [`PacketKind::Hello`].
    pub to: u64,
    /// The number of a [`PacketKind::Data`] packet, from zero, or of the one that a [`PacketKind::Part`] belongs to. In a [`PacketKind::Ack`] the length
    /// of the padded [`PacketKind::Probe`] that it answers. Zero in others.
    pub number: u64,
    /// All data packets below this one have arrived.
    pub ack: u64,
    /// Bit `i`: data packet `ack + 1 + i` has arrived.
    pub more: u128,
    /// The sender's clock in microseconds, which wraps.
    pub sent: u32,
    /// `sent` of the data packet, probe or Hello that arrived last and was not echoed yet; zero for none.
    pub echo: u32,
}

/// The payload of a handshake: what an end announces when a channel opens (section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// What the sender of the handshake message calls the channel: chosen at random.
    pub from: u64,
    /// The longest payload that it can take, in bytes.
    pub payload: u32,
    /// The port of the sender's endpoint, where that is not the port that the packet is sent from; else zero.
    pub port: u16,
    /// The id that the other end has given the channel; zero in a Hello that answers none.
    pub to: u64,
}

/// What stands before the bytes of a part (section 6.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartHead {
    /// Offset of the part in the payload of the whole packet.
    pub at: u32,
    /// Length of that payload.
    pub all: u32,
}

/// The error of bytes that are no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketError {
    /// Fewer bytes than the header or the handshake message has.
    Truncated(usize),
    /// Another version.
    Version(u8),
    /// A kind that version 1 does not have.
    Kind(u8),
}

impl PacketKind {
    const fn from_wire(kind: u8) -> Option<Self> {
        Some(match kind {
            1 => Self::Hello,
            2 => Self::Welcome,
            3 => Self::Data,
            4 => Self::Ack,
            5 => Self::Probe,
            6 => Self::Unknown,
            7 => Self::Bye,
            8 => Self::Part,
            _ => return None,
        })
    }

    const fn to_wire(self) -> u8 {
        match self {
            Self::Hello => 1,
            Self::Welcome => 2,
            Self::Data => 3,
            Self::Ack => 4,
            Self::Probe => 5,
            Self::Unknown => 6,
            Self::Bye => 7,
            Self::Part => 8,
        }
    }
}

impl Packet {
    /// Returns a packet of this kind to a channel, with nothing to tell.
    pub const fn new(kind: PacketKind, to: u64) -> Self {
        Self {
            kind,
            credit: 0,
            held: 0,
            to,
            number: 0,
            ack: 0,
            more: 0,
            sent: 0,
            echo: 0,
        }
    }

    /// Reads a header; returns it with what follows.
    ///
    /// # Errors
    /// The bytes are no packet of this version.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), PacketError> {
        let Some((header, payload)) = bytes.split_first_chunk::<HEADER_LEN>() else {
            return Err(PacketError::Truncated(bytes.len()));
        };
        let mut rest = &header[..];
        let kind = u8::from_le_bytes(take(&mut rest));
        let version = u8::from_le_bytes(take(&mut rest));
        if version != VERSION {
            return Err(PacketError::Version(version));
        }
        let kind = PacketKind::from_wire(kind).ok_or(PacketError::Kind(kind))?;
        let packet = Self {
            kind,
            credit: u16::from_le_bytes(take(&mut rest)),
            held: u32::from_le_bytes(take(&mut rest)),
            to: u64::from_le_bytes(take(&mut rest)),
            number: u64::from_le_bytes(take(&mut rest)),
            ack: u64::from_le_bytes(take(&mut rest)),
            more: u128::from_le_bytes(take(&mut rest)),
            sent: u32::from_le_bytes(take(&mut rest)),
            echo: u32::from_le_bytes(take(&mut rest)),
        };
        Ok((packet, payload))
    }

    /// Writes the header.
    #[inline]
    pub fn emit(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        let mut rest = &mut bytes[..];
        put(&mut rest, [self.kind.to_wire()]);
        put(&mut rest, [VERSION]);
        put(&mut rest, self.credit.to_le_bytes());
        put(&mut rest, self.held.to_le_bytes());
        put(&mut rest, self.to.to_le_bytes());
        put(&mut rest, self.number.to_le_bytes());
        put(&mut rest, self.ack.to_le_bytes());
        put(&mut rest, self.more.to_le_bytes());
        put(&mut rest, self.sent.to_le_bytes());
        put(&mut rest, self.echo.to_le_bytes());
        bytes
    }
}

impl PartHead {
    /// Reads what begins a part; returns it with the bytes that follow.
    ///
    /// # Errors
    /// There are too few bytes.
    pub fn parse(payload: &[u8]) -> Result<(Self, &[u8]), PacketError> {
        let Some((fixed, bytes)) = payload.split_first_chunk::<PART_HEAD_LEN>() else {
            return Err(PacketError::Truncated(payload.len()));
        };
        let mut rest = &fixed[..];
        let head = Self {
            at: u32::from_le_bytes(take(&mut rest)),
            all: u32::from_le_bytes(take(&mut rest)),
        };
        Ok((head, bytes))
    }

    /// Writes it.
    pub fn emit(&self) -> [u8; PART_HEAD_LEN] {
        let mut bytes = [0; PART_HEAD_LEN];
        let mut rest = &mut bytes[..];
        put(&mut rest, self.at.to_le_bytes());
        put(&mut rest, self.all.to_le_bytes());
        bytes
    }
}

impl Handshake {
    /// Reads a handshake message; what follows it is for later versions.
    ///
    /// # Errors
    /// There are too few bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, PacketError> {
        let Some((fixed, _)) = bytes.split_first_chunk::<HANDSHAKE_LEN>() else {
            return Err(PacketError::Truncated(bytes.len()));
        };
        let mut rest = &fixed[..];
        Ok(Self {
            from: u64::from_le_bytes(take(&mut rest)),
            to: u64::from_le_bytes(take(&mut rest)),
            payload: u32::from_le_bytes(take(&mut rest)),
            port: u16::from_le_bytes(take(&mut rest)),
        })
    }

    /// Writes the handshake message.
    pub fn emit(&self) -> [u8; HANDSHAKE_LEN] {
        let mut bytes = [0; HANDSHAKE_LEN];
        let mut rest = &mut bytes[..];
        put(&mut rest, self.from.to_le_bytes());
        put(&mut rest, self.to.to_le_bytes());
        put(&mut rest, self.payload.to_le_bytes());
        put(&mut rest, self.port.to_le_bytes());
        bytes
    }
}

impl fmt::Display for PacketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated(len) => write!(f, "{len} bytes are no whole packet"),
            Self::Version(version) => write!(f, "packet version {version}, not {VERSION}"),
            Self::Kind(kind) => write!(f, "packet of unknown kind {kind}"),
        }
    }
}

impl core::error::Error for PacketError {}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn headers_come_back_as_they_were(
            kind in 1u8..=8, credit: u16, held: u32, to: u64, number: u64, ack: u64, more: u128, sent: u32, echo: u32,
            behind: Vec<u8>,
        ) {
            let kind = PacketKind::from_wire(kind).unwrap();
            let packet = Packet { kind, credit, held, to, number, ack, more, sent, echo };
            let mut bytes = packet.emit().to_vec();
            bytes.extend_from_slice(&behind);
            prop_assert_eq!(Packet::parse(&bytes), Ok((packet, &behind[..])));
        }

        #[test]
        fn handshakes_come_back_as_they_were(from: u64, to: u64, payload: u32, port: u16) {
            let handshake = Handshake { from, payload, port, to };
            prop_assert_eq!(Handshake::parse(&handshake.emit()), Ok(handshake));
        }

        #[test]
        fn heads_of_parts_come_back_as_they_were(at: u32, all: u32, behind: Vec<u8>) {
            let head = PartHead { at, all };
            let mut bytes = head.emit().to_vec();
            bytes.extend_from_slice(&behind);
            prop_assert_eq!(PartHead::parse(&bytes), Ok((head, &behind[..])));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let _ = Packet::parse(&bytes);
            let _ = Handshake::parse(&bytes);
            let _ = PartHead::parse(&bytes);
        }
    }

    #[test]
    fn other_versions_and_kinds_are_refused() {
        let mut bytes = Packet::new(PacketKind::Data, 1).emit();
        bytes[1] = 2;
        assert_eq!(Packet::parse(&bytes), Err(PacketError::Version(2)));
        bytes[1] = 1;
        bytes[0] = 0;
        assert_eq!(Packet::parse(&bytes), Err(PacketError::Kind(0)));
        assert_eq!(
            Packet::parse(&bytes[1..]),
            Err(PacketError::Truncated(HEADER_LEN - 1))
        );
    }
}
