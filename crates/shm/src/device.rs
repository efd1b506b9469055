//! How an endpoint is opened, named and put to sleep.

use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use oxifabric_core::connection::Connection;
use oxifabric_core::device::Device;
use oxifabric_core::log;
use oxifabric_core::timer::Timer;
use oxifabric_engine::faults::FaultKinds;
use oxifabric_types::{Address, Errno, Info, Instant, PeerId};

use crate::NAME;
use crate::doorbell;
use crate::handshake;
use crate::info::COMMON_PREFIX;
use crate::link::ShmLink;
use crate::pair;
use crate::params::Params;
use crate::peer::{self, Stage};
use crate::region::Spare;
use crate::switchboard::{Conn, Switchboard};
use crate::sys;
use crate::sys::process::{random, user};
use crate::sys::socket::Socket;
use crate::sys::wait::Epoll;

impl ShmLink {
    /// Opens an endpoint as [`Device::open`] does, with parameters of its own.
    ///
    /// # Errors
    /// As [`Device::open`].
    pub fn open_with(info: &Info, params: &Params) -> Result<Self, Errno> {
        let name = match &info.src {
            Some(Address::Name(name)) => complete(name),
            Some(Address::Inet(_)) => return Err(Errno::INVAL),
            None => complete(&format!("{COMMON_PREFIX}{}", process::id())),
        };
        let listener = bind(&name)?;
        let failed = |error: std::io::Error| sys::errno(&error);
        let board = Switchboard {
            name: name.into(),
            me: PeerId::ANY,
            listener,
            epoll: Epoll::new().map_err(failed)?,
            timer: Timer::open().map_err(failed)?,
            incarnation: Box::new(random()),
            enabled: false,
            waits: false,
            opening: Vec::new(),
            conns: Vec::new(),
            silent: VecDeque::new(),
            parked: Vec::new(),
            refusals: 0,
            closed_until: None,
            spare: first_spare(params)?,
        };
        Ok(Self::new(
            board,
            pair::expected_limits(params),
            params.clone(),
        ))
    }

    /// Takes note that threads may sleep although it was enabled without. Peers learn in the greeting whether to ring.
    fn wake_late(&mut self, waits: bool) -> Result<(), Errno> {
        let untold = self
            .board
            .conns
            .iter()
            .all(|conn| matches!(conn, Conn::Free));
        if !waits || !untold {
            return Err(Errno::OPBADSTATE);
        }
        self.board.waits = true;
        Ok(())
    }

    fn is_asleep_in_peace(&mut self) -> bool {
        let parked = self.board.parked.iter();
        let mut callers = parked.filter_map(|&index| self.board.parked_caller(index));
        callers.all(|caller| self.must_wait(caller))
            && self.pairs.iter_mut().all(|pair| {
                let waiting = !pair.stalled && pair.rx.is_ready();
                !waiting && !pair.is_over() && pair.desk.is_idle()
            })
    }

    /// Lets the timer wake a sleeper for the next deadline, or soon if a peer is to be called again.
    fn set_timer(&self) {
        let parked = self.board.parked.iter();
        let callers = parked.filter_map(|&index| self.board.parked_caller(index));
        let deadlines = callers.map(|caller| caller.deadline);
        let doors = deadlines
            .chain(self.board.closed_until)
            .map(|until| until.since(self.now));
        let next = self
            .board
            .opening
            .iter()
            .filter_map(|&peer| self.peers.get(peer))
            .filter_map(|peer| match &peer.stage {
                Stage::Wanted(_) => Some(RETRY),
                Stage::Called(half) | Stage::Answered(half) => Some(half.deadline)
                    .filter(|&deadline| deadline != Instant::END)
                    .map(|deadline| deadline.since(self.now)),
                Stage::Yielded(until) => Some(until.since(self.now)),
                Stage::Apart | Stage::Open | Stage::Ending => None,
            })
            .chain(doors)
            .min();
        self.board.timer.set(next);
    }
}

/// When a sleeper calls again a peer that is not there yet or whose backlog is full.
const RETRY: std::time::Duration = std::time::Duration::from_millis(1);

impl Connection for ShmLink {}

impl Device for ShmLink {
    const FAULTS: FaultKinds = FaultKinds::POSTS;

    fn open(info: &Info) -> Result<Self, Errno> {
        Self::open_with(info, Params::of_environment())
    }

    fn enable(&mut self, waits: bool) -> Result<(), Errno> {
        if self.board.enabled {
            return self.wake_late(waits);
        }
        self.board.waits = waits;
        self.board.listen().map_err(|error| sys::errno(&error))?;
        self.board.enabled = true;
        if let Some(me) = self.peers.find(&self.board.name) {
            self.board.me = me;
        }
        Ok(())
    }

    fn name(&self) -> Address {
        Address::Name(self.board.name.clone())
    }

    fn rename(&mut self, name: Address) -> Result<(), Errno> {
        if self.board.enabled {
            return Err(Errno::OPBADSTATE);
        }
        let Address::Name(name) = name else {
            return Err(Errno::INVAL);
        };
        if name == self.board.name {
            return Ok(());
        }
        self.board.listener = bind(&name)?;
        self.board.name = name;
        Ok(())
    }

    fn peer(&mut self, address: &Address) -> Result<PeerId, Errno> {
        let Address::Name(name) = address else {
            return Err(Errno::INVAL);
        };
        let peer = self.peers.name(name, &self.expected)?;
        if **name == *self.board.name {
            self.board.me = peer;
        }
        Ok(peer)
    }

    fn address(&self, peer: PeerId) -> Option<&Address> {
        self.peers.get(peer).map(|peer| &peer.address)
    }

    fn fd(&self) -> RawFd {
        self.board.epoll.fd()
    }

    fn arm(&mut self) -> bool {
        if self.mark.is_foreign() {
            return true;
        }
        self.asleep = true;
        // The first poll afterwards wakes up.
        self.look_at = Instant::from_nanos(0);
        self.turn += 1;
        for pair in self.pairs.iter_mut() {
            pair.flush();
            pair.rx.publish();
            pair.bell.announce_sleep(self.turn);
        }
        doorbell::settle();
        let room = self.pairs.iter_mut().any(|pair| {
            pair.blocked
                .is_some_and(|len| pair.tx.reserve(len) != Ok(None))
        });
        self.set_timer();
        !room && self.is_asleep_in_peace()
    }

    /// As [`Device::reason`]. Of a working pair whose long messages take the slower way, says why.
    fn reason(&self, peer: PeerId) -> Option<String> {
        self.peers.get(peer)?.reason.clone()
    }
}

/// Makes a name unique that says it is not, fi_shm(7): the user, a number and something random are appended.
fn complete(name: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    if !name.starts_with(COMMON_PREFIX) {
        return name.to_owned();
    }
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{name}:{}:{count}-{:08x}", user(), random() as u32)
}

fn bind(name: &str) -> Result<Socket, Errno> {
    if !peer::is_name(name) {
        return Err(Errno::INVAL);
    }
    Socket::bind(&handshake::socket_name(name)).map_err(|error| {
        log::warn!(NAME, EpCtrl, "the name {name} cannot be taken: {error}");
        sys::errno(&error)
    })
}

/// Where the memory is that of a file system, makes sure that there is some at all.
fn first_spare(params: &Params) -> Result<Option<Spare>, Errno> {
    if params.dir.is_none() {
        return Ok(None);
    }
    Spare::new(params).map(Some).map_err(|error| {
        log::warn!(NAME, EpCtrl, "{error}");
        error.errno
    })
}
