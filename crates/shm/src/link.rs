//! The data path of an endpoint: posting into lanes and polling them.
//!
//! `post` and `poll` touch nothing but the lanes of the pairs that are open. Sockets are looked at once in a while, and
//! at every poll as long as a pair is being opened or somebody wakes up. `settling` ends what other processes may be copying.

mod settling;

use std::time::Duration;

use oxifabric_engine::{
    Frame, InjectedFault, Limits, Link, PostError, Posted, RemoteIov, RxToken, Sink, TxToken,
};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Instant, PeerId};

use crate::pair::Pair;
use crate::pairs::Pairs;
use crate::params::Params;
use crate::peer::{Peers, Stage};
use crate::switchboard::Switchboard;
use crate::sys::process::ForkMark;

/// Sockets are looked at once in so many polls, or in so much time, whatever comes first.
const POLLS_PER_LOOK: u32 = 256;
const TIME_PER_LOOK: Duration = Duration::from_millis(1);

/// The shared-memory link of one endpoint.
#[derive(Debug)]
pub struct ShmLink {
    pub(crate) mark: ForkMark,
    pub(crate) peers: Peers,
    pub(crate) pairs: Pairs,
    /// Peers in whose lanes something may be held back.
    held: Vec<PeerId>,
    polls: u32,
    /// When sockets are looked at, at the latest.
    pub(crate) look_at: Instant,
    pub(crate) now: Instant,
    /// How many pairs have begun to end.
    pub(crate) departures: u64,
    /// The doorbells say that this side sleeps; counts the times that it did.
    pub(crate) asleep: bool,
    pub(crate) turn: u64,
    pub(crate) board: Switchboard,
    pub(crate) expected: Limits,
    pub(crate) params: Params,
}

impl ShmLink {
    pub(crate) fn new(board: Switchboard, expected: Limits, params: Params) -> Self {
        Self {
            mark: ForkMark::here(),
            peers: Peers::default(),
            pairs: Pairs::default(),
            held: Vec::new(),
            polls: 0,
            look_at: Instant::default(),
            now: Instant::default(),
            departures: 0,
            asleep: false,
            turn: 0,
            board,
            expected,
            params,
        }
    }

    /// Returns the open pair with a peer, to be used: it is busy from now on.
    #[inline]
    fn pair_of(&mut self, peer: PeerId) -> Option<&mut Pair> {
        let place = self.place_of(peer)?;
        self.pairs.get_mut(place)
    }

    /// The same, its place.
    #[inline]
    pub(crate) fn place_of(&mut self, peer: PeerId) -> Option<usize> {
        let place = self.peers.get(peer)?.pair as usize;
        if self.pairs.is_busy(place) {
            return Some(place);
        }
        self.pairs.rouse(place, &mut self.peers)
    }

    /// A frame is to go to a peer without an open pair: the next poll calls it.
    #[cold]
    fn want(&mut self, peer: PeerId) -> PostError {
        if peer == self.board.me {
            return PostError::Down(Errno::OPNOTSUPP);
        }
        let Some(known) = self.peers.get_mut(peer) else {
            return PostError::Down(Errno::INVAL);
        };
        known.wanted = true;
        if matches!(known.stage, Stage::Apart) {
            known.stage = Stage::Wanted(None);
            self.board.opening.push(peer);
        }
        PostError::Again
    }

    fn look_if_due(&mut self, sink: &mut impl Sink) -> usize {
        let due = !self.board.opening.is_empty()
            || self.polls.is_multiple_of(POLLS_PER_LOOK)
            || self.now >= self.look_at;
        if due { self.look(sink) } else { 0 }
    }

    #[cold]
    fn look(&mut self, sink: &mut impl Sink) -> usize {
        self.look_at = self.now.after(TIME_PER_LOOK);
        if self.asleep {
            self.wake_up();
        }
        self.look_at_sockets(sink)
    }

    fn wake_up(&mut self) {
        self.asleep = false;
        for pair in self.pairs.iter() {
            pair.bell.announce_awake();
        }
        self.pairs.look_at_all(&mut self.peers);
    }

    /// Moves long messages of one pair.
    #[cold]
    fn move_long(&mut self, index: usize, sink: &mut impl Sink) -> usize {
        self.end_if_gone(index);
        let mut left = self.params.pull_chunk;
        let Some(pair) = self.pairs.get_mut(index) else {
            return 0;
        };
        let pid = pair.process.pid();
        if pair.ending.is_some() {
            // Pulls go on as long as there is something to read: they end with the pair.
            pair.desk.assists.clear();
        }
        let mut events = 0;
        while left > 0 {
            // Between any two chunks: what is asked for now is copied beside the next one.
            pair.ask_for_help();
            let helped = usize::from(pair.desk.assist(pid, &mut left));
            let ended = |token, result| sink.pulled(token, result);
            let moved = helped + pair.desk.advance(pid, &mut left, ended);
            if moved == 0 {
                break;
            }
            events += moved;
        }
        events
    }
}

impl Link for ShmLink {
    #[inline]
    fn limits(&self, peer: PeerId) -> &Limits {
        match self.peers.get(peer) {
            Some(peer) => &peer.limits,
            None => &self.expected,
        }
    }

    /// As [`Link::post`]. Bodies are always copied or stay where they are until a `Fin`, so the answer is never
    /// [`Posted::Pending`]. In a forked child everything is down.
    #[inline(always)]
    fn post(
        &mut self,
        peer: PeerId,
        frame: Frame<'_>,
        _token: TxToken,
    ) -> Result<Posted, PostError> {
        if self.mark.is_foreign() {
            return Err(PostError::Down(Errno::OPBADSTATE));
        }
        let Some(pair) = self.pair_of(peer) else {
            return Err(self.want(peer));
        };
        if pair.post(&frame)? {
            self.held.push(peer);
        }
        Ok(Posted::Done)
    }

    fn pull(
        &mut self,
        peer: PeerId,
        remote: &RemoteIov,
        into: Iov,
        token: RxToken,
    ) -> Result<(), PostError> {
        if self.mark.is_foreign() {
            return Err(PostError::Down(Errno::OPBADSTATE));
        }
        let Some(pair) = self.pair_of(peer) else {
            return Err(PostError::Down(Errno::CONNRESET));
        };
        pair.desk.begin(remote, into, token);
        pair.ask_for_help();
        Ok(())
    }

    #[inline]
    fn flush(&mut self) {
        while let Some(peer) = self.held.pop() {
            if let Some(pair) = self.pair_of(peer) {
                pair.flush();
            }
        }
    }

    #[inline]
    fn poll(&mut self, now: Instant, sink: &mut impl Sink) -> usize {
        if self.mark.is_foreign() {
            return 0;
        }
        self.now = now;
        self.polls = self.polls.wrapping_add(1);
        let mut events = self.look_if_due(sink);
        if self.pairs.are_many() {
            self.pairs.take_turns(self.polls, &mut self.peers);
        }
        let mut index = 0;
        while let Some(pair) = self.pairs.busy_mut(index) {
            events += pair.poll(sink);
            if pair.is_over() {
                let closed = self.finish(index, sink);
                events += usize::from(closed);
                index += usize::from(!closed);
                continue;
            }
            if !pair.desk.is_idle() {
                events += self.move_long(index, sink);
            }
            index += 1;
        }
        events
    }

    fn resume(&mut self, peer: PeerId) {
        if let Some(pair) = self.pair_of(peer) {
            pair.resume();
        }
    }

    fn inject_fault(&mut self, peer: PeerId, how: InjectedFault) -> bool {
        self.inject(peer, how)
    }
}

impl ShmLink {
    /// Forgets an open pair and says so.
    #[cold]
    pub(crate) fn close_pair(&mut self, index: usize, sink: &mut impl Sink) {
        let Some(mut pair) = self.pairs.remove(index, &mut self.peers) else {
            return;
        };
        let why = pair.ending.unwrap_or(Errno::CONNRESET);
        for token in pair.desk.abandon() {
            sink.pulled(token, Err(why));
        }
        if let Some(socket) = &pair.socket {
            self.board.stop_watching(socket, &pair.process);
        }
        self.board.forget(pair.conn, None);
        let silent = pair.was_silent();
        if let Some(peer) = self.peers.get_mut(pair.peer) {
            peer.stage = Stage::Apart;
            peer.wanted = false;
            peer.limits = self.expected;
            peer.known |= !silent;
            if !peer.known {
                // The engine has not heard of it.
                return self.peers.recycle(pair.peer);
            }
        }
        sink.peer_down(pair.peer, why);
    }
}

impl Drop for ShmLink {
    fn drop(&mut self) {
        if self.mark.is_foreign() {
            return;
        }
        self.flush();
        self.settle_all();
    }
}

#[cfg(test)]
mod tests;
