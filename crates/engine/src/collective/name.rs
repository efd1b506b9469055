//! The tags of collective messages (docs/protocol/shm.md and tcp.md, "Collectives").
//!
//! The upper two bits say what the message is, the next thirty name the group, or the join, and the lower half says
//! which of its messages.

use oxifabric_types::Errno;

/// How many groups an endpoint can name, and how many joins two can count.
pub(super) const NAMES: u32 = 1 << 30;

const KIND: u32 = 62;
const HALF: u32 = 32;

/// What a collective message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
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

impl Name {
    /// A message that only makes sure that there is a connection.
    pub(super) const HELLO: Self = Self::Notice { group: 0, errno: 0 };

    pub(super) const fn tag(self) -> u64 {
        let (kind, name, rest) = match self {
            Self::Data { group, serial } => (0, group, serial),
            Self::Notice { group, errno } => (1, group, errno),
            Self::Join { count } => (2, count, 0),
            Self::GivenUp { count, errno } => (3, count, errno),
        };
        (kind << KIND) | ((name % NAMES) as u64) << HALF | rest as u64
    }

    pub(super) const fn of(tag: u64) -> Self {
        let name = (tag >> HALF) as u32 % NAMES;
        let rest = tag as u32;
        match tag >> KIND {
            0 => Self::Data {
                group: name,
                serial: rest,
            },
            1 => Self::Notice {
                group: name,
                errno: rest,
            },
            2 => Self::Join { count: name },
            _ => Self::GivenUp {
                count: name,
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
    fn names_survive_their_way() {
        for name in [
            Name::Data {
                group: NAMES - 1,
                serial: u32::MAX,
            },
            Name::HELLO,
            Name::Notice {
                group: 5,
                errno: 104,
            },
            Name::Join { count: 7 },
            Name::GivenUp {
                count: 0,
                errno: 111,
            },
        ] {
            assert_eq!(Name::of(name.tag()), name);
        }
    }
}
