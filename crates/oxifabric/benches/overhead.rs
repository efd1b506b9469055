//! What the safe interface costs above the C interface of the same library, in time: two processes, each on a processor of its
//! own, run both ping-pongs in turns over one pair of endpoints each. `cargo bench -p oxifabric [-- PROVIDER]` prints the medians
//! and their ratio.

#[path = "../tests/pingpong/mod.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod pingpong;

use std::env;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use pingpong::c::C;
use pingpong::safe::Safe;
use pingpong::{Done, Side};

/// Batches of each interface, in turns; rounds of a batch; batches before any is counted.
const BATCHES: usize = 60;
const ROUNDS: usize = 20_000;
const WARM_UP: usize = 4;
/// The argument of the second process.
const PEER: &str = "--peer";

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let named = arguments.iter().find(|word| !word.starts_with("--"));
    let provider = named.map_or("shm", String::as_str);
    if arguments.iter().any(|word| word == PEER) {
        bind(1);
        let mut lines = io::stdin().lines();
        Measurement::open(provider, &mut io::stdout(), &mut lines).answer();
        return;
    }
    let [safe, c] = measure(provider);
    println!(
        "{provider}, 8 bytes one way: {safe:.1} ns safe, {c:.1} ns in C, ratio {:.3}",
        safe / c
    );
}

/// Starts the second process and measures with it; returns the median one-way times in nanoseconds.
fn measure(provider: &str) -> [f64; 2] {
    let mut peer = Command::new(env::current_exe().unwrap())
        .args([PEER, provider])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Before the other process starts, because it inherits the choice.
    bind(0);
    let mut to_peer = peer.stdin.take().unwrap();
    let mut from_peer = BufReader::new(peer.stdout.take().unwrap()).lines();
    let times = Measurement::open(provider, &mut to_peer, &mut from_peer).serve();
    assert!(peer.wait().unwrap().success());
    times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    })
}

/// Binds this process to the first or the second of the processors that it may use, if there is one.
fn bind(which: usize) {
    let this = Pid::from_raw(0);
    let usable = sched_getaffinity(this).unwrap();
    let mut usable = (0..CpuSet::count()).filter(|cpu| usable.is_set(*cpu).unwrap_or(false));
    if let Some(cpu) = usable.nth(which) {
        let mut set = CpuSet::new();
        set.set(cpu).unwrap();
        sched_setaffinity(this, &set).unwrap();
    }
}

/// One side of both ping-pongs.
struct Measurement {
    safe: Safe,
    c: C,
}

impl Measurement {
    /// Opens both sides and exchanges addresses with the other process.
    fn open(
        provider: &str,
        out: &mut impl Write,
        lines: &mut impl Iterator<Item = io::Result<String>>,
    ) -> Self {
        let (mut safe, mut c) = (Safe::open(provider), C::open(provider));
        introduce(&mut safe, out, lines);
        introduce(&mut c, out, lines);
        Self { safe, c }
    }

    /// Begins each batch; returns the one-way times of a message in nanoseconds, through the safe interface and through that of C.
    fn serve(&mut self) -> [Vec<f64>; 2] {
        let mut times = [Vec::new(), Vec::new()];
        for batch in 0..WARM_UP + BATCHES {
            let batch_times = [serve(&mut self.safe), serve(&mut self.c)];
            if batch >= WARM_UP {
                for (times, time) in times.iter_mut().zip(batch_times) {
                    times.push(time);
                }
            }
        }
        times
    }

    /// Answers the batches of [`Measurement::serve`].
    fn answer(&mut self) {
        for _ in 0..WARM_UP + BATCHES {
            answer(&mut self.safe);
            answer(&mut self.c);
        }
    }
}

/// Sends the address to the other process, as numbers in a line, and reads that process's.
fn introduce<S: Side>(
    side: &mut S,
    out: &mut impl Write,
    lines: &mut impl Iterator<Item = io::Result<String>>,
) {
    let numbers: Vec<String> = side.address().iter().map(u8::to_string).collect();
    writeln!(out, "{}", numbers.join(" ")).unwrap();
    out.flush().unwrap();
    let line = lines.next().unwrap().unwrap();
    let address: Vec<u8> = line.split(' ').map(|byte| byte.parse().unwrap()).collect();
    side.set_peer(&address);
}

/// Runs one batch on the side that begins.
fn serve<S: Side>(side: &mut S) -> f64 {
    let start = Instant::now();
    side.post_receive();
    for round in 0..ROUNDS {
        send(side, round as u8);
        until(side, true, true);
        assert_eq!(side.received(), round as u8);
        if round + 1 < ROUNDS {
            side.post_receive();
        }
    }
    start.elapsed().as_nanos() as f64 / (2 * ROUNDS) as f64
}

/// Runs one batch on the side that answers.
fn answer<S: Side>(side: &mut S) {
    side.post_receive();
    until(side, false, true);
    for round in 0..ROUNDS {
        let last = round + 1 == ROUNDS;
        assert_eq!(side.received(), round as u8);
        if !last {
            side.post_receive();
        }
        send(side, round as u8);
        until(side, true, !last);
    }
}

#[inline]
fn send<S: Side>(side: &mut S, mark: u8) {
    while !side.send(mark) {
        assert_eq!(side.poll(), None);
    }
}

/// Polls until a message is sent, received, or both.
#[inline]
fn until<S: Side>(side: &mut S, mut sending: bool, mut receiving: bool) {
    while sending || receiving {
        match side.poll() {
            Some(Done::Sent) => sending = false,
            Some(Done::Received) => receiving = false,
            None => {}
        }
    }
}
