//! An endpoint: its address, and how it comes to its connections.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::sync::Arc;
use core::net::SocketAddrV4;

use oxifabric_engine::{Engine, Sink};
use oxifabric_kernel_objects::{ConnectionEvent, Device};
use oxifabric_kernel_sync::Work;
use oxifabric_tcp_stream::cm::{
    Answer, ConnTrouble, LocalParams, Retry, Verdict, resolve_crossing, send_cm,
};
use oxifabric_types::{Address, EpType, Errno, Info, Instant, PeerId};
use oxifabric_wire::tcp::handshake::Handshake;

use crate::acceptor::{Acceptor, ConnRequest, bound, dropped, general};
use crate::connection::Stage;
use crate::peers::Peers;
use crate::socket::{Socket, Timer, now};
use crate::{address, place, source, system};

/// What moves the messages of an endpoint.
#[derive(Debug)]
pub struct TcpDevice {
    pub(crate) kind: EpType,
    pub(crate) work: Arc<Work>,
    timer: Timer,
    pub(crate) name: SocketAddrV4,
    /// The time of the last poll.
    pub(crate) now: Instant,
    /// Number of polls.
    pub(crate) polls: u64,
    pub(crate) is_polling: bool,
    // These are on the heap: a device moves over a kernel's stack, which is short.
    pub(crate) peers: Box<Peers>,
    /// Of a reliable datagram endpoint: what accepts connections, and what it says of itself.
    pub(crate) acceptor: Option<Box<Acceptor>>,
    local: LocalParams,
    /// Of a connected endpoint: where it is, and what its application is to be told.
    pub(crate) stage: Box<Stage>,
    pub(crate) events: VecDeque<ConnectionEvent>,
}

impl TcpDevice {
    pub(crate) fn new(info: &Info, work: &Arc<Work>) -> Result<Self, Errno> {
        let (socket, name) = bound(source(info)?, work)?;
        let mut device = Self::at(info.ep.kind, name, work)?;
        device.take_socket(socket, name);
        Ok(device)
    }

    /// Makes a device without a socket.
    pub(crate) fn at(kind: EpType, name: SocketAddrV4, work: &Arc<Work>) -> Result<Self, Errno> {
        Ok(Self {
            kind,
            work: Arc::clone(work),
            timer: Timer::new(work)?,
            name,
            now: now(),
            polls: 0,
            is_polling: false,
            peers: Box::default(),
            acceptor: None,
            local: LocalParams {
                port: name.port(),
                pid: system::random(),
                firewall: false,
                names: true,
            },
            stage: Box::new(Stage::Over),
            events: VecDeque::new(),
        })
    }

    fn take_socket(&mut self, socket: Socket, name: SocketAddrV4) {
        self.name = name;
        self.local.port = name.port();
        match self.kind {
            EpType::Msg => *self.stage = Stage::Fresh(socket),
            _ => self.acceptor = Some(Box::new(Acceptor::new(socket))),
        }
    }

    /// Starts to connect to a peer.
    pub(crate) fn dial(&mut self, id: PeerId, retry: Retry) {
        let from = SocketAddrV4::new(*self.name.ip(), 0);
        let request = self.local.request();
        let socket = Socket::bound(from, &self.work);
        let now = now();
        let Some(conn) = self.peers.conn(id) else {
            return;
        };
        let started = socket.and_then(|socket| conn.dial(socket, request, retry, now));
        self.peers.enliven(id);
        if let Err(why) = started {
            self.dial_failed(id, why);
        }
        self.work.queue();
    }

    /// Ends an attempt; this poll, or the next one, reports it.
    pub(crate) fn dial_failed(&mut self, id: PeerId, why: Errno) {
        if let Some(conn) = self.peers.conn(id) {
            system::warn(&format!("connect to {}: {why}", conn.at));
            conn.fail(why);
        }
    }

    /// Takes the answer to a request of ours.
    pub(crate) fn answered(&mut self, id: PeerId, answer: &Answer) {
        let (local, now) = (self.local, self.now);
        let Some(conn) = self.peers.conn(id) else {
            return;
        };
        let failed = match answer {
            Answer::Response { order, data } => match Handshake::parse(data) {
                Ok(handshake) => {
                    conn.agreed(local.negotiated(&handshake, *order));
                    None
                }
                Err(_) => Some(Errno::PROTO),
            },
            Answer::Refusal { .. } => (!conn.pause(now)).then_some(Errno::CONNREFUSED),
        };
        if let Some(why) = failed {
            self.dial_failed(id, why);
        }
    }

    /// Takes the connections that peers ask for; returns how many there were.
    pub(crate) fn admit_waiting(&mut self, sink: &mut impl Sink) -> usize {
        let mut events = 0;
        let Some(acceptor) = &mut self.acceptor else {
            return 0;
        };
        acceptor.accept_waiting(self.now, &self.work);
        while let Some(request) = self
            .acceptor
            .as_mut()
            .and_then(|acceptor| acceptor.next(self.now))
        {
            self.admit_one(request, sink);
            events += 1;
        }
        events
    }

    fn admit_one(&mut self, request: ConnRequest, sink: &mut impl Sink) {
        let handshake = match Handshake::parse(&request.data) {
            Ok(handshake) if handshake.port == 0 => {
                return dropped(request.from, ConnTrouble::NoPort);
            }
            Ok(handshake) => handshake,
            Err(why) => return dropped(request.from, ConnTrouble::Handshake(why)),
        };
        let claimed = SocketAddrV4::new(*request.from.ip(), handshake.port);
        let local = match (self.name.ip().is_unspecified(), request.socket.name()) {
            (true, Ok(at)) => SocketAddrV4::new(*at.ip(), self.name.port()),
            _ => self.name,
        };
        let Some(id) = self.peers.admit(claimed, self.polls, sink) else {
            return request.refuse(&self.local.refuse(&handshake));
        };
        let Some(conn) = self.peers.conn(id) else {
            return;
        };
        let (state, pid) = (conn.peer_state(), handshake.pid);
        match resolve_crossing(state, &general(local), &general(claimed), pid) {
            // The peer asks again; by then an old connection whose host is gone has ended by keepalive.
            Verdict::Refuse | Verdict::Challenge => {
                request.refuse(&self.local.refuse(&handshake));
            }
            Verdict::Accept | Verdict::Yield => self.respond(id, request, &handshake, sink),
            Verdict::Replace => {
                // What the old connection still brings was sent before the new one was made.
                conn.turn(sink);
                if conn.is_ready() {
                    conn.lose(Errno::CONNRESET, "replaced by a new connection");
                }
                self.respond(id, request, &handshake, sink);
            }
        }
    }

    /// Accepts a request; an attempt of ours, or the remains of one, is dropped.
    fn respond(
        &mut self,
        id: PeerId,
        request: ConnRequest,
        handshake: &Handshake,
        sink: &mut impl Sink,
    ) {
        let (message, negotiated) = self.local.respond(handshake, request.order);
        if send_cm(&request.socket, &message).is_err() {
            // The requester is gone already; our own attempt, if any, goes on.
            return;
        }
        if let Some(conn) = self.peers.conn(id) {
            conn.report(sink);
            conn.establish(request.socket, negotiated);
            self.peers.enliven(id);
            self.work.queue();
        }
    }

    /// Sets the timer to what has to be done next without an event.
    pub(crate) fn set_timer(&mut self) {
        let mut next = self
            .acceptor
            .as_ref()
            .and_then(|acceptor| acceptor.deadline());
        for id in &self.peers.live {
            let deadline = self.peers.get(*id).and_then(|peer| peer.conn.deadline());
            next = [next, deadline].into_iter().flatten().min();
        }
        self.timer.set(next, self.now);
    }
}

impl Drop for TcpDevice {
    fn drop(&mut self) {
        self.peers.close();
    }
}

impl Device for TcpDevice {
    type Operations = Box<Engine>;

    fn address(&self) -> Address {
        address(self.name)
    }

    fn set_address(&mut self, address: &Address) -> Result<(), Errno> {
        let at = place(address)?;
        let is_fresh = match &self.acceptor {
            Some(acceptor) => !acceptor.is_listening(),
            None => matches!(*self.stage, Stage::Fresh(_)),
        };
        if !is_fresh {
            return Err(Errno::OPBADSTATE);
        }
        let (socket, name) = bound(at, &self.work)?;
        self.take_socket(socket, name);
        Ok(())
    }

    fn enable(&mut self) -> Result<(), Errno> {
        match &mut self.acceptor {
            Some(acceptor) => acceptor.listen(),
            None => Ok(()),
        }
    }

    fn peer(&mut self, address: &Address) -> Result<PeerId, Errno> {
        let at = place(address)?;
        if at.port() == 0 {
            return Err(Errno::INVAL);
        }
        self.peers.name(at).ok_or(Errno::NOMEM)
    }

    fn address_of(&self, peer: PeerId) -> Option<Address> {
        Some(address(self.peers.at(peer)?))
    }

    fn takes_new_numbers(&mut self) -> bool {
        core::mem::take(&mut self.peers.renumbered)
    }

    fn connect(&mut self, to: &Address, data: &[u8]) -> Result<(), Errno> {
        self.connect_to(place(to)?, data)
    }

    fn accept(&mut self, data: &[u8]) -> Result<(), Errno> {
        self.accept_request(data)
    }

    fn shutdown(&mut self) -> Result<(), Errno> {
        self.shut_down()
    }

    fn event(&mut self) -> Option<ConnectionEvent> {
        self.events.pop_front()
    }
}
