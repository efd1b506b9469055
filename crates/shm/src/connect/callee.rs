//! The called side of an opening: hellos are judged, and accepted or refused.

use std::time::Duration;

use oxifabric_core::log;
use oxifabric_engine::Sink;
use oxifabric_types::{Errno, PeerId};
use oxifabric_wire::shm::greeting::{Accept, Cause, Greeting, MAX_SIZE, Refuse};

use crate::NAME;
use crate::handshake::{self, Verdict};
use crate::link::ShmLink;
use crate::peer::{Half, Stage};
use crate::region::Region;
use crate::switchboard::{Caller, Conn, Newcomer};
use crate::sys::identity::Identity;
use crate::sys::socket::{Received, Socket};

/// How long a caller may wait for an older endpoint of its name, whose process ends just now or not at all.
const SUCCESSION: Duration = Duration::from_secs(15);

impl ShmLink {
    pub(super) fn watch_parked(&mut self, index: usize, caller: Box<Caller>) {
        let gone = !matches!(
            caller.socket.receive(&mut [0]),
            Ok(Received::Packet(_) | Received::Nothing)
        );
        self.board.set(index, Conn::Parked(caller));
        if gone {
            self.board.forget(index, None);
        }
    }

    /// Judges again the hellos that had to wait.
    pub(super) fn judge_parked(&mut self, sink: &mut impl Sink) -> usize {
        let before = self.board.parked.len();
        for index in std::mem::take(&mut self.board.parked) {
            match self.board.take(index) {
                Conn::Parked(caller) if self.must_wait(&caller) => self.park(index, caller),
                Conn::Parked(caller) => self.judge(index, caller, sink),
                other => self.board.set(index, other),
            }
        }
        before - self.board.parked.len().min(before)
    }

    /// Tells whether the pair for whose end a caller waits goes on, as far as is known without asking.
    pub(crate) fn must_wait(&self, caller: &Caller) -> bool {
        let peer = self.peers.find(&caller.hello.from);
        let open = peer.and_then(|peer| self.peers.get(peer));
        caller.deadline > self.now && open.is_some_and(|peer| matches!(peer.stage, Stage::Open))
    }

    pub(super) fn hear_hello(&mut self, index: usize, newcomer: Newcomer, sink: &mut impl Sink) {
        let mut bytes = [0; MAX_SIZE];
        let (len, memory) = match newcomer.socket.receive_with_file(&mut bytes) {
            Ok((Received::Packet(len), memory)) => (len, memory),
            Ok((Received::Nothing, _)) if self.now < newcomer.deadline => {
                return self.board.set(index, Conn::Stranger(newcomer));
            }
            _ => {
                self.regret();
                return self.drop_conn(index, newcomer.socket);
            }
        };
        self.board.silent.retain(|&silent| silent != index);
        let Newcomer { socket, who, .. } = newcomer;
        match (Greeting::parse(&bytes[..len]), memory) {
            (Ok(Greeting::Hello(hello)), Some(memory)) => {
                let caller = Caller {
                    socket,
                    hello,
                    memory,
                    who,
                    deadline: self.now.after(SUCCESSION),
                };
                self.judge(index, Box::new(caller), sink);
            }
            (Err(error), _) => {
                log::warn!(NAME, EpCtrl, "a caller does not greet: {error}");
                if let Some(answer) = handshake::answer_garbage(error) {
                    let _ = socket.send(&answer.emit(), None);
                }
                self.regret();
                self.drop_conn(index, socket);
            }
            (Ok(_), _) => {
                log::warn!(NAME, EpCtrl, "a caller came without a proper hello");
                self.regret();
                self.drop_conn(index, socket);
            }
        }
    }

    pub(super) fn drop_conn(&mut self, index: usize, socket: Socket) {
        self.board.forget(index, Some(&socket));
    }

    fn refuse(&mut self, index: usize, socket: Socket, refuse: Refuse) {
        if refuse.cause == Cause::Crossed {
            // A caller whose call crossed ours expects this answer; the users of others should know.
            let _ = socket.send(&Greeting::Refuse(refuse).emit(), None);
        } else {
            self.turn_away(&socket, refuse);
        }
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
        self.hear_old(peer, sink);
        match handshake::judge(&self.board.name, &caller.hello, self.standing(peer)) {
            Verdict::Accept => self.accept(index, *caller, peer, sink),
            Verdict::Refuse(refuse) => {
                self.refuse(index, caller.socket, refuse);
                self.peers.recycle(peer);
            }
            Verdict::Replace => {
                self.end_old(peer, sink);
                self.wait(index, caller);
            }
            Verdict::Wait => self.wait(index, caller),
        }
    }

    /// Hears what the peer's older connection says, or its end.
    fn hear_old(&mut self, peer: PeerId, sink: &mut impl Sink) {
        match self.peers.get(peer).map(|peer| &peer.stage) {
            Some(Stage::Answered(half)) => {
                let conn = half.conn;
                self.read_conn(conn, sink);
            }
            _ => self.hear_pair(peer),
        }
    }

    /// Lets a caller wait for the end of the pair of its name, unless it has done so for long.
    fn wait(&mut self, index: usize, caller: Box<Caller>) {
        if caller.deadline <= self.now {
            let text = format!("{} is an endpoint that lives", caller.hello.from);
            let cause = Cause::Name;
            return self.refuse(index, caller.socket, Refuse { cause, text });
        }
        while let Some(oldest) = self.board.too_patient() {
            self.board.forget(oldest, None);
        }
        self.park(index, caller);
    }

    fn park(&mut self, index: usize, caller: Box<Caller>) {
        self.board.set(index, Conn::Parked(caller));
        self.board.parked.push(index);
    }

    fn standing(&self, peer: PeerId) -> handshake::Standing {
        let Some(peer) = self.peers.get(peer) else {
            return handshake::Standing::Apart;
        };
        let pair = self.pairs.get(peer.pair as usize);
        peer.standing(pair.filter(|pair| pair.ending.is_none()))
    }

    /// The peer has a successor of the same name: its own pair is over.
    fn end_old(&mut self, peer: PeerId, sink: &mut impl Sink) {
        let place = self.place_of(peer);
        match place.and_then(|place| self.pairs.get_mut(place)) {
            Some(pair) => {
                pair.end(Errno::CONNRESET);
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
                self.refuse(index, caller.socket, Refuse { cause, text });
                return self.peers.recycle(peer);
            }
        };
        let process = Identity::of(caller.who);
        let reads = self.probe(&process, hello.probe, hello.incarnation);
        let accept = Greeting::Accept(Accept {
            ability: self.board.ability(reads.is_ok()),
            incarnation: *self.board.incarnation,
            probe: self.board.probe(),
        });
        if caller.socket.send(&accept.emit(), None).is_err() {
            // It is gone already, or so hostile as to leave no room for the answer.
            self.drop_conn(index, caller.socket);
            return self.peers.recycle(peer);
        }
        self.drop_own_call(peer);
        let half = Half {
            region,
            deadline: self.deadline(),
            conn: index,
            process,
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
            Ok(Received::Packet(len)) => len,
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
