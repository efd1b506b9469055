//! A network between two channels, whose faults come from a seed.

use core::cmp::Reverse;
use core::time::Duration;
use std::collections::BinaryHeap;
use std::vec::Vec;

use oxifabric_types::Instant;
use oxifabric_wire::reliable::packet::{HEADER_LEN, Handshake, Packet, PacketKind};

use crate::channel::{
    Channel, ChannelConfig, CloseReason, Consumer, Event, Identity, PacketWriter,
};

pub(super) const DEADLINE: Duration = Duration::from_secs(10);
const PAYLOAD: u32 = 1400;
/// The longest packets.
pub(super) const LONGEST: usize = PAYLOAD as usize + HEADER_LEN;

/// What goes wrong: shares in thousandths, and how long packets take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Faults {
    pub(super) loss: u32,
    pub(super) doubled: u32,
    pub(super) delay: Duration,
    /// Up to so much more, for each packet anew.
    pub(super) jitter: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    A,
    B,
}

pub(super) struct Network {
    pub(super) ends: [Node; 2],
    pub(super) now: Instant,
    /// Nothing arrives.
    pub(super) cut: bool,
    /// The second end does not open by itself.
    pub(super) accept_only: bool,
    /// The next packet of this kind is lost.
    pub(super) drop_next: Option<PacketKind>,
    /// The next data packet is so late.
    pub(super) next_data_late: Duration,
    /// Longer packets vanish.
    pub(super) carries: usize,
    /// The longest packet that was sent, and the longest that carried data.
    pub(super) longest: usize,
    pub(super) data: usize,
    /// Number of parts of packets that were sent.
    pub(super) parts: usize,
    faults: Faults,
    random: u64,
    on_the_way: BinaryHeap<Reverse<Arrival>>,
    serial: u64,
}

/// When a packet arrives, in which order among those of the same instant, where, and its bytes.
type Arrival = (Instant, u64, usize, Vec<u8>);

pub(super) struct Node {
    pub(super) channel: Channel,
    pub(super) written: usize,
    pub(super) arrived: usize,
    /// Bytes that it takes before it takes no more.
    pub(super) appetite: usize,
    pub(super) ended: Option<CloseReason>,
    pub(super) events: Vec<Event>,
}

/// Checks that the bytes are those that were written.
struct Check<'a> {
    arrived: &'a mut usize,
    appetite: usize,
}

impl Consumer for Check<'_> {
    fn take(&mut self, bytes: &[u8]) -> usize {
        let part = bytes.len().min(self.appetite - *self.arrived);
        for byte in &bytes[..part] {
            assert_eq!(*byte, byte_at(*self.arrived), "at {}", self.arrived);
            *self.arrived += 1;
        }
        part
    }
}

#[derive(Default)]
struct Out(Vec<Vec<u8>>);

impl PacketWriter for Out {
    fn has_room(&self) -> bool {
        true
    }

    fn send(&mut self, header: &[u8; HEADER_LEN], payload: &[u8]) {
        let mut bytes = header.to_vec();
        bytes.extend_from_slice(payload);
        assert!(payload.len() <= PAYLOAD as usize);
        self.0.push(bytes);
    }
}

fn byte_at(at: usize) -> u8 {
    ((at as u32).wrapping_mul(2_654_435_761) >> 24) as u8
}

impl Network {
    pub(super) fn new(seed: u64, faults: Faults) -> Self {
        let now = Instant::default();
        Self {
            ends: [node(11, now), node(22, now)],
            now,
            cut: false,
            accept_only: true,
            drop_next: None,
            next_data_late: Duration::ZERO,
            carries: usize::MAX,
            longest: 0,
            data: 0,
            parts: 0,
            faults,
            random: seed | 1,
            on_the_way: BinaryHeap::new(),
            serial: 0,
        }
    }

    /// Runs until both ends know each other, and nothing is under way.
    pub(super) fn open(&mut self) {
        self.run_until(Duration::from_secs(5), |network| {
            network.ends.iter().all(|end| end.channel.is_open())
        });
    }

    /// Writes until each end has written its goal in bytes, as far as there is room.
    pub(super) fn write_up_to(&mut self, goals: [usize; 2]) {
        for (end, goal) in self.ends.iter_mut().zip(goals) {
            let part = (goal - end.written).min(end.channel.room());
            let start = end.written;
            end.written += end.channel.write(part, |offset, into| {
                for (at, byte) in into.iter_mut().enumerate() {
                    *byte = byte_at(start + offset + at);
                }
            });
        }
        self.act();
    }

    pub(super) fn repeated(&self) -> u64 {
        self.ends.iter().map(|end| end.channel.repeated()).sum()
    }

    /// Replaces an end by one that knows of nothing and opens a channel.
    pub(super) fn restart(&mut self, side: Side) {
        self.ends[side as usize] = node(33, self.now);
        self.accept_only = false;
        self.act();
    }

    /// Sends a forged handshake message to an end in the other's name.
    pub(super) fn forge_hello(&mut self, to: Side) {
        self.send_handshake(to, PAYLOAD);
    }

    /// Opens a channel to an end as a peer that takes payloads of this length.
    pub(super) fn welcome(&mut self, to: Side, payload: u32) {
        let me = self.ends[to as usize].channel.id();
        let handshake = Handshake {
            from: 666,
            to: me,
            payload,
            port: 0,
        };
        let header = Packet::new(PacketKind::Welcome, me).emit();
        self.deliver(to as usize, &[&header[..], &handshake.emit()].concat());
    }

    /// Delivers a Hello from the peer's address, for payloads of this length.
    pub(super) fn send_handshake(&mut self, to: Side, payload: u32) {
        let handshake = Handshake {
            from: 666,
            to: 0,
            payload,
            port: 0,
        };
        let header = Packet::new(PacketKind::Hello, 0).emit();
        self.deliver(to as usize, &[&header[..], &handshake.emit()].concat());
    }

    pub(super) fn close(&mut self, side: Side) {
        let mut out = Out::default();
        self.ends[side as usize].channel.close(self.now, &mut out);
        self.dispatch(side as usize, out);
    }

    pub(super) fn run_for(&mut self, time: Duration) {
        let end = self.now.after(time);
        while self.step(end) {}
        self.now = end;
        self.act();
    }

    pub(super) fn run_until(&mut self, limit: Duration, mut done: impl FnMut(&mut Self) -> bool) {
        let end = self.now.after(limit);
        self.act();
        while !done(self) {
            assert!(self.step(end), "nothing moves any more at {:?}", self.now);
        }
    }

    /// Goes on to what happens next; false if that is after `end`.
    fn step(&mut self, end: Instant) -> bool {
        let due = (0..2).map(|at| self.due(at)).min().unwrap_or(Instant::END);
        let next = match self.on_the_way.peek() {
            Some(Reverse((at, ..))) => due.min(*at),
            None => due,
        };
        if next > end {
            return false;
        }
        self.now = self.now.max(next);
        while let Some(Reverse((at, ..))) = self.on_the_way.peek()
            && *at <= self.now
        {
            let Some(Reverse((_, _, to, bytes))) = self.on_the_way.pop() else {
                break;
            };
            if !self.cut {
                self.deliver(to, &bytes);
            }
        }
        self.act();
        true
    }

    fn due(&self, at: usize) -> Instant {
        match self.sleeps(at) {
            true => Instant::END,
            // Time always passes.
            false => self.ends[at]
                .channel
                .due()
                .max(self.now.after(Duration::from_nanos(1))),
        }
    }

    /// Answers a Hello as a link does that has no channel with its sender.
    fn invite(&mut self, at: usize, packet: &Packet, payload: &[u8]) {
        let Ok(handshake) = Handshake::parse(payload) else {
            return;
        };
        let (me, mut out) = (self.ends[at].channel.id(), Out::default());
        let header = Packet {
            credit: 1024,
            sent: packet.sent,
            echo: packet.sent,
            ..Packet::new(PacketKind::Hello, 0)
        };
        let handshake = Handshake {
            from: me,
            to: handshake.from,
            payload: PAYLOAD,
            port: 0,
        };
        out.send(&header.emit(), &handshake.emit());
        self.dispatch(at, out);
    }

    /// Returns whether an end is the second one and waits for a Hello.
    fn sleeps(&self, at: usize) -> bool {
        at == 1
            && self.accept_only
            && !self.ends[1].channel.is_open()
            && self.ends[1].events.is_empty()
    }

    fn deliver(&mut self, to: usize, bytes: &[u8]) {
        let (packet, payload) = Packet::parse(bytes).expect("it was emitted");
        if packet.kind == PacketKind::Hello && self.sleeps(to) {
            return self.invite(to, &packet, payload);
        }
        let end = &mut self.ends[to];
        let by_address = matches!(packet.kind, PacketKind::Hello | PacketKind::Unknown);
        if !by_address && packet.to != end.channel.id() {
            let mut out = Out::default();
            out.send(&Packet::new(PacketKind::Unknown, packet.to).emit(), &[]);
            return self.dispatch(to, out);
        }
        let mut check = Check {
            arrived: &mut end.arrived,
            appetite: end.appetite,
        };
        let event = end.channel.receive(self.now, &packet, payload, &mut check);
        end.note(event);
    }

    fn act(&mut self) {
        for at in 0..2 {
            if self.sleeps(at) {
                continue;
            }
            let end = &mut self.ends[at];
            let mut check = Check {
                arrived: &mut end.arrived,
                appetite: end.appetite,
            };
            end.channel.resume(&mut check);
            let mut out = Out::default();
            let event = end.channel.act(self.now, &mut out);
            end.note(event);
            self.dispatch(at, out);
        }
    }

    fn dispatch(&mut self, from: usize, out: Out) {
        for bytes in out.0 {
            let is_data = bytes[0] == Packet::new(PacketKind::Data, 0).emit()[0];
            let kind_byte = |kind| Packet::new(kind, 0).emit()[0];
            if (self.drop_next.take_if(|kind| kind_byte(*kind) == bytes[0])).is_some() {
                continue;
            }
            self.longest = self.longest.max(bytes.len());
            if is_data {
                self.data = self.data.max(bytes.len());
            }
            self.parts += usize::from(bytes[0] == Packet::new(PacketKind::Part, 0).emit()[0]);
            if bytes.len() > self.carries || self.chance(self.faults.loss) {
                continue;
            }
            let copies = 1 + usize::from(self.chance(self.faults.doubled));
            for _ in 0..copies {
                let jitter = self.faults.jitter.as_nanos() as u64;
                let late = match jitter {
                    0 => 0,
                    most => self.next_random() % most,
                };
                let mut at = (self.now.after(self.faults.delay)).after(Duration::from_nanos(late));
                if is_data {
                    at = at.after(core::mem::take(&mut self.next_data_late));
                }
                self.serial += 1;
                let packet = (at, self.serial, 1 - from, bytes.clone());
                self.on_the_way.push(Reverse(packet));
            }
        }
    }

    fn chance(&mut self, thousandths: u32) -> bool {
        self.next_random() % 1000 < u64::from(thousandths)
    }

    /// Returns the next random number (SplitMix64).
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

impl Node {
    fn note(&mut self, event: Event) {
        match event {
            Event::Nothing => return,
            Event::Ended(end) => self.ended = Some(end),
            _ => {}
        }
        if self.events.len() < 100 {
            self.events.push(event);
        }
    }
}

fn node(id: u64, now: Instant) -> Node {
    let me = Identity {
        id,
        payload: PAYLOAD,
        port: 0,
    };
    let config = ChannelConfig {
        deadline: DEADLINE,
        window_max: usize::MAX,
    };
    Node {
        channel: Channel::new(me, config, now),
        written: 0,
        arrived: 0,
        appetite: usize::MAX,
        ended: None,
        events: Vec::new(),
    }
}
