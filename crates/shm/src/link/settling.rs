//! How long messages end while the other process ends, or may be in the middle of copying them. docs/protocol/shm.md
//! 6.6.

use std::thread;
use std::time::{Duration, Instant as Clock};

use oxifabric_engine::Sink;
use oxifabric_provider::log;
use oxifabric_types::Errno;

use super::ShmLink;
use crate::NAME;
use crate::conn::Conn;

/// How long a sender that lives may take for a chunk that it has claimed: longer than one that has lost the processor
/// on a crowded machine, or waits for pages, and bounded, since one that is stopped may never go on.
const LATE_COPY_TIMEOUT: Duration = Duration::from_secs(5);

impl ShmLink {
    /// Ends the connection of a process that has ended, before its memory is touched: its number may be another
    /// process's.
    pub(super) fn end_if_gone(&mut self, index: usize) {
        let Some(conn) = self.conns.get_mut(index) else {
            return;
        };
        if conn.process.ran_just_now() {
            return;
        }
        conn.cma.give_up(Errno::CONNRESET);
        let peer = conn.peer;
        self.end_conn(peer);
    }

    /// Closes a connection that is over, unless a sender may still write into buffers of its pulls. Returns whether it is closed.
    #[cold]
    #[inline(never)]
    pub(super) fn finish(&mut self, index: usize, sink: &mut impl Sink) -> bool {
        let settled = self.settle(index, sink);
        if settled {
            self.close_conn(index, sink);
        }
        settled
    }

    /// Stops the long messages of a connection that is over. Returns whether no process writes into their buffers any more.
    ///
    /// A sender that lives may be in the middle of a chunk. This side waits for it, and goes on with other connections
    /// meanwhile.
    fn settle(&mut self, index: usize, sink: &mut impl Sink) -> bool {
        let Some(conn) = self.conns.get_mut(index) else {
            return true;
        };
        let why = conn.ending.unwrap_or(Errno::CONNRESET);
        for token in conn.cma.stop() {
            sink.pulled(token, Err(why));
        }
        conn.direct.revoke();
        if !conn.may_be_written() || !conn.process.runs() {
            return true;
        }
        let until = *conn
            .settled_by
            .get_or_insert(self.now.after(LATE_COPY_TIMEOUT));
        if self.now < until {
            return false;
        }
        warn_of_late_copy(conn.process.pid());
        true
    }

    /// Stops the long messages of all connections when the endpoint closes, and waits for what senders are copying.
    pub(super) fn settle_all(&mut self) {
        let deadline = Clock::now() + LATE_COPY_TIMEOUT;
        for conn in self.conns.iter_mut() {
            conn.cma.stop();
            conn.direct.revoke();
        }
        for conn in self.conns.iter_mut() {
            while conn.may_be_written() && conn.process.runs() {
                if Clock::now() >= deadline {
                    warn_of_late_copy(conn.process.pid());
                    break;
                }
                thread::yield_now();
                conn.cma.stop();
            }
        }
    }
}

impl Conn {
    /// Returns whether the peer may be copying from or to memory of this process.
    fn may_be_written(&mut self) -> bool {
        !self.cma.is_idle() || self.direct.is_accessed()
    }
}

/// Warns of a sender that has claimed a part of a long message and neither copies it nor ends: it is stopped, or breaks
/// the rules.
fn warn_of_late_copy(pid: i32) {
    log::warn!(
        NAME,
        EpData,
        "process {pid} may still write into the buffer of a receive that has ended: it has not copied its part in {LATE_COPY_TIMEOUT:?}"
    );
}
