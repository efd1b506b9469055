//! Groups of endpoints that do collectives over the simulated network, compared with a direct computation.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use oxifabric_collectives::arithmetic::{Datatype, Operation, combine};
use oxifabric_collectives::{Arithmetic, Collective};
use oxifabric_engine::{CollectiveOp, Completion, Completions, Engine, Failure, GroupId, RxOp};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Flags, Instant, PeerId};

use crate::access::Regions;
use crate::config::Config;
use crate::net::{Net, SimLink};
use crate::rng::Rng;

/// Number of rounds that everything may take before something is held to be stuck.
const ROUNDS: usize = 60_000;

/// The context of receives of the application, which no collective may meet.
const BYSTANDER: usize = usize::MAX;

/// What a group does next.
#[derive(Clone, Debug)]
struct Task {
    group: usize,
    what: Collective,
    /// The root's rank.
    root: usize,
    /// Elements of a slice.
    count: usize,
    how: Arithmetic,
}

/// Everything that is to happen, the same for all.
struct Plot {
    /// The members of each group, by rank.
    groups: Vec<Vec<usize>>,
    tasks: Vec<Task>,
}

#[derive(Default)]
struct Events {
    joined: BTreeMap<usize, Result<GroupId, Errno>>,
    ended: BTreeMap<usize, Result<(), Errno>>,
}

impl Completions for Events {
    fn complete(&mut self, completion: Completion) {
        assert_eq!(completion.flags, Flags::COLLECTIVE);
        let before = self.ended.insert(completion.context, Ok(()));
        assert_eq!(before, None, "a collective ends once");
    }

    fn fail(&mut self, failure: Failure) {
        if failure.op.context != BYSTANDER {
            let before = self.ended.insert(failure.op.context, Err(failure.errno));
            assert_eq!(before, None, "a collective ends once");
        }
    }

    fn joined(&mut self, context: usize, group: GroupId, result: Result<(), Errno>) {
        let before = self.joined.insert(context, result.map(|()| group));
        assert_eq!(before, None, "a join ends once");
    }
}

struct Node {
    me: usize,
    alive: bool,
    engine: Engine,
    link: SimLink,
    events: Events,
    /// Number of groups that it has begun to join.
    joins: usize,
    /// By group, the tasks that it has not begun.
    to_do: Vec<Vec<usize>>,
    /// Inputs and results by task.
    buffers: BTreeMap<usize, (Iov, Iov)>,
    left: Vec<GroupId>,
}

struct Troupe {
    plot: Plot,
    nodes: Vec<Node>,
    net: Rc<RefCell<Net>>,
    rng: Rng,
    now: u64,
}

impl Plot {
    fn new(rng: &mut Rng, nodes: usize) -> Self {
        let groups: Vec<Vec<usize>> = (0..3)
            .map(|at| {
                let mut members: Vec<usize> = (0..nodes).collect();
                for last in (1..nodes).rev() {
                    members.swap(last, rng.below(last + 1));
                }
                if at > 0 {
                    members.truncate(1 + rng.below(nodes));
                }
                members
            })
            .collect();
        let tasks = (0..20).map(|_| Task::random(rng, &groups)).collect();
        Self { groups, tasks }
    }

    fn rank(&self, group: usize, node: usize) -> Option<usize> {
        self.groups[group].iter().position(|&member| member == node)
    }
}

impl Task {
    fn random(rng: &mut Rng, groups: &[Vec<usize>]) -> Self {
        let group = rng.below(groups.len());
        let datatypes = [Datatype::Uint8, Datatype::Int16, Datatype::Uint32];
        Self {
            group,
            what: rng.pick(&Collective::ALL),
            root: rng.below(groups[group].len()),
            count: match rng.below(4) {
                0 => 0,
                1 => 1,
                2 => rng.below(20),
                _ => rng.below(120),
            },
            how: Arithmetic {
                datatype: rng.pick(&datatypes),
                operation: rng.pick(&[Operation::Sum, Operation::Max, Operation::Bxor]),
            },
        }
    }

    fn len(&self) -> usize {
        self.count * self.how.datatype.size()
    }

    /// Returns what a rank brings to a collective, or what it has before a broadcast.
    fn input(&self, task: usize, rank: usize, len: usize) -> Vec<u8> {
        let mut rng = Rng::new((task * 1000 + rank) as u64);
        (0..len).map(|_| rng.below(256) as u8).collect()
    }

    /// Returns what a rank gets.
    fn expected(&self, task: usize, rank: usize, size: usize) -> Vec<u8> {
        let len = self.len();
        let brings = |from: usize| {
            let slices = match self.what {
                Collective::Broadcast => 1,
                what => what.brings(size, from == self.root),
            };
            self.input(task, from, slices * len)
        };
        let mine = rank * len..(rank + 1) * len;
        let reduced = || {
            let mut sum = brings(0);
            for from in 1..size {
                let (datatype, operation) = (self.how.datatype, self.how.operation);
                assert!(combine(datatype, operation, &mut sum, &brings(from)));
            }
            sum
        };
        match self.what {
            Collective::Barrier => Vec::new(),
            Collective::Reduce | Collective::Gather if rank != self.root => Vec::new(),
            Collective::Broadcast => brings(self.root),
            Collective::Alltoall => (0..size)
                .flat_map(|from| brings(from)[mine.clone()].to_vec())
                .collect(),
            Collective::Allreduce | Collective::Reduce => reduced(),
            Collective::Allgather | Collective::Gather => (0..size).flat_map(brings).collect(),
            Collective::ReduceScatter => reduced()[mine].to_vec(),
            Collective::Scatter => brings(self.root)[mine].to_vec(),
        }
    }
}

impl Node {
    /// Begins the next join or collective that is possible, if there is one.
    fn act(&mut self, plot: &Plot, rng: &mut Rng) {
        if self.joins < plot.groups.len() && rng.chance(50) {
            let group = self.joins;
            self.joins += 1;
            if plot.rank(group, self.me).is_some() {
                let members: Vec<_> = plot.groups[group]
                    .iter()
                    .map(|&at| PeerId(at as u32))
                    .collect();
                let joined = self
                    .engine
                    .join(&mut self.link, &mut self.events, &members, group);
                joined.expect("the group is possible");
            }
            return;
        }
        let group = rng.below(plot.groups.len());
        let Some(&Ok(id)) = self.events.joined.get(&group) else {
            return;
        };
        if let Some(&task) = self.to_do[group].first()
            && self.begin(plot, id, task) != Err(Errno::AGAIN)
        {
            self.to_do[group].remove(0);
        }
    }

    fn begin(&mut self, plot: &Plot, group: GroupId, at: usize) -> Result<(), Errno> {
        let task = &plot.tasks[at];
        let members = &plot.groups[task.group];
        let rank = plot.rank(task.group, self.me).expect("it has joined");
        let (size, len) = (members.len(), task.len());
        let is_root = rank == task.root;
        let input = lend(&task.input(at, rank, task.what.brings(size, is_root) * len));
        let result = match task.what == Collective::Broadcast && is_root {
            true => lend(&task.input(at, rank, len)),
            false => lend(&vec![0xaa; task.what.gets(size, is_root) * len]),
        };
        let op = CollectiveOp {
            group,
            what: task.what,
            root: PeerId(members[task.root] as u32),
            len,
            input: input.clone(),
            result: result.clone(),
            arithmetic: task.what.reduces().then_some(task.how),
            flags: Flags::COMPLETION,
            context: at,
        };
        let begun = self.engine.collective(&mut self.link, &mut self.events, op);
        match begun {
            Ok(()) => {
                self.buffers.insert(at, (input, result));
            }
            Err(Errno::AGAIN) => {}
            Err(errno) => {
                self.events.ended.insert(at, Err(errno));
            }
        }
        begun
    }

    /// Returns whether everything that it takes part in has ended.
    fn is_done(&self, plot: &Plot) -> bool {
        let joins = (0..plot.groups.len()).filter(|&group| plot.rank(group, self.me).is_some());
        for group in joins {
            match self.events.joined.get(&group) {
                None => return false,
                Some(Err(_)) => {}
                Some(Ok(_)) if !self.to_do[group].is_empty() => return false,
                Some(Ok(_)) => {}
            }
        }
        self.buffers
            .keys()
            .all(|task| self.events.ended.contains_key(task))
    }

    fn check(&self, plot: &Plot, must_succeed: bool) {
        for (&at, result) in &self.events.ended {
            let task = &plot.tasks[at];
            let Some((_, memory)) = self.buffers.get(&at) else {
                continue;
            };
            if result.is_err() {
                assert!(!must_succeed, "{}: {task:?} failed: {result:?}", self.me);
                continue;
            }
            let size = plot.groups[task.group].len();
            let rank = plot.rank(task.group, self.me).expect("it has joined");
            let mut got = vec![0; memory.len()];
            memory.read(0, &mut got);
            let expected = task.expected(at, rank, size);
            assert_eq!(got, expected, "rank {rank} of {size} in {task:?}");
        }
    }
}

impl Troupe {
    fn new(config: &Config, seed: u64, nodes: usize) -> Self {
        let config = Config {
            nodes,
            silent_death: true,
            ..config.clone()
        };
        let mut rng = Rng::new(seed);
        let plot = Plot::new(&mut rng, nodes);
        let net = Rc::new(RefCell::new(Net::new(
            &config,
            Rng::new(seed ^ 0x5555),
            &Regions::default(),
        )));
        let nodes = (0..nodes).map(|me| {
            let mut engine = Engine::new(config.engine);
            engine.set_self(PeerId(me as u32));
            (0..nodes as u32).for_each(|peer| engine.name(PeerId(peer)));
            let of = |group: usize| {
                let all = 0..plot.tasks.len();
                all.filter(|&task| plot.tasks[task].group == group)
                    .collect()
            };
            let mut node = Node {
                me,
                alive: true,
                engine,
                link: SimLink::new(me, &net),
                events: Events::default(),
                joins: 0,
                to_do: (0..plot.groups.len()).map(of).collect(),
                buffers: BTreeMap::new(),
                left: Vec::new(),
            };
            node.stand_by();
            node
        });
        let nodes = nodes.collect();
        Self {
            plot,
            nodes,
            net,
            rng,
            now: 0,
        }
    }

    fn step(&mut self, at: usize) {
        self.now += self.rng.below(200) as u64;
        let node = &mut self.nodes[at];
        if !node.alive {
            return;
        }
        if self.rng.chance(50) {
            node.act(&self.plot, &mut self.rng);
        }
        let now = Instant::from_nanos(self.now);
        node.engine.progress(&mut node.link, &mut node.events, now);
        if let Some(rule) = self.net.borrow_mut().broken_rule.take() {
            panic!("endpoint {at} broke a rule of the link: {rule}");
        }
    }

    /// Lets all members act until everything has ended; at some point, one dies.
    fn play(&mut self, death: Option<(usize, usize)>) {
        for round in 0..ROUNDS {
            if let Some((victim, when)) = death
                && round == when
            {
                self.net.borrow_mut().kill(victim);
                let node = &mut self.nodes[victim];
                node.alive = false;
                node.engine.abandon(&mut node.events);
            }
            let at = self.rng.below(self.nodes.len());
            self.step(at);
            let dead = death.is_none_or(|(_, when)| round > when);
            if dead && round % 16 == 0 && self.all_done() {
                return;
            }
        }
        let stuck = self
            .nodes
            .iter()
            .filter(|n| n.alive && !n.is_done(&self.plot));
        let stuck: Vec<_> = stuck
            .map(|n| (n.me, n.events.joined.clone(), n.events.ended.clone()))
            .collect();
        panic!("stuck: {stuck:?} in {:?}", self.plot.groups);
    }

    fn all_done(&self) -> bool {
        let mut alive = self.nodes.iter().filter(|node| node.alive);
        alive.all(|node| node.is_done(&self.plot))
    }

    /// Lets all members leave: then nothing may be left of anything.
    fn leave(&mut self) {
        for node in &mut self.nodes {
            let groups: Vec<_> = node.events.joined.values().flatten().copied().collect();
            for group in groups {
                let left = node.engine.leave(&mut node.link, &mut node.events, group);
                assert_eq!(left, Ok(()));
                node.left.push(group);
            }
        }
        for _ in 0..200 {
            for at in 0..self.nodes.len() {
                self.step(at);
            }
        }
        for node in &mut self.nodes {
            let engine = &node.engine;
            let left = [
                engine.pending_tx(),
                engine.unexpected(),
                engine.unexpected_bytes(),
            ];
            assert_eq!(left, [0; 3], "endpoint {} is not empty", node.me);
            for &group in &node.left {
                assert_eq!(engine.group_shape(group), Err(Errno::INVAL));
            }
        }
    }
}

impl Node {
    /// Posts receives that take any message of the application.
    fn stand_by(&mut self) {
        for flags in [Flags::MSG, Flags::TAGGED] {
            let op = RxOp {
                from: PeerId::ANY,
                tag: 0,
                ignore: u64::MAX,
                body: lend(&[0; 64]),
                flags: flags | Flags::COMPLETION,
                context: BYSTANDER,
            };
            let posted = self.engine.recv(&mut self.link, &mut self.events, op);
            assert_eq!(posted, Ok(()));
        }
    }
}

fn lend(bytes: &[u8]) -> Iov {
    let iov = Iov::zeroed(bytes.len()).expect("there is memory");
    iov.write(0, bytes);
    iov
}

fn configs() -> [Config; 4] {
    [
        Config::two_endpoints_over_streams(),
        Config::two_endpoints_pull_from_each_other(),
        Config::pulling_turns_out_to_be_forbidden(),
        Config::hardly_any_room_for_the_unexpected(),
    ]
}

/// Tries each seed in each world; on failure says which.
fn for_seeds(seeds: u64, test: impl Fn(&Config, u64)) {
    let only = std::env::var("OXI_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let range = only.map_or(1..=seeds, |seed| seed..=seed);
    for seed in range {
        for (at, config) in configs().iter().enumerate() {
            eprintln!("seed {seed} in world {at}");
            test(config, seed);
        }
    }
}

#[test]
fn results_are_those_of_a_direct_computation() {
    for_seeds(40, |config, seed| {
        let nodes = Rng::new(seed).below(9) + 1;
        let mut troupe = Troupe::new(config, seed, nodes);
        troupe.play(None);
        troupe
            .nodes
            .iter()
            .for_each(|node| node.check(&troupe.plot, true));
        troupe.leave();
    });
}

#[test]
fn groups_of_any_size_up_to_thirty_three_agree() {
    for_seeds(1, |config, seed| {
        for nodes in 1..=33 {
            let mut troupe = Troupe::new(config, seed + nodes as u64, nodes);
            troupe.play(None);
            troupe
                .nodes
                .iter()
                .for_each(|node| node.check(&troupe.plot, true));
        }
    });
}

/// A member may die at any time, even before any has joined: none waits for ever, and none gets wrong data.
#[test]
fn no_member_waits_for_one_that_died() {
    for_seeds(60, |config, seed| {
        let mut rng = Rng::new(seed ^ 0xdead);
        let nodes = rng.below(8) + 2;
        let death = (rng.below(nodes), rng.below(nodes * 60));
        let mut troupe = Troupe::new(config, seed, nodes);
        troupe.play(Some(death));
        let alive = troupe.nodes.iter().filter(|node| node.alive);
        alive.for_each(|node| node.check(&troupe.plot, false));
    });
}
