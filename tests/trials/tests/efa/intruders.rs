//! Endpoints of intruders, which send packets of all kinds in states in which no honest peer sends them: two endpoints that have to do with each other go on, with
//! every byte as it should be, and keep no more of intruders than docs/threats.md says.
//!
//! `OXI_SEEDS` says how many seeds are tried, of which the first is `OXI_SEED`.

use super::*;

/// Seeds that are tried with every change.
const SEEDS: u32 = 2;

/// Every kind of packet that there is, but those that not even the C library sends.
const KINDS: [u32; 36] = [
    3, 4, 5, 7, 8, 9, 10, 11, 12, 64, 65, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76, 128, 129,
    130, 133, 134, 135, 136, 137, 138, 139, 140, 141, 145, 146,
];

/// What intruders get of an endpoint that has nothing to do with them: its handshake, receipts, and that what they ask for is refused.
const ANSWERS: [u32; 3] = [9, 10, 12];

/// The most memory that a victim has resident which keeps as much of intruders as it may: 64 MiB for each reason to keep it, and what it needs itself.
const PEAK_KIB: u64 = 160 << 10;

/// Two endpoints that know no intruders exchange messages, and access each other's memory.
#[test]
fn honest_peers_play_on_beside_intruders() {
    let ours = require!(Library::under_test());
    for seed in seeds() {
        let victim = |folder: &Path, name: &str| {
            let folder = folder.display();
            ("orderly", format!("{folder} {name} 60 {seed} access"))
        };
        let outcome = require!(beside(&ours, seed, victim, "1000000"));
        expect_all_in_order(&outcome, 60);
        expect_counts(&outcome, "sent", &KINDS);
        expect_counts(&outcome, "got", &ANSWERS);
        expect_little_memory(&outcome);
    }
}

/// Two endpoints take messages of intruders, and begin operations with them: each of these ends when the intruder is gone at the latest.
#[test]
fn operations_with_intruders_end_and_harm_nothing_else() {
    let ours = require!(Library::under_test());
    for seed in seeds() {
        let outcome = require!(beside(&ours, seed, welcoming(seed, ""), "4000"));
        outcome.expect_success();
        expect_counts(&outcome, "sent", &KINDS);
        // They are asked for data, told that it was read, and sent messages, writes, reads and atomics.
        expect_counts(&outcome, "got", &[3, 9, 10, 12, 74, 75, 76]);
        // Each of seven kinds of operations was begun.
        expect_counts(&outcome, "began", &[0, 1, 2, 3, 4, 5, 6]);
        expect_little_memory(&outcome);
    }
}

/// An intruder may send what follows a message that it does not send, and leave: what is kept of that is bounded for all intruders together.
#[test]
fn what_intruders_send_before_its_turn_is_bounded_in_all() {
    let ours = require!(Library::under_test());
    let outcome = require!(beside(&ours, 1, welcoming(1, "aloof"), "30000 early"));
    outcome.expect_success();
    expect_little_memory(&outcome);
}

/// An intruder may announce messages that no receive takes, each with as many of its bytes as fit the packet: these count, too.
#[test]
fn what_intruders_announce_is_bounded() {
    let ours = require!(Library::under_test());
    let outcome = require!(beside(&ours, 1, welcoming(1, "aloof"), "30000 held"));
    outcome.expect_success();
    expect_little_memory(&outcome);
}

/// An intruder may send packets in the names of more endpoints than there is room for, of which the device says that they are not from there. Others are answered all the same.
#[test]
fn intruders_in_the_names_of_others_take_no_places() {
    let ours = require!(Library::under_test());
    // Each of them sends 64 such packets, and asks for an answer then.
    let outcome = require!(beside(&ours, 1, welcoming(1, "aloof"), "80 forged"));
    outcome.expect_success();
    expect_little_memory(&outcome);
}

fn seeds() -> std::ops::Range<u32> {
    let number = |name: &str| std::env::var(name).ok()?.parse().ok();
    let first: u32 = number("OXI_SEED").unwrap_or(1);
    first..first + number("OXI_SEEDS").unwrap_or(SEEDS)
}

/// Returns how an endpoint is started that plays until the intruders are done.
fn welcoming(seed: u32, word: &str) -> impl Fn(&Path, &str) -> (&'static str, String) {
    move |folder, name| {
        let folder = folder.display();
        ("welcoming", format!("{folder} {name} {seed} {word}"))
    }
}

/// Runs two endpoints on two hosts, and intruders on the other host of each. `victim` is the program and the arguments for a name, `acts` says how much intruders do.
/// With every other seed devices read what is announced, and a new queue pair has the number of the last one that is gone.
fn beside(
    library: &Library,
    seed: u32,
    victim: impl Fn(&Path, &str) -> (&'static str, String),
    acts: &str,
) -> Result<Outcome, Missing> {
    let scratch = Scratch::new();
    let intruder = compile_client("intruder")?;
    let [a, b] = ["a", "b"].map(|name| victim(scratch.path(), name));
    let program = compile_client(a.0)?;
    let (file, intruder) = (program.file().display(), intruder.file().display());
    let (folder, [a, b]) = (scratch.path().display(), [a.1, b.1]);
    // How much an intruder does, and in which way.
    let (count, words) = acts.split_once(' ').unwrap_or((acts, ""));
    let script = format!(
        "SOFTNIC_HOST=0 {file} {a} & a=$!; SOFTNIC_HOST=1 {file} {b} & b=$!
         SOFTNIC_HOST=1 {intruder} {folder} a {seed} {count} $a {words} & first=$!
         SOFTNIC_HOST=0 {intruder} {folder} b {seed} {count} $b {words}; second=$?
         wait $first && [ $second -eq 0 ]; intruders=$?
         wait $a; a=$?; wait $b; b=$?
         echo ended $a $b; [ $a -eq 0 ] && [ $b -eq 0 ] && exit $intruders"
    );
    let is_odd = seed % 2 == 1;
    let plan = format!("{UNRULY}qpn_reuse = {is_odd}\n");
    let run = softnic::network(&plan, seed, &scratch)?;
    let run = run.args(["sh", "-c", &script]).library(library);
    let run = run.env("FI_EFA_USE_DEVICE_RDMA", if is_odd { "1" } else { "0" });
    let run = run.env("FI_EFA_INTER_MIN_READ_MESSAGE_SIZE", "20000");
    Ok(run.limit(Duration::from_secs(180)).run())
}

/// Returns what intruders printed behind a word.
fn lines<'a>(outcome: &'a Outcome, word: &'a str) -> impl Iterator<Item = &'a str> + 'a {
    let lines = outcome.stdout.lines();
    lines.filter_map(move |line| line.strip_prefix(word)?.strip_prefix(' '))
}

/// Checks that intruders sent or got packets of all these kinds.
#[track_caller]
fn expect_counts(outcome: &Outcome, word: &str, kinds: &[u32]) {
    let lines = lines(outcome, word);
    let there: Vec<&str> = lines.flat_map(|line| line.split(' ')).collect();
    let is_missing = |kind: &&u32| !there.contains(&format!("{kind}:").as_str());
    let missing: Vec<&u32> = kinds.iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "none {word} of {missing:?}: {outcome}");
}

#[track_caller]
fn expect_little_memory(outcome: &Outcome) {
    let numbers = lines(outcome, "peak").filter_map(|line| line.split(' ').next());
    let peaks: Vec<u64> = numbers.filter_map(|number| number.parse().ok()).collect();
    let is_little = |peak: &u64| (1..PEAK_KIB).contains(peak);
    assert!(
        peaks.len() == 2 && peaks.iter().all(is_little),
        "{peaks:?} KiB: {outcome}"
    );
}
