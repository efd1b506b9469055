//! The rendezvous threshold of a connection: measurements decide from which length on messages are pulled (docs/protocol/shm.md 6.8,
//! docs/adr/0063, 0068, 0073).
//!
//! A long message is read from its sender's memory, by a system call, or copied twice through the ring, by both processes
//! at the same time. Which of the two is faster depends on whether the two processors share a cache, on the kernel, on what
//! virtualises them, and on what else they do: so the receiver tries both, takes the time, and tells the sender.

mod timed_paths;
mod trials;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::region::Side;
use crate::sys::memory::Mapping;

use timed_paths::TimedPaths;
pub(crate) use trials::SHORTEST;

/// First of the two sides' words that ask for a threshold, behind the doorbells; a side's own is the one that it writes.
pub(crate) const THRESHOLD_WORD: usize = 32;

/// The way on which a long message comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    Ring,
    Pull,
}

/// What one side of a connection asks for, and what it is asked for.
#[derive(Debug)]
pub(crate) struct RndvThreshold {
    head: Arc<Mapping>,
    side: Side,
    paths: TimedPaths,
    /// What this side has asked for.
    asked: usize,
    /// What the other side was last seen to ask for.
    seen: u64,
}

impl RndvThreshold {
    /// Returns the state of a new connection over a byte ring of this size, which measures messages longer than `least` and up to twice the ring: longer ones that come before
    /// their receives would take much of the memory that is kept for such messages.
    pub(crate) fn measured(head: Arc<Mapping>, side: Side, least: usize, ring: usize) -> Self {
        Self {
            head,
            side,
            paths: TimedPaths::new(least, 2 * ring, ring),
            asked: 0,
            seen: 0,
        }
    }

    /// Returns the state of a new connection whose threshold is a parameter.
    pub(crate) fn fixed(head: Arc<Mapping>, side: Side, len: usize) -> Self {
        Self {
            asked: len,
            ..Self::measured(head, side, 0, 0)
        }
    }

    /// Takes note of the end of a message of this length, or of a part of it, that came on this way.
    #[inline]
    pub(crate) fn note(&mut self, len: u64, part: usize, path: Path) {
        if self.paths.note(len, part, path) {
            self.ask();
        }
    }

    /// Returns whether the initiator of a write that it has announced is to copy it into the ring.
    pub(crate) fn is_copied(&self, len: u64) -> bool {
        (1..=self.asked as u64).contains(&len)
    }

    /// Tells the sender up to which length it need not wait for a rendezvous, if that has changed.
    fn ask(&mut self) {
        let wanted = self.paths.limit();
        if wanted != self.asked {
            self.asked = wanted;
            let word = self.word(self.side);
            word.store(wanted as u64, Ordering::Relaxed);
        }
    }

    /// Returns the longest message that the other side wants without a rendezvous, if that has changed: at least `least`, and no
    /// longer than what this side was made for.
    pub(crate) fn change(&mut self, least: usize) -> Option<usize> {
        let asked = self.word(self.side.other()).load(Ordering::Relaxed);
        let most = self.paths.most();
        if most == 0 || asked == self.seen {
            return None;
        }
        self.seen = asked;
        Some(
            usize::try_from(asked)
                .map_or(most, |asked| asked.min(most))
                .max(least),
        )
    }

    fn word(&self, side: Side) -> &AtomicU64 {
        side.word(&self.head, THRESHOLD_WORD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: usize = 6144;
    const RING: usize = 64 * 1024;
    const MOST: usize = 2 * RING;

    fn head() -> Arc<Mapping> {
        Arc::new(Mapping::private(8192).expect("two pages"))
    }

    /// Returns both sides of a connection.
    fn sides() -> [RndvThreshold; 2] {
        let head = head();
        [Side::Initiator, Side::Acceptor]
            .map(|side| RndvThreshold::measured(Arc::clone(&head), side, LEAST, RING))
    }

    /// Lets messages of this length come as asked for until `count` times were taken, each of which was so long.
    fn receive(side: &mut RndvThreshold, len: usize, count: usize, ring: u64, pull: u64) {
        for _ in 0..count {
            let (path, pace) = match side.is_copied(len as u64) {
                true => (Path::Ring, ring),
                false => (Path::Pull, pull),
            };
            side.paths.add(len, path, pace);
            side.ask();
        }
    }

    #[test]
    fn the_sender_learns_up_to_which_length_the_ring_is_faster() {
        let [mut receiver, mut sender] = sides();
        assert_eq!(sender.change(LEAST), None);
        let (fast, slow) = (1_000_000, 1_000_000_000);
        receive(&mut receiver, 10_000, 20, fast, slow);
        assert_eq!(sender.change(LEAST), Some(16_383));
        assert!(receiver.is_copied(16_383) && !receiver.is_copied(16_384));
        receive(&mut receiver, MOST, 20, fast, slow);
        assert_eq!(sender.change(LEAST), Some(MOST));
        receive(&mut receiver, MOST, 1_000, slow, fast);
        assert_eq!(sender.change(LEAST), Some(MOST - 1));
        receive(&mut receiver, 7_000, 1_000, slow, fast);
        assert_eq!(sender.change(LEAST), Some(LEAST));
        assert!(!receiver.is_copied(7_000));
    }

    #[test]
    fn nothing_is_timed_where_a_parameter_decides() {
        let head = head();
        let [mut receiver, mut sender] = [Side::Initiator, Side::Acceptor]
            .map(|side| RndvThreshold::fixed(Arc::clone(&head), side, 7_000));
        for _ in 0..100 {
            receiver.note(8_000, 8_000, Path::Pull);
        }
        assert!(receiver.is_copied(7_000) && !receiver.is_copied(7_001));
        assert!(!receiver.is_copied(0), "nothing is to be copied");
        receiver
            .word(Side::Initiator)
            .store(9_000, Ordering::Relaxed);
        assert_eq!(sender.change(6144), None);
    }

    #[test]
    fn a_hostile_word_is_within_bounds() {
        let [receiver, mut sender] = sides();
        for (word, expected) in [(u64::MAX, MOST), (1, 6144)] {
            receiver
                .word(Side::Initiator)
                .store(word, Ordering::Relaxed);
            assert_eq!(sender.change(6144), Some(expected));
        }
    }
}
