//! Outgoing connections (docs/protocol/tcp.md sections 1.2 to 1.4 and 3.6). Set-up path.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use oxifabric_engine::Sink;
use oxifabric_provider::log;
use oxifabric_types::{Errno, PeerId};
use oxifabric_wire::tcp::cm::CmKind;

use super::{Key, TcpLink};
use crate::cm::{CmReader, Message, Negotiated};
use crate::conn::Conn;
use crate::listen::{CmEvent, read_cm};
use crate::params::Params;
use crate::peer::{ConnState, Dial, Pause, limits};
use crate::sys::{self, Connecting, Interest, Socket};

/// Time after which the loss of a silent peer is noticed (keepalive), if the parameters do not bound transmissions.
const KEEPALIVE_DEFAULT: Duration = Duration::from_secs(15);

/// The first pause after a refusal; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(2);

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_millis(500);

impl TcpLink {
    /// Starts to connect to a peer.
    pub(super) fn dial(&mut self, id: PeerId, pause: Pause) {
        let Some(peer) = self.peers.get_mut(id) else {
            return;
        };
        peer.replace(ConnState::Idle);
        let key = Key::Peer(id, peer.generation).pack();
        let to = reachable(peer.at, self.listener.name());
        match self.start(&to, key) {
            Ok((socket, connecting)) => {
                if let Some(peer) = self.peers.get_mut(id) {
                    peer.state = ConnState::Dialing(Dial {
                        socket,
                        reader: None,
                        pause,
                    });
                }
                self.dialing.push(id);
                self.undated |= pause.deadline.is_none();
                if connecting == Connecting::Done {
                    self.request(id);
                }
            }
            Err(error) => self.dial_failed(id, sys::errno_of(&error)),
        }
    }

    fn start(&self, to: &SocketAddr, key: u64) -> io::Result<(Socket, Connecting)> {
        let socket = Socket::open(to)?;
        self.prepare(&socket)?;
        let name = self.listener.name();
        if !name.ip().is_unspecified() {
            let mut from = *name;
            from.set_port(0);
            // Without it the system merely runs out of ports earlier.
            let _ = socket.bind_address_only();
            socket.bind(&from)?;
        }
        let connecting = socket.connect(to)?;
        self.poller.add(socket.fd(), key, Interest::WRITE)?;
        Ok((socket, connecting))
    }

    /// Sets the options that every connection has.
    pub(super) fn prepare(&self, socket: &Socket) -> io::Result<()> {
        prepare(self.params, socket)?;
        if let Some(dscp) = self.dscp {
            // Optional: what the network makes of it is up to the network.
            let _ = socket.mark(dscp, self.listener.name().is_ipv4());
        }
        Ok(())
    }

    /// Continues an attempt after an event.
    pub(super) fn dial_on(&mut self, id: PeerId, sink: &mut impl Sink) {
        let Some(peer) = self.peers.get_mut(id) else {
            return;
        };
        let ConnState::Dialing(dial) = &mut peer.state else {
            return;
        };
        let Some(reader) = &mut dial.reader else {
            match dial.socket.take_error() {
                Ok(()) => self.request(id),
                Err(error) => self.dial_failed(id, sys::errno_of(&error)),
            }
            return;
        };
        match read_cm(&dial.socket, reader) {
            CmEvent::Nothing | CmEvent::Whole => {}
            CmEvent::Message(message) => self.answered(id, &message, sink),
            CmEvent::Malformed(_) => self.dial_failed(id, Errno::PROTO),
            CmEvent::Closed { .. } => self.dial_failed(id, Errno::CONNRESET),
        }
    }

    /// Sends our request over a fresh connection.
    fn request(&mut self, id: PeerId) {
        let Some(peer) = self.peers.get_mut(id) else {
            return;
        };
        let ConnState::Dialing(dial) = &mut peer.state else {
            return;
        };
        let cm_message = self.local_params.request();
        let key = Key::Peer(id, peer.generation).pack();
        let fd = dial.socket.fd();
        dial.reader = Some(CmReader::new());
        // The host has answered. The endpoint answers when its process polls, which may be in a while.
        dial.pause.deadline = None;
        self.undated = true;
        // Without the bound the kernel alone decides when a host counts as gone.
        let _ = dial.socket.answered_within(self.params.user_timeout);
        let sent = dial.socket.send(cm_message.bytes());
        let result = match sent {
            Ok(count) if count == cm_message.bytes().len() => {
                self.connections.requested += 1;
                self.poller.change(fd, key, Interest::READ)
            }
            // A fresh socket takes these few bytes, or something is wrong with it.
            Ok(_) => Err(io::ErrorKind::WriteZero.into()),
            Err(error) => Err(error),
        };
        if let Err(error) = result {
            self.dial_failed(id, sys::errno_of(&error));
        }
    }

    fn answered(&mut self, id: PeerId, message: &Message, sink: &mut impl Sink) {
        match message.kind {
            CmKind::Response => {
                let negotiated = self
                    .local_params
                    .negotiated(&message.greeting, message.order);
                let Some(peer) = self.peers.get_mut(id) else {
                    return;
                };
                self.dialing.retain(|dialing| *dialing != id);
                if let ConnState::Dialing(dial) = peer.replace(ConnState::Idle) {
                    // From here on a peer that does not read for a while does not count as down.
                    let _ = dial.socket.answered_within(Duration::ZERO);
                    self.establish(id, dial.socket, negotiated, true, sink);
                }
            }
            CmKind::Refusal => self.pause(id),
            CmKind::Request => self.dial_failed(id, Errno::PROTO),
        }
    }

    /// Waits for the peer's own connection, which is why it refused ours.
    fn pause(&mut self, id: PeerId) {
        let Some(peer) = self.peers.get_mut(id) else {
            return;
        };
        let ConnState::Dialing(Dial { pause, .. }) = &peer.state else {
            return;
        };
        let refusals = pause.refusals;
        let give_up_at = self.now.after(self.params.connect_timeout);
        let give_up_at = pause.give_up_at.unwrap_or(give_up_at);
        if give_up_at <= self.now {
            return self.dial_failed(id, Errno::CONNREFUSED);
        }
        let wait = PAUSE.saturating_mul(1 << refusals.min(8)).min(PAUSE_MAX);
        let until = self.now.after(wait);
        peer.replace(ConnState::Idle);
        peer.state = ConnState::Paused(Pause {
            deadline: None,
            give_up_at: Some(give_up_at),
            until: Some(until),
            refusals: refusals + 1,
        });
        self.expect(Some(until));
    }

    /// Takes a connection into use.
    pub(super) fn establish(
        &mut self,
        id: PeerId,
        socket: Socket,
        negotiated: Negotiated,
        watched: bool,
        sink: &mut impl Sink,
    ) {
        let Some(peer) = self.peers.get_mut(id) else {
            return;
        };
        let mut conn = Box::new(Conn::new(socket, negotiated));
        conn.interest = Interest::READ;
        let key = Key::Peer(id, peer.generation).pack();
        let fd = conn.socket.fd();
        let result = if watched {
            self.poller.change(fd, key, Interest::READ)
        } else {
            self.poller.add(fd, key, Interest::READ)
        };
        peer.state = ConnState::Ready(conn);
        peer.limits = limits(&negotiated, self.params.max_saved_size);
        peer.reason = None;
        self.connections.established += 1;
        self.ready.push(id);
        if let Err(error) = result {
            self.fail_later(id, sys::errno_of(&error));
            return;
        }
        if std::mem::take(&mut peer.wanted) {
            sink.writable(id);
        }
    }

    /// Ends an attempt.
    pub(super) fn dial_failed(&mut self, id: PeerId, why: Errno) {
        let from = self.listener.name().ip();
        if let Some(peer) = self.peers.get_mut(id) {
            let cause = why.text().to_lowercase();
            let advice = advice(why);
            let reason = format!("connect to {} from {from}: {cause}; {advice}", peer.at);
            log::warn!("tcp", EpCtrl, "{reason}");
            peer.reason = Some(reason);
        }
        self.fail_later(id, why);
    }
}

/// Sets the options that every connection has.
pub(crate) fn prepare(params: &Params, socket: &Socket) -> io::Result<()> {
    if params.no_delay {
        socket.no_delay()?;
    }
    if params.keep_alive {
        let bound = params.user_timeout;
        socket.keep_alive(if bound.is_zero() {
            KEEPALIVE_DEFAULT
        } else {
            bound
        })?;
    }
    Ok(())
}

/// Returns the hint that a person may look for.
pub(crate) fn advice(why: Errno) -> &'static str {
    match why {
        Errno::CONNREFUSED => "no endpoint listens there (any more)",
        Errno::TIMEDOUT => "the host or the endpoint's process does not answer",
        Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::INVAL | Errno::ADDRNOTAVAIL => {
            "that address cannot be reached from this one: FI_TCP_IFACE chooses the interface"
        }
        Errno::MFILE => "raise the limit of open files (ulimit -n)",
        Errno::PROTO => "something else than an endpoint of this provider answers there",
        Errno::CONNRESET => "the endpoint went away while it was being connected to",
        _ => "the system refuses it",
    }
}

/// Puts our own scope into a link-local address: the peer's means nothing here.
pub(crate) fn reachable(to: SocketAddr, from: &SocketAddr) -> SocketAddr {
    match (to, from) {
        (SocketAddr::V6(mut to), SocketAddr::V6(from))
            if to.ip().is_unicast_link_local() && from.scope_id() != 0 =>
        {
            to.set_scope_id(from.scope_id());
            to.into()
        }
        (to, _) => to,
    }
}
