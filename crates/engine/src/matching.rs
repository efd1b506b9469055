//! What a message says of itself, and which messages a receive takes.

use oxifabric_types::{Errno, Flags, PeerId};

use crate::{Header, HeaderFlags, RxOp};

/// What finds the place for a message's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// The receives for untagged messages, fi_msg(3).
    Msg = 0,
    /// The receives for tagged messages, fi_tagged(3).
    Tagged = 1,
    /// The receives of collectives, fi_collective(3).
    Collective = 2,
    /// The memory that a write names, fi_rma(3). It never waits.
    Write = 3,
    /// The read that it answers. It never waits.
    Response = 4,
    /// The memory that an atomic names, fi_atomic(3). It never waits.
    Atomic = 5,
    /// The atomic that it answers. It never waits.
    Fetched = 6,
}

impl Class {
    /// Number of classes that have messages that wait for their receive: they come first.
    pub(crate) const WAITING: usize = 3;

    /// Reads it off an operation's flags.
    #[inline]
    pub(crate) const fn of(flags: Flags) -> Self {
        if flags.contains(Flags::TAGGED) {
            Self::Tagged
        } else {
            Self::Msg
        }
    }

    /// Returns the flags of completions that report such a message.
    #[inline]
    pub(crate) const fn flags(self) -> Flags {
        match self {
            Self::Msg => Flags::RECV.union(Flags::MSG),
            Self::Tagged => Flags::RECV.union(Flags::TAGGED),
            Self::Collective => Flags::COLLECTIVE,
            Self::Write => Flags::RMA.union(Flags::REMOTE_WRITE),
            Self::Response => Flags::RMA.union(Flags::READ),
            Self::Atomic => Flags::ATOMIC,
            Self::Fetched => Flags::ATOMIC.union(Flags::READ),
        }
    }

    /// Returns whether it belongs to an operation that this endpoint began.
    pub(crate) fn is_answer(self) -> bool {
        matches!(self, Self::Response | Self::Fetched)
    }

    /// Returns its row in a table of those that wait.
    #[inline]
    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

/// What an arrived header says of its message: source, class, length and match bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) from: PeerId,
    pub(crate) class: Class,
    pub(crate) flags: HeaderFlags,
    /// The id that the sender gave it.
    pub(crate) id: u32,
    pub(crate) tag: u64,
    pub(crate) data: u64,
    /// Bytes of the whole message, at most `isize::MAX`.
    pub(crate) len: usize,
}

impl Arrival {
    /// Reads a header; `None` when the message is longer than any memory.
    #[inline]
    pub(crate) fn new(from: PeerId, class: Class, header: &Header) -> Option<Self> {
        let len = isize::try_from(header.len).ok()? as usize;
        Some(Self {
            from,
            class,
            flags: header.flags,
            id: header.id,
            tag: header.tag,
            data: header.data,
            len,
        })
    }

    /// Returns whether the sender waits for an acknowledgement.
    #[inline]
    pub(crate) const fn wants_ack(&self) -> bool {
        self.flags
            .intersects(HeaderFlags::DELIVERY.union(HeaderFlags::MATCH))
    }

    /// Returns the flags of a completion that reports this message, fi_cq(3) "COMPLETION FLAGS".
    #[inline]
    pub(crate) fn completion_flags(&self) -> Flags {
        let mut flags = self.class.flags();
        if self.flags.contains(HeaderFlags::DATA) {
            flags |= Flags::REMOTE_CQ_DATA;
        }
        flags
    }
}

/// The messages that a receive takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pattern {
    pub(crate) class: Class,
    from: PeerId,
    tag: u64,
    ignore: u64,
}

impl Pattern {
    /// Reads it off a receive. Without FI_DIRECTED_RECV the source does not count, fi_getinfo(3).
    #[inline]
    pub(crate) fn new(op: &RxOp, directed: bool) -> Self {
        let class = Class::of(op.flags);
        Self {
            class,
            from: if directed { op.from } else { PeerId::ANY },
            tag: op.tag,
            ignore: match class {
                Class::Msg => u64::MAX,
                _ => op.ignore,
            },
        }
    }

    /// Makes the pattern of a receive for one tag of one peer.
    pub(crate) const fn exact(class: Class, from: PeerId, tag: u64) -> Self {
        Self {
            class,
            from,
            tag,
            ignore: 0,
        }
    }

    /// Returns whether a receive of the message's class takes it: the tags agree in all bits that are not
    /// ignored, and so do the sources, fi_tagged(3).
    #[inline]
    pub(crate) const fn accepts(&self, arrival: &Arrival) -> bool {
        (self.tag ^ arrival.tag) & !self.ignore == 0 && self.takes_from(arrival.from)
    }

    /// Returns whether it takes messages of that peer at all.
    #[inline]
    pub(crate) const fn takes_from(&self, peer: PeerId) -> bool {
        self.from.0 == PeerId::ANY.0 || self.from.0 == peer.0
    }

    /// Returns whether it takes messages of that peer only.
    pub(crate) const fn is_only_from(&self, peer: PeerId) -> bool {
        self.from.0 == peer.0
    }

    /// Returns whether all bits of the tag count.
    #[inline]
    pub(crate) const fn is_exact(&self) -> bool {
        self.ignore == 0
    }

    /// Returns the peer whose messages it takes; [`PeerId::ANY`] if those of all.
    pub(crate) const fn source(&self) -> PeerId {
        self.from
    }

    /// Returns the tag, in which ignored bits say nothing.
    pub(crate) const fn tag(&self) -> u64 {
        self.tag
    }
}

/// Reads an answer's verdict off [`Header::data`]: zero or an errno.
pub(crate) fn verdict(data: u64) -> Result<(), Errno> {
    match data {
        0 => Ok(()),
        errno => Err(Errno::from_raw(i32::try_from(errno).unwrap_or(0))),
    }
}
