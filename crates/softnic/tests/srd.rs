//! The device below Debian's unmodified libibverbs and libefa: a C program of our own, and rdma-core's tests.

#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// Returns the compiled program; on machines without the libraries or their headers the reason why there is none.
fn program() -> Result<&'static Path, &'static str> {
    static PROGRAM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let compiled = PROGRAM.get_or_init(|| {
        let header = Path::new("/usr/include/infiniband/efadv.h");
        if !header.exists() || find("libefa-rdmav34.so").is_none() {
            return Err("libibverbs-dev or ibverbs-providers is not installed".to_owned());
        }
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("srd");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/srd/srd.c");
        let mut compile = Command::new("cc");
        if has_write() {
            compile.arg("-DHAS_WRITE");
        }
        compile.args(["-Wall", "-Wextra", "-Werror", "-O1", source, "-o"]);
        let compiled = compile.arg(&program).args(["-libverbs", "-lefa"]).output();
        let compiled = compiled.expect("a C compiler, which the tests need anyway");
        assert!(compiled.status.success(), "{}", text(&compiled.stderr));
        Ok(program)
    });
    compiled.as_deref().map_err(String::as_str)
}

/// Whether the installed libefa offers writes of a peer's memory.
fn has_write() -> bool {
    let header = "echo '#include <infiniband/efadv.h>' | cc -E -";
    let expanded = Command::new("sh").args(["-c", header]).output();
    expanded.is_ok_and(|expanded| text(&expanded.stdout).contains("UNSOLICITED_WRITE_RECV"))
}

/// Finds one of libibverbs' drivers.
fn find(driver: &str) -> Option<PathBuf> {
    let folders = fs::read_dir("/usr/lib").ok()?.flatten();
    let places = folders.map(|folder| folder.path().join("libibverbs").join(driver));
    places.into_iter().find(|place| place.exists())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the command that runs something on a network with this plan.
fn softnic(plan: &str, name: &str) -> Command {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.toml"));
    fs::write(&file, plan).expect("a plan");
    let mut softnic = Command::new(env!("CARGO_BIN_EXE_softnic"));
    softnic.args(["run", "--stats", "--plan"]).arg(file);
    softnic
}

/// Plays a part of the program under a plan, and returns all that was printed if it succeeded.
fn play(part: &str, plan: &str, name: &str) -> Option<String> {
    let output = try_play(part, plan, name)?;
    let all = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{part}: {}\n{all}", output.status);
    Some(all)
}

fn try_play(part: &str, plan: &str, name: &str) -> Option<Output> {
    let program = match program() {
        Ok(program) => program,
        Err(reason) => {
            println!("SKIP: {reason}");
            return None;
        }
    };
    let mut softnic = softnic(plan, name);
    let output = softnic.arg("--").arg(program).arg(part).output();
    Some(output.expect("softnic was built with this test"))
}

/// Returns the number that stands behind a word, as our program prints it.
fn after(all: &str, word: &str) -> u64 {
    let (_, rest) = all.split_once(&format!("{word} ")).expect(word);
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}

/// Returns the number that stands before words, as softnic prints it at the end.
fn before(all: &str, words: &str) -> u64 {
    let (_, counts) = all.rsplit_once("softnic: ").expect("its counts");
    let counts = counts.trim().split(", ");
    let mut found = counts.filter_map(|count| count.strip_suffix(words)?.trim().parse().ok());
    found
        .next()
        .unwrap_or_else(|| panic!("no {words} in {all}"))
}

#[test]
fn messages_arrive_once_and_whole_in_an_order_that_the_seed_decides() {
    for seed in 1..=3 {
        let plan = format!("seed = {seed}\nreorder = 0.5\nreorder_us = 20000");
        let Some(all) = play("pingpong", &plan, "reorder") else {
            return;
        };
        assert!(after(&all, "reordered") > 20, "{all}");
    }
}

#[test]
fn without_reordering_they_arrive_in_order() {
    if let Some(all) = play("pingpong", "reorder = 0.0\nrnr = 0.0", "order") {
        assert_eq!(after(&all, "reordered"), 0, "{all}");
        assert_eq!(after(&all, "failed"), 0, "{all}");
    }
}

#[test]
fn delays_and_receivers_that_are_not_ready_lose_nothing() {
    let plan = "rnr = 0.2\ndelay_us = [0, 300]";
    if let Some(all) = play("pingpong", plan, "rnr") {
        assert!(before(&all, "not ready") > 50, "{all}");
    }
}

#[test]
fn planned_errors_reach_the_sender() {
    let plan = "[[error]]\nstatus = \"unresponsive\"\nshare = 0.1\ndelivered = true";
    if let Some(all) = play("pingpong", plan, "error") {
        assert!(after(&all, "failed") > 10, "{all}");
    }
}

#[test]
fn reads_are_checked_by_the_side_that_is_read() {
    play("reads", "", "reads");
}

#[test]
fn writes_are_checked_by_the_side_that_is_written() {
    if program().is_ok() && !has_write() {
        println!("SKIP: libefa before rdma-core 49 has no RDMA write");
        return;
    }
    play("writes", "", "writes");
    play("unsolicited", "", "unsolicited");
}

#[test]
fn every_cause_of_failure_has_its_status() {
    play("errors", "", "errors");
}

#[test]
fn a_killed_process_is_noticed_by_its_peers() {
    play("killed", "", "killed");
}

#[test]
fn a_plan_kills_a_process() {
    // Either process may be the first to open the device, and only one of them sends.
    let plan = "[[kill]]\nprocess = 0\nafter = 20\n[[kill]]\nprocess = 1\nafter = 20";
    if let Some(output) = try_play("until-error", plan, "kill") {
        assert_eq!(output.status.code(), Some(128 + 9));
        let all = text(&output.stderr);
        assert_eq!(before(&all, "killed"), 1, "{all}");
    }
}

#[test]
fn a_plan_silences_a_host() {
    let plan = "hosts = 2\n[[dead]]\nhost = 1\nafter = 30";
    if let Some(output) = try_play("until-error", plan, "dead") {
        let all = text(&output.stdout);
        assert_eq!(after(&all, "status"), 13, "{all}");
    }
}

#[test]
fn completion_channels_wake_their_readers() {
    play("events", "", "events");
}

#[test]
fn four_processes_send_to_each_other() {
    play("many", "", "many");
}

#[test]
fn a_plan_says_what_devices_there_are() {
    let plan = "hosts = 2\nnics = 2\nmtu = 4096\ncaps = [\"read\"]";
    if let Some(all) = play("devices", plan, "devices") {
        let devices = [0, 1].map(|nic| format!("efa_{nic} caps 1 longest 4096 host 0 nic {nic}\n"));
        assert!(all.starts_with(&devices.concat()), "{all}");
    }
}

#[test]
fn a_plan_says_whether_numbers_are_used_again() {
    for (plan, expected) in [("", "1\n2\n3\n"), ("qpn_reuse = true", "1\n1\n1\n")] {
        if let Some(all) = play("numbers", plan, "numbers") {
            assert!(all.starts_with(expected), "{all}");
        }
    }
}

#[test]
fn what_the_program_ends_with_is_passed_on_and_nothing_stays() {
    for (script, code) in [("exit 7", 7), ("kill -9 $$", 137)] {
        let mut softnic = softnic("", "end");
        let print = format!("echo $SOFTNIC_RUN; {script}");
        let output = softnic.args(["--", "sh", "-c", &print]).output();
        let output = output.expect("softnic was built with this test");
        assert_eq!(output.status.code(), Some(code));
        let folder = text(&output.stdout).trim().to_owned();
        assert!(folder.contains("softnic.") && !Path::new(&folder).exists());
    }
}

/// Unmodified programs of the package perftest, each as server and client.
#[test]
fn perftest_measures_sends_and_reads() {
    if !Path::new("/usr/bin/ib_send_lat").exists() {
        println!("SKIP: perftest is not installed");
        return;
    }
    let port = 20_000 + std::process::id() % 10_000;
    for program in [
        "ib_send_lat -s 64",
        "ib_send_bw -s 8192",
        "ib_read_lat -s 65536",
    ] {
        let one = format!("{program} -d efa_0 --connection=SRD -x 0 -n 100 -p {port}");
        // The client finds no server until that listens.
        let both = format!(
            "{one} & s=$!; i=0; until {one} 127.0.0.1; do i=$((i + 1)); [ $i -lt 1000 ] || exit 1; done; wait $s"
        );
        let mut softnic = softnic("", "perftest");
        softnic.args(["--", "timeout", "120", "sh", "-c", &both]);
        let output = softnic.output().expect("softnic was built with this test");
        let said = text(&output.stdout);
        assert!(
            output.status.success(),
            "{program}: {said}{}",
            text(&output.stderr)
        );
    }
}

/// The tests of the package rdma-core, which drive the device by pyverbs in one process. Many of them are about what no EFA device has, and skip.
#[test]
fn rdma_core_s_own_tests_pass() {
    const TESTS: [&str; 8] = [
        "test_efa_srd",
        "test_efadv",
        "test_cqex",
        "test_cq",
        "test_mr",
        "test_pd",
        "test_addr",
        "test_device",
    ];
    let packed = Path::new("/usr/share/doc/rdma-core/tests");
    let pyverbs = Path::new("/usr/lib/python3/dist-packages/pyverbs");
    if !packed.exists() || !pyverbs.exists() {
        println!("SKIP: rdma-core's tests or python3-pyverbs are not installed");
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rdma-core");
    let _ = fs::remove_dir_all(&folder);
    let unpack = format!(
        "mkdir -p {0} && cp {1}/* {0}/ && gunzip -f {0}/*.gz",
        folder.join("tests").display(),
        packed.display()
    );
    let unpacked = Command::new("sh").args(["-c", &unpack]).status();
    assert!(unpacked.is_ok_and(|status| status.success()));
    for test in TESTS {
        let mut softnic = softnic("", "pyverbs");
        softnic.current_dir(&folder).args(["--", "timeout", "300"]);
        softnic.args(["/usr/bin/python3", "tests/run_tests.py", "--dev", "efa_0"]);
        let output = softnic.arg(format!("tests.{test}")).output();
        let output = output.expect("softnic was built with this test");
        let said = text(&output.stderr);
        assert!(
            output.status.success() && said.contains("OK"),
            "{test}: {said}"
        );
    }
}
