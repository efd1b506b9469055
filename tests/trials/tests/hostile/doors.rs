//! Callers of tcp where the process has no descriptor left, and where its program is slow to read the requests.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use oxifabric_trials::{Library, Missing, Process, Program, Scratch, installed, require, source};

use crate::players::{Players, address_of};
use crate::processor;
use crate::streams::{TIMEOUT, is_dropped, request};

pub(crate) const REFUSAL: u8 = 6;

/// How many callers wait where they cannot even be refused.
const WAITING: usize = 8;

/// Requests that a passive endpoint is told to hold.
const BACKLOG: usize = 4;

/// Returns a request for a connection of a connected endpoint, with data.
pub(crate) fn request_with(data: &str) -> Vec<u8> {
    let mut message = vec![3, 0, 0, data.len() as u8];
    message.extend([0; 20]);
    message.extend(1_u64.to_ne_bytes());
    message.extend(data.bytes());
    message
}

pub(crate) fn ask(address: SocketAddr, words: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("the peer listens");
    let timeout = stream.set_read_timeout(Some(TIMEOUT));
    timeout.expect("a timeout can be set");
    stream.write_all(words).expect("a new connection");
    stream
}

/// Reads the header of an answer: its kind, and the data behind it.
pub(crate) fn answer(stream: &mut TcpStream) -> (u8, Vec<u8>) {
    let mut header = [0; 32];
    stream.read_exact(&mut header).expect("it is answered");
    let mut data = vec![0; usize::from(header[3])];
    stream.read_exact(&mut data).expect("all of it");
    (header[1], data)
}

/// Returns how many descriptors a process may have.
pub(crate) fn limit_of(pid: u32) -> usize {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).expect("it runs");
    let line = limits.lines().find(|line| line.contains("open files"));
    let soft = line.and_then(|line| line.split_whitespace().nth(3)?.parse().ok());
    soft.expect("a number")
}

/// Sets how many descriptors a process may have from now on.
pub(crate) fn limit_descriptors(pid: u32, most: usize) -> Result<(), Missing> {
    let set = std::process::Command::new(installed("prlimit")?)
        .args([format!("--pid={pid}"), format!("--nofile={most}:")])
        .status();
    let is_set = set.is_ok_and(|status| status.success());
    is_set
        .then_some(())
        .ok_or_else(|| Missing(format!("a process cannot have {most} descriptors")))
}

/// Allows a process no descriptor beyond the spare one of its listener, and takes the others by callers that say nothing, which
/// are returned.
fn take_descriptors(pid: u32, address: SocketAddr) -> Result<Vec<TcpStream>, Missing> {
    let open = || {
        let folder = fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs");
        let open = folder.flatten().filter_map(|entry| {
            let number = entry.file_name().to_str()?.parse::<usize>().ok()?;
            Some((number, fs::read_link(entry.path()).ok()?))
        });
        open.collect::<BTreeMap<_, _>>()
    };
    let before = open();
    let is_spare = |(number, path): &(&usize, &PathBuf)| {
        **number > 2 && path.as_path() == Path::new("/dev/null")
    };
    let spare = *before.iter().find(is_spare).expect("the listener's").0;
    limit_descriptors(pid, spare + 1)?;
    let gaps = (0..spare).filter(|number| !before.contains_key(number));
    let silent = gaps.map(|_| ask(address, b"")).collect();
    let deadline = Instant::now() + TIMEOUT;
    while open().range(..=spare).count() <= spare {
        assert!(Instant::now() < deadline, "{:?}", open());
        thread::yield_now();
    }
    Ok(silent)
}

/// Returns how much of the processor a process uses in comparison with this thread, which does nothing but look: 1 if it spins as well, however
/// busy the machine is.
fn share_of_processor(pid: u32) -> f64 {
    const TURN: Duration = Duration::from_millis(200);
    let its = || processor::time_of_process(pid);
    let ours = processor::time_of_this_thread;
    let (its_before, ours_before) = (its(), ours());
    while ours() - ours_before < TURN {}
    (its() - its_before).as_secs_f64() / (ours() - ours_before).as_secs_f64()
}

/// Lets callers that say nothing stay as long as the trial needs them.
fn patient(program: Program) -> Program {
    program.env("FI_TCP_CONNECT_TIMEOUT_MS", "100000")
}

/// A program that sleeps at an endpoint.
struct Doorman {
    process: Process,
    folder: Scratch,
}

impl Doorman {
    fn start(line: &str) -> Result<Self, Missing> {
        let library = Library::under_test()?;
        let program = source::compile_client("doorman")?;
        let folder = Scratch::new();
        let (kind, backlog) = line.split_once(' ').unwrap_or((line, ""));
        let line = format!("{kind} {} {backlog}", folder.path().display());
        let program = Program::new(program.file()).library(&library).line(&line);
        let mut process = patient(program).start();
        let listens = process.until(|process| process.stdout().contains("address "));
        assert_eq!(listens, Ok(()), "{}", process.stdout());
        Ok(Self { process, folder })
    }

    fn address(&self) -> SocketAddr {
        address_of(&self.process)
    }

    /// Lets it do what waits for this file.
    fn signal(&self, name: &str) {
        fs::write(self.folder.join(name), "").expect("the folder is writable");
    }

    fn stop(self) {
        self.signal("stop");
        self.process.wait().expect_success();
    }
}

/// Callers are refused one after the other, and where that cannot be done either, they wait and the process sleeps.
fn without_descriptors(kind: &str, words: &[u8]) -> Result<(), Missing> {
    let doorman = Doorman::start(kind)?;
    let (address, pid) = (doorman.address(), doorman.process.id());
    let usual = limit_of(pid);
    let silent = take_descriptors(pid, address)?;
    for _ in 0..20 {
        // Without data: it is not the program that refuses.
        assert_eq!(answer(&mut ask(address, words)), (REFUSAL, Vec::new()));
    }
    let idle = share_of_processor(pid);
    assert!(idle < 0.5, "{idle} times as busy after the last caller");
    // Not even the descriptor that is kept for them can be used.
    limit_descriptors(pid, 1)?;
    let mut waiting: Vec<_> = (0..WAITING).map(|_| ask(address, words)).collect();
    let busy = share_of_processor(pid);
    assert!(busy < 0.5, "{busy} times as busy while callers wait");
    limit_descriptors(pid, usual)?;
    drop(silent);
    doorman.signal("open");
    for stream in &mut waiting {
        // Some may be refused yet.
        answer(stream);
    }
    let _ = answer(&mut ask(address, words));
    doorman.stop();
    Ok(())
}

/// Checks that the honest peer that was there before is served while callers find no descriptor.
fn with_honest_peers() -> Result<(), Missing> {
    let library = Library::under_test()?;
    let program = source::compile_client("volley")?;
    let mut players = Players::start_over("tcp", &program, &library, patient);
    players.play(1);
    let address = players.address();
    let silent = take_descriptors(players.id(), address)?;
    let mut ports = 1..u16::MAX;
    players.expect_fair_while(|| {
        let port = ports.next().expect("there are enough");
        let answer = answer(&mut ask(address, &request(port)));
        assert_eq!(answer, (REFUSAL, Vec::new()));
    });
    drop(silent);
    players.finish();
    Ok(())
}

/// Requests that the program does not read go when they are old, and later ones are heard.
fn slow_to_read() -> Result<(), Missing> {
    let doorman = Doorman::start(&format!("msg {BACKLOG}"))?;
    let address = doorman.address();
    // It finds all of them at once, each with its request, and so in their order.
    doorman.process.pause();
    let mut first: Vec<_> = (0..BACKLOG)
        .map(|number| ask(address, &request_with(&format!("hoarder {number}"))))
        .collect();
    let mut honest = ask(address, &request_with("honest"));
    doorman.process.resume();
    for stream in &mut first {
        assert!(is_dropped(stream), "its request takes room for ever");
    }
    doorman.signal("open");
    assert_eq!(answer(&mut honest), (REFUSAL, b"seen".to_vec()));
    let said = doorman.process.stdout();
    assert!(!said.contains("hoarder"), "{said}");
    doorman.stop();
    Ok(())
}

#[test]
fn callers_without_a_descriptor_are_refused_by_an_endpoint_that_sleeps() {
    require!(without_descriptors("rdm", &request(1)));
}

#[test]
fn callers_without_a_descriptor_are_refused_by_a_passive_endpoint_that_sleeps() {
    require!(without_descriptors("msg", &request_with("")));
}

#[test]
fn callers_without_a_descriptor_leave_good_peers_their_pace() {
    require!(with_honest_peers());
}

#[test]
fn requests_that_a_program_does_not_read_make_room_for_later_ones() {
    require!(slow_to_read());
}
