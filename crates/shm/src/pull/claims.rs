//! Which side copies which chunk of a message, in words that both sides of a connection write.

use std::sync::atomic::Ordering;

use crate::region::Side;
use crate::sys::memory::Mapping;

/// First word of the tables of claims, which lie behind the doorbells' words; both sides have one.
const TABLE_WORD: usize = 64;
/// Maximum number of messages that a sender may help to copy at a time, in each direction.
pub(super) const SLOTS: usize = 8;
/// Words of a slot: two cache lines. The first has the claims and the count of chunks that the sender has copied, which
/// mostly change at the same time; the second is padding.
const SLOT_WORDS: usize = 16;
const DONE_WORD: usize = 1;
/// Chunks that a claims word counts, at most.
pub(super) const MAX_CHUNKS: u64 = (1 << 20) - 1;
/// The sender's count when it could not write a chunk that it had claimed; it has stopped.
const FAILED: u64 = u64::MAX;

/// The words of one slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot<'a> {
    head: &'a Mapping,
    at: usize,
}

/// Numbers of chunks that the two sides have claimed, from the front and from the back, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claims {
    /// Number that tells this use of the slot from others.
    pub(super) turn: u32,
    pub(super) front: u64,
    pub(super) back: u64,
}

/// The end of a message from which a side claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Front,
    Back,
}

/// How the chunks of a message are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Split {
    /// Some chunks are not claimed yet.
    Open,
    /// All chunks are claimed, this many of them by the sender.
    Whole(u64),
    /// The words break the protocol.
    Broken,
}

/// What the sender has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SenderProgress {
    Done(u64),
    Failed,
}

impl<'a> Slot<'a> {
    /// Returns a slot of the side that receives.
    pub(super) fn new(head: &'a Mapping, receiver: Side, slot: usize) -> Self {
        let table = receiver as usize * SLOTS;
        Self {
            head,
            at: TABLE_WORD + (table + slot % SLOTS) * SLOT_WORDS,
        }
    }

    /// Begins a use of the slot, with the first chunk claimed. The other side must learn of the turn by a frame that is
    /// published later.
    pub(super) fn begin(self, turn: u32) {
        let fresh = Claims {
            turn,
            front: 1,
            back: 0,
        };
        self.head
            .word(self.at + DONE_WORD)
            .store(0, Ordering::Relaxed);
        self.head
            .word(self.at)
            .store(fresh.pack(), Ordering::Relaxed);
    }

    /// Claims the next chunk; returns how many were claimed from that end before. `None` when all are claimed, or the
    /// slot has another use by now.
    pub(super) fn claim(self, turn: u32, chunks: u64, end: End) -> Option<u64> {
        let word = self.head.word(self.at);
        let mut seen = word.load(Ordering::Relaxed);
        loop {
            let mut claims = Claims::unpack(seen);
            if claims.turn != turn || claims.front + claims.back >= chunks {
                return None;
            }
            let field = match end {
                End::Front => &mut claims.front,
                End::Back => &mut claims.back,
            };
            let index = *field;
            *field += 1;
            match word.compare_exchange(seen, claims.pack(), Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(index),
                Err(now) => seen = now,
            }
        }
    }

    /// Returns whether all chunks are claimed, and how many by the sender.
    pub(super) fn split(self, turn: u32, chunks: u64) -> Split {
        let claims = Claims::unpack(self.head.word(self.at).load(Ordering::Relaxed));
        match claims.front + claims.back {
            _ if claims.turn != turn => Split::Broken,
            claimed if claimed < chunks => Split::Open,
            claimed if claimed == chunks => Split::Whole(claims.back),
            _ => Split::Broken,
        }
    }

    /// Counts a chunk that the sender has copied, or notes that it gives up.
    pub(super) fn sender_copied(self, written: bool) {
        let done = self.head.word(self.at + DONE_WORD);
        let count = done.load(Ordering::Relaxed);
        let value = if written {
            count.wrapping_add(1)
        } else {
            FAILED
        };
        done.store(value, Ordering::Release);
    }

    /// Returns what the sender has done; the chunks that it counts are complete.
    pub(super) fn sender_progress(self) -> SenderProgress {
        match self.head.word(self.at + DONE_WORD).load(Ordering::Acquire) {
            FAILED => SenderProgress::Failed,
            done => SenderProgress::Done(done),
        }
    }
}

impl Claims {
    pub(super) const TURN_MASK: u32 = (1 << 24) - 1;

    const fn pack(self) -> u64 {
        (self.turn as u64) << 40 | self.front << 20 | self.back
    }

    const fn unpack(word: u64) -> Self {
        Self {
            turn: (word >> 40) as u32,
            front: word >> 20 & MAX_CHUNKS,
            back: word & MAX_CHUNKS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_survive_packing() {
        let claims = Claims {
            turn: 0xabcdef,
            front: MAX_CHUNKS,
            back: 5,
        };
        assert_eq!(Claims::unpack(claims.pack()), claims);
    }

    #[test]
    fn both_ends_share_all_chunks_and_no_chunk_twice() {
        let head = Mapping::private(8192).expect("two pages");
        let slot = Slot::new(&head, Side::Acceptor, SLOTS - 1);
        slot.begin(3);
        assert_eq!(
            slot.claim(2, 3, End::Front),
            None,
            "another use of the slot"
        );
        assert_eq!(slot.split(3, 3), Split::Open);
        assert_eq!(slot.claim(3, 3, End::Front), Some(1));
        assert_eq!(slot.claim(3, 3, End::Back), Some(0));
        assert_eq!(slot.split(3, 3), Split::Whole(1));
        assert_eq!(slot.split(2, 3), Split::Broken, "another use of the slot");
        assert_eq!(slot.claim(3, 3, End::Back), None);
        assert_eq!(slot.claim(3, 3, End::Front), None);
    }

    #[test]
    fn copied_chunks_are_counted_until_one_fails() {
        let head = Mapping::private(8192).expect("two pages");
        let slot = Slot::new(&head, Side::Initiator, 0);
        slot.begin(1);
        slot.sender_copied(true);
        assert_eq!(slot.sender_progress(), SenderProgress::Done(1));
        slot.sender_copied(false);
        assert_eq!(slot.sender_progress(), SenderProgress::Failed);
    }
}
