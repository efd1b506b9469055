//! The sockets of an endpoint: who is connected, and how far each connection is. Set-up path.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};

use oxifabric_core::timer::Timer;
use oxifabric_types::{Instant, PeerId};
use oxifabric_wire::shm::greeting::{Ability, Hello};

use crate::region::Spare;
use crate::sys::identity::Identity;
use crate::sys::socket::{Credentials, Socket};
use crate::sys::wait::Epoll;

/// Tokens of what is no connection.
pub(crate) const LISTENER: u64 = 0;
pub(crate) const TIMER: u64 = 1;
/// The token of the first connection.
pub(crate) const FIRST: u64 = 2;
/// Beside a connection's token: the process at its other end has ended.
pub(crate) const ENDED: u64 = 1 << 63;

/// Callers that have said nothing yet. Hellos come with the connections, unless a caller loses the processor just between; so
/// many do not at the same time, even where a thousand processes start.
const MOST_SILENT: usize = 64;
/// Callers whose name belongs to a pair that has not ended: as many as can be heard in one look, which is what a job that starts
/// anew may need.
const MOST_PARKED: usize = 128;

/// The sockets of an endpoint, and its name.
#[derive(Debug)]
pub(crate) struct Switchboard {
    pub(crate) name: Box<str>,
    pub(crate) me: PeerId,
    pub(crate) listener: Socket,
    pub(crate) epoll: Epoll,
    pub(crate) timer: Timer,
    /// Tells this endpoint from others of its name; peers read it to learn whether they may read here.
    pub(crate) incarnation: Box<u64>,
    pub(crate) enabled: bool,
    /// Somebody may sleep.
    pub(crate) waits: bool,
    /// Peers whose pair is being opened.
    pub(crate) opening: Vec<PeerId>,
    pub(crate) conns: Vec<Conn>,
    /// Connections that have not said hello, the oldest first.
    pub(crate) silent: VecDeque<usize>,
    /// Connections whose hello waits for an older pair to end, the oldest first.
    pub(crate) parked: Vec<usize>,
    /// Callers that were let in for nothing in this look.
    pub(crate) refusals: usize,
    /// Until when no callers are let in.
    pub(crate) closed_until: Option<Instant>,
    pub(crate) spare: Option<Spare>,
}

/// A connection.
#[derive(Debug)]
pub(crate) enum Conn {
    /// There is none at this index.
    Free,
    /// It has not said hello yet.
    Stranger(Newcomer),
    /// Its hello cannot be judged yet.
    Parked(Box<Caller>),
    /// This side said hello and waits for the answer.
    Called(Socket, PeerId),
    /// This side accepted and waits for ready.
    Answered(Socket, PeerId),
    /// The socket is with the pair.
    Open(PeerId),
}

/// A caller that has not said hello.
#[derive(Debug)]
pub(crate) struct Newcomer {
    pub(crate) socket: Socket,
    pub(crate) who: Credentials,
    pub(crate) deadline: Instant,
}

/// A caller that has said hello.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) socket: Socket,
    pub(crate) hello: Hello,
    pub(crate) memory: OwnedFd,
    pub(crate) who: Credentials,
    /// Until when it may wait for an older pair to end.
    pub(crate) deadline: Instant,
}

impl Switchboard {
    /// Watches a new connection; returns its index.
    pub(crate) fn add(&mut self, socket: &Socket) -> std::io::Result<usize> {
        let free = self
            .conns
            .iter()
            .position(|conn| matches!(conn, Conn::Free));
        let index = free.unwrap_or(self.conns.len());
        self.epoll.add(socket.as_fd(), FIRST + index as u64)?;
        if free.is_none() {
            self.conns.push(Conn::Free);
        }
        Ok(index)
    }

    pub(crate) fn take(&mut self, index: usize) -> Conn {
        match self.conns.get_mut(index) {
            Some(conn) => std::mem::replace(conn, Conn::Free),
            None => Conn::Free,
        }
    }

    pub(crate) fn set(&mut self, index: usize, conn: Conn) {
        if let Some(place) = self.conns.get_mut(index) {
            *place = conn;
        }
    }

    /// Closes a connection; `socket` is its socket if the pair has it.
    pub(crate) fn forget(&mut self, index: usize, socket: Option<&Socket>) {
        let conn = self.take(index);
        let own = match &conn {
            Conn::Called(socket, _) | Conn::Answered(socket, _) => Some(socket),
            Conn::Stranger(newcomer) => Some(&newcomer.socket),
            Conn::Parked(caller) => Some(&caller.socket),
            Conn::Free | Conn::Open(_) => None,
        };
        // A forked child may hold the descriptor, too, so that closing it here would not end the watch.
        if let Some(socket) = own.or(socket) {
            self.epoll.remove(socket.as_fd());
        }
        self.parked.retain(|&parked| parked != index);
        self.silent.retain(|&silent| silent != index);
    }

    /// Returns the caller at this index, if it waits for an older pair to end.
    pub(crate) fn parked_caller(&self, index: usize) -> Option<&Caller> {
        match self.conns.get(index)? {
            Conn::Parked(caller) => Some(caller),
            _ => None,
        }
    }

    /// Returns the connection that goes when another one is silent: the oldest where there are too many, or fewer descriptors than are to
    /// spare.
    pub(crate) fn too_silent(&self, scarce: bool) -> Option<usize> {
        let most = if scarce { 1 } else { MOST_SILENT };
        let full = self.silent.len() >= most;
        self.silent.front().copied().filter(|_| full)
    }

    /// Returns the highest number of a silent caller's descriptor; zero when there is none.
    pub(crate) fn highest_silent(&self) -> u64 {
        let numbers = self
            .silent
            .iter()
            .map(|&index| match self.conns.get(index) {
                Some(Conn::Stranger(newcomer)) => newcomer.socket.number(),
                _ => 0,
            });
        numbers.max().unwrap_or(0)
    }

    /// The same of those that wait for a pair to end.
    pub(crate) fn too_patient(&self) -> Option<usize> {
        let full = self.parked.len() >= MOST_PARKED;
        self.parked.first().copied().filter(|_| full)
    }

    /// Lets no callers in for a while; they wait in the listener's backlog.
    pub(crate) fn close_door(&mut self, until: Instant) {
        if self.closed_until.is_none() {
            // It would stay readable and keep a sleeping thread awake.
            self.epoll.remove(self.listener.as_fd());
        }
        self.closed_until = self.closed_until.max(Some(until));
    }

    /// Lets callers in again when it is time.
    pub(crate) fn open_door(&mut self, now: Instant) {
        if self.closed_until.is_some_and(|until| until <= now)
            && self.epoll.add(self.listener.as_fd(), LISTENER).is_ok()
        {
            self.closed_until = None;
        }
    }

    /// Watches for the end of the process behind an open connection.
    pub(crate) fn watch_end(&self, index: usize, process: &Identity) {
        if let Some(end) = process.end() {
            // Where that fails the socket says it, in nearly all cases.
            let _ = self.epoll.add(end, ENDED | (FIRST + index as u64));
        }
    }

    /// Watches an open connection no longer. A forked child may hold the descriptors, too, so that closing them here would not
    /// end the watch.
    pub(crate) fn stop_watching(&self, socket: &Socket, process: &Identity) {
        self.epoll.remove(socket.as_fd());
        if let Some(end) = process.end() {
            self.epoll.remove(end);
        }
    }

    pub(crate) fn ability(&self, reads: bool) -> Ability {
        let mut ability = Ability::empty();
        ability.set(Ability::SLEEPS, self.waits);
        ability.set(Ability::READS, reads);
        ability
    }

    pub(crate) fn probe(&self) -> u64 {
        (&raw const *self.incarnation) as u64
    }

    /// Starts to listen.
    pub(crate) fn listen(&mut self) -> std::io::Result<()> {
        self.listener.listen()?;
        self.epoll.add(self.listener.as_fd(), LISTENER)?;
        self.epoll.add(self.timer.as_fd(), TIMER)
    }
}
