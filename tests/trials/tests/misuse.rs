//! What the log says of calls that a program makes wrongly: one line each, with the call, the object and what to do.

#[macro_use]
extern crate oxifabric_trials;

use std::time::Duration;

use oxifabric_trials::source::compile_client;
use oxifabric_trials::{Library, Missing, Outcome, Program, require};

fn main() -> std::process::ExitCode {
    oxifabric_trials::harness::main()
}

/// Mistakes by name that only providers with host names can see, with what the program gets and what the log says.
const NAMES: [(&str, &str, &str); 6] = [
    (
        "unknown node",
        "No data available",
        "fi_getinfo: node no.such.host.invalid",
    ),
    (
        "unknown node in a vector",
        "No data available",
        "fi_av_insertsvc: address vector 0x*: node no.such.host.invalid",
    ),
    (
        "unknown provider",
        "No such device",
        "fi_fabric: there is no provider tpc",
    ),
    (
        "newer version",
        "Function not implemented",
        "API version 99.0 was asked for; this library has 2.7",
    ),
    (
        "nothing fits",
        "No data available",
        "fi_getinfo: nothing fits; nearest miss: tcp * FI_EP_*: *FI_MULTICAST*; fi_info --why with such hints says more",
    ),
    (
        "address of another host",
        "Cannot assign requested address",
        "fi_endpoint: domain 0x*: Cannot assign requested address: FI_EP_* at fi_sockaddr_in://192.0.2.7:0",
    ),
];

/// Mistakes on every provider.
const MISTAKES: [(&str, &str, &str); 19] = [
    (
        "send before enable",
        "Operation not permitted in current state",
        "fi_tsend: endpoint 0x* is not enabled: fi_enable comes first",
    ),
    (
        "receive before enable",
        "Operation not permitted in current state",
        "fi_trecv: endpoint 0x* is not enabled: fi_enable comes first",
    ),
    (
        "inject before enable",
        "Operation not permitted in current state",
        "fi_tinject: endpoint 0x* is not enabled: fi_enable comes first",
    ),
    (
        "write before enable",
        "Operation not permitted in current state",
        "fi_write: endpoint 0x* is not enabled: fi_enable comes first",
    ),
    (
        "no queue",
        "Missing or unavailable completion queue",
        "fi_enable: endpoint 0x*: no completion queue is bound for its sends and receives: fi_ep_bind one with FI_TRANSMIT | FI_RECV",
    ),
    (
        "queue without flags",
        "Invalid argument",
        "fi_ep_bind: completion queue 0x* to endpoint 0x*: flags say which completions it takes: FI_TRANSMIT, FI_RECV or both",
    ),
    (
        "queue of another domain",
        "Invalid resource domain",
        "fi_ep_bind: completion queue 0x* to endpoint 0x*: it is of another domain: open it on the domain of the endpoint",
    ),
    (
        "no queue for receives",
        "Missing or unavailable completion queue",
        "fi_enable: endpoint 0x*: no completion queue is bound for its receives: fi_ep_bind one with FI_RECV",
    ),
    (
        "no vector",
        "Missing or unavailable address vector",
        "fi_enable: endpoint 0x*: no address vector is bound: fi_ep_bind one with flags 0",
    ),
    (
        "no address",
        "Cannot assign requested address",
        "fi_av_insert: address vector 0x*: entry 0 of 1 is no * of an endpoint: *; insert the bytes that the peer's fi_getname stored",
    ),
    (
        "failed insertion",
        "Invalid argument",
        "fi_tsend: FI_ADDR_UNSPEC names no peer; it is also what fi_av_insert stores for an address that it does not take",
    ),
    (
        "no such peer",
        "Invalid argument",
        "fi_tsend: there is no address 0x4d in address vector 0x*: pass what fi_av_insert stored there and fi_av_remove has not removed",
    ),
    (
        "no such source",
        "Invalid argument",
        "fi_trecv: there is no address 0x4d in address vector 0x*",
    ),
    (
        "removed peer",
        "Invalid argument",
        "fi_tinject: there is no address 0x* in address vector 0x*",
    ),
    (
        "queue in use",
        "Device or resource busy",
        "fi_close: completion queue 0x* is in use by objects that were opened on it or are bound to it: close them first",
    ),
    (
        "no such format",
        "Invalid argument",
        "fi_cq_open: domain 0x*: Invalid argument*: format 77, wait_obj 0",
    ),
    (
        "key in use",
        "Required key not available",
        "fi_mr_reg: domain 0x*: Required key not available*: key 5; keys that a program chooses differ within a domain",
    ),
    (
        "too long to inject",
        "Message too long",
        "fi_tinject: 131072 bytes are too long, inject_size is *",
    ),
    (
        "capability not asked for",
        "Function not implemented",
        "fi_write: endpoint 0x* was opened without FI_RMA: ask for it in hints->caps",
    ),
];

/// Runs the program with these arguments.
fn run(arguments: &str, environment: &[(&str, &str)]) -> Result<Outcome, Missing> {
    let (library, compiled) = (Library::under_test()?, compile_client("misuse")?);
    let program = Program::new(compiled.file()).line(arguments);
    let program = program.library(&library).limit(Duration::from_secs(60));
    let set = |program: Program, (name, value): &(&str, &str)| program.env(name, value);
    Ok(environment.iter().fold(program, set).run())
}

/// Makes all mistakes. Lines that are alike are printed each.
fn made(provider: &str) -> Result<Outcome, Missing> {
    run(
        provider,
        &[("FI_LOG_INTERVAL", "0"), ("FI_LOG_LEVEL", "warn")],
    )
}

/// Returns whether a text begins with a pattern, in which a `*` stands for anything.
fn begins_with(text: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(rest) = parts.next().and_then(|first| text.strip_prefix(first)) else {
        return false;
    };
    parts
        .try_fold(rest, |rest, part| {
            rest.find(part).map(|at| &rest[at + part.len()..])
        })
        .is_some()
}

fn check(provider: &str, mistakes: &[(&str, &str, &str)]) -> Result<(), Missing> {
    let outcome = made(provider)?;
    outcome.expect_success();
    let answers: Vec<_> = outcome.stdout.lines().collect();
    let log = outcome.stderr.lines();
    let log: Vec<_> = log
        .filter_map(|line| line.split_once("<warn> ").map(|(_, text)| text))
        .collect();
    let expected: Vec<_> = mistakes
        .iter()
        .map(|(name, answer, _)| format!("{name}: {answer}"))
        .collect();
    assert_eq!(answers, [expected, vec!["closed".to_owned()]].concat());
    assert_eq!(log.len(), mistakes.len(), "{outcome}");
    for ((name, _, pattern), line) in mistakes.iter().zip(log) {
        assert!(begins_with(line, pattern), "{name}: {pattern:?}: {line:?}");
    }
    Ok(())
}

#[test]
fn every_mistake_over_tcp_has_a_line_in_the_log() {
    require!(check("tcp", &[NAMES.as_slice(), &MISTAKES].concat()));
}

#[test]
fn every_mistake_over_shm_has_a_line_in_the_log() {
    require!(check("shm", &MISTAKES));
}

/// Variables with a word that they do not take, the provider that reads them, and what the log says.
const WORDS: [(&str, &str, &str, &str); 5] = [
    (
        "FI_HOOK",
        "trace;prf",
        "tcp",
        "FI_HOOK: \"prf\" is none of perf, trace, profile, monitor, debug, noop",
    ),
    (
        "FI_OXI_REGIONS",
        "knwn",
        "tcp",
        "FI_OXI_REGIONS: \"knwn\" is none of all, known",
    ),
    (
        "FI_PERF_CNTR",
        "cycles",
        "tcp",
        "FI_PERF_CNTR: \"cycles\" is none of cpu_cycles, cpu_instr",
    ),
    (
        "FI_ADDR_FORMAT",
        "ipv4",
        "tcp",
        "FI_ADDR_FORMAT: \"ipv4\" is none of all, FI_SOCKADDR_IN, FI_SOCKADDR_IN6, FI_ADDR_STR",
    ),
    (
        "FI_SIM_TIME",
        "virtul",
        "sim",
        "there is no network: FI_SIM_TIME is virtual or real, not \"virtul\"",
    ),
];

#[test]
fn words_that_a_variable_does_not_take_are_reported() {
    for (variable, value, provider, expected) in WORDS {
        let hook = if variable == "FI_PERF_CNTR" {
            "perf"
        } else {
            "noop"
        };
        let environment = [("FI_HOOK", hook), (variable, value)];
        let outcome = require!(run(&format!("{provider} none"), &environment));
        let warnings = outcome.stderr.lines();
        let warnings = warnings.filter_map(|line| line.split_once("<warn> "));
        let about: Vec<_> = warnings
            .filter_map(|(_, text)| text.contains(variable).then_some(text))
            .collect();
        assert_eq!(about, [expected], "{variable}: {outcome}");
    }
}

#[test]
fn a_program_without_a_mistake_has_no_warning() {
    for provider in ["tcp", "shm", "sim", "udp;ofi_rxd"] {
        let outcome = require!(run(&format!("{provider} none"), &[]));
        outcome.expect_success();
        assert_eq!(outcome.stderr, "", "{provider}");
    }
}
