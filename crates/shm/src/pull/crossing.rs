//! Whether long messages of both sides cross, as in MPI_Sendrecv(3): then each side copies what it receives, alone.
//!
//! Neither side has time for the other's messages then, and each has in its caches what it copied last: a part that the other side copies once takes its lines
//! away, for both. A side that is ready first would ask all the same, as none of its own messages is under way any more; so some more messages must have come alone.
//!
//! A message of ours counts from its Rts until the peer answers it, also while the peer has no receive for it; one in several pieces does not count.

/// How many long messages of the peer must come alone, after one that crossed a long message of ours, before the peer is asked to copy a part of the next one.
pub(super) const ALONE_BEFORE_SHARED: u32 = 16;

/// How lately messages have crossed.
#[derive(Debug, Default)]
pub(super) struct Crossing {
    /// How many messages of the peer are still to come alone.
    left: u32,
}

impl Crossing {
    /// Takes note that a message of ours and one of the peer are under way at a time.
    pub(super) fn note_crossed(&mut self) {
        self.left = ALONE_BEFORE_SHARED;
    }

    /// Takes note of a message of the peer that comes while none of ours is under way.
    pub(super) fn note_alone(&mut self) {
        self.left = self.left.saturating_sub(1);
    }

    /// Returns whether messages have crossed lately.
    pub(super) fn is_recent(&self) -> bool {
        self.left > 0
    }
}
