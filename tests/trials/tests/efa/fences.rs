//! What does not overtake what.

use super::*;

/// A write that is complete is not overtaken by what is sent then, though nothing was said of when it is to be complete.
#[test]
fn messages_do_not_overtake_writes_that_are_complete() {
    let ours = require!(Library::under_test());
    for (seed, writes) in [(1, ""), (2, ""), (1, "long"), (2, "long")] {
        let arguments = |folder: &Path| format!("{} $NAME {writes}", folder.display());
        let outcome = require!(run("overtaken", [&ours, &ours], UNRULY, seed, arguments));
        outcome.expect_success();
        assert!(outcome.stdout.contains("saw 60 rounds"), "{outcome}");
    }
}

/// What is read behind a fence are the writes before it, injected ones too, which are complete at once: where the device reads while writes go by packets, and where both do.
#[test]
fn a_read_behind_a_fence_finds_what_was_injected() {
    let ours = require!(Library::under_test());
    for (seed, rdma) in [(1, "0"), (2, "0"), (1, "1"), (2, "1")] {
        let (scratch, program) = (Scratch::new(), require!(compile_client("overtaken")));
        let (file, folder) = (program.file().display(), scratch.path().display());
        let run = require!(softnic::network(UNRULY, seed, &scratch));
        let command = format!("exec {file} {folder} $NAME fenced");
        let run = both(run, [&ours, &ours], &command).env("FI_EFA_USE_DEVICE_RDMA", rdma);
        let outcome = run.limit(Duration::from_secs(180)).run();
        outcome.expect_success();
        assert!(outcome.stdout.contains("saw 60 rounds"), "{outcome}");
    }
}

/// The receiver keeps no more messages, and so what came behind them waits there, atomics too. A fence waits for these.
#[test]
fn a_read_behind_a_fence_finds_atomics_that_wait_behind_messages() {
    let ours = require!(Library::under_test());
    for rdma in ["0", "1"] {
        let (scratch, program) = (Scratch::new(), require!(compile_client("behind")));
        let (file, folder) = (program.file().display(), scratch.path().display());
        let run = require!(softnic::network("hosts = 2\n", 1, &scratch));
        let run = both(run, [&ours, &ours], &format!("exec {file} {folder} $NAME"));
        let run = run.env("FI_EFA_USE_DEVICE_RDMA", rdma);
        let outcome = run.limit(Duration::from_secs(120)).run();
        outcome.expect_success();
        assert!(outcome.stdout.contains("the number is 1\n"), "{outcome}");
    }
}
