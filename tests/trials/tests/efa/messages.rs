//! Messages and datagrams of any length, over a wire without order, with the C library and with receivers that are not ready.

use super::*;

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

macro_rules! ordered {
    ($($name:ident: $options:literal, $rounds:literal;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn ours_with_ours() {
                let ours = require!(Library::under_test());
                for seed in 1..4 {
                    let outcome = require!(order([&ours, &ours], UNRULY, ($rounds, seed), $options));
                    expect_all_in_order(&outcome, $rounds);
                }
            }

            #[test]
            fn ours_with_c() {
                let (ours, c) = (require!(Library::under_test()), require!(Library::mpich_wheel()));
                for (seed, ends) in [(1, [&ours, &c]), (2, [&c, &ours])] {
                    let outcome = require!(order(ends, UNRULY, ($rounds, seed), $options));
                    expect_all_in_order(&outcome, $rounds);
                }
            }
        }
    )*};
}

ordered! {
    messages_in_order_over_a_wire_without: "", 20;
    messages_that_are_acknowledged: "delivery", 20;
    accesses_and_atomics_by_messages: "access", 20;
    messages_of_megabytes_by_packets: "delivery long", 3;
    accesses_of_megabytes_by_packets: "access long", 3;
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
