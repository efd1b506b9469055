//! `oxi top` and its metrics, with processes that run on the library that is built in.

#[allow(dead_code, reason = "each file of tests uses some of it")]
mod running;

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use running::{Running, WATCHDOG, run};

const FI_PINGPONG: &str = env!("CARGO_BIN_EXE_fi_pingpong");
const OXI: &str = env!("CARGO_BIN_EXE_oxi");

/// A ping_pong of ping-pong that lasts until it is dropped.
struct PingPong {
    server: Running,
    client: Running,
}

impl PingPong {
    fn start(provider: &str, variables: &[(&str, &str)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        drop(listener);
        let common = [
            "-v",
            "-e",
            "rdm",
            "-p",
            provider,
            "-S",
            "64",
            "-I",
            "2000000000",
        ];
        let server = [&common[..], &["-B", &port]].concat();
        let server = Running::start_with(FI_PINGPONG, &server, variables);
        server.wait_for("waiting for a client");
        let client = [&common[..], &["-P", &port, "127.0.0.1"]].concat();
        let client = Running::start_with(FI_PINGPONG, &client, variables);
        Self { server, client }
    }

    fn pids(&self) -> [u32; 2] {
        [&self.server, &self.client].map(|side| side.child.id())
    }
}

/// Returns what `oxi top` says of a process.
fn look(pid: u32) -> Option<Value> {
    let ended = run(OXI, &["top", "--once", "--json", "--delay", "0.2"]);
    assert!(ended.status.success(), "{}", ended.err);
    let read: Value = serde_json::from_str(&ended.out).expect("it is JSON");
    let processes = read["processes"].as_array().expect("a list").clone();
    processes.into_iter().find(|process| process["pid"] == pid)
}

/// Looks at a process until it says something.
fn look_until(pid: u32, what: impl Fn(&Value) -> bool) -> Value {
    let start = Instant::now();
    let mut seen = None;
    while start.elapsed() < WATCHDOG {
        seen = look(pid);
        if let Some(process) = seen.as_ref().filter(|process| what(process)) {
            return process.clone();
        }
    }
    panic!("it was not seen; at last: {seen:?}");
}

fn plays(process: &Value) -> bool {
    let traffic = &process["endpoints"][0]["traffic"];
    ["send", "receive"].iter().all(|kind| {
        traffic[kind]["operations_per_s"].as_f64() > Some(0.0)
            && traffic[kind]["bytes_per_s"].as_f64() > Some(0.0)
    })
}

#[test]
fn both_sides_of_a_game_are_seen_over_each_provider() {
    for provider in ["tcp", "shm", "udp;ofi_rxd"] {
        let ping_pong = PingPong::start(provider, &[("FI_OXI_STATS", "1")]);
        for pid in ping_pong.pids() {
            let process = look_until(pid, plays);
            assert_eq!(process["command"], "fi_pingpong");
            let endpoint = &process["endpoints"][0];
            assert_eq!(endpoint["provider"], provider);
            assert_eq!(
                (&endpoint["type"], &endpoint["id"]),
                (&"FI_EP_RDM".into(), &1.into())
            );
            assert_eq!(endpoint["peers"], 1, "{endpoint}");
            assert_eq!(endpoint["errors"], 0, "{endpoint}");
            let sent = &endpoint["traffic"]["send"];
            let bytes = sent["operations"].as_u64().map(|messages| messages * 64);
            assert_eq!(sent["bytes"].as_u64(), bytes, "{sent}");
        }
    }
}

#[test]
fn packets_that_are_sent_again_are_counted() {
    let faults = "drop=0.05,seed=7";
    let variables = [("FI_OXI_STATS", "1"), ("FI_OXI_FAULTS", faults)];
    let ping_pong = PingPong::start("udp;ofi_rxd", &variables);
    look_until(ping_pong.pids()[0], |process| {
        process["endpoints"][0]["retransmissions"].as_u64() > Some(0)
    });
}

#[test]
fn what_did_not_ask_for_it_is_not_seen() {
    let seen = PingPong::start("tcp", &[("FI_OXI_STATS", "1")]);
    let unseen = PingPong::start("tcp", &[("FI_OXI_STATS", "0")]);
    look_until(seen.pids()[0], plays);
    assert_eq!(unseen.pids().map(look), [None, None]);
}

#[test]
fn a_table_has_a_line_for_each_endpoint() {
    let ping_pong = PingPong::start("tcp", &[("FI_OXI_STATS", "1")]);
    look_until(ping_pong.pids()[0], plays);
    let ended = run(OXI, &["top", "--once", "-d", "0.1"]);
    assert!(ended.status.success(), "{}", ended.err);
    let pid = ping_pong.pids()[0].to_string();
    let mut lines = ended.out.lines();
    assert!(
        lines
            .next()
            .unwrap()
            .trim_start()
            .starts_with("PID COMMAND"),
        "{}",
        ended.out
    );
    let line = lines.find(|line| line.split_whitespace().next() == Some(&pid));
    assert!(line.unwrap().contains("fi_pingpong tcp"), "{}", ended.out);
}

#[test]
fn it_says_that_a_screen_needs_a_terminal() {
    let ended = run(OXI, &["top"]);
    assert!(!ended.status.success());
    assert!(ended.err.contains("--once"), "{}", ended.err);
}

/// Reads metrics by the parser of Prometheus's Python client; `None`, and a line that says so, where it is not installed.
fn parsed(text: &str) -> Option<String> {
    const PROGRAM: &str = "
import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as prometheus
text = sys.stdin.read()
for family in openmetrics(text):
    for sample in family.samples:
        print(family.type, sample.name, sample.labels['pid'], sample.labels.get('operation'), float(sample.value))
assert len(list(prometheus(text))) > 0
";
    let python = |program: &str| {
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-c", program]).stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn()
    };
    let is_there = python("import prometheus_client.openmetrics.parser")
        .and_then(|child| child.wait_with_output())
        .is_ok_and(|ended| ended.status.success());
    if !is_there {
        println!("SKIP: python3-prometheus-client is not installed");
        return None;
    }
    let mut child = python(PROGRAM).unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    let ended = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{errors}\n{text}");
    Some(String::from_utf8(ended.stdout).unwrap())
}

fn has_metrics_of(parsed: &str, pid: u32) {
    for metric in [
        format!("counter oxifabric_operations_total {pid} send "),
        format!("counter oxifabric_transferred_bytes_total {pid} receive "),
        format!("counter oxifabric_errors_total {pid} None 0.0"),
        format!("gauge oxifabric_peers {pid} None 1.0"),
        format!("gauge oxifabric_endpoint_info {pid} None 1.0"),
    ] {
        assert!(
            parsed.lines().any(|line| line.starts_with(&metric)),
            "{metric}\n{parsed}"
        );
    }
}

#[test]
fn a_parser_reads_the_metrics_in_a_file() {
    let ping_pong = PingPong::start("tcp", &[("FI_OXI_STATS", "1")]);
    let pid = ping_pong.pids()[1];
    look_until(pid, plays);
    let file = std::env::temp_dir().join(format!("oxi-top-{}.prom", std::process::id()));
    let ended = run(OXI, &["top", "--once", "--metrics", file.to_str().unwrap()]);
    let text = fs::read_to_string(&file).unwrap();
    fs::remove_file(&file).unwrap();
    assert!(ended.status.success(), "{}", ended.err);
    assert!(text.ends_with("# EOF\n"));
    if let Some(parsed) = parsed(&text) {
        has_metrics_of(&parsed, pid);
    }
}

#[test]
fn a_parser_reads_the_metrics_at_an_address() {
    let ping_pong = PingPong::start("shm", &[("FI_OXI_STATS", "1")]);
    let pid = ping_pong.pids()[0];
    look_until(pid, plays);
    let server = Running::start(OXI, &["top", "--metrics", ":0"]);
    let line = server.wait_for("http://127.0.0.1:");
    let at = line.trim().trim_start_matches("metrics are at http://");
    let mut stream = TcpStream::connect(at.trim_end_matches("/metrics")).unwrap();
    stream.set_read_timeout(Some(WATCHDOG)).unwrap();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, text) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    assert!(
        head.contains("application/openmetrics-text; version=1.0.0"),
        "{head}"
    );
    if let Some(parsed) = parsed(text) {
        has_metrics_of(&parsed, pid);
    }
}
