//! Liveness of peers: how an adapter notices that one is gone, and fails the operations with it.

use std::time::Duration;

use oxifabric_engine::Sink;
use oxifabric_provider::log;
use oxifabric_types::{Errno, Instant, PeerId};

use super::SimNic;
use super::head::Head;
use super::peer::Peer;
use super::reorder::Reorder;
use super::requests::End;
use super::sender::{Sender, Then};
use crate::NAME;

/// Time after which a Hello is sent again that was not answered; it doubles each time, up to [`HELLO_LATEST`].
pub(super) const HELLO_AGAIN: Duration = Duration::from_millis(1);
const HELLO_LATEST: Duration = Duration::from_millis(100);

impl SimNic {
    /// Looks at the peers that owe an answer: sends a probe to those that are silent, and gives up those that have been silent for
    /// too long.
    pub(super) fn look(&mut self, sink: &mut impl Sink) {
        self.send_hellos_again();
        if self.now < self.look_at {
            return;
        }
        let mut awaited: Vec<_> = self.active.iter().copied().collect();
        sink.peers_with_pending(&mut |peer| awaited.push(peer));
        awaited.sort_unstable();
        awaited.dedup();
        let (now, peer_timeout) = (self.now, self.peer_timeout);
        self.look_at = Instant::END;
        for peer in awaited {
            let Some(row) = self.peers.get_mut(peer) else {
                continue;
            };
            if !row.is_awaited() && !row.is_connected() {
                continue;
            }
            let (place, is_absent) = (row.place, row.is_absent);
            let was_heard = row.silent_since.is_none();
            let silent = now.since(*row.silent_since.get_or_insert(now));
            self.look_by(now.after(peer_timeout / 4));
            if silent >= peer_timeout {
                match is_absent {
                    true => self.doom(peer, Errno::CONNREFUSED, "no endpoint is there"),
                    false => self.doom(peer, Errno::TIMEDOUT, "it did not answer in time"),
                }
            } else if !was_heard && !is_absent {
                self.send(place, Head::Probe, Vec::new());
            }
        }
    }

    /// Schedules the next look at the peers, at this time at the latest.
    pub(super) fn look_by(&mut self, at: Instant) {
        self.look_at = self.look_at.min(at);
    }

    /// Sends each Hello again that is due.
    fn send_hellos_again(&mut self) {
        let now = self.now;
        let is_due = |row: &Peer| row.hello.is_some_and(|(at, _)| at <= now);
        let active = self.active.iter().copied();
        let due: Vec<_> = active
            .filter(|peer| self.peers.get(*peer).is_some_and(is_due))
            .collect();
        for peer in due {
            let Some(row) = self.peers.get_mut(peer) else {
                continue;
            };
            let (Some((_, wait)), generation) = (row.hello, row.mine()) else {
                continue;
            };
            let wait = (2 * wait).min(HELLO_LATEST);
            row.hello = Some((now.after(wait), wait));
            let place = row.place;
            self.send(place, Head::Hello(generation, self.incarnation), Vec::new());
        }
    }

    /// Gives up the peers whose end has been decided; returns how many there were.
    pub(super) fn end_peers(&mut self, sink: &mut impl Sink) -> usize {
        let active = self.active.iter().copied();
        let is_ending = |peer: &PeerId| {
            self.peers
                .get(*peer)
                .is_some_and(|row| row.ending.is_some())
        };
        let ending: Vec<_> = active.filter(is_ending).collect();
        for &peer in &ending {
            if let Some((why, reason)) = self.peers.get(peer).and_then(|row| row.ending) {
                self.end(peer, why, reason, sink);
            }
        }
        ending.len()
    }

    /// Gives a peer up: all operations with it fail, and both ends begin anew with a Hello.
    pub(super) fn end(
        &mut self,
        peer: PeerId,
        why: Errno,
        reason: &'static str,
        sink: &mut impl Sink,
    ) {
        let Some(row) = self.peers.get_mut(peer) else {
            return;
        };
        let (place, mine, theirs) = (row.place, row.mine(), row.theirs);
        let frames = row.sender.take().map(Sender::drain);
        let accesses = row.requests.drain();
        let rndv_keys = std::mem::take(&mut row.rndv_keys);
        row.over = row.over.max(theirs);
        row.theirs = 0;
        row.incarnation = 0;
        row.arrived = Reorder::default();
        (row.is_stalled, row.is_blocked, row.hello) = (false, false, None);
        row.ending = None;
        if let Some(memory) = &self.memory {
            rndv_keys.values().for_each(|key| memory.withdraw(*key));
        }
        if mine != 0 || theirs != 0 {
            self.send(place, Head::Bye(mine, theirs), Vec::new());
        }
        let directory = self.peers.directory();
        if let Some(at) = directory.address(peer) {
            log::info!(NAME, EpCtrl, "connection with {at} lost: {reason}");
            directory.explain(peer, Some(format!("{at}: {reason}")));
        }
        for then in frames.into_iter().flatten() {
            if let Then::Report(token) = then {
                sink.sent(token, Err(why));
            }
        }
        for end in accesses {
            match end {
                End::Sent(token) => sink.sent(token, Err(why)),
                End::Pulled(token) => sink.pulled(token, Err(why)),
            }
        }
        sink.peer_down(peer, why);
    }

    /// Forgets peers that no operation is about, when there are many.
    pub(super) fn forget_departed(&mut self, sink: &mut impl Sink) {
        if !self.peers.is_crowded() {
            return;
        }
        let mut departed = self.peers.departed(Peer::is_gone);
        departed.retain(|peer| !self.active.contains(peer));
        let mut involved = Vec::new();
        sink.involved(&mut |peer| involved.push(peer));
        departed.retain(|peer| !involved.contains(peer) && !sink.is_known(*peer));
        departed.iter().for_each(|peer| sink.forget_peer(*peer));
        self.peers.vacate(&departed);
    }

    /// Forgets which peers were active that no longer are.
    pub(super) fn settle_active(&mut self) {
        let peers = &self.peers;
        self.active.retain(|peer| {
            let row = peers.get(*peer);
            row.is_some_and(|row| {
                !row.is_done()
                    || row.hello.is_some()
                    || row.is_blocked
                    || row.ending.is_some()
                    || !row.arrived.is_empty()
            })
        });
    }

    /// Sends a Bye to all connected peers: the endpoint closes.
    pub fn leave(&mut self) {
        let rows = (0..).map(PeerId).map_while(|peer| self.peers.get(peer));
        for row in rows.filter(|row| row.is_connected()) {
            self.send(row.place, Head::Bye(row.mine(), row.theirs), Vec::new());
        }
    }

    /// Gets ready for sleep; false if there is something to do.
    pub(super) fn arm(&self) -> bool {
        self.set_due();
        let (now, due) = (self.station.world.now(), self.due());
        match due {
            Instant::END => self.station.arm(None),
            due if due <= now => false,
            due => self.station.arm(Some(due.since(now))),
        }
    }

    /// Notes that something was posted since the last poll.
    pub(super) fn posted(&self) {
        self.set_due();
    }

    /// Sets when the endpoint is to be polled next, if no packet comes.
    pub(super) fn set_due(&self) {
        let rows = || self.active.iter().filter_map(|peer| self.peers.get(*peer));
        let has_work = |row: &Peer| row.ending.is_some() || row.has_ready();
        let busy = !self.inbox.is_empty() || rows().any(has_work);
        self.station.set_due(self.due(), busy);
    }

    /// Returns when there is something to do, if no packet comes.
    fn due(&self) -> Instant {
        let rows = self.active.iter().filter_map(|peer| self.peers.get(*peer));
        let hello = rows.filter_map(|row| row.hello).map(|(at, _)| at).min();
        hello.map_or(self.look_at, |at| at.min(self.look_at))
    }
}
