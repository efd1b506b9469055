//! Fault injection: the engine sees what it sees when the fault happens by chance. Testing path.

use std::time::Duration;

use oxifabric_engine::InjectedFault;
use oxifabric_types::{Errno, PeerId};

use super::TcpLink;
use crate::peer::ConnState;

impl TcpLink {
    /// As [`oxifabric_engine::Link::inject_fault`].
    #[cold]
    pub(super) fn inject(&mut self, id: PeerId, how: InjectedFault) -> bool {
        let Some(peer) = self.peers.get_mut(id) else {
            return false;
        };
        let ConnState::Ready(conn) = &mut peer.state else {
            return false;
        };
        match how {
            InjectedFault::Refuse => {
                peer.wanted = true;
                self.owed.push(id);
            }
            InjectedFault::Break => {
                let at = peer.at;
                peer.reason = Some(format!(
                    "connection with {at} lost: broken by an injected fault (FI_OXI_FAULTS)"
                ));
                conn.socket.shut_writing();
                self.fail_later(id, Errno::CONNRESET);
            }
        }
        // Another thread may sleep in a wait.
        self.timer.set(Some(Duration::ZERO));
        self.timer_at = None;
        true
    }
}
