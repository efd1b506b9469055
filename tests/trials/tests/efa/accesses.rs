//! Reads, writes and atomics, by devices and by packets.

use super::*;

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
    accesses_of_megabytes: UNRULY, "access long", 3;
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

/// FI_MR_BASIC is the old name of what efa asks of applications whose memory is reached; before version 1.5 of the interface no mode at all meant the same.
#[test]
fn applications_with_old_registration_modes_reach_memory() {
    let (ours, c) = (
        require!(Library::under_test()),
        require!(Library::mpich_wheel()),
    );
    for mode in ["basic", "none"] {
        for ends in [[&ours, &ours], [&ours, &c]] {
            let variables = [("OLD_MODE", mode)];
            let outcome = require!(order_with(ends, UNRULY, (5, 1), "access", &variables, ""));
            expect_all_in_order(&outcome, 5);
        }
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
