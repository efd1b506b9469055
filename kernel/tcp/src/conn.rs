//! The connection with one peer, in whichever state it is.

use alloc::boxed::Box;
use alloc::format;
use core::net::SocketAddrV4;
use core::time::Duration;

use oxifabric_engine::{Frame, Limits, PostError, Posted, Sink, TxToken};
use oxifabric_tcp_stream::Socket as _;
use oxifabric_tcp_stream::cm::{
    Answer, Attempt, CmMessage, Negotiated, PeerState, Retry, read_cm, send_cm,
};
use oxifabric_tcp_stream::limits::{UNKNOWN, limits};
use oxifabric_tcp_stream::rx::{Fault, Progress, Turn, errno_of};
use oxifabric_tcp_stream::stream::{Broken, Stream};
use oxifabric_tcp_stream::tx::Coalescing;
use oxifabric_types::{Errno, Instant, PeerId};

use crate::socket::{Half, Socket};
use crate::system;

/// Longer tagged messages wait at the sender until they are matched.
const EAGER: usize = 64 << 10;

/// How long a host may take to take a connection.
const CONNECT_TIME: Duration = Duration::from_secs(15);

/// The connection with one peer.
#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) id: PeerId,
    /// Where the peer listens, or its end of the connection.
    pub(crate) at: SocketAddrV4,
    pub(crate) state: State,
    pub(crate) limits: Limits,
    /// A post was answered with "again": [`Sink::writable`] is owed.
    wanted: bool,
    /// The frame that is stalled is to be delivered again.
    retries: bool,
    /// There may be more to read than the last turn took.
    has_more: bool,
}

/// State of the connection with a peer.
#[derive(Debug)]
pub(crate) enum State {
    /// No connection.
    Idle,
    /// This side connects.
    Dialing(Dial),
    /// The peer refused this side's request: its own is expected, then another attempt is made.
    Paused(Retry),
    /// A connection in use.
    Ready(Box<Stream<Half>>),
    /// It failed, which is to be reported to a sink.
    Failed(Option<Box<Stream<Half>>>, Errno),
}

/// An attempt to connect.
#[derive(Debug)]
pub(crate) struct Dial {
    socket: Socket,
    attempt: Attempt,
    retry: Retry,
}

impl Conn {
    pub(crate) fn new(id: PeerId, at: SocketAddrV4) -> Self {
        Self {
            id,
            at,
            state: State::Idle,
            limits: UNKNOWN,
            wanted: false,
            retries: false,
            has_more: false,
        }
    }

    pub(crate) const fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle)
    }

    pub(crate) const fn is_ready(&self) -> bool {
        matches!(self.state, State::Ready(_))
    }

    /// Returns the state by which a request is accepted or refused.
    pub(crate) fn peer_state(&self) -> PeerState {
        match &self.state {
            State::Idle | State::Paused(_) | State::Failed(..) => PeerState::Idle,
            State::Dialing(_) => PeerState::Dialing,
            State::Ready(stream) if stream.socket().is_closed_by_peer() => PeerState::Closed,
            State::Ready(stream) => PeerState::Ready {
                pid: stream.negotiated.pid,
            },
        }
    }

    /// Posts a frame; `None` without a connection. With `more` it may be held back until [`Conn::flush`].
    pub(crate) fn post(
        &mut self,
        frame: &Frame<'_>,
        token: TxToken,
        more: bool,
    ) -> Option<Result<Posted, PostError>> {
        let State::Ready(stream) = &mut self.state else {
            return None;
        };
        let coalescing = match more {
            true => Coalescing::Short,
            false => Coalescing::Off,
        };
        Some(match stream.post(frame, token, coalescing) {
            Ok(Err(PostError::Again)) => {
                self.wanted = true;
                Err(PostError::Again)
            }
            Ok(result) => result,
            Err(Broken(errno)) => {
                self.wanted = true;
                self.lose(errno, "sending failed");
                Err(PostError::Again)
            }
        })
    }

    /// Notes that a post was answered with "again".
    pub(crate) const fn want(&mut self) {
        self.wanted = true;
    }

    /// Has the stalled frame delivered again.
    pub(crate) const fn resume(&mut self) {
        self.retries = true;
    }

    /// Returns whether frames were held back.
    pub(crate) fn holds_back(&self) -> bool {
        matches!(&self.state, State::Ready(stream) if stream.holds_back())
    }

    /// Sends what was held back.
    pub(crate) fn flush(&mut self) {
        if let State::Ready(stream) = &mut self.state
            && let Err(Broken(errno)) = stream.flush()
        {
            self.lose(errno, "sending failed");
        }
    }

    /// Starts to connect a socket to a peer that will be sent this request.
    pub(crate) fn dial(
        &mut self,
        socket: Socket,
        request: CmMessage,
        retry: Retry,
        now: Instant,
    ) -> Result<(), Errno> {
        socket.connect(self.at)?;
        let mut attempt = Attempt::new(request);
        attempt.set_deadline(now, CONNECT_TIME, None);
        self.state = State::Dialing(Dial {
            socket,
            attempt,
            retry,
        });
        Ok(())
    }

    /// Continues an attempt; returns the answer once it is here.
    pub(crate) fn dial_on(&mut self, now: Instant) -> Result<Option<Answer>, Errno> {
        let State::Dialing(dial) = &mut self.state else {
            return Ok(None);
        };
        let late = dial
            .attempt
            .deadline()
            .is_some_and(|deadline| deadline <= now);
        if !dial.socket.take_happened() {
            return if late { Err(Errno::TIMEDOUT) } else { Ok(None) };
        }
        if dial.attempt.reader().is_none() && dial.socket.is_connected()? {
            send_cm(&dial.socket, dial.attempt.connected())?;
        }
        let Some(reader) = dial.attempt.reader() else {
            return if late { Err(Errno::TIMEDOUT) } else { Ok(None) };
        };
        let event = read_cm(&dial.socket, reader);
        event.map(Attempt::answered).transpose()
    }

    /// Takes the connection into use that the peer has agreed to.
    pub(crate) fn agreed(&mut self, negotiated: Negotiated) {
        match core::mem::replace(&mut self.state, State::Idle) {
            State::Dialing(dial) => self.establish(dial.socket, negotiated),
            other => self.state = other,
        }
    }

    /// Waits for the peer's own connection, which is why it refused ours; false if there were refusals for too long.
    pub(crate) fn pause(&mut self, now: Instant) -> bool {
        let State::Dialing(dial) = &self.state else {
            return true;
        };
        let retry = dial.retry.refused(now, CONNECT_TIME);
        retry.is_some_and(|retry| {
            self.state = State::Paused(retry);
            true
        })
    }

    /// Returns the refusals of an attempt whose pause is over.
    pub(crate) fn paused_until(&self, now: Instant) -> Option<Retry> {
        match self.state {
            State::Paused(retry) if retry.at.is_some_and(|at| at <= now) => Some(retry),
            _ => None,
        }
    }

    /// Returns when there is something to do without an event.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match &self.state {
            State::Dialing(dial) => dial.attempt.deadline(),
            State::Paused(retry) => retry.at,
            _ => None,
        }
    }

    /// Takes a connection into use.
    pub(crate) fn establish(&mut self, socket: Socket, negotiated: Negotiated) {
        self.state = State::Ready(Box::new(Stream::new(Half::new(socket), negotiated)));
        self.limits = limits(&negotiated, EAGER);
        // What the peer has sent already may have been announced before.
        self.has_more = true;
    }

    /// Writes to the log why a connection is lost, and ends it at the next poll.
    pub(crate) fn lose(&mut self, errno: Errno, why: &str) {
        system::warn(&format!("connection with {} lost: {why}", self.at));
        self.fail(errno);
    }

    /// Ends the connection, or an attempt, at the next poll.
    pub(crate) fn fail(&mut self, errno: Errno) {
        let stream = match core::mem::replace(&mut self.state, State::Idle) {
            State::Ready(stream) => Some(stream),
            State::Failed(stream, _) => stream,
            _ => None,
        };
        self.state = State::Failed(stream, errno);
    }

    /// Moves what can be moved of a connection in use, and reports the end of another; returns how many events there were, and whether there is more to
    /// do at once.
    pub(crate) fn turn(&mut self, sink: &mut impl Sink) -> (usize, bool) {
        let mut events = 0;
        if let State::Ready(stream) = &mut self.state {
            let happened = stream.socket().take_happened();
            if happened && stream.blocked() {
                match stream.write(sink) {
                    Ok(written) => events += written,
                    Err(Broken(errno)) => self.lose(errno, "sending failed"),
                }
            }
            if happened || self.has_more || self.retries {
                events += self.read(happened, sink);
            }
        }
        if let State::Ready(stream) = &self.state
            && self.wanted
            && !stream.blocked()
        {
            self.wanted = false;
            sink.writable(self.id);
            events += 1;
        }
        events += self.report(sink);
        (events, self.has_more && self.is_ready())
    }

    /// Reads and delivers.
    fn read(&mut self, happened: bool, sink: &mut impl Sink) -> usize {
        let State::Ready(stream) = &mut self.state else {
            return 0;
        };
        let mut events = 0;
        if core::mem::take(&mut self.retries) {
            let progress = stream.retry(self.id, sink);
            events += progress.events;
            // What came meanwhile was not read.
            self.has_more = true;
            if self.conclude(progress) {
                return events;
            }
        }
        let State::Ready(stream) = &mut self.state else {
            return events;
        };
        if stream.stalled() {
            self.has_more = false;
            if happened && let Err(fault) = stream.look_for_end() {
                self.end_by(&fault);
            }
            return events;
        }
        let progress = stream.read(self.id, sink);
        events += progress.events;
        // What arrived together with the peer's end was announced once.
        self.has_more = match progress.end {
            Ok(Turn::More) => true,
            Ok(Turn::Drained) => stream.socket().is_closed_by_peer(),
            _ => false,
        };
        self.conclude(progress);
        events
    }

    /// Does what a turn of reading leaves to do; returns whether the connection has ended.
    fn conclude(&mut self, progress: Progress) -> bool {
        if let Err(fault) = &progress.end {
            self.end_by(fault);
            return true;
        }
        if progress.acknowledge > 0 {
            self.flush();
        }
        !self.is_ready()
    }

    fn end_by(&mut self, fault: &Fault) {
        let errno = errno_of(fault);
        // That a peer closes a connection between two messages is no news for the log.
        match fault {
            Fault::Closed { within: false } => self.fail(errno),
            _ => self.lose(errno, &format!("{fault}")),
        }
    }

    /// Reports a connection that has failed; returns how many events that were.
    pub(crate) fn report(&mut self, sink: &mut impl Sink) -> usize {
        let State::Failed(stream, errno) = &mut self.state else {
            return 0;
        };
        let (stream, errno) = (stream.take(), *errno);
        self.state = State::Idle;
        if let Some(mut stream) = stream {
            stream.abandon(errno, sink);
            // After a shutdown by this side what was accepted still leaves; otherwise the peer is gone, or is owed nothing.
            if errno == Errno::CANCELED {
                stream.close();
            }
        }
        (self.wanted, self.retries, self.has_more) = (false, false, false);
        self.limits = UNKNOWN;
        sink.peer_down(self.id, errno);
        1
    }

    /// Closes the connection after what was accepted for sending.
    pub(crate) fn close(&mut self) {
        if let State::Ready(stream) = core::mem::replace(&mut self.state, State::Idle) {
            stream.close();
        }
    }
}
