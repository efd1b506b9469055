//! How a request went.

use crate::bytes::{at, exactly, put};
use crate::{Fault, VERSION};

/// How a request went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// It is done; data of a read is in the initiator's memory.
    Done = 0,
    /// The disk failed.
    Failed = 1,
    /// The request is outside the disk, or not in whole blocks, or too long.
    Invalid = 2,
    /// The disk does not do this: it is read-only, or has no discard.
    Refused = 3,
    /// The disk has no space.
    NoSpace = 4,
}

/// A response as it travels. In C it is `struct kofi_blk_response`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Response {
    /// How it went.
    pub status: Status,
    /// Bytes of the disk that it was about: the length of a request that is done, otherwise zero.
    pub len: u32,
    /// The request.
    pub id: u64,
}

impl Response {
    /// Its length, in bytes.
    pub const LEN: usize = 16;

    /// Reads it.
    ///
    /// # Errors
    /// It is none.
    pub fn decode(bytes: &[u8]) -> Result<Self, Fault> {
        let bytes = exactly::<{ Self::LEN }>(bytes)?;
        if u16::from_le_bytes(at::<0, 2, _>(bytes)) != VERSION {
            return Err(Fault::Version);
        }
        let [status, reserved] = at::<2, 2, _>(bytes);
        if reserved != 0 {
            return Err(Fault::Reserved);
        }
        let status = match status {
            0 => Status::Done,
            1 => Status::Failed,
            2 => Status::Invalid,
            3 => Status::Refused,
            4 => Status::NoSpace,
            _ => return Err(Fault::Number),
        };
        Ok(Self {
            status,
            len: u32::from_le_bytes(at::<4, 4, _>(bytes)),
            id: u64::from_le_bytes(at::<8, 8, _>(bytes)),
        })
    }

    /// Writes it.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        put::<0, 2, _>(&mut bytes, VERSION.to_le_bytes());
        put::<2, 2, _>(&mut bytes, [self.status as u8, 0]);
        put::<4, 4, _>(&mut bytes, self.len.to_le_bytes());
        put::<8, 8, _>(&mut bytes, self.id.to_le_bytes());
        bytes
    }

    /// Whether it ends the request with this id and length.
    pub fn ends(&self, id: u64, len: u32) -> bool {
        let done = match self.status {
            Status::Done => len,
            _ => 0,
        };
        self.id == id && self.len == done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DONE: Response = Response {
        status: Status::Done,
        len: 4096,
        id: 0x0102_0304_0506_0708,
    };

    #[test]
    fn a_response_has_these_bytes() {
        let expected = *b"\x02\0\0\0\0\x10\0\0\x08\x07\x06\x05\x04\x03\x02\x01";
        assert_eq!(DONE.encode(), expected);
        assert_eq!(Response::decode(&expected), Ok(DONE));
    }

    #[test]
    fn each_fault_of_a_response_is_named() {
        let bytes = DONE.encode();
        let with = |place: usize, byte: u8| {
            let mut bytes = bytes;
            bytes[place] = byte;
            Response::decode(&bytes)
        };
        assert_eq!(Response::decode(&bytes[..15]), Err(Fault::Length));
        assert_eq!(with(0, 1), Err(Fault::Version));
        assert_eq!(with(2, 5), Err(Fault::Number));
        assert_eq!(with(3, 1), Err(Fault::Reserved));
    }

    #[test]
    fn a_response_ends_the_request_that_it_names_with_its_length_only() {
        assert!(DONE.ends(DONE.id, 4096));
        assert!(!DONE.ends(DONE.id + 1, 4096));
        assert!(!DONE.ends(DONE.id, 512), "more than was asked for");
        let failed = Response {
            status: Status::Failed,
            len: 0,
            ..DONE
        };
        assert!(failed.ends(DONE.id, 4096));
        let false_one = Response {
            len: 4096,
            ..failed
        };
        assert!(!false_one.ends(DONE.id, 4096));
    }
}
