//! Sources of packets without a channel: what they leave behind, and how they get one (protocol section 3).

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::vec::Vec;

use oxifabric_engine::link::{
    Body, Frame, Header, HeaderFlags, Kind, Link, Placement, RxToken, Sink, TxToken,
};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Instant, PeerId};
use oxifabric_wire::reliable::packet::{HEADER_LEN, Handshake, Packet, PacketKind};

use crate::{PacketPort, ReliableLink};

/// An address.
type Address = u64;

const SECOND: Duration = Duration::from_secs(1);

/// Length of the bodies that fill a queue.
const BODY: usize = 16 << 10;

/// Makes a frame with a body.
fn frame(kind: Kind, body: &Iov) -> Frame<'_> {
    Frame {
        transient: true,
        ..Frame::whole(
            Header {
                kind,
                flags: HeaderFlags::empty(),
                id: 1,
                tag: 0,
                data: 0,
                len: body.len() as u64,
            },
            body,
        )
    }
}

/// Packets of any source.
#[derive(Debug, Default)]
struct Port {
    now: Instant,
    arriving: VecDeque<(Address, Vec<u8>)>,
    at_hand: (Address, Vec<u8>),
    numbers: BTreeMap<Address, PeerId>,
    released: Vec<PeerId>,
    /// Numbers to be given again, if the test wants that.
    free: Vec<PeerId>,
    sent: Vec<(Address, Packet, Vec<u8>)>,
    secrets: u64,
}

impl PacketPort for Port {
    fn longest(&self) -> usize {
        1500
    }

    fn has_room(&self) -> bool {
        true
    }

    fn send(&mut self, to: PeerId, header: &[u8; HEADER_LEN], payload: &[u8]) {
        let found = self.numbers.iter().find(|(_, number)| **number == to);
        if let Some((&to, _)) = found {
            let (packet, _) = Packet::parse(header).expect("it was emitted");
            self.sent.push((to, packet, payload.to_vec()));
        }
    }

    fn flush(&mut self) {}

    fn next(&mut self) -> bool {
        let next = self.arriving.pop_front();
        next.map(|packet| self.at_hand = packet).is_some()
    }

    fn packet(&self) -> (PeerId, &[u8]) {
        let number = self.numbers.get(&self.at_hand.0).copied();
        (number.unwrap_or(PeerId::ANY), &self.at_hand.1)
    }

    fn number(&mut self) -> Option<PeerId> {
        if let Some(&number) = self.numbers.get(&self.at_hand.0) {
            return Some(number);
        }
        let fresh = PeerId(self.numbers.len() as u32);
        let number = self.free.pop().unwrap_or(fresh);
        self.numbers.insert(self.at_hand.0, number);
        Some(number)
    }

    fn release(&mut self, peer: PeerId) {
        self.released.push(peer);
    }

    fn answer(&mut self, header: &[u8; HEADER_LEN], payload: &[u8]) {
        assert!(HEADER_LEN + payload.len() <= self.at_hand.1.len());
        let (packet, _) = Packet::parse(header).expect("it was emitted");
        self.sent.push((self.at_hand.0, packet, payload.to_vec()));
    }

    fn source(&self) -> u64 {
        self.at_hand.0.wrapping_mul(0x1234_5678_9abc_def1)
    }

    fn source_of(&self, peer: PeerId) -> Option<u64> {
        let (at, _) = self.numbers.iter().find(|(_, number)| **number == peer)?;
        Some(at.wrapping_mul(0x1234_5678_9abc_def1))
    }

    fn refused(&mut self) -> Option<PeerId> {
        None
    }

    fn secret(&mut self) -> u64 {
        self.secrets += 1;
        self.secrets << 40
    }

    fn now(&self) -> Instant {
        self.now
    }
}

/// Takes everything; keeps what it is told of peers.
#[derive(Debug, Default)]
struct Taker {
    down: Vec<(PeerId, Errno)>,
    forgotten: Vec<PeerId>,
    involved: Vec<PeerId>,
    held: Vec<PeerId>,
}

impl Sink for Taker {
    fn arrival(&mut self, _: PeerId, _: &Header, _: Body<'_>) -> Placement {
        Placement::Done
    }

    fn placed(&mut self, _: RxToken, _: Result<(), Errno>) {}

    fn sent(&mut self, _: TxToken, _: Result<(), Errno>) {}

    fn pulled(&mut self, _: RxToken, _: Result<(), Errno>) {}

    fn writable(&mut self, _: PeerId) {}

    fn involved(&self, each: &mut dyn FnMut(PeerId)) {
        self.involved.iter().copied().for_each(each);
    }

    fn holds(&self, peer: PeerId) -> bool {
        self.held.contains(&peer)
    }

    fn forget_peer(&mut self, peer: PeerId) {
        self.forgotten.push(peer);
    }

    fn peer_down(&mut self, peer: PeerId, why: Errno) {
        self.down.push((peer, why));
    }
}

/// A link and what is above it.
struct Bench {
    link: ReliableLink<Port>,
    sink: Taker,
}

impl Bench {
    fn new() -> Self {
        let port = Port {
            now: Instant::from_nanos(1_000_000_000),
            ..Port::default()
        };
        Self {
            link: ReliableLink::new(port, 100 * SECOND, None),
            sink: Taker::default(),
        }
    }

    /// Begins to open a channel to an address; returns the name that its Hello gives it.
    fn call(&mut self) -> u64 {
        self.link.port_mut().numbers.insert(1, PeerId(0));
        self.link.know(PeerId(0));
        assert!(!self.posts(PeerId(0)), "it is being opened");
        self.poll();
        let (_, _, payload) = self.link.port_mut().sent.remove(0);
        Handshake::parse(&payload)
            .expect("a handshake message")
            .from
    }

    /// Delivers a packet; returns what leaves for its source.
    fn say(&mut self, from: Address, packet: &Packet, payload: &[u8]) -> Vec<(Packet, Vec<u8>)> {
        let bytes = [&packet.emit()[..], payload].concat();
        self.link.port_mut().arriving.push_back((from, bytes));
        self.poll();
        let sent = core::mem::take(&mut self.link.port_mut().sent);
        let for_it = sent.into_iter().filter(|(to, ..)| *to == from);
        for_it
            .map(|(_, packet, payload)| (packet, payload))
            .collect()
    }

    fn send_handshake(
        &mut self,
        at: Address,
        kind: PacketKind,
        to: u64,
        from: u64,
    ) -> Vec<(Packet, Vec<u8>)> {
        let handshake = Handshake {
            from,
            to,
            payload: 1000,
            port: 0,
        };
        let packet = Packet {
            sent: 5,
            credit: 1000,
            ..Packet::new(kind, to)
        };
        self.say(at, &packet, &handshake.emit())
    }

    /// Sends Hello; returns the name that the answer gives to the channel.
    fn hello(&mut self, at: Address, from: u64) -> u64 {
        let answers = self.send_handshake(at, PacketKind::Hello, 0, from);
        let [(packet, payload)] = &answers[..] else {
            panic!("one answer, not {answers:?}");
        };
        let handshake = Handshake::parse(payload).expect("a handshake message");
        assert_eq!((packet.kind, packet.to), (PacketKind::Hello, 0));
        assert_eq!((handshake.to, packet.echo), (from, 5));
        handshake.from
    }

    fn open(&mut self, at: Address, from: u64) -> u64 {
        let name = self.hello(at, from);
        let answers = self.send_handshake(at, PacketKind::Welcome, name, from);
        let kinds: Vec<_> = answers.iter().map(|(packet, _)| packet.kind).collect();
        assert_eq!(kinds, [PacketKind::Ack]);
        name
    }

    fn poll(&mut self) {
        let now = self.link.port().now;
        self.link.poll(now, &mut self.sink);
    }

    fn wait(&mut self, time: Duration) {
        let port = self.link.port_mut();
        port.now = port.now.after(time);
        self.poll();
    }

    /// Posts a frame without a body; returns whether it was taken.
    fn posts(&mut self, to: PeerId) -> bool {
        let body = Iov::empty();
        self.link
            .post(to, frame(Kind::Ack, &body), TxToken(1))
            .is_ok()
    }

    /// Posts bodies to a peer until one is not taken; returns the number of bytes that were.
    fn fill(&mut self, to: PeerId) -> usize {
        let body = Iov::zeroed(BODY).expect("there is memory");
        let taken = (0..).take_while(|_| {
            let frame = frame(Kind::Msg, &body);
            self.link.post(to, frame, TxToken(1)).is_ok()
        });
        taken.count() * BODY
    }

    /// Acknowledges what comes to a peer until nothing has come for a tenth of a second.
    fn take_all(&mut self, at: Address, name: u64) {
        let (mut next, mut pause) = (0, 0);
        while pause < 100 {
            let ack = Packet {
                ack: next,
                credit: 1000,
                ..Packet::new(PacketKind::Ack, name)
            };
            let mut sent = self.say(at, &ack, &[]);
            self.link.port_mut().now = self.link.port().now.after(Duration::from_millis(1));
            sent.retain(|(packet, _)| packet.kind == PacketKind::Data);
            let last = sent.iter().map(|(packet, _)| packet.number).max();
            pause = if last.is_some() { 0 } else { pause + 1 };
            next = next.max(last.map_or(0, |last| last + 1));
        }
    }

    fn numbers(&self) -> usize {
        self.link.port().numbers.len()
    }
}

fn data(to: u64, number: u64) -> Packet {
    Packet {
        number,
        ..Packet::new(PacketKind::Data, to)
    }
}

#[test]
fn a_source_leaves_nothing_before_it_has_heard_an_answer() {
    let mut b = Bench::new();
    for at in 0..100 {
        let name = b.hello(at, 7);
        assert_eq!(b.hello(at, 7), name, "the same to the same");
        assert_ne!(b.hello(at + 1, 7), name, "another to another");
        let answers = b.send_handshake(at, PacketKind::Welcome, name ^ 1 << 30, 7);
        assert_eq!(answers[0].0.kind, PacketKind::Unknown);
        assert_eq!(answers[0].0.to, name ^ 1 << 30);
        assert!(
            b.say(at, &Packet::new(PacketKind::Unknown, 5), &[])
                .is_empty()
        );
        assert!(
            b.say(at, &Packet::new(PacketKind::Hello, 0), b"x")
                .is_empty()
        );
    }
    assert_eq!(b.numbers(), 0);
    b.open(3, 7);
    assert_eq!(b.numbers(), 1);
}

#[test]
fn the_answer_to_a_hello_is_not_answered() {
    let mut b = Bench::new();
    let packet = Packet::new(PacketKind::Hello, 0);
    let handshake = Handshake {
        from: 7,
        to: 8,
        payload: 1000,
        port: 0,
    };
    assert!(b.say(1, &packet, &handshake.emit()).is_empty());
}

#[test]
fn data_before_a_welcome_asks_for_it_and_data_of_an_ended_channel_does_not() {
    let mut b = Bench::new();
    let name = b.hello(1, 7);
    let answers = b.say(1, &data(name, 3), &[0; 100]);
    let handshake = Handshake::parse(&answers[0].1).expect("a handshake message");
    assert_eq!(
        (answers[0].0.kind, handshake.from),
        (PacketKind::Hello, name)
    );
    assert_eq!(b.numbers(), 0);
    let answers = b.say(2, &data(name, 3), &[0; 100]);
    assert_eq!(answers[0].0.kind, PacketKind::Unknown, "another source");
    b.open(1, 7);
    b.say(1, &Packet::new(PacketKind::Bye, name), &[]);
    assert_eq!(b.sink.down, [(PeerId(0), Errno::CONNRESET)]);
    for packet in [data(name, 3), Packet::new(PacketKind::Welcome, name)] {
        let answers = b.say(1, &packet, &[0; 100]);
        assert_eq!(answers[0].0.kind, PacketKind::Unknown);
    }
}

#[test]
fn a_hello_that_any_host_may_have_forged_opens_no_channel_of_ours() {
    let mut b = Bench::new();
    let me = b.call();
    let answers = b.send_handshake(1, PacketKind::Hello, 0, 666);
    let handshake = Handshake::parse(&answers[0].1).expect("a handshake message");
    assert_eq!(answers[0].0.kind, PacketKind::Welcome);
    assert_eq!((handshake.from, handshake.to), (me, 666));
    // The peer itself, which has sent a Hello as well, answers ours.
    let answers = b.send_handshake(1, PacketKind::Welcome, me, 7);
    assert_eq!(answers[0].0.to, 7);
    assert!(b.posts(PeerId(0)));
}

#[test]
fn a_doubt_before_the_peer_has_confirmed_keeps_nothing_awake() {
    let mut b = Bench::new();
    let me = b.call();
    // The peer answers without making a channel, and then another Hello comes in its name.
    b.send_handshake(1, PacketKind::Hello, me, 7);
    b.send_handshake(1, PacketKind::Hello, 0, 8);
    b.poll();
    assert!(b.link.due() > b.link.port().now);
}

#[test]
fn a_channel_takes_the_name_that_the_peer_has_learnt() {
    let mut b = Bench::new();
    let name = b.hello(1, 7);
    b.link.port_mut().numbers.insert(1, PeerId(0));
    b.link.know(PeerId(0));
    assert!(!b.posts(PeerId(0)));
    let answers = b.send_handshake(1, PacketKind::Welcome, name, 7);
    assert!(
        answers
            .iter()
            .any(|(packet, _)| packet.kind == PacketKind::Ack)
    );
    assert!(b.posts(PeerId(0)));
    assert!(b.sink.down.is_empty());
}

#[test]
fn unknown_peers_make_room_for_others_and_give_their_numbers_back() {
    let mut b = Bench::new();
    for at in 0..4096 {
        b.open(at, 7);
    }
    b.link.know(PeerId(0));
    b.open(4096, 7);
    let name = b.hello(4097, 7);
    let answers = b.send_handshake(4097, PacketKind::Welcome, name, 7);
    assert!(answers.is_empty(), "all have just been heard");
    assert!(b.sink.down.is_empty());
    b.wait(4 * SECOND);
    let before = b.link.port().now;
    b.open(4097, 7);
    assert_eq!(b.sink.down, [(PeerId(1), Errno::CONNRESET)]);
    b.sink.involved.push(PeerId(1));
    b.wait(2 * SECOND);
    assert!(b.sink.forgotten.is_empty(), "something of it is still here");
    b.sink.involved.clear();
    b.wait(2 * SECOND);
    assert_eq!(b.sink.forgotten, [PeerId(1)]);
    assert_eq!(b.link.port().released.last(), Some(&PeerId(1)));
    assert!(b.link.port().now > before);
}

#[test]
fn channels_that_are_never_used_go() {
    let mut b = Bench::new();
    let name = b.open(1, 7);
    b.say(1, &data(name, 0), &[0; 40]);
    b.open(2, 8);
    for _ in 0..40 {
        b.wait(SECOND);
    }
    assert_eq!(b.sink.down, [(PeerId(1), Errno::CONNRESET)]);
}

#[test]
fn what_waits_for_a_peer_that_acknowledges_nothing_is_bounded_and_ends_with_its_channel() {
    const MOST: usize = 4 << 20;
    const LEAST: usize = 128 << 10;
    let mut b = Bench::new();
    let (first, last) = (PeerId(0), PeerId(1023));
    b.open(0, 7);
    let mut taken = b.fill(first);
    assert!((MOST / 2..=MOST).contains(&taken), "{taken} for one peer");
    for at in 1..1024 {
        b.open(at, 7);
    }
    taken = b.fill(last);
    assert!(
        (LEAST / 2..=LEAST).contains(&taken),
        "{taken} for one of many"
    );
    b.wait(SECOND);
    assert_eq!(b.fill(last), 0, "time makes no room");
    // The application addresses it.
    b.link.know(last);
    taken += b.fill(last);
    assert!(
        (MOST / 2..=MOST).contains(&taken),
        "{taken} for a known one"
    );
    for _ in 0..110 {
        b.wait(SECOND);
    }
    for peer in [first, last] {
        assert!(b.sink.down.contains(&(peer, Errno::TIMEDOUT)), "{peer:?}");
    }
}

#[test]
fn what_waits_for_unknown_peers_that_acknowledge_nothing_is_bounded_in_all() {
    // As `SHARED`, `UnknownQueues::FIRST` and `QUEUE_BYTES` of the link.
    const SHARED: usize = 128 << 20;
    const FIRST: usize = 72 << 10;
    const MOST: usize = 4 << 20;
    const PEERS: usize = 512;
    let mut b = Bench::new();
    let mut taken = 0;
    // Each has its queue filled before the next one comes, and so the largest share.
    for at in 0..PEERS {
        b.open(at as Address, 7);
        let own = b.fill(PeerId(at as u32));
        assert!(own >= FIRST - BODY, "{own} for the {at}th");
        taken += own;
    }
    assert!(taken <= SHARED + PEERS * FIRST, "{taken} in all");
    // Those that are gone give back what they had.
    for _ in 0..110 {
        b.wait(SECOND);
    }
    assert_eq!(b.sink.down.len(), PEERS);
    b.open(PEERS as Address, 7);
    let own = b.fill(PeerId(PEERS as u32));
    assert!((MOST / 2..=MOST).contains(&own), "{own} for the only one");
}

#[test]
fn room_in_queues_of_unknown_peers_that_is_not_used_is_taken_back() {
    const MOST: usize = 4 << 20;
    const FIRST: usize = 72 << 10;
    let mut b = Bench::new();
    let name = b.open(0, 7);
    b.fill(PeerId(0));
    for at in 1..36 {
        b.open(at, 7);
        b.fill(PeerId(at as u32));
    }
    b.open(36, 7);
    b.open(37, 7);
    assert!(b.fill(PeerId(36)) <= FIRST, "others have it all");
    b.take_all(0, name);
    b.wait(2 * SECOND);
    let own = b.fill(PeerId(37));
    assert!((MOST / 2..=MOST).contains(&own), "{own}");
}

#[test]
fn a_poll_takes_a_number_of_packets_and_leaves_the_rest_to_later_ones() {
    // As `PACKETS_PER_POLL` of the link.
    const MOST: usize = 64;
    let mut b = Bench::new();
    let packet = Packet::new(PacketKind::Unknown, 5).emit();
    let arriving = (0..200).map(|source| (source, packet.to_vec()));
    b.link.port_mut().arriving.extend(arriving);
    for polls in 1..=3 {
        b.poll();
        assert_eq!(b.link.port().arriving.len(), 200 - polls * MOST);
    }
}

/// Time after which a channel rests, and some seconds for the link to look.
const LONG: Duration = Duration::from_secs(310);

/// Returns what packets of the peer have come, as the answer to a packet says.
fn acknowledged(answers: &[(Packet, Vec<u8>)]) -> Vec<(PacketKind, u64)> {
    let told = answers.iter().map(|(packet, _)| (packet.kind, packet.ack));
    told.collect()
}

#[test]
fn a_used_channel_rests_when_its_peer_is_silent_for_long_and_goes_on_where_it_was() {
    let mut b = Bench::new();
    let name = b.open(1, 7);
    b.sink.held.push(PeerId(0));
    for number in 0..3 {
        b.say(1, &data(name, number), &[0; 40]);
    }
    b.wait(LONG);
    b.wait(2 * SECOND);
    assert!(b.sink.forgotten.is_empty(), "a message of it is still here");
    b.sink.held.clear();
    b.wait(2 * SECOND);
    b.wait(2 * SECOND);
    assert_eq!(b.sink.forgotten, [PeerId(0)]);
    assert_eq!(b.link.port().released, [PeerId(0)]);
    assert_eq!(b.link.due(), Instant::END, "nothing of it is left");
    let sent = core::mem::take(&mut b.link.port_mut().sent);
    let kinds: BTreeSet<_> = sent
        .iter()
        .map(|(_, packet, _)| packet.kind as u8)
        .collect();
    assert_eq!(
        kinds,
        [PacketKind::Ack as u8].into(),
        "the peer is not told"
    );
    let probe = Packet::new(PacketKind::Probe, name);
    let answers = b.say(2, &probe, &[]);
    assert_eq!(answers[0].0.kind, PacketKind::Unknown, "another source");
    let again = b.say(1, &data(name, 2), &[0; 40]);
    assert_eq!(acknowledged(&again), [(PacketKind::Ack, 3)], "not twice");
    b.say(1, &data(name, 3), &[0; 40]);
    let answers = b.say(1, &probe, &[]);
    assert_eq!(acknowledged(&answers), [(PacketKind::Ack, 4)]);
    assert!(b.sink.down.is_empty());
}

#[test]
fn a_new_process_where_the_peer_of_a_resting_channel_was_begins_at_the_first_packet() {
    let mut b = Bench::new();
    let name = b.open(1, 7);
    b.say(1, &data(name, 0), &[0; 40]);
    for _ in 0..3 {
        b.wait(LONG);
    }
    b.link.port_mut().sent.clear();
    assert_eq!(b.sink.forgotten, [PeerId(0)]);
    // The ids that it gets and gives end in the same bits as before.
    assert_eq!(b.open(1, 7 + (1 << 16)), name);
    b.say(1, &data(name, 0), &[0; 40]);
    let told = b.say(1, &Packet::new(PacketKind::Probe, name), &[]);
    assert_eq!(acknowledged(&told), [(PacketKind::Ack, 1)]);
}

#[test]
fn used_channels_make_room_for_others_and_go_on_later() {
    let mut b = Bench::new();
    let name = b.open(0, 7);
    b.say(0, &data(name, 0), &[0; 40]);
    for at in 1..4096 {
        b.open(at, 7);
    }
    b.wait(4 * SECOND);
    b.open(4096, 7);
    assert!(b.sink.down.is_empty(), "the first one rests");
    b.say(0, &data(name, 1), &[0; 40]);
    assert_eq!(b.sink.down, [(PeerId(1), Errno::CONNRESET)], "never used");
    let told = b.say(0, &Packet::new(PacketKind::Probe, name), &[]);
    assert_eq!(acknowledged(&told), [(PacketKind::Ack, 2)]);
}

/// Gives the numbers that were released to the next sources.
fn reuse_numbers(b: &mut Bench) {
    let port = b.link.port_mut();
    for number in core::mem::take(&mut port.released) {
        port.numbers.retain(|_, given| *given != number);
        port.free.push(number);
    }
}

#[test]
fn channels_that_come_and_go_leave_nothing_behind() {
    let mut b = Bench::new();
    let mut most = [Vec::new(), Vec::new()];
    for at in 0..12_000 {
        let name = b.open(at, 7);
        // Half of them leave a gap, and are closed to make room; the others rest.
        for number in [0, 1, 1 + at % 2 * 4] {
            b.say(at, &data(name, number), &[0; 40]);
        }
        if at % 3 == 0 {
            b.say(at, &Packet::new(PacketKind::Bye, name), &[]);
        }
        if at % 16 == 0 {
            // Those of the last seconds are a small part of all.
            b.wait(SECOND / 4);
            reuse_numbers(&mut b);
        }
        most[usize::from(at >= 8_000)].push(b.link.entries());
    }
    let largest = |rows: &[[usize; 6]], table: usize| rows.iter().map(|row| row[table]).max();
    for table in 0..6 {
        let (first, later) = (largest(&most[0], table), largest(&most[1], table));
        assert!(later <= first, "table {table}: {first:?}, later {later:?}");
    }
}
