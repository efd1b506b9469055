//! A channel at rest: the few numbers with which an end that has nothing under way goes on later (protocol section 3.5).
//!
//! The peer is not told. Whatever it sends next finds both streams where they were, so that nothing is lost or comes twice.

use super::{Channel, ChannelConfig, Identity};
use crate::path::{Path, PathSummary};
use oxifabric_types::Instant;

/// What is kept of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RestingChannel {
    /// What this end calls the channel.
    id: u64,
    other: u64,
    /// Number of packets that have come.
    received: u64,
    /// Number of packets that have arrived at the peer.
    sent: u64,
    /// The longest payload that both ends take.
    payload: u32,
    /// Number of further packets that the peer has room for.
    room: u32,
}

impl RestingChannel {
    /// Returns the id that this end gave the channel.
    pub(crate) const fn id(&self) -> u64 {
        self.id
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
        let owes = self.owed > 0 || self.welcome || self.claimed != 0 || self.tried != 0;
        let is_used = !self.is_unused();
        is_used && self.is_open() && self.sender.is_done() && self.kept() == 0 && !asks && !owes
    }

    /// Returns what has to be kept of a channel that [`Channel::is_at_rest`].
    pub(crate) fn rest(&self) -> RestingChannel {
        let (sent, room_ends) = self.sender.position();
        RestingChannel {
            id: self.me.id,
            other: self.other,
            received: self.receiver.next(),
            sent,
            payload: self.sender.longest().try_into().unwrap_or(u32::MAX),
            room: room_ends
                .saturating_sub(sent)
                .try_into()
                .unwrap_or(u32::MAX),
        }
    }

    /// Creates an end that goes on with a channel where [`Channel::rest`] left it; its path is measured anew.
    pub(crate) fn wake(
        rest: &RestingChannel,
        me: Identity,
        config: ChannelConfig,
        now: Instant,
    ) -> Self {
        let mut channel = Self::new(me, config, now);
        channel.other = rest.other;
        let room_ends = rest.sent.saturating_add(rest.room.into());
        (channel.sender).go_on(rest.payload as usize, rest.sent, room_ends);
        channel.receiver.go_on(rest.received);
        channel
    }

    /// Returns whether the path carries packets of every length, as far as is known.
    pub(crate) fn has_whole_path(&self) -> bool {
        self.sender.has_whole_path()
    }

    /// Returns what was measured of the path.
    pub(crate) fn path_summary(&self) -> PathSummary {
        self.sender.path.summary()
    }

    /// Restores what was measured of the path.
    pub(crate) fn resume_path(&mut self, path: &PathSummary) {
        self.sender.path = Path::resumed(path).bounded(self.config.window_max);
    }

    /// Returns whether the peer has not answered this end's handshake message yet.
    pub(crate) const fn is_unanswered(&self) -> bool {
        self.other == 0
    }
}
