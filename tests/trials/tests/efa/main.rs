//! Endpoints of EFA on softnic's device, below Debian's libibverbs and libefa: ours with ours and with those of a C library.
//!
//! `OXI_RDMA_CORE` names a folder with another libibverbs and libefa than the system's, for both ends.

#[macro_use]
extern crate oxifabric_trials;

mod accesses;
mod endings;
mod endpoints;
mod fences;
mod intruders;
mod messages;

use std::path::{Path, PathBuf};
use std::time::Duration;

use oxifabric_trials::source::{compile, compile_client};
use oxifabric_trials::{
    Library, Missing, Outcome, Program, Scratch, installed, port, require, softnic,
};

fn main() -> std::process::ExitCode {
    oxifabric_trials::harness::main()
}

/// Faults that a network may have without harm to messages: much is overtaken, and receivers are not ready.
const UNRULY: &str =
    "hosts = 2\nreorder = 0.7\nreorder_window = 32\nrnr = 0.05\ndelay_us = [0, 300]\n";

/// The same for datagrams, which vanish where no receive is ready.
const UNORDERED: &str = "hosts = 2\nreorder = 0.7\nreorder_window = 32\n";

/// Returns the folder with the providers of a library: that of the wheel, which is alone in a folder here, finds them by this only, and ours shall
/// find none.
fn providers(library: &Library) -> PathBuf {
    let wheel = oxifabric_trials::wheel::MPICH.environment();
    match (wheel, library.name()) {
        (Ok(wheel), "the wheel's C") => wheel.join("lib/mpich/libfabric"),
        _ => "/nonexistent".into(),
    }
}

/// Lets a command run on host 0 with one library and on host 1 with another, with `$NAME` as the name of the one that it is, `a` or `b`. An
/// end that was killed does not count.
fn both(run: Program, ends: [&Library; 2], command: &str) -> Program {
    let end = |host: usize, name: &str| {
        let (folder, providers) = (ends[host].folder(), providers(ends[host]));
        format!(
            "SOFTNIC_HOST={host} LD_LIBRARY_PATH={}:{} FI_PROVIDER_PATH={} NAME={name} sh -c '{command}'",
            folder.display(),
            std::env::var("OXI_RDMA_CORE").unwrap_or_default(),
            providers.display()
        )
    };
    let script = format!(
        "{} & first=$!; {}; second=$?; wait $first; first=$?; \
         [ $first -eq 0 ] || [ $first -eq 137 ] || exit $first; [ $second -eq 137 ] && exit 0; exit $second",
        end(0, "a"),
        end(1, "b")
    );
    run.args(["sh", "-c", &script])
}

/// Plays rounds of `direct` between two libraries, and returns what was said.
fn play(
    ends: [&Library; 2],
    kind: &str,
    plan: &str,
    (rounds, seed): (u32, u32),
    options: &str,
) -> Result<Outcome, Missing> {
    let arguments = |folder: &Path| {
        let folder = folder.display();
        format!("{kind} {folder} $NAME {rounds} {seed} {options}")
    };
    run("direct", ends, plan, seed, arguments)
}

/// Runs a program of ours between two libraries; `arguments` puts its arguments together, with the folder in which both ends meet.
fn run(
    program: &str,
    ends: [&Library; 2],
    plan: &str,
    seed: u32,
    arguments: impl FnOnce(&Path) -> String,
) -> Result<Outcome, Missing> {
    let scratch = Scratch::new();
    let program = compile_client(program)?;
    let arguments = arguments(scratch.path());
    let command = format!("exec {} {arguments}", program.file().display());
    let run = softnic::network(plan, seed, &scratch)?;
    let run = both(run, ends, &command).limit(Duration::from_secs(180));
    Ok(run.run())
}

/// Checks that both have received all messages of their rounds.
#[track_caller]
fn expect_all(outcome: &Outcome, rounds: u32) {
    outcome.expect_success();
    let all = format!("received {} messages", rounds * 16);
    let ends = outcome.stdout.matches(&all).count();
    assert_eq!(ends, 2, "{outcome}");
}

/// Plays rounds of `orderly` between two libraries, and returns what was said.
fn order(
    ends: [&Library; 2],
    plan: &str,
    (rounds, seed): (u32, u32),
    options: &str,
) -> Result<Outcome, Missing> {
    let arguments = |folder: &Path| {
        let folder = folder.display();
        format!("{folder} $NAME {rounds} {seed} {options}")
    };
    run("orderly", ends, plan, seed, arguments)
}

/// What lets devices read and write memory of peers, also where messages are not very long.
const RDMA: [(&str, &str); 3] = [
    ("FI_EFA_USE_DEVICE_RDMA", "1"),
    ("FI_EFA_INTER_MIN_READ_MESSAGE_SIZE", "20000"),
    ("FI_EFA_INTER_MIN_READ_WRITE_SIZE", "10000"),
];

/// Plays rounds of `orderly` between two libraries with these variables, on a network that counts; `set` sets others for an end, by its `$NAME`.
fn order_with(
    ends: [&Library; 2],
    plan: &str,
    (rounds, seed): (u32, u32),
    options: &str,
    variables: &[(&str, &str)],
    set: &str,
) -> Result<Outcome, Missing> {
    let scratch = Scratch::new();
    let program = compile_client("orderly")?;
    let (file, folder) = (program.file().display(), scratch.path().display());
    let command = format!("{set} exec {file} {folder} $NAME {rounds} {seed} {options}");
    let run = softnic::counted(plan, seed, &scratch)?;
    let mut run = both(run, ends, &command).limit(Duration::from_secs(180));
    for (name, value) in variables {
        run = run.env(name, value);
    }
    Ok(run.run())
}

/// Returns how many requests of this kind the network counted.
#[track_caller]
fn requested(outcome: &Outcome, kind: &str) -> u64 {
    let words: Vec<&str> = outcome.stderr.split([' ', ',']).collect();
    let at = words.iter().rposition(|word| *word == kind);
    let count = at.and_then(|at| words.get(at - 1)?.parse().ok());
    count.unwrap_or_else(|| panic!("no count of {kind}: {outcome}"))
}

/// Checks that both have received all messages of their rounds of `orderly`.
#[track_caller]
fn expect_all_in_order(outcome: &Outcome, rounds: u32) {
    outcome.expect_success();
    let all = format!("received {} messages", rounds * 8);
    assert_eq!(outcome.stdout.matches(&all).count(), 2, "{outcome}");
}
