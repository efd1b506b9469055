//! What attacks the process of the soak all at once: streams, connection requests, packets with and without a channel, and, in
//! programs of their own, cells and handshakes of shm.

use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use oxifabric_trials::source::Compiled;
use oxifabric_trials::{Library, Program};

use crate::callers::{self, Called};
use crate::doors::request_with;
use crate::packets::{self, BYE, DATA, Source, record};
use crate::streams::{frame, noise, request};

/// Connections and channels that an attacker keeps open beside those that it closes at once.
const HELD: usize = 32;
/// Channels that are opened and used before the attack: more than there may be of peers that the application does not know (4,096), so that
/// from then on each takes the place of another one.
const FILLED: u64 = 4608;
/// Threads that do it.
const FILLERS: u64 = 8;
/// How long an attacker waits for one answer before it goes on.
const PATIENCE: Duration = Duration::from_secs(1);
/// Kinds of attackers, for the report.
pub(crate) const KINDS: [&str; 6] = [
    "streams",
    "requests",
    "packets",
    "channels",
    "cells",
    "handshakes",
];

/// What decides what an attacker does next, the same in every run.
struct Dice(u64);

impl Dice {
    fn draw(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

/// What is attacked.
pub(crate) struct Targets<'a> {
    pub(crate) tcp: SocketAddr,
    pub(crate) udp: SocketAddr,
    /// A passive endpoint.
    pub(crate) listener: SocketAddr,
    /// The folder where peers over shm meet, and what shakes hands with an endpoint there.
    pub(crate) shm: &'a Path,
    pub(crate) called: Called<'a>,
    pub(crate) scribbler: &'a Compiled,
    pub(crate) library: &'a Library,
}

/// An attack that goes on.
#[derive(Default)]
pub(crate) struct Attack {
    over: AtomicBool,
    /// How often each kind of attacker has struck, in the order of [`KINDS`].
    visits: [AtomicU64; KINDS.len()],
}

/// Ends the attack when it is dropped.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Attack {
    /// Attacks with the chosen kinds until `meanwhile` returns; returns how often each kind of attacker has struck.
    pub(crate) fn last(
        targets: &Targets<'_>,
        chosen: &[&str],
        meanwhile: impl FnOnce(),
    ) -> [u64; KINDS.len()] {
        let attack = &Self::default();
        thread::scope(|scope| {
            for kind in KINDS.iter().filter(|kind| chosen.contains(kind)) {
                scope.spawn(move || match *kind {
                    "streams" => attack.by_streams(targets.tcp),
                    "requests" => attack.by_requests(targets.listener),
                    "packets" => attack.by_packets(targets.udp),
                    "channels" => attack.by_channels(targets.udp),
                    "cells" => attack.by_cells(targets),
                    _ => attack.by_handshakes(&targets.called),
                });
            }
            // However this ends, the attackers end too.
            let _end = End(&attack.over);
            meanwhile();
        });
        attack
            .visits
            .each_ref()
            .map(|count| count.load(Ordering::Relaxed))
    }

    fn goes_on(&self) -> bool {
        !self.over.load(Ordering::Relaxed)
    }

    fn visited(&self, kind: usize) {
        self.visits[kind].fetch_add(1, Ordering::Relaxed);
    }

    /// Connects over and over, and does one of the things that untrusted peers do.
    fn by_streams(&self, address: SocketAddr) {
        self.by_connections(0, address, words);
    }

    /// Asks a passive endpoint for connections, completely or not.
    fn by_requests(&self, address: SocketAddr) {
        self.by_connections(1, address, asked);
    }

    fn by_connections(&self, kind: usize, address: SocketAddr, words: fn(&mut Dice) -> Vec<u8>) {
        let mut dice = Dice(0x5EED);
        let mut held = Vec::new();
        while self.goes_on() {
            // A process that is short of descriptors lets connections wait, or drops them.
            let Ok(mut stream) = TcpStream::connect_timeout(&address, PATIENCE) else {
                continue;
            };
            let limited = stream.set_write_timeout(Some(PATIENCE));
            limited.expect("a timeout can be set");
            let _ = stream.write_all(&words(&mut dice));
            match dice.draw(4) {
                0 => drop(stream.shutdown(Shutdown::Write)),
                1 => hold(&mut held, stream),
                _ => {}
            }
            self.visited(kind);
        }
    }

    /// Sends packets from ever new ports.
    fn by_packets(&self, address: SocketAddr) {
        let mut dice = Dice(0xDA7A);
        while self.goes_on() {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
            for _ in 0..dice.draw(20) {
                let _ = socket.send_to(&packet(&mut dice), address);
            }
            self.visited(2);
        }
    }

    /// Opens many channels, each with one message at least; returns how many were opened.
    pub(crate) fn fill_channels(address: SocketAddr) -> u64 {
        let opened = &AtomicU64::new(0);
        thread::scope(|scope| {
            for filler in 1..=FILLERS {
                scope.spawn(move || {
                    let mut dice = Dice(filler);
                    for name in 0..FILLED / FILLERS {
                        let source = Source::at([127, 0, 0, 1], address);
                        // The process has no room for those beyond its bound while all others were heard of a moment ago.
                        let name = 1 + name * FILLERS + filler;
                        let Some(channel) = source.try_open(name, PATIENCE) else {
                            continue;
                        };
                        opened.fetch_add(1, Ordering::Relaxed);
                        let first = record(0, 0, 77, &[7; 8]);
                        source.say(&[packets::packet(DATA, channel, 0), first].concat());
                        for number in 1..dice.draw(40) {
                            source.say(&packet_within(&mut dice, channel, number));
                        }
                    }
                });
            }
        });
        opened.load(Ordering::Relaxed)
    }

    /// Opens channels, as sources that prove their address, and breaks the rules within them.
    fn by_channels(&self, address: SocketAddr) {
        let mut dice = Dice(0xC00C1E);
        let mut held = Vec::new();
        while self.goes_on() {
            let source = Source::at([127, 0, 0, 1], address);
            let Some(channel) = source.try_open(1 + dice.draw(u64::MAX), PATIENCE) else {
                continue;
            };
            for number in 0..dice.draw(40) {
                source.say(&packet_within(&mut dice, channel, number));
            }
            match dice.draw(3) {
                0 => source.say(&packets::packet(BYE, channel, 0)),
                1 => hold(&mut held, source),
                _ => {}
            }
            self.visited(3);
        }
    }

    /// Lets peers over shm scribble in the memory that they share with the process.
    fn by_cells(&self, targets: &Targets<'_>) {
        let mut seed = 1_u64;
        while self.goes_on() {
            let program = Program::new(targets.scribbler.file()).library(targets.library);
            let program = program.args([targets.shm.as_os_str()]);
            program.args([seed.to_string()]).run().expect_success();
            seed += 1;
            self.visited(4);
        }
    }

    /// Shakes hands over shm as no peer does, as this user and, where that can be, as another one.
    fn by_handshakes(&self, called: &Called<'_>) {
        let users = [Some(callers::own_user()), callers::other_user().ok()];
        let kinds = [
            ("descriptors", 100),
            ("silent", 100),
            ("memory", 0),
            ("claims", 20),
            ("handshake", 1000),
            ("peers", 50),
        ];
        let mut mixed = kinds
            .iter()
            .flat_map(|kind| users.iter().flatten().map(move |user| (user, kind)))
            .cycle();
        while self.goes_on() {
            let (user, (what, count)) = mixed.next().expect("they are repeated");
            // What holds its connections is ended, and they with it.
            drop(called.attack(*user, what, *count));
            self.visited(5);
        }
    }
}

/// Keeps the last ones.
fn hold<T>(held: &mut Vec<T>, last: T) {
    held.push(last);
    if held.len() > HELD {
        held.remove(0);
    }
}

/// Returns what an attacker says on a stream: noise, a handshake that is cut short, or one that is followed by frames of which some are
/// messages that no receive takes, and the last is cut short.
fn words(dice: &mut Dice) -> Vec<u8> {
    let port = 1 + dice.draw(60_000) as u16;
    let mut words = request(port);
    match dice.draw(5) {
        0 => words = noise(1 + dice.draw(5_000) as usize, dice.draw(u64::MAX)),
        1 => words.truncate(dice.draw(words.len() as u64) as usize),
        2 => words.extend(noise(1 + dice.draw(5_000) as usize, dice.draw(u64::MAX))),
        3 => {
            for _ in 0..dice.draw(200) {
                words.extend(frame(3, 0, 0, 0, 16, 24));
                words.extend([7; 8]);
            }
            words.extend(frame(3, 0, 0, 0, 16, 1 << 20));
            words.extend(noise(dice.draw(100_000) as usize, 3));
        }
        _ => {
            let [op, flags, pieces] = [12, 64, 4].map(|below| dice.draw(below));
            let [size, header] = [1 << 20, 64].map(|below| dice.draw(below));
            words.extend(frame(
                3,
                op as u8,
                flags as u16,
                pieces as u8,
                header as u8,
                size,
            ));
            words.extend(noise(dice.draw(2_000) as usize, 5));
        }
    }
    words
}

/// Returns what an attacker says to a passive endpoint: a request with data, one that is cut short, has more behind it or a random field,
/// or noise.
fn asked(dice: &mut Dice) -> Vec<u8> {
    let mut words = request_with(&"x".repeat(dice.draw(256) as usize));
    match dice.draw(5) {
        0 => words.truncate(dice.draw(words.len() as u64) as usize),
        1 => words.extend(noise(1 + dice.draw(5_000) as usize, dice.draw(u64::MAX))),
        2 => words[dice.draw(32) as usize] = dice.draw(256) as u8,
        3 => words = noise(1 + dice.draw(500) as usize, dice.draw(u64::MAX)),
        _ => {}
    }
    words
}

/// Returns a packet whose first bytes often are those of a real one.
fn packet(dice: &mut Dice) -> Vec<u8> {
    let mut bytes = noise(1 + dice.draw(1_400) as usize, dice.draw(u64::MAX));
    if bytes.len() > 64 && dice.draw(4) > 0 {
        bytes[0] = dice.draw(10) as u8;
        bytes[1] = 1;
        if dice.draw(2) == 0 {
            bytes[8..16].copy_from_slice(&dice.draw(8).to_le_bytes());
        }
    }
    bytes
}

/// Returns a packet within a channel, whose turn this number is: a message that no receive takes, a record of any kind, noise, or
/// what comes before its time or is no data at all.
fn packet_within(dice: &mut Dice, channel: u64, number: u64) -> Vec<u8> {
    let payload = match dice.draw(8) {
        0..4 => record(dice.draw(2) as u8, number as u32, 77, &[7; 8]),
        4 => record(
            dice.draw(20) as u8,
            dice.draw(4) as u32,
            dice.draw(4),
            &noise(dice.draw(900) as usize, 9),
        ),
        5 => noise(1 + dice.draw(1_000) as usize, dice.draw(u64::MAX)),
        6 => {
            return packets::data(
                channel,
                number + 1 + dice.draw(2_000),
                dice.draw(1_400) as usize,
            );
        }
        _ => {
            let kind = 1 + dice.draw(10) as u8;
            let header = packets::packet(kind, channel, dice.draw(1 << 20));
            return [header, noise(dice.draw(1_200) as usize, 11)].concat();
        }
    };
    [packets::packet(DATA, channel, number), payload].concat()
}
