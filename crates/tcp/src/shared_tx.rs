//! The sending half of a connection as two threads see it: the one that has the endpoint, and the flusher's. Short
//! path.

use std::num::NonZeroUsize;
use std::sync::Arc;

use oxifabric_sync::SwitchLock;
use oxifabric_tcp_stream::tx::Tx;

use crate::sys::Socket;

/// A socket, and the bytes to be sent over it.
#[derive(Debug)]
pub(crate) struct SharedTx {
    socket: Arc<Socket>,
    pub(crate) tx: SwitchLock<Tx>,
}

impl SharedTx {
    pub(crate) fn new(socket: Arc<Socket>, segment: Option<NonZeroUsize>) -> Self {
        Self {
            socket,
            tx: SwitchLock::locked(Tx::new(segment, 0)),
        }
    }

    /// Sends what has waited for long; returns whether to look again.
    pub(crate) fn flush_overdue(&self) -> bool {
        // A thread that has the lock is about to hold back or to send.
        let tx = self.tx.try_lock();
        tx.is_none_or(|mut tx| tx.flush_overdue(&*self.socket))
    }
}
