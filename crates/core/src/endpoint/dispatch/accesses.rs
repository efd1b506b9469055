//! Reads, writes and atomics of this endpoint and of its peers: the memory that they are granted, and where their results go.

use core::ptr;

use oxifabric_engine::{Completion, OpenRegion, Target};
use oxifabric_mem::{Iov, IovSegment, MAX_SEGMENTS};
use oxifabric_types::{Errno, FiAddr, Flags};

use super::counters::ResultCounter;
use super::{CompletionDispatch, SEPARATE};
use crate::domain::Domain;
use crate::mr::persistent::write_back;

/// Returns the registered memory of a domain that a peer names, or why there is none.
#[inline(always)]
pub(super) fn region(domain: &Domain, targets: &[Target], access: Flags) -> Result<Iov, Errno> {
    if let [target] = targets {
        let mut regions = domain.regions();
        if let Some((piece, registration)) = regions.one_piece(target, access) {
            regions.granted(targets);
            // SAFETY: as in `scattered_region`.
            return Ok(unsafe {
                match registration {
                    None => Iov::contiguous(piece.base(), piece.len()),
                    Some(registration) => Iov::registered(piece.base(), piece.len(), registration),
                }
            });
        }
    }
    scattered_region(domain, targets, access)
}

/// Returns memory in several pieces, or why there is none.
pub(super) fn scattered_region(
    domain: &Domain,
    targets: &[Target],
    access: Flags,
) -> Result<Iov, Errno> {
    let mut pieces = [IovSegment::new(ptr::null_mut(), 0); MAX_SEGMENTS];
    let mut count = 0;
    let mut regions = domain.regions();
    for target in targets {
        regions.each_piece(target, access, |piece| {
            // Regions of many pieces are more scattered than an operation can be.
            *pieces.get_mut(count).ok_or(Errno::OPNOTSUPP)? = piece;
            count += 1;
            Ok(())
        })?;
    }
    regions.granted(targets);
    // SAFETY: the application registered the memory for such accesses by peers, which it permits until the region
    // is closed (fi_mr(3)).
    unsafe { Iov::scattered(&pieces[..count]) }.ok_or(Errno::ACCES)
}

/// Counts an access by a peer on the counters of its regions, on each once.
#[cold]
fn count_regions(domain: &Domain, access: &Completion, targets: &[Target]) {
    let regions = domain.regions();
    let count = |key| {
        let counters = regions.counters(key, access.flags);
        counters.for_each(|cntr| cntr.add(1));
    };
    match targets {
        [] | [_] => count(access.context as u64),
        targets => {
            for (at, target) in targets.iter().enumerate() {
                if !targets[..at].iter().any(|before| before.key == target.key) {
                    count(target.key);
                }
            }
        }
    }
}

/// Counts an access by a peer on the counters of its regions, and writes back what must outlast the process.
#[cold]
fn take_note(domain: &Domain, access: &Completion, targets: &[Target]) {
    write_back(domain, access, targets);
    count_regions(domain, access, targets);
}

impl CompletionDispatch {
    /// Returns a region whose accesses by peers nothing here counts, reports or writes back.
    pub(super) fn unwatched_region(&self, key: u64) -> Option<OpenRegion> {
        let domain = self.domain.as_ref()?;
        let counted = self.accesses.remote_read.is_some() || self.accesses.remote_write.is_some();
        if counted || !self.opens_regions || domain.rma_targets().is_watched() {
            return None;
        }
        domain.regions().open(key)
    }

    /// Takes note of an access by a peer where regions are counted, or outlast the process.
    #[inline(always)]
    pub(super) fn count_access(&self, access: &Completion, targets: &[Target]) {
        let guarded = || Some(&self.guard.as_ref()?.domain);
        if let Some(domain) = self.domain.as_ref().or_else(guarded)
            && domain.rma_targets().is_watched()
        {
            take_note(domain, access, targets);
        }
    }

    /// Routes what became of a read or write, of this endpoint's own or of a peer's. Not inlined, so that messages have
    /// the hot path for themselves.
    #[inline(never)]
    pub(super) fn route_access(&self, completion: &Completion, source: FiAddr) {
        if completion.flags.intersects(SEPARATE) {
            return self.route_separate(completion, source);
        }
        if self.accesses.any
            && let Some(counter) = self.access_counter(completion.flags)
        {
            counter.count(completion.len);
        }
        if let Some(cq) = &self.side(completion.flags).cq
            && completion.wanted
        {
            cq.push(&shown(completion), source.0);
        }
    }

    /// Returns where a read or write is counted. An atomic of a peer that fetches counts as a read, whether it changes something
    /// or not (fi_endpoint(3)); on regions it counts as a write if it does (fi_mr(3)).
    pub(super) fn access_counter(&self, flags: Flags) -> Option<&ResultCounter> {
        let counters = &self.accesses;
        let own = if flags.contains(Flags::COLLECTIVE) {
            &counters.write
        } else if flags.contains(Flags::READ) {
            &counters.read
        } else if flags.contains(Flags::WRITE) {
            &counters.write
        } else if flags.contains(Flags::REMOTE_READ) {
            &counters.remote_read
        } else {
            &counters.remote_write
        };
        own.as_ref()
    }
}

/// Returns what the application sees of a read or write: a peer's atomic that fetches is shown as the read that endpoints count, though it may also
/// change something.
fn shown(access: &Completion) -> Completion {
    let mut shown = *access;
    if access.flags.contains(Flags::REMOTE_READ) {
        shown.flags.remove(Flags::REMOTE_WRITE);
    }
    shown
}
