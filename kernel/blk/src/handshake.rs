//! What both sides say when they connect.

use crate::bytes::{at, exactly, put};
use crate::{DEPTH_MAX, Fault, INLINE_MAX, LONGEST_MAX, SECTOR, VERSION};

/// The first bytes of each handshake.
const MAGIC: [u8; 4] = *b"kofB";

/// What goes with the initiator's request for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Names the initiator. Its connections follow each other: the target ends an earlier one first.
    pub initiator: [u8; 16],
    /// How many requests it would like to have under way, and how long.
    pub limits: Limits,
}

/// How much may be under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Limits {
    /// Requests under way.
    pub depth: u32,
    /// Bytes of a read or write.
    pub longest: u32,
}

/// What goes with the target's acceptance. In C it is `struct kofi_blk_disk`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Welcome {
    /// What it grants, at most what was asked for.
    pub limits: Limits,
    /// Size of a block, in bytes: a power of two from 512 to 4096.
    pub block: u32,
    /// How many bytes of data a write's request may carry: up to [`INLINE_MAX`] and the longest write; with zero none does.
    pub inline_data: u32,
    /// What the disk can do.
    pub features: Features,
    /// Size of the disk, in sectors, in whole blocks.
    pub capacity: u64,
    /// Names the content: another number is another disk, even if it has the same size.
    pub content: u64,
}

/// What a disk can do, a set of bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Features(pub u16);

impl Features {
    /// It takes no writes.
    pub const READ_ONLY: u16 = 1 << 0;
    /// Written data may be in a cache until a flush.
    pub const CACHE: u16 = 1 << 1;
    /// It takes [`crate::Op::Discard`].
    pub const DISCARD: u16 = 1 << 2;
    /// It takes [`crate::Op::Zero`].
    pub const ZERO: u16 = 1 << 3;
    const ALL: u16 = Self::READ_ONLY | Self::CACHE | Self::DISCARD | Self::ZERO;

    /// Whether a bit is set.
    pub const fn has(self, bit: u16) -> bool {
        self.0 & bit != 0
    }
}

/// Why a target refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Reason {
    /// It does not speak this version.
    Version = 1,
    /// The handshake makes no sense to it.
    Handshake = 2,
    /// It has as many connections as it takes, or no memory.
    Full = 3,
}

/// What goes with the target's refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
}

impl Limits {
    const fn is_meant(self) -> bool {
        0 < self.depth
            && self.depth <= DEPTH_MAX
            && 4096 <= self.longest
            && self.longest <= LONGEST_MAX
            && self.longest.is_power_of_two()
    }

    /// Returns what both sides can do.
    #[must_use]
    pub fn within(self, other: Self) -> Self {
        Self {
            depth: self.depth.min(other.depth),
            longest: self.longest.min(other.longest),
        }
    }
}

/// Checks how a handshake begins, whatever its version.
fn begin<const N: usize>(bytes: &[u8]) -> Result<&[u8; N], Fault> {
    let magic = bytes.first_chunk::<4>().ok_or(Fault::Length)?;
    if *magic != MAGIC {
        return Err(Fault::Magic);
    }
    let version = bytes.get(4..6).ok_or(Fault::Length)?;
    if version != VERSION.to_le_bytes() {
        return Err(Fault::Version);
    }
    // A provider may deliver data of connections with zeros behind it.
    let (message, padding) = bytes.split_at_checked(N).ok_or(Fault::Length)?;
    match padding.iter().all(|byte| *byte == 0) {
        true => exactly(message),
        false => Err(Fault::Reserved),
    }
}

fn started<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    put::<0, 4, N>(&mut bytes, MAGIC);
    put::<4, 2, N>(&mut bytes, VERSION.to_le_bytes());
    bytes
}

impl Hello {
    /// Its length, in bytes.
    pub const LEN: usize = 32;

    /// Reads it.
    ///
    /// # Errors
    /// It is none.
    pub fn decode(bytes: &[u8]) -> Result<Self, Fault> {
        let bytes = begin::<{ Self::LEN }>(bytes)?;
        if at::<6, 2, _>(bytes) != [0; 2] {
            return Err(Fault::Reserved);
        }
        let limits = Limits {
            depth: u32::from_le_bytes(at::<8, 4, _>(bytes)),
            longest: u32::from_le_bytes(at::<12, 4, _>(bytes)),
        };
        match limits.is_meant() {
            true => Ok(Self {
                initiator: at::<16, 16, _>(bytes),
                limits,
            }),
            false => Err(Fault::Limit),
        }
    }

    /// Writes it.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut bytes = started();
        put::<8, 4, _>(&mut bytes, self.limits.depth.to_le_bytes());
        put::<12, 4, _>(&mut bytes, self.limits.longest.to_le_bytes());
        put::<16, 16, _>(&mut bytes, self.initiator);
        bytes
    }
}

impl Welcome {
    /// Its length, in bytes.
    pub const LEN: usize = 40;

    /// Reads it.
    ///
    /// # Errors
    /// It is none, or says what no disk is like.
    pub fn decode(bytes: &[u8]) -> Result<Self, Fault> {
        let bytes = begin::<{ Self::LEN }>(bytes)?;
        let welcome = Self {
            features: Features(u16::from_le_bytes(at::<6, 2, _>(bytes))),
            limits: Limits {
                depth: u32::from_le_bytes(at::<8, 4, _>(bytes)),
                longest: u32::from_le_bytes(at::<12, 4, _>(bytes)),
            },
            block: u32::from_le_bytes(at::<16, 4, _>(bytes)),
            inline_data: u32::from_le_bytes(at::<20, 4, _>(bytes)),
            capacity: u64::from_le_bytes(at::<24, 8, _>(bytes)),
            content: u64::from_le_bytes(at::<32, 8, _>(bytes)),
        };
        if welcome.features.0 & !Features::ALL != 0 {
            return Err(Fault::Number);
        }
        match welcome.is_meant() {
            true => Ok(welcome),
            false => Err(Fault::Limit),
        }
    }

    /// Whether a disk can be like this: positions in bytes fit 63 bits.
    pub const fn is_meant(&self) -> bool {
        let block = self.block as u64;
        self.limits.is_meant()
            && self.inline_data <= INLINE_MAX
            && self.inline_data <= self.limits.longest
            && self.block.is_power_of_two()
            && SECTOR <= block
            && block <= 4096
            && 0 < self.capacity
            && self.capacity <= i64::MAX as u64 / SECTOR
            && self.capacity.is_multiple_of(block / SECTOR)
    }

    /// Writes it.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut bytes = started();
        put::<6, 2, _>(&mut bytes, self.features.0.to_le_bytes());
        put::<8, 4, _>(&mut bytes, self.limits.depth.to_le_bytes());
        put::<12, 4, _>(&mut bytes, self.limits.longest.to_le_bytes());
        put::<16, 4, _>(&mut bytes, self.block.to_le_bytes());
        put::<20, 4, _>(&mut bytes, self.inline_data.to_le_bytes());
        put::<24, 8, _>(&mut bytes, self.capacity.to_le_bytes());
        put::<32, 8, _>(&mut bytes, self.content.to_le_bytes());
        bytes
    }
}

impl Refusal {
    /// Its length, in bytes.
    pub const LEN: usize = 8;

    /// Reads it.
    ///
    /// # Errors
    /// It is none.
    pub fn decode(bytes: &[u8]) -> Result<Self, Fault> {
        let bytes = begin::<{ Self::LEN }>(bytes)?;
        let reason = match u16::from_le_bytes(at::<6, 2, _>(bytes)) {
            1 => Reason::Version,
            2 => Reason::Handshake,
            3 => Reason::Full,
            _ => return Err(Fault::Number),
        };
        Ok(Self { reason })
    }

    /// Writes it.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut bytes = started();
        put::<6, 2, _>(&mut bytes, (self.reason as u16).to_le_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: Hello = Hello {
        initiator: *b"0123456789abcdef",
        limits: Limits {
            depth: 64,
            longest: 1 << 17,
        },
    };

    const WELCOME: Welcome = Welcome {
        limits: HELLO.limits,
        block: 512,
        inline_data: 4096,
        features: Features(Features::CACHE | Features::DISCARD),
        capacity: 0x1_0203,
        content: 0x0807_0605_0403_0201,
    };

    #[test]
    fn a_hello_has_these_bytes() {
        let expected = *b"kofB\x02\0\0\0\x40\0\0\0\0\0\x02\x000123456789abcdef";
        assert_eq!(HELLO.encode(), expected);
        assert_eq!(Hello::decode(&expected), Ok(HELLO));
    }

    #[test]
    fn a_welcome_has_these_bytes() {
        let expected = *b"kofB\x02\0\x06\0\x40\0\0\0\0\0\x02\0\0\x02\0\0\0\x10\0\0\
            \x03\x02\x01\0\0\0\0\0\x01\x02\x03\x04\x05\x06\x07\x08";
        assert_eq!(WELCOME.encode(), expected);
        assert_eq!(Welcome::decode(&expected), Ok(WELCOME));
    }

    #[test]
    fn a_refusal_has_these_bytes() {
        let refusal = Refusal {
            reason: Reason::Full,
        };
        assert_eq!(refusal.encode(), *b"kofB\x02\0\x03\0");
        assert_eq!(Refusal::decode(&refusal.encode()), Ok(refusal));
        assert_eq!(Refusal::decode(b"kofB\x02\0\x04\0"), Err(Fault::Number));
    }

    #[test]
    fn each_fault_of_a_hello_is_named() {
        let bytes = HELLO.encode();
        let with = |place: usize, byte: u8| {
            let mut bytes = bytes;
            bytes[place] = byte;
            Hello::decode(&bytes)
        };
        assert_eq!(Hello::decode(&bytes[..31]), Err(Fault::Length));
        assert_eq!(Hello::decode(&bytes[..3]), Err(Fault::Length));
        assert_eq!(with(0, b'x'), Err(Fault::Magic));
        assert_eq!(with(4, 1), Err(Fault::Version));
        assert_eq!(with(6, 1), Err(Fault::Reserved));
        assert_eq!(with(8, 0), Err(Fault::Limit), "no request at all");
        assert_eq!(with(10, 1), Err(Fault::Limit), "65,600 requests");
        assert_eq!(with(12, 1), Err(Fault::Limit), "not a power of two");
        assert_eq!(with(15, 1), Err(Fault::Limit), "long requests");
    }

    #[test]
    fn zeros_behind_a_handshake_are_padding() {
        let mut long = [0; 64];
        long[..Hello::LEN].copy_from_slice(&HELLO.encode());
        assert_eq!(Hello::decode(&long), Ok(HELLO));
        long[63] = 1;
        assert_eq!(Hello::decode(&long), Err(Fault::Reserved));
    }

    #[test]
    fn a_disk_is_whole_blocks_and_its_end_has_a_position_in_bytes() {
        let disk = |block, capacity| {
            Welcome::decode(
                &Welcome {
                    block,
                    capacity,
                    ..WELCOME
                }
                .encode(),
            )
        };
        assert!(disk(4096, 8).is_ok());
        assert_eq!(disk(4096, 9), Err(Fault::Limit));
        assert_eq!(disk(512, 0), Err(Fault::Limit));
        assert_eq!(disk(256, 8), Err(Fault::Limit));
        assert_eq!(disk(8192, 16), Err(Fault::Limit));
        assert_eq!(disk(1536, 9), Err(Fault::Limit));
        assert!(disk(512, (1 << 54) - 1).is_ok());
        assert_eq!(disk(512, 1 << 54), Err(Fault::Limit));
    }

    #[test]
    fn a_request_carries_no_more_than_has_a_bound() {
        let disk = |inline_data, longest| {
            let limits = Limits {
                longest,
                ..HELLO.limits
            };
            let disk = Welcome {
                inline_data,
                limits,
                ..WELCOME
            };
            Welcome::decode(&disk.encode()).map(|_| ())
        };
        assert_eq!(disk(0, 4096), Ok(()));
        assert_eq!(disk(INLINE_MAX, 1 << 17), Ok(()));
        assert_eq!(disk(INLINE_MAX + 1, 1 << 17), Err(Fault::Limit));
        assert_eq!(disk(8192, 4096), Err(Fault::Limit), "more than a write");
    }
}
