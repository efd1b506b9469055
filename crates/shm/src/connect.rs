//! How connections open and close, docs/protocol/shm.md "Handshake".
//!
//! Set-up path. A connection is opened by three messages over a socket that stays open afterwards, so that the kernel
//! reports when the other side is gone. [`initiator`] and [`acceptor`] are the two sides of the handshake; before it,
//! [`admit`] bounds how many connections are accepted.

mod acceptor;
mod admit;
mod initiator;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use oxifabric_engine::Sink;
use oxifabric_provider::log;
use oxifabric_types::{Errno, Instant, PeerId};
use oxifabric_wire::shm::handshake::Ability;

use crate::NAME;
use crate::conn::{self, Conn};
use crate::conn_table::{ConnEntry, ENDED, FIRST, LISTENER, TIMER};
use crate::direct::DirectAccess;
use crate::doorbell::Doorbell;
use crate::link::ShmLink;
use crate::peer::{self, ConnState, HalfOpen, Peer};
use crate::pull::CmaQueue;
use crate::sys::identity::Identity;
use crate::sys::process;
use crate::sys::socket::{Received, Socket};

/// Connections of an endpoint whose byte rings are mapped when they open. A process with many peers has no use for most of that memory,
/// and would pay for it at its start.
const CONNS_WITH_MAPPED_RINGS: usize = 16;

/// Connections of departed peers whose messages may wait for room: a server may have as many clients that do not wait
/// for an answer. Each takes the memory of its lanes, 330 KiB by default.
const MOST_DEPARTED: usize = 64;

impl ShmLink {
    /// Handles the events of all sockets; returns how many there were.
    pub(crate) fn poll_sockets(&mut self, sink: &mut impl Sink) -> usize {
        self.table.resume_accept(self.now);
        let ready = self.table.epoll.ready();
        let mut events = 0;
        for &token in ready.tokens() {
            events += match token {
                LISTENER => self.accept_waiting(sink),
                TIMER => 0,
                token if token & ENDED != 0 => {
                    self.on_process_end(((token & !ENDED) - FIRST) as usize)
                }
                token => self.read_entry((token - FIRST) as usize, sink),
            };
        }
        events += self.retry_parked(sink);
        events + self.advance_opening(sink)
    }

    /// Returns when a peer that is there and does not answer is given up.
    pub(super) fn deadline(&self) -> Instant {
        let timeout = self.params.connect_timeout;
        timeout.map_or(Instant::END, |timeout| self.now.after(timeout))
    }

    /// Reads what has arrived on a connection, by its handshake state.
    pub(super) fn read_entry(&mut self, index: usize, sink: &mut impl Sink) -> usize {
        match self.table.take(index) {
            ConnEntry::Free => return 0,
            ConnEntry::Pending(pending) => self.read_hello(index, pending, sink),
            ConnEntry::Parked(inbound) => self.drop_parked_if_closed(index, inbound),
            ConnEntry::HelloSent(socket, peer) => self.read_answer(index, socket, peer, sink),
            ConnEntry::AcceptSent(socket, peer) => self.read_ready(index, socket, peer, sink),
            ConnEntry::Open(peer) => {
                self.table.set(index, ConnEntry::Open(peer));
                self.read_open(peer);
            }
        }
        1
    }

    /// Reads an open connection's socket: rings of the doorbell, or its end.
    pub(super) fn read_open(&mut self, peer: PeerId) {
        let index = self.index_of(peer);
        let Some(conn) = index.and_then(|index| self.conns.get_mut(index)) else {
            return;
        };
        let mut byte = [0];
        let Some(socket) = &conn.socket else {
            return;
        };
        loop {
            match socket.receive(&mut byte) {
                Ok(Received::Packet(_)) => {}
                Ok(Received::Nothing) => return,
                Ok(Received::Closed) | Err(_) => break,
            }
        }
        self.end_conn(peer);
    }

    /// Ends the connection of a process that has ended. Usually its socket reports that, but not where a child of the
    /// process has it, too.
    fn on_process_end(&mut self, index: usize) -> usize {
        if let Some(ConnEntry::Open(peer)) = self.table.entries.get(index) {
            self.end_conn(*peer);
        }
        1
    }

    /// Begins to end an open connection whose other side is gone. What that published is delivered first; the socket has
    /// nothing more.
    pub(crate) fn end_conn(&mut self, peer: PeerId) {
        let index = self.index_of(peer);
        let Some(conn) = index.and_then(|index| self.conns.get_mut(index)) else {
            return;
        };
        // Whatever of it is still to be taken lies in memory.
        if let Some(socket) = conn.socket.take() {
            self.table.stop_watching(&socket, &conn.process);
        }
        conn.process.release_if_ended();
        conn.end(Errno::CONNRESET);
        self.departures += 1;
        conn.departure = self.departures;
        if let Some(row) = self.peers.get_mut(peer) {
            row.state = ConnState::Ending;
            let (name, pid) = (&row.name, conn.process.pid());
            let reason = format!("{name}: process {pid} has closed its endpoint or ended");
            self.peers.directory().explain(peer, Some(reason));
        }
        self.bound_departed();
    }

    /// Bounds the connections of peers that have gone, and that the application has not named, whose messages wait for
    /// room. Beyond, the messages of the first one to go are dropped.
    fn bound_departed(&mut self) {
        loop {
            let peers = &self.peers;
            let waiting = self.conns.iter_mut().filter(|conn| {
                !peers.is_named(conn.peer) && !conn.broken && conn.stalled && conn.ending.is_some()
            });
            let mut waiting: Vec<_> = waiting.collect();
            if waiting.len() <= MOST_DEPARTED {
                return;
            }
            if let Some(first) = waiting.iter_mut().min_by_key(|conn| conn.departure) {
                log::warn!(
                    NAME,
                    EpData,
                    "messages of peers that have gone are dropped: there is no room for them"
                );
                first.fail(Errno::CONNRESET);
            }
        }
    }

    /// Reads the incarnation number of the other side at the address that it names: where that works, long messages can
    /// be read.
    ///
    /// Both processes must be of one user, so that no process lends its rights to one with fewer. The kernel decides by
    /// what the process is now, and lets root read every process, also one that has become another user's since it
    /// connected.
    pub(super) fn probe(
        &self,
        process: &Identity,
        address: u64,
        expected: u64,
    ) -> Result<(), String> {
        let pid = process.pid();
        if self.params.disable_cma {
            return Err("FI_SHM_DISABLE_CMA forbids it".into());
        }
        if process.uid() != process::user() {
            return Err(format!("process {pid} belongs to user {}", process.uid()));
        }
        if !process.is_certain() {
            return Err("the process is in another namespace, or hidden".into());
        }
        match process::read_word(pid, address) {
            // The process that was found is the one that has the number, as it has not ended since.
            Ok(word) if word == expected && process.runs() => Ok(()),
            Ok(_) => Err(format!("process {pid} is another one here")),
            Err(error) => Err(format!("process_vm_readv of process {pid}: {error}")),
        }
    }

    /// Connects to peers that are wanted, and gives up those that take too long.
    fn advance_opening(&mut self, sink: &mut impl Sink) -> usize {
        let before = self.table.opening.len();
        let opening = std::mem::take(&mut self.table.opening);
        for peer in opening {
            if self.is_opening(peer, sink) {
                self.table.opening.push(peer);
            }
        }
        before - self.table.opening.len().min(before)
    }

    /// Takes the next step of a handshake that this side can take; returns whether there are more to come.
    fn is_opening(&mut self, peer: PeerId, sink: &mut impl Sink) -> bool {
        let now = self.now;
        let Some(known) = self.peers.get_mut(peer) else {
            return false;
        };
        match &mut known.state {
            ConnState::Wanted(give_up_at) => {
                let give_up_at = *give_up_at.get_or_insert(now.after(self.params.absent_timeout));
                self.connect(peer, give_up_at, sink);
            }
            ConnState::HelloSent(half) | ConnState::AcceptSent(half) if now >= half.deadline => {
                self.fail(peer, Errno::TIMEDOUT, "it did not answer in time", sink);
            }
            ConnState::Yielded(until) if now >= *until => known.state = ConnState::Wanted(None),
            _ => {}
        }
        self.peers.get(peer).is_some_and(Peer::is_opening)
    }

    /// Opens a connection when both sides are ready: frames may move.
    pub(super) fn open_conn(&mut self, half: HalfOpen, socket: Socket, peer: PeerId) {
        let theirs = half.ability.contains(Ability::READS);
        let pull = half.reads.is_ok() && theirs;
        let Some(known) = self.peers.get_mut(peer) else {
            return self.drop_entry(half.entry, socket);
        };
        known.limits = conn::limits(&self.params, half.region.layout, pull);
        known.state = ConnState::Open;
        let slower = (!pull).then(|| {
            let cause = half.reads.err().unwrap_or_else(|| {
                let pid = half.process.pid();
                format!("process {pid} cannot read the memory of this one")
            });
            format!("long messages are copied through shared memory: {cause}")
        });
        let path = slower.as_deref();
        let path = path.unwrap_or("long messages are read from the sender's memory");
        log::info!(
            NAME,
            EpCtrl,
            "{} is process {}; {path}",
            known.name,
            half.process.pid()
        );
        let region = half.region;
        if self.conns.len() < CONNS_WITH_MAPPED_RINGS {
            region.map_rings();
        }
        let threshold = conn::threshold(&self.params, region.layout, &region.head, region.side);
        let eager = conn::limits(&self.params, region.layout, true).eager;
        let sleeps = half.ability.contains(Ability::SLEEPS);
        let grants = pull && half.ability.contains(Ability::GRANTS);
        self.table.set(half.entry, ConnEntry::Open(peer));
        self.table.watch_end(half.entry, &half.process);
        let conn = Conn {
            peer,
            rx: region.rx,
            cells_seen: None,
            stalled: false,
            blocked: std::mem::take(&mut known.wanted).then_some(0),
            ending: None,
            ended_at: 0,
            departure: 0,
            cut_short: None,
            settled_by: None,
            broken: false,
            tx: region.tx,
            bell: Doorbell::new(region.head.clone(), region.side, sleeps),
            pull,
            process: half.process,
            socket: Some(socket),
            entry: half.entry,
            incarnation: half.incarnation,
            probe: half.probe,
            direct: DirectAccess::new(Arc::clone(&region.head), region.side, grants, eager),
            cma: CmaQueue::new(
                region.head,
                region.side,
                (self.params.assist_size, self.params.pull_chunk),
                threshold,
            ),
        };
        self.conns.add(conn, &mut self.peers);
        self.peers.directory().explain(peer, slower);
    }

    /// Gives up a handshake and reports why.
    pub(super) fn fail(&mut self, peer: PeerId, errno: Errno, why: &str, sink: &mut impl Sink) {
        let named = self.peers.is_named(peer);
        let Some(known) = self.peers.get_mut(peer) else {
            return;
        };
        let text = format!("{}: {why}", known.name);
        if named {
            log::warn!(NAME, EpCtrl, "{text}");
        } else {
            // Initiators choose their names, and could fill the log with them.
            log::warn!(NAME, EpCtrl, "an incoming connection is given up: {why}");
        }
        let wanted = std::mem::take(&mut known.wanted);
        match std::mem::replace(&mut known.state, ConnState::Closed) {
            ConnState::HelloSent(half) | ConnState::AcceptSent(half) => {
                self.table.forget(half.entry, None)
            }
            _ => {}
        }
        self.peers.directory().explain(peer, Some(text));
        if wanted {
            sink.peer_down(peer, errno);
        }
        peer::recycle(&mut self.peers, peer);
    }
}
