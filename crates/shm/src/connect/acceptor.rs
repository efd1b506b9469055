//! The accepting side of a handshake: each hello is accepted, refused, or waits for an older connection to end.

use std::collections::HashSet;
use std::time::Duration;

use oxifabric_engine::Sink;
use oxifabric_provider::log;
use oxifabric_types::{Errno, PeerId};
use oxifabric_wire::shm::handshake::{Accept, Cause, Handshake, MAX_SIZE, Refuse};

use crate::NAME;
use crate::conn_table::{ConnEntry, InboundConn, PendingConn};
use crate::handshake::{self, Verdict};
use crate::link::ShmLink;
use crate::peer::{self, ConnState, HalfOpen};
use crate::region::Region;
use crate::sys::identity::Identity;
use crate::sys::socket::{Received, Socket};

/// How long a hello may wait for an older endpoint of its name to end; after that the hello is refused.
const REPLACE_TIMEOUT: Duration = Duration::from_secs(15);

impl ShmLink {
    pub(super) fn drop_parked_if_closed(&mut self, index: usize, inbound: Box<InboundConn>) {
        let gone = !matches!(
            inbound.socket.receive(&mut [0]),
            Ok(Received::Packet(_) | Received::Nothing)
        );
        self.table.set(index, ConnEntry::Parked(inbound));
        if gone {
            self.table.forget(index, None);
        }
    }

    /// Decides again on the hellos that had to wait.
    pub(super) fn retry_parked(&mut self, sink: &mut impl Sink) -> usize {
        let before = self.table.parked.len();
        for index in std::mem::take(&mut self.table.parked) {
            match self.table.take(index) {
                ConnEntry::Parked(inbound) if self.must_wait(&inbound) => self.park(index, inbound),
                ConnEntry::Parked(inbound) => self.decide(index, inbound, sink),
                other => self.table.set(index, other),
            }
        }
        before - self.table.parked.len().min(before)
    }

    /// Returns whether the connection for whose end a hello waits is still open, as far as is known without a system call.
    pub(crate) fn must_wait(&self, inbound: &InboundConn) -> bool {
        let peer = self.peers.find(&*inbound.hello.from);
        let open = peer.and_then(|peer| self.peers.get(peer));
        inbound.deadline > self.now
            && open.is_some_and(|peer| matches!(peer.state, ConnState::Open))
    }

    pub(super) fn read_hello(&mut self, index: usize, pending: PendingConn, sink: &mut impl Sink) {
        let mut bytes = [0; MAX_SIZE];
        let (len, memory) = match pending.socket.receive_with_file(&mut bytes) {
            Ok((Received::Packet(len), memory)) => (len, memory),
            Ok((Received::Nothing, _)) if self.now < pending.deadline => {
                return self.table.set(index, ConnEntry::Pending(pending));
            }
            _ => {
                self.count_refusal();
                return self.drop_entry(index, pending.socket);
            }
        };
        self.table.pending.retain(|&pending| pending != index);
        let PendingConn {
            socket,
            credentials,
            ..
        } = pending;
        match (Handshake::parse(&bytes[..len]), memory) {
            (Ok(Handshake::Hello(hello)), Some(memory)) => {
                let inbound = InboundConn {
                    socket,
                    hello,
                    memory,
                    credentials,
                    deadline: self.now.after(REPLACE_TIMEOUT),
                };
                self.decide(index, Box::new(inbound), sink);
            }
            (Err(error), _) => {
                log::warn!(
                    NAME,
                    EpCtrl,
                    "an incoming connection sent no handshake message: {error}"
                );
                if let Some(answer) = handshake::answer_garbage(error) {
                    let _ = socket.send(&answer.emit(), None);
                }
                self.count_refusal();
                self.drop_entry(index, socket);
            }
            (Ok(_), _) => {
                log::warn!(NAME, EpCtrl, "an incoming connection sent no proper hello");
                self.count_refusal();
                self.drop_entry(index, socket);
            }
        }
    }

    pub(super) fn drop_entry(&mut self, index: usize, socket: Socket) {
        self.table.forget(index, Some(&socket));
    }

    fn refuse(&mut self, index: usize, socket: Socket, refuse: Refuse) {
        if refuse.cause == Cause::Crossed {
            // An initiator whose hello crossed ours expects this answer; other refusals are written to the log.
            let _ = socket.send(&Handshake::Refuse(refuse).emit(), None);
        } else {
            self.send_refuse(&socket, refuse);
        }
        self.drop_entry(index, socket);
    }

    /// Carries out what [`handshake::decide`] returns for a hello.
    fn decide(&mut self, index: usize, inbound: Box<InboundConn>, sink: &mut impl Sink) {
        // An endpoint that connects again has closed its older socket: that is read first, and may free the row.
        if let Some(older) = self.peers.find(&*inbound.hello.from) {
            self.read_older(older, sink);
        }
        if self.peers.is_crowded() {
            self.sweep(sink);
        }
        let peer = match peer::number(&mut self.peers, &inbound.hello.from, &self.expected) {
            Ok(peer) => peer,
            Err(errno) => {
                let refuse = Refuse {
                    cause: Cause::Limit,
                    text: format!("{} cannot be a peer: {errno}", inbound.hello.from),
                };
                return self.refuse(index, inbound.socket, refuse);
            }
        };
        match handshake::decide(&self.table.name, &inbound.hello, self.peer_state(peer)) {
            Verdict::Accept => self.accept(index, *inbound, peer, sink),
            Verdict::Refuse(refuse) => {
                self.refuse(index, inbound.socket, refuse);
                peer::recycle(&mut self.peers, peer);
            }
            Verdict::Replace => {
                self.end_older(peer, sink);
                self.wait(index, inbound);
            }
            Verdict::Wait => self.wait(index, inbound),
        }
    }

    /// Reads the older connection of a peer, or its end.
    fn read_older(&mut self, peer: PeerId, sink: &mut impl Sink) {
        match self.peers.get(peer).map(|peer| &peer.state) {
            Some(ConnState::AcceptSent(half)) => {
                let entry = half.entry;
                self.read_entry(entry, sink);
            }
            _ => self.read_open(peer),
        }
    }

    /// Lets a hello wait for the end of the open connection of its name, unless it has done so for long.
    fn wait(&mut self, index: usize, inbound: Box<InboundConn>) {
        if inbound.deadline <= self.now {
            let text = format!("{} is an endpoint that lives", inbound.hello.from);
            let cause = Cause::Name;
            return self.refuse(index, inbound.socket, Refuse { cause, text });
        }
        while let Some(oldest) = self.table.parked_to_drop() {
            self.table.forget(oldest, None);
        }
        self.park(index, inbound);
    }

    fn park(&mut self, index: usize, inbound: Box<InboundConn>) {
        self.table.set(index, ConnEntry::Parked(inbound));
        self.table.parked.push(index);
    }

    fn peer_state(&self, peer: PeerId) -> handshake::PeerState {
        let Some(peer) = self.peers.get(peer) else {
            return handshake::PeerState::Closed;
        };
        let conn = self.conns.get(peer.conn as usize);
        peer.peer_state(conn.filter(|conn| conn.ending.is_none()))
    }

    /// Frees the rows of initiators that are gone, if the application does not know them and no operation is about them.
    #[cold]
    fn sweep(&mut self, sink: &mut impl Sink) {
        let mut involved = HashSet::new();
        sink.involved(&mut |peer| {
            involved.insert(peer);
        });
        let mut departed = peer::departed(&self.peers, self.polls);
        departed.retain(|&peer| !involved.contains(&peer) && !self.is_known(peer, sink));
        self.peers.vacate(&departed);
        departed.into_iter().for_each(|peer| sink.forget_peer(peer));
    }

    /// Returns whether the application has a peer in its address vector, and records it if so.
    fn is_known(&mut self, peer: PeerId, sink: &impl Sink) -> bool {
        let is_known = sink.is_known(peer);
        if is_known {
            self.peers.name(peer);
        }
        is_known
    }

    /// Ends the older connection of a peer: a newer endpoint has the same name.
    fn end_older(&mut self, peer: PeerId, sink: &mut impl Sink) {
        let place = self.index_of(peer);
        match place.and_then(|place| self.conns.get_mut(place)) {
            Some(conn) => {
                conn.end(Errno::CONNRESET);
                if let Some(peer) = self.peers.get_mut(peer) {
                    peer.state = ConnState::Ending;
                }
            }
            None => self.fail(peer, Errno::CONNRESET, "its process was replaced", sink),
        }
    }

    /// Opens the memory that an initiator sent, and accepts.
    fn accept(&mut self, index: usize, inbound: InboundConn, peer: PeerId, sink: &mut impl Sink) {
        let hello = &inbound.hello;
        let unsealed = self.params.dir.is_some();
        let region = match Region::adopt(&inbound.memory, hello.cells, hello.bytes, unsealed) {
            Ok(region) => region,
            Err(error) => {
                let text = error.to_string();
                let cause = Cause::Memory;
                self.refuse(index, inbound.socket, Refuse { cause, text });
                return peer::recycle(&mut self.peers, peer);
            }
        };
        let process = Identity::of(inbound.credentials);
        let reads = self.probe(&process, hello.probe, hello.incarnation);
        let accept = Handshake::Accept(Accept {
            ability: self.table.ability(reads.is_ok()),
            incarnation: *self.table.incarnation,
            probe: self.table.probe(),
        });
        if inbound.socket.send(&accept.emit(), None).is_err() {
            // Its socket is closed already, or so full that there is no space for the answer.
            self.drop_entry(index, inbound.socket);
            return peer::recycle(&mut self.peers, peer);
        }
        self.drop_own_hello(peer);
        let half = HalfOpen {
            region,
            deadline: self.deadline(),
            entry: index,
            process,
            ability: hello.ability,
            incarnation: hello.incarnation,
            probe: hello.probe,
            reads,
        };
        self.table
            .set(index, ConnEntry::AcceptSent(inbound.socket, peer));
        if let Some(known) = self.peers.get_mut(peer) {
            known.state = ConnState::AcceptSent(Box::new(half));
            if !self.table.opening.contains(&peer) {
                self.table.opening.push(peer);
            }
        }
        // A ready that came with the hello is not waited for.
        self.read_entry(index, sink);
    }

    /// Drops this side's own hello: the peer's counts.
    fn drop_own_hello(&mut self, peer: PeerId) {
        let Some(known) = self.peers.get_mut(peer) else {
            return;
        };
        if let ConnState::HelloSent(half) = std::mem::replace(&mut known.state, ConnState::Closed) {
            self.table.forget(half.entry, None);
        }
    }

    pub(super) fn read_ready(
        &mut self,
        index: usize,
        socket: Socket,
        peer: PeerId,
        sink: &mut impl Sink,
    ) {
        let mut bytes = [0; MAX_SIZE];
        let len = match socket.receive(&mut bytes) {
            Ok(Received::Packet(len)) => len,
            Ok(Received::Nothing) => {
                return self.table.set(index, ConnEntry::AcceptSent(socket, peer));
            }
            Ok(Received::Closed) | Err(_) => {
                self.table.set(index, ConnEntry::AcceptSent(socket, peer));
                return self.fail(peer, Errno::CONNRESET, "it connected and hung up", sink);
            }
        };
        let Ok(Handshake::Ready(ability)) = Handshake::parse(&bytes[..len]) else {
            self.table.set(index, ConnEntry::AcceptSent(socket, peer));
            return self.fail(peer, Errno::PROTO, "it did not say ready", sink);
        };
        let Some(known) = self.peers.get_mut(peer) else {
            return self.drop_entry(index, socket);
        };
        let ConnState::AcceptSent(mut half) =
            std::mem::replace(&mut known.state, ConnState::Closed)
        else {
            return self.drop_entry(index, socket);
        };
        half.ability = ability;
        self.open_conn(*half, socket, peer);
    }
}
