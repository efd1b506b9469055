//! A message that is not over with its arrival: it waits for a receive, for its data, or for both.

use alloc::boxed::Box;
use oxifabric_mem::Iov;

use crate::atomic::Pending;
use crate::list::{Linked, Links};
use crate::matching::{Arrival, Class};
use crate::rx_placement::RxPlacement;
use crate::transmit::is_about;
use crate::{HeaderFlags, RemoteIov, Target};

/// What a message costs the unexpected budget beyond its bytes, so that empty ones are not free.
const ENTRY_BYTES: usize = 256;

/// A message between the arrival of its header and its completion.
#[derive(Debug)]
pub(crate) struct Message {
    links: Links,
    pub(crate) index_links: IndexLinks,
    pub(crate) arrival: Arrival,
    pub(crate) rx_data: RxData,
    pub(crate) match_state: MatchState,
    /// Bytes whose frames have arrived.
    pub(crate) begun: usize,
    /// Bytes that came with its announcement, which the link keeps until it is asked for the rest.
    pub(crate) held: usize,
    /// Bodies and pulls that the link is still moving.
    pub(crate) moving: u32,
    /// Of a write of several pieces of memory: all of them.
    pub(crate) targets: Box<[Target]>,
}

/// Links of a message in the chains of the match index, where there is one, and in that of its sender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexLinks {
    /// Among messages with its tag.
    pub(crate) tag: Links,
    /// Among messages from its peer.
    pub(crate) source: Links,
    /// Among all messages of its peer, waiting or not, indexed or not.
    pub(crate) sender: Links,
}

impl IndexLinks {
    const NONE: Self = Self {
        tag: Links::NONE,
        source: Links::NONE,
        sender: Links::NONE,
    };
}

/// Data of a message as long as it is not in a receive's buffer.
#[derive(Debug)]
pub(crate) enum RxData {
    /// Nowhere: there is none, it goes straight to its placement, or it is dropped.
    Nothing,
    /// Here, completely.
    Bytes(Box<[u8]>),
    /// Here, or on its way to here.
    Buffer(Iov),
    /// Still in the link, which reads nothing more from the peer until a receive takes the message or there is memory for it.
    Deferred,
    /// At the sender, to be pulled from this memory if there is any, otherwise to be asked for.
    Remote(Option<RemoteIov>),
    /// In the sender's memory, as this endpoint is the sender.
    Loopback(Iov),
}

/// What becomes of a message: whether it waits, has matched or is dropped.
#[derive(Debug)]
pub(crate) enum MatchState {
    /// It waits in the unexpected queue.
    Waiting,
    /// A peek claimed it; a receive with this context will come.
    Claimed(usize),
    /// It goes here.
    Matched(RxPlacement),
    /// It updates memory when it is here.
    Update(Box<Pending>),
    /// It is dropped: no receive will take it.
    Dropped,
}

impl Message {
    /// Makes a message of which nothing has arrived but its header.
    pub(crate) fn new(arrival: Arrival, rx_data: RxData, match_state: MatchState) -> Self {
        Self {
            links: Links::NONE,
            index_links: IndexLinks::NONE,
            arrival,
            rx_data,
            match_state,
            begun: 0,
            held: 0,
            moving: 0,
            targets: Box::default(),
        }
    }

    /// Makes a message that waits and of which everything is here.
    pub(crate) fn complete(arrival: Arrival, rx_data: RxData) -> Self {
        Self {
            begun: arrival.len,
            ..Self::new(arrival, rx_data, MatchState::Waiting)
        }
    }

    /// Returns whether all data has arrived where it is kept or goes.
    pub(crate) const fn is_here(&self) -> bool {
        let moved = self.begun == self.arrival.len && self.moving == 0;
        moved && !matches!(self.rx_data, RxData::Remote(_) | RxData::Deferred)
    }

    /// Returns whether it waits for a receive, or for the one that claimed it.
    pub(crate) const fn waits(&self) -> bool {
        matches!(
            self.match_state,
            MatchState::Waiting | MatchState::Claimed(_)
        )
    }

    /// Returns whether the loss of its sender is of concern: it is not complete, does not wait, or is to be answered.
    pub(crate) const fn needs_sender(&self) -> bool {
        let to_answer = !HeaderFlags::DATA.contains(self.arrival.flags);
        !self.waits() || !self.is_here() || to_answer
    }

    /// Returns whether its sender has to send more of it unasked. After an Rts the sender waits for this end.
    pub(crate) const fn is_owed(&self) -> bool {
        !self.is_here()
            && !matches!(
                self.rx_data,
                RxData::Remote(_) | RxData::Deferred | RxData::Loopback(_)
            )
    }

    /// Returns what it costs while it waits. Data that stays at the sender costs nothing; what the link keeps of it does.
    pub(crate) const fn cost(&self) -> usize {
        match self.rx_data {
            RxData::Nothing | RxData::Deferred | RxData::Remote(_) | RxData::Loopback(_) => {
                cost(self.held)
            }
            RxData::Bytes(_) | RxData::Buffer(_) => cost(self.arrival.len),
        }
    }

    /// Returns whether it goes to the region with this key.
    pub(crate) fn writes_to(&self, key: u64) -> bool {
        match &self.match_state {
            MatchState::Matched(placement) if self.arrival.class == Class::Write => {
                is_about(placement.context, &self.targets, key)
            }
            MatchState::Update(pending) => pending.is_about(key),
            _ => false,
        }
    }

    /// Describes where the part of the data that begins at `at` goes; `None` when it is dropped.
    pub(crate) fn part(&self, at: usize, len: usize) -> Option<Iov> {
        let part = match (&self.rx_data, &self.match_state) {
            (RxData::Buffer(buffer), _) => buffer.slice(at, len),
            (RxData::Nothing, MatchState::Matched(placement)) => placement.part(at, len),
            _ => return None,
        };
        (!part.is_empty()).then_some(part)
    }

    /// Places a part of the data that came with its header.
    pub(crate) fn write(&self, at: usize, bytes: &[u8]) {
        match (&self.rx_data, &self.match_state) {
            (RxData::Buffer(buffer), _) => {
                buffer.write(at, bytes);
            }
            (RxData::Nothing, MatchState::Matched(placement)) => placement.write(at, bytes),
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

impl RxData {
    /// Places data that is here in the buffer of the receive that matched.
    pub(crate) fn copy_to(&self, placement: &RxPlacement) {
        match self {
            Self::Bytes(bytes) => placement.write(0, bytes),
            Self::Buffer(iov) | Self::Loopback(iov) => placement.copy_from(iov, iov.len()),
            Self::Nothing | Self::Deferred | Self::Remote(_) => {}
        }
    }
}

/// Returns what buffering `len` bytes costs.
pub(crate) const fn cost(len: usize) -> usize {
    len.saturating_add(ENTRY_BYTES)
}
