//! All connections of one endpoint: the [`Link`] that the engine posts to and polls.
//!
//! - `device`: opening, naming, sleeping.
//! - `dial`: outgoing connections.
//! - `admit`: incoming connections. `challenge`: those in the name of a peer that has one.
//! - `unknown_peers`: bounds on connections of peers that are not in the AV.
//! - `progress`: polling, and the end of connections.
//! - `fault`: fault injection.
//!
//! A poll tries the few connections in use directly, because a look at the poller costs as much as a read; the
//! poller is asked now and then, and always while something is expected there that reading does not show.

pub(crate) mod admit;
mod challenge;
pub(crate) mod device;
pub(crate) mod dial;
mod fault;
mod progress;
mod unknown_peers;

use std::collections::VecDeque;
use std::net::SocketAddr;

use oxifabric_engine::{
    Frame, InjectedFault, Limits, Link, PostError, Posted, RemoteIov, RxToken, Sink, TxToken,
};
use oxifabric_mem::Iov;
use oxifabric_provider::device::Connections;
use oxifabric_provider::timer::Timer;
use oxifabric_types::{Errno, Instant, PeerId};

use crate::cm::LocalParams;
use crate::coalescer::Coalescer;
use crate::conn::Broken;
use crate::listen::{Listener, PendingConns};
use crate::params::Params;
use crate::peer::{ConnState, Peers, UNKNOWN};
use crate::sys::{self, Event, Poller};
use challenge::Challenge;

/// The tcp provider's link: all connections of one endpoint.
#[derive(Debug)]
pub struct TcpLink {
    params: &'static Params,
    /// DSCP value of packets, if the application wants one.
    dscp: Option<u8>,
    local_params: LocalParams,
    listener: Listener,
    enabled: bool,
    poller: Poller,
    timer: Timer,
    /// The deadline that the timer is set to.
    timer_at: Option<Instant>,
    peers: Peers,
    pending: PendingConns,
    /// Requests that wait until it is known whether the connections that they would replace are alive.
    challenges: Vec<Challenge>,
    /// Connections of which this end is closed, with their generations; those that began first come first.
    closing: VecDeque<(PeerId, u32)>,
    /// Peers with a connection in use.
    ready: Vec<PeerId>,
    /// Peers that this side is connecting to, or will again.
    dialing: Vec<PeerId>,
    /// Peers whose connection failed while there was no sink.
    failed: Vec<PeerId>,
    /// Peers that hold frames back.
    held: Vec<PeerId>,
    /// Coalescer: whether what is posted now leaves together or at once.
    coalescer: Coalescer,
    /// Peers whose stalled frame is to be delivered again.
    resumed: Vec<PeerId>,
    /// Peers that can take frames again, not yet reported to the sink.
    owed: Vec<PeerId>,
    connections: Connections,
    /// Number of connections that wait for their sockets to take more.
    blocked: usize,
    events: Vec<Event>,
    ticks: u32,
    /// Number of empty polls since something happened.
    empty_polls: u32,
    /// Whether the poller must be asked next time.
    visit: bool,
    /// Whether a deadline is still to be set for a connection.
    undated: bool,
    /// Whether something was sent since the last audit.
    unconfirmed: bool,
    audit_at: Option<Instant>,
    /// When the listener is polled again, if it is paused because the system has no descriptors left, or connections come to no purpose.
    accept_paused_until: Option<Instant>,
    /// Number of connections since the last visit to the poller that came to no purpose, or took the place of others.
    wasted: usize,
    /// Until when connections of unknown peers count as taking the place of others.
    displacing_until: Option<Instant>,
    /// When it is looked again for connections of unknown peers that may go, if none could.
    crowded_until: Option<Instant>,
    /// The earliest of all deadlines.
    deadline: Option<Instant>,
    now: Instant,
}

/// The meanings of the poller's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Listener,
    Timer,
    PendingConn(u32),
    Peer(PeerId, u32),
}

const KIND_SHIFT: u32 = 62;

impl Key {
    fn pack(self) -> u64 {
        match self {
            Self::Peer(id, generation) => u64::from(generation) << 32 | u64::from(id.0),
            Self::PendingConn(serial) => 1 << KIND_SHIFT | u64::from(serial),
            Self::Listener => 2 << KIND_SHIFT,
            Self::Timer => 3 << KIND_SHIFT,
        }
    }

    fn unpack(key: u64) -> Self {
        match key >> KIND_SHIFT {
            0 => Self::Peer(PeerId(key as u32), (key >> 32) as u32),
            1 => Self::PendingConn(key as u32),
            2 => Self::Listener,
            _ => Self::Timer,
        }
    }
}

impl Link for TcpLink {
    fn limits(&self, peer: PeerId) -> &Limits {
        self.peers.get(peer).map_or(&UNKNOWN, |peer| &peer.limits)
    }

    #[inline]
    fn post(&mut self, id: PeerId, frame: Frame<'_>, token: TxToken) -> Result<Posted, PostError> {
        let peer = self
            .peers
            .get_mut(id)
            .ok_or(PostError::Down(Errno::INVAL))?;
        let ConnState::Ready(conn) = &mut peer.state else {
            return Err(self.want(id));
        };
        if conn.is_beyond_burst(&frame, self.coalescer.turn()) {
            if !std::mem::replace(&mut peer.wanted, true) {
                self.owed.push(id);
            }
            return Err(PostError::Again);
        }
        let more = frame.more || self.coalescer.coalesces(&mut conn.turn);
        match conn.post(&frame, token, more) {
            Ok(Ok(posted)) => {
                self.unconfirmed = true;
                if more && !peer.held && conn.holds_back() {
                    peer.held = true;
                    self.held.push(id);
                }
                if peer.wanted {
                    // The poll may have made room for what was refused before.
                    self.owed.push(id);
                }
                if conn.blocked() {
                    self.watch(id);
                }
                Ok(posted)
            }
            Ok(Err(PostError::Again)) => {
                peer.wanted = true;
                self.watch(id);
                Err(PostError::Again)
            }
            Ok(Err(down)) => {
                if frame.header.kind.is_atomic() {
                    peer.reason = Some(no_atomics(peer.at));
                }
                Err(down)
            }
            Err(Broken(error)) => {
                peer.wanted = true;
                peer.reason = None;
                self.fail_later(id, sys::errno_of(&error));
                Err(PostError::Again)
            }
        }
    }

    fn pull(&mut self, _: PeerId, _: &RemoteIov, _: Iov, _: RxToken) -> Result<Posted, PostError> {
        Err(PostError::Down(Errno::OPNOTSUPP))
    }

    fn flush(&mut self) {
        self.coalescer.end();
        self.send_held();
    }

    #[inline]
    fn poll(&mut self, now: Instant, sink: &mut impl Sink) -> usize {
        self.coalescer.begin();
        self.progress(now, sink)
    }

    fn resume(&mut self, id: PeerId) {
        self.resumed.push(id);
    }

    fn inject_fault(&mut self, id: PeerId, how: InjectedFault) -> bool {
        self.inject(id, how)
    }
}

impl TcpLink {
    /// Sends what was held back.
    fn send_held(&mut self) {
        while let Some(id) = self.held.pop() {
            let Some(peer) = self.peers.get_mut(id) else {
                continue;
            };
            peer.held = false;
            let ConnState::Ready(conn) = &mut peer.state else {
                continue;
            };
            match conn.flush() {
                Ok(()) if conn.blocked() => self.watch(id),
                Ok(()) => {}
                Err(Broken(error)) => self.fail_later(id, sys::errno_of(&error)),
            }
        }
    }

    /// Answers a post to a peer without a connection: connects.
    #[cold]
    fn want(&mut self, id: PeerId) -> PostError {
        let Some(peer) = self.peers.get_mut(id) else {
            return PostError::Down(Errno::INVAL);
        };
        if matches!(peer.state, ConnState::Idle) {
            if peer.firewalled {
                let at = peer.at;
                let reason = format!("{at} takes no connections; it has to send first");
                peer.reason = Some(reason);
                return PostError::Down(Errno::FIREWALLADDR);
            }
            self.dial(id, Default::default());
        }
        if let Some(peer) = self.peers.get_mut(id) {
            peer.wanted = true;
        }
        PostError::Again
    }

    /// Sets the events of a connection that the poller waits for.
    fn watch(&mut self, id: PeerId) {
        let Some(peer) = self.peers.get_mut(id) else {
            return;
        };
        let ConnState::Ready(conn) = &mut peer.state else {
            return;
        };
        let wanted = conn.wanted();
        if wanted == conn.interest {
            return;
        }
        match (conn.interest.write, wanted.write) {
            (false, true) => self.blocked += 1,
            (true, false) => self.blocked = self.blocked.saturating_sub(1),
            _ => {}
        }
        conn.interest = wanted;
        let key = Key::Peer(id, peer.generation).pack();
        if let Err(error) = self.poller.change(conn.socket.fd(), key, wanted) {
            self.fail_later(id, sys::errno_of(&error));
        }
    }

    /// Ends a connection at the next poll, where it can be reported to a sink.
    #[cold]
    fn fail_later(&mut self, id: PeerId, why: Errno) {
        let Some(peer) = self.peers.get_mut(id) else {
            return;
        };
        let conn = match peer.replace(ConnState::Idle) {
            ConnState::Ready(conn) => Some(conn),
            ConnState::Failed(conn, _) => conn,
            _ => None,
        };
        if let Some(conn) = &conn
            && conn.interest.write
        {
            self.blocked = self.blocked.saturating_sub(1);
        }
        peer.state = ConnState::Failed(conn, why);
        self.ready.retain(|ready| *ready != id);
        self.dialing.retain(|dialing| *dialing != id);
        self.failed.push(id);
    }
}

/// Returns why an atomic cannot be sent to a peer (protocol section 5.6).
#[cold]
fn no_atomics(at: SocketAddr) -> String {
    format!(
        "{at} speaks the C library's protocol, which has no atomics: both ends have to use oxifabric, with FI_TCP_EXTENSION"
    )
}

#[cfg(test)]
pub(crate) mod tests;
