//! Connections that others make (docs/protocol/tcp.md sections 1.5, 3.5 and 3.7). Set-up path.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use oxifabric_engine::Sink;
use oxifabric_types::{Errno, PeerId};
use oxifabric_wire::tcp::cm::CmKind;

use super::{Key, TcpLink};
use crate::cm::{Message, Verdict, judge};
use crate::listen::{Said, Visitor};
use crate::peer::Lane;
use crate::sys::{Interest, Socket};

/// How many are let in during one poll.
const PER_POLL: usize = 32;

/// How long nobody is let in when the system has no descriptors left.
const CLOSED: Duration = Duration::from_millis(100);

/// How many turns of reading a connection gets that another replaces; one ends with each read into a large body.
const LAST_TURNS: usize = 8;

impl TcpLink {
    /// Lets those in who wait at the door, and listens to what they say.
    pub(super) fn open_door(&mut self, sink: &mut impl Sink) {
        for _ in 0..PER_POLL {
            match self.listener.socket().accept() {
                Ok((socket, from)) => self.let_in(socket, from, sink),
                Err(error) if gone_already(&error) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) if self.give_up_some(sink) > 0 => {}
                Err(_) => return self.turn_away(),
            }
        }
    }

    /// There are no descriptors left.
    fn turn_away(&mut self) {
        let (refused, goes_on) = self.listener.turn_away();
        self.connections.rejected += refused as u64;
        if !goes_on {
            self.close_door();
        }
    }

    fn let_in(&mut self, socket: Socket, from: SocketAddr, sink: &mut impl Sink) {
        if self.prepare(&socket).is_err() {
            return;
        }
        let deadline = self.now.after(self.params.connect_timeout);
        let fd = socket.fd();
        let serial = self.visitors.enter(socket, from, deadline);
        let key = Key::Visitor(serial).pack();
        if self.poller.add(fd, key, Interest::READ).is_err() {
            self.visitors.leave(serial);
            return;
        }
        self.expect(Some(deadline));
        // The request usually arrived together with the connection.
        self.hear_visitor(serial, sink);
    }

    /// Stops to let anybody in until the system may have descriptors again; otherwise the listener would stay
    /// readable and keep a sleeping caller awake.
    fn close_door(&mut self) {
        let until = self.now.after(CLOSED);
        self.closed_until = Some(until);
        self.watch_door(false);
        self.expect(Some(until));
    }

    pub(super) fn watch_door(&self, open: bool) {
        let interest = if open {
            Interest::READ
        } else {
            Interest::default()
        };
        let fd = self.listener.socket().fd();
        // It can fail only for want of memory; the listener is asked again at the next visit.
        let _ = self.poller.change(fd, Key::Listener.pack(), interest);
    }

    /// Reads what a visitor says, and acts on it when it is complete.
    pub(super) fn hear_visitor(&mut self, serial: u32, sink: &mut impl Sink) {
        let Some(visitor) = self.visitors.get(serial) else {
            return;
        };
        let said = visitor.hear();
        if matches!(said, Said::Nothing) {
            return;
        }
        let Some(visitor) = self.visitors.leave(serial) else {
            return;
        };
        match said {
            Said::Message(message)
                if message.kind == CmKind::Request && message.greeting.port != 0 =>
            {
                self.admit(visitor, &message, sink);
            }
            Said::Message(message) => {
                self.log_visitor(&visitor, &format!("it starts with a {:?}", message.kind));
            }
            Said::Nonsense(why) => self.log_visitor(&visitor, &why.to_string()),
            Said::Gone { within: true } => self.log_visitor(&visitor, "it broke off"),
            // Whoever leaves without a word has asked for nothing.
            Said::Nothing | Said::Whole | Said::Gone { within: false } => {}
        }
    }

    fn log_visitor(&self, visitor: &Visitor, what: &str) {
        self.log(&format!(
            "{}: dropped a connection that is none of an endpoint's: {what}",
            visitor.from
        ));
    }

    fn admit(&mut self, visitor: Visitor, message: &Message, sink: &mut impl Sink) {
        let remote = claimed(&visitor, message);
        if let Some(id) = self.number(&remote, sink) {
            self.decide(id, visitor, message, true, sink);
        }
    }

    /// Does with a request what the state of its peer asks for. Its socket is `watched` or not.
    pub(super) fn decide(
        &mut self,
        id: PeerId,
        visitor: Visitor,
        message: &Message,
        watched: bool,
        sink: &mut impl Sink,
    ) {
        let remote = claimed(&visitor, message);
        let local = self.local_to(&visitor.socket);
        let Some(peer) = self.peers.get(id) else {
            return;
        };
        match judge(peer.lane.stage(), &local, &remote, message.greeting.pid) {
            Verdict::Refuse => self.refuse(&visitor, message),
            Verdict::Challenge => self.challenge(id, visitor, message),
            Verdict::Accept | Verdict::Yield => self.respond(id, visitor, message, watched, sink),
            Verdict::Replace => self.replace(id, visitor, message, watched, sink),
        }
    }

    /// Refuses a request.
    pub(super) fn refuse(&mut self, visitor: &Visitor, message: &Message) {
        self.connections.rejected += 1;
        let letter = self.card.refuse(&message.greeting);
        // A peer that cannot be told sees the end of the connection.
        let _ = visitor.socket.send(letter.bytes());
        visitor.socket.shut_writing();
    }

    /// Accepts a request in place of the connection that there is.
    pub(super) fn replace(
        &mut self,
        id: PeerId,
        visitor: Visitor,
        message: &Message,
        watched: bool,
        sink: &mut impl Sink,
    ) {
        // What the old connection still brings was sent before the new one was made.
        self.read_rest(id, sink);
        self.end(id, Errno::CONNRESET, "replaced by a new connection", sink);
        self.respond(id, visitor, message, watched, sink);
    }

    /// Reads what a connection that will end has brought.
    pub(super) fn read_rest(&mut self, id: PeerId, sink: &mut impl Sink) {
        for _ in 0..LAST_TURNS {
            if self.read(id, true, sink) == 0 {
                break;
            }
        }
    }

    /// Accepts a request; an attempt of ours, or the remains of one, goes.
    fn respond(
        &mut self,
        id: PeerId,
        visitor: Visitor,
        message: &Message,
        watched: bool,
        sink: &mut impl Sink,
    ) {
        if !self.has_place(id, sink) {
            return self.refuse(&visitor, message);
        }
        let (letter, terms) = self.card.respond(&message.greeting, message.order);
        let sent = visitor.socket.send(letter.bytes());
        if !matches!(sent, Ok(count) if count == letter.bytes().len()) {
            // The requester is gone already; our own attempt, if any, goes on.
            return;
        }
        self.connections.accepted += 1;
        self.end_failed(id, sink);
        if let Some(peer) = self.peers.get_mut(id) {
            peer.replace(Lane::Idle);
        }
        self.dialing.retain(|dialing| *dialing != id);
        self.establish(id, visitor.socket, terms, watched, sink);
    }

    /// Returns the address by which a peer knows this endpoint (protocol section 3.5).
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

/// Where the peer listens in whose name a request comes.
fn claimed(visitor: &Visitor, message: &Message) -> SocketAddr {
    let mut remote = visitor.from;
    remote.set_port(message.greeting.port);
    remote
}

/// The connection broke before it was accepted; the next one may be good (accept(2)).
pub(crate) fn gone_already(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ECONNABORTED | libc::EINTR | libc::EPROTO)
    )
}
