//! Opening an endpoint's port, naming peers, and going to sleep. Set-up path.

use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

use oxifabric_engine::Engine;
use oxifabric_engine::faults::FaultKinds;
use oxifabric_provider::connection::Connection;
use oxifabric_provider::device::{Connections, Device};
use oxifabric_provider::inet::local_address;
use oxifabric_provider::timer::Timer;
use oxifabric_types::{Address, Errno, Info, PeerId};

use super::{Key, TcpLink};
use crate::cm::LocalParams;
use crate::coalescer::Coalescer;
use crate::listen::{Listener, PendingConns};
use crate::params::Params;
use crate::peer::{ConnState, Peers};
use crate::sys::{self, Interest, Poller};
use crate::traffic;

/// The engine's clock is coarse: sleep this much longer than needed, or wake twice.
pub(crate) const CLOCK_SLACK: Duration = Duration::from_millis(5);

impl Connection for TcpLink {}

impl Device for TcpLink {
    const GATHERS: bool = true;
    const COUNTS_CONNECTIONS: bool = true;
    const FAULTS: FaultKinds = FaultKinds::POSTS;
    type Operations = Engine;
    type Domain = ();

    fn open(info: &Info, _domain: &Arc<()>) -> Result<Self, Errno> {
        let params = Params::read();
        let at = local_address(info, params.iface.as_deref())?;
        let listener = Listener::bind(&at, params.ports).map_err(|error| sys::errno_of(&error))?;
        let poller = Poller::open().map_err(|error| sys::errno_of(&error))?;
        let timer = Timer::open().map_err(|error| sys::errno_of(&error))?;
        poller
            .add(timer.fd(), Key::Timer.pack(), Interest::READ)
            .map_err(|error| sys::errno_of(&error))?;
        Ok(Self {
            params,
            dscp: traffic::dscp(info),
            local_params: LocalParams {
                port: listener.name().port(),
                pid: std::process::id(),
                firewall: params.firewall,
                names: params.extension,
            },
            listener,
            enabled: false,
            poller,
            timer,
            timer_at: None,
            peers: Peers::default(),
            pending: PendingConns::new(),
            challenges: Vec::new(),
            closing: VecDeque::new(),
            ready: Vec::new(),
            dialing: Vec::new(),
            failed: Vec::new(),
            held: Vec::new(),
            coalescer: Coalescer::new(params.gather),
            resumed: Vec::new(),
            owed: Vec::new(),
            connections: Connections::default(),
            blocked: 0,
            events: Vec::new(),
            ticks: 0,
            empty_polls: 0,
            visit: true,
            undated: false,
            unconfirmed: false,
            audit_at: None,
            accept_paused_until: None,
            wasted: 0,
            displacing_until: None,
            crowded_until: None,
            deadline: None,
            now: Default::default(),
        })
    }

    fn enable(&mut self, _waits: bool) -> Result<(), Errno> {
        if self.enabled {
            return Ok(());
        }
        let fd = self.listener.socket().fd();
        self.listener
            .listen()
            .and_then(|()| self.poller.add(fd, Key::Listener.pack(), Interest::READ))
            .map_err(|error| sys::errno_of(&error))?;
        self.enabled = true;
        Ok(())
    }

    fn name(&self) -> Address {
        Address::Inet(*self.listener.name())
    }

    fn rename(&mut self, name: Address) -> Result<(), Errno> {
        if self.enabled {
            return Err(Errno::OPBADSTATE);
        }
        let Address::Inet(at) = name else {
            return Err(Errno::INVAL);
        };
        self.listener =
            Listener::bind(&at, self.params.ports).map_err(|error| sys::errno_of(&error))?;
        self.local_params.port = self.listener.name().port();
        Ok(())
    }

    fn peer(&mut self, address: &Address) -> Result<PeerId, Errno> {
        let Address::Inet(at) = address else {
            return Err(Errno::INVAL);
        };
        if at.is_ipv4() != self.listener.name().is_ipv4() || at.port() == 0 {
            return Err(Errno::INVAL);
        }
        let id = self.peers.number(at).ok_or(Errno::NOMEM)?;
        if let Some(peer) = self.peers.get_mut(id) {
            peer.named = true;
        }
        Ok(id)
    }

    fn address(&self, peer: PeerId) -> Option<&Address> {
        Some(self.peers.get(peer)?.address())
    }

    fn is_walled(&self) -> Option<bool> {
        Some(self.local_params.firewall)
    }

    fn wall(&mut self, peer: PeerId) {
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.firewalled = true;
        }
    }

    fn connections(&self) -> Connections {
        self.connections
    }

    fn fd(&self) -> RawFd {
        self.poller.fd()
    }

    fn arm(&mut self) -> bool {
        let lists = [&self.failed, &self.held, &self.resumed, &self.owed];
        if self.undated || lists.iter().any(|list| !list.is_empty()) {
            return false;
        }
        self.visit = true;
        self.coalescer.rest();
        if self.timer_at != self.deadline {
            self.timer_at = self.deadline;
            self.timer
                .set(self.deadline.map(|at| at.since(self.now) + CLOCK_SLACK));
        }
        true
    }

    fn idle(&self) -> bool {
        self.held.is_empty() && !self.peers.iter().any(|peer| peer.blocked())
    }

    fn holds_back(&self) -> bool {
        !self.held.is_empty()
    }

    fn reason(&self, peer: PeerId) -> Option<String> {
        self.peers.get(peer)?.reason.clone()
    }
}

impl Drop for TcpLink {
    fn drop(&mut self) {
        for mut peer in self.peers.drain() {
            if let ConnState::Ready(conn) = peer.replace(ConnState::Idle) {
                conn.close();
            }
        }
    }
}
