//! The called side of an opening: callers are let in, judged, and accepted or refused.

use std::time::Duration;

use oxifabric_core::log;
use oxifabric_engine::Sink;
use oxifabric_types::{Errno, Instant, PeerId};
use oxifabric_wire::shm::greeting::{Accept, Cause, Greeting, MAX_SIZE, Refuse};

use crate::NAME;
use crate::handshake::{self, Verdict};
use crate::link::ShmLink;
use crate::peer::{Half, Stage};
use crate::region::Region;
use crate::switchboard::{Caller, Conn};
use crate::sys::process;
use crate::sys::socket::{Credentials, Received, Socket};

/// How long a caller may take to say hello: it has nothing to wait for.
const SILENCE: Duration = Duration::from_secs(15);

/// Most callers that are let in at once.
const CALLERS_PER_LOOK: usize = 64;

impl ShmLink {
    pub(super) fn let_callers_in(&mut self, sink: &mut impl Sink) -> usize {
        self.drop_silent_callers(sink);
        for count in 0..CALLERS_PER_LOOK {
            let socket = match self.board.listener.accept() {
                Ok(Some(socket)) => socket,
                Ok(None) => return count,
                Err(error) => {
                    log::warn!(NAME, EpCtrl, "a caller cannot be let in: {error}");
                    return count;
                }
            };
            let deadline = self.now.after(SILENCE);
            match self.board.add(&socket) {
                Ok(index) => self.board.set(index, Conn::Stranger(socket, deadline)),
                Err(error) => log::warn!(NAME, EpCtrl, "a caller cannot be watched: {error}"),
            }
        }
        CALLERS_PER_LOOK
    }

    /// Drops callers that never said hello, so that they do not pile up. What they have said by now counts: it may be
    /// this side that was late.
    fn drop_silent_callers(&mut self, sink: &mut impl Sink) {
        for index in 0..self.board.conns.len() {
            let overdue = matches!(&self.board.conns[index],
                Conn::Stranger(_, deadline) if *deadline <= self.now);
            if overdue {
                self.read_conn(index, sink);
            }
        }
    }

    pub(super) fn watch_parked(&mut self, index: usize, caller: Box<Caller>) {
        let gone = !matches!(
            caller.socket.receive(&mut [0]),
            Ok(Received::Packet(..) | Received::Nothing)
        );
        self.board.set(index, Conn::Parked(caller));
        if gone {
            self.board.forget(index, None);
        }
    }

    /// Judges again the hellos that had to wait.
    pub(super) fn judge_parked(&mut self, sink: &mut impl Sink) -> usize {
        let parked = std::mem::take(&mut self.board.parked);
        for &index in &parked {
            if let Conn::Parked(caller) = self.board.take(index) {
                self.judge(index, caller, sink);
            }
        }
        parked.len()
    }

    pub(super) fn hear_hello(
        &mut self,
        index: usize,
        socket: Socket,
        deadline: Instant,
        sink: &mut impl Sink,
    ) {
        let mut bytes = [0; MAX_SIZE];
        let (len, memory) = match socket.receive(&mut bytes) {
            Ok(Received::Packet(len, memory)) => (len, memory),
            Ok(Received::Nothing) if self.now < deadline => {
                return self.board.set(index, Conn::Stranger(socket, deadline));
            }
            _ => return self.drop_conn(index, socket),
        };
        let who = socket.credentials().unwrap_or(Credentials {
            pid: 0,
            uid: u32::MAX,
        });
        if let Err(refuse) = handshake::check_owner(who, process::user()) {
            return self.refuse(index, socket, refuse);
        }
        match (Greeting::parse(&bytes[..len]), memory) {
            (Ok(Greeting::Hello(hello)), Some(memory)) => {
                let caller = Caller {
                    socket,
                    hello,
                    memory,
                    who,
                };
                self.judge(index, Box::new(caller), sink);
            }
            (Err(error), _) => {
                log::warn!(NAME, EpCtrl, "process {} called: {error}", who.pid);
                if let Some(answer) = handshake::answer_garbage(error) {
                    let _ = socket.send(&answer.emit(), None);
                }
                self.drop_conn(index, socket);
            }
            (Ok(_), _) => {
                log::warn!(
                    NAME,
                    EpCtrl,
                    "process {} called without a proper hello",
                    who.pid
                );
                self.drop_conn(index, socket);
            }
        }
    }

    pub(super) fn drop_conn(&mut self, index: usize, socket: Socket) {
        self.board.forget(index, Some(&socket));
    }

    fn refuse(&mut self, index: usize, socket: Socket, refuse: Refuse) {
        // A caller whose call crossed ours expects this answer; everybody else's user should know.
        if refuse.cause != Cause::Crossed {
            log::warn!(NAME, EpCtrl, "a caller was refused: {}", refuse.text);
        }
        let _ = socket.send(&Greeting::Refuse(refuse).emit(), None);
        self.drop_conn(index, socket);
    }

    /// Acts on what [`handshake::judge`] says of a hello.
    fn judge(&mut self, index: usize, caller: Box<Caller>, sink: &mut impl Sink) {
        let peer = match self.peers.named(&caller.hello.from, &self.expected) {
            Ok(peer) => peer,
            Err(errno) => {
                let refuse = Refuse {
                    cause: Cause::Limit,
                    text: format!("{} cannot be a peer: {errno}", caller.hello.from),
                };
                return self.refuse(index, caller.socket, refuse);
            }
        };
        // An endpoint that calls again has hung up before: that is heard first.
        self.hear_pair(peer);
        match handshake::judge(&self.board.name, &caller.hello, self.standing(peer)) {
            Verdict::Accept => self.accept(index, *caller, peer, sink),
            Verdict::Refuse(refuse) => self.refuse(index, caller.socket, refuse),
            Verdict::Replace => {
                self.end_old(peer, sink);
                self.park(index, caller);
            }
            Verdict::Wait => self.park(index, caller),
        }
    }

    fn park(&mut self, index: usize, caller: Box<Caller>) {
        self.board.set(index, Conn::Parked(caller));
        self.board.parked.push(index);
    }

    fn standing(&self, peer: PeerId) -> handshake::Standing {
        let paired = self
            .peers
            .get(peer)
            .and_then(|peer| self.pairs.get(peer.pair as usize))
            .filter(|pair| pair.ending.is_none())
            .map(|pair| pair.incarnation);
        self.peers
            .get(peer)
            .map_or(handshake::Standing::Apart, |peer| peer.standing(paired))
    }

    /// The peer has a successor of the same name: its own pair is over.
    fn end_old(&mut self, peer: PeerId, sink: &mut impl Sink) {
        let place = self.place_of(peer);
        match place.and_then(|place| self.pairs.get_mut(place)) {
            Some(pair) => {
                pair.ending.get_or_insert(Errno::CONNRESET);
                if let Some(peer) = self.peers.get_mut(peer) {
                    peer.stage = Stage::Ending;
                }
            }
            None => self.fail(peer, Errno::CONNRESET, "its process was replaced", sink),
        }
    }

    /// Makes a pair with a caller's memory.
    fn accept(&mut self, index: usize, caller: Caller, peer: PeerId, sink: &mut impl Sink) {
        let hello = &caller.hello;
        let unsealed = self.params.dir.is_some();
        let region = match Region::adopt(&caller.memory, hello.cells, hello.bytes, unsealed) {
            Ok(region) => region,
            Err(error) => {
                let text = error.to_string();
                let cause = Cause::Memory;
                return self.refuse(index, caller.socket, Refuse { cause, text });
            }
        };
        let reads = self.probe(caller.who.pid, hello.probe, hello.incarnation);
        let accept = Greeting::Accept(Accept {
            ability: self.board.ability(reads.is_ok()),
            incarnation: *self.board.incarnation,
            probe: self.board.probe(),
        });
        if caller.socket.send(&accept.emit(), None).is_err() {
            // It is gone already, or so hostile as to leave no room for the answer.
            return self.drop_conn(index, caller.socket);
        }
        self.drop_own_call(peer);
        let half = Half {
            region,
            deadline: self.deadline(),
            conn: index,
            pid: caller.who.pid,
            ability: hello.ability,
            incarnation: hello.incarnation,
            reads,
        };
        self.board.set(index, Conn::Answered(caller.socket, peer));
        if let Some(known) = self.peers.get_mut(peer) {
            known.stage = Stage::Answered(Box::new(half));
            if !self.board.opening.contains(&peer) {
                self.board.opening.push(peer);
            }
        }
        // A ready that came with the call is not waited for.
        self.read_conn(index, sink);
    }

    /// The peer's call counts, not this side's.
    fn drop_own_call(&mut self, peer: PeerId) {
        let Some(known) = self.peers.get_mut(peer) else {
            return;
        };
        if let Stage::Called(half) = std::mem::replace(&mut known.stage, Stage::Apart) {
            self.board.forget(half.conn, None);
        }
    }

    pub(super) fn hear_ready(
        &mut self,
        index: usize,
        socket: Socket,
        peer: PeerId,
        sink: &mut impl Sink,
    ) {
        let mut bytes = [0; MAX_SIZE];
        let len = match socket.receive(&mut bytes) {
            Ok(Received::Packet(len, _)) => len,
            Ok(Received::Nothing) => return self.board.set(index, Conn::Answered(socket, peer)),
            Ok(Received::Closed) | Err(_) => {
                self.board.set(index, Conn::Answered(socket, peer));
                return self.fail(peer, Errno::CONNRESET, "it called and hung up", sink);
            }
        };
        let Ok(Greeting::Ready(ability)) = Greeting::parse(&bytes[..len]) else {
            self.board.set(index, Conn::Answered(socket, peer));
            return self.fail(peer, Errno::PROTO, "it did not say ready", sink);
        };
        let Some(known) = self.peers.get_mut(peer) else {
            return self.drop_conn(index, socket);
        };
        let Stage::Answered(mut half) = std::mem::replace(&mut known.stage, Stage::Apart) else {
            return self.drop_conn(index, socket);
        };
        half.ability = ability;
        self.open_pair(*half, socket, peer);
    }
}
