//! What an endpoint or listener sleeps on: the poller of its sockets, a timer, and the time. Set-up path, but for the look at
//! the poller.

use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

use oxifabric_provider::timer::Timer;
use oxifabric_types::{Errno, Info, Instant, PeerId};

use crate::params::Params;
use crate::sys::{self, Event, Interest, Poller, Socket};
use crate::traffic;

/// The engine's clock is coarse: sleep this much longer than needed, or wake twice.
const CLOCK_SLACK: Duration = Duration::from_millis(5);

/// Time after which the loss of a silent peer is noticed (keepalive), if the parameters do not bound transmissions.
const KEEPALIVE_DEFAULT: Duration = Duration::from_secs(15);

/// A poller and a timer.
#[derive(Debug)]
pub(crate) struct Reactor {
    pub(crate) params: &'static Params,
    /// DSCP value of packets, if the application wants one.
    dscp: Option<u8>,
    pub(crate) poller: Poller,
    timer: Timer,
    /// The deadline that the timer is set to.
    timer_at: Option<Instant>,
    /// The earliest of all deadlines.
    pub(crate) deadline: Option<Instant>,
    pub(crate) now: Instant,
    /// What the poller reported last.
    pub(crate) events: Vec<Event>,
}

/// The meanings of the poller's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Listener,
    Timer,
    PendingConn(u32),
    Peer(PeerId, u32),
}

const KIND_SHIFT: u32 = 62;

impl Key {
    pub(crate) fn pack(self) -> u64 {
        match self {
            Self::Peer(id, generation) => u64::from(generation) << 32 | u64::from(id.0),
            Self::PendingConn(serial) => 1 << KIND_SHIFT | u64::from(serial),
            Self::Listener => 2 << KIND_SHIFT,
            Self::Timer => 3 << KIND_SHIFT,
        }
    }

    pub(crate) fn unpack(key: u64) -> Self {
        match key >> KIND_SHIFT {
            0 => Self::Peer(PeerId(key as u32), (key >> 32) as u32),
            1 => Self::PendingConn(key as u32),
            2 => Self::Listener,
            _ => Self::Timer,
        }
    }
}

impl Reactor {
    pub(crate) fn open() -> Result<Self, Errno> {
        let errno = |error| sys::errno_of(&error);
        let poller = Poller::open().map_err(errno)?;
        let timer = Timer::open().map_err(errno)?;
        poller
            .add(timer.fd(), Key::Timer.pack(), Interest::READ)
            .map_err(errno)?;
        Ok(Self {
            params: Params::read(),
            dscp: None,
            poller,
            timer,
            timer_at: None,
            deadline: None,
            now: Instant::default(),
            events: Vec::new(),
        })
    }

    /// Takes over the traffic class of an endpoint.
    pub(crate) fn set_class(&mut self, info: &Info) {
        self.dscp = traffic::dscp(info);
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.poller.fd()
    }

    /// Asks the poller for its events.
    pub(crate) fn visit(&mut self) {
        self.poller.visit(&mut self.events);
    }

    /// Records a deadline.
    pub(crate) fn expect(&mut self, at: Option<Instant>) {
        let at = at.filter(|&at| at != Instant::END);
        self.deadline = [self.deadline, at].into_iter().flatten().min();
    }

    /// Returns whether a deadline has passed.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= self.now)
    }

    /// Sets the timer to the deadline.
    pub(crate) fn set_timer(&mut self) {
        if self.timer_at != self.deadline {
            self.timer_at = self.deadline;
            let time = self.deadline.map(|at| at.since(self.now) + CLOCK_SLACK);
            self.timer.set(time);
        }
    }

    /// Handles the event of the timer.
    pub(crate) fn clear_timer(&mut self) {
        self.timer.set(None);
        self.timer_at = None;
    }

    /// Wakes a thread that sleeps.
    pub(crate) fn wake(&mut self) {
        self.timer.set(Some(Duration::ZERO));
        self.timer_at = None;
    }

    /// Sets the options that every connection has.
    pub(crate) fn prepare(&self, socket: &Socket, is_v4: bool) -> io::Result<()> {
        if self.params.no_delay {
            socket.set_nodelay()?;
        }
        if self.params.keep_alive {
            let bound = self.params.user_timeout;
            socket.set_keepalive(match bound.is_zero() {
                true => KEEPALIVE_DEFAULT,
                false => bound,
            })?;
        }
        self.mark(socket, is_v4);
        Ok(())
    }

    /// Sets the traffic class of a connection.
    pub(crate) fn mark(&self, socket: &Socket, is_v4: bool) {
        if let Some(dscp) = self.dscp {
            // Optional: what the network makes of it is up to the network.
            let _ = socket.set_dscp(dscp, is_v4);
        }
    }
}
