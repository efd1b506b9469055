//! The order of the messages and atomics of a peer, which the wire does not keep: what comes early waits for its turn.

use std::collections::{BTreeMap, VecDeque};

/// How far a number may be ahead of the next one.
const AHEAD_MAX: u32 = 1 << 30;
/// What a packet that waits costs beside its bytes.
const OVERHEAD: usize = 128;
/// What packets of a peer may cost that came before what they have to follow. More than a device can have under way.
pub(super) const EARLY_MAX: usize = 64 << 20;

/// The packets of a peer that wait for their turn, and which number has it. Numbers wrap.
#[derive(Debug, Default)]
pub(super) struct Order {
    next: u32,
    /// By how far they are ahead of `base`, which only grows.
    waiting: BTreeMap<u64, VecDeque<Box<[u8]>>>,
    base: u64,
    bytes: usize,
}

/// Where a number is in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It is next.
    Now,
    /// Others come before it.
    Later,
    /// It had its turn.
    Over,
}

impl Order {
    /// Returns where a number is.
    pub(super) fn turn(&self, number: u32) -> Turn {
        match number.wrapping_sub(self.next) {
            0 => Turn::Now,
            ahead if ahead <= AHEAD_MAX => Turn::Later,
            _ => Turn::Over,
        }
    }

    /// Keeps a packet whose turn is not over, behind those of the same number.
    pub(super) fn keep(&mut self, number: u32, packet: &[u8]) {
        let ahead = number.wrapping_sub(self.next);
        self.bytes += cost(packet);
        let at = self.base + u64::from(ahead);
        self.waiting.entry(at).or_default().push_back(packet.into());
    }

    /// Returns what the packets that wait cost.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns whether more waits than a peer can have sent ahead.
    pub(super) const fn is_too_much(&self) -> bool {
        self.bytes > EARLY_MAX
    }

    /// Takes the first packet whose turn it is.
    pub(super) fn take(&mut self) -> Option<Box<[u8]>> {
        let mut entry = self
            .waiting
            .first_entry()
            .filter(|entry| *entry.key() <= self.base)?;
        let packet = entry.get_mut().pop_front();
        if entry.get().is_empty() {
            entry.remove();
        }
        self.bytes -= packet.as_deref().map_or(0, cost);
        packet
    }

    /// Puts a packet back that could not be taken.
    pub(super) fn put_back(&mut self, packet: Box<[u8]>) {
        self.bytes += cost(&packet);
        self.waiting
            .entry(self.base)
            .or_default()
            .push_front(packet);
    }

    /// Notes that the next number had its turn.
    pub(super) fn advance(&mut self) {
        // Further packets of this number, of a message in several ones, are taken before those of the next.
        self.base += 1;
        self.next = self.next.wrapping_add(1);
    }

    /// Returns whether a packet has its turn.
    pub(super) fn is_ready(&self) -> bool {
        self.waiting
            .first_key_value()
            .is_some_and(|(at, _)| *at <= self.base)
    }
}

fn cost(packet: &[u8]) -> usize {
    packet.len() + OVERHEAD
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(next: u32) -> Order {
        Order {
            next,
            ..Order::default()
        }
    }

    #[test]
    fn numbers_wrap_and_what_is_behind_is_over() {
        let order = at(u32::MAX);
        assert_eq!(order.turn(u32::MAX), Turn::Now);
        assert_eq!([0, 5].map(|number| order.turn(number)), [Turn::Later; 2]);
        assert_eq!(order.turn(u32::MAX - 1), Turn::Over);
        assert_eq!(order.turn(AHEAD_MAX.wrapping_sub(1)), Turn::Later);
        assert_eq!(order.turn(AHEAD_MAX), Turn::Over);
    }

    #[test]
    fn packets_are_taken_in_the_order_of_numbers() {
        let mut order = at(u32::MAX - 1);
        for number in [1_u32, 0, u32::MAX, 0] {
            order.keep(number, &number.to_le_bytes());
        }
        assert!(order.take().is_none() && !order.is_ready());
        let mut taken = Vec::new();
        for _ in 0..4 {
            order.advance();
            while let Some(packet) = order.take() {
                taken.push(u32::from_le_bytes(
                    *packet.first_chunk().expect("four bytes"),
                ));
            }
        }
        assert_eq!(taken, [u32::MAX, 0, 0, 1]);
        assert_eq!(order.bytes(), 0);
    }

    #[test]
    fn what_comes_before_its_turn_is_bounded() {
        let mut order = at(0);
        let packet = [0; 8928];
        let most = EARLY_MAX / cost(&packet);
        for number in 1..=most as u32 {
            order.keep(number, &packet);
        }
        assert!(!order.is_too_much());
        order.keep(1, &packet);
        assert!(order.is_too_much());
        let mut empty = at(0);
        (1..=1 + (EARLY_MAX / OVERHEAD) as u32).for_each(|number| empty.keep(number, &[]));
        assert!(empty.is_too_much(), "packets without bytes are not free");
    }

    #[test]
    fn further_packets_of_a_number_follow_its_first_one() {
        let mut order = at(0);
        order.keep(1, b"second");
        order.keep(0, b"first");
        order.keep(0, b"its rest");
        assert_eq!(order.take().as_deref(), Some(&b"first"[..]));
        order.put_back(b"first"[..].into());
        assert_eq!(order.take().as_deref(), Some(&b"first"[..]));
        order.advance();
        assert_eq!(order.take().as_deref(), Some(&b"its rest"[..]));
        assert_eq!(order.take().as_deref(), Some(&b"second"[..]));
        assert_eq!((order.take(), order.bytes()), (None, 0));
    }
}
