//! A write that was counted is at its target: origin, target and a third party are three processes (docs/adr/0029). And writes end though their target does not poll.

#[macro_use]
extern crate oxifabric_trials;

use oxifabric_trials::source::compile_client;
use oxifabric_trials::{Library, Missing, Program, Scratch, require};

fn main() -> std::process::ExitCode {
    oxifabric_trials::harness::main()
}

const ROUNDS: &str = "3000";

fn a_third_party_finds_what_was_counted(provider: &str) -> Result<(), Missing> {
    let library = Library::under_test()?;
    let compiled = compile_client("litmus")?;
    let folder = Scratch::new();
    let start = |role: &str| {
        let program = Program::new(compiled.file()).library(&library);
        let folder = folder.path().display().to_string();
        program.args([provider, &folder, role, ROUNDS]).start()
    };
    let [target, third, origin] = ["target", "third", "origin"].map(start);
    let [origin, third, target] = [origin, third, target].map(|process| process.wait());
    origin.expect_success();
    target.expect_success();
    third.expect_success().expect_stdout("stale 0\n");
    Ok(())
}

#[test]
fn over_shm() {
    require!(a_third_party_finds_what_was_counted("shm"));
}

#[test]
fn over_tcp() {
    require!(a_third_party_finds_what_was_counted("tcp"));
}

#[test]
fn over_reliable_datagrams() {
    require!(a_third_party_finds_what_was_counted("udp;ofi_rxd"));
}

/// While both sides make accesses, each carries out its own, and goes on with those below FI_SHM_ASSIST_SIZE when its target does not poll any more.
#[test]
fn writes_over_shm_do_not_wait_for_a_target_that_has_stopped_polling() {
    let library = require!(Library::under_test());
    let compiled = require!(compile_client("unpolled"));
    for size in ["8192", "16384"] {
        let program = Program::new(compiled.file()).library(&library);
        let outcome = program.args(["shm", size]).run();
        outcome.expect_success().expect_stdout("ended\n");
    }
}

/// A sender ends by `_exit` as soon as it has read the completions of `count` messages of `size` bytes: all of them arrive.
fn what_completed_arrives_though_the_sender_leaves(
    provider: &str,
    level: &str,
    [count, size]: [u32; 2],
    faults: Option<&str>,
) -> Result<(), Missing> {
    let library = Library::under_test()?;
    let compiled = compile_client("leaving")?;
    let folder = Scratch::new();
    let start = |role: &str| {
        let program = Program::new(compiled.file()).library(&library);
        let path = folder.path().display().to_string();
        let program = match faults.filter(|_| role == "sender") {
            Some(plan) => program.env("FI_OXI_FAULTS", plan),
            None => program,
        };
        let args = [provider, &path, role, level];
        let program = program.args(args.map(String::from));
        program
            .args([count, size].map(|number| number.to_string()))
            .start()
    };
    let [receiver, sender] = ["receiver", "sender"].map(start);
    let sender = sender.wait();
    std::fs::write(folder.join("gone"), "").expect("the folder is there");
    let receiver = receiver.wait();
    sender.expect_success();
    receiver
        .expect_success()
        .expect_stdout(&format!("arrived {count}\n"));
    Ok(())
}

/// One short message, a window of short ones, one on request, more than sockets take.
const PATTERNS: [[u32; 2]; 4] = [[1, 8], [64, 8], [1, 300_000], [64, 60_000]];

fn what_completed_arrives_over(provider: &str) -> Result<(), Missing> {
    for level in ["transmit", "delivery"] {
        for pattern in PATTERNS {
            what_completed_arrives_though_the_sender_leaves(provider, level, pattern, None)?;
        }
    }
    Ok(())
}

#[test]
fn what_completed_arrives_over_shm() {
    require!(what_completed_arrives_over("shm"));
}

#[test]
fn what_completed_arrives_over_tcp() {
    require!(what_completed_arrives_over("tcp"));
}

#[test]
fn what_completed_arrives_over_reliable_datagrams() {
    require!(what_completed_arrives_over("udp;ofi_rxd"));
}

/// Three packets of five are lost on the way from the sender.
#[test]
fn what_completed_arrives_over_reliable_datagrams_that_are_lost() {
    for seed in 1..=4 {
        let plan = format!("drop=0.6,seed={seed}");
        let leave = what_completed_arrives_though_the_sender_leaves;
        for pattern in [[1, 8], [16, 1000]] {
            require!(leave("udp;ofi_rxd", "transmit", pattern, Some(&plan)));
        }
    }
}
