//! Incoming connections: the listener accepts them and reads their requests (docs/protocol/tcp.md sections 1.5, 3.5 and
//! 3.7). Set-up path.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use oxifabric_engine::Sink;
use oxifabric_types::{Errno, PeerId};
use oxifabric_wire::tcp::cm::CmKind;

use super::{Key, TcpLink};
use crate::cm::{Message, Verdict, resolve_crossing};
use crate::listen::{CmEvent, PendingConn};
use crate::peer::ConnState;
use crate::sys::{Interest, Socket};

/// Maximum number of connections that one poll accepts.
const PER_POLL: usize = 32;

/// How long the listener pauses when the system has no descriptors left (EMFILE back-off).
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// Connections that came to no purpose, or took the place of others, after which one poll accepts no more.
const WASTED_PER_POLL: usize = 16;
/// Back-off of the listener after such connections, as exactly as the coarse clock goes (some milliseconds): a flood of them costs a part of
/// this thread's time only.
const AFTER_WASTED: Duration = Duration::from_millis(1);

/// Turns of reading that a connection gets which another replaces; one ends with each read into a large body.
const LAST_TURNS: usize = 8;

impl TcpLink {
    /// Accepts the connections that wait, and reads their requests.
    pub(super) fn accept_waiting(&mut self, sink: &mut impl Sink) {
        for _ in 0..PER_POLL {
            match self.listener.socket().accept() {
                Ok((socket, from)) => self.accept_one(socket, from, sink),
                Err(error) if gone_already(&error) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) if self.give_up_some(sink) => {}
                Err(_) => return self.refuse_waiting(),
            }
            if self.wasted >= WASTED_PER_POLL {
                return;
            }
        }
    }

    /// Pauses the listener after connections that came to no purpose, when the poller's events are handled.
    #[cold]
    pub(super) fn pause_after_waste(&mut self) {
        self.wasted = 0;
        // A longer pause stands, and those that still come to nothing make none longer.
        if self.accept_paused_until.is_none() {
            self.pause_accept(AFTER_WASTED);
        }
    }

    /// Refuses waiting connections when there are no descriptors left (EMFILE); pauses the listener if it cannot.
    fn refuse_waiting(&mut self) {
        let (refused, goes_on) = self.listener.refuse_waiting();
        self.connections.rejected += refused as u64;
        self.wasted += refused;
        if !goes_on {
            self.pause_accept(ACCEPT_BACKOFF);
        }
    }

    fn accept_one(&mut self, socket: Socket, from: SocketAddr, sink: &mut impl Sink) {
        if self.prepare(&socket).is_err() {
            return;
        }
        let deadline = self.now.after(self.params.connect_timeout);
        let fd = socket.fd();
        let (serial, displaced) = self.pending.add(socket, from, deadline);
        self.wasted += usize::from(displaced);
        let key = Key::PendingConn(serial).pack();
        if self.poller.add(fd, key, Interest::READ).is_err() {
            self.pending.remove(serial);
            return;
        }
        self.expect(Some(deadline));
        // The request usually arrived together with the connection.
        self.read_pending(serial, sink);
    }

    /// Stops accepting for a while. The listener is not watched meanwhile: it would stay readable and keep a sleeping thread
    /// awake.
    fn pause_accept(&mut self, pause: Duration) {
        let until = self.now.after(pause);
        self.accept_paused_until = Some(until);
        self.watch_listener(false);
        self.expect(Some(until));
    }

    pub(super) fn watch_listener(&self, open: bool) {
        let interest = if open {
            Interest::READ
        } else {
            Interest::default()
        };
        let fd = self.listener.socket().fd();
        // It can fail only for want of memory; it is tried again at the next visit.
        let _ = self.poller.change(fd, Key::Listener.pack(), interest);
    }

    /// Reads what has arrived on a pending connection, and acts on it when it is complete.
    pub(super) fn read_pending(&mut self, serial: u32, sink: &mut impl Sink) {
        let Some(pending) = self.pending.get(serial) else {
            return;
        };
        let event = pending.read_cm();
        if matches!(event, CmEvent::Nothing) {
            return;
        }
        let Some(pending) = self.pending.remove(serial) else {
            return;
        };
        match event {
            CmEvent::Message(message)
                if message.kind == CmKind::Request && message.greeting.port != 0 =>
            {
                self.admit(pending, &message, sink);
            }
            CmEvent::Message(message) => {
                self.drop_pending(&pending, &format!("it starts with a {:?}", message.kind));
            }
            CmEvent::Malformed(why) => self.drop_pending(&pending, &why.to_string()),
            CmEvent::Closed { within: true } => self.drop_pending(&pending, "it broke off"),
            // A connection that is closed without a byte has asked for nothing: one of two that crossed, mostly.
            CmEvent::Nothing | CmEvent::Whole | CmEvent::Closed { within: false } => {}
        }
    }

    fn drop_pending(&mut self, pending: &PendingConn, what: &str) {
        self.wasted += 1;
        self.log(&format!(
            "{}: dropped a connection that is none of an endpoint's: {what}",
            pending.from
        ));
    }

    fn admit(&mut self, pending: PendingConn, message: &Message, sink: &mut impl Sink) {
        let remote = claimed(&pending, message);
        if let Some(id) = self.number(&remote, sink) {
            self.decide(id, pending, message, true, sink);
        }
    }

    /// Answers a request by the state of its peer. Its socket is `watched` or not.
    pub(super) fn decide(
        &mut self,
        id: PeerId,
        pending: PendingConn,
        message: &Message,
        watched: bool,
        sink: &mut impl Sink,
    ) {
        let remote = claimed(&pending, message);
        let local = self.local_to(&pending.socket);
        let Some(peer) = self.peers.get(id) else {
            return;
        };
        match resolve_crossing(
            peer.state.peer_state(),
            &local,
            &remote,
            message.greeting.pid,
        ) {
            Verdict::Refuse => self.refuse(&pending, message),
            Verdict::Challenge => self.challenge(id, pending, message),
            Verdict::Accept | Verdict::Yield => self.respond(id, pending, message, watched, sink),
            Verdict::Replace => self.replace(id, pending, message, watched, sink),
        }
    }

    /// Refuses a request.
    pub(super) fn refuse(&mut self, pending: &PendingConn, message: &Message) {
        self.connections.rejected += 1;
        let cm_message = self.local_params.refuse(&message.greeting);
        // A peer that cannot take the answer sees the end of the connection.
        let _ = pending.socket.send(cm_message.bytes());
        pending.socket.shut_writing();
    }

    /// Accepts a request in place of the connection in use.
    pub(super) fn replace(
        &mut self,
        id: PeerId,
        pending: PendingConn,
        message: &Message,
        watched: bool,
        sink: &mut impl Sink,
    ) {
        // What the old connection still brings was sent before the new one was made.
        self.read_rest(id, sink);
        self.end(id, Errno::CONNRESET, "replaced by a new connection", sink);
        self.respond(id, pending, message, watched, sink);
    }

    /// Reads what a connection that will end has brought.
    pub(super) fn read_rest(&mut self, id: PeerId, sink: &mut impl Sink) {
        for _ in 0..LAST_TURNS {
            if self.read(id, true, sink) == 0 {
                break;
            }
        }
    }

    /// Accepts a request; an attempt of ours, or the remains of one, is dropped.
    fn respond(
        &mut self,
        id: PeerId,
        pending: PendingConn,
        message: &Message,
        watched: bool,
        sink: &mut impl Sink,
    ) {
        if !self.has_place(id, sink) {
            self.wasted += 1;
            return self.refuse(&pending, message);
        }
        self.wasted += usize::from(self.is_displacing(id));
        let (cm_message, negotiated) = self.local_params.respond(&message.greeting, message.order);
        let sent = pending.socket.send(cm_message.bytes());
        if !matches!(sent, Ok(count) if count == cm_message.bytes().len()) {
            // The requester is gone already; our own attempt, if any, goes on.
            return;
        }
        self.connections.accepted += 1;
        self.end_failed(id, sink);
        if let Some(peer) = self.peers.get_mut(id) {
            peer.replace(ConnState::Idle);
        }
        self.dialing.retain(|dialing| *dialing != id);
        self.establish(id, pending.socket, negotiated, watched, sink);
    }

    /// Returns the address by which a peer reaches this endpoint (protocol section 3.5).
    fn local_to(&self, socket: &Socket) -> SocketAddr {
        let mut local = *self.listener.name();
        if local.ip().is_unspecified()
            && let Ok(at) = socket.local()
        {
            local.set_ip(at.ip());
        }
        local
    }
}

/// Returns where the peer listens in whose name a request comes.
fn claimed(pending: &PendingConn, message: &Message) -> SocketAddr {
    let mut remote = pending.from;
    remote.set_port(message.greeting.port);
    remote
}

/// Returns whether the connection broke before it was accepted; the next one may be good (accept(2)).
pub(crate) fn gone_already(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ECONNABORTED | libc::EINTR | libc::EPROTO)
    )
}
