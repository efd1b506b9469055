//! Peers of an endpoint of efa that are killed, leave without a word, and begin anew with the same number of a queue pair.
//!
//! `OXI_SEEDS` says how many seeds are tried, of which the first is `OXI_SEED`.

#[macro_use]
extern crate oxifabric_trials;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use oxifabric_trials::source::compile_client;
use oxifabric_trials::{Library, Missing, Namespace, Outcome, Scratch, require, softnic};

fn main() -> std::process::ExitCode {
    oxifabric_trials::harness::main()
}

/// Seeds that are tried with every change.
const SEEDS: u32 = 120;

/// Seeds that are tried at a time: their processes wait for each other most of the time.
const AT_A_TIME: usize = 4;

/// Lives that the steady one meets with each seed, at least; it never hears of those that are killed before they publish their address.
const LIVES: u32 = 3;

/// Rounds of a life that is to be killed: it must not come to their end and say so before.
const ENDLESS: u32 = 1_000_000;

/// Every operation with a peer ends once, nothing that was for one life reaches another one, no byte is wrong, and nothing is left: on the device, among
/// the descriptors, in /dev/shm. The program looks at all but the last of these.
#[test]
fn each_life_of_a_peer_is_one_of_its_own() {
    let ours = require!(Library::under_test());
    let namespace = Namespace::new().ok();
    let number = |name: &str| std::env::var(name).ok()?.parse().ok();
    let first: u32 = number("OXI_SEED").unwrap_or(0);
    let seeds = number("OXI_SEEDS").unwrap_or(SEEDS);
    let (next, totals) = (AtomicU32::new(first), Mutex::new([0, 0]));
    // Each takes the next seed until there is none left, or one has failed.
    let play = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + seeds {
                return Ok(());
            }
            let counted = || counted(&ours, seed, namespace.as_ref());
            let counted = catch_unwind(AssertUnwindSafe(counted));
            if !matches!(counted, Ok(Ok(_))) {
                next.store(first + seeds, Ordering::Relaxed);
            }
            let [gone, reused] = counted.unwrap_or_else(|panic| resume_unwind(panic))?;
            let mut totals = totals.lock().expect("no count panics");
            *totals = [totals[0] + gone, totals[1] + reused];
        }
    };
    let played: Result<Vec<()>, Missing> = thread::scope(|scope| {
        let players: Vec<_> = (0..AT_A_TIME).map(|_| scope.spawn(play)).collect();
        let ended = players.into_iter().map(|player| player.join());
        ended
            .map(|end| end.unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    });
    require!(played);
    let [gone, reused] = totals.into_inner().expect("no count panicked");
    if let Some(namespace) = namespace {
        assert!(namespace.shared_memory().is_empty(), "/dev/shm");
    }
    assert!(gone > 2 * seeds, "only {gone} lives ended early");
    assert!(
        reused > 2 * seeds,
        "only {reused} queue pairs had the number of another"
    );
}

/// Tries a seed; returns how many lives were gone and how many had a number again.
fn counted(
    library: &Library,
    seed: u32,
    namespace: Option<&Namespace>,
) -> Result<[u32; 2], Missing> {
    let outcome = run(library, seed, namespace)?;
    outcome.expect_success();
    let [lives, gone, reused] = counts(&outcome);
    assert!(lives >= LIVES, "seed {seed}: {outcome}");
    Ok([gone, reused])
}

/// Returns what the steady one counted at its end: lives, and those that were gone and that had a number again.
fn counts(outcome: &Outcome) -> [u32; 3] {
    let line = outcome
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("lives "));
    let mut words = line.unwrap_or_else(|| panic!("{outcome}")).split(' ');
    let mut number = || words.by_ref().find_map(|word| word.parse().ok());
    [number(), number(), number()].map(|number| number.expect("a count"))
}

/// Runs the steady one and its peers: two that the network kills after some of their packets, one that leaves after some rounds, one that is killed
/// after some time, and then one that comes to the end of its rounds.
fn run(library: &Library, seed: u32, namespace: Option<&Namespace>) -> Result<Outcome, Missing> {
    let scratch = Scratch::new();
    let program = compile_client("reborn")?;
    let (drawn, other) = (seed.wrapping_mul(7919), seed.wrapping_mul(104_729));
    let plan = format!(
        "hosts = 2\nreorder = 0.7\nreorder_window = 32\nrnr = 0.05\ndelay_us = [0, 300]\nqpn_reuse = true\n\
         [[kill]]\nprocess = 1\nafter = {}\n[[kill]]\nprocess = 2\nafter = {}\n",
        1 + drawn % 1500,
        1 + other % 900
    );
    let (rounds, time) = (seed % 9, f64::from(1 + drawn % 200) / 1000.0);
    let command = format!(
        "{} {} {seed}",
        program.file().display(),
        scratch.path().display()
    );
    // The steady one is the first process on the network; what kills a later one need not be the plan.
    let script = format!(
        "set -u; SOFTNIC_HOST=0 {command} steady & steady=$!; export SOFTNIC_HOST=1; life=0
         until [ -e {folder}/steady ]; do kill -0 $steady || exit 6; sleep 0.01; done
         while [ $life -lt 20 ]; do
             case $life in
                 0|1) {command} $life {ENDLESS};;
                 2) {command} $life {rounds} leaves;;
                 3) timeout -s KILL {time} {command} $life {ENDLESS};;
                 *) {command} $life 8;;
             esac
             end=$?
             [ $end -eq 0 ] || [ $end -eq 137 ] || {{ kill -9 $steady; exit $end; }}
             [ $end -eq 0 ] && [ $life -ne 2 ] && break
             life=$((life + 1))
         done
         wait $steady",
        folder = scratch.path().display(),
    );
    let run = softnic::network(&plan, seed, &scratch)?;
    let run = run.args(["sh", "-c", &script]).library(library);
    // With every other seed devices read and write.
    let rdma = ["0", "1"][seed as usize % 2];
    let run = run.env("FI_EFA_USE_DEVICE_RDMA", rdma);
    let run = run.env("FI_EFA_INTER_MIN_READ_MESSAGE_SIZE", "20000");
    let run = run.limit(Duration::from_secs(180));
    let run = match namespace {
        Some(namespace) => namespace.around(run),
        None => run,
    };
    Ok(run.run())
}
