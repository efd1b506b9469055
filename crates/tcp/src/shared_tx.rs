//! The sending half of a connection as two threads see it: the one that has the endpoint, and the flusher's. Hot
//! path.

use std::num::NonZeroUsize;
use std::sync::Arc;

use oxifabric_sync::SwitchLock;
use oxifabric_tcp_stream::tx::Tx;

use crate::sys::Socket;

/// Empty looks in a row after which a connection is left alone, at first. Twice as many each time, since a connection that holds back again
/// and again would have a thread started each time.
const EMPTY_LOOKS: u32 = 4;

/// Empty looks in a row after which a connection is left alone at last.
const EMPTY_LOOKS_MAX: u32 = 64;

/// A socket, and the bytes to be sent over it.
#[derive(Debug)]
pub(crate) struct SharedTx {
    socket: Arc<Socket>,
    pub(crate) tx: SwitchLock<WatchedTx>,
}

/// The bytes to be sent, and how often the flusher found none of them.
#[derive(Debug)]
pub(crate) struct WatchedTx {
    pub(crate) half: Tx,
    /// Number of empty looks in a row, and at which number of them the connection is left alone: the flusher's alone.
    empty_looks: u32,
    looks_max: u32,
}

impl SharedTx {
    pub(crate) fn new(socket: Arc<Socket>, segment: Option<NonZeroUsize>) -> Self {
        Self {
            socket,
            tx: SwitchLock::locked(WatchedTx {
                half: Tx::new(segment, 0),
                empty_looks: 0,
                looks_max: EMPTY_LOOKS,
            }),
        }
    }

    /// Sends what has waited for long; returns whether to look again.
    pub(crate) fn flush_overdue(&self) -> bool {
        // A thread that has the lock is about to hold back or to send.
        let Some(mut tx) = self.tx.try_lock() else {
            return true;
        };
        tx.look(&self.socket)
    }
}

impl WatchedTx {
    /// Sends what has waited since the last look; returns whether to look again.
    fn look(&mut self, socket: &Socket) -> bool {
        if self.half.flush_overdue(socket) {
            self.empty_looks = 0;
            return true;
        }
        self.empty_looks += 1;
        self.half.scheduled = self.empty_looks < self.looks_max;
        if !self.half.scheduled {
            self.empty_looks = 0;
            self.looks_max = (self.looks_max * 2).min(EMPTY_LOOKS_MAX);
        }
        self.half.scheduled
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// Has a thread look until it is told that this is over; returns how often it did.
    fn empty_looks_until_it_is_left_alone(shared_tx: &SharedTx) -> u32 {
        shared_tx.tx.lock().half.scheduled = true;
        let looks = (1..=EMPTY_LOOKS_MAX).find(|_| !shared_tx.flush_overdue());
        assert!(!shared_tx.tx.lock().half.scheduled);
        looks.expect("there is an end to it")
    }

    #[test]
    fn a_connection_that_holds_back_again_and_again_is_looked_after_for_longer() {
        let (a, _b) = UnixStream::pair().expect("the system has room for it");
        let shared_tx = SharedTx::new(Arc::new(Socket::from(OwnedFd::from(a))), None);
        let looks: Vec<u32> = (0..6)
            .map(|_| empty_looks_until_it_is_left_alone(&shared_tx))
            .collect();
        assert_eq!(looks, [4, 8, 16, 32, 64, 64]);
        // What waits is sent with the second look, and the count of empty ones begins anew.
        let late = || shared_tx.tx.lock().half.force(b"late").expect("memory");
        shared_tx.tx.lock().half.scheduled = true;
        (0..EMPTY_LOOKS_MAX - 1).for_each(|_| assert!(shared_tx.flush_overdue()));
        for _ in 0..2 {
            late();
            assert!(shared_tx.flush_overdue() && shared_tx.tx.lock().half.waits());
            assert!(shared_tx.flush_overdue() && !shared_tx.tx.lock().half.waits());
        }
        assert!(shared_tx.flush_overdue(), "not the last empty look yet");
    }
}
