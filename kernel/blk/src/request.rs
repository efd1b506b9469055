//! What the initiator asks for, and what the target makes of it.

use crate::bytes::{at, put};
use crate::{Fault, Features, SECTOR, Status, VERSION, Welcome};

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Op {
    /// Nothing: an answer shows that the target serves.
    Nothing = 0,
    /// The target writes blocks of the disk into the initiator's memory.
    Read = 1,
    /// The target reads blocks from the initiator's memory.
    Write = 2,
    /// What was written before is made durable.
    Flush = 3,
    /// The content of blocks is not needed any more.
    Discard = 4,
    /// Blocks become zero.
    Zero = 5,
}

impl Op {
    /// Returns the operation with a number.
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Nothing),
            1 => Some(Self::Read),
            2 => Some(Self::Write),
            3 => Some(Self::Flush),
            4 => Some(Self::Discard),
            5 => Some(Self::Zero),
            _ => None,
        }
    }
}

/// How it is to be done, a set of bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// What is written is durable when it is answered.
    pub const DURABLE: u8 = 1 << 0;
    /// The data of a write is behind the request, in the same message.
    pub const INLINE: u8 = 1 << 1;
    const ALL: u8 = Self::DURABLE | Self::INLINE;

    /// Returns the set with these bits; `None` if one is none of those above.
    pub const fn from_bits(bits: u8) -> Option<Self> {
        match bits & !Self::ALL {
            0 => Some(Self(bits)),
            _ => None,
        }
    }

    /// Whether a bit is set.
    pub const fn has(self, bit: u8) -> bool {
        self.0 & bit != 0
    }
}

/// A request as it travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What is to be done.
    pub op: Op,
    /// How.
    pub flags: Flags,
    /// How many bytes of the disk.
    pub len: u32,
    /// What the response names; no other request that is under way has it.
    pub id: u64,
    /// Where on the disk, in sectors.
    pub sector: u64,
    /// Where in the initiator's memory, as its domain has it; zero if the data is behind the request.
    pub addr: u64,
    /// The key of that memory; zero if the data is behind the request.
    pub key: u64,
}

/// What a target carries out: inside its disk and its limits. In C it is `struct kofi_blk_job`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Job {
    /// What is to be done.
    pub op: Op,
    /// What is written is durable when it is answered.
    pub is_durable: bool,
    /// The `len` bytes of data are behind the request.
    pub is_inline: bool,
    /// Where on the disk, in bytes: with `len` at most the capacity.
    pub position: u64,
    /// How many bytes: whole blocks, of reads and writes at most [`crate::Limits::longest`].
    pub len: u32,
}

impl Request {
    /// Its length, in bytes, without the data that may be behind it.
    pub const LEN: usize = 40;

    /// Reads a message: a request, and behind it as many bytes of data as it says, which are at [`Request::LEN`].
    ///
    /// # Errors
    /// It is none.
    pub fn decode(bytes: &[u8]) -> Result<Self, Fault> {
        let (bytes, data) = bytes
            .split_first_chunk::<{ Self::LEN }>()
            .ok_or(Fault::Length)?;
        if u16::from_le_bytes(at::<0, 2, _>(bytes)) != VERSION {
            return Err(Fault::Version);
        }
        let [number, flags] = at::<2, 2, _>(bytes);
        let request = Self {
            op: Op::from_number(number).ok_or(Fault::Number)?,
            flags: Flags::from_bits(flags).ok_or(Fault::Number)?,
            len: u32::from_le_bytes(at::<4, 4, _>(bytes)),
            id: u64::from_le_bytes(at::<8, 8, _>(bytes)),
            sector: u64::from_le_bytes(at::<16, 8, _>(bytes)),
            addr: u64::from_le_bytes(at::<24, 8, _>(bytes)),
            key: u64::from_le_bytes(at::<32, 8, _>(bytes)),
        };
        request.check_data(data).map(|()| request)
    }

    /// Checks what is behind the request.
    fn check_data(&self, data: &[u8]) -> Result<(), Fault> {
        if !self.flags.has(Flags::INLINE) {
            return match data.is_empty() {
                true => Ok(()),
                false => Err(Fault::Length),
            };
        }
        if self.op != Op::Write {
            return Err(Fault::Number);
        }
        if data.len() as u64 != u64::from(self.len) {
            return Err(Fault::Length);
        }
        match (self.addr, self.key) {
            (0, 0) => Ok(()),
            _ => Err(Fault::Reserved),
        }
    }

    /// Writes it, without data.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        put::<0, 2, _>(&mut bytes, VERSION.to_le_bytes());
        put::<2, 2, _>(&mut bytes, [self.op as u8, self.flags.0]);
        put::<4, 4, _>(&mut bytes, self.len.to_le_bytes());
        put::<8, 8, _>(&mut bytes, self.id.to_le_bytes());
        put::<16, 8, _>(&mut bytes, self.sector.to_le_bytes());
        put::<24, 8, _>(&mut bytes, self.addr.to_le_bytes());
        put::<32, 8, _>(&mut bytes, self.key.to_le_bytes());
        bytes
    }

    /// Holds the request against the disk as it was described to the initiator.
    ///
    /// # Errors
    /// What the response says instead: `Invalid` outside the disk or its limits, `Refused` for what the disk cannot do.
    pub fn job(&self, disk: &Welcome) -> Result<Job, Status> {
        self.may(disk.features)?;
        let (sector, len) = match self.op {
            Op::Nothing | Op::Flush => (0, 0),
            _ => (self.sector, self.len),
        };
        if len != self.len || sector != self.sector {
            return Err(Status::Invalid);
        }
        let is_moved = matches!(self.op, Op::Read | Op::Write);
        if is_moved && len > disk.limits.longest {
            return Err(Status::Invalid);
        }
        let is_inline = self.flags.has(Flags::INLINE);
        if is_inline && len > disk.inline_data {
            return Err(Status::Invalid);
        }
        let has_blocks = !matches!(self.op, Op::Nothing | Op::Flush);
        let position = sector.checked_mul(SECTOR).ok_or(Status::Invalid)?;
        let end = position.checked_add(len.into()).ok_or(Status::Invalid)?;
        let size = disk.capacity.checked_mul(SECTOR).ok_or(Status::Invalid)?;
        let block = u64::from(disk.block);
        if end > size
            || !position.is_multiple_of(block)
            || !u64::from(len).is_multiple_of(block)
            || has_blocks == (len == 0)
        {
            return Err(Status::Invalid);
        }
        Ok(Job {
            op: self.op,
            is_durable: self.flags.has(Flags::DURABLE),
            is_inline,
            position,
            len,
        })
    }

    const fn may(&self, features: Features) -> Result<(), Status> {
        let is_writing = matches!(self.op, Op::Write | Op::Discard | Op::Zero);
        let is_refused = is_writing && features.has(Features::READ_ONLY)
            || matches!(self.op, Op::Discard) && !features.has(Features::DISCARD)
            || matches!(self.op, Op::Zero) && !features.has(Features::ZERO);
        match is_refused {
            true => Err(Status::Refused),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    const WRITE: Request = Request {
        op: Op::Write,
        flags: Flags(Flags::DURABLE),
        len: 4096,
        id: 0x0102_0304_0506_0708,
        sector: 24,
        addr: 0x1_0000,
        key: 7,
    };

    const DISK: Welcome = Welcome {
        limits: Limits {
            depth: 8,
            longest: 65_536,
        },
        block: 4096,
        inline_data: 4096,
        features: Features(Features::CACHE | Features::DISCARD | Features::ZERO),
        capacity: 1024,
        content: 1,
    };

    #[test]
    fn a_request_has_these_bytes() {
        let expected = *b"\x02\0\x02\x01\0\x10\0\0\x08\x07\x06\x05\x04\x03\x02\x01\
            \x18\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\x07\0\0\0\0\0\0\0";
        assert_eq!(WRITE.encode(), expected);
        assert_eq!(Request::decode(&expected), Ok(WRITE));
    }

    #[test]
    fn each_fault_of_a_request_is_named() {
        let bytes = WRITE.encode();
        let with = |place: usize, byte: u8| {
            let mut bytes = bytes;
            bytes[place] = byte;
            Request::decode(&bytes)
        };
        assert_eq!(Request::decode(&bytes[..39]), Err(Fault::Length));
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(Request::decode(&longer), Err(Fault::Length), "with data");
        assert_eq!(with(0, 1), Err(Fault::Version));
        assert_eq!(with(2, 6), Err(Fault::Number));
        assert_eq!(with(3, 4), Err(Fault::Number));
    }

    /// A write with this many bytes of data behind it.
    fn carrying(request: &Request, count: usize) -> ([u8; 3 * 4096], usize) {
        let mut message = [7; 3 * 4096];
        message[..Request::LEN].copy_from_slice(&request.encode());
        (message, Request::LEN + count)
    }

    const CARRYING: Request = Request {
        flags: Flags(Flags::INLINE),
        addr: 0,
        key: 0,
        ..WRITE
    };

    #[test]
    fn a_write_carries_exactly_its_data() {
        let decode = |request: &Request, count| {
            let (message, len) = carrying(request, count);
            Request::decode(&message[..len])
        };
        assert_eq!(decode(&CARRYING, 4096), Ok(CARRYING));
        let job = CARRYING.job(&DISK).unwrap();
        assert!(job.is_inline && job.len == 4096);
        for count in [0, 1, 4095, 4097, 8192] {
            assert_eq!(decode(&CARRYING, count), Err(Fault::Length), "{count}");
        }
        assert_eq!(decode(&WRITE, 4096), Err(Fault::Length), "unannounced");
        let with = |op, addr, key| {
            let request = Request {
                op,
                addr,
                key,
                ..CARRYING
            };
            decode(&request, 4096)
        };
        assert_eq!(with(Op::Read, 0, 0), Err(Fault::Number));
        assert_eq!(with(Op::Zero, 0, 0), Err(Fault::Number));
        assert_eq!(with(Op::Write, 1, 0), Err(Fault::Reserved));
        assert_eq!(with(Op::Write, 0, 1), Err(Fault::Reserved));
    }

    #[test]
    fn more_data_than_the_target_lets_a_request_carry_is_no_job() {
        let longer = Request {
            len: 8192,
            ..CARRYING
        };
        let (message, len) = carrying(&longer, 8192);
        assert_eq!(Request::decode(&message[..len]), Ok(longer));
        assert_eq!(longer.job(&DISK), Err(Status::Invalid));
        let none = Welcome {
            inline_data: 0,
            ..DISK
        };
        assert_eq!(CARRYING.job(&none), Err(Status::Invalid));
    }

    #[test]
    fn a_job_is_where_the_request_says() {
        let job = Job {
            op: Op::Write,
            is_durable: true,
            is_inline: false,
            position: 12_288,
            len: 4096,
        };
        assert_eq!(WRITE.job(&DISK), Ok(job));
    }

    #[test]
    fn only_what_is_inside_the_disk_becomes_a_job() {
        let at = |sector, len| {
            Request {
                sector,
                len,
                ..WRITE
            }
            .job(&DISK)
            .map(|_| ())
        };
        assert_eq!(at(1016, 4096), Ok(()), "the last block");
        assert_eq!(at(1024, 4096), Err(Status::Invalid), "behind it");
        assert_eq!(at(1016, 8192), Err(Status::Invalid), "across the end");
        assert_eq!(at(u64::MAX, 4096), Err(Status::Invalid));
        assert_eq!(at(u64::MAX / 512, 4096), Err(Status::Invalid));
        assert_eq!(at(0, 0), Err(Status::Invalid), "of nothing");
        assert_eq!(at(0, 512), Err(Status::Invalid), "part of a block");
        assert_eq!(at(1, 4096), Err(Status::Invalid), "between blocks");
        assert_eq!(at(0, 65_536), Ok(()), "as long as is granted");
        assert_eq!(at(0, 69_632), Err(Status::Invalid), "longer");
    }

    #[test]
    fn what_moves_no_data_may_be_longer_than_a_buffer() {
        let discard = Request {
            op: Op::Discard,
            sector: 0,
            len: 1024 * 512,
            ..WRITE
        };
        assert!(discard.job(&DISK).is_ok());
        let longer = Request {
            len: 1025 * 512,
            ..discard
        };
        assert_eq!(longer.job(&DISK), Err(Status::Invalid));
    }

    #[test]
    fn a_flush_names_no_blocks() {
        let flush = Request {
            op: Op::Flush,
            sector: 0,
            len: 0,
            ..WRITE
        };
        assert!(flush.job(&DISK).is_ok());
        assert_eq!(
            Request { len: 4096, ..flush }.job(&DISK),
            Err(Status::Invalid)
        );
        assert_eq!(
            Request { sector: 8, ..flush }.job(&DISK),
            Err(Status::Invalid)
        );
    }

    #[test]
    fn what_the_disk_cannot_do_is_refused() {
        let with = |op, features| {
            let disk = Welcome {
                features: Features(features),
                ..DISK
            };
            Request { op, ..WRITE }.job(&disk).map(|_| ())
        };
        assert_eq!(with(Op::Read, Features::READ_ONLY), Ok(()));
        assert_eq!(with(Op::Write, Features::READ_ONLY), Err(Status::Refused));
        let all = Features::READ_ONLY | Features::DISCARD | Features::ZERO;
        assert_eq!(with(Op::Discard, all), Err(Status::Refused));
        assert_eq!(with(Op::Zero, all), Err(Status::Refused));
        assert_eq!(with(Op::Discard, Features::ZERO), Err(Status::Refused));
        assert_eq!(with(Op::Zero, Features::DISCARD), Err(Status::Refused));
    }
}
