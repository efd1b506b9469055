//! What the safe interface costs above the C interface of the same library, in instructions, which other processes do not disturb:
//! a ping-pong of 8 bytes over shm between two endpoints of one thread, through both interfaces under callgrind.

mod pingpong;

use std::env;
use std::fs;
use std::process::Command;

use pingpong::c::C;
use pingpong::safe::Safe;
use pingpong::{pair, run_both};

/// The most instructions that the safe interface may add to a round of two messages: four operations and four completions. The
/// library below gets faster and slower by itself, so a share of the whole would say little about the interface. Less where both
/// are optimised, as `cargo test --release` does: docs/performance.md.
const MOST_ADDED: u64 = if cfg!(debug_assertions) { 2_000 } else { 800 };
/// Rounds of the shorter and of the longer run. Only what the longer one needs more is counted.
const ROUNDS: [usize; 2] = [500, 1500];
/// Runs of each length, of which the one with the fewest instructions counts: the library's timers expire within some runs only,
/// and under callgrind often.
const RUNS: usize = 7;
/// The variable with the interface that the process under callgrind uses, and the number of rounds.
const INTERFACE: &str = "OXIFABRIC_TEST_INTERFACE";

#[test]
fn the_safe_interface_needs_few_instructions_more_than_the_c_interface() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("SKIP: valgrind is not installed");
        return;
    }
    let [safe, c] = ["safe", "c"].map(per_round);
    println!("instructions per round: {safe} safe, {c} in C");
    assert!(
        safe <= c + MOST_ADDED,
        "{safe} instructions per round, and {c} through the C tables"
    );
}

/// Returns how many instructions a round needs.
fn per_round(interface: &str) -> u64 {
    let [short, long] = ROUNDS.map(|rounds| {
        let runs = (0..RUNS).map(|_| instructions(interface, rounds));
        runs.min().unwrap_or(0)
    });
    (long - short) / (ROUNDS[1] - ROUNDS[0]) as u64
}

/// Returns how many instructions a process with this number of rounds needs.
fn instructions(interface: &str, rounds: usize) -> u64 {
    let folder = env!("CARGO_TARGET_TMPDIR");
    let counts = format!(
        "{folder}/callgrind.{}.{interface}.{rounds}",
        std::process::id()
    );
    let output = Command::new("valgrind")
        .args(["--quiet", "--tool=callgrind"])
        .arg(format!("--callgrind-out-file={counts}"))
        .arg(env::current_exe().unwrap())
        .args(["--exact", "run_under_callgrind", "--ignored"])
        .env(INTERFACE, format!("{interface} {rounds}"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = fs::read_to_string(&counts).unwrap();
    fs::remove_file(&counts).unwrap();
    let total = text.lines().find_map(|line| line.strip_prefix("totals: "));
    total.unwrap().trim().parse().unwrap()
}

#[test]
#[ignore = "another test runs it under callgrind"]
fn run_under_callgrind() {
    let interface = env::var(INTERFACE).unwrap();
    let (interface, rounds) = interface.split_once(' ').unwrap();
    let rounds = rounds.parse().unwrap();
    match interface {
        "safe" => run_both(&mut pair::<Safe>("shm"), rounds),
        _ => run_both(&mut pair::<C>("shm"), rounds),
    }
}
