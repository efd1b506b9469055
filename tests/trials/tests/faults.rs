//! Survivors of faults: a peer killed in mid-transfer, a port without a listener, a shared memory folder
//! without space. The programs use the C interface only; each prints what its operations completed in.

#[macro_use]
extern crate oxifabric_trials;

use std::fs;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use oxifabric_trials::pingpong::PingPong;
use oxifabric_trials::source::{self, Compiled};
use oxifabric_trials::{
    Library, Missing, Namespace, Outcome, Process, Program, Scratch, installed, port, require,
    signal,
};

fn main() -> std::process::ExitCode {
    oxifabric_trials::harness::main()
}

/// Lets one of two programs be killed while a message is on its way, and returns how the other ended.
fn survive(provider: &str, mode: &str, own: &Namespace) -> Result<Outcome, Missing> {
    let library = Library::under_test()?;
    let program = source::compile_client("survivor")?;
    let folder = Scratch::new();
    let start = |role: &str| {
        let meeting = folder.path().display();
        let program = Program::new(program.file()).library(&library);
        let program = program.line(&format!("{provider} {meeting} {role} {mode}"));
        own.around(program).start()
    };
    let (mut victim, mut survivor) = (start("victim"), start("survivor"));
    let transferring = survivor.until(|process| process.stdout().contains("transferring\n"));
    if let Err(end) = transferring {
        let (survivor, victim) = (survivor.outcome(end), victim.outcome(end));
        panic!("nothing was on its way\n{survivor}\n{victim}");
    }
    victim.kill();
    Ok(survivor.wait())
}

/// After the kill every operation has ended, everything is closed, nothing is left in a /dev/shm that only these programs have, and
/// the provider still works.
fn survives(provider: &str, mode: &str) -> Result<(), Missing> {
    let own = Namespace::new()?;
    let survivor = survive(provider, mode, &own)?;
    survivor
        .expect_success()
        .expect_stdout("nothing pending, ")
        .expect_stdout("closed\n");
    let ended: Vec<&str> = survivor
        .stdout
        .lines()
        .filter(|line| line.contains(" ended: "))
        .collect();
    assert!(
        ended.iter().any(|line| line.starts_with("send")),
        "{survivor}"
    );
    assert!(
        ended.iter().any(|line| line.starts_with("receive")),
        "{survivor}"
    );
    assert!(
        !ended.iter().any(|line| line.contains(": 0 ")),
        "{survivor}"
    );
    let left = own.shared_memory();
    assert!(left.is_empty(), "left in /dev/shm: {left:?}");
    let library = Library::under_test()?;
    let next = PingPong::new(&library, provider, "-e rdm -I 10 -S 65536 -c");
    let mut pair = next.pair()?;
    pair.server = own.around(pair.server);
    pair.client = own.around(pair.client);
    pair.run().expect_success();
    assert_eq!(own.shared_memory(), left);
    Ok(())
}

#[test]
fn a_peer_killed_while_receiving_a_stream_over_tcp() {
    require!(survives("tcp", "stream"));
}

#[test]
fn a_peer_killed_while_receiving_a_stream_over_shm() {
    require!(survives("shm", "stream"));
}

#[test]
fn a_peer_killed_before_it_took_a_long_message_over_tcp() {
    require!(survives("tcp", "offer"));
}

#[test]
fn a_peer_killed_before_it_took_a_long_message_over_shm() {
    require!(survives("shm", "offer"));
}

#[test]
fn a_peer_killed_while_receiving_a_stream_over_reliable_datagrams() {
    require!(survives("udp;ofi_rxd", "stream"));
}

/// The victim has acknowledged every packet: nothing but the question whether it is there finds out that it is not.
#[test]
fn a_peer_killed_before_it_took_a_long_message_over_reliable_datagrams() {
    require!(survives("udp;ofi_rxd", "offer"));
}

/// For the survivor, the new process has the address of the old one; it gets nothing of what was sent to that.
#[test]
fn a_peer_that_dies_and_is_started_again_at_the_same_port() {
    let library = require!(Library::under_test());
    let program = require!(source::compile_client("phoenix"));
    let (meeting, port) = (Scratch::new(), port::free());
    let start = |role: &str| {
        let line = format!("udp;ofi_rxd {} {port} {role}", meeting.path().display());
        let program = Program::new(program.file()).library(&library);
        program.line(&line).start()
    };
    let (mut first, mut steady) = (start("first"), start("steady"));
    let transferring = steady.until(|process| process.stdout().contains("transferring\n"));
    first.kill();
    // Its port is free once it is gone.
    let first = first.wait();
    assert!(transferring.is_ok(), "{first}");
    let (second, steady) = oxifabric_trials::pair::wait_both(start("second"), steady);
    second
        .expect_success()
        .expect_stdout("received tag 2: 8 bytes\n");
    steady
        .expect_success()
        .expect_stdout("nothing pending, ")
        .expect_stdout("answered: rebirth\n");
    assert!(!steady.stdout.contains("another address"), "{steady}");
}

/// Two processes exchange messages until one is cut off from the other; after five seconds the cut ends, and they go on. The test
/// shows that a time passes without harm.
fn go_on_after(answerer: Process, mut asker: Process, meeting: &Scratch, cut: impl Fn(bool)) {
    let rounds = || {
        let text = fs::read_to_string(meeting.join("rounds")).ok();
        text.and_then(|text| text.trim().parse::<u64>().ok())
            .unwrap_or(0)
    };
    asker
        .until(|_| rounds() > 0)
        .expect("they play within the limit");
    cut(true);
    let (begun, begin) = (rounds(), Instant::now());
    let _ = asker.until(|_| begin.elapsed() > Duration::from_secs(5));
    let before = rounds();
    cut(false);
    let went_on = asker.until(|_| rounds() > before + 10);
    fs::write(meeting.join("stop"), "").expect("the meeting place is writable");
    let (answerer, asker) = oxifabric_trials::pair::wait_both(answerer, asker);
    assert!(went_on.is_ok(), "{answerer}\n{asker}");
    // The number is kept every 50 rounds.
    assert!(before <= begun + 50, "nothing was cut");
    answerer.expect_success().expect_stdout(" 0 wrong\n");
    asker.expect_success().expect_stdout(" 0 wrong\n");
}

#[test]
fn a_peer_stopped_for_five_seconds_goes_on_over_reliable_datagrams() {
    let library = require!(Library::under_test());
    let program = require!(source::compile_client("volley"));
    let meeting = Scratch::new();
    let start = |role| volley(&program, &library, "udp;ofi_rxd", &meeting, role).start();
    let (answerer, asker) = (start("answerer"), start("asker"));
    let id = answerer.id();
    go_on_after(answerer, asker, &meeting, |stop| {
        signal(if stop { "STOP" } else { "CONT" }, id);
    });
}

/// Both have a network of their own, whose only interface is down meanwhile.
#[test]
fn a_partition_of_five_seconds_heals_over_reliable_datagrams() {
    let library = require!(Library::under_test());
    let program = require!(source::compile_client("volley"));
    require!(may_separate());
    let meeting = Scratch::new();
    let side = |role| volley(&program, &library, "udp;ofi_rxd", &meeting, role);
    let mut asker = separate(side("asker")).start();
    let opened = asker.until(|process| process.stdout().contains("address "));
    opened.expect("it opens within the limit");
    let network = format!("--net=/proc/{}/ns/net", asker.id());
    let answerer = side("answerer").under("nsenter", [&network]).start();
    go_on_after(answerer, asker, &meeting, |cut| {
        let state = if cut { "down" } else { "up" };
        let ip = Program::new("ip").args(["link", "set", "lo", state]);
        ip.under("nsenter", [&network]).run().expect_success();
    });
}

/// Returns a program in a network of its own, which has the loopback interface only.
fn separate(program: Program) -> Program {
    let script = "ip link set lo up && exec \"$@\"";
    program.under("unshare", ["--net", "sh", "-c", script, "sh"])
}

/// Checks for the right to make network namespaces.
fn may_separate() -> Result<(), Missing> {
    for program in ["unshare", "nsenter", "ip"] {
        installed(program)?;
    }
    let allowed = separate(Program::new("true")).run().is_success();
    allowed
        .then_some(())
        .ok_or_else(|| Missing("only root may make a network".into()))
}

/// The program waits for its peer outside the library between two sizes, so that losses have to be repaired while no thread polls.
#[test]
fn reliable_datagrams_arrive_whole_under_faults() {
    let library = require!(Library::under_test());
    for plan in ["drop=0.01", "drop=0.02,dup=0.02,reorder=0.02,seed=5"] {
        let run = PingPong {
            limit: Duration::from_secs(300),
            ..PingPong::new(&library, "udp;ofi_rxd", "-e rdm -I 10 -S all -c")
        };
        let mut pair = require!(run.pair());
        pair.server = pair.server.env("FI_OXI_FAULTS", plan);
        pair.client = pair.client.env("FI_OXI_FAULTS", plan);
        pair.run().expect_success();
    }
}

#[test]
fn faults_that_are_none_are_refused() {
    let library = require!(Library::under_test());
    let run = PingPong {
        limit: Duration::from_secs(60),
        ..PingPong::new(&library, "udp;ofi_rxd", "-e rdm -I 10 -S 64")
    };
    let mut pair = require!(run.pair());
    pair.server = pair.server.env("FI_OXI_FAULTS", "loss=1");
    pair.client = pair.client.env("FI_OXI_FAULTS", "loss=1");
    assert!(!pair.run().is_success(), "they ran without faults");
}

/// No endpoint opens rather than one whose test shows nothing, and the log tells the user what is possible there.
#[test]
fn faults_that_cannot_happen_are_refused() {
    let library = require!(Library::under_test());
    for (provider, kind, plan, possible) in [
        ("tcp", "rdm", "drop=0.5", "refuse, break, panic"),
        (
            "tcp",
            "msg",
            "reorder=0.5,refuse=0.1",
            "refuse, break, panic",
        ),
        ("shm", "rdm", "dup=0.5", "refuse, break, panic"),
        ("udp", "dgram", "break=0.5", "drop, dup, reorder, refuse"),
    ] {
        let options = format!("-e {kind} -I 10 -S 64");
        let run = PingPong {
            limit: Duration::from_secs(60),
            ..PingPong::new(&library, provider, &options)
        };
        let mut pair = require!(run.pair());
        pair.server = pair.server.env("FI_OXI_FAULTS", plan);
        pair.server = pair.server.env("FI_LOG_LEVEL", "warn");
        pair.client = pair.client.env("FI_OXI_FAULTS", plan);
        pair.client = pair.client.env("FI_LOG_LEVEL", "warn");
        let outcome = pair.run();
        assert!(!outcome.is_success(), "{provider} ran without faults");
        let told = format!("what can: {possible}\n");
        assert!(outcome.to_string().contains(&told), "{outcome}");
    }
}

/// Links that promise delivery refuse frames for a while, which changes nothing but the time that a transfer takes.
#[test]
fn an_unmodified_program_passes_where_links_refuse_posts() {
    let library = require!(Library::under_test());
    for (provider, kind) in [("tcp", "rdm"), ("tcp", "msg"), ("shm", "rdm")] {
        let options = format!("-e {kind} -I 100 -S all -c");
        let run = PingPong {
            limit: Duration::from_secs(300),
            ..PingPong::new(&library, provider, &options)
        };
        let mut pair = require!(run.pair());
        pair.server = pair.server.env("FI_OXI_FAULTS", "refuse=0.3,seed=1");
        pair.client = pair.client.env("FI_OXI_FAULTS", "refuse=0.3,seed=2");
        pair.run().expect_success();
    }
}

/// Runs two endpoints of one process under a plan.
fn shaken(provider: &str, mode: &str, plan: &str) -> Result<Outcome, Missing> {
    let library = Library::under_test()?;
    let program = source::compile_client("shaken")?;
    let program = Program::new(program.file()).library(&library);
    let outcome = program
        .args([provider, mode])
        .env("FI_OXI_FAULTS", plan)
        .run();
    outcome.expect_success();
    Ok(outcome)
}

#[test]
fn refused_messages_keep_their_order_and_complete_once() {
    for provider in ["tcp", "shm", "udp;ofi_rxd", "sim"] {
        let outcome = require!(shaken(provider, "order", "refuse=0.3,seed=3"));
        outcome.expect_stdout("1000 sent, 1000 received, 0 failed\n");
    }
}

#[test]
fn connections_that_break_cost_what_was_begun_and_are_made_anew() {
    for provider in ["tcp", "shm", "udp;ofi_rxd", "sim"] {
        let outcome = require!(shaken(provider, "break", "break=0.01,seed=3"));
        outcome.expect_stdout(" failed, it went on\n");
    }
}

/// Returns how many of a thousand datagrams arrive under a plan.
fn arrivals(plan: &str) -> Result<u64, Missing> {
    let outcome = shaken("udp", "datagrams", plan)?;
    let line = outcome.stdout.lines().find_map(|line| {
        let arrived = line.strip_prefix("1000 sent, ")?;
        arrived.strip_suffix(" arrived")?.parse().ok()
    });
    Ok(line.unwrap_or_else(|| panic!("no figure\n{outcome}")))
}

#[test]
fn datagrams_are_lost_doubled_and_late_as_a_seed_says() {
    let half = require!(arrivals("drop=0.5,seed=7"));
    assert!((450..550).contains(&half), "{half} of 1000 arrived");
    assert_eq!(require!(arrivals("drop=0.5,seed=7")), half);
    assert_ne!(require!(arrivals("drop=0.5,seed=9")), half);
    assert_eq!(require!(arrivals("dup=1")), 2000);
    assert_eq!(require!(arrivals("drop=1")), 0);
    // Those that are still to be overtaken at the end never arrive.
    let late = require!(arrivals("reorder=0.2,refuse=0.2,seed=7"));
    assert!((968..1000).contains(&late), "{late} of 1000 arrived");
}

/// The cause is "Connection refused" (111), and somewhere the user reads which address that was: in the text
/// of the completion or in the log.
#[test]
fn a_closed_port_is_named_with_the_cause() {
    let library = require!(Library::under_test());
    let program = require!(source::compile_client("refused"));
    let closed = port::free();
    let outcome = Program::new(program.file())
        .library(&library)
        .args([closed.to_string()])
        .run();
    outcome
        .expect_success()
        .expect_stdout("error 111: ")
        .expect_stdout("closed\n");
    let address = format!("{}:{closed}", Ipv4Addr::LOCALHOST);
    let told = [&outcome.stdout, &outcome.stderr];
    assert!(
        told.iter().any(|text| text.contains(&address)),
        "no {address}\n{outcome}"
    );
}

/// Returns a program in a mount namespace of its own, where `folder` has space for 64 KiB.
fn with_small_folder(program: Program, folder: &str) -> Program {
    let script = "mount -t tmpfs -o size=64k small \"$0\" && exec \"$@\"";
    program.under("unshare", ["--mount", "sh", "-c", script, folder])
}

/// Checks for the right to make mount namespaces.
fn may_mount() -> Result<(), Missing> {
    installed("unshare")?;
    let folder = Scratch::new();
    let probe = with_small_folder(Program::new("true"), &folder.path().display().to_string());
    let allowed = probe.run().is_success();
    allowed
        .then_some(())
        .ok_or_else(|| Missing("only root may mount a small /dev/shm".into()))
}

/// Returns both sides of a message that goes to and fro a few times.
fn volley(
    program: &Compiled,
    library: &Library,
    provider: &str,
    meeting: &Scratch,
    role: &str,
) -> Program {
    let line = format!("{provider} {} {role}", meeting.path().display());
    Program::new(program.file()).library(library).line(&line)
}

#[test]
fn shared_memory_without_room_is_an_error_that_says_so() {
    let library = require!(Library::under_test());
    let program = require!(source::compile_client("volley"));
    require!(may_mount());
    let (meeting, small) = (Scratch::new(), Scratch::new());
    let small = small.path().display().to_string();
    let start = |role| {
        let side = volley(&program, &library, "shm", &meeting, role).env("FI_SHM_DIR", &small);
        with_small_folder(side, &small).start()
    };
    let (answerer, asker) = (start("answerer"), start("asker"));
    fs::write(meeting.join("stop"), "").expect("the meeting place is writable");
    let (answerer, asker) = oxifabric_trials::pair::wait_both(answerer, asker);
    let without_room = [&answerer, &asker]
        .into_iter()
        .find(|side| side.stdout.contains(": -28 ("));
    assert!(without_room.is_some(), "{answerer}\n{asker}");
}

#[test]
fn a_small_shared_memory_file_system_is_no_obstacle() {
    let library = require!(Library::under_test());
    let program = require!(source::compile_client("volley"));
    require!(may_mount());
    let meeting = Scratch::new();
    let start = |role| {
        let side = volley(&program, &library, "shm", &meeting, role);
        with_small_folder(side, "/dev/shm").start()
    };
    let (answerer, asker) = (start("answerer"), start("asker"));
    fs::write(meeting.join("stop"), "").expect("the meeting place is writable");
    let (answerer, asker) = oxifabric_trials::pair::wait_both(answerer, asker);
    answerer.expect_success().expect_stdout(" 0 wrong\n");
    asker.expect_success().expect_stdout(" 0 wrong\n");
}
