//! Opening an endpoint's port, naming peers, and going to sleep. Set-up path.

use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::Arc;

use oxifabric_engine::Engine;
use oxifabric_engine::faults::FaultKinds;
use oxifabric_provider::connection::Connection;
use oxifabric_provider::device::{Connections, Device};
use oxifabric_provider::inet::local_address;
use oxifabric_provider::peer_directory::PeerDirectory;
use oxifabric_types::{Address, Errno, Info, PeerId};

use super::{Rdm, TcpLink};
use crate::acceptor::Acceptor;
use crate::cm::LocalParams;
use crate::conns::Conns;
use crate::listen::Listener;
use crate::peer::{self, Peers};
use crate::sys;

impl Connection for TcpLink {}

impl Device for TcpLink {
    const COALESCES: bool = true;
    const COUNTS_CONNECTIONS: bool = true;
    const FAULTS: FaultKinds = FaultKinds::POSTS;
    type Operations = Engine;
    type Domain = ();

    fn open(info: &Info, _domain: &Arc<()>) -> Result<Self, Errno> {
        let mut conns = Conns::open()?;
        conns.reactor.set_class(info);
        let params = conns.reactor.params;
        let at = local_address(info, params.iface.as_deref())?;
        let listener = Listener::bind(&at, params.ports).map_err(|error| sys::errno_of(&error))?;
        let kind = Rdm {
            local_params: LocalParams {
                port: listener.name().port(),
                pid: std::process::id(),
                firewall: params.firewall,
                names: params.extension,
            },
            acceptor: Acceptor::new(listener),
            peers: Peers::listed_in(conns.directory.clone()),
            challenges: Vec::new(),
            closing: VecDeque::new(),
            displacing_until: None,
            crowded_until: None,
        };
        Ok(Self { conns, kind })
    }

    fn enable(&mut self, _waits: bool) -> Result<(), Errno> {
        if self.kind.acceptor.listening {
            return Ok(());
        }
        let listening = self.kind.acceptor.listen(&self.conns.reactor);
        listening.map_err(|error| sys::errno_of(&error))
    }

    fn name(&self) -> Address {
        Address::Inet(*self.kind.acceptor.listener.name())
    }

    fn rename(&mut self, name: Address) -> Result<(), Errno> {
        if self.kind.acceptor.listening {
            return Err(Errno::OPBADSTATE);
        }
        let Address::Inet(at) = name else {
            return Err(Errno::INVAL);
        };
        let listener = Listener::bind(&at, self.conns.reactor.params.ports);
        self.kind.acceptor.listener = listener.map_err(|error| sys::errno_of(&error))?;
        self.kind.local_params.port = self.kind.acceptor.listener.name().port();
        Ok(())
    }

    fn peer(&mut self, address: &Address) -> Result<PeerId, Errno> {
        let Address::Inet(at) = address else {
            return Err(Errno::INVAL);
        };
        if at.is_ipv4() != self.kind.acceptor.listener.name().is_ipv4() || at.port() == 0 {
            return Err(Errno::INVAL);
        }
        let id = peer::number(&mut self.kind.peers, at).ok_or(Errno::NOMEM)?;
        self.kind.peers.name(id);
        Ok(id)
    }

    fn directory(&self) -> &PeerDirectory {
        &self.conns.directory
    }

    fn is_behind_firewall(&self) -> Option<bool> {
        Some(self.kind.local_params.firewall)
    }

    fn set_firewalled(&mut self, peer: PeerId) {
        if let Some(peer) = self.kind.peers.get_mut(peer) {
            peer.firewalled = true;
        }
    }

    fn connections(&self) -> Connections {
        self.conns.counts
    }

    fn fd(&self) -> RawFd {
        self.conns.reactor.fd()
    }

    fn arm(&mut self) -> bool {
        self.conns.arm()
    }

    fn idle(&self) -> bool {
        self.conns.held.is_empty() && !self.kind.peers.iter().any(|peer| peer.driver.blocked())
    }

    fn holds_back(&self) -> bool {
        !self.conns.held.is_empty()
    }
}

impl Drop for Rdm {
    fn drop(&mut self) {
        for mut peer in self.peers.drain() {
            peer.driver.close();
        }
    }
}
