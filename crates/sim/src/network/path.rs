//! Paths: the links that a packet takes.

use std::collections::BTreeMap;

use oxifabric_types::Instant;

use crate::pipe::{Pipe, Speed};
use crate::plan::Plan;

/// A link in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkId {
    /// From a node to its switch.
    Up(u32),
    /// From a switch to a node of its.
    Down(u32),
    /// From a rack to the switch of racks.
    Out(u32),
    /// From the switch of racks to a rack.
    In(u32),
}

/// All links.
#[derive(Debug)]
pub(super) struct Paths {
    link: Speed,
    trunk: Speed,
    /// Number of nodes in a rack; zero where there are no racks.
    rack: u32,
    /// Up and down of each node, out and in of each rack.
    nodes: BTreeMap<u32, [Pipe; 2]>,
    racks: BTreeMap<u32, [Pipe; 2]>,
}

impl Paths {
    pub(super) fn new(plan: &Plan) -> Self {
        let speed = |gbps: f64| Speed {
            ns_per_byte: 8.0 / gbps,
            latency_ns: (plan.link.latency_us * 1e3) as u64,
            // What adapters send waits for as long as it has to; how much it is, their windows bound.
            queue_bytes: match plan.nic {
                None => plan.link.queue_bytes as f64,
                Some(_) => f64::INFINITY,
            },
        };
        Self {
            link: speed(plan.link.gbps),
            trunk: speed(plan.rack.map_or(plan.link.gbps, |rack| rack.gbps)),
            rack: plan.rack.map_or(0, |rack| rack.nodes),
            nodes: BTreeMap::new(),
            racks: BTreeMap::new(),
        }
    }

    /// Returns the link that a packet from one node to another takes after `hops` others; `None` when it has arrived. Endpoints of one
    /// node need none.
    pub(super) fn next(&self, [from, to]: [u32; 2], hops: u8) -> Option<LinkId> {
        if from == to {
            return None;
        }
        let racks = [from, to].map(|node| node.checked_div(self.rack).unwrap_or(0));
        match (hops, racks[0] == racks[1]) {
            (0, _) => Some(LinkId::Up(from)),
            (1, true) | (3, false) => Some(LinkId::Down(to)),
            (1, false) => Some(LinkId::Out(racks[0])),
            (2, false) => Some(LinkId::In(racks[1])),
            _ => None,
        }
    }

    /// Sends bytes through a link; returns when they are at its end, or `None` when its queue is full.
    pub(super) fn pass(&mut self, link: LinkId, at: Instant, bytes: usize) -> Option<Instant> {
        let (pipes, index, side, speed) = match link {
            LinkId::Up(node) => (&mut self.nodes, node, 0, &self.link),
            LinkId::Down(node) => (&mut self.nodes, node, 1, &self.link),
            LinkId::Out(rack) => (&mut self.racks, rack, 0, &self.trunk),
            LinkId::In(rack) => (&mut self.racks, rack, 1, &self.trunk),
        };
        let pipe = &mut pipes.entry(index).or_default()[side];
        let arrives = pipe.pass(at.as_nanos(), bytes, speed)?;
        Some(Instant::from_nanos(arrives))
    }
}
