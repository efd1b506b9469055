//! What has arrived from a peer, until it is taken in order. Hot path.
//!
//! `early[i]` is the packet `next + 1 + i`, if it has come before its time. `waiting` are bytes in order that the consumer
//! has not taken yet. What both hold together is what the peer's credit is short of.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::channel::Consumer;
use super::parts::Parts;

/// Maximum number of packets that a peer may have under way to here.
pub(super) const CREDIT: usize = 1024;

/// Bytes that each channel may keep, whatever others keep: the rest of a packet that the consumer has taken a part of.
const ALWAYS: usize = 64 << 10;

/// Bytes of a place in `early`: one packet that is far ahead makes hundreds of them.
const PLACE: usize = size_of::<Option<Vec<u8>>>();

/// The receiving half of a channel.
#[derive(Debug, Default)]
pub(super) struct Receiver {
    /// The number of the first packet that has not come.
    next: u64,
    early: VecDeque<Option<Vec<u8>>>,
    waiting: VecDeque<Vec<u8>>,
    parts: Parts,
    /// Bytes taken of the first one waiting.
    taken: usize,
    /// The bytes of all packets in `early` and `waiting`, and of the places in `early`.
    kept: usize,
}

impl Receiver {
    /// Returns the number of the first packet that has not come.
    #[inline]
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Goes on behind packets that have come.
    pub(super) fn go_on(&mut self, next: u64) {
        self.next = next;
    }

    /// Returns the packets behind the first missing one that have come, as a bit set.
    pub(super) fn more(&self) -> u128 {
        let mut bits = 0;
        for (at, packet) in self.early.iter().take(128).enumerate() {
            bits |= u128::from(packet.is_some()) << at;
        }
        bits
    }

    /// Returns the number of packets from `next` on that there is room for.
    pub(super) fn credit(&self) -> u16 {
        CREDIT.saturating_sub(self.waiting.len()) as u16
    }

    /// Returns whether bytes wait for the consumer.
    pub(super) fn is_stalled(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns the number of bytes here that were not taken.
    #[inline]
    pub(super) fn kept(&self) -> usize {
        self.kept + self.parts.bytes()
    }

    /// Returns whether `len` bytes more may be kept.
    fn may_keep(&self, len: usize, consumer: &impl Consumer) -> bool {
        len <= consumer.room() || self.kept().saturating_add(len) <= ALWAYS
    }

    /// Takes a part of a packet, and the packet with the last one of them. Returns whether that was new.
    #[cold]
    pub(super) fn take_part(
        &mut self,
        number: u64,
        payload: &[u8],
        most: usize,
        consumer: &mut impl Consumer,
    ) -> bool {
        self.parts.forget(self.next);
        let wanted = number.wrapping_sub(self.next) < self.credit().into();
        let wanted = wanted && self.may_keep(most, consumer);
        let whole = wanted.then(|| self.parts.take(number, payload, most));
        let whole = whole.flatten();
        whole.is_some_and(|whole| self.take(number, &whole, consumer))
    }

    /// Takes a packet; hands what is in order to the consumer. Returns whether it was new.
    pub(super) fn take(
        &mut self,
        number: u64,
        payload: &[u8],
        consumer: &mut impl Consumer,
    ) -> bool {
        let Some(ahead) = number.checked_sub(self.next) else {
            return false;
        };
        if ahead >= u64::from(self.credit()) {
            return false;
        }
        if let Some(at) = (ahead as usize).checked_sub(1) {
            let places = (at + 1).saturating_sub(self.early.len());
            let cost = payload.len() + places * PLACE;
            let is_here = self.early.get(at).is_some_and(Option::is_some);
            if is_here || !self.may_keep(cost, consumer) {
                return false;
            }
            if places > 0 {
                self.early.resize_with(at + 1, || None);
            }
            self.kept += cost;
            self.early[at] = Some(payload.to_vec());
            return true;
        }
        if self.is_stalled() && !self.may_keep(payload.len(), consumer) {
            return false;
        }
        self.next += 1;
        self.hand(payload, consumer);
        while let Some(packet) = self.early.pop_front() {
            self.kept -= PLACE;
            if self.early.is_empty() {
                // The table of a peer that was far ahead once is not kept for the life of its channel.
                self.early = VecDeque::new();
            }
            let Some(payload) = packet else { break };
            self.next += 1;
            self.kept -= payload.len();
            self.hand(&payload, consumer);
        }
        true
    }

    /// Delivers again what waits; returns whether any of it was taken.
    pub(super) fn resume(&mut self, consumer: &mut impl Consumer) -> bool {
        let mut moved = false;
        while let Some(first) = self.waiting.front() {
            let taken = consumer.take(&first[self.taken..]);
            self.taken += taken;
            moved |= taken > 0;
            if self.taken < first.len() {
                break;
            }
            self.kept -= first.len();
            self.taken = 0;
            self.waiting.pop_front();
        }
        moved
    }

    fn hand(&mut self, payload: &[u8], consumer: &mut impl Consumer) {
        let taken = match self.waiting.is_empty() {
            true => consumer.take(payload),
            false => 0,
        };
        if taken < payload.len() {
            self.kept += payload.len() - taken;
            self.waiting.push_back(payload[taken..].to_vec());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets nothing be kept beyond what each channel may always keep.
    struct Full;

    impl Consumer for Full {
        fn take(&mut self, bytes: &[u8]) -> usize {
            bytes.len()
        }

        fn room(&self) -> usize {
            0
        }
    }

    #[test]
    fn places_of_packets_that_are_far_ahead_count_like_their_bytes() {
        let mut receiver = Receiver::default();
        let last = u64::from(receiver.credit()) - 1;
        assert!(receiver.take(last, b"", &mut Full));
        assert_eq!(receiver.kept(), last as usize * PLACE);
        let packet = [0; 1000];
        let taken = (1..last).filter(|number| receiver.take(*number, &packet, &mut Full));
        assert_eq!(
            taken.count(),
            (ALWAYS - last as usize * PLACE) / packet.len()
        );
        assert!(receiver.kept() <= ALWAYS);
        // One that may not be kept makes no places either.
        let mut receiver = Receiver::default();
        assert!(!receiver.take(last, &[0; ALWAYS], &mut Full));
        assert_eq!((receiver.kept(), receiver.early.capacity()), (0, 0));
        // And with the last packet they are gone.
        assert!((1..100).all(|number| receiver.take(number, b"x", &mut Full)));
        assert!(receiver.take(0, b"x", &mut Full));
        assert_eq!((receiver.kept(), receiver.early.capacity()), (0, 0));
    }

    /// Takes a limited number of bytes.
    struct Taker(Vec<u8>, usize);

    impl Consumer for Taker {
        fn take(&mut self, bytes: &[u8]) -> usize {
            let part = bytes.len().min(self.1 - self.0.len());
            self.0.extend_from_slice(&bytes[..part]);
            part
        }
    }

    #[test]
    fn packets_are_taken_in_order_and_once() {
        let mut receiver = Receiver::default();
        let mut taker = Taker(Vec::new(), 100);
        assert!(receiver.take(2, b"c", &mut taker));
        assert!(receiver.take(1, b"b", &mut taker));
        assert!(!receiver.take(2, b"c", &mut taker), "twice");
        assert_eq!((receiver.next(), receiver.more()), (0, 0b11));
        assert!(receiver.take(0, b"a", &mut taker));
        assert_eq!((receiver.next(), receiver.more()), (3, 0));
        assert!(!receiver.take(0, b"a", &mut taker), "long ago");
        assert_eq!(taker.0, b"abc");
    }

    #[test]
    fn what_is_not_taken_waits_and_costs_credit() {
        let mut receiver = Receiver::default();
        let mut taker = Taker(Vec::new(), 3);
        let all = receiver.credit();
        assert!(receiver.take(0, b"abcd", &mut taker));
        assert!(receiver.take(1, b"ef", &mut taker));
        assert_eq!(receiver.credit(), all - 2);
        assert!(!receiver.resume(&mut taker));
        taker.1 = 5;
        assert!(receiver.resume(&mut taker));
        assert_eq!(receiver.credit(), all - 1);
        taker.1 = 100;
        assert!(receiver.resume(&mut taker));
        assert_eq!((receiver.credit(), receiver.is_stalled()), (all, false));
        assert_eq!(taker.0, b"abcdef");
    }

    #[test]
    fn nothing_is_kept_beyond_the_credit() {
        let mut receiver = Receiver::default();
        let mut taker = Taker(Vec::new(), 0);
        let credit = u64::from(receiver.credit());
        assert!(!receiver.take(credit, b"x", &mut taker));
        assert!(!receiver.take(u64::MAX, b"x", &mut taker));
        for number in (0..credit).rev() {
            assert!(receiver.take(number, b"x", &mut taker));
        }
        assert_eq!((receiver.credit(), receiver.next()), (0, credit));
        assert!(!receiver.take(credit, b"x", &mut taker));
    }
}
