//! How an endpoint is opened, named and put to sleep.

use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use oxifabric_engine::Engine;
use oxifabric_engine::faults::FaultKinds;
use oxifabric_provider::connection::Connection;
use oxifabric_provider::device::Device;
use oxifabric_provider::log;
use oxifabric_provider::peer_directory::PeerDirectory;
use oxifabric_provider::timer::Timer;
use oxifabric_types::{Address, Errno, Info, Instant, PeerId};

use crate::NAME;
use crate::conn;
use crate::conn_table::{ConnEntry, ConnTable};
use crate::doorbell;
use crate::handshake;
use crate::info::COMMON_PREFIX;
use crate::link::ShmLink;
use crate::params::Params;
use crate::peer::{self, ConnState};
use crate::region::Spare;
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
            Some(Address::Inet(_) | Address::Efa(_)) => return Err(Errno::INVAL),
            None => complete(&format!("{COMMON_PREFIX}{}", process::id())),
        };
        let listener = bind(&name)?;
        let failed = |error: std::io::Error| sys::errno(&error);
        let table = ConnTable {
            name: name.into(),
            me: PeerId::ANY,
            listener,
            epoll: Epoll::new().map_err(failed)?,
            timer: Timer::open().map_err(failed)?,
            incarnation: Box::new(random()),
            enabled: false,
            waits: false,
            opening: Vec::new(),
            entries: Vec::new(),
            pending: VecDeque::new(),
            parked: Vec::new(),
            refusals: 0,
            accept_paused_until: None,
            spare: first_spare(params)?,
        };
        Ok(Self::new(
            table,
            conn::expected_limits(params),
            params.clone(),
        ))
    }

    /// Allows threads to sleep on an endpoint that was enabled without. Peers learn in the handshake whether to ring.
    fn enable_waits_late(&mut self, waits: bool) -> Result<(), Errno> {
        let untold = self
            .table
            .entries
            .iter()
            .all(|entry| matches!(entry, ConnEntry::Free));
        if !waits || !untold {
            return Err(Errno::OPBADSTATE);
        }
        self.table.waits = true;
        Ok(())
    }

    fn may_sleep(&mut self) -> bool {
        let parked = self.table.parked.iter();
        let mut inbound = parked.filter_map(|&index| self.table.parked_conn(index));
        inbound.all(|inbound| self.must_wait(inbound))
            && self.conns.iter_mut().all(|conn| {
                let waiting = !conn.stalled && conn.rx.is_ready();
                !waiting && !conn.is_over() && conn.cma.is_idle()
            })
    }

    /// Sets the timer that wakes a sleeping thread: to the next deadline, or soon if a peer is to be connected to
    /// again.
    fn set_timer(&self) {
        let parked = self.table.parked.iter();
        let inbound = parked.filter_map(|&index| self.table.parked_conn(index));
        let deadlines = inbound.map(|inbound| inbound.deadline);
        let listening = deadlines
            .chain(self.table.accept_paused_until)
            .map(|until| until.since(self.now));
        let next = self
            .table
            .opening
            .iter()
            .filter_map(|&peer| self.peers.get(peer))
            .filter_map(|peer| match &peer.state {
                ConnState::Wanted(_) => Some(RETRY),
                ConnState::HelloSent(half) | ConnState::AcceptSent(half) => Some(half.deadline)
                    .filter(|&deadline| deadline != Instant::END)
                    .map(|deadline| deadline.since(self.now)),
                ConnState::Yielded(until) => Some(until.since(self.now)),
                ConnState::Closed | ConnState::Open | ConnState::Ending => None,
            })
            .chain(listening)
            .min();
        self.table.timer.set(next);
    }
}

/// Time after which a sleeping thread connects again to a peer that is not there yet or whose backlog is full.
const RETRY: std::time::Duration = std::time::Duration::from_millis(1);

impl Connection for ShmLink {}

impl Device for ShmLink {
    const FAULTS: FaultKinds = FaultKinds::POSTS;
    type Operations = Engine;
    type Domain = ();

    fn open(info: &Info, _domain: &Arc<()>) -> Result<Self, Errno> {
        Self::open_with(info, Params::of_environment())
    }

    fn enable(&mut self, waits: bool) -> Result<(), Errno> {
        if self.table.enabled {
            return self.enable_waits_late(waits);
        }
        self.table.waits = waits;
        self.table.listen().map_err(|error| sys::errno(&error))?;
        self.table.enabled = true;
        if let Some(me) = self.peers.find(&*self.table.name) {
            self.table.me = me;
        }
        Ok(())
    }

    fn name(&self) -> Address {
        Address::Name(self.table.name.clone())
    }

    fn rename(&mut self, name: Address) -> Result<(), Errno> {
        if self.table.enabled {
            return Err(Errno::OPBADSTATE);
        }
        let Address::Name(name) = name else {
            return Err(Errno::INVAL);
        };
        if name == self.table.name {
            return Ok(());
        }
        self.table.listener = bind(&name)?;
        self.table.name = name;
        Ok(())
    }

    fn peer(&mut self, address: &Address) -> Result<PeerId, Errno> {
        let Address::Name(name) = address else {
            return Err(Errno::INVAL);
        };
        let peer = peer::name(&mut self.peers, name, &self.expected)?;
        if **name == *self.table.name {
            self.table.me = peer;
        }
        Ok(peer)
    }

    /// As [`Device::directory`]. For a working connection whose long messages take the slower way, its reason is that.
    fn directory(&self) -> &PeerDirectory {
        self.peers.directory()
    }

    fn revoke_access(&mut self) {
        if self.mark.is_foreign() {
            return;
        }
        for conn in self.conns.iter_mut() {
            conn.direct.revoke();
        }
    }

    fn is_accessed(&mut self) -> bool {
        !self.mark.is_foreign()
            && self
                .conns
                .iter_mut()
                .any(|conn| conn.direct.is_accessed() && conn.process.runs())
    }

    fn fd(&self) -> RawFd {
        self.table.epoll.fd()
    }

    fn arm(&mut self) -> bool {
        if self.mark.is_foreign() {
            return true;
        }
        self.asleep = true;
        // The first poll after the sleep announces that this side is awake.
        self.sockets_due = Instant::from_nanos(0);
        self.turn += 1;
        for conn in self.conns.iter_mut() {
            conn.flush();
            conn.rx.publish();
            conn.bell.announce_sleep(self.turn);
        }
        doorbell::full_fence();
        let is_needed = self
            .conns
            .iter_mut()
            .any(|conn| (conn.blocked).is_some_and(|len| conn.tx.reserve(len) != Ok(None)));
        self.set_timer();
        !is_needed && self.may_sleep()
    }
}

/// Makes a name with the common prefix unique, fi_shm(7): appends the user, a number and something random.
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

/// Makes the memory of the first connection, where it is that of a file system: so a lack of it shows when the endpoint
/// is opened.
fn first_spare(params: &Params) -> Result<Option<Spare>, Errno> {
    if params.dir.is_none() {
        return Ok(None);
    }
    Spare::new(params).map(Some).map_err(|error| {
        log::warn!(NAME, EpCtrl, "{error}");
        error.errno
    })
}
