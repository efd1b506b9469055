//! Accesses that this side carries out by itself, and grants of regions to the peer, docs/protocol/shm.md "Direct accesses".

use std::io;

use oxifabric_engine::{Limits, RmaOp, Sink, Target};
use oxifabric_mem::Iov;
use oxifabric_provider::log;
use oxifabric_types::Flags;
use oxifabric_wire::shm::cell::{Body, Cell};

use super::Conn;
use crate::NAME;
use crate::direct::{GRANT, SHORTEST};
use crate::sys::process;

impl Conn {
    /// Adopts what the peer asks for, for the messages that follow: up to which length they come without a rendezvous, in one frame where they fit.
    pub(crate) fn adopt_threshold(&mut self, limits: &mut Limits) {
        let eager = self.direct.eager;
        if let Some(len) = self.cma.threshold.change(eager) {
            limits.segmented = len;
            limits.eager = len.min(self.longest_eager());
        }
    }

    /// Carries out a read or write of memory that the peer has granted; returns whether it did. As long as the peer has no accesses of its own,
    /// what both sides copy faster, each a part, is left to them.
    #[inline(never)]
    pub(crate) fn carry_out(&mut self, access: &RmaOp<'_>) -> bool {
        let len = access.body.len();
        let is_read = access.flags.contains(Flags::READ);
        if len <= self.direct.eager
            || (!self.direct.is_peer_busy_lately() && self.cma.is_shared(len))
        {
            return false;
        }
        let [target] = access.targets else {
            return false;
        };
        let Some(address) = self.granted(target, is_read) else {
            return false;
        };
        if target.len != access.body.len() as u64 || !self.may_access() || !self.direct.begin() {
            return false;
        }
        let pid = self.process.pid();
        let copied = copy(pid, address, &access.body, is_read);
        self.direct.end();
        if let Err(error) = &copied {
            let peer = self.peer.index();
            log::info!(
                NAME,
                EpData,
                "memory of peer {peer} (process {pid}) cannot be accessed directly, its process is asked: {error}"
            );
            self.direct.fail();
        }
        copied.is_ok()
    }

    /// Returns where memory is that the peer has granted. A grant that is the next cell of the lane is taken at once: a thread that posts
    /// many accesses need not poll before the last one is posted.
    fn granted(&mut self, target: &Target, is_read: bool) -> Option<u64> {
        let found = self.direct.find(target, is_read);
        if found.is_some() || self.stalled || self.broken {
            return found;
        }
        let arrived = self.rx.peek()?;
        let cell = Cell::parse(arrived.meta, &arrived.words).ok()?;
        let Body::Link { words } = cell.body else {
            return None;
        };
        if cell.kind != GRANT {
            return None;
        }
        if let Err(why) = self.accept_link(&cell, words) {
            self.fail(why);
            return None;
        }
        if self.rx.advance(0) {
            self.ring();
        }
        self.direct.find(target, is_read)
    }

    /// Returns whether the peer is there, and has taken the messages that an access may not overtake.
    fn may_access(&mut self) -> bool {
        if self.ending.is_some() {
            return false;
        }
        let Ok(taken) = self.tx.taken() else {
            return false;
        };
        let (process, probe, incarnation) = (&self.process, self.probe, self.incarnation);
        self.direct.order.is_free(self.tx.pushed(), taken)
            && self.direct.seen.found_or(|| {
                let found = process::read_word(process.pid(), probe);
                process.runs() && found.is_ok_and(|found| found == incarnation)
            })
    }

    /// Grants the peer the region that it accesses by a frame, if others of this length are worth it; returns whether it has a grant.
    #[inline(never)]
    pub(super) fn grant(&mut self, len: u64, key: u64, sink: &mut impl Sink) -> bool {
        if self.direct.is_granted(key) {
            return true;
        }
        if len < SHORTEST || !self.direct.takes_grants() || self.ending.is_some() {
            return false;
        }
        let Some(region) = sink.open_region(key) else {
            return false;
        };
        let has_space = self.has_cell();
        if has_space {
            // The access itself is the next one that the lane counts.
            let taken = self.rx.taken().wrapping_add(1);
            let cell = self.direct.grant(key, &region, taken);
            self.push_unordered(&cell);
        }
        has_space
    }
}

/// Copies between memory of this process and of another one.
#[inline(always)]
fn copy(pid: i32, address: u64, memory: &Iov, is_read: bool) -> io::Result<()> {
    // One call copies up to 2 GiB: that is all of it, unless a page is missing.
    match copy_once(pid, address, memory, is_read)? {
        all if all == memory.len() => Ok(()),
        some => copy_rest(pid, address, memory, is_read, some),
    }
}

#[inline(always)]
fn copy_once(pid: i32, address: u64, memory: &Iov, is_read: bool) -> io::Result<usize> {
    let there = (address, memory.len() as u64);
    match is_read {
        true => process::read_memory(pid, &[there], memory),
        false => process::write_memory(pid, there, memory),
    }
}

/// Copies what is left after the first `before` bytes.
#[cold]
fn copy_rest(pid: i32, address: u64, memory: &Iov, is_read: bool, before: usize) -> io::Result<()> {
    let rest = memory.len() - before;
    process::copy_whole(rest, |done| {
        let here = memory.slice(before + done, rest - done);
        copy_once(pid, address + (before + done) as u64, &here, is_read)
    })
}
