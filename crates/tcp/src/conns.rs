//! What the connections of one endpoint share: how they are polled, and which of them have something to do. Hot path.

use std::collections::VecDeque;
use std::time::Duration;

use oxifabric_provider::device::Connections;
use oxifabric_provider::peer_directory::PeerDirectory;
use oxifabric_types::{Errno, Instant, PeerId};

use crate::coalescer::Coalescer;
use crate::reactor::Reactor;

/// Connections up to which all are read without asking the poller: an empty read costs about as much as that.
const DIRECT_MAX: usize = 2;

/// Empty polls after which only the poller is asked, until it reports something: it costs half of an empty read. A
/// program that talks by other means, and polls here by the way, pays for every look; one that waits for an answer has
/// it by then.
const EMPTY_POLLS_MAX: u32 = 256;

/// Polls after which the poller is asked all the same.
const VISIT_EVERY: u32 = 32;

/// What the connections of one endpoint share, be they many or one.
#[derive(Debug)]
pub(crate) struct Conns {
    pub(crate) reactor: Reactor,
    /// Coalescer: whether what is posted now leaves together or at once.
    pub(crate) coalescer: Coalescer,
    /// Peers with a connection in use.
    pub(crate) ready: Vec<PeerId>,
    /// Peers that this side is connecting to, or will again.
    pub(crate) dialing: Vec<PeerId>,
    /// Peers that hold frames back.
    pub(crate) held: Vec<PeerId>,
    /// Peers with something that only a poll can do, each once.
    pub(crate) due: VecDeque<PeerId>,
    pub(crate) counts: Connections,
    /// Addresses of peers, and why connections with them failed.
    pub(crate) directory: PeerDirectory,
    /// Number of connections that wait for their sockets to take more.
    pub(crate) blocked: usize,
    /// Number of polls.
    pub(crate) ticks: u32,
    /// Number of empty polls since something happened.
    pub(crate) empty_polls: u32,
    /// Whether the poller must be asked next time.
    pub(crate) visit: bool,
    /// Whether a deadline is still to be set for an attempt to connect.
    pub(crate) undated: bool,
    /// Whether something was sent since the last audit.
    pub(crate) unconfirmed: bool,
    pub(crate) audit_at: Option<Instant>,
}

impl Conns {
    pub(crate) fn open() -> Result<Self, Errno> {
        let reactor = Reactor::open()?;
        Ok(Self {
            coalescer: Coalescer::new(reactor.params.gather),
            reactor,
            ready: Vec::new(),
            dialing: Vec::new(),
            held: Vec::new(),
            due: VecDeque::new(),
            counts: Connections::default(),
            directory: PeerDirectory::default(),
            blocked: 0,
            ticks: 0,
            empty_polls: 0,
            visit: true,
            undated: false,
            unconfirmed: false,
            audit_at: None,
        })
    }

    /// Begins a poll.
    #[inline]
    pub(crate) fn begin(&mut self, now: Instant) {
        self.reactor.now = now;
        self.coalescer.begin();
        self.ticks = self.ticks.wrapping_add(1);
    }

    /// Returns whether something was left over since the last poll.
    #[inline]
    pub(crate) fn has_left_over(&self) -> bool {
        !self.held.is_empty() || !self.due.is_empty()
    }

    /// Returns whether this poll reads the connections without asking the poller.
    #[inline]
    pub(crate) fn reads_directly(&self) -> bool {
        self.ready.len() <= DIRECT_MAX && self.empty_polls < EMPTY_POLLS_MAX
    }

    /// Returns whether this poll has to ask the poller.
    #[inline]
    pub(crate) fn asks_poller(&self, direct: bool) -> bool {
        !direct && !self.ready.is_empty()
            || self.visit
            || self.blocked > 0
            || !self.dialing.is_empty()
            || self.ticks.is_multiple_of(VISIT_EVERY)
    }

    /// Ends a poll with so many events.
    #[inline]
    pub(crate) fn end(&mut self, events: usize) {
        self.empty_polls = match events {
            0 => self.empty_polls.saturating_add(1),
            _ => 0,
        };
    }

    /// Prepares for sleep; false if there is something to do now.
    pub(crate) fn arm(&mut self) -> bool {
        if self.undated || self.has_left_over() {
            return false;
        }
        self.visit = true;
        self.coalescer.note_sleep();
        self.reactor.set_timer();
        true
    }

    /// Sets the time at which to check whether what was sent is answered.
    #[inline]
    pub(crate) fn schedule_audit(&mut self) {
        let timeout = self.reactor.params.user_timeout;
        if self.unconfirmed && self.audit_at.is_none() && timeout > Duration::ZERO {
            self.audit_at = Some(self.reactor.now.after(timeout / 4));
            self.reactor.expect(self.audit_at);
        }
    }

    /// Begins an audit if it is time for one.
    pub(crate) fn begins_audit(&mut self) -> bool {
        let begins = self.audit_at.is_some_and(|at| at <= self.reactor.now);
        if begins {
            self.audit_at = None;
            self.unconfirmed = false;
        }
        begins
    }

    /// Removes a peer whose connection or attempt has ended.
    pub(crate) fn remove(&mut self, id: PeerId) {
        self.ready.retain(|ready| *ready != id);
        self.dialing.retain(|dialing| *dialing != id);
    }
}
