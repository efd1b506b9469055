//! The listener of connected endpoints, which takes requests for connections. Set-up path.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::time::Duration;

use oxifabric_provider::connection::{self, Incoming};
use oxifabric_provider::inet::local_address;
use oxifabric_provider::log;
use oxifabric_provider::timer::Timer;
use oxifabric_types::{Address, Errno, Info, Instant};
use oxifabric_wire::tcp::ByteOrder;
use oxifabric_wire::tcp::cm::CmKind;

use super::connection::send_whole;
use crate::cm::encode;
use crate::link::admit::gone_already;
use crate::link::device::CLOCK_SLACK;
use crate::link::dial::prepare;
use crate::listen::{CmEvent, Listener, PendingConn, PendingConns, read_message};
use crate::params::Params;
use crate::sys::{self, Event, Interest, Poller, Socket};

/// Maximum number of connections that one poll accepts.
const PER_POLL: usize = 32;

/// How long the listener pauses when the system has no descriptors left (EMFILE back-off).
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// The poller's keys: those of pending connections follow.
const LISTENER: u64 = 0;
const TIMER: u64 = 1;
const PENDING: u64 = 2;

/// A listener of connected endpoints.
#[derive(Debug)]
pub struct TcpListener {
    params: &'static Params,
    listener: Listener,
    listening: bool,
    /// Whether the poller watches the listener.
    open: bool,
    poller: Poller,
    timer: Timer,
    /// Connections whose request has not come yet; they take no room of requests.
    pending: PendingConns,
    /// Requests that came when there was no room.
    queue: VecDeque<Incoming<ConnRequest>>,
    /// When the listener is polled again, if it is paused because the system has no descriptors left.
    accept_paused_until: Option<Instant>,
    events: Vec<Event>,
    now: Instant,
}

/// A request for a connection, which the application has not answered.
#[derive(Debug)]
pub struct ConnRequest {
    pub(super) socket: Socket,
    pub(super) from: SocketAddr,
    pub(super) local: SocketAddr,
    /// The byte order of frame headers.
    pub(super) order: ByteOrder,
}

impl TcpListener {
    /// Gives up the address.
    pub(crate) fn into_socket(self) -> Result<Socket, Errno> {
        match self.listening {
            true => Err(Errno::INVAL),
            false => Ok(self.listener.into_socket()),
        }
    }

    /// Accepts the connections that wait, until there are more requests than room.
    fn accept_waiting(&mut self, room: usize) {
        for _ in 0..PER_POLL {
            if self.queue.len() >= room {
                return;
            }
            match self.listener.socket().accept() {
                Ok((socket, from)) => self.accept_one(socket, from),
                Err(error) if gone_already(&error) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => return self.refuse_waiting(),
            }
        }
    }

    /// Refuses waiting connections when there are no descriptors left (EMFILE). Pauses the listener if there is not even
    /// one to refuse them with: it would stay readable and keep a sleeping thread awake.
    fn refuse_waiting(&mut self) {
        let (_, goes_on) = self.listener.refuse_waiting();
        if !goes_on {
            self.accept_paused_until = Some(self.now.after(ACCEPT_BACKOFF));
            self.watch_listener(false);
        }
    }

    /// Returns the number of pending connections.
    #[cfg(test)]
    pub(super) fn pending(&self) -> usize {
        self.pending.len()
    }

    fn watch_listener(&mut self, open: bool) {
        if self.open == open {
            return;
        }
        self.open = open;
        let interest = if open {
            Interest::READ
        } else {
            Interest::default()
        };
        let fd = self.listener.socket().fd();
        // It can fail only for want of memory; then the listener stays as it is.
        let _ = self.poller.change(fd, LISTENER, interest);
    }

    fn accept_one(&mut self, socket: Socket, from: SocketAddr) {
        if prepare(self.params, &socket).is_err() {
            return;
        }
        let deadline = self.now.after(self.params.connect_timeout);
        let fd = socket.fd();
        let (serial, _) = self.pending.add(socket, from, deadline);
        let key = PENDING + u64::from(serial);
        if self.poller.add(fd, key, Interest::READ).is_err() {
            self.pending.remove(serial);
            return;
        }
        // The request usually arrived together with the connection.
        self.read_pending(serial);
    }

    /// Reads what has arrived on a pending connection, and queues its request when it is complete.
    fn read_pending(&mut self, serial: u32) {
        let Some(pending) = self.pending.get(serial) else {
            return;
        };
        let event = read_message(&pending.socket, &mut pending.reader);
        if matches!(event, CmEvent::Nothing) {
            return;
        }
        let Some(pending) = self.pending.remove(serial) else {
            return;
        };
        let header = pending.reader.header();
        match (event, header) {
            (CmEvent::Whole, Ok(header)) if header.kind == CmKind::Request => {
                let incoming = self.pass_on(pending, header.order);
                self.queue.extend(incoming);
            }
            (CmEvent::Whole, Ok(header)) => {
                say(&pending, &format!("it starts with a {:?}", header.kind));
            }
            (CmEvent::Malformed(why), _) => say(&pending, &why.to_string()),
            (CmEvent::Closed { within: true }, _) => say(&pending, "it broke off"),
            // A connection that is closed without a byte has asked for nothing.
            _ => {}
        }
    }

    fn pass_on(&self, pending: PendingConn, order: ByteOrder) -> Option<Incoming<ConnRequest>> {
        let local = pending.socket.local().ok()?;
        // From here on the endpoint that accepts it watches it.
        self.poller.remove(pending.socket.fd()).ok()?;
        Some(Incoming {
            local: Address::Inet(local),
            from: Address::Inet(pending.from),
            data: pending.reader.data().into(),
            request: ConnRequest {
                socket: pending.socket,
                from: pending.from,
                local,
                order,
            },
        })
    }

    fn expire(&mut self) {
        while let Some(pending) = self.pending.expired(self.now) {
            say(&pending, "it sent nothing");
        }
        if self
            .accept_paused_until
            .is_some_and(|until| until <= self.now)
        {
            self.accept_paused_until = None;
        }
    }

    fn deadline(&self) -> Option<Instant> {
        [self.pending.deadline(), self.accept_paused_until]
            .into_iter()
            .flatten()
            .min()
    }
}

impl connection::Listener for TcpListener {
    type Request = ConnRequest;

    fn open(info: &Info) -> Result<Self, Errno> {
        let params = Params::read();
        let errno = |error| sys::errno_of(&error);
        let listener = Listener::bind(
            &local_address(info, Params::read().iface.as_deref())?,
            params.ports,
        )
        .map_err(errno)?;
        let poller = Poller::open().map_err(errno)?;
        let timer = Timer::open().map_err(errno)?;
        poller
            .add(timer.fd(), TIMER, Interest::READ)
            .map_err(errno)?;
        Ok(Self {
            params,
            listener,
            listening: false,
            open: false,
            poller,
            timer,
            pending: PendingConns::new(),
            queue: VecDeque::new(),
            accept_paused_until: None,
            events: Vec::new(),
            now: Instant::default(),
        })
    }

    fn name(&self) -> Address {
        Address::Inet(*self.listener.name())
    }

    fn rename(&mut self, name: Address) -> Result<(), Errno> {
        let Address::Inet(at) = name else {
            return Err(Errno::INVAL);
        };
        if self.listening {
            return Err(Errno::OPBADSTATE);
        }
        self.listener =
            Listener::bind(&at, self.params.ports).map_err(|error| sys::errno_of(&error))?;
        Ok(())
    }

    fn listen(&mut self) -> Result<(), Errno> {
        if self.listening {
            return Err(Errno::OPBADSTATE);
        }
        let fd = self.listener.socket().fd();
        self.listener
            .listen()
            .and_then(|()| self.poller.add(fd, LISTENER, Interest::READ))
            .map_err(|error| sys::errno_of(&error))?;
        self.listening = true;
        self.open = true;
        Ok(())
    }

    fn poll(
        &mut self,
        now: Instant,
        room: usize,
        requests: &mut Vec<Incoming<ConnRequest>>,
    ) -> usize {
        self.now = now;
        self.expire();
        // Connections that are not accepted wait in the kernel's backlog.
        self.watch_listener(room > self.queue.len() && self.accept_paused_until.is_none());
        let mut list = std::mem::take(&mut self.events);
        self.poller.visit(&mut list);
        for event in &list {
            match event.key {
                LISTENER => self.accept_waiting(room),
                TIMER => self.timer.set(None),
                key => self.read_pending((key - PENDING) as u32),
            }
        }
        let passed = room.min(self.queue.len());
        requests.extend(self.queue.drain(..passed));
        // A listener whose connections are not accepted would keep a sleeping thread awake.
        self.watch_listener(passed < room && self.accept_paused_until.is_none());
        let events = list.len();
        self.events = list;
        // It may be that no thread polls before the next deadline has passed.
        if let Some(deadline) = self.deadline() {
            self.timer.set(Some(deadline.since(now) + CLOCK_SLACK));
        }
        events
    }

    fn fd(&self) -> RawFd {
        self.poller.fd()
    }

    fn arm(&mut self) -> bool {
        true
    }

    fn reject(request: ConnRequest, data: &[u8]) {
        // A peer that cannot take the answer sees the end of the connection.
        let _ = send_whole(&request.socket, &encode(CmKind::Refusal, data));
        request.socket.shut_writing();
    }
}

fn say(pending: &PendingConn, what: &str) {
    let from = pending.from;
    log::warn!(
        "tcp",
        EpCtrl,
        "{from}: dropped a request for a connection: {what}"
    );
}
