//! The header of a frame (docs/protocol/tcp.md sections 4 and 5).

use core::fmt;

use bitflags::bitflags;

use super::cursor::{Reader, Writer};
use super::{ByteOrder, Dialect};

/// The length of the part that every header has, in bytes.
pub const BASE_LEN: usize = 16;

/// The longest header, in bytes.
pub const HEADER_MAX: usize = BASE_LEN + 8 + RMA_PIECE_LEN * RMA_PIECES_MAX + 16;

/// `op_data` of a [`Op::Msg`] frame that acknowledges a message.
pub const OP_DATA_ACK: u8 = 2;

/// `op_data` of a [`Op::Msg`] frame that declines the body of an [`Op::Rts`] (section 5.3).
pub const OP_DATA_FIN: u8 = 3;

const VERSION: u8 = 3;
const RMA_PIECE_LEN: usize = 24;

/// Maximum number of pieces of remote memory that a header may name.
pub const RMA_PIECES_MAX: usize = 4;

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// The operation.
    pub op: Op,
    /// The flags.
    pub flags: FrameFlags,
    /// A rendezvous number, or one of the `OP_DATA_*` values.
    pub op_data: u8,
    /// Counts the frames of this direction; only debug builds of the C library look at it.
    pub seq: u8,
    /// Number of pieces of remote memory that the header names, of [`Op::ReadReq`], [`Op::Write`] and atomics; [`RmaPiece`]
    /// reads and writes them.
    pub pieces: u8,
    /// Number of bytes that follow the header.
    pub body_len: u64,
    /// Completion data, if [`FrameFlags::DATA`].
    pub data: u64,
    /// The tag, of [`Op::Tagged`] and [`Op::Rts`]; of atomics, what they do.
    pub tag: u64,
    /// The length of the message that an [`Op::Rts`] announces.
    pub message_len: u64,
    /// The sender's number of the message, if [`FrameFlags::NAMED`].
    pub name: u32,
    /// What became of the message that the frame names, if [`FrameFlags::NAMED`]: zero or an error number.
    pub status: u32,
}

/// A piece of remote memory (section 4.8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RmaPiece {
    /// Start of the memory: a virtual address, or an offset in the region (fi_mr(3)).
    pub addr: u64,
    /// Number of bytes that it has.
    pub len: u64,
    /// The key of its region.
    pub key: u64,
}

impl RmaPiece {
    /// Reads a piece of a header that [`FrameHeader::parse`] accepted from the start of `bytes`; `None` when it has
    /// fewer pieces.
    pub fn parse(bytes: &[u8], header: &FrameHeader, index: u8, dialect: Dialect) -> Option<Self> {
        if index >= header.pieces {
            return None;
        }
        let has_data = header.flags.contains(FrameFlags::DATA);
        let start = BASE_LEN + if has_data { 8 } else { 0 } + RMA_PIECE_LEN * usize::from(index);
        let mut reader = Reader::new(bytes.get(start..)?, dialect.order);
        Some(Self {
            addr: reader.u64()?,
            len: reader.u64()?,
            key: reader.u64()?,
        })
    }
}

/// The operation of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Op {
    /// An untagged message; an acknowledgement or a refusal if `op_data` says so.
    Msg = 0,
    /// A tagged message.
    Tagged = 1,
    /// Asks for bytes of remote memory.
    ReadReq = 2,
    /// Brings the bytes that a `ReadReq` asked for.
    ReadRsp = 3,
    /// Writes remote memory.
    Write = 4,
    /// Announces a message whose body waits to be asked for.
    Rts = 5,
    /// Asks for the body of an announced message.
    Cts = 6,
    /// Brings the body that a `Cts` asked for.
    Data = 7,
    /// Updates remote memory (section 5.6).
    Atomic = 8,
    /// Updates remote memory and asks for its former value.
    FetchAtomic = 9,
    /// Compares with remote memory, updates it and asks for its former value.
    CompareAtomic = 10,
}

bitflags! {
    /// Flags of a frame. The lower byte is the C library's; the upper one is sent only between endpoints that
    /// agreed on section 5.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct FrameFlags: u16 {
        /// The header has completion data.
        const DATA = 1 << 0;
        /// The sender waits until the message was placed.
        const DELIVERY = 1 << 2;
        /// The sender waits until the message is durable.
        const COMMIT = 1 << 3;
        /// The header has the message's number.
        const NAMED = 1 << 8;
        /// The sender waits until the message was matched.
        const MATCH = 1 << 9;
        /// The announced message is untagged.
        const UNTAGGED = 1 << 10;
        /// The message, announced or not, belongs to a collective.
        const COLLECTIVE = 1 << 11;
    }
}

/// The rule that a header breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// More bytes are needed: this number from the header's start.
    Truncated(usize),
    /// The version is not 3.
    Version(u8),
    /// The operation is unknown.
    Op(u8),
    /// More remote pieces than 4.
    RmaCount(u8),
    /// The header's length is not that of its operation and flags.
    HeaderLen {
        /// What these ask for.
        expected: u8,
        /// The value in the header.
        found: u8,
    },
    /// The frame is shorter than its header.
    Size(u64),
    /// The frame has a body, which its operation does not allow.
    Body(u64),
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated(needed) => write!(f, "a header of fewer than {needed} bytes"),
            Self::Version(found) => write!(f, "frame version {found}, not {VERSION}"),
            Self::Op(found) => write!(f, "unknown operation {found}"),
            Self::RmaCount(found) => {
                write!(
                    f,
                    "{found} pieces of remote memory, at most {RMA_PIECES_MAX}"
                )
            }
            Self::HeaderLen { expected, found } => {
                write!(f, "a header of {found} bytes where {expected} belong")
            }
            Self::Size(found) => write!(f, "a frame of {found} bytes, less than its header"),
            Self::Body(found) => write!(f, "a body of {found} bytes where none belongs"),
        }
    }
}

impl FrameHeader {
    /// Returns a header without body or optional fields.
    pub const fn new(op: Op) -> Self {
        Self {
            op,
            flags: FrameFlags::empty(),
            op_data: 0,
            seq: 0,
            pieces: 0,
            body_len: 0,
            data: 0,
            tag: 0,
            message_len: 0,
            name: 0,
            status: 0,
        }
    }

    /// Reads a header from the start of `bytes`; returns it with its length.
    ///
    /// # Errors
    /// [`FrameError::Truncated`] as long as everything read so far is right; otherwise the first broken rule.
    #[inline]
    pub fn parse(bytes: &[u8], dialect: Dialect) -> Result<(Self, usize), FrameError> {
        let base = Base::parse(bytes, dialect.order)?;
        let (op, flags) = base.checked(dialect)?;
        let header_len = usize::from(base.header_len);
        let Some(fields) = bytes.get(BASE_LEN..header_len) else {
            return Err(FrameError::Truncated(header_len));
        };
        let mut header = Self {
            flags,
            op_data: base.op_data,
            seq: base.seq,
            pieces: if op.names_memory() { base.rma_count } else { 0 },
            body_len: base.size - u64::from(base.header_len),
            ..Self::new(op)
        };
        header
            .read_fields(Reader::new(fields, dialect.order))
            .ok_or(FrameError::Truncated(header_len))?;
        Ok((header, header_len))
    }

    /// Writes the header to the start of `out` and returns its length; `None` when there is no room, when there are
    /// not as many pieces as the header says, or when the frame's length does not fit.
    #[inline]
    pub fn emit(&self, pieces: &[RmaPiece], out: &mut [u8], dialect: Dialect) -> Option<usize> {
        if pieces.len() != usize::from(self.pieces) {
            return None;
        }
        let header_len = header_len(self.op, self.flags, self.pieces)?;
        let mut writer = Writer::new(out, dialect.order);
        writer.put(&[VERSION, self.op as u8])?;
        writer.u16(self.flags.bits())?;
        writer.put(&[self.op_data, self.pieces, header_len, self.seq])?;
        writer.u64(self.body_len.checked_add(u64::from(header_len))?)?;
        if self.flags.contains(FrameFlags::DATA) {
            writer.u64(self.data)?;
        }
        if matches!(self.op, Op::Tagged | Op::Rts) {
            writer.u64(self.tag)?;
        }
        if self.op == Op::Rts {
            writer.u64(self.message_len)?;
        }
        for piece in pieces {
            writer.u64(piece.addr)?;
            writer.u64(piece.len)?;
            writer.u64(piece.key)?;
        }
        if self.op.is_atomic() {
            writer.u64(self.tag)?;
        }
        if self.flags.contains(FrameFlags::NAMED) {
            writer.u64(u64::from(self.status) << 32 | u64::from(self.name))?;
        }
        Some(writer.len())
    }

    #[inline]
    fn read_fields(&mut self, mut reader: Reader<'_>) -> Option<()> {
        if self.flags.contains(FrameFlags::DATA) {
            self.data = reader.u64()?;
        }
        if matches!(self.op, Op::Tagged | Op::Rts) {
            self.tag = reader.u64()?;
        }
        if self.op == Op::Rts {
            self.message_len = reader.u64()?;
        }
        for _ in 0..u32::from(self.pieces) * 3 {
            reader.u64()?;
        }
        if self.op.is_atomic() {
            self.tag = reader.u64()?;
        }
        if self.flags.contains(FrameFlags::NAMED) {
            let word = reader.u64()?;
            self.name = word as u32;
            self.status = (word >> 32) as u32;
        }
        Some(())
    }
}

/// The part that every header has, not yet checked.
struct Base {
    version: u8,
    op: u8,
    flags: u16,
    op_data: u8,
    rma_count: u8,
    header_len: u8,
    seq: u8,
    size: u64,
}

impl Base {
    #[inline]
    fn parse(bytes: &[u8], order: ByteOrder) -> Result<Self, FrameError> {
        let mut reader = Reader::new(bytes, order);
        (|| {
            Some(Self {
                version: reader.u8()?,
                op: reader.u8()?,
                flags: reader.u16()?,
                op_data: reader.u8()?,
                rma_count: reader.u8()?,
                header_len: reader.u8()?,
                seq: reader.u8()?,
                size: reader.u64()?,
            })
        })()
        .ok_or(FrameError::Truncated(BASE_LEN))
    }

    #[inline]
    fn checked(&self, dialect: Dialect) -> Result<(Op, FrameFlags), FrameError> {
        if self.version != VERSION {
            return Err(FrameError::Version(self.version));
        }
        let op = Op::from_raw(self.op)
            .filter(|op| dialect.atomics || !op.is_atomic())
            .ok_or(FrameError::Op(self.op))?;
        let understood = if dialect.named { u16::MAX } else { 0x00ff };
        let flags = FrameFlags::from_bits_truncate(self.flags & understood);
        let expected =
            header_len(op, flags, self.rma_count).ok_or(FrameError::RmaCount(self.rma_count))?;
        if self.header_len != expected {
            return Err(FrameError::HeaderLen {
                expected,
                found: self.header_len,
            });
        }
        let Some(body_len) = self.size.checked_sub(u64::from(self.header_len)) else {
            return Err(FrameError::Size(self.size));
        };
        if body_len != 0 && self.is_bare(op, dialect) {
            return Err(FrameError::Body(body_len));
        }
        Ok((op, flags))
    }

    fn is_bare(&self, op: Op, dialect: Dialect) -> bool {
        match op {
            Op::Rts | Op::Cts | Op::ReadReq => true,
            Op::Msg => self.op_data == OP_DATA_ACK || dialect.named && self.op_data == OP_DATA_FIN,
            _ => false,
        }
    }
}

impl Op {
    const fn from_raw(value: u8) -> Option<Self> {
        Some(match value {
            0 => Self::Msg,
            1 => Self::Tagged,
            2 => Self::ReadReq,
            3 => Self::ReadRsp,
            4 => Self::Write,
            5 => Self::Rts,
            6 => Self::Cts,
            7 => Self::Data,
            8 => Self::Atomic,
            9 => Self::FetchAtomic,
            10 => Self::CompareAtomic,
            _ => return None,
        })
    }

    const fn is_atomic(self) -> bool {
        matches!(self, Self::Atomic | Self::FetchAtomic | Self::CompareAtomic)
    }

    const fn names_memory(self) -> bool {
        matches!(self, Self::ReadReq | Self::Write) || self.is_atomic()
    }
}

/// Returns the length that a header must have; `None` when there are too many remote pieces. The count of pieces
/// means nothing in other operations: the C library leaves it uninitialised there.
#[inline]
fn header_len(op: Op, flags: FrameFlags, rma_count: u8) -> Option<u8> {
    let mut len = BASE_LEN;
    if flags.contains(FrameFlags::DATA) {
        len += 8;
    }
    len += match op {
        Op::Tagged => 8,
        Op::Rts => 16,
        Op::ReadReq | Op::Write => {
            if usize::from(rma_count) > RMA_PIECES_MAX {
                return None;
            }
            RMA_PIECE_LEN * usize::from(rma_count)
        }
        Op::Atomic | Op::FetchAtomic | Op::CompareAtomic => {
            if usize::from(rma_count) > RMA_PIECES_MAX {
                return None;
            }
            RMA_PIECE_LEN * usize::from(rma_count) + 8
        }
        _ => 0,
    };
    if flags.contains(FrameFlags::NAMED) {
        len += 8;
    }
    Some(len as u8)
}

#[cfg(test)]
mod tests;
