//! What the safe interface costs above the C interface of the same library, in time: two processes, each on a processor of its
//! own, play both games in turns over one pair of endpoints each. `cargo bench -p oxifabric [-- PROVIDER]` prints the medians
//! and their ratio.

#[path = "../tests/players/mod.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod players;

use std::env;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use players::c::C;
use players::safe::Safe;
use players::{Done, Player};

/// Batches of each game, in turns; rounds of a batch; batches before any is counted.
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
        Games::open(provider, &mut io::stdout(), &mut lines).answer();
        return;
    }
    let [safe, c] = measure(provider);
    println!(
        "{provider}, 8 bytes one way: {safe:.1} ns safe, {c:.1} ns in C, ratio {:.3}",
        safe / c
    );
}

/// Starts the second process and plays with it; the median one-way times in nanoseconds.
fn measure(provider: &str) -> [f64; 2] {
    let mut peer = Command::new(env::current_exe().unwrap())
        .args([PEER, provider])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Now, because the other process has inherited the choice.
    bind(0);
    let mut to_peer = peer.stdin.take().unwrap();
    let mut from_peer = BufReader::new(peer.stdout.take().unwrap()).lines();
    let times = Games::open(provider, &mut to_peer, &mut from_peer).serve();
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

/// One side of both games.
struct Games {
    safe: Safe,
    c: C,
}

impl Games {
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

    /// Begins each batch; the times of a message one way in nanoseconds, of the safe game and of that in C.
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

    /// The other side of [`Games::serve`].
    fn answer(&mut self) {
        for _ in 0..WARM_UP + BATCHES {
            answer(&mut self.safe);
            answer(&mut self.c);
        }
    }
}

/// Tells the address to the other process, as numbers in a line, and hears that one's.
fn introduce<P: Player>(
    player: &mut P,
    out: &mut impl Write,
    lines: &mut impl Iterator<Item = io::Result<String>>,
) {
    let numbers: Vec<String> = player.address().iter().map(u8::to_string).collect();
    writeln!(out, "{}", numbers.join(" ")).unwrap();
    out.flush().unwrap();
    let line = lines.next().unwrap().unwrap();
    let address: Vec<u8> = line.split(' ').map(|byte| byte.parse().unwrap()).collect();
    player.meet(&address);
}

/// One batch on the side that begins.
fn serve<P: Player>(player: &mut P) -> f64 {
    let start = Instant::now();
    player.expect();
    for round in 0..ROUNDS {
        throw(player, round as u8);
        until(player, true, true);
        assert_eq!(player.caught(), round as u8);
        if round + 1 < ROUNDS {
            player.expect();
        }
    }
    start.elapsed().as_nanos() as f64 / (2 * ROUNDS) as f64
}

/// One batch on the side that answers.
fn answer<P: Player>(player: &mut P) {
    player.expect();
    until(player, false, true);
    for round in 0..ROUNDS {
        let last = round + 1 == ROUNDS;
        assert_eq!(player.caught(), round as u8);
        if !last {
            player.expect();
        }
        throw(player, round as u8);
        until(player, true, !last);
    }
}

#[inline]
fn throw<P: Player>(player: &mut P, mark: u8) {
    while !player.throw(mark) {
        assert_eq!(player.poll(), None);
    }
}

/// Polls until a message is sent, received, or both.
#[inline]
fn until<P: Player>(player: &mut P, mut sending: bool, mut receiving: bool) {
    while sending || receiving {
        match player.poll() {
            Some(Done::Sent) => sending = false,
            Some(Done::Received) => receiving = false,
            None => {}
        }
    }
}
