//! All nodes of a simulation, which run in the order of the network's events.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use oxifabric::{Address, Domain, Fabric, Info, Simulation};

use oxifabric_bench::histogram::Histogram;

use super::super::Trouble;
use super::super::bench::progress_bar;
use super::Options;
use super::memory::resident;
use super::node::{Node, Tally};
use super::pattern::{Plot, Random};

/// Number of peers of each node before the measurement, so that there are open channels without traffic.
pub(super) const MEETINGS: u32 = 4;

/// How long messages that were begun may take to arrive, in the network's time.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(60);

/// Memory is measured once in this number of turns.
const LOOK_EVERY: u64 = 1 << 16;

pub(super) struct Nodes {
    nodes: Vec<Node>,
    addresses: Vec<Address>,
    network: Simulation,
    plot: Plot,
    random: Random,
    /// Nanoseconds between two messages of a node, on average.
    pause_ns: f64,
    pub(super) tally: Tally,
    pub(super) begun: u64,
    /// The network's time in which messages were sent and arrived.
    pub(super) took: Duration,
    pub(super) wall: Duration,
    /// The same before that: until all nodes were open and had met.
    pub(super) set_up: (Duration, Duration),
    pub(super) turns: u64,
    pub(super) memory: Memory,
    began: Instant,
    bar: ProgressBar,
}

/// Bytes of this process.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Memory {
    /// Before there were nodes.
    pub(super) before: u64,
    /// With all nodes.
    pub(super) opened: u64,
    /// When each had met one other, and nothing was under way; and how many ends of channels there were then.
    pub(super) first: (u64, usize),
    /// When each had met some more.
    pub(super) met: (u64, usize),
    /// At most.
    pub(super) peak: u64,
}

impl Nodes {
    /// Opens all nodes.
    pub(super) fn open(info: &Info, options: &Options) -> Result<Self, Trouble> {
        let began = Instant::now();
        let steps = options.nodes * (1 + MEETINGS);
        let bar = progress_bar(steps as usize).with_message("opening the nodes");
        let fabric = Fabric::open(info)?;
        let domain = Domain::open_local(&fabric, info)?;
        let before = resident().unwrap_or(0);
        let nodes = (0..options.nodes).map(|_| {
            bar.inc(1);
            Node::open(&domain, options.size)
        });
        let nodes = nodes.collect::<Result<Vec<_>, _>>()?;
        let addresses = nodes.iter().map(Node::address).collect::<Result<_, _>>()?;
        let network = Simulation::of(nodes[0].endpoint())?;
        let mut random = Random::new(options.seed());
        Ok(Self {
            addresses,
            network,
            plot: Plot::new(
                options.pattern,
                options.nodes,
                options.partners,
                &mut random,
            ),
            random,
            pause_ns: 1e9 / options.rate,
            tally: tally(),
            begun: 0,
            took: Duration::ZERO,
            wall: Duration::ZERO,
            set_up: (Duration::ZERO, Duration::ZERO),
            turns: 0,
            memory: Memory {
                before,
                opened: resident().unwrap_or(0),
                ..Memory::default()
            },
            nodes,
            began,
            bar,
        })
    }

    pub(super) const fn network(&self) -> &Simulation {
        &self.network
    }

    /// Returns the number of ends of channels.
    pub(super) fn ends(&self) -> usize {
        self.nodes.iter().map(Node::peers).sum()
    }

    /// Returns the number of messages that have not arrived.
    pub(super) const fn missing(&self) -> u64 {
        self.begun.saturating_sub(self.tally.arrived)
    }

    /// Has each node send a message to some others, to measure what an idle peer costs.
    pub(super) fn meet(&mut self) -> Result<(), Trouble> {
        let others = MEETINGS.min(self.nodes.len() as u32 - 1);
        self.memory.first = self.meet_those(1)?;
        self.memory.met = self.memory.first;
        for ahead in 2..=others {
            self.memory.met = self.meet_those(ahead)?;
        }
        if self.missing() > 0 || self.tally.wrong > 0 {
            return Err(
                "not all nodes reach each other: is one cut off from the beginning on?".into(),
            );
        }
        (self.tally, self.begun, self.turns) = (tally(), 0, 0);
        self.set_up = (self.network.now(), self.began.elapsed());
        self.bar.finish_and_clear();
        Ok(())
    }

    /// Has each node send a message to the one at this distance ahead of it. Returns how much memory there is then, and how many
    /// ends of channels.
    fn meet_those(&mut self, ahead: u32) -> Result<(u64, usize), Trouble> {
        let all = self.nodes.len() as u32;
        for me in 0..all {
            self.send(me, (me + ahead) % all, self.network.now())?;
            self.bar.inc(1);
        }
        self.finish()?;
        // Acknowledgements are late.
        self.run(self.network.now() + Duration::from_secs(1))?;
        Ok((resident().unwrap_or(0), self.ends()))
    }

    /// Sends for a time, and waits until everything has arrived.
    pub(super) fn play(&mut self, time: Duration) -> Result<(), Trouble> {
        let clock = Instant::now();
        let start = self.network.now();
        self.bar = progress_bar(time.as_millis() as usize).with_message("ms of the network's time");
        let mut next: BinaryHeap<_> = (0..self.nodes.len())
            .map(|node| Reverse((start + self.pause(), node)))
            .collect();
        while let Some(Reverse((at, node))) = next.pop()
            && at < start + time
        {
            self.run(at)?;
            self.begin(node, at)?;
            self.bar.set_position((at - start).as_millis() as u64);
            next.push(Reverse((at + self.pause(), node)));
        }
        self.look();
        self.finish()?;
        self.bar.finish_and_clear();
        self.took = self.network.now() - start;
        self.wall = clock.elapsed();
        Ok(())
    }

    /// Returns the time until a node sends again: messages are begun independently of each other.
    fn pause(&mut self) -> Duration {
        Duration::from_nanos((-self.random.share().ln() * self.pause_ns) as u64)
    }

    fn begin(&mut self, node: usize, now: Duration) -> Result<(), Trouble> {
        let me = node as u32;
        let number = self.nodes[node].begun;
        match self.plot.target(me, number, &mut self.random) {
            Some(to) => self.send(me, to, now),
            None => Ok(()),
        }
    }

    fn send(&mut self, me: u32, to: u32, now: Duration) -> Result<(), Trouble> {
        let node = &mut self.nodes[me as usize];
        if !node.knows(to) {
            node.learn(to, &self.addresses[to as usize])?;
        }
        self.begun += 1;
        node.send(me, to, now, &mut self.tally.spare)
    }

    /// Runs nodes in turn, until a time.
    fn run(&mut self, until: Duration) -> Result<(), Trouble> {
        while let Some(turn) = self.network.turn(until) {
            self.step(turn)?;
        }
        Ok(())
    }

    /// Runs nodes until everything has arrived.
    fn finish(&mut self) -> Result<(), Trouble> {
        let end = self.network.now() + ARRIVAL_TIMEOUT;
        while self.missing() > 0
            && let Some(turn) = self.network.turn(end)
        {
            self.step(turn)?;
        }
        Ok(())
    }

    fn step(&mut self, turn: u64) -> Result<(), Trouble> {
        let now = self.network.now();
        let node = usize::try_from(turn)
            .ok()
            .and_then(|node| self.nodes.get_mut(node));
        let node = node.ok_or("the network names a node that does not exist")?;
        node.step(turn as u32, now, &mut self.tally)?;
        self.turns += 1;
        if self.turns.is_multiple_of(LOOK_EVERY) {
            self.look();
        }
        Ok(())
    }

    fn look(&mut self) {
        self.memory.peak = self.memory.peak.max(resident().unwrap_or(0));
    }

    /// Returns how many messages wait at their senders.
    pub(super) fn waiting(&self) -> usize {
        self.nodes.iter().map(Node::waits).sum()
    }
}

fn tally() -> Tally {
    Tally {
        times: Histogram::new(),
        arrived: 0,
        wrong: 0,
        spare: Vec::new(),
    }
}
