//! The connection with one peer: posting, reading, writing, and its end. Hot path.
//!
//! A reliable datagram endpoint has one driver for each of its peers, a connected endpoint has one. Only the way to a
//! connection differs between them; [`crate::dial`] has what is common there.

use std::net::SocketAddr;

use oxifabric_engine::{Frame, Limits, PostError, Posted, Sink, TxToken};
use oxifabric_provider::log;
use oxifabric_tcp_stream::limits::{UNKNOWN, limits};
use oxifabric_tcp_stream::stream::Broken;
use oxifabric_tcp_stream::tx::Coalescing;
use oxifabric_types::{Errno, PeerId};

use crate::cm::{Negotiated, PeerState, Retry};
use crate::conn::Conn;
use crate::conns::Conns;
use crate::dial::Dial;
use crate::reactor::Key;
use crate::rx::{self, Fault, Progress};
use crate::sys::{self, Event, Interest, Socket};

/// The connection with one peer, in whichever state it is.
#[derive(Debug)]
pub struct ConnDriver {
    pub(crate) id: PeerId,
    /// Where the peer listens, or its end of the connection.
    pub(crate) at: SocketAddr,
    pub(crate) state: ConnState,
    /// Number of connections so far, so that events of an earlier one are told apart.
    pub(crate) generation: u32,
    pub(crate) limits: Limits,
    /// Whether a post was answered with "again": [`Sink::writable`] is owed.
    wanted: bool,
    /// Whether the driver is in the list of those that hold frames back.
    held: bool,
    /// What the next poll has to do; unless this is empty, the driver is in the list of those with something to do.
    due: Due,
    /// The poll in which the last connection ended.
    pub(crate) ended_in: u32,
}

/// State of the connection with a peer.
#[derive(Debug)]
pub(crate) enum ConnState {
    /// No connection.
    Idle,
    /// This side connects.
    Dialing(Dial),
    /// The peer refused this side's request: the driver waits for the peer's own, then tries again.
    Paused(Retry),
    /// A connection in use.
    Ready(Box<Conn>),
    /// The connection failed, which is to be reported to a sink.
    Failed(Option<Box<Conn>>, Errno),
}

/// What only a poll can do, because it needs a sink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Due(u8);

impl Due {
    /// The stalled frame is to be delivered again.
    const RETRY: Self = Self(1);
    /// The peer can take frames again, if its socket can.
    const WRITABLE: Self = Self(2);
    /// The end of the connection is to be reported.
    const REPORT: Self = Self(4);

    const fn has(self, what: Self) -> bool {
        self.0 & what.0 != 0
    }
}

/// Largest generation: it shares the poller's key of 64 bits with the number of the peer and a mark.
const GENERATION_MAX: u32 = 0x3fff_ffff;

impl ConnDriver {
    pub(crate) fn new(id: PeerId, at: SocketAddr) -> Self {
        Self {
            id,
            at,
            state: ConnState::Idle,
            generation: 0,
            limits: UNKNOWN,
            wanted: false,
            held: false,
            due: Due::default(),
            ended_in: 0,
        }
    }

    /// Returns a driver for another peer with the same number. Events of the former one's connections stay apart from its own.
    pub(crate) fn begin_anew(&self, at: SocketAddr) -> Self {
        let generation = self.generation.wrapping_add(1) & GENERATION_MAX;
        Self {
            generation,
            ..Self::new(self.id, at)
        }
    }

    /// Posts a frame; `None` without a connection.
    #[inline]
    pub(crate) fn post(
        &mut self,
        conns: &mut Conns,
        frame: &Frame<'_>,
        token: TxToken,
    ) -> Option<Result<Posted, PostError>> {
        let ConnState::Ready(conn) = &mut self.state else {
            return None;
        };
        if conn.is_beyond_burst(frame, conns.coalescer.turn()) {
            self.wanted = true;
            self.mark(conns, Due::WRITABLE);
            return Some(Err(PostError::Again));
        }
        let coalescing = match frame.more {
            true => Coalescing::Medium,
            false => conns.coalescer.coalesces(&mut conn.posts),
        };
        match conn.stream.post(frame, token, coalescing) {
            Ok(Ok(posted)) => {
                conn.unconfirmed = true;
                conns.unconfirmed = true;
                if !self.held && conn.stream.holds_back() {
                    self.held = true;
                    conns.held.push(self.id);
                }
                let blocked = conn.stream.blocked();
                if self.wanted {
                    // The poll may have made room for what was refused before.
                    self.mark(conns, Due::WRITABLE);
                }
                if blocked {
                    self.watch(conns);
                }
                Some(Ok(posted))
            }
            Ok(Err(PostError::Again)) => {
                self.wanted = true;
                self.watch(conns);
                Some(Err(PostError::Again))
            }
            Ok(Err(down)) => {
                if frame.header.kind.is_atomic() {
                    let reason = no_atomics(self.at);
                    conns.directory.explain(self.id, Some(reason));
                }
                Some(Err(down))
            }
            Err(Broken(errno)) => {
                self.wanted = true;
                self.broke(conns, errno);
                Some(Err(PostError::Again))
            }
        }
    }

    /// Notes that a post was answered with "again".
    pub(crate) fn want(&mut self) {
        self.wanted = true;
    }

    /// Sends what was held back.
    pub(crate) fn flush(&mut self, conns: &mut Conns) {
        self.held = false;
        let ConnState::Ready(conn) = &mut self.state else {
            return;
        };
        match conn.stream.flush() {
            Ok(()) if conn.stream.blocked() => self.watch(conns),
            Ok(()) => {}
            Err(Broken(errno)) => self.broke(conns, errno),
        }
    }

    /// Has the next poll deliver the stalled frame again.
    pub(crate) fn resume(&mut self, conns: &mut Conns) {
        self.mark(conns, Due::RETRY);
    }

    /// Reads what is there; returns how many events there were. Where long messages are expected, only what the poller
    /// reported (`told`) is read: an empty read holds the socket while the kernel fills it, and what one call saves is
    /// nothing beside the copying.
    #[inline]
    pub(crate) fn read(&mut self, conns: &mut Conns, told: bool, sink: &mut impl Sink) -> usize {
        let ConnState::Ready(conn) = &mut self.state else {
            return 0;
        };
        if conn.stream.stalled() {
            return 0;
        }
        if !told && conn.stream.expects_long() {
            conns.visit = true;
            return 0;
        }
        let progress = conn.stream.read(self.id, sink);
        if progress.end.is_ok() && !conn.stream.stalled() && progress.acknowledge == 0 {
            return progress.events;
        }
        self.conclude(conns, progress, sink)
    }

    /// Does what a turn of reading leaves to do: ends the connection after a fault, otherwise sends answers and updates the poller's events.
    #[cold]
    fn conclude(&mut self, conns: &mut Conns, progress: Progress, sink: &mut impl Sink) -> usize {
        if let Err(fault) = &progress.end {
            self.end_by(conns, fault, sink);
            return progress.events + 1;
        }
        if let ConnState::Ready(conn) = &mut self.state
            && let Err(Broken(errno)) = conn.stream.flush()
        {
            self.end(conns, errno, "sending failed", sink);
            return progress.events + 1;
        }
        self.watch(conns);
        progress.events
    }

    /// Does what earlier polls and posts have left to this one, except for [`ConnDriver::finish`]; returns how many events there were.
    pub(crate) fn catch_up(&mut self, conns: &mut Conns, sink: &mut impl Sink) -> usize {
        let due = std::mem::take(&mut self.due);
        if due.has(Due::WRITABLE) {
            self.mark(conns, Due::WRITABLE);
        }
        if due.has(Due::REPORT) {
            return self.report(conns, sink);
        }
        let ConnState::Ready(conn) = &mut self.state else {
            return 0;
        };
        if !due.has(Due::RETRY) {
            return 0;
        }
        let progress = conn.stream.retry(self.id, sink);
        self.conclude(conns, progress, sink)
    }

    /// Reports to the sink, at the end of a poll, that the connection has ended or that the peer can take frames again; returns how many
    /// events that were.
    pub(crate) fn finish(&mut self, conns: &mut Conns, sink: &mut impl Sink) -> usize {
        let due = std::mem::take(&mut self.due);
        if due.has(Due::RETRY) {
            self.mark(conns, Due::RETRY);
        }
        match &self.state {
            ConnState::Failed(..) => self.report(conns, sink),
            ConnState::Ready(conn) if due.has(Due::WRITABLE) && !conn.stream.blocked() => {
                let wanted = std::mem::take(&mut self.wanted);
                if wanted {
                    sink.writable(self.id);
                }
                usize::from(wanted)
            }
            _ => 0,
        }
    }

    /// Handles an event of a connection in use; with `direct`, the poll has read it.
    pub(crate) fn happened(
        &mut self,
        conns: &mut Conns,
        event: &Event,
        direct: bool,
        sink: &mut impl Sink,
    ) -> usize {
        let mut events = 0;
        if event.writable {
            events += self.write(conns, sink);
        }
        let ConnState::Ready(conn) = &self.state else {
            return events;
        };
        if event.broken && conn.stream.stalled() {
            // Nothing more will come, and the poller would report the event again and again.
            let why = conn.socket().take_error();
            let why = why.map_or_else(|error| sys::errno_of(&error), |()| Errno::CONNRESET);
            self.end(conns, why, "the connection broke", sink);
            return events + 1;
        }
        if event.ended {
            return events + self.ended(conns, sink);
        }
        if event.broken || event.readable && (!direct || conn.stream.expects_long()) {
            events += self.read(conns, true, sink);
        }
        events
    }

    /// Notes that the peer has closed its end of a stalled connection.
    #[cold]
    fn ended(&mut self, conns: &mut Conns, sink: &mut impl Sink) -> usize {
        let ConnState::Ready(conn) = &mut self.state else {
            return 0;
        };
        match conn.stream.look_for_end() {
            Ok(()) => self.watch(conns),
            Err(fault) => self.end_by(conns, &fault, sink),
        }
        1
    }

    /// Resumes sending where the socket was full.
    fn write(&mut self, conns: &mut Conns, sink: &mut impl Sink) -> usize {
        let ConnState::Ready(conn) = &mut self.state else {
            return 0;
        };
        match conn.stream.write(sink) {
            Ok(events) => {
                if !conn.stream.blocked() && self.wanted {
                    self.mark(conns, Due::WRITABLE);
                }
                self.watch(conns);
                events
            }
            Err(Broken(errno)) => {
                self.end(conns, errno, "sending failed", sink);
                1
            }
        }
    }

    /// Sets the events of the connection that the poller waits for.
    fn watch(&mut self, conns: &mut Conns) {
        let key = self.key();
        let ConnState::Ready(conn) = &mut self.state else {
            return;
        };
        let wanted = conn.wanted();
        if wanted == conn.interest {
            return;
        }
        match (conn.interest.write, wanted.write) {
            (false, true) => conns.blocked += 1,
            (true, false) => conns.blocked = conns.blocked.saturating_sub(1),
            _ => {}
        }
        conn.interest = wanted;
        if let Err(error) = conns.reactor.poller.change(conn.socket().fd(), key, wanted) {
            self.broke(conns, sys::errno_of(&error));
        }
    }

    /// Takes a connection into use. Its socket is `watched` by the poller already, or not.
    pub(crate) fn establish(
        &mut self,
        conns: &mut Conns,
        socket: Socket,
        negotiated: Negotiated,
        watched: bool,
    ) {
        self.replace(ConnState::Idle);
        conns.remove(self.id);
        let mut conn = Box::new(Conn::new(
            socket,
            negotiated,
            conns.coalescer.poll_underway(),
        ));
        conn.interest = Interest::READ;
        let (fd, key) = (conn.socket().fd(), self.key());
        let result = match watched {
            true => conns.reactor.poller.change(fd, key, Interest::READ),
            false => conns.reactor.poller.add(fd, key, Interest::READ),
        };
        self.state = ConnState::Ready(conn);
        self.limits = limits(&negotiated, conns.reactor.params.max_saved_size);
        conns.directory.explain(self.id, None);
        conns.counts.established += 1;
        conns.ready.push(self.id);
        if let Err(error) = result {
            return self.broke(conns, sys::errno_of(&error));
        }
        if self.wanted {
            self.mark(conns, Due::WRITABLE);
        }
    }

    /// Ends the connection if its host has not answered for long; returns how many events that were.
    ///
    /// TCP_USER_TIMEOUT would do it in the kernel, but it also ends connections to peers that merely do not
    /// read for a while, which is what a program that computes does.
    pub(crate) fn audit(&mut self, conns: &mut Conns, sink: &mut impl Sink) -> usize {
        let ConnState::Ready(conn) = &mut self.state else {
            return 0;
        };
        let timeout = conns.reactor.params.user_timeout;
        let silent = conn.is_silent(conns.reactor.now, timeout);
        conns.unconfirmed |= conn.unconfirmed;
        if silent {
            self.end(conns, Errno::TIMEDOUT, "the host does not answer", sink);
        }
        usize::from(silent)
    }

    /// Ends a connection that cannot be read any further.
    fn end_by(&mut self, conns: &mut Conns, fault: &Fault, sink: &mut impl Sink) {
        let level = match fault.is_worth_a_warning() {
            true => log::Level::Warn,
            false => log::Level::Info,
        };
        self.lose(conns, rx::errno_of(fault), level, &fault.to_string());
        self.report(conns, sink);
    }

    /// Ends a connection in use.
    pub(crate) fn end(&mut self, conns: &mut Conns, errno: Errno, why: &str, sink: &mut impl Sink) {
        if self.is_ready() {
            self.lose(conns, errno, log::Level::Info, why);
            self.report(conns, sink);
        }
    }

    /// Ends a connection in use whose socket or poller fails; the next poll reports it.
    #[cold]
    fn broke(&mut self, conns: &mut Conns, errno: Errno) {
        let cause = errno.text().to_lowercase();
        self.lose(conns, errno, log::Level::Info, &cause);
    }

    /// Writes to the log that a connection in use is lost, and ends it at the next poll.
    fn lose(&mut self, conns: &mut Conns, errno: Errno, level: log::Level, why: &str) {
        let lost = format!("connection with {} lost: {why}", self.at);
        match level {
            log::Level::Warn => log::warn!("tcp", EpCtrl, "{lost}"),
            _ => log::info!("tcp", EpCtrl, "{lost}"),
        }
        conns.directory.explain(self.id, Some(lost));
        self.fail(conns, errno);
    }

    /// Ends the connection at the next poll, where it can be reported to a sink.
    #[cold]
    pub(crate) fn fail(&mut self, conns: &mut Conns, errno: Errno) {
        let conn = match self.replace(ConnState::Idle) {
            ConnState::Ready(conn) => Some(conn),
            ConnState::Failed(conn, _) => conn,
            _ => None,
        };
        if let Some(conn) = &conn
            && conn.interest.write
        {
            conns.blocked = conns.blocked.saturating_sub(1);
        }
        self.state = ConnState::Failed(conn, errno);
        conns.remove(self.id);
        self.mark(conns, Due::REPORT);
    }

    /// Reports a failed connection to the sink; returns how many events that were.
    pub(crate) fn report(&mut self, conns: &mut Conns, sink: &mut impl Sink) -> usize {
        if !matches!(self.state, ConnState::Failed(..)) {
            return 0;
        }
        if let ConnState::Failed(conn, errno) = self.replace(ConnState::Idle) {
            if let Some(mut conn) = conn {
                conn.stream.abandon(errno, sink);
                // After a shutdown by this side what was accepted still leaves; otherwise the peer is gone, or broke the
                // protocol and is owed nothing.
                if errno == Errno::CANCELED {
                    conn.stream.close();
                }
            }
            self.wanted = false;
            self.limits = UNKNOWN;
            self.ended_in = conns.ticks;
            sink.peer_down(self.id, errno);
        }
        1
    }

    /// Closes the connection after what was accepted for sending; the driver is of no use any more.
    pub(crate) fn close(&mut self) {
        if let ConnState::Ready(conn) = self.replace(ConnState::Idle) {
            conn.stream.close();
        }
    }

    /// Ends a connection in use as if it had been lost; returns false where there is none.
    #[cold]
    pub(crate) fn disconnect(&mut self, conns: &mut Conns, why: &str) -> bool {
        let ConnState::Ready(conn) = &mut self.state else {
            return false;
        };
        conn.socket().shut_writing();
        self.lose(conns, Errno::CONNRESET, log::Level::Info, why);
        // Another thread may sleep in a wait.
        conns.reactor.wake();
        true
    }

    /// Leaves something to the next poll.
    fn mark(&mut self, conns: &mut Conns, what: Due) {
        if self.due == Due::default() {
            conns.due.push_back(self.id);
        }
        self.due.0 |= what.0;
    }

    /// Returns the poller's key of the connection.
    pub(crate) fn key(&self) -> u64 {
        Key::Peer(self.id, self.generation).pack()
    }

    pub(crate) const fn is_ready(&self) -> bool {
        matches!(self.state, ConnState::Ready(_))
    }

    /// Returns whether bytes that were accepted wait for the socket.
    pub(crate) fn blocked(&self) -> bool {
        matches!(&self.state, ConnState::Ready(conn) if conn.stream.blocked() && !conn.stream.is_closing())
    }

    /// Puts another state in place; returns the old one.
    pub(crate) fn replace(&mut self, state: ConnState) -> ConnState {
        self.generation = self.generation.wrapping_add(1) & GENERATION_MAX;
        std::mem::replace(&mut self.state, state)
    }
}

impl ConnState {
    /// Returns the state by which a request is accepted or refused.
    pub(crate) fn peer_state(&self) -> PeerState {
        match self {
            Self::Idle | Self::Paused(_) | Self::Failed(..) => PeerState::Idle,
            Self::Dialing(_) => PeerState::Dialing,
            Self::Ready(conn) if conn.stream.is_closing() || conn.socket().is_closed_by_peer() => {
                PeerState::Closed
            }
            Self::Ready(conn) => PeerState::Ready {
                pid: conn.stream.negotiated.pid,
            },
        }
    }
}

/// Returns why an atomic cannot be sent to a peer (protocol section 5.6).
#[cold]
fn no_atomics(at: SocketAddr) -> String {
    format!(
        "{at} speaks the C library's protocol, which has no atomics: both ends have to use oxifabric, with FI_TCP_EXTENSION"
    )
}
