//! A channel at rest: the few numbers with which an end that has nothing under way goes on later (protocol section 3.5).
//!
//! The peer is not told. Whatever it sends next finds both streams where they were, so that nothing is lost or comes twice.

use super::{Channel, ChannelConfig, Identity};
use oxifabric_types::Instant;

/// What is kept of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RestingChannel {
    me: Identity,
    other: u64,
    /// The longest payload that both ends take.
    payload: usize,
    /// Number of packets that have come.
    received: u64,
    /// Number of packets that have arrived at the peer.
    sent: u64,
    /// The first packet that the peer had no room for.
    room_ends: u64,
}

impl RestingChannel {
    /// Returns the id that this end gave the channel.
    pub(crate) const fn id(&self) -> u64 {
        self.me.id
    }

    /// Returns what the peer calls the channel.
    pub(crate) const fn other(&self) -> u64 {
        self.other
    }
}

impl Channel {
    /// Returns whether the channel was used, and nothing of it is under way, kept or asked for, in either direction.
    pub(crate) fn is_at_rest(&self) -> bool {
        let asks = self.keepalive || self.challenge || self.unanswered_since.is_some();
        let owes = self.owed > 0 || self.welcome || self.claimed != 0;
        let is_used = !self.is_unused();
        is_used && self.is_open() && self.sender.is_done() && self.kept() == 0 && !asks && !owes
    }

    /// Returns what has to be kept of a channel that [`Channel::is_at_rest`].
    pub(crate) fn rest(&self) -> RestingChannel {
        let (sent, room_ends) = self.sender.position();
        RestingChannel {
            me: self.me,
            other: self.other,
            payload: self.sender.longest(),
            received: self.receiver.next(),
            sent,
            room_ends,
        }
    }

    /// Goes on with a channel; its path is measured anew.
    pub(crate) fn wake(rest: &RestingChannel, config: ChannelConfig, now: Instant) -> Self {
        let mut channel = Self::new(rest.me, config, now);
        channel.other = rest.other;
        (channel.sender).go_on(rest.payload, rest.sent, rest.room_ends);
        channel.receiver.go_on(rest.received);
        channel
    }

    /// Returns whether the peer has not answered this end's greeting yet.
    pub(crate) const fn is_unanswered(&self) -> bool {
        self.other == 0
    }
}
