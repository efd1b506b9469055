//! A message that is not over with its arrival: it waits for a receive, for its data, or for both.

use alloc::boxed::Box;
use oxifabric_mem::Iov;

use crate::atomic::Pending;
use crate::landing::Landing;
use crate::list::{Linked, Links};
use crate::matching::{Arrival, Class};
use crate::transmit::is_about;
use crate::{RemoteIov, Target};

/// What a message costs the unexpected budget beyond its bytes, so that empty ones are not free.
const ENTRY_BYTES: usize = 256;

/// A message between the arrival of its header and its completion.
#[derive(Debug)]
pub(crate) struct Message {
    links: Links,
    pub(crate) places: Places,
    pub(crate) arrival: Arrival,
    pub(crate) kept: Kept,
    pub(crate) fate: Fate,
    /// Bytes whose frames have arrived.
    pub(crate) begun: usize,
    /// Bodies and pulls that the link is still moving.
    pub(crate) moving: u32,
    /// Of a write of several pieces of memory: all of them.
    pub(crate) targets: Box<[Target]>,
}

/// Where a message stands among those that wait, when they are filed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    /// Among messages with its tag.
    pub(crate) tag: Links,
    /// Among messages from its peer.
    pub(crate) source: Links,
    /// Among all messages of its peer, whether they wait or not; of each message, filed or not.
    pub(crate) sender: Links,
}

impl Places {
    const NONE: Self = Self {
        tag: Links::NONE,
        source: Links::NONE,
        sender: Links::NONE,
    };
}

/// Where a message's data is as long as it is not in a receive's buffer.
#[derive(Debug)]
pub(crate) enum Kept {
    /// Nowhere: there is none, it goes straight to its landing, or it is dropped.
    Nothing,
    /// Here, completely.
    Bytes(Box<[u8]>),
    /// Here, or on its way to here.
    Buffer(Iov),
    /// Still in the link, which stands still until the message is wanted.
    Ahead,
    /// At the sender, to be pulled from this memory if there is any, otherwise to be asked for.
    Remote(Option<RemoteIov>),
    /// At the sender, which is this endpoint.
    Lent(Iov),
}

/// What becomes of a message.
#[derive(Debug)]
pub(crate) enum Fate {
    /// It waits in the unexpected queue.
    Waiting,
    /// A peek claimed it; a receive with this context will come.
    Claimed(usize),
    /// It goes here.
    Matched(Landing),
    /// It updates memory when it is here.
    Update(Box<Pending>),
    /// It is dropped: no receive will take it.
    Dropped,
}

impl Message {
    /// Makes a message of which nothing has arrived but its header.
    pub(crate) fn new(arrival: Arrival, kept: Kept, fate: Fate) -> Self {
        Self {
            links: Links::NONE,
            places: Places::NONE,
            arrival,
            kept,
            fate,
            begun: 0,
            moving: 0,
            targets: Box::default(),
        }
    }

    /// Makes a message that waits and of which everything is here.
    pub(crate) fn complete(arrival: Arrival, kept: Kept) -> Self {
        Self {
            begun: arrival.len,
            ..Self::new(arrival, kept, Fate::Waiting)
        }
    }

    /// Returns whether all data has arrived where it is kept or goes.
    pub(crate) const fn is_here(&self) -> bool {
        let moved = self.begun == self.arrival.len && self.moving == 0;
        moved && !matches!(self.kept, Kept::Remote(_) | Kept::Ahead)
    }

    /// Returns whether its sender has to send more of it unasked. An offer waits for this end.
    pub(crate) const fn is_owed(&self) -> bool {
        !self.is_here() && !matches!(self.kept, Kept::Remote(_) | Kept::Ahead | Kept::Lent(_))
    }

    /// Returns what it costs while it waits. Data that stays at the sender costs nothing.
    pub(crate) const fn cost(&self) -> usize {
        match self.kept {
            Kept::Nothing | Kept::Ahead | Kept::Remote(_) | Kept::Lent(_) => ENTRY_BYTES,
            Kept::Bytes(_) | Kept::Buffer(_) => cost(self.arrival.len),
        }
    }

    /// Returns whether it goes to the region with this key.
    pub(crate) fn writes_to(&self, key: u64) -> bool {
        match &self.fate {
            Fate::Matched(landing) if self.arrival.class == Class::Write => {
                is_about(landing.context, &self.targets, key)
            }
            Fate::Update(pending) => pending.is_about(key),
            _ => false,
        }
    }

    /// Describes where the part of the data that begins at `at` goes; `None` when it is dropped.
    pub(crate) fn part(&self, at: usize, len: usize) -> Option<Iov> {
        let part = match (&self.kept, &self.fate) {
            (Kept::Buffer(buffer), _) => buffer.slice(at, len),
            (Kept::Nothing, Fate::Matched(landing)) => landing.part(at, len),
            _ => return None,
        };
        (!part.is_empty()).then_some(part)
    }

    /// Places a part of the data that came with its header.
    pub(crate) fn write(&self, at: usize, bytes: &[u8]) {
        match (&self.kept, &self.fate) {
            (Kept::Buffer(buffer), _) => {
                buffer.write(at, bytes);
            }
            (Kept::Nothing, Fate::Matched(landing)) => landing.write(at, bytes),
            _ => {}
        }
    }
}

impl Linked for Message {
    fn links(&self) -> &Links {
        &self.links
    }
    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }
}

impl Kept {
    /// Places data that is here in the buffer of the receive that matched.
    pub(crate) fn copy_to(&self, landing: &Landing) {
        match self {
            Self::Bytes(bytes) => landing.write(0, bytes),
            Self::Buffer(iov) | Self::Lent(iov) => landing.copy_from(iov, iov.len()),
            Self::Nothing | Self::Ahead | Self::Remote(_) => {}
        }
    }
}

/// Returns what buffering `len` bytes costs.
pub(crate) const fn cost(len: usize) -> usize {
    len.saturating_add(ENTRY_BYTES)
}
