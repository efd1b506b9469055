//! Packets of hostile peers to a reliable link, above it an engine with operations under way: handshake messages, data in order and
//! not, in parts, acknowledgements of anything, probes and ends. The peers know what the link calls their channels.
//!
//! Whatever they say, a packet that is sent again says the same, and once all of them are silent every operation ends.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use arbitrary::{Arbitrary, Unstructured};
use oxifabric_engine::HeaderFlags;
use oxifabric_reliable::{PacketPort, ReliableLink};
use oxifabric_types::{Instant, PeerId};
use oxifabric_wire::reliable::packet::{
    HEADER_LEN, Handshake, PART_HEAD_LEN, Packet, PacketKind, PartHead,
};
use oxifabric_wire::reliable::record::{HEAD_MAX, Record, RecordTarget, TARGETS_MAX};

use crate::world::{Call, KEY, PEERS, World, peer};

const LONGEST: usize = 4096;
const DEADLINE: Duration = Duration::from_secs(10);
/// Bytes of a packet in a part, docs/protocol/reliable.md section 6.7.
const PART: usize = 1200 - HEADER_LEN - PART_HEAD_LEN;

#[derive(Arbitrary, Debug)]
enum Step {
    Call(Call),
    /// Time passes, in units of 10 microseconds, or of milliseconds.
    Wait {
        units: u8,
        long: bool,
    },
    Say {
        from: u8,
        what: What,
        fields: Fields,
    },
    /// A frame is written into the peer's stream, whole or but for its last bytes.
    Write {
        from: u8,
        frame: Form,
        cut: u8,
    },
    /// A packet that was held back arrives.
    Late {
        from: u8,
        which: u8,
    },
    /// Any bytes.
    Raw {
        from: u8,
        bytes: Vec<u8>,
    },
    Refused(u8),
    Jam(bool),
}

/// What a packet is.
#[derive(Arbitrary, Debug)]
enum What {
    Handshake {
        welcome: bool,
        name: u8,
        payload: u16,
        knows: bool,
    },
    /// The next bytes of the stream.
    Data {
        len: u16,
        number: Near,
        fate: Fate,
    },
    /// A part of any packet.
    Part {
        number: Near,
        index: u8,
        all: u16,
        len: Option<u16>,
    },
    Ack {
        arrived: u16,
    },
    Probe {
        padding: u16,
    },
    /// Names the channel as the peer calls it, or anything.
    Unknown {
        name: Option<u8>,
    },
    Bye,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Fate {
    Arrives,
    Doubled,
    Late,
    Torn,
}

/// A number that is right, near to that, or far.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Near {
    Right,
    Off(i8),
    Any(u64),
}

#[derive(Arbitrary, Debug)]
struct Fields {
    ack: Near,
    more: u16,
    shift: u8,
    credit: u16,
    held: u16,
    sent: Near,
    echo: Near,
}

#[derive(Arbitrary, Debug)]
struct Form {
    kind: u8,
    flags: u8,
    id: u8,
    tag: u8,
    data: u8,
    len: Near,
    size: u16,
    targets: u8,
    target: (u8, u8),
}

impl Near {
    fn to(self, right: u64) -> u64 {
        match self {
            Self::Right => right,
            Self::Off(by) => right.wrapping_add_signed(by.into()),
            Self::Any(number) => number,
        }
    }
}

/// A peer, and what it has heard.
#[derive(Debug, Default)]
struct HostilePeer {
    /// What the link calls the channel.
    channel: u64,
    /// What the peer calls it.
    name: u64,
    /// The packets of the channel that have come from the link, by their numbers.
    heard: BTreeMap<u64, Vec<u8>>,
    /// The link's clock, and our own.
    clocks: (u32, u32),
    /// What is to be sent, the next packet's number, and packets that were held back.
    stream: Vec<u8>,
    next: u64,
    late: Vec<Vec<u8>>,
}

impl HostilePeer {
    /// Looks at a packet of the link.
    fn hear(&mut self, packet: &Packet, payload: &[u8]) {
        self.clocks.0 = packet.sent;
        match packet.kind {
            PacketKind::Hello | PacketKind::Welcome => {
                let handshake = Handshake::parse(payload).expect("the link sends all of it");
                if handshake.from != self.channel {
                    *self = Self {
                        channel: handshake.from,
                        ..Self::default()
                    };
                }
            }
            PacketKind::Data => {
                let before = self.heard.entry(packet.number);
                let before = before.or_insert_with(|| payload.to_vec());
                assert_eq!(before, payload, "a packet that was sent has changed");
                assert!(!payload.is_empty());
            }
            PacketKind::Part => {
                let (head, bytes) = PartHead::parse(payload).expect("a part has a head");
                // One that was written before its way was known is never sent whole.
                if let Some(whole) = self.heard.get(&packet.number) {
                    assert_eq!(whole.len(), head.all as usize);
                    assert!(whole[head.at as usize..].starts_with(bytes));
                }
            }
            PacketKind::Ack | PacketKind::Probe | PacketKind::Unknown | PacketKind::Bye => {}
        }
    }

    fn packet(&mut self, kind: PacketKind, number: u64, fields: &Fields) -> Packet {
        self.clocks.1 = self.clocks.1.wrapping_add(1);
        let heard = self.heard.last_key_value();
        Packet {
            number,
            credit: fields.credit,
            held: fields.held.into(),
            ack: fields.ack.to(heard.map_or(0, |(number, _)| number + 1)),
            more: u128::from(fields.more) << (fields.shift % 128),
            sent: fields.sent.to(self.clocks.1.into()) as u32,
            echo: fields.echo.to(self.clocks.0.into()) as u32,
            ..Packet::new(kind, self.channel)
        }
    }

    fn say(&mut self, what: &What, fields: &Fields) -> Vec<Vec<u8>> {
        match *what {
            What::Handshake {
                welcome,
                name,
                payload,
                knows,
            } => {
                self.name = name.into();
                let handshake = Handshake {
                    from: name.into(),
                    to: if knows { self.channel } else { 0 },
                    payload: payload.into(),
                    port: 0,
                };
                let kind = match welcome {
                    true => PacketKind::Welcome,
                    false => PacketKind::Hello,
                };
                vec![bytes_of(&self.packet(kind, 0, fields), &handshake.emit())]
            }
            What::Data { len, number, fate } => self.data(len, number, fate, fields),
            What::Part {
                number,
                index,
                all,
                len,
            } => {
                let (at, all) = (usize::from(index) * PART, usize::from(all));
                let fits = PART.min(all.saturating_sub(at));
                let payload = part(at, all, &vec![5; len.map_or(fits, usize::from)]);
                let number = number.to(self.next);
                vec![bytes_of(
                    &self.packet(PacketKind::Part, number, fields),
                    &payload,
                )]
            }
            What::Ack { arrived } => {
                vec![bytes_of(
                    &self.packet(PacketKind::Ack, arrived.into(), fields),
                    &[],
                )]
            }
            What::Probe { padding } => {
                let padding = vec![0; usize::from(padding) % LONGEST];
                vec![bytes_of(
                    &self.packet(PacketKind::Probe, 0, fields),
                    &padding,
                )]
            }
            What::Unknown { name } => {
                let to = name.map_or(self.name, u64::from);
                let packet = Packet {
                    to,
                    ..self.packet(PacketKind::Unknown, 0, fields)
                };
                vec![bytes_of(&packet, &[])]
            }
            What::Bye => vec![bytes_of(&self.packet(PacketKind::Bye, 0, fields), &[])],
        }
    }

    fn data(&mut self, len: u16, number: Near, fate: Fate, fields: &Fields) -> Vec<Vec<u8>> {
        let len = self.stream.len().min(usize::from(len) % LONGEST);
        let payload: Vec<u8> = self.stream.drain(..len).collect();
        let packet = self.packet(PacketKind::Data, number.to(self.next), fields);
        self.next += u64::from(packet.number == self.next);
        let whole = bytes_of(&packet, &payload);
        match fate {
            Fate::Arrives => vec![whole],
            Fate::Doubled => vec![whole.clone(), whole],
            Fate::Late => {
                self.late.push(whole);
                Vec::new()
            }
            Fate::Torn => {
                let kind = PacketKind::Part;
                let parts = payload.chunks(PART).enumerate().rev();
                parts
                    .map(|(index, bytes)| {
                        let payload = part(index * PART, len, bytes);
                        bytes_of(&Packet { kind, ..packet }, &payload)
                    })
                    .collect()
            }
        }
    }
}

fn bytes_of(packet: &Packet, payload: &[u8]) -> Vec<u8> {
    [&packet.emit()[..], payload].concat()
}

fn part(at: usize, all: usize, bytes: &[u8]) -> Vec<u8> {
    let (at, all) = (at as u32, all as u32);
    [&PartHead { at, all }.emit()[..], bytes].concat()
}

/// Writes a frame.
fn framed(form: &Form) -> Vec<u8> {
    let size = usize::from(form.size) % (2 * LONGEST);
    let record = Record {
        kind: form.kind % 20,
        flags: form.flags & HeaderFlags::all().bits(),
        targets: form.targets % (TARGETS_MAX as u8 + 2),
        id: form.id.into(),
        tag: form.tag.into(),
        data: form.data.into(),
        len: form.len.to(size as u64),
        body: size as u64,
    };
    let target = RecordTarget {
        addr: form.target.0.into(),
        len: form.target.1.into(),
        key: KEY,
    };
    let mut head = [0; HEAD_MAX];
    let len = record.emit([target; TARGETS_MAX], &mut head);
    [&head[..len], &vec![0x77; size]].concat()
}

/// The port of the link, with the peers behind it.
#[derive(Debug)]
struct Port {
    now: Instant,
    peers: [HostilePeer; PEERS as usize + 1],
    arriving: VecDeque<(PeerId, Vec<u8>)>,
    at_hand: (PeerId, Vec<u8>),
    refused: Vec<PeerId>,
    jammed: bool,
    secrets: u64,
}

impl PacketPort for Port {
    fn longest(&self) -> usize {
        LONGEST
    }

    fn has_room(&self) -> bool {
        !self.jammed
    }

    fn send(&mut self, to: PeerId, header: &[u8; HEADER_LEN], payload: &[u8]) {
        let (packet, _) = Packet::parse(header).expect("the link sends packets");
        assert!(HEADER_LEN + payload.len() <= LONGEST);
        self.peers[to.index()].hear(&packet, payload);
    }

    fn flush(&mut self) {}

    fn next(&mut self) -> bool {
        let next = self.arriving.pop_front();
        next.map(|packet| self.at_hand = packet).is_some()
    }

    fn packet(&self) -> (PeerId, &[u8]) {
        (self.at_hand.0, &self.at_hand.1)
    }

    fn refused(&mut self) -> Option<PeerId> {
        self.refused.pop()
    }

    fn secret(&mut self) -> u64 {
        self.secrets += 1;
        1 << 32 | self.secrets
    }

    fn now(&self) -> Instant {
        self.now
    }
}

impl Port {
    fn new() -> Self {
        Self {
            now: Instant::from_nanos(1_000_000_000),
            peers: Default::default(),
            arriving: VecDeque::new(),
            at_hand: (peer(0), Vec::new()),
            refused: Vec::new(),
            jammed: false,
            secrets: 0,
        }
    }

    fn act(&mut self, step: Step) {
        match step {
            Step::Call(_) => {}
            Step::Wait { units, long } => {
                let unit = Duration::from_micros(if long { 10_000 } else { 10 });
                self.now = self.now.after(unit * units.into());
            }
            Step::Say { from, what, fields } => {
                let said = self.peers[peer(from).index()].say(&what, &fields);
                let said = said.into_iter().map(|bytes| (peer(from), bytes));
                self.arriving.extend(said);
            }
            Step::Write { from, frame, cut } => {
                let mut bytes = framed(&frame);
                bytes.truncate(bytes.len() - bytes.len().min(cut.saturating_sub(200).into()));
                self.peers[peer(from).index()].stream.extend(bytes);
            }
            Step::Late { from, which } => {
                let late = &mut self.peers[peer(from).index()].late;
                if !late.is_empty() {
                    let bytes = late.remove(usize::from(which) % late.len());
                    self.arriving.push_back((peer(from), bytes));
                }
            }
            Step::Raw { from, bytes } => self.arriving.push_back((peer(from), bytes)),
            Step::Refused(from) => self.refused.push(peer(from)),
            Step::Jam(jammed) => self.jammed = jammed,
        }
    }
}

pub(super) fn run(bytes: &[u8]) {
    let mut input = Unstructured::new(bytes);
    let mut link = ReliableLink::new(Port::new(), DEADLINE, None);
    // Some messages are longer than what is sent unasked.
    let mut world = World::stretched(4);
    while !input.is_empty() {
        let Ok(step) = input.arbitrary() else {
            break;
        };
        match step {
            Step::Call(call) => world.call(&mut link, &call),
            step => link.port_mut().act(step),
        }
        progress(&mut world, &mut link);
    }
    // From now on no peer answers.
    link.port_mut().jammed = false;
    for _ in 0..60 {
        let now = &mut link.port_mut().now;
        *now = now.after(Duration::from_secs(1));
        progress(&mut world, &mut link);
    }
    world.close();
    link.close();
}

fn progress(world: &mut World, link: &mut ReliableLink<Port>) {
    let now = link.port().now;
    world.engine.progress(link, &mut world.ledger, now);
}

/// A run in the bytes that [`Unstructured`] makes steps of: of a choice the high bits of four bytes say which.
#[derive(Default)]
struct Story(Vec<u8>);

impl Story {
    fn choice(mut self, index: u64, of: u64) -> Self {
        let middle = ((2 * index + 1) << 31) / of;
        self.0.extend((middle as u32).to_le_bytes());
        self
    }

    fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    /// Begins what a peer says.
    fn says(self, from: u8, what: u64) -> Self {
        self.choice(2, 8).bytes(&[from]).choice(what, 7)
    }

    /// Fields that are right, with credit.
    fn rightly(self) -> Self {
        let story = self.choice(0, 3).bytes(&[0, 0, 0, 100, 0, 0, 0]);
        story.choice(0, 3).choice(0, 3)
    }

    /// Opens the channel of a peer, of packets of 2,000 bytes: it sends Hello, and repeats what it is answered.
    fn opens(self, from: u8) -> Self {
        let (hello, welcome) = ([0, 9, 0xd0, 7, 0], [1, 9, 0xd0, 7, 1]);
        let story = self.says(from, 0).bytes(&hello).rightly();
        story.says(from, 0).bytes(&welcome).rightly()
    }

    /// Adds a call of a message or a receive of 4 times `len` bytes.
    fn calls(self, which: u64, peer: &[u8], len: u16, how: &[u8]) -> Self {
        let call = self.choice(0, 8).choice(which, 8).bytes(peer).bytes(&[0]);
        call.bytes(&len.to_le_bytes()).bytes(how)
    }

    fn writes(self, kind: u8, id: u8, size: u16) -> Self {
        let frame = self.choice(3, 8).bytes(&[0, kind, 0, id, 0, 0]);
        let sized = frame.choice(0, 3).bytes(&size.to_le_bytes());
        sized.bytes(&[0, 0, 0, 0])
    }

    fn sends(self, len: u16, fate: u64) -> Self {
        let data = self.says(0, 1).bytes(&len.to_le_bytes()).choice(0, 3);
        data.choice(fate, 4).rightly()
    }

    fn acknowledges(self) -> Self {
        self.says(0, 3).bytes(&[0, 0]).rightly()
    }

    fn waits(self, units: u8) -> Self {
        self.choice(1, 8).bytes(&[units, 0])
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let open = || Story::default().opens(0).opens(1);
    let received = open().calls(0, &[0], 700, &[0]).writes(0, 1, 2500);
    let sent = open().calls(2, &[0], 700, &[1]).waits(50);
    let offered = open().calls(2, &[0], 30_000, &[1]).waits(50);
    let fill = |len: usize, step: usize| (0..len).map(|at| (at * step) as u8).collect();
    vec![
        received.sends(1500, 0).sends(2000, 1).waits(20).0,
        open().writes(0, 1, 2500).sends(3000, 3).waits(20).0,
        sent.acknowledges().waits(20).acknowledges().0,
        offered.acknowledges().writes(4, 0, 0).sends(100, 0).0,
        open().says(0, 6).rightly().opens(0).0,
        fill(300, 29),
        fill(900, 211),
    ]
}
