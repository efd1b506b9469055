//! Bounds on incoming connections: their number is limited, and the user at the other end is checked before a byte is
//! read.
//!
//! Every process of the host can connect, so each thing that a connection takes here has a bound: descriptors, and time
//! of the thread that polls. docs/protocol/shm.md 2.9.

use std::io;
use std::time::Duration;

use oxifabric_engine::Sink;
use oxifabric_provider::log;
use oxifabric_wire::shm::handshake::{Cause, Handshake, Refuse};

use crate::NAME;
use crate::conn_table::{ConnEntry, PendingConn};
use crate::handshake;
use crate::link::ShmLink;
use crate::sys::identity;
use crate::sys::process;
use crate::sys::socket::Socket;

/// How long an initiator may take to send its hello: it has nothing to wait for.
const HELLO_TIMEOUT: Duration = Duration::from_secs(15);

/// Connections that one poll of the sockets accepts at most.
const ACCEPTS_PER_POLL: usize = 64;

/// Back-off of the listener after connections that came to no purpose: a flood of them costs a small part of this
/// thread's time. What waits in a full backlog (4,096) is read in a quarter of a second all the same.
const AFTER_REFUSAL: Duration = Duration::from_millis(1);
/// Connections to no purpose after which one poll of the sockets accepts no more.
const REFUSALS_PER_POLL: usize = 16;

/// Descriptors that incoming connections leave to the application, and to the connections that this side makes.
const SPARE_DESCRIPTORS: u64 = 16;

/// Back-off of the listener when the system has no descriptors left; as over tcp.
const WITHOUT_DESCRIPTORS: Duration = Duration::from_millis(100);

impl ShmLink {
    pub(super) fn accept_waiting(&mut self, sink: &mut impl Sink) -> usize {
        self.table.refusals = 0;
        self.drop_overdue(sink);
        for count in 0..ACCEPTS_PER_POLL {
            if self.table.refusals >= REFUSALS_PER_POLL {
                return count;
            }
            match self.table.listener.accept() {
                Ok(Some(socket)) => self.admit(socket, sink),
                Ok(None) => return count,
                Err(error) => {
                    self.pause_accept(&error);
                    return count;
                }
            }
        }
        ACCEPTS_PER_POLL
    }

    /// Takes a connection in, if its user may connect and there is room: both before anything that it sends is read.
    fn admit(&mut self, socket: Socket, sink: &mut impl Sink) {
        let credentials = match socket.credentials() {
            Ok(credentials) => credentials,
            Err(error) => return self.pause_accept(&error),
        };
        if let Err(refuse) =
            handshake::check_owner(credentials, process::user(), &self.params.users)
        {
            return self.send_refuse(&socket, refuse);
        }
        if !self.make_room_for(&socket, sink) {
            let refuse = Refuse {
                cause: Cause::Limit,
                text: "this process has no descriptors to spare".into(),
            };
            return self.send_refuse(&socket, refuse);
        }
        let index = match self.table.add(&socket) {
            Ok(index) => index,
            Err(error) => return self.pause_accept(&error),
        };
        let pending = PendingConn {
            socket,
            credentials,
            deadline: self.now.after(HELLO_TIMEOUT),
        };
        self.table.set(index, ConnEntry::Pending(pending));
        self.table.pending.push_back(index);
        // The hello usually came with the connection.
        self.read_entry(index, sink);
    }

    /// Pauses the listener until the system may have descriptors again (EMFILE back-off).
    fn pause_accept(&mut self, error: &io::Error) {
        log::warn!(NAME, EpCtrl, "a connection cannot be accepted: {error}");
        let until = self.now.after(WITHOUT_DESCRIPTORS);
        self.table.pause_accept(until);
    }

    /// Closes connections that never sent a hello, so that they do not pile up. A hello that has arrived by now counts:
    /// it may be this side that was late.
    fn drop_overdue(&mut self, sink: &mut impl Sink) {
        while let Some(&oldest) = self.table.pending.front() {
            let overdue = matches!(self.table.entries.get(oldest),
                Some(ConnEntry::Pending(pending)) if pending.deadline <= self.now);
            if !overdue {
                return;
            }
            self.drop_pending(oldest, sink);
        }
    }

    /// Makes room for another connection: where many are pending, or descriptors are scarce, the oldest pending one
    /// goes, unless its hello has arrived by now. Returns whether there is room.
    fn make_room_for(&mut self, socket: &Socket, sink: &mut impl Sink) -> bool {
        // The lowest free number was given out: it shows how many descriptors there are. As long as a pending
        // connection has a high one, numbers that other descriptors gave back do not mean that there are more.
        let highest = self.table.highest_pending().max(socket.number());
        let scarce = highest + SPARE_DESCRIPTORS >= identity::most_descriptors();
        match self.table.pending_to_drop(scarce) {
            Some(oldest) => self.drop_pending(oldest, sink),
            None => return !scarce,
        }
        true
    }

    fn drop_pending(&mut self, index: usize, sink: &mut impl Sink) {
        self.read_entry(index, sink);
        if self.table.pending.contains(&index) {
            self.table.forget(index, None);
            self.count_refusal();
        }
    }

    /// Counts a connection that was accepted to no purpose: after some of them the listener pauses for a moment.
    pub(super) fn count_refusal(&mut self) {
        self.table.refusals += 1;
        let until = self.now.after(AFTER_REFUSAL);
        self.table.pause_accept(until);
    }

    /// Sends a refuse, and counts the connection as accepted to no purpose.
    pub(super) fn send_refuse(&mut self, socket: &Socket, refuse: Refuse) {
        // The text may have words of the initiator's, which are not for the log: it could be filled with them.
        let why = handshake::reason_of(refuse.cause);
        log::warn!(NAME, EpCtrl, "an incoming connection was refused: {why}");
        log::info!(NAME, EpCtrl, "the refuse: {:?}", refuse.text);
        let _ = socket.send(&Handshake::Refuse(refuse).emit(), None);
        self.count_refusal();
    }
}
