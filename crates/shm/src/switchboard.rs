//! The sockets of an endpoint: who is connected, and how far each connection is. Set-up path.

use std::os::fd::{AsFd, OwnedFd};

use oxifabric_core::timer::Timer;
use oxifabric_types::{Instant, PeerId};
use oxifabric_wire::shm::greeting::{Ability, Hello};

use crate::region::Spare;
use crate::sys::socket::{Credentials, Socket};
use crate::sys::wait::Epoll;

/// Tokens of what is no connection.
pub(crate) const LISTENER: u64 = 0;
pub(crate) const TIMER: u64 = 1;
/// The token of the first connection.
pub(crate) const FIRST: u64 = 2;
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
    /// Connections whose hello waits for an older pair to end.
    pub(crate) parked: Vec<usize>,
    pub(crate) spare: Option<Spare>,
}

/// A connection.
#[derive(Debug)]
pub(crate) enum Conn {
    /// There is none at this index.
    Free,
    /// Somebody called and has not said hello yet.
    Stranger(Socket, Instant),
    /// Its hello cannot be judged yet.
    Parked(Box<Caller>),
    /// This side said hello and waits for the answer.
    Called(Socket, PeerId),
    /// This side accepted and waits for ready.
    Answered(Socket, PeerId),
    /// The socket is with the pair.
    Open(PeerId),
}

/// Somebody who said hello.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) socket: Socket,
    pub(crate) hello: Hello,
    pub(crate) memory: OwnedFd,
    pub(crate) who: Credentials,
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
            Conn::Stranger(socket, _) | Conn::Called(socket, _) | Conn::Answered(socket, _) => {
                Some(socket)
            }
            Conn::Parked(caller) => Some(&caller.socket),
            Conn::Free | Conn::Open(_) => None,
        };
        // A forked child may hold the descriptor, too, so that closing it here would not end the watch.
        if let Some(socket) = own.or(socket) {
            self.epoll.remove(socket.as_fd());
        }
        self.parked.retain(|&parked| parked != index);
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
