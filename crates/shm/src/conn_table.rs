//! The sockets of an endpoint: its listener, and how far each connection's handshake is. Set-up path.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};

use oxifabric_provider::timer::Timer;
use oxifabric_types::{Instant, PeerId};
use oxifabric_wire::shm::handshake::{Ability, Hello};

use crate::region::Spare;
use crate::sys::identity::Identity;
use crate::sys::socket::{Credentials, Socket};
use crate::sys::wait::Epoll;

/// Epoll tokens of what is no connection.
pub(crate) const LISTENER: u64 = 0;
pub(crate) const TIMER: u64 = 1;
/// The token of the first connection.
pub(crate) const FIRST: u64 = 2;
/// Flag beside a connection's token: the process at its other end has ended.
pub(crate) const ENDED: u64 = 1 << 63;

/// Maximum number of connections whose hello has not come. Hellos come with the connections, unless the initiator loses
/// the processor just between; fewer than this do so at the same time, even where a thousand processes start.
const MOST_PENDING: usize = 64;
/// Maximum number of connections whose hello waits for an older one of the same name to end: as many as one poll of the
/// sockets can read, which is what a job that starts anew may need.
const MOST_PARKED: usize = 128;

/// The connection table of an endpoint: its name, its listener and the handshakes under way.
#[derive(Debug)]
pub(crate) struct ConnTable {
    pub(crate) name: Box<str>,
    pub(crate) me: PeerId,
    pub(crate) listener: Socket,
    pub(crate) epoll: Epoll,
    pub(crate) timer: Timer,
    /// Number that distinguishes this endpoint from others of its name; peers read it to learn whether they may read
    /// here.
    pub(crate) incarnation: Box<u64>,
    pub(crate) enabled: bool,
    /// Whether threads may sleep on this endpoint.
    pub(crate) waits: bool,
    /// Peers whose connection is being opened.
    pub(crate) opening: Vec<PeerId>,
    pub(crate) entries: Vec<ConnEntry>,
    /// Indices of connections whose hello has not come, the oldest first.
    pub(crate) pending: VecDeque<usize>,
    /// Indices of connections whose hello waits for an older connection to end, the oldest first.
    pub(crate) parked: Vec<usize>,
    /// Number of connections accepted to no purpose in this poll of the sockets.
    pub(crate) refusals: usize,
    /// When the listener is polled again, if it is paused.
    pub(crate) accept_paused_until: Option<Instant>,
    pub(crate) spare: Option<Spare>,
}

/// Handshake state of one connection.
#[derive(Debug)]
pub(crate) enum ConnEntry {
    /// No connection at this index.
    Free,
    /// Its hello has not come yet.
    Pending(PendingConn),
    /// Its hello waits for an older connection of its name to end.
    Parked(Box<InboundConn>),
    /// This side sent a hello and waits for the answer.
    HelloSent(Socket, PeerId),
    /// This side accepted and waits for ready.
    AcceptSent(Socket, PeerId),
    /// Its socket is with the open connection to this peer.
    Open(PeerId),
}

/// An incoming connection whose hello has not come.
#[derive(Debug)]
pub(crate) struct PendingConn {
    pub(crate) socket: Socket,
    pub(crate) credentials: Credentials,
    pub(crate) deadline: Instant,
}

/// An incoming connection whose hello has come.
#[derive(Debug)]
pub(crate) struct InboundConn {
    pub(crate) socket: Socket,
    pub(crate) hello: Hello,
    pub(crate) memory: OwnedFd,
    pub(crate) credentials: Credentials,
    /// When it stops waiting for an older connection to end.
    pub(crate) deadline: Instant,
}

impl ConnTable {
    /// Watches a new connection; returns its index.
    pub(crate) fn add(&mut self, socket: &Socket) -> std::io::Result<usize> {
        let free = self
            .entries
            .iter()
            .position(|entry| matches!(entry, ConnEntry::Free));
        let index = free.unwrap_or(self.entries.len());
        self.epoll.add(socket.as_fd(), FIRST + index as u64)?;
        if free.is_none() {
            self.entries.push(ConnEntry::Free);
        }
        Ok(index)
    }

    pub(crate) fn take(&mut self, index: usize) -> ConnEntry {
        match self.entries.get_mut(index) {
            Some(entry) => std::mem::replace(entry, ConnEntry::Free),
            None => ConnEntry::Free,
        }
    }

    pub(crate) fn set(&mut self, index: usize, entry: ConnEntry) {
        if let Some(place) = self.entries.get_mut(index) {
            *place = entry;
        }
    }

    /// Frees an entry and stops watching its socket; `socket` is that socket if the entry does not own it.
    pub(crate) fn forget(&mut self, index: usize, socket: Option<&Socket>) {
        let entry = self.take(index);
        let own = match &entry {
            ConnEntry::HelloSent(socket, _) | ConnEntry::AcceptSent(socket, _) => Some(socket),
            ConnEntry::Pending(pending) => Some(&pending.socket),
            ConnEntry::Parked(inbound) => Some(&inbound.socket),
            ConnEntry::Free | ConnEntry::Open(_) => None,
        };
        // A forked child may hold the descriptor, too, so that closing it here would not end the watch.
        if let Some(socket) = own.or(socket) {
            self.epoll.remove(socket.as_fd());
        }
        self.parked.retain(|&parked| parked != index);
        self.pending.retain(|&pending| pending != index);
    }

    /// Returns the connection at this index if it waits for an older connection to end.
    pub(crate) fn parked_conn(&self, index: usize) -> Option<&InboundConn> {
        match self.entries.get(index)? {
            ConnEntry::Parked(inbound) => Some(inbound),
            _ => None,
        }
    }

    /// Returns the pending connection to close before another one is accepted: the oldest, if there are too many or
    /// descriptors are scarce.
    pub(crate) fn pending_to_drop(&self, scarce: bool) -> Option<usize> {
        let most = if scarce { 1 } else { MOST_PENDING };
        let full = self.pending.len() >= most;
        self.pending.front().copied().filter(|_| full)
    }

    /// Returns the highest descriptor number of a pending connection; zero when there is none.
    pub(crate) fn highest_pending(&self) -> u64 {
        let numbers = self
            .pending
            .iter()
            .map(|&index| match self.entries.get(index) {
                Some(ConnEntry::Pending(pending)) => pending.socket.number(),
                _ => 0,
            });
        numbers.max().unwrap_or(0)
    }

    /// Returns the oldest parked connection, if there are too many.
    pub(crate) fn parked_to_drop(&self) -> Option<usize> {
        let full = self.parked.len() >= MOST_PARKED;
        self.parked.first().copied().filter(|_| full)
    }

    /// Pauses the listener (back-off); connections wait in its backlog.
    pub(crate) fn pause_accept(&mut self, until: Instant) {
        if self.accept_paused_until.is_none() {
            // It would stay readable and keep a sleeping thread awake.
            self.epoll.remove(self.listener.as_fd());
        }
        self.accept_paused_until = self.accept_paused_until.max(Some(until));
    }

    /// Polls the listener again when its pause is over.
    pub(crate) fn resume_accept(&mut self, now: Instant) {
        if self.accept_paused_until.is_some_and(|until| until <= now)
            && self.epoll.add(self.listener.as_fd(), LISTENER).is_ok()
        {
            self.accept_paused_until = None;
        }
    }

    /// Watches for the end of the process behind an open connection.
    pub(crate) fn watch_end(&self, index: usize, process: &Identity) {
        if let Some(end) = process.end() {
            // If that fails, the socket reports the end in nearly all cases.
            let _ = self.epoll.add(end, ENDED | (FIRST + index as u64));
        }
    }

    /// Stops watching an open connection. A forked child may hold the descriptors, too, so that closing them here would
    /// not end the watch.
    pub(crate) fn stop_watching(&self, socket: &Socket, process: &Identity) {
        self.epoll.remove(socket.as_fd());
        if let Some(end) = process.end() {
            self.epoll.remove(end);
        }
    }

    pub(crate) fn ability(&self, reads: bool) -> Ability {
        let mut ability = Ability::empty();
        ability.set(Ability::SLEEPS, self.waits);
        ability.set(Ability::READS | Ability::GRANTS, reads);
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
