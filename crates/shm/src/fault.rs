//! Fault injection: the engine sees what it sees when the fault happens by chance. Testing path.

use std::time::Duration;

use oxifabric_engine::InjectedFault;
use oxifabric_types::{Errno, PeerId};

use crate::link::ShmLink;
use crate::peer::ConnState;

impl ShmLink {
    /// As [`oxifabric_engine::Link::inject_fault`].
    #[cold]
    pub(crate) fn inject(&mut self, id: PeerId, how: InjectedFault) -> bool {
        let index = self.index_of(id).filter(|_| !self.mark.is_foreign());
        let Some(conn) = index.and_then(|index| self.conns.get_mut(index)) else {
            return false;
        };
        if conn.ending.is_some() {
            return false;
        }
        match how {
            InjectedFault::Refuse => {
                conn.blocked.get_or_insert(0);
            }
            InjectedFault::Break => {
                if let Some(socket) = conn.socket.take() {
                    socket.shut();
                    self.table.stop_watching(&socket, &conn.process);
                }
                conn.end(Errno::CONNRESET);
                if let Some(peer) = self.peers.get_mut(id) {
                    peer.state = ConnState::Ending;
                    peer.reason = Some(format!(
                        "{}: broken by an injected fault (FI_OXI_FAULTS)",
                        peer.name()
                    ));
                }
            }
        }
        // Another thread may sleep in a wait.
        self.table.timer.set(Some(Duration::ZERO));
        true
    }
}
