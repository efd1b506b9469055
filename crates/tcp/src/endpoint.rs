//! An endpoint and its connections, be they many or one: the link that the engine posts to and polls. Hot path at the top.
//!
//! A poll reads the few connections in use directly, because a look at the poller costs as much as a read; the
//! poller is asked now and then, and always while something is expected there that reading does not show.

use oxifabric_engine::{Frame, Limits, Link, PostError, Posted, RemoteIov, RxToken, Sink, TxToken};
use oxifabric_mem::Iov;
use oxifabric_tcp_stream::limits::UNKNOWN;
use oxifabric_types::{Errno, Instant, PeerId};

use crate::conns::Conns;
use crate::driver::{ConnDriver, ConnState};
use crate::reactor::Key;
use crate::sys::Event;

/// An endpoint: its connections, and what is particular to its kind.
#[derive(Debug)]
pub struct Endpoint<K> {
    pub(crate) conns: Conns,
    pub(crate) kind: K,
}

/// How connections are made, which differs from one kind of endpoints to the other.
pub trait EndpointKind: Sized {
    /// Returns what drives the connection with a peer.
    fn driver(&mut self, id: PeerId) -> Option<&mut ConnDriver>;

    /// Returns what drives the connection with a peer, if only to look at it.
    fn driver_ref(&self, id: PeerId) -> Option<&ConnDriver>;

    /// Answers a post to a peer without a connection.
    fn post_unconnected(endpoint: &mut Endpoint<Self>, id: PeerId) -> PostError;

    /// Continues an attempt to connect after an event of its socket.
    fn dial_on(endpoint: &mut Endpoint<Self>, id: PeerId) {
        let _ = (endpoint, id);
    }

    /// Ends an attempt to connect.
    fn dial_failed(endpoint: &mut Endpoint<Self>, id: PeerId, why: Errno) {
        let _ = (endpoint, id, why);
    }

    /// Returns whether events of incoming connections are expected.
    fn awaits_incoming(endpoint: &Endpoint<Self>) -> bool {
        let _ = endpoint;
        false
    }

    /// Handles an event of an incoming connection.
    fn incoming(endpoint: &mut Endpoint<Self>, key: Key, sink: &mut impl Sink) {
        let _ = (endpoint, key, sink);
    }

    /// Acts on deadlines that are not those of connections and attempts, and records those to come; returns how many events there were.
    fn expire(endpoint: &mut Endpoint<Self>, sink: &mut impl Sink) -> usize {
        let _ = (endpoint, sink);
        0
    }

    /// Follows a poll.
    fn after_poll(endpoint: &mut Endpoint<Self>) {
        let _ = endpoint;
    }
}

impl<K: EndpointKind> Link for Endpoint<K> {
    const CARRIES_OUT: bool = false;

    fn limits(&self, peer: PeerId) -> &Limits {
        let driver = self.kind.driver_ref(peer);
        driver.map_or(&UNKNOWN, |driver| &driver.limits)
    }

    #[inline]
    fn post(&mut self, id: PeerId, frame: Frame<'_>, token: TxToken) -> Result<Posted, PostError> {
        let Some((driver, conns)) = self.driver(id) else {
            return Err(PostError::Down(Errno::INVAL));
        };
        match driver.post(conns, &frame, token) {
            Some(posted) => posted,
            None => Err(K::post_unconnected(self, id)),
        }
    }

    fn pull(&mut self, _: PeerId, _: &RemoteIov, _: Iov, _: RxToken) -> Result<Posted, PostError> {
        Err(PostError::Down(Errno::OPNOTSUPP))
    }

    fn flush(&mut self) {
        self.conns.coalescer.end();
        self.send_held();
    }

    #[inline]
    fn poll(&mut self, now: Instant, sink: &mut impl Sink) -> usize {
        self.conns.begin(now);
        let mut events = 0;
        if self.conns.has_left_over() {
            events += self.catch_up(sink);
        }
        let direct = self.conns.reads_directly();
        if direct {
            let mut at = 0;
            while let Some(&id) = self.conns.ready.get(at) {
                events += self.read(id, false, sink);
                // Another connection has taken the place of one that was removed.
                at += usize::from(self.conns.ready.get(at) == Some(&id));
            }
        }
        if self.conns.asks_poller(direct) || K::awaits_incoming(self) {
            events += self.visit(direct, sink);
        }
        self.conns.schedule_audit();
        if self.conns.undated {
            self.set_deadlines();
        }
        if self.conns.reactor.is_due() {
            events += self.expire(sink);
        }
        if !self.conns.due.is_empty() {
            events += self.finish(sink);
        }
        K::after_poll(self);
        self.conns.end(events);
        events
    }

    fn resume(&mut self, id: PeerId) {
        if let Some((driver, conns)) = self.driver(id) {
            driver.resume(conns);
        }
    }

    fn disconnect(&mut self, id: PeerId, why: &'static str) -> bool {
        let driver = self.driver(id);
        driver.is_some_and(|(driver, conns)| driver.disconnect(conns, why))
    }
}

impl<K: EndpointKind> Endpoint<K> {
    /// Returns what drives the connection with a peer, and what that needs.
    #[inline]
    pub(crate) fn driver(&mut self, id: PeerId) -> Option<(&mut ConnDriver, &mut Conns)> {
        Some((self.kind.driver(id)?, &mut self.conns))
    }

    /// Returns the time of the last poll.
    pub(crate) const fn now(&self) -> Instant {
        self.conns.reactor.now
    }

    /// Reads a connection; returns how many events there were.
    #[inline]
    pub(crate) fn read(&mut self, id: PeerId, told: bool, sink: &mut impl Sink) -> usize {
        match self.driver(id) {
            Some((driver, conns)) => driver.read(conns, told, sink),
            None => 0,
        }
    }

    /// Ends a connection in use.
    pub(crate) fn end(&mut self, id: PeerId, errno: Errno, why: &str, sink: &mut impl Sink) {
        if let Some((driver, conns)) = self.driver(id) {
            driver.end(conns, errno, why, sink);
        }
    }

    /// Sends what was held back.
    fn send_held(&mut self) {
        while let Some(id) = self.conns.held.pop() {
            if let Some((driver, conns)) = self.driver(id) {
                driver.flush(conns);
            }
        }
    }

    /// Does what was left over since the last poll.
    fn catch_up(&mut self, sink: &mut impl Sink) -> usize {
        self.send_held();
        self.each_due(|driver, conns| driver.catch_up(conns, sink))
    }

    /// Reports to the sink the connections that ended and the peers that can take frames again.
    fn finish(&mut self, sink: &mut impl Sink) -> usize {
        self.each_due(|driver, conns| driver.finish(conns, sink))
    }

    /// Visits the connections with something to do; returns the sum of what `visit` returns.
    fn each_due(&mut self, mut visit: impl FnMut(&mut ConnDriver, &mut Conns) -> usize) -> usize {
        let mut sum = 0;
        for _ in 0..self.conns.due.len() {
            let id = self.conns.due.pop_front();
            if let Some((driver, conns)) = id.and_then(|id| self.driver(id)) {
                sum += visit(driver, conns);
            }
        }
        sum
    }

    /// Handles the poller's events.
    fn visit(&mut self, direct: bool, sink: &mut impl Sink) -> usize {
        self.conns.visit = false;
        self.conns.reactor.visit();
        let mut events = 0;
        for at in 0..self.conns.reactor.events.len() {
            if let Some(&event) = self.conns.reactor.events.get(at) {
                events += self.happened(&event, direct, sink);
            }
        }
        events
    }

    fn happened(&mut self, event: &Event, direct: bool, sink: &mut impl Sink) -> usize {
        let (id, generation) = match Key::unpack(event.key) {
            Key::Peer(id, generation) => (id, generation),
            Key::Timer => {
                self.conns.reactor.clear_timer();
                return 0;
            }
            key @ (Key::Listener | Key::PendingConn(_)) => {
                K::incoming(self, key, sink);
                return 1;
            }
        };
        let Some((driver, conns)) = self.driver(id) else {
            return 0;
        };
        match driver.state {
            // The event is of a connection that ended while the list was worked through.
            _ if driver.generation != generation => 0,
            ConnState::Ready(_) => driver.happened(conns, event, direct, sink),
            ConnState::Dialing(_) => {
                K::dial_on(self, id);
                1
            }
            _ => 0,
        }
    }

    /// Sets the deadlines of attempts that have come a step further since the last poll.
    fn set_deadlines(&mut self) {
        self.conns.undated = false;
        for id in self.conns.dialing.clone() {
            if let Some((driver, conns)) = self.driver(id) {
                driver.set_deadline(conns);
            }
        }
        // It may be that no thread polls before they have passed: one that waits for an event of the connection does not arm this.
        self.conns.reactor.set_timer();
    }

    /// Acts on the deadlines that have passed.
    #[cold]
    fn expire(&mut self, sink: &mut impl Sink) -> usize {
        self.conns.reactor.deadline = None;
        let mut events = K::expire(self, sink);
        for id in self.conns.dialing.clone() {
            let Some((driver, conns)) = self.driver(id) else {
                continue;
            };
            match driver.is_overdue(conns.reactor.now) {
                true => {
                    K::dial_failed(self, id, Errno::TIMEDOUT);
                    events += 1;
                }
                false => conns.reactor.expect(driver.deadline()),
            }
        }
        if self.conns.begins_audit() {
            for id in self.conns.ready.clone() {
                if let Some((driver, conns)) = self.driver(id) {
                    events += driver.audit(conns, sink);
                }
            }
        }
        self.conns.schedule_audit();
        self.conns.reactor.expect(self.conns.audit_at);
        events
    }
}
