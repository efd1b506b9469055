//! The data path of an endpoint: posting into lanes and polling them.
//!
//! `post` and `poll` touch nothing but the lanes of the open connections. Sockets are polled once in a while, and at
//! every poll as long as a connection is being opened or this side wakes up. `settling` ends operations in whose memory
//! other processes may be copying.

mod settling;

use std::time::Duration;

use oxifabric_engine::{
    Frame, Limits, Link, PostError, Posted, RemoteIov, RmaOp, RxToken, Sink, TxToken,
};
use oxifabric_mem::Iov;
use oxifabric_provider::log;
use oxifabric_types::{Errno, Instant, PeerId};

use crate::NAME;
use crate::conn::Conn;
use crate::conn_table::ConnTable;
use crate::conns::Conns;
use crate::direct;
use crate::params::Params;
use crate::peer::{self, ConnState, Peers};
use crate::rndv_threshold;
use crate::sys::process::ForkMark;

/// Polls between two polls of the sockets, and the time between them, whichever comes first.
const POLLS_PER_SOCKET_POLL: u32 = 256;
const TIME_PER_SOCKET_POLL: Duration = Duration::from_millis(1);

/// The shared-memory link of one endpoint.
#[derive(Debug)]
pub struct ShmLink {
    pub(crate) mark: ForkMark,
    pub(crate) peers: Peers,
    pub(crate) conns: Conns,
    /// Peers in whose lanes frames may be held back (coalesced).
    held: Vec<PeerId>,
    pub(crate) polls: u32,
    /// A poll, by its number, and how many bytes the engine has had pulled at once since then, without waiting for the next poll.
    pulled: (u32, usize),
    /// When the sockets are polled, at the latest.
    pub(crate) sockets_due: Instant,
    pub(crate) now: Instant,
    /// Number of connections that have begun to end.
    pub(crate) departures: u64,
    /// Whether the doorbells announce that this side sleeps.
    pub(crate) asleep: bool,
    /// Number of times that this side has announced sleep.
    pub(crate) turn: u64,
    pub(crate) table: ConnTable,
    pub(crate) expected: Limits,
    pub(crate) params: Params,
}

impl ShmLink {
    pub(crate) fn new(table: ConnTable, expected: Limits, params: Params) -> Self {
        Self {
            mark: ForkMark::here(),
            peers: Peers::default(),
            conns: Conns::default(),
            held: Vec::new(),
            polls: 0,
            pulled: (0, 0),
            sockets_due: Instant::default(),
            now: Instant::default(),
            departures: 0,
            asleep: false,
            turn: 0,
            table,
            expected,
            params,
        }
    }

    /// Returns the open connection with a peer, and makes it active.
    #[inline]
    fn conn_of(&mut self, peer: PeerId) -> Option<&mut Conn> {
        let index = self.index_of(peer)?;
        self.conns.get_mut(index)
    }

    /// Returns the index of the open connection with a peer, and makes it active.
    #[inline]
    pub(crate) fn index_of(&mut self, peer: PeerId) -> Option<usize> {
        let index = self.peers.get(peer)?.conn as usize;
        if self.conns.is_active(index) {
            return Some(index);
        }
        self.conns.activate(index, &mut self.peers)
    }

    /// Notes that a frame is to go to a peer without an open connection: the next poll connects.
    #[cold]
    fn want(&mut self, peer: PeerId) -> PostError {
        if peer == self.table.me {
            return PostError::Down(Errno::OPNOTSUPP);
        }
        let Some(known) = self.peers.get_mut(peer) else {
            return PostError::Down(Errno::INVAL);
        };
        known.wanted = true;
        if matches!(known.state, ConnState::Closed) {
            known.state = ConnState::Wanted(None);
            self.table.opening.push(peer);
        }
        PostError::Again
    }

    /// Returns how many more bytes may be pulled before the next poll.
    fn pull_left(&mut self) -> usize {
        if self.pulled.0 != self.polls {
            self.pulled = (self.polls, 0);
        }
        self.params.pull_chunk.saturating_sub(self.pulled.1)
    }

    fn poll_sockets_if_due(&mut self, sink: &mut impl Sink) -> usize {
        let due = !self.table.opening.is_empty()
            || self.polls.is_multiple_of(POLLS_PER_SOCKET_POLL)
            || self.now >= self.sockets_due;
        if due { self.poll_sockets_now(sink) } else { 0 }
    }

    #[cold]
    fn poll_sockets_now(&mut self, sink: &mut impl Sink) -> usize {
        self.sockets_due = self.now.after(TIME_PER_SOCKET_POLL);
        if self.asleep {
            self.wake_up();
        }
        self.poll_sockets(sink)
    }

    /// Adopts what a peer asks for, for the messages that follow.
    #[inline(never)]
    fn adjust_limits(&mut self, peer: PeerId) {
        let Some(row) = self.peers.get_mut(peer) else {
            return;
        };
        if let Some(conn) = self.conns.get_mut(row.conn as usize) {
            conn.adopt_threshold(&mut row.limits);
        }
    }

    fn wake_up(&mut self) {
        self.asleep = false;
        for conn in self.conns.iter() {
            conn.bell.announce_awake();
        }
        self.conns.check_all_idle(&mut self.peers);
    }

    /// Moves long messages of one connection.
    #[cold]
    fn move_long(&mut self, index: usize, sink: &mut impl Sink) -> usize {
        self.end_if_gone(index);
        let mut left = self.params.pull_chunk;
        let Some(conn) = self.conns.get_mut(index) else {
            return 0;
        };
        let pid = conn.process.pid();
        if conn.ending.is_some() {
            // Pulls go on as long as there is something to read: they end with the connection.
            conn.cma.copies.clear();
        }
        let mut events = 0;
        while left > 0 {
            // Requests go out between any two chunks, so that the sender copies one while this side copies the next.
            conn.request_sender_copies();
            let copied = usize::from(conn.cma.copy_for_peer(pid, &mut left));
            let ended = |token, result| sink.pulled(token, result);
            let moved = copied + conn.cma.advance(pid, &mut left, ended);
            if moved == 0 {
                break;
            }
            events += moved;
        }
        events
    }
}

impl Link for ShmLink {
    const CARRIES_OUT: bool = false;

    #[inline]
    fn limits(&self, peer: PeerId) -> &Limits {
        match self.peers.get(peer) {
            Some(peer) => &peer.limits,
            None => &self.expected,
        }
    }

    /// As [`Link::post`]. Bodies are always copied or stay where they are until a `Fin`, so the answer is never
    /// [`Posted::Pending`]. In a forked child every peer is down.
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
        let Some(conn) = self.conn_of(peer) else {
            return Err(self.want(peer));
        };
        if conn.post(&frame)? {
            self.held.push(peer);
        }
        if frame.header.len >= rndv_threshold::SHORTEST {
            self.adjust_limits(peer);
        }
        Ok(Posted::Done)
    }

    /// Writes do not follow what a peer asks for of messages: longer ones are carried out by this side, or announced so that they can be refused.
    #[inline(always)]
    fn eager_write(&self, limits: &Limits) -> usize {
        match limits.pull {
            true => limits.eager.min(self.expected.eager),
            false => limits.eager,
        }
    }

    fn carry_out(&mut self, access: &RmaOp<'_>) -> bool {
        let len = access.body.len();
        if len < direct::SHORTEST as usize || len > direct::LONGEST || self.mark.is_foreign() {
            return false;
        }
        let Some(index) = self.index_of(access.peer) else {
            return false;
        };
        let conn = self.conns.get_mut(index);
        conn.is_some_and(|conn| conn.carry_out(access))
    }

    fn pull(
        &mut self,
        peer: PeerId,
        remote: &RemoteIov,
        into: Iov,
        token: RxToken,
    ) -> Result<Posted, PostError> {
        if self.mark.is_foreign() {
            return Err(PostError::Down(Errno::OPBADSTATE));
        }
        let left = self.pull_left();
        let Some(conn) = self.conn_of(peer) else {
            return Err(PostError::Down(Errno::CONNRESET));
        };
        if into.len() <= left && conn.pull_now(remote, &into) {
            self.pulled.1 += into.len();
            return Ok(Posted::Done);
        }
        conn.cma.begin(remote, into, token);
        conn.request_sender_copies();
        Ok(Posted::Pending)
    }

    #[inline]
    fn flush(&mut self) {
        while let Some(peer) = self.held.pop() {
            if let Some(conn) = self.conn_of(peer) {
                conn.flush();
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
        let mut events = self.poll_sockets_if_due(sink);
        if self.conns.are_many() {
            self.conns.check_idle_in_turn(self.polls, &mut self.peers);
        }
        let mut index = 0;
        while let Some(conn) = self.conns.active_mut(index) {
            events += conn.poll(sink);
            if conn.is_over() {
                let closed = self.finish(index, sink);
                events += usize::from(closed);
                index += usize::from(!closed);
                continue;
            }
            if !conn.cma.is_idle() {
                events += self.move_long(index, sink);
            }
            index += 1;
        }
        events
    }

    fn resume(&mut self, peer: PeerId) {
        if let Some(conn) = self.conn_of(peer) {
            conn.resume();
        }
    }

    #[cold]
    fn disconnect(&mut self, id: PeerId, why: &'static str) -> bool {
        let index = self.index_of(id).filter(|_| !self.mark.is_foreign());
        let Some(conn) = index.and_then(|index| self.conns.get_mut(index)) else {
            return false;
        };
        if conn.ending.is_some() {
            return false;
        }
        if let Some(socket) = conn.socket.take() {
            socket.shut();
            self.table.stop_watching(&socket, &conn.process);
        }
        conn.end(Errno::CONNRESET);
        if let Some(peer) = self.peers.get_mut(id) {
            peer.state = ConnState::Ending;
            let reason = format!("{}: {why}", peer.name);
            self.peers.directory().explain(id, Some(reason));
        }
        // Another thread may sleep in a wait.
        self.table.timer.set(Some(Duration::ZERO));
        true
    }
}

impl ShmLink {
    /// Closes an open connection and reports its peer down.
    #[cold]
    pub(crate) fn close_conn(&mut self, index: usize, sink: &mut impl Sink) {
        let Some(mut conn) = self.conns.remove(index, &mut self.peers) else {
            return;
        };
        let why = conn.ending.unwrap_or(Errno::CONNRESET);
        for token in conn.cma.abandon() {
            sink.pulled(token, Err(why));
        }
        if let Some(socket) = &conn.socket {
            self.table.stop_watching(socket, &conn.process);
        }
        self.table.forget(conn.entry, None);
        if let Some(peer) = self.peers.get(conn.peer) {
            let cause = match why {
                Errno::CONNRESET => "its process has ended, or has closed its endpoint",
                Errno::PROTO => "it broke the protocol",
                other => other.text(),
            };
            log::info!(NAME, EpCtrl, "connection with {} lost: {cause}", peer.name);
        }
        let unseen = conn.delivered_nothing();
        if let Some(peer) = self.peers.get_mut(conn.peer) {
            peer.state = ConnState::Closed;
            peer.wanted = false;
            peer.left_in = self.polls;
            peer.limits = self.expected;
            peer.known |= !unseen;
            if !peer.known {
                // The engine has not seen this peer.
                return peer::recycle(&mut self.peers, conn.peer);
            }
        }
        sink.peer_down(conn.peer, why);
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
