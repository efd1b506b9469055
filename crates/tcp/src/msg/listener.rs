//! Where requests for connections come in. Set-up path.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::time::Duration;

use oxifabric_core::connection::{self, Incoming};
use oxifabric_core::inet::local_address;
use oxifabric_core::log;
use oxifabric_core::timer::Timer;
use oxifabric_types::{Address, Errno, Info, Instant};
use oxifabric_wire::tcp::ByteOrder;
use oxifabric_wire::tcp::cm::CmKind;

use super::connection::send_whole;
use crate::cm::compose;
use crate::link::admit::gone_already;
use crate::link::device::CLOCK_SLACK;
use crate::link::dial::prepare;
use crate::listen::{Listener, Said, Visitor, Visitors, listen_to};
use crate::params::Params;
use crate::sys::{self, Event, Interest, Poller, Socket};

/// How many are let in during one poll.
const PER_POLL: usize = 32;

/// How long nobody is let in when the system has no descriptors left.
const CLOSED: Duration = Duration::from_millis(100);

/// The poller's keys: those of visitors follow.
const DOOR: u64 = 0;
const TIMER: u64 = 1;
const VISITORS: u64 = 2;

/// A listener of connected endpoints.
#[derive(Debug)]
pub struct TcpListener {
    params: &'static Params,
    listener: Listener,
    listening: bool,
    /// Somebody may be let in.
    open: bool,
    poller: Poller,
    timer: Timer,
    /// Those who have not asked for anything yet; they take no room of those who have.
    visitors: Visitors,
    /// Those who asked when there was no room.
    queue: VecDeque<Incoming<Caller>>,
    /// Since the system has no descriptors left, nobody is let in until then.
    closed_until: Option<Instant>,
    events: Vec<Event>,
    now: Instant,
}

/// Somebody who has asked for a connection.
#[derive(Debug)]
pub struct Caller {
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

    /// Lets those in who wait at the door, until there are more requests than room.
    fn open_door(&mut self, room: usize) {
        for _ in 0..PER_POLL {
            if self.queue.len() >= room {
                return;
            }
            match self.listener.socket().accept() {
                Ok((socket, from)) => self.let_in(socket, from),
                Err(error) if gone_already(&error) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => return self.turn_away(),
            }
        }
    }

    /// There are no descriptors left. Where there is not even one to refuse callers with, the listener would stay readable and keep
    /// a sleeping caller awake.
    fn turn_away(&mut self) {
        let (_, goes_on) = self.listener.turn_away();
        if !goes_on {
            self.closed_until = Some(self.now.after(CLOSED));
            self.watch_door(false);
        }
    }

    /// Returns how many are inside and have not asked for anything.
    #[cfg(test)]
    pub(super) fn visitors(&self) -> usize {
        self.visitors.len()
    }

    fn watch_door(&mut self, open: bool) {
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
        // It can fail only for want of memory; then the door stays as it is.
        let _ = self.poller.change(fd, DOOR, interest);
    }

    fn let_in(&mut self, socket: Socket, from: SocketAddr) {
        if prepare(self.params, &socket).is_err() {
            return;
        }
        let deadline = self.now.after(self.params.connect_timeout);
        let fd = socket.fd();
        let serial = self.visitors.enter(socket, from, deadline);
        let key = VISITORS + u64::from(serial);
        if self.poller.add(fd, key, Interest::READ).is_err() {
            self.visitors.leave(serial);
            return;
        }
        // The request usually arrived together with the connection.
        self.hear(serial);
    }

    /// Reads what a visitor says, and queues it when it is complete.
    fn hear(&mut self, serial: u32) {
        let Some(visitor) = self.visitors.get(serial) else {
            return;
        };
        let said = listen_to(&visitor.socket, &mut visitor.inbox);
        if matches!(said, Said::Nothing) {
            return;
        }
        let Some(visitor) = self.visitors.leave(serial) else {
            return;
        };
        let header = visitor.inbox.header();
        match (said, header) {
            (Said::Whole, Ok(header)) if header.kind == CmKind::Request => {
                let incoming = self.pass_on(visitor, header.order);
                self.queue.extend(incoming);
            }
            (Said::Whole, Ok(header)) => {
                say(&visitor, &format!("it starts with a {:?}", header.kind));
            }
            (Said::Nonsense(why), _) => say(&visitor, &why.to_string()),
            (Said::Gone { within: true }, _) => say(&visitor, "it broke off"),
            // Whoever leaves without a word has asked for nothing.
            _ => {}
        }
    }

    fn pass_on(&self, visitor: Visitor, order: ByteOrder) -> Option<Incoming<Caller>> {
        let local = visitor.socket.local().ok()?;
        // From here on it is watched by whoever answers.
        self.poller.remove(visitor.socket.fd()).ok()?;
        Some(Incoming {
            local: Address::Inet(local),
            from: Address::Inet(visitor.from),
            data: visitor.inbox.data().into(),
            request: Caller {
                socket: visitor.socket,
                from: visitor.from,
                local,
                order,
            },
        })
    }

    fn expire(&mut self) {
        while let Some(visitor) = self.visitors.expired(self.now) {
            say(&visitor, "it said nothing");
        }
        if self.closed_until.is_some_and(|until| until <= self.now) {
            self.closed_until = None;
        }
    }

    fn deadline(&self) -> Option<Instant> {
        [self.visitors.deadline(), self.closed_until]
            .into_iter()
            .flatten()
            .min()
    }
}

impl connection::Listener for TcpListener {
    type Request = Caller;

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
            visitors: Visitors::new(),
            queue: VecDeque::new(),
            closed_until: None,
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
            .and_then(|()| self.poller.add(fd, DOOR, Interest::READ))
            .map_err(|error| sys::errno_of(&error))?;
        self.listening = true;
        self.open = true;
        Ok(())
    }

    fn poll(&mut self, now: Instant, room: usize, requests: &mut Vec<Incoming<Caller>>) -> usize {
        self.now = now;
        self.expire();
        // Whoever is not let in waits in the operating system.
        self.watch_door(room > self.queue.len() && self.closed_until.is_none());
        let mut list = std::mem::take(&mut self.events);
        self.poller.visit(&mut list);
        for event in &list {
            match event.key {
                DOOR => self.open_door(room),
                TIMER => self.timer.set(None),
                visitor => self.hear((visitor - VISITORS) as u32),
            }
        }
        let passed = room.min(self.queue.len());
        requests.extend(self.queue.drain(..passed));
        // A door that nobody goes through would keep a sleeping caller awake.
        self.watch_door(passed < room && self.closed_until.is_none());
        let events = list.len();
        self.events = list;
        // Nobody may look before the next deadline has passed.
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

    fn reject(caller: Caller, data: &[u8]) {
        // A peer that cannot be told sees the end of the connection.
        let _ = send_whole(&caller.socket, &compose(CmKind::Refusal, data));
        caller.socket.shut_writing();
    }
}

fn say(visitor: &Visitor, what: &str) {
    let from = visitor.from;
    log::warn!(
        "tcp",
        EpCtrl,
        "{from}: dropped a request for a connection: {what}"
    );
}
