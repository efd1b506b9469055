//! What the safe interface costs above the C interface of the same library, in instructions, which nothing else on the machine
//! disturbs: a ping-pong of 8 bytes over shm between two endpoints of one thread, played both ways under callgrind.

mod players;

use std::env;
use std::fs;
use std::process::Command;

use players::c::C;
use players::safe::Safe;
use players::{pair, play_both};

/// The most instructions that the safe interface may add to a round of two messages: four operations and four completions. The
/// library below gets faster and slower by itself, so that a share of the whole would say little of the interface. Less
/// where both are optimised, as `cargo test --release` does: docs/performance.md.
const MOST_ADDED: u64 = if cfg!(debug_assertions) { 2_000 } else { 800 };
/// Rounds of the shorter and of the longer game. Only what the longer one needs more is counted.
const ROUNDS: [usize; 2] = [500, 1500];
/// What the library looks after by the clock falls into a game or not, and under callgrind there is much of it; so each is
/// played so often, and the one with the fewest instructions counts.
const GAMES: usize = 7;
/// Which game the process under callgrind plays, and how many rounds of it.
const GAME: &str = "OXIFABRIC_TEST_GAME";

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

/// How many instructions a round of the game needs.
fn per_round(game: &str) -> u64 {
    let [short, long] = ROUNDS.map(|rounds| {
        let games = (0..GAMES).map(|_| instructions(game, rounds));
        games.min().unwrap_or(0)
    });
    (long - short) / (ROUNDS[1] - ROUNDS[0]) as u64
}

/// How many instructions a process needs that plays so many rounds.
fn instructions(game: &str, rounds: usize) -> u64 {
    let folder = env!("CARGO_TARGET_TMPDIR");
    let counts = format!("{folder}/callgrind.{}.{game}.{rounds}", std::process::id());
    let played = Command::new("valgrind")
        .args(["--quiet", "--tool=callgrind"])
        .arg(format!("--callgrind-out-file={counts}"))
        .arg(env::current_exe().unwrap())
        .args(["--exact", "played_under_callgrind", "--ignored"])
        .env(GAME, format!("{game} {rounds}"))
        .output()
        .unwrap();
    assert!(played.status.success(), "{played:?}");
    let text = fs::read_to_string(&counts).unwrap();
    fs::remove_file(&counts).unwrap();
    let total = text.lines().find_map(|line| line.strip_prefix("totals: "));
    total.unwrap().trim().parse().unwrap()
}

#[test]
#[ignore = "another test runs it under callgrind"]
fn played_under_callgrind() {
    let game = env::var(GAME).unwrap();
    let (game, rounds) = game.split_once(' ').unwrap();
    let rounds = rounds.parse().unwrap();
    match game {
        "safe" => play_both(&mut pair::<Safe>("shm"), rounds),
        _ => play_both(&mut pair::<C>("shm"), rounds),
    }
}
