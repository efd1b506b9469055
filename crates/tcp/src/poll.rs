//! Polling the connections of an endpoint, be they many or one. Hot path at the top.
//!
//! A poll reads the few connections in use directly, because a look at the poller costs as much as a read; the
//! poller is asked now and then, and always while something is expected there that reading does not show.

use oxifabric_engine::{Frame, PostError, Posted, Sink, TxToken};
use oxifabric_types::{Errno, Instant, PeerId};

use crate::conns::Conns;
use crate::driver::{ConnDriver, ConnState};
use crate::reactor::Key;
use crate::sys::Event;

/// An endpoint with connections. What is provided here drives them; the rest is how they are made.
pub(crate) trait Connected {
    fn conns(&mut self) -> &mut Conns;

    /// Returns what drives the connection with a peer, and what that needs.
    fn driver(&mut self, id: PeerId) -> Option<(&mut ConnDriver, &mut Conns)>;

    /// Answers a post to a peer without a connection.
    fn post_unconnected(&mut self, id: PeerId) -> PostError;

    /// Continues an attempt to connect after an event of its socket.
    fn dial_on(&mut self, id: PeerId);

    /// Ends an attempt to connect.
    fn dial_failed(&mut self, id: PeerId, why: Errno);

    /// Returns whether events of incoming connections are expected.
    fn awaits_incoming(&self) -> bool {
        false
    }

    /// Handles an event of an incoming connection.
    fn incoming(&mut self, key: Key, sink: &mut impl Sink) {
        let _ = (key, sink);
    }

    /// Follows the events of a poll.
    fn after_events(&mut self) {}

    /// Acts on deadlines that are not those of connections and attempts and have passed; returns how many events there were.
    fn expire_others(&mut self, sink: &mut impl Sink) -> usize {
        let _ = sink;
        0
    }

    /// Records the deadlines that [`Connected::expire_others`] acts on.
    fn expect_others(&mut self) {}

    /// As [`oxifabric_engine::Link::post`].
    #[inline]
    fn post_to(
        &mut self,
        id: PeerId,
        frame: &Frame<'_>,
        token: TxToken,
    ) -> Result<Posted, PostError> {
        let Some((driver, conns)) = self.driver(id) else {
            return Err(PostError::Down(Errno::INVAL));
        };
        match driver.post(conns, frame, token) {
            Some(posted) => posted,
            None => Err(self.post_unconnected(id)),
        }
    }

    /// As [`oxifabric_engine::Link::flush`].
    #[inline]
    fn flush_held(&mut self) {
        self.conns().coalescer.end();
        self.send_held();
    }

    /// As [`oxifabric_engine::Link::resume`].
    fn resume_from(&mut self, id: PeerId) {
        if let Some((driver, conns)) = self.driver(id) {
            driver.resume(conns);
        }
    }

    /// As [`oxifabric_engine::Link::disconnect`].
    fn disconnect_from(&mut self, id: PeerId, why: &str) -> bool {
        let driver = self.driver(id);
        driver.is_some_and(|(driver, conns)| driver.disconnect(conns, why))
    }

    /// As [`oxifabric_engine::Link::poll`].
    #[inline]
    fn progress(&mut self, now: Instant, sink: &mut impl Sink) -> usize {
        self.conns().begin(now);
        let mut events = 0;
        if self.conns().has_left_over() {
            events += self.catch_up(sink);
        }
        let direct = self.conns().reads_directly();
        if direct {
            let mut at = 0;
            while let Some(&id) = self.conns().ready.get(at) {
                events += self.read(id, false, sink);
                // Another connection has taken the place of one that was removed.
                at += usize::from(self.conns().ready.get(at) == Some(&id));
            }
        }
        if self.conns().asks_poller(direct) || self.awaits_incoming() {
            events += self.visit(direct, sink);
        }
        self.conns().schedule_audit();
        if self.conns().undated {
            self.set_deadlines();
        }
        if self.conns().reactor.is_due() {
            events += self.expire(sink);
        }
        if !self.conns().due.is_empty() {
            events += self.finish(sink);
        }
        self.conns().end(events);
        events
    }

    /// Reads a connection; returns how many events there were.
    #[inline]
    fn read(&mut self, id: PeerId, told: bool, sink: &mut impl Sink) -> usize {
        match self.driver(id) {
            Some((driver, conns)) => driver.read(conns, told, sink),
            None => 0,
        }
    }

    /// Ends a connection in use.
    fn end(&mut self, id: PeerId, errno: Errno, why: &str, sink: &mut impl Sink) {
        if let Some((driver, conns)) = self.driver(id) {
            driver.end(conns, errno, why, sink);
        }
    }

    /// Sends what was held back.
    fn send_held(&mut self) {
        while let Some(id) = self.conns().held.pop() {
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
        let list = self.conns().take_due();
        let mut sum = 0;
        for &id in &list {
            if let Some((driver, conns)) = self.driver(id) {
                sum += visit(driver, conns);
            }
        }
        self.conns().give_back_due(list);
        sum
    }

    /// Handles the poller's events.
    fn visit(&mut self, direct: bool, sink: &mut impl Sink) -> usize {
        self.conns().visit = false;
        let list = self.conns().reactor.visit();
        let mut events = 0;
        for event in &list {
            events += self.happened(event, direct, sink);
        }
        self.conns().reactor.give_back(list);
        self.after_events();
        events
    }

    fn happened(&mut self, event: &Event, direct: bool, sink: &mut impl Sink) -> usize {
        let (id, generation) = match Key::unpack(event.key) {
            Key::Peer(id, generation) => (id, generation),
            Key::Timer => {
                self.conns().reactor.clear_timer();
                return 0;
            }
            key @ (Key::Listener | Key::PendingConn(_)) => {
                self.incoming(key, sink);
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
                self.dial_on(id);
                1
            }
            _ => 0,
        }
    }

    /// Sets the deadlines of attempts that have come a step further since the last poll.
    fn set_deadlines(&mut self) {
        self.conns().undated = false;
        for id in self.conns().dialing.clone() {
            if let Some((driver, conns)) = self.driver(id) {
                driver.set_deadline(conns);
            }
        }
        // It may be that no thread polls before they have passed: one that waits for an event of the connection does not arm this.
        self.conns().reactor.set_timer();
    }

    /// Acts on the deadlines that have passed.
    #[cold]
    fn expire(&mut self, sink: &mut impl Sink) -> usize {
        let mut events = self.expire_others(sink);
        let now = self.conns().reactor.now;
        for id in self.conns().dialing.clone() {
            let driver = self.driver(id);
            if driver.is_some_and(|(driver, _)| driver.is_overdue(now)) {
                self.dial_failed(id, Errno::TIMEDOUT);
                events += 1;
            }
        }
        if self.conns().begins_audit() {
            for id in self.conns().ready.clone() {
                if let Some((driver, conns)) = self.driver(id) {
                    events += driver.audit(conns, sink);
                }
            }
            self.conns().schedule_audit();
        }
        let audit_at = self.conns().audit_at;
        self.conns().reactor.deadline = audit_at;
        for id in self.conns().dialing.clone() {
            if let Some((driver, conns)) = self.driver(id) {
                conns.reactor.expect(driver.deadline());
            }
        }
        self.expect_others();
        events
    }
}
