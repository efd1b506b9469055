//! Everything at once, for as long as `OXI_SOAK_SECONDS` says: streams, packets, greetings and cells of attackers at one process that
//! serves honest peers over tcp, udp;ofi_rxd and shm. Its descriptors and memory are at the end what they were before.

use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use oxifabric_trials::source::{self, Compiled};
use oxifabric_trials::{Library, Missing, Process, Program, Scratch, require};

use crate::streams::{frame, noise, request};

/// How long the attack lasts unless the variable says otherwise.
const SECONDS: u64 = 60;
/// What the process serves.
const PROVIDERS: [&str; 3] = ["tcp", "udp;ofi_rxd", "shm"];
/// Connections that an attacker keeps open beside those that it closes at once.
const HELD: usize = 32;
/// How much more memory than before may be resident at the end: tables keep the space that they had once, allocators keep pages. A byte
/// that stays of each packet or connection would be more.
const MORE: u64 = 24 << 20;
/// How long the process may take to let go of what departed attackers held.
const TIMEOUT: Duration = Duration::from_secs(60);

/// One process with an endpoint for each provider, and an honest peer of each.
struct Scene {
    server: Process,
    peers: Vec<Process>,
    meeting: Scratch,
    limit: Duration,
}

impl Scene {
    fn open(library: &Library, limit: Duration) -> Result<Self, Missing> {
        let (echoes, volley) = (
            source::compile_client("echoes")?,
            source::compile_client("volley")?,
        );
        let meeting = Scratch::new();
        for provider in PROVIDERS {
            fs::create_dir(meeting.join(provider)).expect("a new folder takes folders");
        }
        let start = |program: &Compiled, args: &[&str]| {
            let program = Program::new(program.file()).library(library).args(args);
            program.limit(limit).start()
        };
        let folder = meeting.path().to_str().expect("a folder's name is text");
        let server = start(&echoes, &[&[folder], &PROVIDERS[..]].concat());
        let peers = PROVIDERS.map(|provider| {
            let folder = meeting.join(provider);
            start(
                &volley,
                &[provider, folder.to_str().expect("text"), "asker"],
            )
        });
        let mut scene = Self {
            server,
            peers: peers.into(),
            meeting,
            limit,
        };
        scene.play(1);
        Ok(scene)
    }

    /// Waits until every honest peer has done `more` further rounds.
    fn play(&mut self, more: u64) {
        for (provider, peer) in PROVIDERS.iter().zip(&mut self.peers) {
            let rounds = self.meeting.join(provider).join("rounds");
            let goal = recorded(&rounds) + more;
            let played = peer.until(|_| recorded(&rounds) >= goal);
            assert_eq!(
                played,
                Ok(()),
                "{provider}: {}{}",
                peer.stdout(),
                peer.stderr()
            );
        }
    }

    /// Returns the address of the endpoint with this place among the providers listens.
    fn address(&self, at: usize) -> SocketAddr {
        let printed = self.server.stdout();
        let line = printed
            .lines()
            .filter(|line| line.starts_with("address "))
            .nth(at);
        let address = line.and_then(|line| line.split_once("fi_sockaddr_in://"));
        address
            .and_then(|(_, text)| text.parse().ok())
            .expect("the process printed its addresses")
    }

    fn descriptors(&self) -> usize {
        let folder = format!("/proc/{}/fd", self.server.id());
        fs::read_dir(folder).map_or(0, Iterator::count)
    }

    /// Returns how many bytes of memory the process has resident.
    fn resident(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.server.id()));
        let status = status.unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kib.expect("the process runs") << 10
    }

    /// Waits until the process has no more descriptors and memory than that.
    fn settle(&mut self, descriptors: usize, resident: u64) {
        let deadline = Instant::now() + TIMEOUT;
        while self.descriptors() > descriptors || self.resident() > resident {
            assert!(
                Instant::now() < deadline,
                "{} descriptors, of {descriptors}; {} bytes, of {resident}",
                self.descriptors(),
                self.resident()
            );
            self.play(1);
        }
    }

    fn end(self) {
        for provider in PROVIDERS {
            let stop = self.meeting.join(provider).join("stop");
            fs::write(stop, "").expect("the meeting place is writable");
        }
        for peer in self.peers {
            peer.wait().expect_success().expect_stdout(" 0 wrong\n");
        }
        self.server.wait().expect_success();
    }
}

fn recorded(rounds: &Path) -> u64 {
    fs::read_to_string(rounds)
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0)
}

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

/// The attack goes on.
struct Attack {
    over: AtomicBool,
    /// By streams, by packets and by cells.
    visits: [AtomicU64; 3],
}

/// Ends the attack when it is dropped.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Attack {
    fn goes_on(&self) -> bool {
        !self.over.load(Ordering::Relaxed)
    }

    fn visited(&self, kind: usize) {
        self.visits[kind].fetch_add(1, Ordering::Relaxed);
    }

    /// Connects over and over, and does one of the things that untrusted peers do.
    fn by_streams(&self, address: SocketAddr) {
        let mut dice = Dice(0x5EED);
        let mut held = Vec::new();
        while self.goes_on() {
            // A process that is short of descriptors lets connections wait, or drops them.
            let Ok(mut stream) = TcpStream::connect_timeout(&address, TIMEOUT) else {
                continue;
            };
            let limited = stream.set_write_timeout(Some(Duration::from_secs(1)));
            limited.expect("a timeout can be set");
            let _ = stream.write_all(&words(&mut dice));
            match dice.draw(4) {
                0 => drop(stream.shutdown(Shutdown::Write)),
                1 => held.push(stream),
                _ => {}
            }
            if held.len() > HELD {
                held.remove(0);
            }
            self.visited(0);
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
            self.visited(1);
        }
    }

    /// Lets peers over shm scribble in the memory that they share with the process.
    fn by_cells(&self, scribbler: &Compiled, library: &Library, meeting: &Path, limit: Duration) {
        let mut seed = 1_u64;
        while self.goes_on() {
            let program = Program::new(scribbler.file()).library(library).limit(limit);
            let program = program.args([meeting.as_os_str()]).args([seed.to_string()]);
            program.run().expect_success();
            seed += 1;
            self.visited(2);
        }
    }
}

/// Returns what an attacker says on a stream: noise, a greeting that is cut short, or one that is followed by frames of which some are
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

fn besiege() -> Result<(), Missing> {
    let library = Library::under_test()?;
    let scribbler = source::compile_client("scribbler")?;
    let seconds = env::var("OXI_SOAK_SECONDS").ok();
    let seconds = seconds.map_or(SECONDS, |text| text.parse().expect("a number of seconds"));
    let lasts = Duration::from_secs(seconds);
    let mut scene = Scene::open(&library, lasts + 3 * TIMEOUT)?;
    let (descriptors, resident) = (scene.descriptors(), scene.resident());
    let attack = Attack {
        over: AtomicBool::new(false),
        visits: [0; 3].map(AtomicU64::new),
    };
    let (tcp, udp) = (scene.address(0), scene.address(1));
    let (shm, limit): (PathBuf, _) = (scene.meeting.join("shm"), scene.limit);
    thread::scope(|scope| {
        scope.spawn(|| attack.by_streams(tcp));
        scope.spawn(|| attack.by_packets(udp));
        scope.spawn(|| attack.by_cells(&scribbler, &library, &shm, limit));
        // However this ends, the attackers end too.
        let _end = End(&attack.over);
        let begun = Instant::now();
        while begun.elapsed() < lasts {
            scene.play(1);
        }
    });
    let visits = attack.visits.map(AtomicU64::into_inner);
    println!(
        "{visits:?} visits; before: {descriptors} descriptors, {resident} bytes; at the end: {}, {}",
        scene.descriptors(),
        scene.resident()
    );
    assert!(visits.iter().all(|count| *count > 0), "{visits:?} visits");
    scene.settle(descriptors, resident + MORE);
    scene.end();
    Ok(())
}

#[test]
fn a_besieged_process_serves_honest_peers_and_does_not_grow() {
    require!(besiege());
}
