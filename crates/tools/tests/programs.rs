//! The programs, run as programs, on the library that is built in.

#[allow(dead_code, reason = "each file of tests uses some of it")]
mod running;

use std::net::TcpListener;
use std::process::Command;

use running::{Ended, NO_CONF, Running, run};

const FI_STRERROR: &str = env!("CARGO_BIN_EXE_fi_strerror");
const FI_INFO: &str = env!("CARGO_BIN_EXE_fi_info");
const FI_PINGPONG: &str = env!("CARGO_BIN_EXE_fi_pingpong");
const OXI: &str = env!("CARGO_BIN_EXE_oxi");

#[test]
fn fi_strerror_spells_numbers_of_either_sign_and_any_base() {
    for (argument, text) in [
        ("0", "Success\n"),
        ("61", "No data available\n"),
        ("-61", "No data available\n"),
        ("0x3d", "No data available\n"),
        ("075", "No data available\n"),
        ("11", "Resource temporarily unavailable\n"),
        ("259", "Error available\n"),
        ("265", "Truncation error\n"),
        ("41", "Unknown error 41\n"),
        ("9999", "Unspecified error\n"),
    ] {
        let ended = run(FI_STRERROR, &[argument]);
        assert!(ended.status.success(), "{argument}");
        assert_eq!(ended.out, text, "{argument}");
    }
}

#[test]
fn fi_strerror_complains_on_the_standard_output_as_upstream() {
    let ended = run(FI_STRERROR, &["what"]);
    assert_eq!(ended.status.code(), Some(1));
    let mut lines = ended.out.lines();
    assert_eq!(lines.next(), Some("ERROR: unable to parse 'what'"));
    assert_eq!(lines.next(), Some(""));
    assert_eq!(
        lines.next(),
        Some(&*format!("Usage: {FI_STRERROR} FI_ERROR_CODE"))
    );
    assert_eq!(run(FI_STRERROR, &[]).status.code(), Some(1));
    assert_eq!(run(FI_STRERROR, &["-h"]).status.code(), Some(0));
}

#[test]
fn fi_info_lists_each_offer_in_six_lines() {
    let ended = run(FI_INFO, &["-p", "tcp", "-t", "FI_EP_RDM"]);
    assert!(ended.status.success(), "{}", ended.err);
    let lines: Vec<&str> = ended.out.lines().collect();
    assert!(!lines.is_empty());
    for offer in lines.chunks(6) {
        assert_eq!(offer[0], "provider: tcp");
        let heads = ["    fabric: ", "    domain: ", "    version: "];
        assert!(
            heads
                .iter()
                .zip(&offer[1..])
                .all(|(head, line)| line.starts_with(head))
        );
        assert_eq!(offer[4], "    type: FI_EP_RDM");
        assert_eq!(offer[5], "    protocol: FI_PROTO_XNET");
    }
}

#[test]
fn fi_info_lists_providers_and_long_texts() {
    let ended = run(FI_INFO, &["-l"]);
    for provider in ["shm", "tcp"] {
        let head = format!("{provider}:\n    version: ");
        assert!(ended.out.contains(&head), "{}", ended.out);
    }
    let long = run(FI_INFO, &["-v", "-p", "shm"]).out;
    assert!(
        long.starts_with("---\nfi_info:\n    caps: [ FI_MSG, "),
        "{long}"
    );
    let part = run(FI_INFO, &["-i", "prov_name: SHM"]).out;
    assert!(part.contains("prov_name: shm") && !part.contains("prov_name: tcp"));
}

#[test]
fn fi_info_prints_variables_for_a_shell() {
    let ended = run(FI_INFO, &["-g", "tcp_iface"]);
    let mut lines = ended.out.lines();
    assert_eq!(lines.next(), Some("# FI_TCP_IFACE: String"));
    assert!(lines.next().is_some_and(|line| line.starts_with("# tcp: ")));
    assert_eq!(lines.next(), Some(""));
    assert_eq!(lines.next(), None);
}

#[test]
fn fi_info_says_what_came_nearest_when_nothing_fits() {
    let ended = run(FI_INFO, &["-c", "FI_MULTICAST", "-p", "tcp"]);
    assert_eq!(ended.status.code(), Some(61));
    assert_eq!(ended.out, "");
    let mut lines = ended.err.lines();
    assert_eq!(lines.next(), Some("fi_getinfo: -61 (No data available)"));
    let nearest = lines.next().unwrap();
    assert!(nearest.starts_with("nearest miss: tcp ("), "{nearest}");
    assert!(nearest.contains("FI_MULTICAST"), "{nearest}");
}

#[test]
fn fi_info_why_tells_each_provider_apart() {
    let ended = run(FI_INFO, &["--why", "-p", "shm"]);
    assert!(ended.status.success());
    assert!(ended.out.contains("shm: returned, "), "{}", ended.out);
    assert!(
        ended
            .out
            .contains("tcp: not returned\n    fabric_attr.prov_name"),
        "{}",
        ended.out
    );
    let ended = run(FI_INFO, &["--why", "-t", "FI_EP_DGRAM", "-c", "FI_RMA"]);
    assert_eq!(ended.status.code(), Some(61));
    assert!(ended.out.contains("(nearest miss)"), "{}", ended.out);
}

#[test]
fn fi_info_names_what_it_does_not_know() {
    let ended = run(FI_INFO, &["-c", "FI_FOO"]);
    assert_eq!(ended.status.code(), Some(22));
    assert_eq!(ended.err, "error: Unrecognized capability: FI_FOO\n");
    assert_eq!(run(FI_INFO, &["--no-such-option"]).status.code(), Some(1));
}

#[test]
fn fi_pingpong_plays_and_checks_every_size() {
    for provider in ["tcp", "shm"] {
        for mode in ["msg", "tagged"] {
            let common = [
                "-v", "-e", "rdm", "-I", "2", "-S", "all", "-c", "-p", provider, "-m", mode,
            ];
            let (server, client) = play(&common);
            for ended in [server, client] {
                assert!(ended.status.success(), "{provider} {mode}: {}", ended.err);
                let lines: Vec<&str> = ended.out.lines().collect();
                assert!(lines[0].starts_with("bytes   #sent   #ack     total "));
                assert_eq!(lines.len(), 1 + 46);
                assert!(
                    lines[46].starts_with("6m      2       =2       24m "),
                    "{}",
                    lines[46]
                );
            }
        }
    }
}

#[test]
fn fi_pingpong_says_which_endpoints_there_are_not() {
    let ended = run(FI_PINGPONG, &["-p", "tcp"]);
    assert_eq!(ended.status.code(), Some(61));
    assert!(ended.err.contains("no dgram endpoints"), "{}", ended.err);
}

#[test]
fn fi_pingpong_names_the_address_that_refuses() {
    let port = free_port();
    let ended = run(FI_PINGPONG, &["-e", "rdm", "-P", &port, "127.0.0.1"]);
    assert!(!ended.status.success());
    let address = format!("cannot connect to 127.0.0.1:{port}");
    assert!(ended.err.contains(&address), "{}", ended.err);
}

#[test]
fn fi_pingpong_notices_that_the_other_side_is_gone() {
    let port = free_port();
    let common = [
        "-v",
        "-e",
        "rdm",
        "-p",
        "tcp",
        "-S",
        "64",
        "-I",
        "2000000000",
    ];
    let (server, client) = start_pair(&port, &common);
    client.wait_for("playing over");
    drop(client);
    let ended = server.end();
    assert!(!ended.status.success(), "{}", ended.out);
    assert!(ended.err.contains("fi_pingpong: "), "{}", ended.err);
}

/// Runs a server and a client to their ends.
fn play(common: &[&str]) -> (Ended, Ended) {
    let (server, client) = start_pair(&free_port(), common);
    (server.end(), client.end())
}

fn start_pair(port: &str, common: &[&str]) -> (Running, Running) {
    let server = Running::start(FI_PINGPONG, &[common, &["-B", port]].concat());
    server.wait_for("waiting for a client");
    let client = Running::start(FI_PINGPONG, &[common, &["-P", port, "127.0.0.1"]].concat());
    (server, client)
}

/// Returns a port that was free a moment ago.
fn free_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port().to_string()
}

#[test]
fn oxi_shows_a_table_and_charts() {
    let ended = run(OXI, &["--quick", "--sizes", "8,4k"]);
    assert!(ended.status.success(), "{}{}", ended.out, ended.err);
    for text in [
        "shm",
        "tcp",
        "one-way µs",
        "messages/s",
        "8 B",
        "4 KiB",
        "●",
        "▲",
    ] {
        assert!(ended.out.contains(text), "{text}: {}", ended.out);
    }
    assert!(!ended.out.contains('\x1b'), "no colours in a pipe");
    assert_eq!(ended.err, "");
}

#[test]
fn oxi_prints_json_with_every_size() {
    let ended = run(
        OXI,
        &[
            "bench",
            "--quick",
            "--json",
            "--providers",
            "shm",
            "--sizes",
            "8,1m",
        ],
    );
    assert!(ended.status.success(), "{}{}", ended.out, ended.err);
    assert!(
        ended.out.starts_with("{\n  \"machine\": {\"cpu\": "),
        "{}",
        ended.out
    );
    for text in [
        "\"name\": \"shm\"",
        "\"bytes\": 8,",
        "\"bytes\": 1048576,",
        "\"wrong\": 0}",
    ] {
        assert!(ended.out.contains(text), "{text}: {}", ended.out);
    }
    assert_eq!(
        ended.out.matches('{').count(),
        ended.out.matches('}').count()
    );
}

#[test]
fn oxi_fails_for_a_provider_that_is_not_there() {
    let ended = run(OXI, &["--quick", "--providers", "none"]);
    assert_eq!(ended.status.code(), Some(1));
    assert!(
        ended.out.contains("failed: no provider offers this"),
        "{}",
        ended.out
    );
}

#[test]
fn oxi_sim_lets_every_pattern_arrive_over_a_network_that_loses() {
    for pattern in ["ring", "all-to-all", "incast", "permutation", "random"] {
        let options =
            format!("sim --pattern {pattern} --nodes 12 --seconds 0.02 --drop 0.02 --seed 3");
        let arguments: Vec<&str> = options.split(' ').collect();
        let ended = run(env!("CARGO_BIN_EXE_oxi"), &arguments);
        assert!(ended.status.success(), "{}", ended.err);
        for part in [
            "messages received",
            "packets repeated",
            "99 % within",
            "an idle peer",
            "●",
        ] {
            assert!(ended.out.contains(part), "{part}: {}", ended.out);
        }
    }
}

#[test]
fn oxi_sim_repeats_itself() {
    let play = |seed: &str| {
        let arguments = [
            "sim",
            "--nodes",
            "9",
            "--seconds",
            "0.05",
            "--drop",
            "0.05",
            "--seed",
            seed,
        ];
        let out = run(env!("CARGO_BIN_EXE_oxi"), &arguments).out;
        let told = out
            .lines()
            .filter(|line| line.contains("packets") || line.contains("within"));
        told.map(str::to_owned).collect::<Vec<_>>()
    };
    let once = play("7");
    assert!(once.len() > 5, "{once:?}");
    assert_eq!(once, play("7"));
    assert_ne!(once, play("8"));
}

/// Messages longer than a packet, so that their pieces overtake each other; the order of messages holds all the same.
#[test]
fn oxi_sim_keeps_the_order_of_messages_over_adapters_that_keep_none() {
    for (order, one_sided) in [("unordered", "[]"), ("unordered", "['read', 'write']")] {
        let name = format!("oxi-sim-nic-{}.toml", std::process::id());
        let plan = std::env::temp_dir().join(name);
        let text = format!("[nic]\norder = '{order}'\none_sided = {one_sided}\n");
        std::fs::write(&plan, text).unwrap();
        let arguments = "--nodes 9 --seconds 0.02 --rate 5000 --size 20k --json";
        let arguments = arguments.split(' ');
        let arguments: Vec<_> = ["sim", plan.to_str().unwrap()]
            .into_iter()
            .chain(arguments)
            .collect();
        let ended = run(env!("CARGO_BIN_EXE_oxi"), &arguments);
        std::fs::remove_file(&plan).unwrap();
        assert!(ended.status.success(), "{}{}", ended.out, ended.err);
        assert!(!ended.out.contains("\"overtaken\": 0"), "{}", ended.out);
        let by_themselves = !ended.out.contains("\"accesses\": 0");
        assert_eq!(by_themselves, one_sided != "[]", "{}", ended.out);
    }
}

#[test]
fn oxi_sim_says_what_is_wrong_with_a_plan() {
    let plan = std::env::temp_dir().join(format!("oxi-sim-plan-{}.toml", std::process::id()));
    std::fs::write(&plan, "[link]\nspeed = 3\n").unwrap();
    let ended = run(
        env!("CARGO_BIN_EXE_oxi"),
        &["sim", plan.to_str().unwrap(), "--nodes", "4"],
    );
    std::fs::remove_file(&plan).unwrap();
    assert!(!ended.status.success());
    assert!(ended.err.contains("speed"), "{}", ended.err);
}

/// Returns what `oxi doctor` prints as JSON with a variable set, and whether it found nothing bad.
fn doctor(variable: (&str, &str)) -> (String, bool) {
    let mut command = Command::new(OXI);
    let command = command
        .args(["doctor", "--json"])
        .env_remove("OXIFABRIC_LIBRARY")
        .env("FI_OXI_CONF", NO_CONF)
        .env(variable.0, variable.1);
    let ended = command.output().unwrap();
    let out = String::from_utf8(ended.stdout).unwrap();
    (out, ended.status.success())
}

#[test]
fn oxi_doctor_opens_every_provider_and_fails_for_what_is_bad() {
    let (well, _) = doctor(("FI_LOG_LEVEL", "warn"));
    for provider in ["tcp", "shm", "udp", "udp;ofi_rxd", "sim"] {
        let found = format!("{{\"grade\": \"ok\", \"about\": \"provider {provider}\"");
        assert!(well.contains(&found), "{well}");
    }
    let (misspelt, is_well) = doctor(("FI_PROVIDER", "tpc"));
    assert!(!is_well);
    let meant = "\"grade\": \"bad\", \"about\": \"FI_PROVIDER\", \"text\": \"there is no provider \\\"tpc\\\"\", \"advice\": \"did you mean tcp?\"";
    assert!(misspelt.contains(meant), "{misspelt}");
}

#[test]
fn what_libfabric_conf_says_is_read_and_examined() {
    let file = format!("{}/libfabric.conf", env!("CARGO_TARGET_TMPDIR"));
    std::fs::write(&file, "FI_PROVIDER=tcp\nFI_PROVIDR=shm\n").unwrap();
    let listed = Command::new(FI_INFO)
        .env("FI_OXI_CONF", &file)
        .env_remove("FI_PROVIDER")
        .output()
        .unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let (found, _) = doctor(("FI_OXI_CONF", &file));
    std::fs::remove_file(&file).unwrap();
    let mut providers = listed.lines().filter(|line| line.starts_with("provider: "));
    assert!(listed.contains("provider: tcp\n"), "{listed}");
    assert!(providers.all(|line| line == "provider: tcp"), "{listed}");
    let meant = format!(
        "\"about\": \"FI_PROVIDR in {file}\", \"text\": \"no provider here reads it\", \"advice\": \"did you mean FI_PROVIDER?\""
    );
    assert!(found.contains(&meant), "{found}");
    let (found, _) = doctor(("FI_OXI_CONF", &file));
    assert!(found.contains("cannot be read: No such file"), "{found}");
}

#[test]
fn oxi_tune_plays_both_ways_and_writes_what_is_worth_it() {
    let file = format!("{}/tuned.conf", env!("CARGO_TARGET_TMPDIR"));
    _ = std::fs::remove_file(&file);
    let ended = run(OXI, &["tune", "--quick", "--write", &file]);
    let written = std::fs::read_to_string(&file);
    _ = std::fs::remove_file(&file);
    assert!(ended.status.success(), "{}{}", ended.out, ended.err);
    if ended.out.contains("nothing can be chosen") {
        println!("SKIP: {}", ended.out);
        return;
    }
    // A pair without the settings that it should measure with ends the program.
    for text in [
        "Which side copies a message",
        "256 KiB",
        "lower is better: one-way µs; higher is better: MB/s",
    ] {
        assert!(ended.out.contains(text), "{text}: {}", ended.out);
    }
    // Which is faster depends on the machine; the file has what is proposed, and nothing else.
    match ended.out.split_once("which") {
        None => {
            assert!(ended.out.contains("\nno better setting found: "));
            assert!(written.is_err());
        }
        Some((_, lines)) => {
            let lines = lines.lines().filter_map(|line| line.strip_prefix("  "));
            let proposed: String = lines.map(|line| format!("{line}\n")).collect();
            assert!(proposed.starts_with("FI_SHM_ASSIST_SIZE="), "{proposed}");
            assert_eq!(written.unwrap(), proposed);
        }
    }
}

#[test]
fn oxi_tune_says_so_where_there_is_nothing_to_choose() {
    let ended = Command::new(OXI)
        .args(["tune", "--quick"])
        .env_remove("OXIFABRIC_LIBRARY")
        .env("FI_OXI_CONF", NO_CONF)
        .env("FI_SHM_DISABLE_CMA", "yes")
        .output()
        .unwrap();
    let out = String::from_utf8(ended.stdout).unwrap();
    assert!(ended.status.success(), "{out}");
    assert!(
        out.contains("nothing can be chosen: FI_SHM_DISABLE_CMA"),
        "{out}"
    );
}

#[test]
fn oxi_lab_lists_what_can_be_measured_and_measures_all_of_it() {
    let listed = run(OXI, &["lab"]);
    assert!(listed.status.success(), "{}", listed.err);
    let names: Vec<_> = listed
        .out
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .collect();
    assert!(names.contains(&"copy") && names.contains(&"syscall"));
    for name in names {
        let plot = format!("{}/{name}.svg", env!("CARGO_TARGET_TMPDIR"));
        let ended = run(OXI, &["lab", name, "--quick", "--plot", &plot]);
        assert!(ended.status.success(), "{name}: {}", ended.err);
        let bars = ended.out.lines().filter(|line| line.contains('█'));
        let svg = std::fs::read_to_string(&plot).unwrap();
        assert_eq!(bars.count(), svg.matches(" ns</text>").count(), "{name}");
        std::fs::remove_file(&plot).unwrap();
    }
}
