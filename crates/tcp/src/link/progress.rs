//! What polling does at a reliable datagram endpoint beside the connections in use: it makes and takes others. Set-up path.

use oxifabric_engine::{PostError, Sink};
use oxifabric_provider::log;
use oxifabric_types::{Errno, PeerId};

use super::{Rdm, TcpLink};
use crate::driver::{ConnDriver, ConnState};
use crate::endpoint::EndpointKind;
use crate::reactor::Key;

impl EndpointKind for Rdm {
    #[inline]
    fn driver(&mut self, id: PeerId) -> Option<&mut ConnDriver> {
        Some(&mut self.peers.get_mut(id)?.driver)
    }

    #[inline]
    fn driver_ref(&self, id: PeerId) -> Option<&ConnDriver> {
        Some(&self.peers.get(id)?.driver)
    }

    /// Connects.
    #[cold]
    fn post_unconnected(link: &mut TcpLink, id: PeerId) -> PostError {
        let Some(peer) = link.kind.peers.get_mut(id) else {
            return PostError::Down(Errno::INVAL);
        };
        let is_idle = matches!(peer.driver.state, ConnState::Idle);
        if is_idle && peer.firewalled {
            let at = peer.driver.at;
            let reason = format!("{at} takes no connections; it has to send first");
            link.conns.directory.explain(id, Some(reason));
            return PostError::Down(Errno::FIREWALLADDR);
        }
        peer.driver.want();
        if is_idle {
            link.dial(id, Default::default());
        }
        PostError::Again
    }

    fn dial_on(link: &mut TcpLink, id: PeerId) {
        let Some((driver, conns)) = link.driver(id) else {
            return;
        };
        match driver.dial_on(conns) {
            Ok(None) => {}
            Ok(Some(answer)) => link.answered(id, &answer),
            Err(why) => Self::dial_failed(link, id, why),
        }
    }

    fn dial_failed(link: &mut TcpLink, id: PeerId, why: Errno) {
        let from = link.kind.acceptor.listener.name().ip();
        if let Some((driver, conns)) = link.driver(id) {
            driver.dial_failed(conns, from, why);
            let reason = conns.directory.reason(id).unwrap_or_default();
            log::warn!("tcp", EpCtrl, "{reason}");
        }
    }

    #[inline]
    fn awaits_incoming(link: &TcpLink) -> bool {
        link.conns.ready.is_empty() || link.kind.acceptor.pending() > 0
    }

    fn incoming(link: &mut TcpLink, key: Key, sink: &mut impl Sink) {
        match key {
            Key::PendingConn(serial) => link.read_pending(serial, sink),
            _ => link.accept_waiting(sink),
        }
    }

    #[inline]
    fn after_poll(link: &mut TcpLink) {
        link.kind
            .acceptor
            .pause_after_waste(&mut link.conns.reactor);
    }

    fn expire(link: &mut TcpLink, sink: &mut impl Sink) -> usize {
        link.kind.acceptor.expire(&link.conns.reactor);
        link.kind.acceptor.watch(true, &link.conns.reactor);
        link.redial();
        let settled = link.settle_challenges(sink);
        link.conns.reactor.expect(link.kind.acceptor.deadline());
        link.conns.reactor.expect(link.next_look());
        settled
    }
}
