//! Direct accesses: the initiator of a long read or write carries it out by itself, docs/protocol/shm.md "Direct accesses".
//!
//! A target grants a region to a peer when the peer has accessed it, and takes all grants back at once by counting in a word that
//! both share. The initiator announces each access in a word of its own before it looks at that count, the target counts
//! before it looks at that word; with a fence on both sides, at least one of the two sees the other.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use oxifabric_engine::{OpenRegion, Target};
use oxifabric_types::Flags;
use oxifabric_wire::shm::cell::{Body, Cell};

use crate::doorbell::full_fence;
use crate::recently::Recently;
use crate::region::Side;
use crate::sys::memory::Mapping;

/// The kind of link frame that grants a region.
pub(crate) const GRANT: u8 = 2;

/// Grants that count on a connection, in each direction: an older one is forgotten by both sides when one more comes.
pub(crate) const MAX_GRANTS: usize = 64;

/// Shortest read by frames for which its target grants the region: shorter ones are as fast by frames.
pub(crate) const SHORTEST: u64 = 4096;

/// Longest access that its initiator carries out at once. While a side carries out its accesses it does not poll: frames of the other side wait as long.
/// What is longer goes by frames, so that either side polls between two chunks, and is read by the side that it goes to.
pub(crate) const LONGEST: usize = 4 << 20;

/// Accesses of this side after which a peer that has made none meanwhile is not busy any more: some windows of a program in which both sides make them, one a little
/// later than the other. What is asked for by frames in between would wait for a whole window of the other side.
const BUSY_ACCESSES: u32 = 256;

/// How many accesses are carried out for one look at a busy peer's word: a look takes the word out of the cache of the peer, which writes it twice in each of its accesses.
const ACCESSES_PER_LOOK: u32 = 8;

/// First words of the two sides' counts of revocations, and of accesses that they began and ended.
const REVOCATIONS: usize = 320;
pub(crate) const ACCESSES: usize = 352;

const READ: u32 = 1;
const WRITE: u32 = 2;
/// Bits for these of a grant's id; the others count cells.
const ACCESS_BITS: u32 = 2;

/// What the two sides of a connection grant each other.
#[derive(Debug)]
pub(crate) struct DirectAccess {
    head: Arc<Mapping>,
    side: Side,
    /// Whether the peer takes grants.
    grants: bool,
    /// Keys of regions that the peer has a grant for, oldest first.
    granted: VecDeque<u64>,
    /// The peer's word for an access that had begun when its grants were taken back.
    unfinished: Option<u64>,
    /// Regions of the peer, oldest first.
    held: VecDeque<Grant>,
    /// Number of accesses that this side has begun and ended, together: odd while one is under way.
    accesses: u64,
    theirs: PeerAccesses,
    /// When the peer was seen to be there. Its process may run another program meanwhile: not what [`Identity`](crate::sys::identity::Identity) has seen.
    pub(crate) seen: Recently,
    /// Whether an access failed: no other is tried.
    failed: bool,
    pub(crate) order: AccessOrder,
    /// Longest access that always goes by frames.
    pub(crate) eager: usize,
    /// Whether the peer, which has a grant, is to be told that everything was taken, once it is: it carries out no access before it knows that messages were.
    pub(crate) awaits_position: bool,
}

/// What this side has seen of the peer's accesses.
#[derive(Debug, Default)]
struct PeerAccesses {
    /// How many it had begun and ended when this side looked last.
    count: u64,
    /// For how many more accesses of this side it counts as busy.
    busy: u32,
    /// How many accesses this side makes before it looks again.
    unseen: u32,
}

impl PeerAccesses {
    /// Takes note of the number of accesses that the peer has begun and ended; returns whether it is busy.
    #[inline]
    const fn look(&mut self, count: u64) -> bool {
        if count == self.count {
            self.busy = self.busy.saturating_sub(1);
        } else {
            (self.count, self.busy) = (count, BUSY_ACCESSES);
        }
        self.busy > 0
    }

    /// Takes note of an access; returns whether the peer counts as busy without a look.
    #[inline]
    const fn skips_look(&mut self) -> bool {
        if self.busy <= 1 || self.unseen == 0 {
            self.unseen = ACCESSES_PER_LOOK - 1;
            return false;
        }
        self.unseen -= 1;
        self.busy -= 1;
        true
    }
}

/// A region of the peer that this side may access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    key: u64,
    addr: u64,
    base: u64,
    len: u64,
    access: u32,
    /// The count of revocations at which it holds.
    epoch: u64,
}

impl DirectAccess {
    /// Returns the state of a new connection.
    pub(crate) fn new(head: Arc<Mapping>, side: Side, grants: bool, eager: usize) -> Self {
        Self {
            head,
            side,
            grants,
            granted: VecDeque::new(),
            unfinished: None,
            held: VecDeque::new(),
            accesses: 0,
            theirs: PeerAccesses::default(),
            seen: Recently::default(),
            failed: false,
            order: AccessOrder::default(),
            eager,
            awaits_position: false,
        }
    }

    /// Returns whether the peer has a grant for the region with this key.
    pub(crate) fn is_granted(&self, key: u64) -> bool {
        self.granted.contains(&key)
    }

    /// Returns whether the peer has a grant for any region.
    #[inline]
    pub(crate) fn has_granted(&self) -> bool {
        !self.granted.is_empty()
    }

    /// Returns whether the peer takes grants.
    pub(crate) const fn takes_grants(&self) -> bool {
        self.grants
    }

    /// Grants a region to the peer, of whose cells this side has taken so many; returns the cell that says so.
    pub(crate) fn grant(&mut self, key: u64, region: &OpenRegion, taken: u64) -> Cell {
        if self.granted.len() >= MAX_GRANTS {
            self.granted.pop_front();
        }
        self.granted.push_back(key);
        let mut access = 0;
        if region.access.contains(Flags::REMOTE_READ) {
            access |= READ;
        }
        if region.access.contains(Flags::REMOTE_WRITE) {
            access |= WRITE;
        }
        let epoch = self.side.word(&self.head, REVOCATIONS);
        Cell {
            kind: GRANT,
            flags: 0,
            id: access | (taken as u32) << ACCESS_BITS,
            tag: region.addr,
            data: region.base,
            len: region.len,
            body: Body::Link {
                words: [key, epoch.load(Ordering::Relaxed)],
            },
        }
    }

    /// Takes back all grants. An access that the peer had begun may be under way until [`DirectAccess::is_accessed`] returns false.
    pub(crate) fn revoke(&mut self) {
        if self.granted.is_empty() {
            return;
        }
        self.granted.clear();
        self.side
            .word(&self.head, REVOCATIONS)
            .fetch_add(1, Ordering::Relaxed);
        full_fence();
        let access = self.their_accesses(Ordering::Acquire);
        self.unfinished = (access % 2 == 1).then_some(access);
    }

    /// Returns whether the peer may be in an access that began before the grants were taken back.
    pub(crate) fn is_accessed(&mut self) -> bool {
        let Some(access) = self.unfinished else {
            return false;
        };
        if self.their_accesses(Ordering::Acquire) == access {
            return true;
        }
        self.unfinished = None;
        false
    }

    /// Takes a grant of the peer, to which this side has pushed so many cells; `None` if it breaks the protocol.
    pub(crate) fn take_grant(&mut self, cell: &Cell, words: [u64; 2], pushed: u64) -> Option<()> {
        let grant = Grant {
            key: words[0],
            addr: cell.tag,
            base: cell.data,
            len: cell.len,
            access: cell.id & (READ | WRITE),
            epoch: words[1],
        };
        let whole = grant.addr.checked_add(grant.len).is_some()
            && grant.base.checked_add(grant.len).is_some();
        if !whole {
            return None;
        }
        let untaken = (pushed as u32) << ACCESS_BITS;
        let untaken = untaken.wrapping_sub(cell.id & !(READ | WRITE)) >> ACCESS_BITS;
        self.order.note_taken(pushed.wrapping_sub(untaken.into()));
        self.held
            .retain(|held| held.key != grant.key && held.epoch == grant.epoch);
        if self.held.len() >= MAX_GRANTS {
            self.held.pop_front();
        }
        self.held.push_back(grant);
        Some(())
    }

    /// Returns where granted memory is in the peer's process; `None` where it is not granted.
    pub(crate) fn find(&self, target: &Target, is_read: bool) -> Option<u64> {
        if self.failed {
            return None;
        }
        let access = if is_read { READ } else { WRITE };
        let grant = self.held.iter().find(|grant| grant.key == target.key)?;
        let offset = target.addr.checked_sub(grant.addr)?;
        let rest = grant.len.checked_sub(offset)?;
        (grant.access & access != 0 && target.len <= rest).then(|| grant.base + offset)
    }

    /// Begins an access; returns false when all grants have been taken back.
    #[inline(always)]
    pub(crate) fn begin(&mut self) -> bool {
        self.accesses = self.accesses.wrapping_add(1);
        let word = self.side.word(&self.head, ACCESSES);
        word.store(self.accesses, Ordering::Release);
        full_fence();
        let theirs = self.side.other().word(&self.head, REVOCATIONS);
        let epoch = theirs.load(Ordering::Acquire);
        if self.held.front().is_some_and(|grant| grant.epoch == epoch) {
            return true;
        }
        self.held.retain(|grant| grant.epoch == epoch);
        self.end();
        false
    }

    /// Ends an access: what was written is in the peer's memory.
    pub(crate) fn end(&mut self) {
        self.accesses = self.accesses.wrapping_add(1);
        let word = self.side.word(&self.head, ACCESSES);
        word.store(self.accesses, Ordering::Release);
    }

    /// Notes that this side asks the peer for the long access with this id by a frame, in the cell with this number: the peer sees that
    /// this side makes some.
    pub(crate) fn note_posted(&mut self, cell: u64, id: u32) {
        self.order.add(cell, id);
        self.accesses = self.accesses.wrapping_add(2);
        let word = self.side.word(&self.head, ACCESSES);
        word.store(self.accesses, Ordering::Release);
    }

    /// Returns whether the peer has made accesses of its own lately: it has no time to copy a part of ours.
    #[inline]
    fn is_peer_busy(&mut self) -> bool {
        let count = self.their_accesses(Ordering::Relaxed);
        self.theirs.look(count)
    }

    /// Returns how many accesses the peer has begun and ended, together.
    #[inline(always)]
    fn their_accesses(&self, order: Ordering) -> u64 {
        self.side.other().word(&self.head, ACCESSES).load(order)
    }

    /// As [`DirectAccess::is_peer_busy`], before an access that this side may carry out: looks now and then only.
    #[inline]
    pub(crate) fn is_peer_busy_lately(&mut self) -> bool {
        self.theirs.skips_look() || self.is_peer_busy()
    }

    /// Notes that an access could not be carried out: others go by frames.
    pub(crate) fn fail(&mut self) {
        self.failed = true;
        self.held.clear();
    }
}

/// Which frames must be taken by the peer before an access may be carried out: messages, which accesses may not overtake
/// (FI_ORDER_WAS, FI_ORDER_RAS), and, so that frames need not be looked at, all others but long accesses and answers.
#[derive(Debug, Default)]
pub(crate) struct AccessOrder {
    /// The lane's cells from the first of these on, up to the second one, have no order.
    run: (u64, u64),
    /// An access that the peer answers: its id, and the number of cells up to it.
    awaited: Option<(u32, u64)>,
    /// Cells before this one were taken.
    taken: u64,
}

impl AccessOrder {
    /// Notes that the cell with this number is the access with this id, which the peer answers.
    fn add(&mut self, cell: u64, id: u32) {
        self.note_unordered(cell);
        if self.awaited.is_none() {
            self.awaited = Some((id, self.run.1));
        }
    }

    /// Notes that the cell with this number, the next one of all, has no order with accesses.
    #[inline]
    pub(crate) const fn note_unordered(&mut self, cell: u64) {
        if self.run.1 != cell {
            self.run.0 = cell;
        }
        self.run.1 = cell.wrapping_add(1);
    }

    /// Notes that the peer has answered an access, and so has taken what was before it.
    pub(crate) fn answered(&mut self, id: u32) {
        if let Some((awaited, taken)) = self.awaited
            && awaited == id
        {
            self.awaited = None;
            self.note_taken(taken);
        }
    }

    pub(crate) fn note_taken(&mut self, taken: u64) {
        if is_within(taken, self.taken) {
            self.taken = taken;
        }
    }

    /// Returns whether all that an access may not overtake was taken of `pushed` cells, the first `taken` of which the peer has published to be.
    pub(crate) fn is_free(&mut self, pushed: u64, taken: u64) -> bool {
        self.note_taken(taken);
        let first = if self.run.1 == pushed {
            self.run.0
        } else {
            pushed
        };
        is_within(self.taken, first)
    }
}

/// Returns whether a count, modulo 2^64, is at least another one.
const fn is_within(count: u64, least: u64) -> bool {
    count.wrapping_sub(least) < 1 << 63
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns both sides of a connection.
    fn sides() -> [DirectAccess; 2] {
        let head = Arc::new(Mapping::private(8192).expect("two pages"));
        [Side::Initiator, Side::Acceptor]
            .map(|side| DirectAccess::new(Arc::clone(&head), side, true, 6144))
    }

    const REGION: OpenRegion = OpenRegion {
        addr: 100,
        base: 4096,
        len: 50,
        access: Flags::REMOTE_WRITE,
    };

    fn grant(
        from: &mut DirectAccess,
        to: &mut DirectAccess,
        key: u64,
        region: &OpenRegion,
    ) -> bool {
        let cell = from.grant(key, region, 0);
        let Body::Link { words } = cell.body else {
            return false;
        };
        to.take_grant(&cell, words, 0).is_some()
    }

    fn target(addr: u64, len: u64) -> Target {
        Target { addr, len, key: 7 }
    }

    #[test]
    fn memory_within_a_grant_is_found_with_its_rights() {
        let [mut target_side, mut initiator] = sides();
        assert!(grant(&mut target_side, &mut initiator, 7, &REGION));
        assert_eq!(initiator.find(&target(110, 40), false), Some(4106));
        assert_eq!(initiator.find(&target(110, 41), false), None);
        assert_eq!(initiator.find(&target(99, 1), false), None);
        assert_eq!(initiator.find(&target(u64::MAX, 1), false), None);
        assert_eq!(initiator.find(&target(110, 40), true), None, "no reads");
    }

    #[test]
    fn an_access_that_has_begun_is_waited_for_and_a_later_one_does_not_begin() {
        let [mut target_side, mut initiator] = sides();
        assert!(grant(&mut target_side, &mut initiator, 7, &REGION));
        assert!(initiator.begin());
        target_side.revoke();
        assert!(target_side.is_accessed());
        initiator.end();
        assert!(!target_side.is_accessed());
        assert!(!initiator.begin());
        assert_eq!(initiator.find(&target(110, 1), false), None);
        assert!(grant(&mut target_side, &mut initiator, 7, &REGION));
        assert!(initiator.begin());
        assert!(!target_side.is_accessed(), "that one began later");
    }

    #[test]
    fn a_grant_that_was_taken_back_on_its_way_is_worth_nothing() {
        let [mut target_side, mut initiator] = sides();
        let cell = target_side.grant(7, &REGION, 0);
        target_side.revoke();
        let Body::Link { words } = cell.body else {
            panic!("a cell of the link");
        };
        assert_eq!(initiator.take_grant(&cell, words, 0), Some(()));
        assert!(!initiator.begin());
    }

    #[test]
    fn grants_that_make_no_sense_break_the_protocol() {
        let [mut target_side, mut initiator] = sides();
        for region in [
            OpenRegion {
                addr: u64::MAX,
                ..REGION
            },
            OpenRegion {
                base: u64::MAX,
                ..REGION
            },
        ] {
            assert!(!grant(&mut target_side, &mut initiator, 7, &region));
        }
        assert!(initiator.held.is_empty());
    }

    #[test]
    fn both_sides_keep_the_same_grants() {
        let [mut target_side, mut initiator] = sides();
        for key in 0..3 * MAX_GRANTS as u64 {
            assert!(!target_side.is_granted(key));
            assert!(grant(&mut target_side, &mut initiator, key, &REGION));
        }
        let held: Vec<u64> = initiator.held.iter().map(|grant| grant.key).collect();
        assert_eq!(target_side.granted, held);
        assert_eq!(held.len(), MAX_GRANTS);
    }

    #[test]
    fn accesses_wait_until_the_messages_before_them_are_taken() {
        let mut order = AccessOrder::default();
        // Cells 0 to 2 are messages, 3 and 4 accesses.
        assert!(!order.is_free(3, 2));
        assert!(order.is_free(3, 3));
        let mut order = AccessOrder::default();
        order.add(3, 10);
        order.add(4, 11);
        assert!(!order.is_free(5, 2));
        order.answered(11);
        assert!(!order.is_free(5, 2), "the first one was waited for");
        order.answered(10);
        assert!(order.is_free(5, 2));
        assert!(!order.is_free(6, 2), "a message behind them");
    }

    #[test]
    fn a_grant_tells_how_many_cells_were_taken() {
        let [mut target_side, mut initiator] = sides();
        let pushed = (1 << 33) + 5;
        let cell = target_side.grant(7, &REGION, pushed - 2);
        let Body::Link { words } = cell.body else {
            panic!("a cell of the link");
        };
        assert_eq!(initiator.take_grant(&cell, words, pushed), Some(()));
        assert!(initiator.order.is_free(pushed - 2, 0));
        assert!(!initiator.order.is_free(pushed, 0));
    }

    #[test]
    fn a_peer_is_busy_while_it_makes_accesses() {
        let [mut here, mut peer] = sides();
        assert!(!here.is_peer_busy());
        peer.note_posted(0, 1);
        for _ in 0..=BUSY_ACCESSES - 1 {
            assert!(here.is_peer_busy());
        }
        assert!(!here.is_peer_busy());
    }

    #[test]
    fn a_busy_peer_is_looked_at_once_in_several_accesses_and_an_idle_one_at_each() {
        let [mut here, mut peer] = sides();
        assert!(!here.is_peer_busy_lately());
        peer.note_posted(0, 1);
        for _ in 0..BUSY_ACCESSES {
            assert!(here.is_peer_busy_lately());
        }
        assert!(!here.is_peer_busy_lately(), "it has made none meanwhile");
        peer.note_posted(1, 2);
        assert!(here.is_peer_busy_lately());
        peer.note_posted(2, 3);
        let unseen = (1..=ACCESSES_PER_LOOK).find(|_| {
            let seen = here.theirs.count;
            assert!(here.is_peer_busy_lately());
            here.theirs.count != seen
        });
        assert_eq!(unseen, Some(ACCESSES_PER_LOOK));
    }
}
