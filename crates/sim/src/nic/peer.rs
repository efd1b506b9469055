//! What an endpoint keeps of a peer.

use std::collections::BTreeMap;
use std::time::Duration;

use oxifabric_types::{Errno, Instant};

use super::reorder::Reorder;
use super::requests::Requests;
use super::sender::Sender;
use crate::network::Place;

/// What an endpoint keeps of a peer.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) place: Place,
    /// The generation of this end, if it has one.
    pub(super) sender: Option<Sender>,
    /// The generation of the peer; zero for none.
    pub(super) theirs: u64,
    /// The last one of the peer that is over.
    pub(super) over: u64,
    pub(super) arrived: Reorder,
    /// The engine takes nothing from this peer until it says so.
    pub(super) is_stalled: bool,
    pub(super) requests: Requests,
    /// The keys of the memory that this end exposes to the peer, by the ids of the messages (rendezvous).
    pub(super) rndv_keys: BTreeMap<u32, u64>,
    /// The engine was told to wait.
    pub(super) is_blocked: bool,
    /// When Hello is sent again, and how long to wait after that.
    pub(super) hello: Option<(Instant, Duration)>,
    /// The network has said that there is no endpoint at its place.
    pub(super) is_absent: bool,
    /// Its incarnation, if it is known; zero otherwise.
    pub(super) incarnation: u64,
    /// Since when nothing has come from it, although it is awaited.
    pub(super) silent_since: Option<Instant>,
    /// It is to be given up.
    pub(super) ending: Option<(Errno, &'static str)>,
}

impl Peer {
    pub(super) fn new(place: Place) -> Self {
        Self {
            place,
            sender: None,
            theirs: 0,
            over: 0,
            arrived: Reorder::default(),
            is_stalled: false,
            requests: Requests::default(),
            rndv_keys: BTreeMap::new(),
            is_blocked: false,
            hello: None,
            is_absent: false,
            incarnation: 0,
            silent_since: None,
            ending: None,
        }
    }

    /// Returns whether nothing is under way to it.
    pub(super) fn is_done(&self) -> bool {
        let sender_is_done = self.sender.as_ref().is_none_or(Sender::is_done);
        sender_is_done && self.requests.len() == 0
    }

    /// Returns whether an answer of it, or of its adapter, is awaited.
    pub(super) fn is_awaited(&self) -> bool {
        let has_frames = self.sender.as_ref().is_some_and(|sender| !sender.is_done());
        has_frames || self.hello.is_some() || self.requests.is_under_way()
    }

    /// Returns whether one of both has begun to send to the other.
    pub(super) const fn is_connected(&self) -> bool {
        self.sender.is_some() || self.theirs != 0
    }

    /// Returns whether it is known to be another one than this incarnation.
    pub(super) const fn is_not(&self, incarnation: u64) -> bool {
        self.incarnation != 0 && self.incarnation != incarnation
    }

    /// Returns whether frames of it can be taken now.
    pub(super) fn has_ready(&self) -> bool {
        !self.is_stalled && self.arrived.ready().is_some()
    }

    /// Returns whether nothing is about it.
    pub(super) fn is_gone(&self) -> bool {
        !self.is_connected() && self.is_done() && self.ending.is_none()
    }

    /// Returns the number of this end's generation; zero for none.
    pub(super) fn mine(&self) -> u64 {
        self.sender.as_ref().map_or(0, |sender| sender.generation)
    }
}
