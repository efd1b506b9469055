//! The message that opens a connection, in each direction (docs/protocol/tcp.md section 2).

use core::fmt;

use super::ByteOrder;
use super::cursor::{Reader, Writer};

/// The length of the header in bytes.
pub const HEADER_LEN: usize = 32;

/// Maximum number of bytes of data that follow the header.
pub const DATA_MAX: usize = 256;

const VERSION: u8 = 3;
const SAME_ORDER: u64 = 1;

/// What precedes the data of a connection message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CmHeader {
    /// What the message is.
    pub kind: CmKind,
    /// Number of bytes of data that follow, at most [`DATA_MAX`].
    pub data_len: u16,
    /// The byte order that frame headers will have on this connection.
    pub order: ByteOrder,
}

/// Kinds of connection messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CmKind {
    /// The initiator asks for a connection.
    Request = 0,
    /// The acceptor agrees.
    Response = 1,
    /// The acceptor refuses.
    Refusal = 6,
}

/// The rule that a connection message breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CmError {
    /// There are fewer than [`HEADER_LEN`] bytes.
    Truncated,
    /// The version is not 3.
    Version(u8),
    /// The kind is none of [`CmKind`].
    Kind(u8),
    /// More than [`DATA_MAX`] bytes of data are announced.
    TooLong(u16),
}

impl fmt::Display for CmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => write!(f, "a connection message of fewer than {HEADER_LEN} bytes"),
            Self::Version(found) => write!(f, "connection message version {found}, not {VERSION}"),
            Self::Kind(found) => write!(f, "connection message of unknown kind {found}"),
            Self::TooLong(found) => {
                write!(f, "{found} bytes of connection data, at most {DATA_MAX}")
            }
        }
    }
}

impl CmHeader {
    /// Reads a header from the start of `bytes`.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn parse(bytes: &[u8]) -> Result<Self, CmError> {
        let mut reader = Reader::new(bytes, ByteOrder::Big);
        let (version, kind, data_len) =
            (|| Some((reader.u8()?, reader.u8()?, reader.u16()?)))().ok_or(CmError::Truncated)?;
        let order_mark = bytes
            .get(HEADER_LEN - 8..HEADER_LEN)
            .and_then(|mark| Reader::new(mark, ByteOrder::NATIVE).u64())
            .ok_or(CmError::Truncated)?;
        if version != VERSION {
            return Err(CmError::Version(version));
        }
        let kind = match kind {
            0 => CmKind::Request,
            1 => CmKind::Response,
            6 => CmKind::Refusal,
            other => return Err(CmError::Kind(other)),
        };
        if usize::from(data_len) > DATA_MAX {
            return Err(CmError::TooLong(data_len));
        }
        let order = if order_mark == SAME_ORDER {
            ByteOrder::NATIVE
        } else {
            ByteOrder::Big
        };
        Ok(Self {
            kind,
            data_len,
            order,
        })
    }

    /// Writes a header from this machine to the start of `out`; its byte order mark is always the native one.
    /// Returns `None` when there is no room.
    pub fn emit(&self, out: &mut [u8]) -> Option<usize> {
        let mut writer = Writer::new(out, ByteOrder::Big);
        writer.put(&[VERSION, self.kind as u8])?;
        writer.u16(self.data_len)?;
        writer.put(&[0; 20])?;
        writer.put(&SAME_ORDER.to_ne_bytes())?;
        Some(writer.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: [u8; HEADER_LEN] = [
        3, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, //
        0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0,
    ];

    #[test]
    #[cfg(target_endian = "little")]
    fn reads_and_writes_the_bytes_of_a_request() {
        let header = CmHeader {
            kind: CmKind::Request,
            data_len: 8,
            order: ByteOrder::Little,
        };
        assert_eq!(CmHeader::parse(&REQUEST), Ok(header));
        let mut out = [0xff; HEADER_LEN];
        assert_eq!(header.emit(&mut out), Some(HEADER_LEN));
        assert_eq!(out, REQUEST);
    }

    #[test]
    fn a_foreign_byte_order_mark_asks_for_big_endian() {
        let mut bytes = REQUEST;
        bytes[24..].copy_from_slice(&1u64.swap_bytes().to_ne_bytes());
        let header = CmHeader::parse(&bytes).expect("only the mark differs");
        assert_eq!(header.order, ByteOrder::Big);
    }

    #[test]
    fn names_the_broken_rule() {
        assert_eq!(CmHeader::parse(&REQUEST[..31]), Err(CmError::Truncated));
        assert_eq!(CmHeader::parse(&[]), Err(CmError::Truncated));
        let with = |at: usize, value: u8| {
            let mut bytes = REQUEST;
            bytes[at] = value;
            CmHeader::parse(&bytes)
        };
        assert_eq!(with(0, 2), Err(CmError::Version(2)));
        assert_eq!(with(1, 2), Err(CmError::Kind(2)));
        assert_eq!(with(2, 1), Err(CmError::TooLong(0x108)));
    }

    #[test]
    fn does_not_write_beyond_the_end() {
        let header = CmHeader {
            kind: CmKind::Refusal,
            data_len: 0,
            order: ByteOrder::NATIVE,
        };
        assert_eq!(header.emit(&mut [0; HEADER_LEN - 1]), None);
    }
}
