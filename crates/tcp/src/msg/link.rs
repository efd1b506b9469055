//! The connection of one endpoint as the link under its engine. Hot path.

use std::time::Duration;

use oxifabric_engine::{
    Frame, InjectedFault, Limits, Link, PostError, Posted, RemoteIov, RxToken, Sink, TxToken,
};
use oxifabric_mem::Iov;
use oxifabric_provider::connection::THE_PEER;
use oxifabric_provider::log;
use oxifabric_types::{Errno, Instant, PeerId};

use super::connection::{ConnState, SOCKET, TcpConnection};
use crate::conn::Broken;
use crate::rx::{self, Fault, Progress};
use crate::sys;

impl Link for TcpConnection {
    fn limits(&self, _: PeerId) -> &Limits {
        &self.limits
    }

    #[inline]
    fn post(&mut self, _: PeerId, frame: Frame<'_>, token: TxToken) -> Result<Posted, PostError> {
        let ConnState::Ready(conn) = &mut self.state else {
            return Err(self.refuse());
        };
        let more = frame.more || self.coalescer.coalesces(&mut conn.turn);
        match conn.post(&frame, token, more) {
            Ok(Ok(posted)) => {
                if conn.blocked() {
                    self.watch();
                }
                Ok(posted)
            }
            Ok(Err(PostError::Again)) => {
                self.wanted = true;
                self.watch();
                Err(PostError::Again)
            }
            Ok(Err(down)) => Err(down),
            Err(Broken(error)) => {
                self.wanted = true;
                self.end(sys::errno_of(&error), "sending failed");
                Err(PostError::Again)
            }
        }
    }

    fn pull(&mut self, _: PeerId, _: &RemoteIov, _: Iov, _: RxToken) -> Result<Posted, PostError> {
        Err(PostError::Down(Errno::OPNOTSUPP))
    }

    fn flush(&mut self) {
        self.coalescer.end();
        let ConnState::Ready(conn) = &mut self.state else {
            return;
        };
        match conn.flush() {
            Ok(()) if conn.blocked() => self.watch(),
            Ok(()) => {}
            Err(Broken(error)) => self.end(sys::errno_of(&error), "sending failed"),
        }
    }

    #[inline]
    fn poll(&mut self, now: Instant, sink: &mut impl Sink) -> usize {
        self.set_now(now);
        self.coalescer.begin();
        let mut events = 0;
        if self.resumed {
            events += self.retry(sink);
        }
        match &mut self.state {
            ConnState::Ready(conn) => {
                if conn.stalled() {
                    let found = conn.look_for_end();
                    events += self.note_end(found);
                } else {
                    let progress = conn.read(THE_PEER, sink);
                    events += progress.events;
                    if progress.end.is_err() || conn.stalled() || progress.acknowledge > 0 {
                        self.conclude(&progress);
                    }
                }
                events += self.write(sink);
                self.look_after_deliveries(now);
            }
            ConnState::Dialing(_) => {
                events += self.dial_on();
                if self.undated {
                    self.set_date(now);
                }
                if matches!(self.state, ConnState::Ready(_)) && std::mem::take(&mut self.wanted) {
                    sink.writable(THE_PEER);
                }
            }
            _ => {}
        }
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.expire(now);
        }
        if let Some((conn, why)) = self.failed.take() {
            if let Some(mut conn) = conn {
                conn.abandon(why, sink);
                conn.close();
            }
            self.wanted = false;
            sink.peer_down(THE_PEER, why);
            events += 1;
        }
        events
    }

    fn resume(&mut self, _: PeerId) {
        self.resumed = true;
    }

    fn inject_fault(&mut self, _: PeerId, how: InjectedFault) -> bool {
        if !matches!(self.state, ConnState::Ready(_)) {
            return false;
        }
        match how {
            InjectedFault::Refuse => self.wanted = true,
            InjectedFault::Break => {
                self.end(
                    Errno::CONNRESET,
                    "broken by an injected fault (FI_OXI_FAULTS)",
                );
            }
        }
        self.wake();
        true
    }
}

impl TcpConnection {
    /// Answers a post without a connection.
    #[cold]
    fn refuse(&mut self) -> PostError {
        if matches!(self.state, ConnState::Dialing(_) | ConnState::Invited(..))
            || self.failed.is_some()
        {
            self.wanted = true;
            return PostError::Again;
        }
        PostError::Down(Errno::NOTCONN)
    }

    /// Delivers the stalled frame again.
    #[cold]
    fn retry(&mut self, sink: &mut impl Sink) -> usize {
        self.resumed = false;
        let ConnState::Ready(conn) = &mut self.state else {
            return 0;
        };
        let progress = conn.retry(THE_PEER, sink);
        self.conclude(&progress);
        progress.events
    }

    /// Carries out what a turn of reading requires beyond itself.
    #[cold]
    fn conclude(&mut self, progress: &Progress) {
        if let Err(fault) = &progress.end {
            return self.end_by(fault);
        }
        self.flush();
        self.watch();
    }

    /// Handles the result of a look at a stalled connection; returns how many events that were.
    #[cold]
    fn note_end(&mut self, found: Result<(), Fault>) -> usize {
        match found {
            Ok(()) => {
                // Where the peer has closed its end, that is not waited for any more.
                self.watch();
                0
            }
            Err(fault) => {
                self.end_by(&fault);
                1
            }
        }
    }

    /// Ends a connection that cannot be read any further.
    fn end_by(&mut self, fault: &Fault) {
        let level = match fault.is_worth_a_warning() {
            true => log::Level::Warn,
            false => log::Level::Info,
        };
        self.end_at(level, rx::errno_of(fault), &fault.to_string());
    }

    /// Resumes sending where the socket was full.
    #[inline]
    fn write(&mut self, sink: &mut impl Sink) -> usize {
        let ConnState::Ready(conn) = &mut self.state else {
            return 0;
        };
        let mut events = 0;
        if conn.blocked() {
            match conn.write(sink) {
                Ok(count) => events += count,
                Err(Broken(error)) => {
                    self.end(sys::errno_of(&error), "sending failed");
                    return 1;
                }
            }
            if conn.blocked() {
                return events;
            }
            self.watch();
        }
        if self.wanted {
            self.wanted = false;
            sink.writable(THE_PEER);
            events += 1;
        }
        events
    }

    /// Sets the events that the poller waits for.
    fn watch(&mut self) {
        let ConnState::Ready(conn) = &mut self.state else {
            return;
        };
        let wanted = conn.wanted();
        if wanted == conn.interest {
            return;
        }
        conn.interest = wanted;
        if let Err(error) = self.poller.change(conn.socket.fd(), SOCKET, wanted) {
            self.end(sys::errno_of(&error), "it cannot be watched");
        }
    }

    /// Sets the time at which to check whether what was sent is answered.
    #[inline]
    fn look_after_deliveries(&mut self, now: Instant) {
        let timeout = self.params.user_timeout;
        if self.deadline.is_none()
            && timeout > Duration::ZERO
            && matches!(&self.state, ConnState::Ready(conn) if conn.unconfirmed)
        {
            self.deadline = Some(now.after(timeout / 4));
        }
    }

    /// Acts on the deadline.
    #[cold]
    fn expire(&mut self, now: Instant) {
        self.clear_date();
        let silent = match &mut self.state {
            ConnState::Dialing(_) => return self.dial_failed(Errno::TIMEDOUT, Box::default()),
            ConnState::Ready(conn) => conn.is_silent(now, self.params.user_timeout),
            _ => false,
        };
        if silent {
            self.end(Errno::TIMEDOUT, "the host does not answer");
        }
    }
}
