//! Faults on purpose: what the engine sees is what it sees when they happen by chance. Testing path.

use std::time::Duration;

use oxifabric_engine::Disturbance;
use oxifabric_types::{Errno, PeerId};

use crate::link::ShmLink;
use crate::peer::Stage;

impl ShmLink {
    /// As [`oxifabric_engine::Link::disturb`].
    #[cold]
    pub(crate) fn provoke(&mut self, id: PeerId, how: Disturbance) -> bool {
        let place = self.place_of(id).filter(|_| !self.mark.is_foreign());
        let Some(pair) = place.and_then(|place| self.pairs.get_mut(place)) else {
            return false;
        };
        if pair.ending.is_some() {
            return false;
        }
        match how {
            Disturbance::Refuse => {
                pair.blocked.get_or_insert(0);
            }
            Disturbance::Break => {
                if let Some(socket) = pair.socket.take() {
                    socket.shut();
                    self.board.stop_watching(&socket, &pair.process);
                }
                pair.end(Errno::CONNRESET);
                if let Some(peer) = self.peers.get_mut(id) {
                    peer.stage = Stage::Ending;
                    peer.reason = Some(format!(
                        "{}: broken on purpose (FI_OXI_FAULTS)",
                        peer.name()
                    ));
                }
            }
        }
        // Somebody may sleep on another thread.
        self.board.timer.set(Some(Duration::ZERO));
        true
    }
}
