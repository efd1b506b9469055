//! The initiating side of a handshake: it makes the memory, sends the hello, and ready once it was accepted.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use oxifabric_engine::Sink;
use oxifabric_types::{Errno, Instant, PeerId};
use oxifabric_wire::shm::handshake::{Ability, Accept, Cause, Handshake, Hello, MAX_SIZE, Refuse};

use crate::conn_table::ConnEntry;
use crate::handshake;
use crate::link::ShmLink;
use crate::peer::{ConnState, HalfOpen};
use crate::region::{Region, Spare};
use crate::sys;
use crate::sys::identity::Identity;
use crate::sys::process;
use crate::sys::socket::{Received, Socket};

/// How long this side waits for a hello that counts more than its own: it has arrived already, unless its initiator is
/// gone.
const CROSSED_TIMEOUT: Duration = Duration::from_secs(1);

/// The memory and the peer's process of a hello that was sent.
struct SentHello {
    region: Region,
    process: Identity,
}

/// Why a hello was not sent.
enum HelloError {
    /// The peer has closed the connection without a refuse.
    HungUp,
    /// An error that another try would not mend.
    Never(Errno, String),
}

impl HelloError {
    fn refused(refuse: Refuse) -> Self {
        Self::Never(handshake::errno_of(refuse.cause), refuse.text)
    }
}

/// Returns why a hello could not be sent: a peer may have refused this process before it read anything.
fn hello_error(socket: &Socket, error: &io::Error) -> HelloError {
    if !matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    ) {
        return HelloError::Never(sys::errno(error), format!("saying hello failed: {error}"));
    }
    let mut bytes = [0; MAX_SIZE];
    let Ok(Received::Packet(len)) = socket.receive(&mut bytes) else {
        return HelloError::HungUp;
    };
    match Handshake::parse(&bytes[..len]) {
        Ok(Handshake::Refuse(refuse)) => HelloError::refused(refuse),
        _ => HelloError::HungUp,
    }
}

impl ShmLink {
    /// Connects to a peer and sends the hello; leaves the state as it is when the peer's backlog is full, and while a
    /// peer that is not there may still appear: programs that are started together do not become ready together.
    pub(super) fn connect(&mut self, peer: PeerId, give_up_at: Instant, sink: &mut impl Sink) {
        let Some(name) = self.peers.get(peer).map(|peer| peer.name.to_string()) else {
            return;
        };
        let socket = match Socket::connect(&handshake::socket_name(&name)) {
            Ok(socket) => socket,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
            Err(error)
                if error.kind() == std::io::ErrorKind::ConnectionRefused
                    && self.now < give_up_at =>
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
        match self.send_hello(&socket, name) {
            Ok(half) => self.await_accept(peer, socket, half, sink),
            // Too many connections were pending, and this one was the oldest: this process lost the processor before it
            // could send.
            Err(HelloError::HungUp) if self.now < give_up_at => {}
            Err(HelloError::HungUp) => {
                let why = "it hung up before the handshake";
                self.fail(peer, Errno::CONNREFUSED, why, sink);
            }
            Err(HelloError::Never(errno, why)) => self.fail(peer, errno, &why, sink),
        }
    }

    fn send_hello(&mut self, socket: &Socket, to: String) -> Result<SentHello, HelloError> {
        let credentials = socket
            .credentials()
            .map_err(|error| HelloError::Never(sys::errno(&error), error.to_string()))?;
        handshake::check_owner(credentials, process::user(), &self.params.users)
            .map_err(HelloError::refused)?;
        let spare = match self.table.spare.take() {
            Some(spare) => Ok(spare),
            None => Spare::new(&self.params),
        };
        let made = spare.and_then(|spare| Ok((spare.map()?, spare)));
        let (region, spare) =
            made.map_err(|error| HelloError::Never(error.errno, error.to_string()))?;
        let hello = Handshake::Hello(Hello {
            ability: self.table.ability(false),
            incarnation: *self.table.incarnation,
            probe: self.table.probe(),
            cells: region.layout.cells() as u32,
            bytes: region.layout.bytes() as u32,
            from: self.table.name.clone(),
            to: to.into(),
        });
        socket
            .send(&hello.emit(), Some(spare.file.as_fd()))
            .map_err(|error| hello_error(socket, &error))?;
        Ok(SentHello {
            region,
            process: Identity::of(credentials),
        })
    }

    fn await_accept(
        &mut self,
        peer: PeerId,
        socket: Socket,
        sent: SentHello,
        sink: &mut impl Sink,
    ) {
        let index = match self.table.add(&socket) {
            Ok(index) => index,
            Err(error) => {
                return self.fail(peer, sys::errno(&error), &error.to_string(), sink);
            }
        };
        self.table.set(index, ConnEntry::HelloSent(socket, peer));
        let deadline = self.deadline();
        if let Some(known) = self.peers.get_mut(peer) {
            known.state = ConnState::HelloSent(Box::new(HalfOpen {
                region: sent.region,
                deadline,
                entry: index,
                process: sent.process,
                ability: Ability::empty(),
                incarnation: 0,
                probe: 0,
                reads: Err(String::new()),
            }));
        }
    }

    pub(super) fn read_answer(
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
                return self.table.set(index, ConnEntry::HelloSent(socket, peer));
            }
            Ok(Received::Closed) => {
                self.table.set(index, ConnEntry::HelloSent(socket, peer));
                return self.fail(
                    peer,
                    Errno::CONNREFUSED,
                    "it hung up without an answer",
                    sink,
                );
            }
            Err(error) => {
                self.table.set(index, ConnEntry::HelloSent(socket, peer));
                return self.fail(peer, sys::errno(&error), &error.to_string(), sink);
            }
        };
        match Handshake::parse(&bytes[..len]) {
            Ok(Handshake::Accept(accept)) => self.send_ready(index, socket, peer, accept, sink),
            Ok(Handshake::Refuse(refuse)) if refuse.cause == Cause::Crossed => {
                self.drop_entry(index, socket);
                self.yield_to(peer);
            }
            Ok(Handshake::Refuse(refuse)) => {
                self.table.set(index, ConnEntry::HelloSent(socket, peer));
                let why = format!("it refused: {}", refuse.text);
                self.fail(peer, handshake::errno_of(refuse.cause), &why, sink);
            }
            other => {
                self.table.set(index, ConnEntry::HelloSent(socket, peer));
                let why = match other {
                    Err(error) => error.to_string(),
                    Ok(_) => "its answer makes no sense".into(),
                };
                self.fail(peer, Errno::PROTO, &why, sink);
            }
        }
    }

    /// Yields to the peer's hello, which has crossed this side's and counts.
    fn yield_to(&mut self, peer: PeerId) {
        let until = self.now.after(CROSSED_TIMEOUT);
        if let Some(known) = self.peers.get_mut(peer)
            && let ConnState::HelloSent(_) = &known.state
        {
            known.state = ConnState::Yielded(until);
        }
    }

    fn send_ready(
        &mut self,
        index: usize,
        socket: Socket,
        peer: PeerId,
        accept: Accept,
        sink: &mut impl Sink,
    ) {
        let Some(known) = self.peers.get_mut(peer) else {
            return self.drop_entry(index, socket);
        };
        let ConnState::HelloSent(mut half) = std::mem::replace(&mut known.state, ConnState::Closed)
        else {
            return self.drop_entry(index, socket);
        };
        half.ability = accept.ability;
        half.incarnation = accept.incarnation;
        half.probe = accept.probe;
        half.reads = self.probe(&half.process, accept.probe, accept.incarnation);
        let ready = Handshake::Ready(self.table.ability(half.reads.is_ok()));
        if let Err(error) = socket.send(&ready.emit(), None) {
            self.drop_entry(index, socket);
            return self.fail(peer, sys::errno(&error), &error.to_string(), sink);
        }
        self.open_conn(*half, socket, peer);
    }
}
