//! What the network has counted.

use std::collections::BTreeMap;

use oxifabric_wire::reliable::packet::{Packet, PacketKind};

/// What may happen to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// It was sent; copies that the network made do not count.
    Sent,
    /// It was data that had been sent before.
    Repeated,
    /// It arrived.
    Delivered,
    /// It was lost at random.
    Lost,
    /// It was doubled.
    Doubled,
    /// It was held back, so that others overtook it.
    Late,
    /// It was lost since a queue was full.
    Overflowed,
    /// It was lost since an end was cut off.
    Cut,
    /// It came from an adapter, and arrived after one that the same endpoint had sent later.
    Overtaken,
    /// It asked for a part of an access, which an adapter carried out.
    Access,
}

/// Number of kinds of [`Count`].
const COUNTS: usize = 10;

/// Counts of packets.
#[derive(Debug, Default)]
pub struct Stats {
    counts: [u64; COUNTS],
    /// Channels, as their receivers call them, and the data packet that comes next in each.
    channels: BTreeMap<u64, u64>,
}

impl Stats {
    /// Returns how often something has happened.
    pub fn of(&self, what: Count) -> u64 {
        self.counts[what as usize]
    }

    pub(super) fn count(&mut self, what: Count) {
        self.counts[what as usize] += 1;
    }

    /// Counts a packet that an adapter sends.
    pub(super) fn sent_by_adapter(&mut self) {
        self.count(Count::Sent);
    }

    /// Looks at a packet that is sent. Data packets of a channel are sent for the first time in the order of their numbers
    /// (docs/protocol/reliable.md section 5), so that whatever comes behind is a repetition.
    pub(super) fn sent(&mut self, bytes: &[u8]) {
        self.count(Count::Sent);
        let Ok((packet, _)) = Packet::parse(bytes) else {
            return;
        };
        if packet.kind != PacketKind::Data {
            return;
        }
        let next = self.channels.entry(packet.to).or_default();
        if packet.number < *next {
            self.count(Count::Repeated);
        } else {
            *next = packet.number + 1;
        }
    }
}
