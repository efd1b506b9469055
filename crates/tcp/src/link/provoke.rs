//! Faults on purpose: what the engine sees is what it sees when they happen by chance. Testing path.

use std::time::Duration;

use oxifabric_engine::Disturbance;
use oxifabric_types::{Errno, PeerId};

use super::TcpLink;
use crate::peer::Lane;

impl TcpLink {
    /// As [`oxifabric_engine::Link::disturb`].
    #[cold]
    pub(super) fn provoke(&mut self, id: PeerId, how: Disturbance) -> bool {
        let Some(peer) = self.peers.get_mut(id) else {
            return false;
        };
        let Lane::Ready(conn) = &mut peer.lane else {
            return false;
        };
        match how {
            Disturbance::Refuse => {
                peer.wanted = true;
                self.owed.push(id);
            }
            Disturbance::Break => {
                let at = peer.at;
                peer.reason = Some(format!(
                    "connection with {at}: broken on purpose (FI_OXI_FAULTS)"
                ));
                conn.socket.shut_writing();
                self.fail_later(id, Errno::CONNRESET);
            }
        }
        // Somebody may sleep on another thread.
        self.timer.set(Some(Duration::ZERO));
        self.timer_at = None;
        true
    }
}
