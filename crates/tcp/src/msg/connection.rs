//! One connection as a device: made, accepted, shut down. Set-up path.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

use oxifabric_engine::faults::FaultKinds;
use oxifabric_engine::{Engine, Limits};
use oxifabric_provider::connection::{Connection, ConnectionEvent, THE_PEER};
use oxifabric_provider::device::Device;
use oxifabric_provider::inet::local_address;
use oxifabric_provider::log;
use oxifabric_provider::timer::Timer;
use oxifabric_types::{Address, Errno, Info, Instant, PeerId};
use oxifabric_wire::tcp::cm::{CmKind, DATA_MAX};
use oxifabric_wire::tcp::{ByteOrder, Dialect};

use super::listener::ConnRequest;
use crate::cm::{CmReader, Negotiated, encode};
use crate::coalescer::Coalescer;
use crate::conn::Conn;
use crate::link::device::CLOCK_SLACK;
use crate::link::dial::{advice, prepare, reachable};
use crate::listen::{CmEvent, read_message};
use crate::params::Params;
use crate::peer::{UNKNOWN, limits};
use crate::sys::{self, Connecting, Interest, Poller, Socket};
use crate::traffic;

/// The poller's key of the socket; the timer has the other one.
pub(super) const SOCKET: u64 = 0;
const TIMER: u64 = 1;

/// The connection of one endpoint.
#[derive(Debug)]
pub struct TcpConnection {
    pub(super) params: &'static Params,
    pub(super) state: ConnState,
    /// Its own address, and the peer's.
    name: SocketAddr,
    peer: Option<Address>,
    pub(super) poller: Poller,
    timer: Timer,
    /// The deadline that the timer is set to.
    timer_at: Option<Instant>,
    pub(super) limits: Limits,
    /// Coalescer: whether what is posted now leaves together or at once.
    pub(super) coalescer: Coalescer,
    /// Whether a post was answered with "again".
    pub(super) wanted: bool,
    /// Whether the stalled frame is to be delivered again.
    pub(super) resumed: bool,
    /// The connection that has ended and its error, not yet reported to the sink.
    pub(super) failed: Option<(Option<Box<Conn>>, Errno)>,
    events: VecDeque<ConnectionEvent>,
    /// Whether the attempt has no deadline yet.
    pub(super) undated: bool,
    /// When the attempt is given up, or deliveries are checked.
    pub(super) deadline: Option<Instant>,
    reason: Option<String>,
    now: Instant,
    /// DSCP value of packets.
    dscp: Option<u8>,
}

/// State of the connection.
#[derive(Debug)]
pub(super) enum ConnState {
    /// It has an address.
    Fresh(Socket),
    /// The peer has asked for it.
    Invited(Socket, ByteOrder),
    /// This side connects, or has sent its request.
    Dialing(Dial),
    /// It is in use.
    Ready(Box<Conn>),
    /// It was in use, or could not be made.
    Over,
}

/// An attempt to connect.
#[derive(Debug)]
pub(super) struct Dial {
    socket: Socket,
    cm_message: Vec<u8>,
    /// Where the answer goes, once the request is sent.
    reader: Option<CmReader>,
}

impl TcpConnection {
    /// Returns a device that can connect from a socket's address.
    pub(crate) fn at(socket: Socket) -> Result<Self, Errno> {
        let name = socket.local().map_err(|error| sys::errno_of(&error))?;
        Self::new(ConnState::Fresh(socket), name, None)
    }

    /// Returns a device that can accept a request.
    pub(crate) fn invited(request: ConnRequest) -> Result<Self, Errno> {
        let peer = Address::Inet(request.from);
        let state = ConnState::Invited(request.socket, request.order);
        Self::new(state, request.local, Some(peer))
    }

    fn new(state: ConnState, name: SocketAddr, peer: Option<Address>) -> Result<Self, Errno> {
        let poller = Poller::open().map_err(|error| sys::errno_of(&error))?;
        let timer = Timer::open().map_err(|error| sys::errno_of(&error))?;
        poller
            .add(timer.fd(), TIMER, Interest::READ)
            .map_err(|error| sys::errno_of(&error))?;
        let params = Params::read();
        Ok(Self {
            params,
            coalescer: Coalescer::new(params.gather),
            state,
            name,
            peer,
            poller,
            timer,
            timer_at: None,
            limits: UNKNOWN,
            wanted: false,
            resumed: false,
            failed: None,
            events: VecDeque::new(),
            undated: false,
            deadline: None,
            reason: None,
            now: Instant::default(),
            dscp: None,
        })
    }

    /// Sets the traffic class of an endpoint.
    pub(crate) fn in_class_of(mut self, info: &Info) -> Self {
        self.dscp = traffic::dscp(info);
        self
    }

    fn mark(&self, socket: &Socket) {
        if let Some(dscp) = self.dscp {
            // Optional: what the network makes of it is up to the network.
            let _ = socket.mark(dscp, self.name.is_ipv4());
        }
    }

    /// Continues an attempt, if something has happened to its socket.
    pub(super) fn dial_on(&mut self) -> usize {
        let mut happened = Vec::new();
        self.poller.visit(&mut happened);
        if !happened.iter().any(|event| event.key == SOCKET) {
            return 0;
        }
        let ConnState::Dialing(dial) = &mut self.state else {
            return 0;
        };
        let Some(reader) = &mut dial.reader else {
            let sent = dial.socket.take_error().and_then(|()| self.request());
            if let Err(error) = sent {
                self.dial_failed(sys::errno_of(&error), Box::default());
            }
            return 1;
        };
        match read_message(&dial.socket, reader) {
            CmEvent::Whole => self.answered(),
            CmEvent::Nothing => return 0,
            CmEvent::Closed { .. } => self.dial_failed(Errno::CONNRESET, Box::default()),
            CmEvent::Malformed(_) | CmEvent::Message(_) => {
                self.dial_failed(Errno::PROTO, Box::default());
            }
        }
        1
    }

    /// Sends our request over a fresh connection.
    fn request(&mut self) -> io::Result<()> {
        let ConnState::Dialing(dial) = &mut self.state else {
            return Ok(());
        };
        dial.reader = Some(CmReader::new());
        // The host has answered. The application that listens there accepts when it likes.
        self.undated = true;
        // Without the bound the kernel alone decides when a host counts as gone.
        let _ = dial.socket.answered_within(self.params.user_timeout);
        send_whole(&dial.socket, &dial.cm_message)?;
        self.poller.change(dial.socket.fd(), SOCKET, Interest::READ)
    }

    /// Reads the peer's answer.
    fn answered(&mut self) {
        let ConnState::Dialing(dial) = std::mem::replace(&mut self.state, ConnState::Over) else {
            return;
        };
        let Some(reader) = dial.reader else {
            return;
        };
        let data = Box::from(reader.data());
        match reader.header().map(|header| (header.kind, header.order)) {
            Ok((CmKind::Response, order)) => {
                // From here on a peer that does not read for a while does not count as down.
                let _ = dial.socket.answered_within(Duration::ZERO);
                self.establish(dial.socket, order, data);
            }
            Ok((CmKind::Refusal, _)) => self.dial_failed(Errno::CONNREFUSED, data),
            Ok((CmKind::Request, _)) | Err(_) => self.dial_failed(Errno::PROTO, Box::default()),
        }
    }

    /// Takes the connection into use. Its socket is watched already.
    fn establish(&mut self, socket: Socket, order: ByteOrder, data: Box<[u8]>) {
        let negotiated = Negotiated {
            dialect: Dialect {
                order,
                named: false,
                atomics: false,
            },
            rndv: false,
            collectives: false,
            pid: 0,
        };
        if let Ok(name) = socket.local() {
            self.name = name;
        }
        self.limits = limits(&negotiated, self.params.max_saved_size);
        let mut conn = Box::new(Conn::new(socket, negotiated));
        conn.interest = Interest::READ;
        self.state = ConnState::Ready(conn);
        self.deadline = None;
        self.events.push_back(ConnectionEvent::Connected(data));
    }

    /// Ends an attempt.
    pub(super) fn dial_failed(&mut self, why: Errno, data: Box<[u8]>) {
        let peer = self
            .peer
            .as_ref()
            .map_or_else(String::new, Address::to_string);
        let (from, cause) = (self.name.ip(), why.text().to_lowercase());
        let advice = match why {
            Errno::CONNREFUSED => "no socket listens there, or the listener rejected it",
            why => advice(why),
        };
        let reason = format!("connect to {peer} from {from}: {cause}; {advice}");
        log::info!("tcp", EpCtrl, "{reason}");
        self.reason = Some(reason);
        self.state = ConnState::Over;
        self.failed = Some((None, why));
        self.undated = false;
        self.deadline = None;
        self.events.push_back(ConnectionEvent::Failed(why, data));
    }

    /// Ends the connection in use, which is lost; the next poll reports it to the sink.
    pub(super) fn end(&mut self, why: Errno, reason: &str) {
        self.end_at(log::Level::Info, why, reason);
    }

    /// As [`Self::end`], with the level of the line in the log.
    pub(super) fn end_at(&mut self, level: log::Level, why: Errno, reason: &str) {
        if !matches!(self.state, ConnState::Ready(_)) {
            return;
        }
        if let Some(peer) = &self.peer {
            let lost = format!("connection with {peer} lost: {reason}");
            match level {
                log::Level::Warn => log::warn!("tcp", EpCtrl, "{lost}"),
                _ => log::info!("tcp", EpCtrl, "{lost}"),
            }
            self.reason = Some(lost);
        }
        self.end_quietly(why);
    }

    /// Ends the connection in use without a line in the log.
    fn end_quietly(&mut self, why: Errno) {
        if let ConnState::Ready(conn) = std::mem::replace(&mut self.state, ConnState::Over) {
            self.failed = Some((Some(conn), why));
            self.deadline = None;
            self.events.push_back(ConnectionEvent::Ended);
        }
    }

    /// Sets the deadline of an attempt that has come a step further since the last poll.
    pub(super) fn set_date(&mut self, now: Instant) {
        let is_asked = matches!(&self.state, ConnState::Dialing(dial) if dial.reader.is_some());
        let limit = match is_asked {
            true => self.params.answer_timeout,
            false => Some(self.params.connect_timeout),
        };
        self.undated = false;
        self.deadline = limit.map(|limit| now.after(limit));
        // It may be that no thread polls before it has passed.
        self.set_timer(now);
    }

    fn set_timer(&mut self, now: Instant) {
        if self.timer_at != self.deadline {
            self.timer_at = self.deadline;
            self.timer
                .set(self.deadline.map(|at| at.since(now) + CLOCK_SLACK));
        }
    }

    /// Wakes a thread that sleeps on this endpoint.
    pub(super) fn wake(&mut self) {
        self.deadline = Some(self.now);
        self.set_timer(self.now);
    }

    /// Handles the deadline, and the event of the timer.
    pub(super) fn clear_date(&mut self) {
        self.deadline = None;
        self.timer_at = None;
        self.timer.set(None);
    }

    pub(super) fn set_now(&mut self, now: Instant) {
        self.now = now;
    }
}

impl Connection for TcpConnection {
    const CONNECTED: bool = true;
    const CM_DATA_SIZE: usize = DATA_MAX;

    fn connect(&mut self, to: &Address, data: &[u8]) -> Result<(), Errno> {
        let Address::Inet(at) = to else {
            return Err(Errno::INVAL);
        };
        if at.is_ipv4() != self.name.is_ipv4() || at.port() == 0 || data.len() > DATA_MAX {
            return Err(Errno::INVAL);
        }
        let ConnState::Fresh(socket) = &self.state else {
            return Err(Errno::INVAL);
        };
        self.mark(socket);
        let connecting = prepare(self.params, socket)
            .and_then(|()| socket.connect(&reachable(*at, &self.name)))
            .and_then(|connecting| {
                self.poller.add(socket.fd(), SOCKET, Interest::WRITE)?;
                Ok(connecting)
            })
            .map_err(|error| sys::errno_of(&error));
        // A socket that failed to connect is of no use any more, but the application may ask for its name.
        if let ConnState::Fresh(socket) = std::mem::replace(&mut self.state, ConnState::Over) {
            self.state = ConnState::Dialing(Dial {
                socket,
                cm_message: encode(CmKind::Request, data),
                reader: None,
            });
        }
        self.peer = Some(to.clone());
        match connecting {
            Ok(Connecting::InProgress) => self.undated = true,
            Ok(Connecting::Done) => {
                self.undated = true;
                if let Err(error) = self.request() {
                    self.dial_failed(sys::errno_of(&error), Box::default());
                }
            }
            Err(why) => self.dial_failed(why, Box::default()),
        }
        Ok(())
    }

    fn accept(&mut self, data: &[u8]) -> Result<(), Errno> {
        if data.len() > DATA_MAX || !matches!(self.state, ConnState::Invited(..)) {
            return Err(Errno::INVAL);
        }
        let ConnState::Invited(socket, order) = std::mem::replace(&mut self.state, ConnState::Over)
        else {
            return Err(Errno::INVAL);
        };
        self.mark(&socket);
        send_whole(&socket, &encode(CmKind::Response, data))
            .and_then(|()| self.poller.add(socket.fd(), SOCKET, Interest::READ))
            .map_err(|error| sys::errno_of(&error))?;
        self.establish(socket, order, Box::default());
        Ok(())
    }

    fn shutdown(&mut self) -> Result<(), Errno> {
        match &self.state {
            ConnState::Fresh(_) => return Err(Errno::NOTCONN),
            ConnState::Over => {}
            ConnState::Ready(_) => {
                let peer = self.peer.as_ref();
                self.reason = peer.map(|peer| format!("connection with {peer}: it was shut down"));
                self.end_quietly(Errno::CANCELED);
            }
            ConnState::Dialing(_) | ConnState::Invited(..) => {
                self.state = ConnState::Over;
                self.failed = Some((None, Errno::CANCELED));
                self.undated = false;
                self.deadline = None;
                self.events.push_back(ConnectionEvent::Ended);
            }
        }
        Ok(())
    }

    fn peer_name(&self) -> Result<Address, Errno> {
        match (&self.state, &self.peer) {
            (ConnState::Ready(_) | ConnState::Invited(..), Some(peer)) => Ok(peer.clone()),
            _ => Err(Errno::NOTCONN),
        }
    }

    fn socket(&self) -> Result<RawFd, Errno> {
        match &self.state {
            ConnState::Fresh(socket) | ConnState::Invited(socket, _) => Ok(socket.fd()),
            ConnState::Dialing(dial) => Ok(dial.socket.fd()),
            ConnState::Ready(conn) => Ok(conn.socket.fd()),
            ConnState::Over => Err(Errno::NOTCONN),
        }
    }

    fn next_event(&mut self) -> Option<ConnectionEvent> {
        self.events.pop_front()
    }
}

impl Device for TcpConnection {
    const GATHERS: bool = true;
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
        Address::Inet(self.name)
    }

    fn rename(&mut self, name: Address) -> Result<(), Errno> {
        let Address::Inet(at) = name else {
            return Err(Errno::INVAL);
        };
        if !matches!(self.state, ConnState::Fresh(_)) {
            return Err(Errno::OPBADSTATE);
        }
        let socket = bound(&at).map_err(|error| sys::errno_of(&error))?;
        self.name = socket.local().map_err(|error| sys::errno_of(&error))?;
        self.state = ConnState::Fresh(socket);
        Ok(())
    }

    fn peer(&mut self, _address: &Address) -> Result<PeerId, Errno> {
        Ok(THE_PEER)
    }

    fn address(&self, _peer: PeerId) -> Option<&Address> {
        self.peer.as_ref()
    }

    fn fd(&self) -> RawFd {
        self.poller.fd()
    }

    fn arm(&mut self) -> bool {
        if self.failed.is_some() || self.resumed || self.undated || !self.events.is_empty() {
            return false;
        }
        self.coalescer.rest();
        self.set_timer(self.now);
        true
    }

    fn idle(&self) -> bool {
        !matches!(&self.state, ConnState::Ready(conn) if conn.blocked() || conn.holds_back())
    }

    fn holds_back(&self) -> bool {
        matches!(&self.state, ConnState::Ready(conn) if conn.holds_back() && !conn.blocked())
    }

    fn reason(&self, _peer: PeerId) -> Option<String> {
        self.reason.clone()
    }
}

impl Drop for TcpConnection {
    fn drop(&mut self) {
        if let ConnState::Ready(conn) = std::mem::replace(&mut self.state, ConnState::Over) {
            conn.close();
        }
    }
}

/// Opens a socket at an address; any port will do if none is named.
fn bound(at: &SocketAddr) -> io::Result<Socket> {
    let socket = Socket::open(at)?;
    if at.port() != 0 {
        // Connections of an earlier owner may linger.
        socket.reuse_address()?;
    } else if at.ip().is_unspecified() {
        return Ok(socket);
    } else {
        // Without it the system merely runs out of ports earlier.
        let _ = socket.bind_address_only();
    }
    socket.bind(at)?;
    Ok(socket)
}

/// Sends a connection message: a socket that carried nothing yet takes it whole, or something is wrong with it.
pub(super) fn send_whole(socket: &Socket, cm_message: &[u8]) -> io::Result<()> {
    match socket.send(cm_message)? {
        count if count == cm_message.len() => Ok(()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}
