//! Fault injection: the engine sees what it sees when the fault happens by chance. Testing path.

use std::time::Duration;

use oxifabric_engine::InjectedFault;
use oxifabric_types::{Errno, PeerId};

use crate::link::ShmLink;
use crate::peer::Stage;

impl ShmLink {
    /// As [`oxifabric_engine::Link::inject_fault`].
    #[cold]
    pub(crate) fn inject(&mut self, id: PeerId, how: InjectedFault) -> bool {
        let place = self.place_of(id).filter(|_| !self.mark.is_foreign());
        let Some(pair) = place.and_then(|place| self.pairs.get_mut(place)) else {
            return false;
        };
        if pair.ending.is_some() {
            return false;
        }
        match how {
            InjectedFault::Refuse => {
                pair.blocked.get_or_insert(0);
            }
            InjectedFault::Break => {
                if let Some(socket) = pair.socket.take() {
                    socket.shut();
                    self.board.stop_watching(&socket, &pair.process);
                }
                pair.end(Errno::CONNRESET);
                if let Some(peer) = self.peers.get_mut(id) {
                    peer.stage = Stage::Ending;
                    peer.reason = Some(format!(
                        "{}: broken by an injected fault (FI_OXI_FAULTS)",
                        peer.name()
                    ));
                }
            }
        }
        // Another thread may sleep in a wait.
        self.board.timer.set(Some(Duration::ZERO));
        true
    }
}
