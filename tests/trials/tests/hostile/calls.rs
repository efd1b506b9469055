//! Careless programs, and defects of the library itself: what a call does that cannot do what it should.

use oxifabric_trials::source::{self, Compiled};
use oxifabric_trials::{End, Library, Missing, Outcome, Process, Program, Scratch, require};

/// The number of abort(3)'s signal.
const SIGABRT: i32 = 6;

/// A panic at each post.
const PANIC: &str = "panic=1";

fn start(program: &Compiled, library: &Library, line: &str, faults: &str) -> Process {
    let program = Program::new(program.file()).library(library).line(line);
    program.env("FI_OXI_FAULTS", faults).start()
}

/// Fails unless the process was ended by abort(3), with a report of a panic in this thread that names such a call.
fn expect_report(outcome: &Outcome, thread: &str, call: &str) {
    assert_eq!(outcome.end, End::Signal(SIGABRT), "{outcome}");
    let line = |name: &str| {
        let lines = outcome.stderr.lines();
        let found = lines.filter_map(|line| line.trim_start().strip_prefix(name));
        let found: Vec<&str> = found.map(str::trim).collect();
        assert_eq!(found.len(), 1, "{name} is to be there once\n{outcome}");
        found[0].to_owned()
    };
    assert_eq!(line("what:"), "injected (FI_OXI_FAULTS)", "{outcome}");
    assert!(line("where:").contains("injector.rs:"), "{outcome}");
    assert!(line("call:").contains(call), "{outcome}");
    assert_eq!(line("thread:"), thread, "{outcome}");
    assert!(line("report:").contains("/issues"), "{outcome}");
}

fn panics_in_a_call(provider: &str) -> Result<(), Missing> {
    let (library, program) = (Library::under_test()?, source::compile_client("defect")?);
    let meeting = Scratch::new();
    let line = |role: &str| format!("{provider} {} {role}", meeting.path().display());
    let receiver = start(&program, &library, &line("receiver"), "");
    let sender = start(&program, &library, &line("sender"), PANIC).wait();
    expect_report(&sender, "of the program", "tsendmsg");
    drop(receiver);
    Ok(())
}

fn panics_on_the_progress_thread(provider: &str) -> Result<(), Missing> {
    let (library, program) = (Library::under_test()?, source::compile_client("defect")?);
    let meeting = Scratch::new();
    let line = |role: &str| format!("{provider} {} {role}", meeting.path().display());
    let receiver = start(&program, &library, &line("receiver"), PANIC);
    let sender = start(&program, &library, &line("sender"), "").wait();
    // Which function of the thread is the outermost one that is left depends on what the compiler has put into others.
    expect_report(&receiver.wait(), "oxi-progress", "oxifabric_core::");
    // To the peer it is as if the process had been killed.
    let errors = ["completion: -", "fi_tsendmsg: -"];
    let is_told = errors.iter().any(|error| sender.stdout.contains(error));
    assert!(is_told && !sender.is_success(), "{sender}");
    Ok(())
}

#[test]
fn a_panic_in_a_call_ends_the_program_with_a_report_of_the_call() {
    for provider in ["tcp", "shm", "udp;ofi_rxd"] {
        require!(panics_in_a_call(provider));
    }
}

#[test]
fn a_panic_on_a_thread_of_the_library_ends_the_program_with_a_report_of_the_thread() {
    for provider in ["tcp", "shm"] {
        require!(panics_on_the_progress_thread(provider));
    }
}

fn counts_that_cannot_be_meant(provider: &str) -> Result<(), Missing> {
    let (library, program) = (Library::under_test()?, source::compile_client("careless")?);
    let careless = start(&program, &library, provider, "").wait();
    careless.expect_success().expect_stdout("\n0 believed\n");
    Ok(())
}

#[test]
fn counts_that_cannot_be_meant_are_refused_and_nothing_behind_the_list_is_read() {
    for provider in ["tcp", "shm", "udp;ofi_rxd"] {
        require!(counts_that_cannot_be_meant(provider));
    }
}
