//! Bounds on connections of peers that the application does not know (docs/adr/0034). Set-up path.
//!
//! The application knows a peer that it has named to this endpoint, or that is in its address vector. Any other peer has
//! connected of its own accord: it may be untrusted, or belong to an MPI library that sends before both ends know each
//! other. So there may be many such connections. Where there are too many, the endpoint closes idle ones; either end opens
//! them again when it has something to send.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::Duration;

use oxifabric_engine::Sink;
use oxifabric_provider::{descriptors, log};
use oxifabric_types::{Errno, PeerId};

use super::TcpLink;
use crate::conn::Conn;
use crate::driver::ConnState;
use crate::peer;

/// Maximum number of connections of peers that the application does not know. Each costs a descriptor, 24 KiB here for what is read
/// ahead, and what the kernel holds for it.
const UNKNOWN_MAX: usize = 4096;

/// The share of the process's descriptors that they may have: the rest is left to peers that are known, and to the application.
const SHARE: usize = 2;

/// The share of them that makes room at a time, so that looking for the longest idle is rare.
const BATCH: usize = 16;

/// The share of them that may be closing at a time, beside the others. Such a connection is read until the peer closes it, too.
const CLOSING: usize = 4;

/// Pause between two looks for connections that may be closed, where there were none: a look takes a system call for each of them, and any
/// number of peers may connect meanwhile.
const CROWDED: Duration = Duration::from_millis(100);

/// How long connections of unknown peers are taken to come at the cost of others, after some had to make room: one look makes room for many.
const DISPLACING: Duration = Duration::from_millis(100);

/// Why connections are closed here.
const WHY: &str = "closed to make room for others";

/// A connection that may be closed.
struct Candidate {
    id: PeerId,
    /// How long nothing was sent or received.
    idle: Duration,
    activity: Activity,
}

/// What would be lost with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Activity {
    /// Nothing would be lost.
    Free,
    /// Data that is still to be read, of a peer that has closed the connection.
    Left,
    /// An operation under way, or a part of a frame.
    Busy,
}

/// Returns the bound on connections of unknown peers if the environment does not set one.
fn default_limit() -> usize {
    (descriptors::limit() / SHARE).clamp(BATCH, UNKNOWN_MAX)
}

impl TcpLink {
    /// Returns the bound on connections of unknown peers.
    fn limit(&self) -> usize {
        let limit = self.conns.reactor.params.max_unknown;
        limit.unwrap_or_else(default_limit)
    }

    /// Returns whether a look a short while ago has found no connection that may be closed.
    fn has_just_looked(&self) -> bool {
        let until = self.kind.crowded_until;
        until.is_some_and(|until| self.now() < until)
    }

    /// Makes room for one more connection, with this peer; returns false if all others are in use.
    pub(super) fn has_place(&mut self, id: PeerId, sink: &mut impl Sink) -> bool {
        if self.is_known(id, sink) {
            return true;
        }
        let limit = self.limit();
        if self.conns.ready.len() < limit || self.unknown().len() < limit {
            return true;
        }
        if self.has_just_looked() {
            return false;
        }
        // The application may have named some of them since.
        for other in self.unknown() {
            self.is_known(other, sink);
        }
        if self.unknown().len() < limit {
            return true;
        }
        let made_room = self.make_room(limit, sink) > 0;
        self.kind.crowded_until = (!made_room).then(|| self.now().after(CROWDED));
        made_room
    }

    /// Returns whether a connection of this peer comes at the cost of others.
    pub(super) fn is_displacing(&self, id: PeerId) -> bool {
        let unknown = self.kind.peers.get(id).is_some() && !self.kind.peers.is_named(id);
        unknown
            && self
                .kind
                .displacing_until
                .is_some_and(|until| self.now() < until)
    }

    /// Closes connections that may be closed at once, when the system has no descriptors left; returns whether there was any. Where there was none,
    /// connections are not looked at again for [`CROWDED`].
    pub(super) fn give_up_some(&mut self, sink: &mut impl Sink) -> bool {
        if self.has_just_looked() {
            return false;
        }
        let limit = self.unknown().len().clamp(BATCH, self.limit().max(BATCH));
        for other in self.unknown() {
            self.is_known(other, sink);
        }
        let ended = self.make_room(limit, sink);
        let made_room = ended + self.close_closing(0, sink) > 0;
        self.kind.crowded_until = (!made_room).then(|| self.now().after(CROWDED));
        made_room
    }

    /// Closes a share of the connections of unknown peers; returns how many.
    fn make_room(&mut self, limit: usize, sink: &mut impl Sink) -> usize {
        let batch = (limit / BATCH).max(1);
        let mut candidates = self.candidates(sink);
        candidates.sort_by_key(|candidate| Reverse(candidate.idle));
        let is_free = |candidate: &&Candidate| candidate.activity == Activity::Free;
        let free: Vec<_> = candidates.iter().filter(is_free).take(batch).collect();
        self.kind.displacing_until = Some(self.now().after(DISPLACING));
        log::warn!(
            "tcp",
            EpCtrl,
            "{} connections of peers that are not in the address vector: those idle longest make room",
            candidates.len()
        );
        if !free.is_empty() {
            free.iter()
                .for_each(|candidate| self.begin_to_close(candidate.id));
            self.close_closing(limit / CLOSING, sink);
            return free.len();
        }
        let timeout = self.conns.reactor.params.connect_timeout;
        let may_go = |candidate: &&Candidate| {
            candidate.activity == Activity::Left || candidate.idle >= timeout
        };
        let stuck: Vec<_> = candidates.iter().filter(may_go).take(batch).collect();
        for candidate in &stuck {
            self.end(candidate.id, Errno::CONNRESET, WHY, sink);
        }
        stuck.len()
    }

    /// Returns the number of the peer at an address, a new one if need be, or one that is free.
    pub(super) fn number(&mut self, at: &SocketAddr, sink: &mut impl Sink) -> Option<PeerId> {
        if self.kind.peers.is_crowded() {
            self.sweep(sink);
        }
        peer::number(&mut self.kind.peers, at)
    }

    /// Frees the numbers of peers that are gone, if the application does not know them and no operation is about them.
    fn sweep(&mut self, sink: &mut impl Sink) {
        let involved = involved(sink);
        let mut departed = peer::departed(&self.kind.peers, self.conns.ticks);
        departed.retain(|&id| {
            !self.is_challenged(id) && !involved.contains(&id) && !self.is_known(id, sink)
        });
        self.kind.peers.vacate(&departed);
        departed.into_iter().for_each(|id| sink.forget_peer(id));
    }

    fn candidates(&self, sink: &impl Sink) -> Vec<Candidate> {
        let involved = involved(sink);
        let candidate_of = |id: PeerId| {
            let peer = self.kind.peers.get(id)?;
            let ConnState::Ready(conn) = &peer.driver.state else {
                return None;
            };
            let activity = match () {
                () if conn.has_ended() => Activity::Left,
                () if involved.contains(&id) || !conn.is_at_rest() => Activity::Busy,
                () => Activity::Free,
            };
            let idle = conn.socket().idle();
            Some(Candidate { id, idle, activity })
        };
        self.unknown()
            .into_iter()
            .filter_map(candidate_of)
            .collect()
    }

    /// Returns the peers with connections in use that the application has not named.
    pub(super) fn unknown(&self) -> Vec<PeerId> {
        let is_unknown = |id: &PeerId| match self.kind.peers.get(*id) {
            Some(peer) => {
                !self.kind.peers.is_named(*id)
                    && !matches!(&peer.driver.state, ConnState::Ready(conn) if conn.stream.is_closing())
            }
            None => false,
        };
        let ready = self.conns.ready.iter().copied();
        ready.filter(is_unknown).collect()
    }

    /// Returns whether the application knows a peer, and records it if so.
    fn is_known(&mut self, id: PeerId, sink: &impl Sink) -> bool {
        let peers = &mut self.kind.peers;
        if !peers.is_named(id) && sink.is_known(id) {
            peers.name(id);
        }
        peers.is_named(id)
    }

    /// Closes the sending direction of a connection and waits for the peer to close its own: what it sends until then
    /// arrives.
    fn begin_to_close(&mut self, id: PeerId) {
        let Some(peer) = self.kind.peers.get_mut(id) else {
            return;
        };
        if let ConnState::Ready(conn) = &mut peer.driver.state {
            conn.stream.begin_to_close();
            self.kind.closing.push_back((id, peer.driver.generation));
        }
    }

    /// Ends the connections that have been closing for longest, until `but` are left; returns how many.
    fn close_closing(&mut self, but: usize, sink: &mut impl Sink) -> usize {
        let mut closed = 0;
        self.kind.closing.retain(|(id, generation)| {
            let peer = self.kind.peers.get(*id);
            peer.is_some_and(|peer| peer.driver.generation == *generation)
        });
        while self.kind.closing.len() > but
            && let Some((id, _)) = self.kind.closing.pop_front()
        {
            self.read_rest(id, sink);
            self.end(id, Errno::CONNRESET, WHY, sink);
            closed += 1;
        }
        closed
    }
}

/// Returns the peers that an operation is about.
fn involved(sink: &impl Sink) -> HashSet<PeerId> {
    let mut involved = HashSet::new();
    sink.involved(&mut |peer| {
        involved.insert(peer);
    });
    involved
}

impl Conn {
    /// Returns whether the peer has closed its end, whatever is still to be read.
    fn has_ended(&self) -> bool {
        self.socket().is_closed_by_peer()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_leaves_descriptors_to_others() {
        let limit = default_limit();
        assert!((BATCH..=UNKNOWN_MAX).contains(&limit));
        assert!(limit + limit / CLOSING <= descriptors::limit().max(2 * BATCH));
    }
}
