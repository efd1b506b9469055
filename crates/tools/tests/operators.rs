//! What operators see of all programs: lines that fit, JSON that parses, completions that load, exit codes that are documented.

#[allow(dead_code, reason = "each file of tests uses some of it")]
mod running;

use std::fs;
use std::process::Command;

use running::{Ended, Running, run};
use serde_json::Value;

const FI_STRERROR: &str = env!("CARGO_BIN_EXE_fi_strerror");
const FI_INFO: &str = env!("CARGO_BIN_EXE_fi_info");
const FI_MON_SAMPLER: &str = env!("CARGO_BIN_EXE_fi_mon_sampler");
const FI_PINGPONG: &str = env!("CARGO_BIN_EXE_fi_pingpong");
const OXI: &str = env!("CARGO_BIN_EXE_oxi");

/// The commands of `oxi` that are meant for people.
const COMMANDS: [&str; 7] = [
    "bench",
    "sim",
    "lab",
    "doctor",
    "tune",
    "top",
    "completions",
];

fn run_in(columns: &str, program: &str, arguments: &[&str]) -> Ended {
    Running::start_with(program, arguments, &[("COLUMNS", columns)]).end()
}

/// Checks that lines are no longer than that, but for single words behind an indentation.
fn assert_fits(text: &str, columns: usize, what: &str) {
    for line in text.lines() {
        let is_one_word = !line.trim_start_matches(['#', ' ']).contains(' ');
        // The type of a variable stays in its line, which scripts read.
        let is_one_word = is_one_word || line.starts_with("# FI_");
        assert!(
            line.chars().count() <= columns || is_one_word,
            "{what}, {columns} columns: {line}"
        );
    }
}

/// The layout and packages have one file, and links to it.
#[test]
fn a_program_is_the_one_that_it_is_started_as() {
    use std::os::unix::process::CommandExt;
    let version = |program: &str, name: &str| {
        let ended = Command::new(program).arg0(name).arg("--version").output();
        String::from_utf8(ended.expect("it runs").stdout).expect("text")
    };
    for (program, name) in [
        (FI_INFO, "fi_info"),
        (FI_MON_SAMPLER, "fi_mon_sampler"),
        (FI_PINGPONG, "/usr/bin/fi_pingpong"),
        (OXI, "oxi"),
    ] {
        assert_eq!(version(OXI, name), version(program, name), "{name}");
    }
    assert_ne!(version(OXI, "fi_info"), version(OXI, "oxi"));
    assert_eq!(version(OXI, "oxi-2"), version(OXI, "oxi"));
    let strerror = Command::new(OXI).arg0("fi_strerror").arg("11").output();
    assert!(!strerror.expect("it runs").stdout.is_empty());
}

#[test]
fn helps_fit_the_terminal() {
    for columns in ["80", "60", "120"] {
        let width = columns.parse().unwrap();
        for program in [FI_INFO, FI_MON_SAMPLER, FI_PINGPONG, OXI] {
            let ended = run_in(columns, program, &["--help"]);
            assert!(ended.status.success(), "{program}: {}", ended.err);
            assert_fits(&ended.out, width, program);
        }
        for command in COMMANDS {
            let ended = run_in(columns, OXI, &[command, "--help"]);
            assert!(ended.status.success(), "{command}: {}", ended.err);
            assert_fits(&ended.out, width, command);
        }
    }
    // Neither a terminal nor COLUMNS.
    let mut oxi = Command::new(OXI);
    let output = oxi.args(["sim", "--help"]).env_remove("COLUMNS").output();
    assert_fits(
        &String::from_utf8(output.unwrap().stdout).unwrap(),
        80,
        "oxi sim",
    );
}

#[test]
fn variables_and_reasons_fit_the_terminal() {
    for columns in ["80", "50"] {
        let width = columns.parse().unwrap();
        for arguments in [
            &["-e"][..],
            &["--why", "-c", "FI_MULTICAST", "-t", "FI_EP_RDM"],
        ] {
            let ended = run_in(columns, FI_INFO, arguments);
            assert!(ended.out.lines().count() > 5, "{}", ended.out);
            assert_fits(&ended.out, width, "fi_info");
        }
        assert_fits(&run_in(columns, OXI, &["doctor"]).out, width, "oxi doctor");
    }
    // What a shell reads stays the same: comments, and lines that set variables.
    let variables = [("COLUMNS", "50"), ("FI_TCP_IFACE", "eth0 or so")];
    let ended = Running::start_with(FI_INFO, &["-g", "tcp_iface"], &variables).end();
    let lines: Vec<&str> = ended.out.lines().collect();
    let (comments, others): (Vec<&str>, Vec<&str>) =
        lines.iter().partition(|line| line.starts_with("# "));
    assert!(comments.len() > 2, "{}", ended.out);
    assert_eq!(others, ["FI_TCP_IFACE=\"eth0 or so\"", ""]);
}

fn json(program: &str, arguments: &[&str]) -> Value {
    let ended = run(program, arguments);
    serde_json::from_str(&ended.out)
        .unwrap_or_else(|error| panic!("{program} {arguments:?}: {error}\n{}", ended.out))
}

#[test]
fn fi_info_prints_what_it_lists_as_json() {
    let offers = json(FI_INFO, &["--json", "-p", "tcp"]);
    let text = run(FI_INFO, &["-p", "tcp"]).out;
    let offers = offers.as_array().unwrap();
    assert_eq!(offers.len(), text.matches("provider: ").count());
    for offer in offers {
        for (field, label) in [
            ("provider", "provider"),
            ("fabric", "    fabric"),
            ("domain", "    domain"),
            ("version", "    version"),
            ("type", "    type"),
            ("protocol", "    protocol"),
        ] {
            let line = format!("{label}: {}\n", offer[field].as_str().unwrap());
            assert!(text.contains(&line), "{line}");
        }
    }
    let providers = json(FI_INFO, &["--json", "-l"]);
    assert!(
        providers
            .as_array()
            .unwrap()
            .iter()
            .any(|row| row["provider"] == "shm")
    );
    let variables = json(FI_INFO, &["--json", "-g", "tcp_iface"]);
    assert_eq!(variables[0]["name"], "FI_TCP_IFACE");
    assert_eq!(
        (&variables[0]["type"], &variables[0]["value"]),
        (&"string".into(), &Value::Null)
    );
    let reasons = json(FI_INFO, &["--json", "--why", "-p", "shm"]);
    assert_eq!(reasons["returned"][0]["provider"], "shm");
    assert!(reasons["returned"][0]["offers"].as_u64().unwrap() > 0);
    let refused = reasons["not_returned"].as_array().unwrap();
    let tcp = refused.iter().find(|row| row["provider"] == "tcp").unwrap();
    assert!(tcp["reasons"][0].as_str().unwrap().contains("prov_name"));
}

#[test]
fn other_tables_are_json_too() {
    let labs = json(OXI, &["lab", "--json"]);
    let names: Vec<&str> = labs
        .as_array()
        .unwrap()
        .iter()
        .map(|lab| lab["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"copy"), "{names:?}");
    let copy = json(OXI, &["lab", "copy", "--quick", "--json"]);
    assert_eq!(copy["name"], "copy");
    assert!(copy["figures"][0]["time_ns"].as_f64().unwrap() > 0.0);
    let sim = json(OXI, &["sim", "--json", "--nodes", "4", "--seconds", "0.01"]);
    assert_eq!(
        (&sim["nodes"], &sim["pattern"]),
        (&4.into(), &"random".into())
    );
    assert_eq!(sim["sent"], sim["received"]);
    assert!(sim["packets"]["sent"].as_u64().unwrap() > 0);
    for time in ["set_up_us", "set_up_here_s", "run_us", "run_here_s"] {
        assert!(sim[time].as_f64().unwrap() > 0.0, "{time}");
    }
    assert!(sim["memory"]["endpoint_bytes"].as_f64().is_some());
    assert!(
        json(OXI, &["doctor", "--json"])[0]["grade"]
            .as_str()
            .is_some()
    );
}

#[test]
fn completions_load_in_bash() {
    for (program, option) in [
        ("oxi", "--json"),
        ("fi_info", "--why"),
        ("fi_pingpong", "--json"),
        ("fi_mon_sampler", "--help"),
        ("fi_strerror", ""),
    ] {
        let script = run(OXI, &["completions", "bash", program]).out;
        let file =
            std::env::temp_dir().join(format!("oxi-complete-{}-{program}", std::process::id()));
        fs::write(&file, script).unwrap();
        // The function of the script completes one word, as bash calls it.
        let check = format!(
            "source {file} && complete -p {program} && COMP_WORDS=({program} -) COMP_CWORD=1 \
             && \"$(complete -p {program} | sed 's/.*-F \\([^ ]*\\).*/\\1/')\" {program} - {program} && echo \"${{COMPREPLY[*]}}\"",
            file = file.display()
        );
        let output = Command::new("bash").args(["-c", &check]).output().unwrap();
        fs::remove_file(&file).unwrap();
        let out = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success(),
            "{program}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(
            out.starts_with("complete ") && out.contains(" -F _") && out.contains(option),
            "{program}: {out}"
        );
    }
    let script = run(OXI, &["completions", "bash"]).out;
    assert!(
        script.contains("doctor") && !script.contains("worker-pair"),
        "hidden commands"
    );
    for (shell, sign) in [("zsh", "#compdef oxi"), ("fish", "complete -c oxi")] {
        assert!(
            run(OXI, &["completions", shell]).out.contains(sign),
            "{shell}"
        );
    }
    assert_eq!(run(OXI, &["completions", "tcl"]).status.code(), Some(1));
}

/// Returns the codes in the table of a help.
fn documented(help: &str) -> Vec<String> {
    let table = help.split_once("Exit codes:\n").expect("a table").1;
    let rows = table.lines().take_while(|line| line.starts_with("  "));
    let rows = rows.filter(|line| !line.starts_with("   "));
    rows.filter_map(|line| line.split_whitespace().next().map(str::to_owned))
        .collect()
}

#[test]
fn exit_codes_are_those_of_the_table_in_the_help() {
    for (program, arguments, code) in [
        (FI_INFO, &["-l"][..], 0),
        (FI_INFO, &["--no-such-option"], 1),
        (FI_INFO, &["-c", "FI_FOO"], 22),
        (FI_INFO, &["-p", "nothing"], 61),
        (FI_PINGPONG, &["--help"], 0),
        (FI_PINGPONG, &["-Z"], 1),
        (FI_MON_SAMPLER, &["--help"], 0),
        (FI_MON_SAMPLER, &["/no/such/file"], 1),
        (OXI, &["lab"], 0),
        (OXI, &["sim", "/no/such/plan.toml"], 1),
    ] {
        let ended = run(program, arguments);
        assert_eq!(
            ended.status.code(),
            Some(code),
            "{program} {arguments:?}: {}",
            ended.err
        );
        let help = run(program, &["--help"]).out;
        assert!(
            documented(&help).contains(&code.to_string()),
            "{program}: {code}\n{help}"
        );
    }
    for command in COMMANDS {
        assert_eq!(
            documented(&run(OXI, &[command, "--help"]).out),
            ["0", "1"],
            "{command}"
        );
    }
    assert_eq!(run(FI_STRERROR, &["x"]).status.code(), Some(1));
}

#[test]
fn oxi_sim_names_what_is_wrong_in_its_last_line() {
    let plan = std::env::temp_dir().join(format!("oxi-sim-{}.toml", std::process::id()));
    let path = plan.to_str().unwrap();
    for (text, arguments, parts) in [
        (
            "seed = 1\n[link]\nlatency = 3\n",
            &[path][..],
            &[path, "line 3", "latency"][..],
        ),
        ("[link]\ndrop = 7.0\n", &[path], &[path, "link.drop"]),
        ("[link\n", &[path], &[path, "line 1"]),
        (
            "",
            &["/no/such/plan.toml"],
            &["/no/such/plan.toml", "No such file"],
        ),
        ("", &["--drop", "7"], &["--drop", "between 0 and 1"]),
        ("", &["--drop", "-1"], &["--drop", "between 0 and 1"]),
        ("", &["--drop", "x"], &["--drop", "no number"]),
        ("", &["--nodes", "1"], &["--nodes", "2..=100000"]),
        ("", &["--rate", "0"], &["--rate", "0.001"]),
        ("", &["--seconds", "-1"], &["--seconds", "0"]),
        ("", &["--size", "8"], &["--size", "16 bytes"]),
        ("", &["--pattern", "rig"], &["--pattern", "ring"]),
        ("", &["--speed"], &["--speed"]),
    ] {
        fs::write(&plan, text).unwrap();
        let ended = run(OXI, &[&["sim"], arguments].concat());
        fs::remove_file(&plan).unwrap();
        assert_eq!(ended.status.code(), Some(1), "{arguments:?}");
        let last = ended.err.lines().last().unwrap_or_default();
        for part in parts {
            assert!(
                last.contains(part),
                "{arguments:?}, {text:?}: {}",
                ended.err
            );
        }
    }
    let variables = [("FI_SIM_GBPS", "fast")];
    let ended = Running::start_with(OXI, &["sim"], &variables).end();
    let last = ended.err.lines().last().unwrap_or_default();
    assert!(last.contains("FI_SIM_GBPS=fast"), "{}", ended.err);
}

#[test]
fn oxi_sim_says_beforehand_what_it_takes_and_afterwards_what_it_took() {
    let arguments = [
        "sim",
        "--nodes",
        "300",
        "--rate",
        "50",
        "--pattern",
        "all-to-all",
        "--json",
    ];
    let ended = run(OXI, &arguments);
    assert!(ended.status.success(), "{}", ended.err);
    let first = ended.err.lines().next().unwrap_or_default();
    assert!(
        first.starts_with("about 15,000 messages; takes about "),
        "{first}"
    );
    let estimated: f64 = (first
        .split_once(" MB")
        .unwrap()
        .0
        .rsplit(' ')
        .next()
        .unwrap())
    .parse()
    .unwrap();
    let sim: Value = serde_json::from_str(&ended.out).unwrap();
    let taken = sim["memory"]["memory_mb"].as_f64().unwrap();
    assert!(
        (0.5..2.0).contains(&(taken / estimated)),
        "{estimated} MB were expected, {taken} MB were taken"
    );
    let text = run(
        OXI,
        &[
            "sim",
            "--nodes",
            "4",
            "--seconds",
            "0.01",
            "--pattern",
            "all-to-all",
        ],
    )
    .out;
    assert!(text.starts_with("4 nodes, all-to-all, "), "{text}");
    assert!(
        text.contains("\nset-up: ") && text.contains("\nrun: "),
        "{text}"
    );
}

#[test]
fn fi_pingpong_prints_sizes_as_json() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    drop(listener);
    let common = [
        "-e", "rdm", "-p", "tcp", "-I", "2", "-S", "all", "--json", "-v",
    ];
    let server = Running::start(FI_PINGPONG, &[&common[..], &["-B", &port]].concat());
    server.wait_for("waiting for a client");
    let client = run(
        FI_PINGPONG,
        &[&common[..], &["-P", &port, "127.0.0.1"]].concat(),
    );
    let server = server.end();
    for ended in [client, server] {
        assert!(ended.status.success(), "{}", ended.err);
        let rows: Vec<Value> = (ended.out.lines())
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(rows.len(), 46);
        assert_eq!(
            (&rows[45]["bytes"], &rows[45]["sent"]),
            (&(6 << 20).into(), &2.into())
        );
        assert!(rows[45]["latency_us"].as_f64().unwrap() > 0.0);
    }
}
