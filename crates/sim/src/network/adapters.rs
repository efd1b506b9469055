//! What the network does for adapters: every packet arrives once, and accesses are carried out where they arrive.
//!
//! An access is carried out when its packet arrives, whether or not the endpoint is polled: neither its engine nor its thread has a part in
//! it. Packets that a cut holds up go on when it heals, in the order in which they came.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use oxifabric_types::Errno;

use super::{Count, Network, Packet, Place, What};
use crate::nic::{Head, NicMemory};
use crate::plan::PacketOrder;

/// What the network knows of adapters.
#[derive(Debug, Default)]
pub(super) struct Adapters {
    open: HashMap<Place, Adapter>,
    /// The last generation or incarnation that began.
    begun: u64,
    /// Numbers packets in the order of sending.
    sent: u64,
    /// For each pair, the highest number that has arrived.
    arrived: BTreeMap<(Place, Place), u64>,
}

/// The adapter of an endpoint.
#[derive(Debug)]
struct Adapter {
    incarnation: u64,
    /// The memory that it reaches.
    memory: Option<Arc<NicMemory>>,
}

impl Network {
    /// Lets the adapter of an endpoint answer, and carry out accesses to memory.
    pub(crate) fn attach(
        &mut self,
        place: Place,
        incarnation: u64,
        memory: Option<Arc<NicMemory>>,
    ) {
        let adapter = Adapter {
            incarnation,
            memory,
        };
        self.adapters.open.insert(place, adapter);
    }

    /// Takes the adapter of an endpoint away, which leaves its place.
    pub(super) fn detach(&mut self, place: Place) {
        self.adapters.open.remove(&place);
        self.adapters
            .arrived
            .retain(|pair, _| pair.0 != place && pair.1 != place);
    }

    /// Begins a generation or an incarnation: a number higher than all before.
    pub(crate) fn begin(&mut self) -> u64 {
        self.adapters.begun += 1;
        self.adapters.begun
    }

    /// Sends a packet of an adapter.
    pub(crate) fn post(&mut self, from: Place, to: Place, head: Head, bytes: Vec<u8>) {
        self.stats.sent_by_adapter();
        self.nodes.wake(to);
        self.adapters.sent += 1;
        let packet = Box::new(Packet {
            from,
            to,
            hops: 0,
            bytes,
            head: Some(Box::new(head)),
            number: self.adapters.sent,
        });
        let order = self.plan.nic.as_ref().map(|nic| nic.order);
        if order != Some(PacketOrder::Unordered) {
            return self.hop(self.now, packet);
        }
        let late_ns = self.plan.link.late_us * 1e3 * self.random.share();
        let later = self.now.after(Duration::from_nanos(late_ns as u64));
        self.schedule(later, What::Hop(packet));
    }

    /// Holds a packet back until its ends are no longer cut off from each other; what waits for ever is lost.
    pub(super) fn hold_back(&mut self, packet: Box<Packet>, nodes: [u32; 2], at_ms: f64) {
        let Some(heals_ms) = self.plan.heals_at(nodes[0], nodes[1], at_ms) else {
            return self.lose(packet.bytes, Count::Cut);
        };
        if packet.hops == 0 {
            self.stats.count(Count::Late);
        }
        // A nanosecond later, since milliseconds are not exact.
        let until = self
            .began
            .after(Duration::from_nanos((heals_ms * 1e6) as u64 + 1));
        self.schedule(until, What::Hop(packet));
    }

    /// Carries out what an adapter does by itself, and delivers the rest.
    pub(super) fn deliver_to_adapter(&mut self, mut packet: Packet) {
        let (from, to) = (packet.from, packet.to);
        let newest = self.adapters.arrived.entry((from, to)).or_default();
        if packet.number < *newest {
            self.stats.count(Count::Overtaken);
        }
        *newest = packet.number.max(*newest);
        self.stats.count(Count::Delivered);
        let Some(head) = packet.head.take() else {
            return;
        };
        let adapter = self.adapters.open.get(&to);
        let Some(adapter) = adapter.filter(|_| self.nodes.is_open(to)) else {
            if let Some(refusal) = head.refusal() {
                self.post(to, from, refusal, Vec::new());
            }
            return;
        };
        let alive = Head::Alive(adapter.incarnation);
        match *head {
            Head::Request(request) => {
                let refused = Err(Errno::NOKEY);
                let memory = adapter.memory.as_deref();
                let result =
                    memory.map_or(refused, |memory| memory.carry_out(&request, &packet.bytes));
                self.stats.count(Count::Access);
                let (result, read) = match result {
                    Ok(read) => (Ok(()), read),
                    Err(errno) => (Err(errno), Vec::new()),
                };
                self.post(to, from, Head::Done(request.id, result), read);
            }
            Head::Probe => self.post(to, from, alive, Vec::new()),
            head => {
                if matches!(head, Head::Hello(..)) {
                    self.post(to, from, alive, Vec::new());
                }
                packet.head = Some(Box::new(head));
                self.nodes.deliver(packet);
            }
        }
    }
}
