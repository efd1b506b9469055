//! What polling does at a reliable datagram endpoint beside [`Connected`]: it makes and takes connections by itself. Set-up
//! path.

use oxifabric_engine::{PostError, Sink};
use oxifabric_provider::log;
use oxifabric_types::{Errno, PeerId};

use super::TcpLink;
use crate::conns::Conns;
use crate::driver::{ConnDriver, ConnState};
use crate::poll::Connected;
use crate::reactor::Key;

impl Connected for TcpLink {
    #[inline]
    fn conns(&mut self) -> &mut Conns {
        &mut self.conns
    }

    #[inline]
    fn driver(&mut self, id: PeerId) -> Option<(&mut ConnDriver, &mut Conns)> {
        let peer = self.peers.get_mut(id)?;
        Some((&mut peer.driver, &mut self.conns))
    }

    /// Connects.
    #[cold]
    fn post_unconnected(&mut self, id: PeerId) -> PostError {
        let Some(peer) = self.peers.get_mut(id) else {
            return PostError::Down(Errno::INVAL);
        };
        let is_idle = matches!(peer.driver.state, ConnState::Idle);
        if is_idle && peer.firewalled {
            let at = peer.driver.at;
            let reason = format!("{at} takes no connections; it has to send first");
            peer.driver.reason = Some(reason);
            return PostError::Down(Errno::FIREWALLADDR);
        }
        peer.driver.want();
        if is_idle {
            self.dial(id, Default::default());
        }
        PostError::Again
    }

    fn dial_on(&mut self, id: PeerId) {
        let Some((driver, conns)) = self.driver(id) else {
            return;
        };
        match driver.dial_on(conns) {
            Ok(None) => {}
            Ok(Some(answer)) => self.answered(id, &answer),
            Err(why) => self.dial_failed(id, why),
        }
    }

    fn dial_failed(&mut self, id: PeerId, why: Errno) {
        let from = self.acceptor.listener.name().ip();
        if let Some((driver, conns)) = self.driver(id) {
            driver.dial_failed(conns, from, why);
            let reason = driver.reason.as_deref().unwrap_or_default();
            log::warn!("tcp", EpCtrl, "{reason}");
        }
    }

    #[inline]
    fn awaits_incoming(&self) -> bool {
        self.conns.ready.is_empty() || self.acceptor.pending() > 0
    }

    fn incoming(&mut self, key: Key, sink: &mut impl Sink) {
        match key {
            Key::PendingConn(serial) => self.read_pending(serial, sink),
            _ => self.accept_waiting(sink),
        }
    }

    fn after_events(&mut self) {
        self.acceptor.pause_after_waste(&mut self.conns.reactor);
    }

    fn expire_others(&mut self, sink: &mut impl Sink) -> usize {
        self.acceptor.expire(&self.conns.reactor);
        self.acceptor.watch(true, &self.conns.reactor);
        self.redial();
        self.settle_challenges(sink)
    }

    fn expect_others(&mut self) {
        self.conns.reactor.expect(self.acceptor.deadline());
        self.conns.reactor.expect(self.next_look());
    }
}
