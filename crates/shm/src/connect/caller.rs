//! The calling side of an opening: it makes the memory, says hello, and ready once it was accepted.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use oxifabric_engine::Sink;
use oxifabric_types::{Errno, Instant, PeerId};
use oxifabric_wire::shm::greeting::{Ability, Accept, Cause, Greeting, Hello, MAX_SIZE, Refuse};

use crate::handshake;
use crate::link::ShmLink;
use crate::peer::{Half, Stage};
use crate::region::{Region, Spare};
use crate::switchboard::Conn;
use crate::sys;
use crate::sys::identity::Identity;
use crate::sys::process;
use crate::sys::socket::{Received, Socket};

/// How long a call that counts more than this side's is waited for: it has arrived already, unless its caller is gone.
const CROSSING: Duration = Duration::from_secs(1);

/// What a call has made.
struct HalfCall {
    region: Region,
    process: Identity,
}

/// Why a hello was not said.
enum Unsaid {
    /// The peer has hung up without a word.
    HungUp,
    /// Another try would be none the better.
    Never(Errno, String),
}

impl Unsaid {
    fn refused(refuse: Refuse) -> Self {
        Self::Never(handshake::errno_of(refuse.cause), refuse.text)
    }
}

/// Finds out why a hello could not be sent: a peer may have judged this process before it spoke.
fn why_unsaid(socket: &Socket, error: &io::Error) -> Unsaid {
    if !matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    ) {
        return Unsaid::Never(sys::errno(error), format!("saying hello failed: {error}"));
    }
    let mut bytes = [0; MAX_SIZE];
    let Ok(Received::Packet(len)) = socket.receive(&mut bytes) else {
        return Unsaid::HungUp;
    };
    match Greeting::parse(&bytes[..len]) {
        Ok(Greeting::Refuse(refuse)) => Unsaid::refused(refuse),
        _ => Unsaid::HungUp,
    }
}

impl ShmLink {
    /// Connects to a peer and says hello; stays as it is when the peer's backlog is full, and while a peer that is not
    /// there may still appear: programs that are started together do not become ready together.
    pub(super) fn call(&mut self, peer: PeerId, patience: Instant, sink: &mut impl Sink) {
        let Some(name) = self.peers.get(peer).map(|peer| peer.name().to_owned()) else {
            return;
        };
        let socket = match Socket::connect(&handshake::socket_name(&name)) {
            Ok(socket) => socket,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
            Err(error)
                if error.kind() == std::io::ErrorKind::ConnectionRefused && self.now < patience =>
            {
                return;
            }
            Err(error) => {
                let why = match error.kind() {
                    std::io::ErrorKind::ConnectionRefused => {
                        "no endpoint on this host has that name, or it is not enabled yet".into()
                    }
                    _ => format!("connecting failed: {error}"),
                };
                return self.fail(peer, sys::errno(&error), &why, sink);
            }
        };
        match self.say_hello(&socket, name) {
            Ok(half) => self.await_answer(peer, socket, half, sink),
            // Too many callers were silent, and this one was the oldest: it lost the processor before it could speak.
            Err(Unsaid::HungUp) if self.now < patience => {}
            Err(Unsaid::HungUp) => {
                let why = "it hung up before it was greeted";
                self.fail(peer, Errno::CONNREFUSED, why, sink);
            }
            Err(Unsaid::Never(errno, why)) => self.fail(peer, errno, &why, sink),
        }
    }

    fn say_hello(&mut self, socket: &Socket, to: String) -> Result<HalfCall, Unsaid> {
        let who = socket
            .credentials()
            .map_err(|error| Unsaid::Never(sys::errno(&error), error.to_string()))?;
        handshake::check_owner(who, process::user(), &self.params.users)
            .map_err(Unsaid::refused)?;
        let spare = match self.board.spare.take() {
            Some(spare) => Ok(spare),
            None => Spare::new(&self.params),
        };
        let made = spare.and_then(|spare| Ok((spare.map()?, spare)));
        let (region, spare) =
            made.map_err(|error| Unsaid::Never(error.errno, error.to_string()))?;
        let hello = Greeting::Hello(Hello {
            ability: self.board.ability(false),
            incarnation: *self.board.incarnation,
            probe: self.board.probe(),
            cells: region.layout.cells() as u32,
            bytes: region.layout.bytes() as u32,
            from: self.board.name.clone(),
            to: to.into(),
        });
        socket
            .send(&hello.emit(), Some(spare.file.as_fd()))
            .map_err(|error| why_unsaid(socket, &error))?;
        Ok(HalfCall {
            region,
            process: Identity::of(who),
        })
    }

    fn await_answer(&mut self, peer: PeerId, socket: Socket, call: HalfCall, sink: &mut impl Sink) {
        let index = match self.board.add(&socket) {
            Ok(index) => index,
            Err(error) => {
                return self.fail(peer, sys::errno(&error), &error.to_string(), sink);
            }
        };
        self.board.set(index, Conn::Called(socket, peer));
        let deadline = self.deadline();
        if let Some(known) = self.peers.get_mut(peer) {
            known.stage = Stage::Called(Box::new(Half {
                region: call.region,
                deadline,
                conn: index,
                process: call.process,
                ability: Ability::empty(),
                incarnation: 0,
                reads: Err(String::new()),
            }));
        }
    }

    pub(super) fn hear_answer(
        &mut self,
        index: usize,
        socket: Socket,
        peer: PeerId,
        sink: &mut impl Sink,
    ) {
        let mut bytes = [0; MAX_SIZE];
        let len = match socket.receive(&mut bytes) {
            Ok(Received::Packet(len)) => len,
            Ok(Received::Nothing) => return self.board.set(index, Conn::Called(socket, peer)),
            Ok(Received::Closed) => {
                self.board.set(index, Conn::Called(socket, peer));
                return self.fail(
                    peer,
                    Errno::CONNREFUSED,
                    "it hung up without an answer",
                    sink,
                );
            }
            Err(error) => {
                self.board.set(index, Conn::Called(socket, peer));
                return self.fail(peer, sys::errno(&error), &error.to_string(), sink);
            }
        };
        match Greeting::parse(&bytes[..len]) {
            Ok(Greeting::Accept(accept)) => self.say_ready(index, socket, peer, accept, sink),
            Ok(Greeting::Refuse(refuse)) if refuse.cause == Cause::Crossed => {
                self.drop_conn(index, socket);
                self.yield_to(peer);
            }
            Ok(Greeting::Refuse(refuse)) => {
                self.board.set(index, Conn::Called(socket, peer));
                let why = format!("it refused: {}", refuse.text);
                self.fail(peer, handshake::errno_of(refuse.cause), &why, sink);
            }
            other => {
                self.board.set(index, Conn::Called(socket, peer));
                let why = match other {
                    Err(error) => error.to_string(),
                    Ok(_) => "its answer makes no sense".into(),
                };
                self.fail(peer, Errno::PROTO, &why, sink);
            }
        }
    }

    /// The peer calls, too, and its call counts.
    fn yield_to(&mut self, peer: PeerId) {
        let until = self.now.after(CROSSING);
        if let Some(known) = self.peers.get_mut(peer)
            && let Stage::Called(_) = &known.stage
        {
            known.stage = Stage::Yielded(until);
        }
    }

    fn say_ready(
        &mut self,
        index: usize,
        socket: Socket,
        peer: PeerId,
        accept: Accept,
        sink: &mut impl Sink,
    ) {
        let Some(known) = self.peers.get_mut(peer) else {
            return self.drop_conn(index, socket);
        };
        let Stage::Called(mut half) = std::mem::replace(&mut known.stage, Stage::Apart) else {
            return self.drop_conn(index, socket);
        };
        half.ability = accept.ability;
        half.incarnation = accept.incarnation;
        half.reads = self.probe(&half.process, accept.probe, accept.incarnation);
        let ready = Greeting::Ready(self.board.ability(half.reads.is_ok()));
        if let Err(error) = socket.send(&ready.emit(), None) {
            self.drop_conn(index, socket);
            return self.fail(peer, sys::errno(&error), &error.to_string(), sink);
        }
        self.open_pair(*half, socket, peer);
    }
}
