//! Processes that are killed, endpoints that are closed, and memory that is taken away while it is in use.

use super::*;

/// One process is killed somewhere on the way. The other one is told by an error with a reason, and what it has received is right.
#[test]
fn a_peer_that_is_killed_at_any_time_is_an_error_with_a_reason() {
    let ours = require!(Library::under_test());
    let mut gone = 0;
    for seed in 0..50 {
        let after = 1 + seed * 5;
        let plan = format!(
            "{UNRULY}[[kill]]\nprocess = {}\nafter = {after}\n",
            seed % 2
        );
        let outcome = require!(play([&ours, &ours], "rdm", &plan, (15, seed), "mortal"));
        outcome.expect_success();
        let told = outcome.stdout.contains("gone: ")
            && outcome.stdout.contains("no such endpoint any more");
        // The survivor may be done before the other one is killed.
        let finished = outcome.stdout.contains("received 240 messages");
        assert!(told || finished, "seed {seed}: {outcome}");
        gone += u32::from(told);
    }
    assert!(gone >= 40, "only {gone} of 50 survivors were told");
}

/// A message whose memory the application withdraws before it is read fails, and its peer is as it was.
#[test]
fn a_message_out_of_memory_that_is_withdrawn_fails_alone() {
    let ours = require!(Library::under_test());
    for seed in 1..=3 {
        let (scratch, program) = (Scratch::new(), require!(compile_client("withdrawn")));
        let (file, folder) = (program.file().display(), scratch.path().display());
        let run = require!(softnic::network(UNRULY, seed, &scratch));
        let run = both(run, [&ours, &ours], &format!("exec {file} {folder} $NAME"));
        let run = run.env("FI_EFA_USE_DEVICE_RDMA", "1");
        let outcome = run.limit(Duration::from_secs(120)).run();
        outcome.expect_success();
        let failed = outcome.stdout.matches("failed alone: ").count();
        assert_eq!(failed, 2, "{outcome}");
    }
}

/// One process is killed somewhere on the way, between announcements, data and acknowledgements. The other one is told by an error with a
/// reason, and what it has received is right.
#[test]
fn a_peer_of_an_engine_that_is_killed_at_any_time_is_an_error_with_a_reason() {
    let ours = require!(Library::under_test());
    let mut gone = 0;
    for seed in 0..40 {
        let (victim, after) = (seed % 2, 1 + seed * 23);
        let plan = format!("{UNRULY}[[kill]]\nprocess = {victim}\nafter = {after}\n");
        let options = ["mortal", "mortal delivery", "mortal access"][seed as usize % 3];
        let variables = [&[][..], &RDMA[..]][seed as usize / 2 % 2];
        let outcome = require!(order_with(
            [&ours, &ours],
            &plan,
            (15, seed),
            options,
            variables,
            ""
        ));
        outcome.expect_success();
        let told = outcome.stdout.contains("gone: ")
            && outcome.stdout.contains("no such endpoint any more");
        // The survivor may be done before the other one is killed.
        let finished = outcome.stdout.contains("received 120 messages");
        assert!(told || finished, "seed {seed}: {outcome}");
        gone += u32::from(told);
    }
    assert!(gone >= 28, "only {gone} of 40 survivors were told");
}

/// An application may take the memory of its sends away, and close the endpoint: these are discarded. What it knows to be sent arrives.
#[test]
fn closing_touches_no_memory_of_sends_that_have_not_ended() {
    let ours = require!(Library::under_test());
    for (what, seed) in [("sent", 1), ("sent", 2), ("asked", 1), ("asked", 2)] {
        let arguments = |folder: &Path| format!("{} $NAME {what}", folder.display());
        let outcome = require!(run("discarded", [&ours, &ours], UNRULY, seed, arguments));
        outcome.expect_success();
        assert!(outcome.stdout.contains("closed"), "{outcome}");
        assert!(outcome.stdout.contains("received "), "{outcome}");
    }
}

/// What a receiver that is not ready would be sent again is not read out of memory of the application any more, once that closes the endpoint or the peer is given up.
#[test]
fn sends_to_a_receiver_that_is_never_ready_end_with_the_endpoint_or_the_peer() {
    let ours = require!(Library::under_test());
    let plan = "hosts = 2\nrnr = 1.0\n[[error]]\nstatus = \"unresponsive\"\nshare = 1.0\n";
    for (what, said) in [("closed", "closed"), ("lost", "ended 41")] {
        let scratch = Scratch::new();
        let program = require!(compile_client("unready"));
        let (file, folder) = (program.file().display(), scratch.path().display());
        let run = require!(softnic::network(plan, 1, &scratch));
        let command = format!("exec {file} {folder} $NAME {what}");
        let run = both(run, [&ours, &ours], &command).env("FI_EFA_USE_DEVICE_RDMA", "1");
        let outcome = run.limit(Duration::from_secs(120)).run();
        outcome.expect_success();
        assert!(outcome.stdout.contains(said), "{outcome}");
    }
}

/// An endpoint that waits at a fence for a peer that ends meanwhile is told.
#[test]
fn what_is_behind_a_fence_fails_when_its_peer_ends() {
    let ours = require!(Library::under_test());
    let (scratch, program) = (Scratch::new(), require!(compile_client("settling")));
    let (file, folder) = (program.file().display(), scratch.path().display());
    let run = require!(softnic::network("", 1, &scratch));
    let run = both(run, [&ours, &ours], &format!("exec {file} {folder} $NAME"));
    // The device reads: what was injected has to be in the memory before.
    let run = run.env("FI_EFA_USE_DEVICE_RDMA", "1");
    let outcome = run.limit(Duration::from_secs(180)).run();
    outcome.expect_success();
    assert!(outcome.stdout.contains("failed: "), "{outcome}");
}

/// An application that closes a region too early, and frees its memory, is told by errors, and nothing reads that memory.
#[test]
fn messages_out_of_a_region_that_is_closed_end() {
    let ours = require!(Library::under_test());
    for (seed, kind) in [
        (1, "medium"),
        (2, "medium"),
        (1, "long"),
        (2, "long"),
        (1, "short"),
        (2, "short"),
    ] {
        let arguments = |folder: &Path| format!("{} $NAME {kind}", folder.display());
        let outcome = require!(run("retired", [&ours, &ours], UNRULY, seed, arguments));
        outcome.expect_success();
        let all = match kind {
            "long" => "ended 3, 3 failed",
            _ => "ended 200, ",
        };
        assert!(outcome.stdout.contains(all), "{outcome}");
    }
}

/// What waits for a peer's handshake, or behind what does, ends if the peer closes instead of sending it.
#[test]
fn a_peer_that_closes_before_it_says_what_it_can_fails_what_waits_for_that() {
    let ours = require!(Library::under_test());
    for (what, rdma) in [("asked", "1"), ("refused", "0")] {
        let (scratch, program) = (Scratch::new(), require!(compile_client("mute")));
        let (file, folder) = (program.file().display(), scratch.path().display());
        let run = require!(softnic::network("hosts = 2\n", 1, &scratch));
        let command = format!("exec {file} {folder} $NAME {what}");
        let run = both(run, [&ours, &ours], &command).env("FI_EFA_USE_DEVICE_RDMA", rdma);
        let outcome = run.limit(Duration::from_secs(120)).run();
        outcome.expect_success();
        assert!(outcome.stdout.contains("failed: "), "{what}: {outcome}");
    }
}
