//! The network between the processes: one thread that takes their packets and passes them on as the plan says.
//!
//! It knows processes and hosts, no queue pairs. A process that is killed is seen by the end of its connection.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::fmt;
use std::io;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use crate::fate::{self, Fate};
use crate::plan::{Plan, gid};
use crate::sys::{self, Interest, Socket};
use crate::wire::{Head, Kind, Nic, PACKET_LEN, QPS_PER_SLOT, REUSE, status};

/// How many processes there may be at once: QP numbers have 16 bits.
const SLOTS: usize = (u16::MAX / QPS_PER_SLOT) as usize + 1;
/// Time after which requests fail that a host which the plan has silenced does not answer.
const UNRESPONSIVE: Duration = Duration::from_millis(20);

/// A process.
#[derive(Debug)]
struct Port {
    socket: Socket,
    process: libc::pid_t,
    /// Counted over all processes of the run.
    serial: u32,
    host: Option<u8>,
    sent: u64,
    waiting: VecDeque<Vec<u8>>,
    held: Vec<Held>,
}

/// A packet that others overtake.
#[derive(Debug)]
struct Held {
    packet: Vec<u8>,
    left: u32,
    until: Instant,
}

/// A packet on its way to a process.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Delayed {
    due: Instant,
    number: u64,
    slot: usize,
    serial: u32,
    overtaken_by: u32,
    packet: Vec<u8>,
}

/// What a run has seen.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    processes: u32,
    requests: u64,
    /// Those of the requests that read memory of a peer, and that write it.
    reads: u64,
    writes: u64,
    reordered: u64,
    not_ready: u64,
    failed: u64,
    killed: u32,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            processes,
            requests,
            reads,
            writes,
            reordered,
            not_ready,
            failed,
            killed,
        } = self;
        write!(
            f,
            "{processes} processes, {requests} requests, {reads} reads, {writes} writes, {reordered} reordered, {not_ready} not ready, {failed} failed, {killed} killed"
        )
    }
}

/// The network of a run.
#[derive(Debug)]
pub(crate) struct Switch {
    plan: Plan,
    listener: Socket,
    ports: Vec<Option<Port>>,
    dead: Vec<u8>,
    /// The false statuses that senders get for requests that are carried out all the same, by the sender's slot and the request's id.
    false_statuses: HashMap<(usize, u32), u8>,
    delayed: BinaryHeap<Reverse<Delayed>>,
    packets: u64,
    last_slot: usize,
    counts: Counts,
}

impl Switch {
    /// Makes a network for the processes that connect to a listener.
    pub(crate) fn new(plan: Plan, listener: Socket) -> Self {
        Self {
            plan,
            listener,
            ports: (0..SLOTS).map(|_| None).collect(),
            dead: Vec::new(),
            false_statuses: HashMap::new(),
            delayed: BinaryHeap::new(),
            packets: 0,
            last_slot: SLOTS - 1,
            counts: Counts::default(),
        }
    }

    /// Carries packets until the program has ended, which `softnic run` announces by a byte in the pipe.
    pub(crate) fn run(mut self, ended: &io::PipeReader) -> Counts {
        sys::run_promptly();
        loop {
            let mut interests = vec![
                Interest {
                    fd: ended.as_raw_fd(),
                    room: false,
                },
                Interest {
                    fd: self.listener.fd(),
                    room: false,
                },
            ];
            let mut slots = Vec::new();
            for (slot, port) in self.ports.iter().enumerate() {
                let Some(port) = port else {
                    continue;
                };
                slots.push(slot);
                interests.push(Interest {
                    fd: port.socket.fd(),
                    room: !port.waiting.is_empty(),
                });
            }
            let ready = sys::wait(&interests, self.next_due());
            if ready.first() == Some(&true) {
                return self.counts;
            }
            if ready.get(1) == Some(&true) {
                self.accept();
            }
            for (slot, is_ready) in slots.into_iter().zip(ready.into_iter().skip(2)) {
                if is_ready {
                    self.flush(slot);
                    self.receive(slot);
                }
            }
            self.release_due();
        }
    }

    /// Returns the time until the switch has something to do without packets that arrive.
    fn next_due(&self) -> Option<Duration> {
        let held = self.ports.iter().flatten().flat_map(|port| &port.held);
        let held = held.map(|held| held.until).min();
        let delayed = self.delayed.peek().map(|Reverse(first)| first.due);
        let due = held.into_iter().chain(delayed).min()?;
        Some(due.saturating_duration_since(Instant::now()))
    }

    fn accept(&mut self) {
        while let Ok(socket) = self.listener.accept() {
            let after = if self.plan.qpn_reuse {
                0
            } else {
                self.last_slot + 1
            };
            let mut slots = (0..SLOTS).map(|step| (after + step) % SLOTS);
            let Some(slot) = slots.find(|slot| self.ports[*slot].is_none()) else {
                continue;
            };
            self.last_slot = slot;
            self.ports[slot] = Some(Port {
                socket,
                process: 0,
                serial: self.counts.processes,
                host: None,
                sent: 0,
                waiting: VecDeque::new(),
                held: Vec::new(),
            });
            self.counts.processes += 1;
        }
    }

    fn receive(&mut self, slot: usize) {
        let mut packet = [0; PACKET_LEN];
        loop {
            let Some(port) = &self.ports[slot] else {
                return;
            };
            match port.socket.receive(&mut packet) {
                Ok(len) => self.arrived(slot, &packet[..len]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => return self.hung_up(slot),
            }
        }
    }

    fn arrived(&mut self, slot: usize, packet: &[u8]) {
        let Some((head, payload)) = Head::parse(packet) else {
            return;
        };
        match head.kind {
            Kind::Hello => self.take_hello(slot, &head),
            Kind::Answer => self.pass_answer(slot, head, payload),
            kind if kind.is_request() => self.pass_request(slot, head, payload),
            _ => {}
        }
    }

    fn take_hello(&mut self, slot: usize, head: &Head) {
        let host = head.nic;
        let Some(port) = &mut self.ports[slot] else {
            return;
        };
        port.process = head.addr as libc::pid_t;
        port.host = Some(host);
        let nics = (0..self.plan.nics).map(|nic| Nic {
            gid: gid(host, nic),
            mtu: self.plan.mtu,
            max_rdma: self.plan.max_rdma,
            regions: self.plan.regions,
            caps: self.plan.caps(),
        });
        let nics: Vec<Nic> = nics.collect();
        let welcome = Head {
            slot: slot as u16,
            id: port.serial << 20,
            flags: if self.plan.qpn_reuse { REUSE } else { 0 },
            ..Head::new(Kind::Welcome)
        };
        self.deliver(slot, welcome.packet(&Nic::payload(&nics)));
    }

    /// Notes that the process at a slot has ended: the switch tells the others that its queue pairs are gone.
    fn hung_up(&mut self, slot: usize) {
        self.ports[slot] = None;
        self.false_statuses.retain(|(sender, _), _| *sender != slot);
        let gone = Head {
            slot: slot as u16,
            status: status::REMOTE_BAD_DEST_QPN,
            ..Head::new(Kind::Gone)
        };
        for other in 0..SLOTS {
            // A process that had no Hello has sent nothing, and takes the first packet for its welcome.
            if self.host(other).is_some() {
                self.deliver(other, gone.packet(&[]));
            }
        }
    }

    fn pass_answer(&mut self, slot: usize, mut head: Head, payload: &[u8]) {
        let to = usize::from(head.slot);
        head.slot = slot as u16;
        if let Some(status) = self.false_statuses.remove(&(to, head.id))
            && head.status == status::OK
        {
            self.counts.failed += 1;
            head.status = status;
        }
        let hosts = [slot, to].map(|slot| self.host(slot));
        if hosts
            .iter()
            .any(|host| host.is_none_or(|host| self.dead.contains(&host)))
        {
            return;
        }
        self.deliver(to, head.packet(payload));
    }

    fn host(&self, slot: usize) -> Option<u8> {
        self.ports.get(slot)?.as_ref()?.host
    }

    fn pass_request(&mut self, slot: usize, mut head: Head, payload: &[u8]) {
        let Some(port) = &mut self.ports[slot] else {
            return;
        };
        let (Some(host), serial, number) = (port.host, port.serial, port.sent) else {
            return;
        };
        port.sent += 1;
        self.packets += 1;
        self.counts.requests += 1;
        self.counts.reads += u64::from(head.kind == Kind::Read);
        self.counts.writes += u64::from(head.kind == Kind::Write);
        self.kill_and_silence(slot, serial, number);
        let to = usize::from(head.to_qp / QPS_PER_SLOT);
        let nics =
            (0..self.plan.hosts).flat_map(|host| (0..self.plan.nics).map(move |nic| (host, nic)));
        let there = nics
            .into_iter()
            .find(|(host, nic)| gid(*host, *nic) == head.gid);
        let Some((there, nic)) = there else {
            return self.fail(slot, &head, status::UNREACHABLE_REMOTE, UNRESPONSIVE);
        };
        if self.dead.contains(&host) || self.dead.contains(&there) {
            return self.fail(slot, &head, status::UNRESPONSIVE_REMOTE, UNRESPONSIVE);
        }
        if self.host(to) != Some(there) {
            return self.fail(slot, &head, status::REMOTE_BAD_DEST_QPN, Duration::ZERO);
        }
        let fate = fate::decide(&self.plan, serial, number, head.kind == Kind::Send);
        if self.is_failed(slot, &head, fate) {
            return;
        }
        head.gid = gid(host, head.nic);
        head.slot = slot as u16;
        let asked_nic = std::mem::replace(&mut head.nic, nic);
        debug_assert!(asked_nic < self.plan.nics);
        let packet = head.packet(payload);
        self.delay(to, packet, fate.delay, fate.overtaken_by);
    }

    /// Fails a request if the plan says so. Returns false if it is to be passed on.
    fn is_failed(&mut self, slot: usize, head: &Head, fate: Fate) -> bool {
        if fate.is_rnr {
            self.counts.not_ready += 1;
            self.fail(slot, head, status::REMOTE_RNR, fate.delay);
            return true;
        }
        match fate.error {
            Some((status, true)) => {
                self.false_statuses.insert((slot, head.id), status);
                false
            }
            Some((status, false)) => {
                self.counts.failed += 1;
                self.fail(slot, head, status, fate.delay);
                true
            }
            None => false,
        }
    }

    /// Kills the processes and silences the hosts that the plan names for this packet.
    fn kill_and_silence(&mut self, slot: usize, serial: u32, number: u64) {
        let kills = |kill: &&crate::plan::Kill| kill.process == serial && kill.after == number;
        if self.plan.kill.iter().any(|kill| kills(&kill)) {
            self.counts.killed += 1;
            if let Some(port) = &self.ports[slot] {
                sys::signal(port.process, libc::SIGKILL);
            }
        }
        let packets = self.packets;
        let silent = self
            .plan
            .dead
            .iter()
            .filter(|dead| dead.after + 1 == packets);
        let silent: Vec<u8> = silent.map(|dead| dead.host).collect();
        for host in silent {
            self.dead.push(host);
            self.report_silence(host);
        }
    }

    /// Fails the requests that are under way to and from a silent host, since they are not answered any more.
    fn report_silence(&mut self, host: u8) {
        let slots: Vec<usize> = (0..SLOTS)
            .filter(|slot| self.host(*slot).is_some())
            .collect();
        for &lost in &slots {
            for &other in &slots {
                if self.host(lost) == Some(host) || self.host(other) == Some(host) {
                    let gone = Head {
                        slot: lost as u16,
                        status: status::UNRESPONSIVE_REMOTE,
                        ..Head::new(Kind::Gone)
                    };
                    self.delay(other, gone.packet(&[]), UNRESPONSIVE, 0);
                }
            }
        }
    }

    /// Answers a request in the receiver's place.
    fn fail(&mut self, slot: usize, head: &Head, status: u8, after: Duration) {
        let answer = Head {
            slot: head.to_qp / QPS_PER_SLOT,
            ..head.answer(status)
        };
        self.delay(slot, answer.packet(&[]), after, 0);
    }

    /// Delays a packet for a process.
    fn delay(&mut self, slot: usize, packet: Vec<u8>, delay: Duration, overtaken_by: u32) {
        let Some(serial) = self.ports[slot].as_ref().map(|port| port.serial) else {
            return;
        };
        if delay.is_zero() {
            return self.arrive(slot, packet, overtaken_by);
        }
        self.packets_delayed(Delayed {
            due: Instant::now() + delay,
            number: self.packets,
            slot,
            serial,
            overtaken_by,
            packet,
        });
    }

    fn packets_delayed(&mut self, delayed: Delayed) {
        self.delayed.push(Reverse(delayed));
    }

    /// Takes a packet at its destination, where later ones may still overtake it.
    fn arrive(&mut self, slot: usize, packet: Vec<u8>, overtaken_by: u32) {
        let longest = Duration::from_micros(self.plan.reorder_us.into());
        if overtaken_by > 0 {
            if let Some(port) = &mut self.ports[slot] {
                port.held.push(Held {
                    packet,
                    left: overtaken_by,
                    until: Instant::now() + longest,
                });
            }
            return;
        }
        self.deliver(slot, packet);
        let Some(port) = &mut self.ports[slot] else {
            return;
        };
        for held in &mut port.held {
            held.left -= 1;
        }
        let overtaken: Vec<Held> = port.held.extract_if(.., |held| held.left == 0).collect();
        self.counts.reordered += overtaken.len() as u64;
        for held in overtaken {
            self.deliver(slot, held.packet);
        }
    }

    /// Delivers the packets that were delayed or held back for long enough.
    fn release_due(&mut self) {
        let now = Instant::now();
        while let Some(Reverse(first)) = self.delayed.peek()
            && first.due <= now
            && let Some(Reverse(due)) = self.delayed.pop()
        {
            let port = self.ports[due.slot].as_ref();
            if port.is_some_and(|port| port.serial == due.serial) {
                self.arrive(due.slot, due.packet, due.overtaken_by);
            }
        }
        for slot in 0..SLOTS {
            let Some(port) = &mut self.ports[slot] else {
                continue;
            };
            let late: Vec<Held> = port.held.extract_if(.., |held| held.until <= now).collect();
            for held in late {
                self.deliver(slot, held.packet);
            }
        }
    }

    /// Gives a packet to a process, as soon as its socket has room. What waits is bounded by what its peers may have under way.
    fn deliver(&mut self, slot: usize, packet: Vec<u8>) {
        if let Some(Some(port)) = self.ports.get_mut(slot) {
            port.waiting.push_back(packet);
            self.flush(slot);
        }
    }

    fn flush(&mut self, slot: usize) {
        let Some(port) = &mut self.ports[slot] else {
            return;
        };
        while let Some(packet) = port.waiting.front() {
            match port.socket.send(packet) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // A connection's end is noticed where its packets are received.
                _ => drop(port.waiting.pop_front()),
            }
        }
    }
}
