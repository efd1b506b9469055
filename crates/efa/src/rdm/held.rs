//! Packets that the engine has no room for: they wait at their peer, and together they keep the device from taking more.

use std::collections::VecDeque;

use super::EfaRdm;
use crate::sys::ReceiveBuffers;

/// Bytes of packets for which the engine has no room, beyond which no receive is posted any more: senders' devices wait then.
const STALLED_MAX: usize = 64 << 20;

/// What packets of a peer that the application does not know may cost, of those that the engine has no room for.
const UNKNOWN_MAX: usize = 4 << 20;

/// Returns whether more waits of a peer than it may have here. A known one has no bound of its own: [`STALLED_MAX`] bounds all together.
pub(super) const fn is_too_much(bytes: usize, is_known: bool) -> bool {
    !is_known && bytes > UNKNOWN_MAX
}

/// How many messages of a peer may be read of which packets are to come, as each has one under way at least: more than the queue of any device takes.
const UNFINISHED_MAX: u32 = 1 << 14;

/// The messages of a peer that were read and of which packets are to come.
#[derive(Debug, Default)]
pub(super) struct Unfinished(u32);

impl Unfinished {
    /// Counts one more; returns whether there are more than the peer's device can have under way, so that some will never come.
    pub(super) const fn is_too_much(&mut self) -> bool {
        self.0 += 1;
        self.0 > UNFINISHED_MAX
    }

    /// Counts one less.
    pub(super) const fn ended(&mut self) {
        self.0 = self.0.saturating_sub(1);
    }
}

/// Packets without order that wait until the engine has room.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    packets: VecDeque<Box<[u8]>>,
    bytes: usize,
}

impl Backlog {
    pub(super) fn push(&mut self, packet: &[u8]) {
        self.bytes += packet.len();
        self.packets.push_back(packet.into());
    }

    pub(super) fn pop(&mut self) -> Option<Box<[u8]>> {
        let packet = self.packets.pop_front()?;
        self.bytes -= packet.len();
        Some(packet)
    }

    pub(super) fn put_back(&mut self, packet: Box<[u8]>) {
        self.bytes += packet.len();
        self.packets.push_front(packet);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Returns whether receives are posted while so much waits for the engine.
const fn may_receive(stalled_bytes: usize) -> bool {
    stalled_bytes <= STALLED_MAX
}

impl EfaRdm {
    /// Posts the buffers that are idle, unless too much waits for the engine.
    #[inline]
    pub(super) fn post_receives(&mut self) {
        if self.rx.as_deref().is_some_and(ReceiveBuffers::is_due) {
            self.post_due_receives();
        }
    }

    #[inline(never)]
    fn post_due_receives(&mut self) {
        let Some(rx) = &mut self.rx else {
            return;
        };
        if may_receive(self.stalled_bytes) {
            rx.post(&self.qp);
        }
        if rx.is_due() {
            self.idle_period.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_for_the_engine_is_bounded() {
        assert!(may_receive(STALLED_MAX) && !may_receive(STALLED_MAX + 1));
        assert!(!is_too_much(UNKNOWN_MAX, false) && is_too_much(UNKNOWN_MAX + 1, false));
        assert!(!is_too_much(STALLED_MAX, true));
    }

    #[test]
    fn messages_of_which_a_part_never_comes_are_bounded() {
        let mut unfinished = Unfinished::default();
        for _ in 0..3 * UNFINISHED_MAX {
            assert!(!unfinished.is_too_much());
            unfinished.ended();
        }
        let most = (0..2 * UNFINISHED_MAX).take_while(|_| !unfinished.is_too_much());
        assert_eq!(most.count(), UNFINISHED_MAX as usize);
    }

    #[test]
    fn a_backlog_is_taken_in_order_and_counted() {
        let mut backlog = Backlog::default();
        backlog.push(b"one");
        backlog.push(b"three");
        assert_eq!(backlog.bytes(), 8);
        let first = backlog.pop().expect("it is there");
        assert_eq!(&*first, b"one");
        backlog.put_back(first);
        assert_eq!(backlog.pop().as_deref(), Some(&b"one"[..]));
        assert_eq!(backlog.pop().as_deref(), Some(&b"three"[..]));
        assert_eq!((backlog.pop(), backlog.bytes()), (None, 0));
    }
}
