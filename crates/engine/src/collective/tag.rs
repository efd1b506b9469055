//! The tags of collective messages (docs/protocol/shm.md and tcp.md, "Collectives").
//!
//! The upper two bits are the kind of message, the next thirty the id of the group, or the join's count, and the lower half
//! tells its messages apart.

use oxifabric_types::Errno;

/// Number of ids of groups, and of joins that two endpoints can count.
pub(super) const GROUP_IDS: u32 = 1 << 30;

const KIND: u32 = 62;
const HALF: u32 = 32;

/// What a collective message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageTag {
    /// Data of an operation.
    Data {
        /// The group, as its receiver calls it.
        group: u32,
        /// The operation; the members count them.
        serial: u32,
    },
    /// The sender cannot go on in the group; without an error, it is nothing but a sign of life.
    Notice { group: u32, errno: u32 },
    /// A part of a join. The two ends count those that they both take part in.
    Join { count: u32 },
    /// The sender has given a join up.
    GivenUp { count: u32, errno: u32 },
}

impl MessageTag {
    /// A message that only makes sure that there is a connection.
    pub(super) const HELLO: Self = Self::Notice { group: 0, errno: 0 };

    pub(super) const fn encode(self) -> u64 {
        let (kind, id, rest) = match self {
            Self::Data { group, serial } => (0, group, serial),
            Self::Notice { group, errno } => (1, group, errno),
            Self::Join { count } => (2, count, 0),
            Self::GivenUp { count, errno } => (3, count, errno),
        };
        (kind << KIND) | ((id % GROUP_IDS) as u64) << HALF | rest as u64
    }

    pub(super) const fn decode(tag: u64) -> Self {
        let id = (tag >> HALF) as u32 % GROUP_IDS;
        let rest = tag as u32;
        match tag >> KIND {
            0 => Self::Data {
                group: id,
                serial: rest,
            },
            1 => Self::Notice {
                group: id,
                errno: rest,
            },
            2 => Self::Join { count: id },
            _ => Self::GivenUp {
                count: id,
                errno: rest,
            },
        }
    }
}

/// Reads an error number off a tag.
pub(super) fn errno(raw: u32) -> Errno {
    Errno::from_raw(i32::try_from(raw).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_decoded_as_they_were_encoded() {
        for tag in [
            MessageTag::Data {
                group: GROUP_IDS - 1,
                serial: u32::MAX,
            },
            MessageTag::HELLO,
            MessageTag::Notice {
                group: 5,
                errno: 104,
            },
            MessageTag::Join { count: 7 },
            MessageTag::GivenUp {
                count: 0,
                errno: 111,
            },
        ] {
            assert_eq!(MessageTag::decode(tag.encode()), tag);
        }
    }
}
