//! Endpoints of EFA on softnic's device, below Debian's libibverbs and libefa: ours with ours and with those of a C library.
//!
//! `OXI_RDMA_CORE` names a folder with another libibverbs and libefa than the system's, for both ends.

#[macro_use]
extern crate oxifabric_trials;

use std::path::{Path, PathBuf};
use std::time::Duration;

use oxifabric_trials::source::compile_client;
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

macro_rules! played {
    ($($name:ident: $kind:literal, $plan:expr, $options:literal;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn ours_with_ours() {
                let ours = require!(Library::under_test());
                for seed in 1..4 {
                    let outcome = require!(play([&ours, &ours], $kind, $plan, (40, seed), $options));
                    expect_all(&outcome, 40);
                }
            }

            #[test]
            fn ours_with_c() {
                let (ours, c) = (require!(Library::under_test()), require!(Library::mpich_wheel()));
                for (seed, ends) in [(1, [&ours, &c]), (2, [&c, &ours])] {
                    let outcome = require!(play(ends, $kind, $plan, (40, seed), ""));
                    expect_all(&outcome, 40);
                }
            }
        }
    )*};
}

played! {
    reliable_messages_of_any_length: "rdm", UNRULY, "";
    datagrams_of_any_length: "dgram", UNORDERED, "";
}

#[test]
fn threads_that_sleep_on_their_queues_are_woken() {
    let ours = require!(Library::under_test());
    for (kind, plan) in [("rdm", UNRULY), ("dgram", UNORDERED)] {
        let outcome = require!(play([&ours, &ours], kind, plan, (20, 1), "sleep"));
        expect_all(&outcome, 20);
    }
}

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

/// Every byte that is written and read is checked. The C library in the wheel was built for devices that do not write.
#[test]
fn memory_of_a_peer_is_written_and_read() {
    let ours = require!(Library::under_test());
    for (seed, receives) in [(1, ""), (2, ""), (3, "solicited")] {
        let arguments = |folder: &Path| format!("{} $NAME 60 {seed} {receives}", folder.display());
        let outcome = require!(run("reach", [&ours, &ours], UNRULY, seed, arguments));
        if outcome.stdout.contains("fi_getinfo: -61") {
            let missing =
                "no reads and writes: libefa before rdma-core 49 offers no program all of them";
            return oxifabric_trials::harness::skip(Missing(missing.into()));
        }
        outcome.expect_success();
        assert_eq!(
            outcome.stdout.matches("reached 60 rounds").count(),
            2,
            "{outcome}"
        );
    }
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

macro_rules! ordered {
    ($($name:ident: $options:literal;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn ours_with_ours() {
                let ours = require!(Library::under_test());
                for seed in 1..4 {
                    let outcome = require!(order([&ours, &ours], UNRULY, (20, seed), $options));
                    expect_all_in_order(&outcome, 20);
                }
            }

            #[test]
            fn ours_with_c() {
                let (ours, c) = (require!(Library::under_test()), require!(Library::mpich_wheel()));
                for (seed, ends) in [(1, [&ours, &c]), (2, [&c, &ours])] {
                    let outcome = require!(order(ends, UNRULY, (20, seed), $options));
                    expect_all_in_order(&outcome, 20);
                }
            }
        }
    )*};
}

ordered! {
    messages_in_order_over_a_wire_without: "";
    messages_that_are_acknowledged: "delivery";
    accesses_and_atomics_by_messages: "access";
}

macro_rules! read_by_devices {
    ($($name:ident: $plan:expr, $options:literal, $rounds:literal;)*) => {$(
        mod $name {
            use super::*;

            #[track_caller]
            fn play(ends: [&Library; 2], seed: u32) -> Result<Outcome, Missing> {
                let game = ($rounds, seed);
                let outcome = order_with(ends, $plan, game, $options, &RDMA, "")?;
                expect_all_in_order(&outcome, $rounds);
                assert!(requested(&outcome, "reads") > 0, "{outcome}");
                Ok(outcome)
            }

            #[test]
            fn ours_with_ours() {
                let ours = require!(Library::under_test());
                for seed in 1..4 {
                    require!(play([&ours, &ours], seed));
                }
            }

            #[test]
            fn ours_with_c() {
                let (ours, c) = (require!(Library::under_test()), require!(Library::mpich_wheel()));
                for (seed, ends) in [(1, [&ours, &c]), (2, [&c, &ours])] {
                    require!(play(ends, seed));
                }
            }
        }
    )*};
}

/// What a device reads in many pieces, since it reads few bytes at once.
const SHORT_READS: &str = "hosts = 2\nreorder = 0.7\nreorder_window = 32\nmax_rdma = 5000\n";

read_by_devices! {
    messages_that_devices_read: UNRULY, "", 20;
    messages_that_devices_read_and_are_acknowledged: UNRULY, "delivery", 20;
    accesses_by_devices: UNRULY, "access", 20;
    messages_of_megabytes: UNRULY, "delivery long", 3;
    accesses_in_pieces: SHORT_READS, "access", 10;
}

/// Devices that do not write, and write with data by using up receives. The libefa of Debian 12 offers no program writes, a newer one does.
#[test]
fn accesses_by_devices_that_differ() {
    let ours = require!(Library::under_test());
    for (caps, options) in [
        ("[\"notify\", \"read\", \"rnr-retry\"]", ""),
        (
            "[\"notify\", \"read\", \"write\", \"rnr-retry\", \"sgid\"]",
            "",
        ),
        ("[\"notify\", \"read\", \"write\", \"unsolicited\"]", ""),
        // One end has writes with data use up its receives and the other one has not, so that no device carries them out, and all writes have some.
        (
            "[\"notify\", \"read\", \"write\", \"unsolicited\"]",
            "solicited",
        ),
    ] {
        let plan = format!("{UNRULY}caps = {caps}\n");
        let ends = [&ours, &ours];
        let options = format!("access {options}");
        let outcome = require!(order_with(ends, &plan, (20, 1), &options, &RDMA, ""));
        expect_all_in_order(&outcome, 20);
        assert!(requested(&outcome, "reads") > 0, "{outcome}");
        let may_write = std::env::var_os("OXI_RDMA_CORE").is_some()
            && caps.contains("write")
            && !options.contains("solicited");
        assert_eq!(requested(&outcome, "writes") > 0, may_write, "{outcome}");
    }
}

/// Where one of the two does not let devices read and write, accesses and messages go by packets.
#[test]
fn both_ends_have_to_let_devices_read() {
    let (ours, c) = (
        require!(Library::under_test()),
        require!(Library::mpich_wheel()),
    );
    let differ = |a: u8, b: u8| {
        format!("[ $NAME = a ] && use={a} || use={b}; export FI_EFA_USE_DEVICE_RDMA=$use;")
    };
    for (ends, uses) in [
        ([&ours, &ours], (1, 0)),
        ([&ours, &ours], (0, 0)),
        ([&ours, &c], (1, 0)),
        ([&ours, &c], (0, 1)),
    ] {
        let set = differ(uses.0, uses.1);
        let outcome = require!(order_with(
            ends,
            UNRULY,
            (10, 1),
            "access",
            &RDMA[1..],
            &set
        ));
        expect_all_in_order(&outcome, 10);
        assert_eq!(requested(&outcome, "reads"), 0, "{outcome}");
    }
}

/// An application with an interface before version 1.18, as `orderly` is, does not let the first devices read unless it is told to.
#[test]
fn old_applications_do_not_let_devices_read() {
    let ours = require!(Library::under_test());
    let outcome = require!(order_with(
        [&ours, &ours],
        UNRULY,
        (5, 1),
        "access",
        &[],
        ""
    ));
    expect_all_in_order(&outcome, 5);
    assert_eq!(requested(&outcome, "reads"), 0, "{outcome}");
}

/// Long messages of the C library whose first bytes come in packets.
#[test]
fn messages_of_which_a_part_is_sent_and_the_rest_read() {
    let (ours, c) = (
        require!(Library::under_test()),
        require!(Library::mpich_wheel()),
    );
    let variables: Vec<_> = RDMA
        .into_iter()
        .chain([("FI_EFA_RUNT_SIZE", "60000")])
        .collect();
    for (seed, ends) in [(1, [&ours, &c]), (2, [&c, &ours])] {
        let outcome = require!(order_with(ends, UNRULY, (20, seed), "", &variables, ""));
        expect_all_in_order(&outcome, 20);
        assert!(requested(&outcome, "reads") > 0, "{outcome}");
    }
}

/// Where no more memory can be registered, what is to be read is copied, or sent. The log says which.
#[test]
fn messages_and_accesses_without_room_for_registrations() {
    let (ours, c) = (
        require!(Library::under_test()),
        require!(Library::mpich_wheel()),
    );
    let variables: Vec<_> = RDMA
        .into_iter()
        .chain([("FI_LOG_LEVEL", "info"), ("FI_LOG_PROV", "efa")])
        .collect();
    let mut said = String::new();
    for (ends, regions) in [
        ([&ours, &ours], 3..7),
        ([&ours, &c], 5..9),
        ([&c, &ours], 5..9),
    ] {
        for regions in regions {
            let plan = format!("{UNRULY}regions = {regions}\n");
            let outcome = require!(order_with(ends, &plan, (10, 1), "access", &variables, ""));
            expect_all_in_order(&outcome, 10);
            said += &outcome.stderr;
        }
    }
    for text in [
        "is sent, since its peer cannot read it",
        "is not read, and asked for",
        "cannot be registered, and is copied",
    ] {
        assert!(said.contains(text), "never: {text}");
    }
}

/// An access that is refused fails, and nothing else does: one of the device, and one by packets. The long write is announced, to be read or asked for,
/// where the device does not write.
#[test]
fn an_access_that_is_refused_fails_alone() {
    let ours = require!(Library::under_test());
    for variables in [&RDMA[..], &[("FI_EFA_USE_DEVICE_RDMA", "0")]] {
        let options = "access refused";
        let outcome = require!(order_with(
            [&ours, &ours],
            UNRULY,
            (5, 1),
            options,
            variables,
            ""
        ));
        expect_all_in_order(&outcome, 5);
    }
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

/// What docs/performance.md says that the heap holds, with room to spare: an address, and a peer with which messages were exchanged and that is gone.
#[test]
fn a_peer_takes_little_memory() {
    let ours = require!(Library::under_test());
    let (scratch, program) = (Scratch::new(), require!(compile_client("efa_cost")));
    let network = require!(softnic::network("reorder = 0\n", 1, &scratch));
    let file = program.file().display().to_string();
    let run = network.args([&file, "memory", "2000", "40"]);
    let outcome = run.library(&ours).limit(Duration::from_secs(120)).run();
    outcome.expect_success();
    for (what, most) in [("2000 inserted, ", 512), ("40 met, ", 2048)] {
        let lines = &mut outcome.stdout.lines();
        let bytes = lines.find_map(|line| line.strip_prefix(what)?.split(' ').next()?.parse().ok());
        assert!(bytes.is_some_and(|bytes: i64| bytes <= most), "{outcome}");
    }
}

#[test]
fn threads_that_sleep_are_woken_by_messages_of_the_engine() {
    let ours = require!(Library::under_test());
    for (options, variables) in [("sleep", &[][..]), ("sleep access", &RDMA[..])] {
        let outcome = require!(order_with(
            [&ours, &ours],
            UNRULY,
            (20, 1),
            options,
            variables,
            ""
        ));
        expect_all_in_order(&outcome, 20);
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

/// Debian's program checks the data of each message by itself. Without tags it would get endpoints of the device.
#[test]
fn fi_pingpong_over_an_engine() {
    let pingpong = require!(installed("fi_pingpong"));
    let ours = require!(Library::under_test());
    let scratch = Scratch::new();
    let (program, port) = (pingpong.display(), port::free());
    let options = "-p efa -e rdm -m tagged -c -S all -I 10";
    let command = format!(
        "case $NAME in a) exec {program} {options} -B {port};; \
         b) for try in $(seq 300); do {program} {options} -P {port} 127.0.0.1 && exit; done; exit 1;; esac"
    );
    let run = require!(softnic::network(UNRULY, 1, &scratch));
    let outcome = both(run, [&ours, &ours], &command).run();
    outcome.expect_success();
    assert_eq!(outcome.stdout.matches("\n6m ").count(), 2, "{outcome}");
}

/// Debian's program checks the data of each message by itself.
#[test]
fn fi_pingpong_over_datagrams() {
    let pingpong = require!(installed("fi_pingpong"));
    let ours = require!(Library::under_test());
    let c = require!(Library::mpich_wheel());
    for ends in [[&ours, &ours], [&ours, &c], [&c, &ours]] {
        let scratch = Scratch::new();
        // The client tries to reach the server until that listens.
        let (program, port) = (pingpong.display(), port::free());
        let command = format!(
            "case $NAME in a) exec {program} -p efa -e dgram -c -I 50 -B {port};; \
             b) for try in $(seq 300); do {program} -p efa -e dgram -c -I 50 -P {port} 127.0.0.1 && exit; done; exit 1;; esac"
        );
        let run = require!(softnic::network("hosts = 2\n", 1, &scratch));
        let outcome = both(run, ends, &command).run();
        outcome.expect_success();
        assert_eq!(outcome.stdout.matches("\n4k ").count(), 2, "{outcome}");
    }
}

/// What fi_info(1) shows is what the C library's provider shows, but for what our endpoints do not ask of applications.
#[test]
fn fi_info_shows_what_the_c_library_shows() {
    let fi_info = require!(installed("fi_info"));
    let ours = require!(Library::under_test());
    let c = require!(Library::mpich_wheel());
    let shown = |library: &Library| -> Result<Vec<String>, Missing> {
        let scratch = Scratch::new();
        let run = softnic::network("nics = 2\n", 1, &scratch)?.args([&fi_info]);
        let run = run.line("-p efa -v").library(library);
        let outcome = run.env("FI_PROVIDER_PATH", providers(library)).run();
        outcome.expect_success();
        let entries = outcome.stdout.split("---\n").skip(1).map(str::to_owned);
        Ok(entries.collect())
    };
    let (ours, c) = (require!(shown(&ours)), require!(shown(&c)));
    assert_eq!((ours.len(), c.len()), (6, 6));
    const DIFFER: [&str; 5] = ["mode: ", "xpu", "prov_version", "threading", "api_version"];
    // What an engine can do beyond the C library's is no matter of the device.
    const OF_ENGINE: [&str; 9] = [
        "rma_iov_limit",
        "caps: ",
        "op_flags",
        "msg_order",
        "size: ",
        "cq_data_size",
        "_cnt: ",
        "max_",
        "progress",
    ];
    for (ours, c) in ours.iter().zip(&c) {
        let has_engine = c.contains("protocol_version: 4");
        assert_eq!(ours.contains("protocol_version: 4"), has_engine);
        let differ = DIFFER.iter().chain(OF_ENGINE.iter().filter(|_| has_engine));
        let rest = |entry: &str| {
            let lines = entry
                .lines()
                .filter(|line| !differ.clone().any(|part| line.contains(part)));
            lines
                .map(|line| line.replace("(nil)", "0x0"))
                .collect::<Vec<_>>()
        };
        assert_eq!(rest(ours), rest(c));
        // Of the endpoint, its sends, its receives and the domain, in this order.
        let of_receives = ours.lines().filter(|line| line.contains("caps: ")).nth(2);
        let of_receives = of_receives.expect("capabilities of receives");
        let sends = ["FI_READ,", "FI_WRITE,", "FI_SEND"];
        assert!(
            !sends.iter().any(|caps| of_receives.contains(caps)),
            "{of_receives}"
        );
    }
    assert!(
        ours[0].contains("src_addr: fi_addr_efa://[fe80::ff:fe00:1]:0:0"),
        "{}",
        ours[0]
    );
}

/// Messages of up to 64 KiB are sent to an application that makes no progress. Where the sender said that it sees to receives itself, those that
/// find none are refused.
#[test]
fn sends_to_an_application_that_computes_end() {
    let ours = require!(Library::under_test());
    for (what, sent) in [
        ("messages", "sent 6, 0 refused"),
        ("overrun", "sent 1100, "),
    ] {
        let arguments = |folder: &Path| format!("{} $NAME {what}", folder.display());
        let outcome = require!(run(
            "unattended",
            [&ours, &ours],
            "hosts = 2\n",
            1,
            arguments
        ));
        outcome.expect_success();
        assert!(outcome.stdout.contains(sent), "{outcome}");
        let all = outcome.stdout.contains("received 6");
        let refused = outcome.stdout.contains("refused") && !outcome.stdout.contains(", 0 refused");
        assert_eq!(
            (all, refused),
            (what == "messages", what == "overrun"),
            "{outcome}"
        );
    }
}

/// Messages of several packets are not refused for one of these: their receiver may have the others.
#[test]
fn a_message_in_parts_is_not_refused_for_one_of_them() {
    let ours = require!(Library::under_test());
    let arguments = |folder: &Path| format!("{} $NAME parts", folder.display());
    let plan = "hosts = 2\nrnr = 0.7\n";
    let outcome = require!(run("unattended", [&ours, &ours], plan, 1, arguments));
    outcome.expect_success();
    assert!(outcome.stdout.contains("sent 4, 0 refused"), "{outcome}");
    // The sender has waited for all parts: it makes no progress after the last one.
    assert!(outcome.stdout.contains("received 4"), "{outcome}");
}

/// What a refused message would have been acknowledged by is forgotten with it.
#[test]
fn messages_that_are_refused_leave_nothing_behind() {
    let ours = require!(Library::under_test());
    let arguments = |folder: &Path| format!("{} $NAME refused", folder.display());
    let plan = "hosts = 2\nrnr = 1.0\n";
    let outcome = require!(run("unattended", [&ours, &ours], plan, 1, arguments));
    outcome.expect_success();
    assert!(
        outcome.stdout.contains("sent 20000, 20000 refused"),
        "{outcome}"
    );
}

/// FI_OPT_EFA_HOMOGENEOUS_PEERS counts from when it is set, also at an endpoint that is enabled, as in the C library.
#[test]
fn peers_that_are_said_to_be_alike_are_read_from_at_once() {
    let ours = require!(Library::under_test());
    let scratch = Scratch::new();
    let program = require!(compile_client("alike"));
    let (file, folder) = (program.file().display(), scratch.path().display());
    let run = require!(softnic::network("hosts = 2\n", 1, &scratch));
    let run = both(run, [&ours, &ours], &format!("exec {file} {folder} $NAME"));
    let outcome = run.env("FI_EFA_USE_DEVICE_RDMA", "1").run();
    outcome.expect_success();
    assert!(outcome.stdout.contains("read 5000 bytes"), "{outcome}");
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

/// What is injected is the caller's again when the call returns, also where the memory is registered and the call has its descriptor, by which a device could read it. The libefa of
/// Debian 12 offers no program writes of devices; with that these go by packets.
#[test]
fn writes_that_are_injected_out_of_registered_memory_take_it_during_the_call() {
    let ours = require!(Library::under_test());
    for rdma in ["0", "1"] {
        let (scratch, program) = (Scratch::new(), require!(compile_client("overtaken")));
        let (file, folder) = (program.file().display(), scratch.path().display());
        let run = require!(softnic::counted(UNRULY, 1, &scratch));
        let command = format!("exec {file} {folder} $NAME injected");
        let run = both(run, [&ours, &ours], &command).env("FI_EFA_USE_DEVICE_RDMA", rdma);
        let outcome = run.limit(Duration::from_secs(180)).run();
        outcome.expect_success();
        assert!(outcome.stdout.contains("saw 60 rounds"), "{outcome}");
        let by_device = rdma == "1" && std::env::var_os("OXI_RDMA_CORE").is_some();
        assert_eq!(requested(&outcome, "writes") > 0, by_device, "{outcome}");
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

/// Options that only this provider has say what they say in the C library, and take what they take there.
/// The headers of 2.5 do not know the option.
#[test]
fn writes_with_data_may_be_told_to_use_up_receives_before_an_endpoint_is_enabled() {
    let ours = require!(Library::under_test());
    let program = require!(compile_client("options"));
    let said = |fabric: &str| {
        let scratch = Scratch::new();
        let run = softnic::network("", 1, &scratch)?.args([program.file()]);
        let run = run.line(&format!("{fabric} 18 unsolicited")).library(&ours);
        let outcome = run.run();
        outcome.expect_success();
        Ok::<_, Missing>(outcome.stdout)
    };
    let (no, yes) = ("set unsolicited 0", "set unsolicited 1");
    // FI_ENOPROTOOPT, FI_EINVAL, and at the end FI_EOPBADSTATE; FI_EOPNOTSUPP where there are no receives for such writes.
    let start = format!("get unsolicited: -92 0\n{yes}: -22\n{yes}: 0\n");
    for (fabric, forbidden) in [("efa", 0), ("efa-direct", -95)] {
        let expected = format!("{start}{no}: {forbidden}\n{yes}: -258\nclosed\n");
        assert_eq!(require!(said(fabric)), expected, "{fabric}");
    }
}

/// That would take another queue pair, which has another address than the one that peers may know (FI_EOPBADSTATE).
#[test]
fn an_endpoint_keeps_the_address_that_it_has_told() {
    let ours = require!(Library::under_test());
    let program = require!(compile_client("options"));
    let scratch = Scratch::new();
    let run = require!(softnic::network("", 1, &scratch)).args([program.file()]);
    let rdma_core = std::env::var("OXI_RDMA_CORE").unwrap_or_default();
    let folders = format!("{}:{rdma_core}", ours.folder().display());
    let run = run.line("efa 18 named").env("LD_LIBRARY_PATH", folders);
    let outcome = run.run();
    outcome.expect_success();
    let set = |value, code| format!("set unsolicited {value}: {code}\n");
    let before = [set(0, 0), set(1, 0)].concat();
    let after = match rdma_core.is_empty() {
        false => [set(0, -258), set(1, 0)].concat(),
        // Older ones do not let devices do without receives, so that there is nothing to change.
        true => before.clone(),
    };
    let expected = format!("{before}{after}the address is the same\n");
    assert_eq!(outcome.stdout, expected);
}

/// What libibverbs says by 1 is that it keeps memory from children, by 2 that the kernel does.
#[test]
fn memory_is_kept_from_children_where_that_is_asked_for() {
    let ours = require!(Library::under_test());
    let program = require!(compile_client("forksafe"));
    let status = |value: &str| {
        let scratch = Scratch::new();
        let run = softnic::network("", 1, &scratch)?.args([program.file()]);
        let outcome = run.library(&ours).env("FI_EFA_FORK_SAFE", value).run();
        outcome.expect_success();
        Ok::<_, Missing>(outcome.stdout)
    };
    let (without, with) = (require!(status("0")), require!(status("1")));
    match without.as_str() {
        "fork status 2\n" => assert_eq!(with, without),
        without => assert_eq!(
            (without, with.as_str()),
            ("fork status 0\n", "fork status 1\n")
        ),
    }
}

#[test]
fn options_are_those_of_the_c_library() {
    let (ours, c) = (
        require!(Library::under_test()),
        require!(Library::mpich_wheel()),
    );
    let program = require!(compile_client("options"));
    let said = |library: &Library, caps: &str, arguments: &str, rdma: Option<&str>| {
        let scratch = Scratch::new();
        let run = softnic::network(caps, 1, &scratch)?.args([program.file()]);
        let run = run.line(arguments).library(library);
        let run = run.env("FI_PROVIDER_PATH", providers(library));
        let run = rdma
            .into_iter()
            .fold(run, |run, value| run.env("FI_EFA_USE_DEVICE_RDMA", value));
        let outcome = run.run();
        outcome.expect_success();
        Ok::<_, Missing>(outcome.stdout)
    };
    for caps in ["", "caps = [\"notify\"]\n"] {
        for arguments in ["efa 17", "efa 18", "efa-direct 18"] {
            // Without a device that reads, C ends a process that is to use one.
            let values = [None, Some("0"), Some("1")];
            for rdma in values
                .into_iter()
                .filter(|rdma| caps.is_empty() || *rdma != Some("1"))
            {
                let of_c = require!(said(&c, caps, arguments, rdma));
                let of_ours = require!(said(&ours, caps, arguments, rdma));
                assert_eq!(of_ours, of_c, "{caps} {arguments} {rdma:?}");
                assert!(of_ours.contains("set rnr retry 3: "), "{of_ours}");
            }
        }
    }
}

#[test]
fn a_machine_without_devices_is_explained() {
    let library = require!(Library::under_test());
    let fi_info = library.folder().join("../bin/fi_info");
    let nowhere = Scratch::new();
    let run = Program::new(fi_info).line("-p efa --why").library(&library);
    let outcome = run.env("SYSFS_PATH", nowhere.path()).run();
    let said = outcome.stdout.replace("\n", " ").replace("  ", " ");
    assert!(
        said.contains("this machine has no RDMA device"),
        "{outcome}"
    );
}
