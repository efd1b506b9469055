//! Time stamps of packets, and the round trips that they measure (protocol section 2).

use core::time::Duration;

use oxifabric_types::Instant;
use oxifabric_wire::reliable::packet::Packet;

use super::Channel;

impl Channel {
    /// Measures the round trip of a packet of ours and its answer.
    pub(super) fn measure(&mut self, now: Instant, packet: &Packet) {
        if packet.echo != 0 && packet.sent == self.heard {
            let took = micros(now)
                .wrapping_sub(packet.echo)
                .saturating_sub(packet.held);
            if took < 1 << 31 {
                self.sender
                    .path
                    .measured(Duration::from_micros(took.into()));
            }
        }
    }

    /// Notes the time stamp of a packet that is certainly the peer's.
    pub(super) fn hear(&mut self, packet: &Packet) {
        let later = packet.sent.wrapping_sub(self.heard);
        if self.heard == 0 || later < 1 << 31 {
            self.heard = packet.sent;
        }
    }

    /// Remembers the time stamp of a packet that was not overtaken, to be echoed.
    pub(super) fn remember(&mut self, now: Instant, packet: &Packet) {
        if packet.sent == self.heard {
            self.echo = packet.sent;
            self.echo_at = now;
        }
    }
}

/// Returns the timestamp of packets; never zero, which stands for none.
pub(crate) fn micros(now: Instant) -> u32 {
    ((now.as_nanos() / 1000) as u32).max(1)
}
