//! Debian's `fi_info`, linked against libfabric 1.17, asks the library under test.

#[macro_use]
extern crate oxifabric_trials;

use oxifabric_trials::{Library, Missing, Outcome, Program, installed, require};

fn main() -> std::process::ExitCode {
    oxifabric_trials::harness::main()
}

/// Runs `fi_info` with these options.
fn info(options: &str) -> Result<Outcome, Missing> {
    Ok(program(options)?.run())
}

/// `fi_info` with these options.
fn program(options: &str) -> Result<Program, Missing> {
    let library = Library::under_test()?;
    let program = Program::new(installed("fi_info")?);
    Ok(program.library(&library).line(options))
}

/// Returns the values of all lines `key: value`.
fn values<'a>(outcome: &'a Outcome, key: &str) -> Vec<&'a str> {
    let pairs = outcome
        .stdout
        .lines()
        .filter_map(|line| line.trim().split_once(": "));
    pairs
        .filter(|(name, _)| *name == key)
        .map(|(_, value)| value)
        .collect()
}

#[test]
fn providers_are_listed() {
    let outcome = require!(info("-l"));
    outcome
        .expect_success()
        .expect_stdout("tcp:\n")
        .expect_stdout("shm:\n");
    outcome.expect_stdout("    version: ");
}

#[test]
fn the_version_is_known_to_an_old_program() {
    let outcome = require!(info("--version"));
    outcome
        .expect_success()
        .expect_stdout("libfabric: ")
        .expect_stdout("libfabric api: 1.17");
}

/// Returns whether a provider's name has `part` among its layers, as in `tcp;ofi_rxm`.
fn is_layered_on(name: &str, part: &str) -> bool {
    name.split(';').any(|layer| layer == part)
}

#[test]
fn tcp_alone_is_returned_when_named() {
    let outcome = require!(info("-p tcp"));
    let providers = values(outcome.expect_success(), "provider");
    assert!(
        !providers.is_empty() && providers.iter().all(|name| is_layered_on(name, "tcp")),
        "{outcome}"
    );
}

#[test]
fn shm_alone_is_returned_when_named() {
    let outcome = require!(info("-p shm"));
    let providers = values(outcome.expect_success(), "provider");
    assert!(
        !providers.is_empty() && providers.iter().all(|name| is_layered_on(name, "shm")),
        "{outcome}"
    );
}

#[test]
fn tcp_offers_the_loopback_interface() {
    let outcome = require!(info("-p tcp -v"));
    outcome
        .expect_success()
        .expect_stdout("src_addr: fi_sockaddr_in://127.0.0.1:0\n");
}

#[test]
fn reliable_datagrams_come_from_both_providers() {
    let outcome = require!(info("-t FI_EP_RDM"));
    let providers = values(outcome.expect_success(), "provider");
    assert!(
        providers.contains(&"tcp") && providers.contains(&"shm"),
        "{outcome}"
    );
    assert!(
        values(&outcome, "type")
            .iter()
            .all(|kind| *kind == "FI_EP_RDM"),
        "{outcome}"
    );
}

#[test]
fn tagged_messages_come_from_both_providers() {
    let outcome = require!(info("-c FI_TAGGED"));
    let providers = values(outcome.expect_success(), "provider");
    assert!(
        providers.contains(&"tcp") && providers.contains(&"shm"),
        "{outcome}"
    );
}

/// The long form shows every field of the structure, each through the library's own `fi_tostr`.
#[test]
fn the_long_form_shows_every_part_of_the_description() {
    for provider in ["tcp", "shm"] {
        let outcome = require!(info(&format!("-v -p {provider} -t FI_EP_RDM")));
        outcome.expect_success();
        for part in [
            "fi_tx_attr:",
            "fi_rx_attr:",
            "fi_ep_attr:",
            "fi_domain_attr:",
            "fi_fabric_attr:",
        ] {
            outcome.expect_stdout(part);
        }
        for (key, value) in [
            ("type", "FI_EP_RDM"),
            ("prov_name", provider),
            ("api_version", "1.17"),
        ] {
            assert!(
                values(&outcome, key).contains(&value),
                "{key} is not {value}\n{outcome}"
            );
        }
        assert!(
            values(&outcome, "caps")
                .iter()
                .any(|caps| caps.contains("FI_TAGGED")),
            "{outcome}"
        );
    }
}

#[test]
fn what_is_not_asked_for_is_not_an_error() {
    let outcome = require!(info("-v"));
    outcome
        .expect_success()
        .expect_stdout("prov_name: tcp\n")
        .expect_stdout("prov_name: shm\n");
}

#[test]
fn an_impossible_request_is_answered_with_no_data() {
    for request in [
        "-p nosuchprovider",
        "-p shm -t FI_EP_DGRAM",
        "-p tcp -n 203.0.113.77 -s 1 -d nosuchdomain",
    ] {
        let outcome = require!(info(request));
        outcome.expect_code(61);
        assert!(outcome.stderr.contains("fi_getinfo: -61"), "{outcome}");
    }
}

/// FI_ADDR_FORMAT of 2.7: only endpoints whose addresses have this format.
#[test]
fn the_environment_chooses_a_format_of_addresses() {
    for format in ["FI_SOCKADDR_IN", "fi_addr_str"] {
        let outcome = require!(program("-v")).env("FI_ADDR_FORMAT", format).run();
        let formats = values(outcome.expect_success(), "addr_format");
        let is_wanted = |found: &&str| found.eq_ignore_ascii_case(format);
        assert!(
            !formats.is_empty() && formats.iter().all(is_wanted),
            "{outcome}"
        );
    }
    let none = require!(program("")).env("FI_ADDR_FORMAT", "FI_ADDR_EFA");
    none.run().expect_code(61);
    let unknown = require!(program("-p tcp")).env("FI_ADDR_FORMAT", "ipv4");
    let outcome = unknown.run();
    outcome.expect_success().expect_stdout("provider: tcp\n");
    assert!(
        outcome
            .stderr
            .contains("FI_ADDR_FORMAT: \"ipv4\" is none of all, "),
        "{outcome}"
    );
}

#[test]
fn environment_variables_are_listed_with_their_help() {
    let outcome = require!(info("-e"));
    outcome
        .expect_success()
        .expect_stdout("# FI_PROVIDER: String")
        .expect_stdout("# FI_LOG_LEVEL: String");
}
