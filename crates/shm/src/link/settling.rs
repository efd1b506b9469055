//! How long messages end whose other process ends, or may be in the middle of copying them. docs/protocol/shm.md 6.6.

use std::thread;
use std::time::{Duration, Instant as Clock};

use oxifabric_core::log;
use oxifabric_engine::Sink;
use oxifabric_types::Errno;

use super::ShmLink;
use crate::NAME;

/// How long a sender that lives may take for a chunk that it has claimed: longer than one that has lost the processor on a crowded
/// machine, or waits for pages, and bounded, since one that is stopped may never go on.
const PATIENCE: Duration = Duration::from_secs(5);

impl ShmLink {
    /// Before memory of a process is touched: ends the pair if the process has ended, since its number may be another one's.
    pub(super) fn end_if_gone(&mut self, index: usize) {
        let Some(pair) = self.pairs.get_mut(index) else {
            return;
        };
        if pair.process.ran_just_now() {
            return;
        }
        pair.desk.give_up(Errno::CONNRESET);
        let peer = pair.peer;
        self.end_pair(peer);
    }

    /// Closes a pair that is over, unless a sender may still write into buffers of its pulls. Returns whether it is closed.
    #[cold]
    #[inline(never)]
    pub(super) fn finish(&mut self, index: usize, sink: &mut impl Sink) -> bool {
        let settled = self.settle(index, sink);
        if settled {
            self.close_pair(index, sink);
        }
        settled
    }

    /// Stops the long messages of a pair that is over. Returns whether no process writes into their buffers any more.
    ///
    /// A sender that lives may be in the middle of a chunk. It is waited for without keeping others waiting.
    fn settle(&mut self, index: usize, sink: &mut impl Sink) -> bool {
        let Some(pair) = self.pairs.get_mut(index) else {
            return true;
        };
        let why = pair.ending.unwrap_or(Errno::CONNRESET);
        for token in pair.desk.stop() {
            sink.pulled(token, Err(why));
        }
        if pair.desk.is_idle() || !pair.process.runs() {
            return true;
        }
        let until = *pair.settled_by.get_or_insert(self.now.after(PATIENCE));
        if self.now < until {
            return false;
        }
        warn_of_late_copy(pair.process.pid());
        true
    }

    /// The same for all pairs when the endpoint closes, which waits for it.
    pub(super) fn settle_all(&mut self) {
        let deadline = Clock::now() + PATIENCE;
        for pair in self.pairs.iter_mut() {
            pair.desk.stop();
            while !pair.desk.is_idle() && pair.process.runs() {
                if Clock::now() >= deadline {
                    warn_of_late_copy(pair.process.pid());
                    break;
                }
                thread::yield_now();
                pair.desk.stop();
            }
        }
    }
}

/// A sender has claimed a part of a long message and neither copies it nor ends: it is stopped, or breaks the rules.
fn warn_of_late_copy(pid: i32) {
    log::warn!(
        NAME,
        EpData,
        "process {pid} may still write into the buffer of a receive that has ended: it has not copied its part in {PATIENCE:?}"
    );
}
