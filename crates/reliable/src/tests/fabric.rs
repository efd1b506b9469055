//! Engines over reliable links over a network in memory: many ends, each behind a queue that overflows, in time that passes
//! as it likes.

use core::cell::RefCell;
use core::cmp::Reverse;
use core::time::Duration;
use std::collections::{BinaryHeap, VecDeque};
use std::rc::Rc;
use std::vec;
use std::vec::Vec;

use oxifabric_engine::{
    Completion, Completions, Config, Engine, Failure, RmaOp, RxOp, Target, TxOp,
};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Flags, Instant, PeerId};
use oxifabric_wire::reliable::packet::{HEADER_LEN, Packet, PacketKind};

use crate::{PacketPort, ReliableLink};

/// What the paths to all ends are like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paths {
    /// The longest packet, in bytes.
    pub(super) longest: usize,
    /// Delay of a packet before the queue.
    pub(super) delay: Duration,
    /// Number of bytes that leave the queue in a microsecond.
    pub(super) rate: u64,
    /// Number of bytes that the queue holds; what comes beyond them is lost.
    pub(super) queue: u64,
}

pub(super) const FAST: Paths = Paths {
    longest: 1472,
    delay: Duration::from_micros(20),
    rate: 1000,
    queue: u64::MAX,
};

pub(super) const DEADLINE: Duration = Duration::from_secs(10);

/// When a packet arrives, in which order among those of the same instant, where from and to, and its bytes.
type Arrival = (Instant, u64, usize, usize, Vec<u8>);

#[derive(Debug)]
struct Wires {
    paths: Paths,
    now: Instant,
    serial: u64,
    on_the_way: BinaryHeap<Reverse<Arrival>>,
    inboxes: Vec<VecDeque<(usize, Vec<u8>)>>,
    /// When the queue of each end is empty.
    empty_at: Vec<Instant>,
    /// Ends that are gone: nothing arrives there, and no error reports it.
    gone: Vec<bool>,
    /// Ends whose data is lost, but not what else they send.
    mute: Vec<bool>,
    /// Number of packets that were sent, and of those that found a full queue.
    sent: u64,
    lost: u64,
}

impl Wires {
    fn send(&mut self, from: usize, to: usize, mut bytes: Vec<u8>) {
        self.sent += 1;
        if self.mute[from] {
            silence(&mut bytes);
        }
        let reaches = self.now.after(self.paths.delay);
        let empty_at = &mut self.empty_at[to];
        let waits = empty_at.since(reaches).as_nanos() as u64;
        if waits * self.paths.rate / 1000 > self.paths.queue {
            self.lost += 1;
            return;
        }
        let takes = Duration::from_nanos(bytes.len() as u64 * 1000 / self.paths.rate);
        *empty_at = (*empty_at).max(reaches).after(takes);
        self.serial += 1;
        let arrival = (*empty_at, self.serial, from, to, bytes);
        self.on_the_way.push(Reverse(arrival));
    }

    /// Lets arrive what is due.
    fn arrive(&mut self) {
        while let Some(Reverse((at, ..))) = self.on_the_way.peek()
            && *at <= self.now
        {
            let Some(Reverse((_, _, from, to, bytes))) = self.on_the_way.pop() else {
                return;
            };
            if !self.gone[to] {
                self.inboxes[to].push_back((from, bytes));
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct Port {
    wires: Rc<RefCell<Wires>>,
    me: usize,
    /// The packet at hand.
    packet: (PeerId, Vec<u8>),
}

impl PacketPort for Port {
    fn longest(&self) -> usize {
        self.wires.borrow().paths.longest
    }

    fn has_room(&self) -> bool {
        true
    }

    fn send(&mut self, to: PeerId, header: &[u8; HEADER_LEN], payload: &[u8]) {
        let bytes = [&header[..], payload].concat();
        self.wires.borrow_mut().send(self.me, to.index(), bytes);
    }

    fn flush(&mut self) {}

    fn next(&mut self) -> bool {
        let next = self.wires.borrow_mut().inboxes[self.me].pop_front();
        match next {
            Some((from, bytes)) => {
                self.packet = (PeerId(from as u32), bytes);
                true
            }
            None => false,
        }
    }

    fn packet(&self) -> (PeerId, &[u8]) {
        (self.packet.0, &self.packet.1)
    }

    fn refused(&mut self) -> Option<PeerId> {
        None
    }

    fn secret(&mut self) -> u64 {
        let mut wires = self.wires.borrow_mut();
        wires.serial += 1;
        wires.serial
    }

    fn now(&self) -> Instant {
        self.wires.borrow().now
    }
}

/// What became of operations, and the memory that peers may reach.
#[derive(Debug)]
pub(super) struct Events {
    pub(super) done: Vec<usize>,
    pub(super) failed: Vec<(usize, Errno)>,
    memory: Iov,
}

impl Completions for Events {
    fn complete(&mut self, completion: Completion) {
        self.done.push(completion.context);
    }

    fn fail(&mut self, failure: Failure) {
        self.failed.push((failure.op.context, failure.errno));
    }

    fn region(&self, targets: &[Target], _: Flags) -> Result<Iov, Errno> {
        let len = targets.iter().map(|target| target.len as usize).sum();
        Ok(self.memory.slice(0, len))
    }
}

#[derive(Debug)]
pub(super) struct End {
    pub(super) engine: Engine,
    pub(super) link: ReliableLink<Port>,
    pub(super) events: Events,
    /// It does nothing, as a process that was killed or stopped.
    pub(super) still: bool,
}

pub(super) struct Fabric {
    pub(super) ends: Vec<End>,
    wires: Rc<RefCell<Wires>>,
}

impl Fabric {
    pub(super) fn new(count: usize, paths: Paths) -> Self {
        let wires = Rc::new(RefCell::new(Wires {
            paths,
            now: Instant::default(),
            serial: 0,
            on_the_way: BinaryHeap::new(),
            inboxes: vec![VecDeque::new(); count],
            empty_at: vec![Instant::default(); count],
            gone: vec![false; count],
            mute: vec![false; count],
            sent: 0,
            lost: 0,
        }));
        let ends = (0..count).map(|me| end(me, &wires)).collect();
        Self { ends, wires }
    }

    pub(super) fn now(&self) -> Instant {
        self.wires.borrow().now
    }

    /// Returns the number of packets that were sent.
    pub(super) fn sent(&self) -> u64 {
        self.wires.borrow().sent
    }

    /// Returns the number of packets that were lost.
    pub(super) fn lost(&self) -> u64 {
        self.wires.borrow().lost
    }

    pub(super) fn send(
        &mut self,
        from: usize,
        to: usize,
        len: usize,
        flags: Flags,
        context: usize,
    ) {
        let op = TxOp {
            peer: PeerId(to as u32),
            tag: 1,
            data: 0,
            body: Iov::zeroed(len).expect("there is memory"),
            flags: flags | Flags::TAGGED | Flags::COMPLETION,
            context,
        };
        let End {
            engine,
            link,
            events,
            ..
        } = &mut self.ends[from];
        engine.name(op.peer);
        (engine.send(link, events, op)).expect("there is room for it");
    }

    pub(super) fn recv(&mut self, at: usize, from: PeerId, len: usize, context: usize) {
        let op = RxOp {
            from,
            tag: 1,
            ignore: 0,
            body: Iov::zeroed(len).expect("there is memory"),
            flags: Flags::TAGGED | Flags::COMPLETION,
            context,
        };
        let End {
            engine,
            link,
            events,
            ..
        } = &mut self.ends[at];
        engine.name(op.from);
        (engine.recv(link, events, op)).expect("there is room for it");
    }

    pub(super) fn read(&mut self, from: usize, to: usize, len: usize, context: usize) {
        let target = Target {
            addr: 0,
            len: len as u64,
            key: 0,
        };
        let op = RmaOp {
            peer: PeerId(to as u32),
            targets: &[target],
            body: Iov::zeroed(len).expect("there is memory"),
            data: 0,
            flags: Flags::RMA | Flags::READ | Flags::COMPLETION,
            context,
        };
        let End {
            engine,
            link,
            events,
            ..
        } = &mut self.ends[from];
        engine.name(op.peer);
        (engine.rma(link, events, op)).expect("there is room for it");
    }

    /// Kills an end: it does and receives nothing more.
    pub(super) fn kill(&mut self, at: usize) {
        self.ends[at].still = true;
        self.wires.borrow_mut().gone[at] = true;
    }

    /// Loses what an end sends as data from now on, or does not any more.
    pub(super) fn mute(&mut self, at: usize, loses: bool) {
        self.wires.borrow_mut().mute[at] = loses;
    }

    /// Puts a new process in the place of an end.
    pub(super) fn restart(&mut self, at: usize) {
        self.ends[at] = end(at, &self.wires);
        let mut wires = self.wires.borrow_mut();
        wires.gone[at] = false;
        wires.inboxes[at].clear();
    }

    /// Polls an end.
    pub(super) fn poll(&mut self, at: usize) {
        let now = self.now();
        let End {
            engine,
            link,
            events,
            ..
        } = &mut self.ends[at];
        engine.progress(link, events, now);
    }

    pub(super) fn run_for(&mut self, time: Duration) {
        let end = self.now().after(time);
        while self.step(end) {}
        self.wires.borrow_mut().now = end;
    }

    pub(super) fn run_until(&mut self, limit: Duration, mut done: impl FnMut(&Self) -> bool) {
        let end = self.now().after(limit);
        while !done(self) {
            assert!(self.step(end), "nothing moves any more at {:?}", self.now());
        }
    }

    /// Goes on to what happens next; false if that is after `end`.
    fn step(&mut self, end: Instant) -> bool {
        let now = self.now();
        let awake = self.ends.iter().filter(|end| !end.still);
        let due = awake.map(|end| end.link.due()).min();
        let arrives = (self.wires.borrow().on_the_way.peek()).map(|Reverse((at, ..))| *at);
        let next = due
            .unwrap_or(Instant::END)
            .min(arrives.unwrap_or(Instant::END));
        if next > end {
            return false;
        }
        // Time always passes.
        let now = next.max(now.after(Duration::from_nanos(1)));
        {
            let mut wires = self.wires.borrow_mut();
            wires.now = now;
            wires.arrive();
        }
        for (at, end) in self.ends.iter_mut().enumerate() {
            let has_mail = !self.wires.borrow().inboxes[at].is_empty();
            if !end.still && (has_mail || end.link.due() <= now) {
                (end.engine).progress(&mut end.link, &mut end.events, now);
            }
        }
        true
    }
}

/// Makes an acknowledgement of data.
fn silence(bytes: &mut Vec<u8>) {
    let (packet, _) = Packet::parse(bytes).expect("it was emitted");
    if packet.kind == PacketKind::Data {
        let kind = PacketKind::Ack;
        *bytes = Packet { kind, ..packet }.emit().to_vec();
    }
}

fn end(me: usize, wires: &Rc<RefCell<Wires>>) -> End {
    let port = Port {
        wires: Rc::clone(wires),
        me,
        packet: (PeerId(0), Vec::new()),
    };
    let config = Config {
        tx_size: 1024,
        rx_size: 1024,
        unexpected_bytes: 1 << 20,
        unexpected_ceiling: 1 << 24,
        min_multi_recv: 0,
        directed_recv: true,
    };
    End {
        engine: Engine::new(config),
        link: ReliableLink::new(port, DEADLINE, None),
        events: Events {
            done: Vec::new(),
            failed: Vec::new(),
            memory: Iov::zeroed(1 << 20).expect("there is memory"),
        },
        still: false,
    }
}
