//! A write that was counted is at its target: origin, target and a third party are three processes (docs/adr/0029).

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
