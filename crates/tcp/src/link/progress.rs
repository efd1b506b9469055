//! Polling, and how connections end. Hot path at the top.

use std::time::Duration;

use oxifabric_engine::Sink;
use oxifabric_provider::log;
use oxifabric_types::{Errno, Instant, PeerId};

use super::{Key, TcpLink};
use crate::conn::Broken;
use crate::peer::{ConnState, Pause, UNKNOWN};
use crate::rx::{self, Fault, Progress};
use crate::sys::{self, Event};

/// Connections up to which all are read without asking the poller: an empty read costs about as much as that.
const DIRECT_MAX: usize = 2;

/// Empty polls after which only the poller is asked, until it reports something: it costs half of an empty read. A
/// program that talks by other means, and polls here by the way, pays for every look; one that waits for an answer has
/// it by then.
const EMPTY_POLLS_MAX: u32 = 256;

/// Polls after which the poller is asked all the same.
const VISIT_EVERY: u32 = 32;

impl TcpLink {
    #[inline]
    pub(super) fn progress(&mut self, now: Instant, sink: &mut impl Sink) -> usize {
        self.now = now;
        let mut events = 0;
        if !self.held.is_empty() || !self.failed.is_empty() || !self.resumed.is_empty() {
            events += self.catch_up(sink);
        }
        let direct = self.ready.len() <= DIRECT_MAX && self.empty_polls < EMPTY_POLLS_MAX;
        if direct {
            let mut at = 0;
            while let Some(&id) = self.ready.get(at) {
                events += self.read(id, false, sink);
                // Another connection has taken the place of one that was removed.
                at += usize::from(self.ready.get(at) == Some(&id));
            }
        }
        self.ticks = self.ticks.wrapping_add(1);
        let expected = self.visit
            || self.blocked > 0
            || self.ready.is_empty()
            || !self.dialing.is_empty()
            || !self.pending.is_empty();
        if !direct || expected || self.ticks.is_multiple_of(VISIT_EVERY) {
            events += self.visit(direct, sink);
        }
        if !self.owed.is_empty() {
            events += self.pay(sink);
        }
        if self.undated || self.unconfirmed && self.audit_at.is_none() {
            self.set_dates();
        }
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            events += self.expire(sink);
        }
        self.empty_polls = match events {
            0 => self.empty_polls.saturating_add(1),
            _ => 0,
        };
        events
    }

    /// Reads a connection; returns how many events there were. Where large messages are expected, only what the poller
    /// reported (`told`) is read: an empty read holds the socket while the kernel fills it, and what one call saves is
    /// nothing beside the copying.
    #[inline]
    pub(super) fn read(&mut self, id: PeerId, told: bool, sink: &mut impl Sink) -> usize {
        let Some(peer) = self.peers.get_mut(id) else {
            return 0;
        };
        let ConnState::Ready(conn) = &mut peer.state else {
            return 0;
        };
        if conn.stalled() {
            return 0;
        }
        if !told && conn.expects_large() {
            self.visit = true;
            return 0;
        }
        let progress = conn.read(id, sink);
        if progress.end.is_ok() && !conn.stalled() && progress.acknowledge == 0 {
            return progress.events;
        }
        self.conclude(id, progress, sink)
    }

    /// Carries out what a turn of reading requires beyond itself.
    #[cold]
    fn conclude(&mut self, id: PeerId, progress: Progress, sink: &mut impl Sink) -> usize {
        if let Err(fault) = &progress.end {
            self.end_by(id, fault, sink);
            return progress.events + 1;
        }
        if let Some(peer) = self.peers.get_mut(id)
            && let ConnState::Ready(conn) = &mut peer.state
            && let Err(Broken(error)) = conn.flush()
        {
            self.end(id, sys::errno_of(&error), "sending failed", sink);
            return progress.events + 1;
        }
        self.watch(id);
        progress.events
    }

    /// Finishes what was left over since the last poll.
    fn catch_up(&mut self, sink: &mut impl Sink) -> usize {
        let mut events = 0;
        self.send_held();
        while let Some(id) = self.failed.pop() {
            self.end_failed(id, sink);
            events += 1;
        }
        for _ in 0..self.resumed.len() {
            let id = self.resumed.remove(0);
            events += self.retry(id, sink);
        }
        events
    }

    fn retry(&mut self, id: PeerId, sink: &mut impl Sink) -> usize {
        let Some(peer) = self.peers.get_mut(id) else {
            return 0;
        };
        let ConnState::Ready(conn) = &mut peer.state else {
            return 0;
        };
        let progress = conn.retry(id, sink);
        self.conclude(id, progress, sink)
    }

    /// Handles the poller's events.
    fn visit(&mut self, direct: bool, sink: &mut impl Sink) -> usize {
        self.visit = false;
        let mut list = std::mem::take(&mut self.events);
        self.poller.visit(&mut list);
        let mut events = 0;
        for event in &list {
            events += self.happened(event, direct, sink);
        }
        self.events = list;
        if self.wasted > 0 {
            self.pause_after_waste();
        }
        events
    }

    fn happened(&mut self, event: &Event, direct: bool, sink: &mut impl Sink) -> usize {
        match Key::unpack(event.key) {
            Key::Listener => {
                self.accept_waiting(sink);
                1
            }
            Key::Timer => {
                self.timer.set(None);
                self.timer_at = None;
                0
            }
            Key::PendingConn(serial) => {
                self.read_pending(serial, sink);
                1
            }
            Key::Peer(id, generation) => {
                let Some(peer) = self.peers.get(id) else {
                    return 0;
                };
                if peer.generation != generation {
                    // The event is of a connection that ended while the list was worked through.
                    return 0;
                }
                match peer.state {
                    ConnState::Ready(_) => self.happened_to(id, event, direct, sink),
                    ConnState::Dialing(_) => {
                        self.dial_on(id, sink);
                        1
                    }
                    _ => 0,
                }
            }
        }
    }

    fn happened_to(
        &mut self,
        id: PeerId,
        event: &Event,
        direct: bool,
        sink: &mut impl Sink,
    ) -> usize {
        let mut events = 0;
        if event.writable {
            events += self.write(id, sink);
        }
        let Some(peer) = self.peers.get(id) else {
            return events;
        };
        let ConnState::Ready(conn) = &peer.state else {
            return events;
        };
        if event.broken && conn.stalled() {
            // Nothing more will come, and the poller would go on to report it.
            let why = conn.socket.take_error();
            let why = why.map_or_else(|error| sys::errno_of(&error), |()| Errno::CONNRESET);
            self.end(id, why, "the connection broke", sink);
            return events + 1;
        }
        if event.ended {
            return events + self.ended(id, sink);
        }
        if event.broken || event.readable && (!direct || conn.expects_large()) {
            events += self.read(id, true, sink);
        }
        events
    }

    /// Notes that the peer has closed its end of a stalled connection.
    #[cold]
    fn ended(&mut self, id: PeerId, sink: &mut impl Sink) -> usize {
        let Some(peer) = self.peers.get_mut(id) else {
            return 0;
        };
        let ConnState::Ready(conn) = &mut peer.state else {
            return 0;
        };
        match conn.look_for_end() {
            Ok(()) => self.watch(id),
            Err(fault) => self.end_by(id, &fault, sink),
        }
        1
    }

    /// Resumes sending where the socket was full.
    fn write(&mut self, id: PeerId, sink: &mut impl Sink) -> usize {
        let Some(peer) = self.peers.get_mut(id) else {
            return 0;
        };
        let ConnState::Ready(conn) = &mut peer.state else {
            return 0;
        };
        match conn.write(sink) {
            Ok(events) => {
                if !conn.blocked() && peer.wanted {
                    self.owed.push(id);
                }
                self.watch(id);
                events
            }
            Err(Broken(error)) => {
                self.end(id, sys::errno_of(&error), "sending failed", sink);
                1
            }
        }
    }

    /// Reports to the sink the peers that can take frames again.
    fn pay(&mut self, sink: &mut impl Sink) -> usize {
        let mut events = 0;
        while let Some(id) = self.owed.pop() {
            if let Some(peer) = self.peers.get_mut(id)
                && let ConnState::Ready(conn) = &peer.state
                && !conn.blocked()
                && std::mem::take(&mut peer.wanted)
            {
                sink.writable(id);
                events += 1;
            }
        }
        events
    }

    /// Sets the deadlines of what was begun since the last poll.
    fn set_dates(&mut self) {
        if std::mem::take(&mut self.undated) {
            let reached = self.now.after(self.params.connect_timeout);
            let answered = self.params.answer_timeout;
            let answered = answered.map_or(Instant::END, |limit| self.now.after(limit));
            let mut first = Instant::END;
            for id in &self.dialing {
                let Some(peer) = self.peers.get_mut(*id) else {
                    continue;
                };
                if let ConnState::Dialing(dial) = &mut peer.state {
                    let limit = if dial.reader.is_some() {
                        answered
                    } else {
                        reached
                    };
                    first = first.min(*dial.pause.deadline.get_or_insert(limit));
                }
            }
            self.expect(Some(first));
        }
        let timeout = self.params.user_timeout;
        if self.unconfirmed && self.audit_at.is_none() && timeout > Duration::ZERO {
            self.audit_at = Some(self.now.after(timeout / 4));
            self.expect(self.audit_at);
        }
    }

    /// Records a deadline.
    pub(super) fn expect(&mut self, at: Option<Instant>) {
        let at = at.filter(|&at| at != Instant::END);
        self.deadline = [self.deadline, at].into_iter().flatten().min();
    }

    /// Acts on the deadlines that have passed.
    #[cold]
    fn expire(&mut self, sink: &mut impl Sink) -> usize {
        let now = self.now;
        let mut events = 0;
        while let Some(pending) = self.pending.expired(now) {
            self.log(&format!("{}: connected but sent nothing", pending.from));
        }
        if self.accept_paused_until.is_some_and(|until| until <= now) {
            self.accept_paused_until = None;
            self.watch_listener(true);
        }
        if !self.challenges.is_empty() {
            events += self.settle_challenges(sink);
        }
        for id in self.dialing.clone() {
            let Some(&mut pause) = self.peers.get_mut(id).and_then(|peer| peer.state.pause())
            else {
                continue;
            };
            if pause.deadline.is_some_and(|deadline| deadline <= now) {
                self.dial_failed(id, Errno::TIMEDOUT);
                events += 1;
            } else if pause.until.is_some_and(|until| until <= now) {
                self.dialing.retain(|dialing| *dialing != id);
                let again = Pause {
                    until: None,
                    ..pause
                };
                self.dial(id, again);
            }
        }
        if self.audit_at.is_some_and(|at| at <= now) {
            events += self.audit(sink);
        }
        self.deadline = None;
        let dials: Vec<_> = self.dialing.clone();
        for id in dials {
            if let Some(&mut pause) = self.peers.get_mut(id).and_then(|peer| peer.state.pause()) {
                self.expect(pause.deadline);
                self.expect(pause.until);
            }
        }
        self.expect(self.pending.deadline());
        self.expect(self.next_look());
        self.expect(self.accept_paused_until);
        self.expect(self.audit_at);
        events
    }

    /// Ends the connections whose hosts do not answer.
    ///
    /// TCP_USER_TIMEOUT would do it in the kernel, but it also ends connections to peers that merely do not
    /// read for a while, which is what a program that computes does.
    fn audit(&mut self, sink: &mut impl Sink) -> usize {
        self.audit_at = None;
        self.unconfirmed = false;
        let mut silent = Vec::new();
        for id in &self.ready {
            let Some(peer) = self.peers.get_mut(*id) else {
                continue;
            };
            let ConnState::Ready(conn) = &mut peer.state else {
                continue;
            };
            if conn.is_silent(self.now, self.params.user_timeout) {
                silent.push(*id);
            }
            self.unconfirmed |= conn.unconfirmed;
        }
        for id in &silent {
            self.end(*id, Errno::TIMEDOUT, "the host does not answer", sink);
        }
        self.set_dates();
        silent.len()
    }

    /// Ends a connection that cannot be read any further.
    fn end_by(&mut self, id: PeerId, fault: &Fault, sink: &mut impl Sink) {
        let why = fault.to_string();
        match self.lose(id, rx::errno_of(fault), &why) {
            Some(lost) if fault.is_worth_a_warning() => self.log(&lost),
            Some(lost) => log::info!("tcp", EpCtrl, "{lost}"),
            None => return,
        }
        self.report_failed(id, sink);
    }

    /// Ends a connection in use.
    pub(super) fn end(&mut self, id: PeerId, errno: Errno, why: &str, sink: &mut impl Sink) {
        if let Some(lost) = self.lose(id, errno, why) {
            log::info!("tcp", EpCtrl, "{lost}");
            self.report_failed(id, sink);
        }
    }

    /// Notes that a connection in use has failed; returns what to write to the log.
    fn lose(&mut self, id: PeerId, errno: Errno, why: &str) -> Option<String> {
        let peer = self.peers.get_mut(id)?;
        if !matches!(peer.state, ConnState::Ready(_)) {
            return None;
        }
        let lost = format!("connection with {} lost: {why}", peer.at);
        peer.reason = Some(lost.clone());
        self.fail_later(id, errno);
        self.failed.retain(|failed| *failed != id);
        Some(lost)
    }

    /// Writes to the log that a connection has failed, if it was in use, and reports it to the sink.
    pub(super) fn end_failed(&mut self, id: PeerId, sink: &mut impl Sink) {
        if let Some(peer) = self.peers.get_mut(id)
            && let ConnState::Failed(Some(_), errno) = &peer.state
        {
            let at = peer.at;
            let cause = || format!("connection with {at} lost: {}", errno.text().to_lowercase());
            let reason = peer.reason.get_or_insert_with(cause);
            log::info!("tcp", EpCtrl, "{reason}");
        }
        self.report_failed(id, sink);
    }

    /// Reports a failed connection to the sink.
    fn report_failed(&mut self, id: PeerId, sink: &mut impl Sink) {
        let Some(peer) = self.peers.get_mut(id) else {
            return;
        };
        if !matches!(peer.state, ConnState::Failed(..)) {
            return;
        }
        if let ConnState::Failed(conn, errno) = peer.replace(ConnState::Idle) {
            if let Some(mut conn) = conn {
                conn.abandon(errno, sink);
            }
            peer.wanted = false;
            peer.limits = UNKNOWN;
            peer.left_in = self.ticks;
            sink.peer_down(id, errno);
        }
    }

    /// Writes to the log what happened.
    pub(super) fn log(&self, what: &str) {
        log::warn!("tcp", EpCtrl, "{what}");
    }
}

impl ConnState {
    /// Returns the deadlines of an attempt.
    fn pause(&mut self) -> Option<&mut Pause> {
        match self {
            Self::Dialing(dial) => Some(&mut dial.pause),
            Self::Paused(pause) => Some(pause),
            _ => None,
        }
    }
}
