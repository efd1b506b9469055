//! Packets that the engine has no room for: they wait at their peer, and together they keep the device from taking more.

use std::collections::VecDeque;

use super::EfaRdm;

/// Bytes of packets for which the engine has no room, beyond which no receive is posted any more: senders' devices wait then.
const STALLED_MAX: usize = 64 << 20;

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

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }
}

impl EfaRdm {
    /// Posts the buffers that are idle, unless too much waits for the engine.
    pub(super) fn post_receives(&mut self) {
        if let Some(rx) = &mut self.rx
            && self.stalled_bytes <= STALLED_MAX
        {
            rx.post(&self.qp);
        }
    }
}
