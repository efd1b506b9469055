//! Steps everything, and drains it at the end.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use oxifabric_engine::{Engine, Link};
use oxifabric_mem::Iov;
use oxifabric_sim::{Count, SimDomain, World as Network};
use oxifabric_types::{Instant, PeerId};

use crate::access::Regions;
use crate::app::{Events, Node};
use crate::atomic;
use crate::check::{Book, Op, Verdict, ensure};
use crate::clocks::Clocks;
use crate::config::Config;
use crate::net::{BROKEN, Net, SimLink};
use crate::nic::{self, NicLink};
use crate::packets::{AnyLink, DEADLINE, PacketLink, spell};
use crate::rng::Rng;

/// Number of rounds that draining may take before something is held to be stuck.
const DRAIN_ROUNDS: usize = 20_000;

/// Endpoints, their network, and the book.
pub(crate) struct World {
    config: Config,
    rng: Rng,
    net: Rc<RefCell<Net>>,
    /// The network of packets, if the links are reliable channels or adapters.
    network: Option<Arc<Network>>,
    /// Since when operations are under way.
    clocks: Clocks,
    regions: Regions,
    /// Where adapters find them.
    domain: Option<Arc<SimDomain>>,
    nodes: Vec<Node>,
    /// The cells of every endpoint that atomics add to.
    cells: Vec<Iov>,
    book: Book,
    now: u64,
    step: usize,
}

impl World {
    pub(crate) fn new(config: &Config, seed: u64) -> Self {
        let regions = Regions::default();
        let net = Net::new(config, Rng::new(seed ^ 0x5555), &regions);
        let net = Rc::new(RefCell::new(net));
        let cells: Vec<Iov> = (0..config.nodes).map(|_| atomic::cells()).collect();
        // The first keys are the numbers of the endpoints.
        regions.borrow_mut().extend(cells.iter().cloned());
        let packets = config.packets.map(|packets| packets.network(seed));
        let network = packets.or(config.nics.map(|nics| nics.network(seed)));
        let domain = config.nics.map(|nics| nics.domain());
        for (key, cells) in cells.iter().enumerate() {
            if let Some(domain) = &domain {
                nic::register(domain, cells, key as u64);
            }
        }
        let mut world = Self {
            config: config.clone(),
            rng: Rng::new(seed),
            nodes: Vec::new(),
            net,
            network,
            clocks: Clocks::default(),
            regions,
            domain,
            cells,
            book: Book::new(config),
            now: 0,
            step: 0,
        };
        world.nodes = (0..config.nodes).map(|me| world.node(me)).collect();
        world
    }

    /// Returns a new endpoint.
    fn node(&self, me: usize) -> Node {
        let mut engine = Engine::new(self.config.engine);
        engine.set_self(PeerId(me as u32));
        (0..self.config.nodes as u32).for_each(|peer| engine.name(PeerId(peer)));
        let nodes = self.config.nodes;
        let link = match (&self.network, &self.config.packets, &self.domain) {
            (Some(network), Some(packets), _) => {
                let link = PacketLink::open(me, nodes, network, packets);
                AnyLink::Packets(Box::new(link))
            }
            (Some(network), None, Some(domain)) => {
                let link = NicLink::open(me, nodes, network, domain);
                AnyLink::Nic(Box::new(link))
            }
            _ => AnyLink::Frames(SimLink::new(me, &self.net)),
        };
        Node {
            me,
            engine,
            link,
            longest: self.config.sizes[self.config.sizes.len() - 1],
            events: Events::new(&self.regions, self.domain.as_ref()),
            alive: true,
        }
    }

    /// Lets the applications act at random, then drains what is left; checks all the way.
    pub(crate) fn run(&mut self) -> Verdict {
        for step in 0..self.config.steps {
            self.step = step;
            self.break_something();
            let node = self.rng.below(self.config.nodes);
            if !self.nodes[node].alive {
                continue;
            }
            if self.rng.chance(50) {
                self.nodes[node].act(&self.config, &mut self.rng, &mut self.book, step)?;
            } else {
                self.progress(node)?;
            }
        }
        self.step = self.config.steps;
        self.drain()?;
        self.book.order_holds()?;
        self.book.writes_happened()?;
        self.book.atomics_add_up(&self.cells)?;
        self.close()
    }

    /// Returns how often something has happened to packets.
    pub(crate) fn count(&self, what: Count) -> u64 {
        let network = self.network.as_ref();
        network.map_or(0, |network| network.count(what))
    }

    fn break_something(&mut self) {
        if self.rng.below(1000) < self.config.breaks_per_mille {
            let a = self.rng.below(self.config.nodes);
            let b = (a + 1 + self.rng.below(self.config.nodes - 1)) % self.config.nodes;
            match &mut self.nodes[a].link {
                AnyLink::Nic(nic) => drop(nic.nic.disconnect(PeerId(b as u32), "a test")),
                _ => self.net.borrow_mut().break_pair(a, b),
            }
            self.book.broken.insert((a.min(b), a.max(b)), self.step);
        }
        if self.config.death && self.step == self.config.steps / 2 {
            self.kill(0);
        }
        if self.config.rebirth && self.step == self.config.steps * 3 / 4 {
            self.revive(0);
        }
    }

    /// Another endpoint takes the place of one that died.
    fn revive(&mut self, victim: usize) {
        self.nodes[victim] = self.node(victim);
        for broken in self.book.broken.values_mut() {
            // From now on messages arrive again.
            *broken = (*broken).min(self.step);
        }
    }

    /// An endpoint dies, and with it what it had sent and posted.
    fn kill(&mut self, victim: usize) {
        if self.network.is_none() {
            self.net.borrow_mut().kill(victim);
        }
        let node = &mut self.nodes[victim];
        node.alive = false;
        node.engine.abandon(&mut node.events);
        if !matches!(node.link, AnyLink::Frames(_)) {
            // No peer is notified.
            node.link = AnyLink::Frames(SimLink::new(victim, &self.net));
        }
        self.book.claims.retain(|claim| claim.0 != victim);
        for other in 0..self.config.nodes {
            let pair = (victim.min(other), victim.max(other));
            self.book.broken.insert(pair, usize::MAX);
        }
        for message in self.book.messages.iter_mut().filter(|m| m.src == victim) {
            message.sent.get_or_insert(Ok(()));
        }
        for access in self.book.accesses.iter_mut().filter(|a| a.node == victim) {
            access.ended.get_or_insert(Ok(()));
        }
        for atomic in self.book.atomics.iter_mut().filter(|a| a.node == victim) {
            // It may have been carried out or not.
            atomic.ended.get_or_insert(Err(BROKEN));
        }
        for receive in self.book.receives.iter_mut().filter(|r| r.node == victim) {
            receive.ended = true;
        }
        self.book.forget_ops_of(victim);
    }

    fn progress(&mut self, index: usize) -> Verdict {
        self.now += self.rng.below(200) as u64;
        if let Some(network) = &self.network {
            network.pass(Duration::from_nanos(self.rng.below(20_000) as u64));
        }
        let node = &mut self.nodes[index];
        let now = Instant::from_nanos(self.now);
        node.engine.progress(&mut node.link, &mut node.events, now);
        let lost = node.link.take_lost();
        for &peer in &lost {
            self.book.lost.insert((index, peer), self.step);
            if self.network.is_some() {
                let may_be = self.config.loses_peers();
                ensure(may_be, || format!("endpoint {index} gave {peer} up"))?;
                let pair = (index.min(peer), index.max(peer));
                let broken = self.book.broken.entry(pair).or_default();
                *broken = self.step.max(*broken);
            }
        }
        self.nodes[index].read_events(&mut self.book)?;
        self.keep_time()?;
        for peer in lost {
            self.book.nothing_waits_for(index, peer)?;
        }
        match self.net.borrow_mut().broken_rule.take() {
            Some(rule) => Err(format!("endpoint {index} broke a rule of the link: {rule}")),
            None => Ok(()),
        }
    }

    /// No operation outlives its deadline.
    fn keep_time(&mut self) -> Verdict {
        match &self.network {
            Some(network) => self.clocks.look(&self.book, network.now(), DEADLINE),
            None => Ok(()),
        }
    }

    /// Receives everything until nothing is left.
    fn drain(&mut self) -> Verdict {
        for _ in 0..DRAIN_ROUNDS {
            for index in 0..self.config.nodes {
                let node = &mut self.nodes[index];
                if !node.alive {
                    continue;
                }
                node.take_anything(false, &mut self.book)?;
                node.take_anything(true, &mut self.book)?;
                node.take_claimed(&mut self.rng, &mut self.book)?;
                self.progress(index)?;
            }
            if self.is_drained() {
                return Ok(());
            }
            self.leap();
        }
        let open: Vec<_> = self.open_messages().take(5).collect();
        let packets = self.network.as_deref().map(spell).unwrap_or_default();
        Err(format!(
            "stuck: messages {open:?} are still open; {packets}"
        ))
    }

    fn open_messages(&self) -> impl Iterator<Item = usize> {
        (0..self.book.messages.len()).filter(|&message| self.book.is_open(message))
    }

    fn is_drained(&self) -> bool {
        let alive = || self.nodes.iter().filter(|node| node.alive);
        let access_open = self.book.accesses.iter().any(|a| a.ended.is_none());
        let atomic_open = self.book.atomics.iter().any(|a| a.ended.is_none());
        !access_open
            && !atomic_open
            && self.open_messages().next().is_none()
            && alive().all(|node| {
                node.engine.idle() && node.engine.unexpected() == 0 && node.link.is_done()
            })
            && self
                .net
                .borrow()
                .is_quiet_between(&|node| self.nodes[node].alive)
    }

    /// What is being filled cannot be cancelled, be it a receive or memory that a peer writes to: it ends when the sender is
    /// found to be gone.
    fn end_arrivals(&mut self) -> Verdict {
        for _ in 0..DRAIN_ROUNDS {
            let Some(waits) = self.open_arrival() else {
                return Ok(());
            };
            for index in 0..self.config.nodes {
                if self.nodes[index].alive {
                    self.progress(index)?;
                }
            }
            if !self.leap() {
                return Err(waits);
            }
        }
        Err("arrivals never ended".to_owned())
    }

    /// Describes what still waits for data.
    fn open_arrival(&self) -> Option<String> {
        let receive = self.book.receives.iter().position(|r| !r.ended);
        let filled = |node: &&Node| node.alive && node.engine.pending_rx() > 0;
        let node = self.nodes.iter().find(filled);
        receive
            .map(|receive| format!("receive {receive} never ended"))
            .or_else(|| node.map(|node| format!("endpoint {} still waits for data", node.me)))
    }

    /// Goes on to what happens next in the network of packets; false if nothing does.
    fn leap(&self) -> bool {
        let network = self.network.as_ref();
        let next = network.and_then(|network| Some((network, network.until_next()?)));
        next.map(|(network, next)| network.pass(next)).is_some()
    }

    /// Cancels what is left of the receives; then nothing may be left of anything.
    fn close(&mut self) -> Verdict {
        let mut contexts: Vec<usize> = self.book.ops.keys().copied().collect();
        contexts.sort_unstable();
        for context in contexts {
            let Some(&Op::Receive(receive)) = self.book.ops.get(&context) else {
                continue;
            };
            let owner = self.book.receives[receive].node;
            if self.nodes[owner].alive {
                self.nodes[owner].cancel_one(context, &mut self.book)?;
            }
        }
        self.end_arrivals()?;
        for Node { me, engine, .. } in &self.nodes {
            let left = [
                engine.pending_tx(),
                engine.pending_rx(),
                engine.unexpected(),
                engine.unexpected_bytes(),
            ];
            if left != [0; 4] || !engine.idle() {
                return Err(format!("endpoint {me} is not empty: {left:?}"));
            }
        }
        Ok(())
    }
}
