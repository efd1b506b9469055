//! The rendezvous threshold of a connection: measurements decide from which length on messages are pulled (docs/protocol/shm.md 6.8,
//! docs/adr/0051).
//!
//! A long message is read from its sender's memory, by a system call, or copied twice through the lane, by both processes
//! at the same time. Which of the two is faster depends on whether the two processors share a cache, on the kernel and on what
//! virtualises them: the length up to which the lane is faster is 6 KiB on some machines, and more than the lane holds on others. So
//! the receiver takes the time of both, and tells the sender.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::region::Side;
use crate::sys::memory::Mapping;

/// Shortest part of a message in the ring whose copying is timed: of shorter ones, the clock would be most of it.
const TIMED: usize = 4096;

/// First of the two sides' words that ask for a threshold, behind the doorbells; a side's own is the one that it writes.
const THRESHOLD_WORD: usize = 32;
/// First of the two sides' words that say how long a side takes to copy into the ring, in picoseconds a byte.
const SENDER_WORD: usize = 33;

/// Samples of the ring, and of a class of pulls, before they count: the first ones pay for pages that are touched for the first time.
const RING_SAMPLES: u32 = 32;
const PULL_SAMPLES: u32 = 8;
/// Samples after which a [`Fastest`] forgets those before the last this many.
const BLOCK: u32 = 64;
/// Once there are enough samples, one in this many copies and pulls is timed.
const SAMPLE_EVERY: u32 = 16;
/// Pulls after which the ring is tried anew where it was slower.
const PULLS_PER_TRIAL: u32 = 4096;

/// Copies after which pulls are tried anew where they were slower.
const COPIES_PER_TRIAL: u32 = 1 << 16;
/// Picoseconds a byte that every copy takes at least: a part that took less was not copied, but dropped.
const NO_COPY_PS: u64 = 12;

/// Binary logarithms of the lengths that are compared: the shortest class of messages, and how many there are.
const FIRST_CLASS: u32 = 12;
const CLASSES: usize = 5;

/// The least of the last samples, in picoseconds a byte, so that interruptions by other processes do not count.
#[derive(Clone, Copy, Debug)]
struct Fastest {
    /// The least of the block that is being filled, and of the one before.
    least: [u64; 2],
    count: u32,
}

impl Default for Fastest {
    fn default() -> Self {
        Self {
            least: [u64::MAX; 2],
            count: 0,
        }
    }
}

impl Fastest {
    fn add(&mut self, len: usize, took: Duration) {
        let sample = picoseconds(len, took);
        if self.count.is_multiple_of(BLOCK) {
            self.least = [u64::MAX, self.least[0]];
        }
        self.least[0] = self.least[0].min(sample);
        self.count = self.count.saturating_add(1);
    }

    /// Returns whether one more sample is wanted: `needed` at first, and then of one copy in [`SAMPLE_EVERY`], of which this is number `copy`.
    fn is_wanted(&self, needed: u32, copy: u32) -> bool {
        self.count < needed || copy.is_multiple_of(SAMPLE_EVERY)
    }

    /// Returns the least, once there are as many samples as `needed`.
    fn least(&self, needed: u32) -> Option<u64> {
        (self.count >= needed).then_some(self.least[0].min(self.least[1]))
    }
}

/// The times of one connection, and the words by which its sides tell each other.
#[derive(Debug)]
pub(crate) struct RndvThreshold {
    head: Arc<Mapping>,
    side: Side,
    /// The longest message that the sender may be asked to send without a rendezvous; zero if times are not taken.
    most: usize,
    ring: Fastest,
    /// What this side's own copies into the ring take.
    sends: Fastest,
    /// Copies into the ring.
    sent: u32,
    pulls: [Fastest; CLASSES],
    copies: u32,
    /// Pulls since the ring was tried.
    untried: u32,
    /// What this side has asked for.
    asked: usize,
    /// What the other side was last seen to ask for.
    seen: u64,
}

impl RndvThreshold {
    /// Returns the state of a new connection. `most` is the longest message that may go without a rendezvous; with zero, the threshold
    /// is `fixed` and no time is taken.
    pub(crate) fn new(head: Arc<Mapping>, side: Side, most: usize, fixed: usize) -> Self {
        Self {
            head,
            side,
            most,
            ring: Fastest::default(),
            sends: Fastest::default(),
            sent: 0,
            pulls: Default::default(),
            copies: 0,
            untried: 0,
            asked: if most == 0 { fixed } else { 0 },
            seen: 0,
        }
    }

    /// Returns whether copies of parts of this length through the ring are timed.
    const fn is_timed(&self, len: usize) -> bool {
        len >= TIMED && self.most != 0
    }

    /// Returns the time, if the copying of a part of this length out of the ring is to be timed.
    #[inline]
    pub(crate) fn start(&mut self, len: usize) -> Option<Instant> {
        if !self.is_timed(len) {
            return None;
        }
        self.copies = self.copies.wrapping_add(1);
        if self.copies.is_multiple_of(COPIES_PER_TRIAL) {
            self.pulls = Default::default();
        }
        let wanted = self.ring.is_wanted(RING_SAMPLES, self.copies);
        wanted.then(Instant::now)
    }

    /// Returns the time, if the copying of a part of this length into the ring is to be timed.
    #[inline]
    pub(crate) fn start_send(&mut self, len: usize) -> Option<Instant> {
        if !self.is_timed(len) {
            return None;
        }
        self.sent = self.sent.wrapping_add(1);
        let wanted = self.sends.is_wanted(RING_SAMPLES, self.sent);
        wanted.then(Instant::now)
    }

    /// Takes note of how long it took to copy a part of a message into the ring, and tells the receiver.
    #[cold]
    pub(crate) fn note_sent(&mut self, len: usize, took: Duration) {
        self.sends.add(len, took);
        if let Some(least) = self.sends.least(RING_SAMPLES) {
            let word = self.side.word(&self.head, SENDER_WORD);
            word.store(least, Ordering::Relaxed);
        }
    }

    /// Returns the time, if the pull of a message of this length is to be timed.
    #[inline]
    pub(crate) fn start_pull(&mut self, len: usize) -> Option<Instant> {
        let class = class_of(len).filter(|_| self.most != 0)?;
        self.untried += 1;
        if self.untried == PULLS_PER_TRIAL {
            self.untried = 0;
            self.ring = Fastest::default();
            self.ask();
        }
        let wanted = self.pulls[class].is_wanted(PULL_SAMPLES, self.untried);
        wanted.then(Instant::now)
    }

    /// Takes note of how long it took to copy a part of a message out of the ring.
    #[cold]
    pub(crate) fn note_copied(&mut self, len: usize, took: Duration) {
        if picoseconds(len, took) > NO_COPY_PS {
            self.ring.add(len, took);
            self.ask();
        }
    }

    /// Takes note of how long it took to pull a message.
    #[cold]
    pub(crate) fn note_pulled(&mut self, len: usize, took: Duration) {
        if let Some(class) = class_of(len) {
            self.pulls[class].add(len, took);
            self.ask();
        }
    }

    /// Returns whether the initiator of a write that it has announced is to copy it into the lane.
    pub(crate) fn is_copied(&self, len: u64) -> bool {
        (1..=self.asked as u64).contains(&len)
    }

    /// Tells the sender up to which length it need not wait for a rendezvous, if that has changed.
    fn ask(&mut self) {
        let best = self.longest().min(self.most);
        if best != self.asked {
            self.asked = best;
            self.word(self.side).store(best as u64, Ordering::Relaxed);
        }
    }

    /// Returns the longest message that the ring is faster for; zero if there is none. As long as the ring was not timed, it is tried.
    ///
    /// The receiver copies a part while the sender copies the next one. So a message takes what the slower side's copies
    /// take, and the other's first or last one: half as much as all of its copies. A pull of twice the length takes at least the same time, and so at least
    /// half as much a byte: that stands for classes that were not pulled.
    fn longest(&self) -> usize {
        let ring = self.ring.least(RING_SAMPLES).map_or(0, |ours| {
            let theirs = self.side.other().word(&self.head, SENDER_WORD);
            let theirs = match theirs.load(Ordering::Relaxed) {
                0 => ours,
                known => known,
            };
            ours.max(theirs).saturating_add(ours.min(theirs) / 2)
        });
        let mut known = None;
        let mut longest = 0;
        for (class, pulls) in (FIRST_CLASS..).zip(&self.pulls) {
            known = pulls
                .least(PULL_SAMPLES)
                .or(known.map(|shorter| shorter / 2));
            match known {
                None => {}
                Some(pull) if ring < pull => longest = (2 << class) - 1,
                Some(_) => break,
            }
        }
        longest
    }

    /// Returns the longest message that the other side wants without a rendezvous, if that has changed: at least `least`, and no
    /// longer than what this side was made for.
    pub(crate) fn change(&mut self, least: usize) -> Option<usize> {
        let asked = self.word(self.side.other()).load(Ordering::Relaxed);
        if self.most == 0 || asked == self.seen {
            return None;
        }
        self.seen = asked;
        Some(
            usize::try_from(asked)
                .map_or(self.most, |asked| asked.min(self.most))
                .max(least),
        )
    }

    fn word(&self, side: Side) -> &AtomicU64 {
        side.word(&self.head, THRESHOLD_WORD)
    }
}

/// Returns the time that each byte took, in picoseconds.
fn picoseconds(len: usize, took: Duration) -> u64 {
    let each = took.as_nanos().saturating_mul(1000) / len.max(1) as u128;
    u64::try_from(each).unwrap_or(u64::MAX)
}

/// Returns the index of the class of messages of a length, if they are compared.
fn class_of(len: usize) -> Option<usize> {
    let class = len.checked_ilog2()?.checked_sub(FIRST_CLASS)? as usize;
    (class < CLASSES).then_some(class)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 64 * 1024;

    /// Returns both sides of a connection.
    fn sides(most: usize) -> [RndvThreshold; 2] {
        let head = Arc::new(Mapping::private(8192).expect("two pages"));
        [Side::Initiator, Side::Acceptor]
            .map(|side| RndvThreshold::new(Arc::clone(&head), side, most, 7_000))
    }

    fn pull(side: &mut RndvThreshold, len: usize, nanoseconds: u64, count: u32) {
        for _ in 0..count {
            if side.start_pull(len).is_some() {
                side.note_pulled(len, Duration::from_nanos(nanoseconds));
            }
        }
    }

    fn copy(side: &mut RndvThreshold, len: usize, nanoseconds: u64, count: u32) {
        for _ in 0..count {
            side.note_copied(len, Duration::from_nanos(nanoseconds));
        }
    }

    #[test]
    fn the_sender_learns_up_to_which_length_the_ring_is_faster() {
        let [mut receiver, mut sender] = sides(MOST);
        assert_eq!(sender.change(6144), None);
        pull(&mut receiver, 10_000, 3_000, PULL_SAMPLES);
        assert_eq!(sender.change(6144), Some(MOST), "the ring is tried");
        // 98 ps a byte, and 146 with the sender's first part; the pull 300, twice the length at least 150.
        copy(&mut receiver, 8_192, 800, RING_SAMPLES);
        assert_eq!(sender.change(6144), Some(32_767));
        pull(&mut receiver, MOST, 1_000_000, PULL_SAMPLES);
        assert_eq!(sender.change(6144), None, "the class between is not known");
        pull(&mut receiver, MOST / 2, 1_000_000, PULL_SAMPLES);
        assert_eq!(sender.change(6144), Some(MOST));
        assert!(receiver.is_copied(MOST as u64) && !receiver.is_copied(MOST as u64 + 1));
    }

    #[test]
    fn what_the_sender_takes_counts() {
        let [mut receiver, mut sender] = sides(MOST);
        pull(&mut receiver, 10_000, 2_000, PULL_SAMPLES);
        copy(&mut receiver, 8_192, 800, RING_SAMPLES - 1);
        for _ in 0..RING_SAMPLES {
            if sender.start_send(8_192).is_some() {
                sender.note_sent(8_192, Duration::from_nanos(2_000));
            }
        }
        assert_eq!(sender.change(6144), Some(MOST), "the ring is tried");
        // 244 ps a byte at the sender, 98 at the receiver; the pull 200.
        copy(&mut receiver, 8_192, 800, 1);
        assert_eq!(sender.change(6144), Some(6144));
    }

    #[test]
    fn a_slow_ring_is_left_and_tried_again() {
        let [mut receiver, mut sender] = sides(MOST);
        pull(&mut receiver, 10_000, 2_000, PULL_SAMPLES);
        copy(&mut receiver, 8_192, 8_192, RING_SAMPLES - 1);
        assert_eq!(sender.change(6144), Some(MOST));
        copy(&mut receiver, 8_192, 8_192, 1);
        assert_eq!(sender.change(6144), Some(6144));
        pull(&mut receiver, 10_000, 2_000, PULLS_PER_TRIAL);
        assert_eq!(sender.change(6144), Some(MOST));
    }

    #[test]
    fn a_shorter_class_that_is_better_pulled_ends_the_longer_ones() {
        let [mut receiver, _] = sides(MOST);
        copy(&mut receiver, 8_192, 8_192, RING_SAMPLES);
        pull(&mut receiver, 10_000, 20_000, PULL_SAMPLES);
        pull(&mut receiver, 20_000, 20_000, PULL_SAMPLES);
        pull(&mut receiver, 40_000, 1_000_000, PULL_SAMPLES);
        assert!(receiver.is_copied(16_383) && !receiver.is_copied(16_384));
    }

    #[test]
    fn pulls_that_were_slow_once_are_tried_again() {
        let [mut receiver, mut sender] = sides(MOST);
        pull(&mut receiver, 10_000, 20_000, PULL_SAMPLES);
        copy(&mut receiver, 8_192, 8_192, RING_SAMPLES);
        assert_eq!(sender.change(6144), Some(16_383));
        for _ in 0..COPIES_PER_TRIAL {
            if receiver.start(TIMED).is_some() {
                copy(&mut receiver, 8_192, 8_192, 1);
            }
        }
        assert_eq!(sender.change(6144), Some(6144));
        pull(&mut receiver, 10_000, 2_000, PULL_SAMPLES);
        assert_eq!(sender.change(6144), None);
    }

    #[test]
    fn a_part_that_is_dropped_does_not_count_as_copied() {
        let [mut receiver, _] = sides(MOST);
        pull(&mut receiver, 10_000, 2_000, PULL_SAMPLES);
        copy(&mut receiver, 6_144, 50, 1);
        copy(&mut receiver, 8_192, 8_192, RING_SAMPLES);
        assert!(!receiver.is_copied(10_000));
    }

    #[test]
    fn one_undisturbed_sample_is_enough() {
        let mut fastest = Fastest::default();
        for at in 0..BLOCK {
            let took = if at == 3 { 1_000 } else { 1_000_000 };
            fastest.add(1_000, Duration::from_nanos(took));
        }
        assert_eq!(fastest.least(BLOCK), Some(1_000));
        assert_eq!(fastest.least(BLOCK + 1), None);
        for _ in 0..=BLOCK {
            fastest.add(1_000, Duration::from_nanos(5_000));
        }
        assert_eq!(fastest.least(1), Some(5_000), "times change");
    }

    #[test]
    fn nothing_is_timed_where_a_parameter_decides() {
        let [mut receiver, mut sender] = sides(0);
        assert!(receiver.start(1 << 20).is_none() && receiver.start_pull(8_000).is_none());
        assert!(receiver.is_copied(7_000) && !receiver.is_copied(7_001));
        assert!(!receiver.is_copied(0), "nothing is to be copied");
        receiver
            .word(Side::Initiator)
            .store(9_000, Ordering::Relaxed);
        assert_eq!(sender.change(6144), None);
    }

    #[test]
    fn a_hostile_word_is_within_bounds() {
        let [receiver, mut sender] = sides(MOST);
        for (word, expected) in [(u64::MAX, MOST), (1, 6144)] {
            receiver
                .word(Side::Initiator)
                .store(word, Ordering::Relaxed);
            assert_eq!(sender.change(6144), Some(expected));
        }
    }

    #[test]
    fn only_lengths_that_are_compared_have_a_class() {
        assert_eq!(class_of(0), None);
        assert_eq!(class_of(4095), None);
        assert_eq!(class_of(4096), Some(0));
        assert_eq!(class_of(1 << 16), Some(4));
        assert_eq!(class_of(1 << 17), None);
    }
}
