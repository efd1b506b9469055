//! One connection as a device: made, accepted, shut down. Set-up path.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::Arc;

use oxifabric_engine::faults::FaultKinds;
use oxifabric_engine::{Engine, PostError};
use oxifabric_provider::connection::{Connection, ConnectionEvent, THE_PEER};
use oxifabric_provider::device::Device;
use oxifabric_provider::inet::local_address;
use oxifabric_provider::log;
use oxifabric_provider::peer_directory::PeerDirectory;
use oxifabric_types::{Address, Errno, Info, PeerId};
use oxifabric_wire::tcp::cm::{CmKind, DATA_MAX};
use oxifabric_wire::tcp::{ByteOrder, Dialect};

use crate::acceptor::ConnRequest;
use crate::cm::{Answer, CmMessage, Negotiated, Retry};
use crate::conns::Conns;
use crate::dial::reachable;
use crate::driver::{ConnDriver, ConnState};
use crate::endpoint::{Endpoint, EndpointKind};
use crate::params::Params;
use crate::sys::{self, Socket};

/// The link of a connected endpoint, with its one connection.
pub type TcpConnection = Endpoint<Msg>;

/// What a connected endpoint has beside what all have.
#[derive(Debug)]
pub struct Msg {
    driver: ConnDriver,
    stage: Stage,
    /// Its own address.
    name: SocketAddr,
    events: VecDeque<ConnectionEvent>,
}

/// What the application has done for the connection, and what came of it.
#[derive(Debug)]
enum Stage {
    /// The endpoint has an address.
    Fresh(Socket),
    /// The peer has asked for a connection.
    Invited(ConnRequest),
    /// This side connects.
    Connecting,
    /// The connection is in use.
    Connected,
    /// It was in use, or could not be made.
    Over,
}

impl TcpConnection {
    /// Returns a device that can connect from a socket's address.
    pub(crate) fn at(socket: Socket) -> Result<Self, Errno> {
        let name = socket.local().map_err(|error| sys::errno_of(&error))?;
        Self::new(Stage::Fresh(socket), name, name)
    }

    /// Returns a device that can accept a request.
    pub(crate) fn invited(request: ConnRequest) -> Result<Self, Errno> {
        let local = request.socket.local();
        let (name, at) = (local.map_err(|error| sys::errno_of(&error))?, request.from);
        let device = Self::new(Stage::Invited(request), name, at)?;
        device.conns.directory.list(THE_PEER, Address::Inet(at));
        Ok(device)
    }

    fn new(stage: Stage, name: SocketAddr, at: SocketAddr) -> Result<Self, Errno> {
        let kind = Msg {
            driver: ConnDriver::new(THE_PEER, at),
            stage,
            name,
            events: VecDeque::new(),
        };
        let conns = Conns::open()?;
        Ok(Self { conns, kind })
    }

    /// Sets the traffic class of an endpoint.
    pub(crate) fn in_class_of(mut self, info: &Info) -> Self {
        self.conns.reactor.set_class(info);
        self
    }

    /// Takes the answer to our request.
    fn answered(&mut self, answer: Answer) {
        match answer {
            Answer::Response { order, data } => {
                self.kind.driver.agreed(&mut self.conns, plain(order));
                self.connected(data);
            }
            Answer::Refusal { data } => self.give_up(Errno::CONNREFUSED, data),
        }
    }

    /// Notes that the connection is in use.
    fn connected(&mut self, data: Box<[u8]>) {
        if let ConnState::Ready(conn) = &self.kind.driver.state
            && let Ok(name) = conn.socket().local()
        {
            self.kind.name = name;
        }
        self.kind.stage = Stage::Connected;
        self.kind.events.push_back(ConnectionEvent::Connected(data));
    }

    /// Ends an attempt. A requester that is refused is not to try again, as a reliable datagram endpoint does: the application
    /// hears of it and decides.
    fn give_up(&mut self, why: Errno, data: Box<[u8]>) {
        self.kind
            .driver
            .dial_failed(&mut self.conns, self.kind.name.ip(), why);
        let reason = self.conns.directory.reason(THE_PEER).unwrap_or_default();
        log::info!("tcp", EpCtrl, "{reason}");
        self.kind.stage = Stage::Over;
        self.kind
            .events
            .push_back(ConnectionEvent::Failed(why, data));
    }

    fn start(&mut self, socket: Socket, to: SocketAddr, data: &[u8]) -> Result<(), Errno> {
        let prepared = self
            .conns
            .reactor
            .prepare(&socket, self.kind.name.is_ipv4());
        prepared.map_err(|error| sys::errno_of(&error))?;
        let to = reachable(to, &self.kind.name);
        let request = CmMessage::new(CmKind::Request, data);
        let retry = Retry::default();
        self.kind
            .driver
            .dial(&mut self.conns, socket, &to, request, retry)
    }
}

/// Returns what is spoken between connected endpoints: nothing is negotiated (protocol section 7.1).
fn plain(order: ByteOrder) -> Negotiated {
    Negotiated {
        dialect: Dialect {
            order,
            named: false,
            atomics: false,
        },
        rndv: false,
        collectives: false,
        pid: 0,
    }
}

impl EndpointKind for Msg {
    #[inline]
    fn driver(&mut self, _: PeerId) -> Option<&mut ConnDriver> {
        Some(&mut self.driver)
    }

    #[inline]
    fn driver_ref(&self, _: PeerId) -> Option<&ConnDriver> {
        Some(&self.driver)
    }

    /// Waits for a connection that the application has begun to make.
    #[cold]
    fn post_unconnected(link: &mut TcpConnection, _: PeerId) -> PostError {
        let may_come = matches!(link.kind.stage, Stage::Connecting | Stage::Invited(_));
        if may_come || matches!(link.kind.driver.state, ConnState::Failed(..)) {
            link.kind.driver.want();
            return PostError::Again;
        }
        PostError::Down(Errno::NOTCONN)
    }

    fn dial_on(link: &mut TcpConnection, _: PeerId) {
        match link.kind.driver.dial_on(&mut link.conns) {
            Ok(None) => {}
            Ok(Some(answer)) => link.answered(answer),
            Err(why) => link.give_up(why, Box::default()),
        }
    }

    fn dial_failed(link: &mut TcpConnection, _: PeerId, why: Errno) {
        link.give_up(why, Box::default());
    }

    /// Notes that the connection in use has ended, if it has.
    #[inline]
    fn after_poll(link: &mut TcpConnection) {
        if matches!(link.kind.stage, Stage::Connected) && !link.kind.driver.is_ready() {
            link.kind.stage = Stage::Over;
            link.kind.events.push_back(ConnectionEvent::Ended);
        }
    }
}

impl Connection for TcpConnection {
    const CONNECTED: bool = true;
    const CM_DATA_SIZE: usize = DATA_MAX;

    fn connect(&mut self, to: &Address, data: &[u8]) -> Result<(), Errno> {
        let Address::Inet(at) = *to else {
            return Err(Errno::INVAL);
        };
        if at.is_ipv4() != self.kind.name.is_ipv4() || at.port() == 0 || data.len() > DATA_MAX {
            return Err(Errno::INVAL);
        }
        if !matches!(self.kind.stage, Stage::Fresh(_)) {
            return Err(Errno::INVAL);
        }
        if let Stage::Fresh(socket) = std::mem::replace(&mut self.kind.stage, Stage::Connecting) {
            self.conns.directory.list(THE_PEER, to.clone());
            self.kind.driver.at = at;
            if let Err(why) = self.start(socket, at, data) {
                self.give_up(why, Box::default());
            }
        }
        Ok(())
    }

    fn accept(&mut self, data: &[u8]) -> Result<(), Errno> {
        if data.len() > DATA_MAX || !matches!(self.kind.stage, Stage::Invited(_)) {
            return Err(Errno::INVAL);
        }
        let Stage::Invited(request) = std::mem::replace(&mut self.kind.stage, Stage::Over) else {
            return Err(Errno::INVAL);
        };
        // The listener has prepared the socket, and does not know the endpoint's traffic class.
        let is_v4 = self.kind.name.is_ipv4();
        self.conns.reactor.mark(&request.socket, is_v4);
        request.answer(&CmMessage::new(CmKind::Response, data))?;
        let (order, watched) = (request.order, request.watched);
        self.kind
            .driver
            .establish(&mut self.conns, request.socket, plain(order), watched);
        self.connected(Box::default());
        Ok(())
    }

    fn shutdown(&mut self) -> Result<(), Errno> {
        match &self.kind.stage {
            Stage::Fresh(_) => return Err(Errno::NOTCONN),
            Stage::Over => return Ok(()),
            Stage::Connecting | Stage::Connected | Stage::Invited(_) => {}
        }
        let peer = self.conns.directory.address(THE_PEER);
        let reason = peer.map(|peer| format!("connection with {peer}: it was shut down"));
        self.conns.directory.explain(THE_PEER, reason);
        self.kind.driver.fail(&mut self.conns, Errno::CANCELED);
        self.kind.stage = Stage::Over;
        self.kind.events.push_back(ConnectionEvent::Ended);
        Ok(())
    }

    fn peer_name(&self) -> Result<Address, Errno> {
        let has_peer = self.kind.driver.is_ready() || matches!(self.kind.stage, Stage::Invited(_));
        let peer = self.conns.directory.address(THE_PEER);
        peer.filter(|_| has_peer).ok_or(Errno::NOTCONN)
    }

    fn socket(&self) -> Result<RawFd, Errno> {
        match (&self.kind.stage, &self.kind.driver.state) {
            (Stage::Fresh(socket), _) => Ok(socket.fd()),
            (Stage::Invited(request), _) => Ok(request.socket.fd()),
            (_, ConnState::Dialing(dial)) => Ok(dial.socket.fd()),
            (_, ConnState::Ready(conn)) => Ok(conn.socket().fd()),
            _ => Err(Errno::NOTCONN),
        }
    }

    fn next_event(&mut self) -> Option<ConnectionEvent> {
        self.kind.events.pop_front()
    }
}

impl Device for TcpConnection {
    const COALESCES: bool = true;
    const FAULTS: FaultKinds = FaultKinds::POSTS;
    type Operations = Engine;
    type Domain = ();

    fn open(info: &Info, _domain: &Arc<()>) -> Result<Self, Errno> {
        bound(&local_address(info, Params::read().iface.as_deref())?)
            .map_err(|error| sys::errno_of(&error))
            .and_then(Self::at)
            .map(|device| device.in_class_of(info))
    }

    fn enable(&mut self, _waits: bool) -> Result<(), Errno> {
        Ok(())
    }

    fn name(&self) -> Address {
        Address::Inet(self.kind.name)
    }

    fn rename(&mut self, name: Address) -> Result<(), Errno> {
        let Address::Inet(at) = name else {
            return Err(Errno::INVAL);
        };
        if !matches!(self.kind.stage, Stage::Fresh(_)) {
            return Err(Errno::OPBADSTATE);
        }
        let socket = bound(&at).map_err(|error| sys::errno_of(&error))?;
        self.kind.name = socket.local().map_err(|error| sys::errno_of(&error))?;
        self.kind.stage = Stage::Fresh(socket);
        Ok(())
    }

    fn peer(&mut self, _address: &Address) -> Result<PeerId, Errno> {
        Ok(THE_PEER)
    }

    fn directory(&self) -> &PeerDirectory {
        &self.conns.directory
    }

    fn fd(&self) -> RawFd {
        self.conns.reactor.fd()
    }

    fn arm(&mut self) -> bool {
        self.kind.events.is_empty() && self.conns.arm()
    }

    fn idle(&self) -> bool {
        self.conns.held.is_empty() && !self.kind.driver.blocked()
    }

    fn holds_back(&self) -> bool {
        !self.conns.held.is_empty()
    }
}

impl Drop for Msg {
    fn drop(&mut self) {
        self.driver.close();
    }
}

/// Opens a socket at an address; any port will do if none is named.
fn bound(at: &SocketAddr) -> io::Result<Socket> {
    let socket = Socket::open(at)?;
    if at.port() != 0 {
        // Connections of an earlier owner may linger.
        socket.set_reuse_address()?;
    } else if at.ip().is_unspecified() {
        return Ok(socket);
    } else {
        // Without it the system merely runs out of ports earlier.
        let _ = socket.set_bind_address_no_port();
    }
    socket.bind(at)?;
    Ok(socket)
}
