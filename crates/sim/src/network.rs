//! The network: its endpoints, the packets under way, and its time.
//!
//! It does no I/O and reads no clock. Every packet takes each link on its way as an event; events of one instant happen in
//! the order in which they were made. The plan's seed determines all that is random, so that the same calls have the
//! same outcome. Between adapters (`adapters`) nothing is lost.

mod adapters;
mod nodes;
mod path;
mod stats;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use oxifabric_types::Instant;

use crate::nic::Head;
use crate::plan::Plan;
use crate::random::Random;
use adapters::Adapters;
use nodes::Nodes;
pub use nodes::Place;
use path::Paths;
pub use stats::{Count, Stats};

/// Virtual time begins here: no instant is zero, which protocols take for none.
pub(crate) const BEGIN: Instant = Instant::from_nanos(1_000_000_000);

/// Number of packet buffers that are kept for reuse.
const SPARE: usize = 1024;

/// A simulated network.
#[derive(Debug)]
pub struct Network {
    plan: Plan,
    began: Instant,
    now: Instant,
    random: Random,
    nodes: Nodes,
    paths: Paths,
    events: BinaryHeap<Reverse<Event>>,
    /// Number of events that were scheduled, which orders those of one instant.
    made: u64,
    stats: Stats,
    spare: Vec<Vec<u8>>,
    adapters: Adapters,
}

/// A packet under way.
#[derive(Clone, Debug)]
pub struct Packet {
    /// The sender.
    pub from: Place,
    /// The destination.
    pub to: Place,
    /// Number of links that it has taken.
    hops: u8,
    /// The payload.
    pub bytes: Vec<u8>,
    /// Its header, if an adapter sent it.
    pub(crate) head: Option<Box<Head>>,
    /// Its number among all packets of adapters.
    number: u64,
}

impl Packet {
    /// Returns its length on a link, in bytes.
    fn len(&self) -> usize {
        match self.head {
            None => self.bytes.len(),
            Some(_) => self.bytes.len() + Head::LEN,
        }
    }
}

#[derive(Debug)]
struct Event {
    at: Instant,
    number: u64,
    what: What,
}

#[derive(Debug)]
enum What {
    /// A packet has come to the end of a link.
    Hop(Box<Packet>),
    /// An endpoint wanted to be polled.
    Timer(Place),
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl Network {
    /// Creates an empty network whose time begins at `begin`.
    pub fn new(plan: Plan, begin: Instant) -> Self {
        Self {
            random: Random::new(plan.seed),
            paths: Paths::new(&plan),
            plan,
            began: begin,
            now: begin,
            nodes: Nodes::default(),
            events: BinaryHeap::new(),
            made: 0,
            stats: Stats::default(),
            spare: Vec::new(),
            adapters: Adapters::default(),
        }
    }

    /// Returns the plan that is simulated.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the time of the network.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Returns the counters.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Returns the nodes and their endpoints.
    pub(crate) fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// Returns the nodes and their endpoints.
    pub(crate) fn nodes_mut(&mut self) -> &mut Nodes {
        &mut self.nodes
    }

    /// Returns the next random number, which the seed determines.
    pub fn draw(&mut self) -> u64 {
        self.random.next()
    }

    /// Returns the place with a name, whether an endpoint is there or not; `None` for what is no name.
    pub fn place(&mut self, name: &str) -> Option<Place> {
        self.nodes.place(name)
    }

    /// Takes a place; false if it is taken. Nothing arrives before [`Network::open`].
    pub fn settle(&mut self, place: Place) -> bool {
        self.nodes.settle(place)
    }

    /// Lets packets arrive at a place from now on.
    pub fn open(&mut self, place: Place) {
        self.nodes.open(place);
    }

    /// Gives a place up; what has arrived there is lost.
    pub fn leave(&mut self, place: Place) {
        self.nodes.leave(place);
        self.detach(place);
    }

    /// Returns an empty buffer for a packet.
    pub fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Gives the buffer of a packet back.
    pub fn recycle(&mut self, mut bytes: Vec<u8>) {
        if self.spare.len() < SPARE {
            bytes.clear();
            self.spare.push(bytes);
        }
    }

    /// Sends a packet; false when no endpoint is at its destination.
    pub fn send(&mut self, from: Place, to: Place, bytes: Vec<u8>) -> bool {
        self.stats.sent(&bytes);
        if !self.nodes.is_open(to) {
            self.recycle(bytes);
            return false;
        }
        self.nodes.wake(to);
        let link = self.plan.link;
        let chance = self.random.share();
        let packet = Box::new(Packet {
            from,
            to,
            hops: 0,
            bytes,
            head: None,
            number: 0,
        });
        if chance < link.drop {
            self.lose(packet.bytes, Count::Lost);
            return true;
        }
        if chance < link.drop + link.dup {
            self.stats.count(Count::Doubled);
            self.hop(self.now, packet.clone());
        } else if chance < link.drop + link.dup + link.reorder {
            self.stats.count(Count::Late);
            let late_ns = link.late_us * 1e3 * self.random.share();
            let later = Duration::from_nanos(late_ns as u64);
            self.schedule(self.now.after(later), What::Hop(packet));
            return true;
        }
        self.hop(self.now, packet);
        true
    }

    /// Takes the packets that have arrived at a place, in exchange for an empty queue.
    pub fn take(&mut self, place: Place, into: &mut VecDeque<Packet>) {
        self.nodes.take(place, into);
    }

    /// Ends a poll of the endpoint at a place, which wants to be polled again at `due`, if no packet comes before.
    pub fn set_due(&mut self, place: Place, due: Instant, busy: bool) {
        if let Some(at) = self.nodes.set_due(place, due, busy, self.now) {
            self.schedule(at, What::Timer(place));
        }
    }

    /// Returns when the next event is due.
    pub fn next_event(&self) -> Option<Instant> {
        self.events.peek().map(|Reverse(event)| event.at)
    }

    /// Advances the time to `until`, and handles the events that are due by then.
    pub fn pass(&mut self, until: Instant) {
        while let Some(at) = self.next_event()
            && at <= until
        {
            let Some(Reverse(event)) = self.events.pop() else {
                break;
            };
            self.now = self.now.max(at);
            match event.what {
                What::Hop(packet) => self.hop(at, packet),
                What::Timer(place) => {
                    if let Some(later) = self.nodes.ring(place, at) {
                        self.schedule(later, What::Timer(place));
                    }
                }
            }
        }
        self.now = self.now.max(until);
    }

    /// Sends a packet on from the end of a link, or delivers it.
    fn hop(&mut self, at: Instant, mut packet: Box<Packet>) {
        let nodes = [packet.from, packet.to].map(|place| self.nodes.node(place));
        if let Some(at_ms) = self.cut_at(nodes, at) {
            return match packet.head {
                None => self.lose(packet.bytes, Count::Cut),
                Some(_) => self.hold_back(packet, nodes, at_ms),
            };
        }
        let Some(link) = self.paths.next(nodes, packet.hops) else {
            return self.deliver(*packet);
        };
        if packet.head.is_none() && packet.bytes.len() > self.plan.link.carries {
            return self.lose(packet.bytes, Count::Cut);
        }
        match self.paths.pass(link, at, packet.len()) {
            Some(arrives) => {
                packet.hops += 1;
                self.schedule(arrives, What::Hop(packet));
            }
            None => self.lose(packet.bytes, Count::Overflowed),
        }
    }

    /// Returns the time as plans say it, in milliseconds, if two nodes are cut off from each other then.
    fn cut_at(&self, [a, b]: [u32; 2], at: Instant) -> Option<f64> {
        if self.plan.cut.is_empty() {
            return None;
        }
        let at_ms = at.since(self.began).as_nanos() as f64 / 1e6;
        self.plan.is_cut(a, b, at_ms).then_some(at_ms)
    }

    fn deliver(&mut self, packet: Packet) {
        if packet.head.is_some() {
            return self.deliver_to_adapter(packet);
        }
        self.stats.count(Count::Delivered);
        if let Some(packet) = self.nodes.deliver(packet) {
            self.recycle(packet.bytes);
        }
    }

    fn lose(&mut self, bytes: Vec<u8>, how: Count) {
        self.stats.count(how);
        self.recycle(bytes);
    }

    fn schedule(&mut self, at: Instant, what: What) {
        let number = self.made;
        self.made += 1;
        self.events.push(Reverse(Event { at, number, what }));
    }
}

#[cfg(test)]
mod tests;
