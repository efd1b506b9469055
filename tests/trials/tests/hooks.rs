//! FI_HOOK under Debian's `fi_pingpong`: what the hooks count is what the program is known to call. Source: fi_hook(7).

#[macro_use]
extern crate oxifabric_trials;

use std::fs;
use std::path::{Path, PathBuf};

use oxifabric_trials::pingpong::PingPong;
use oxifabric_trials::source::{compile, compile_client};
use oxifabric_trials::{Library, Missing, Outcome, Program, Scratch, harness, installed, require};

fn main() -> std::process::ExitCode {
    oxifabric_trials::harness::main()
}

const ALL: &str = "perf;trace;profile;monitor;debug;noop";

/// Messages in each direction, and their size: too long to be injected.
const OPTIONS: &str = "-e rdm -I 50 -S 16384";

/// Runs ping-pong with a hook on both sides and returns what the client printed.
fn played(provider: &str, hook: &str, folder: &Path) -> Result<Outcome, Missing> {
    let library = Library::under_test()?;
    let mut pair = PingPong::new(&library, provider, OPTIONS).pair()?;
    let hooked = |program: Program| {
        program
            .env("FI_HOOK", hook)
            .env("FI_LOG_LEVEL", "trace")
            .env("FI_OFI_HOOK_MONITOR_BASEPATH", folder)
            .env("FI_OFI_HOOK_MONITOR_LINGER", "1")
    };
    pair.server = hooked(pair.server);
    pair.client = hooked(pair.client);
    let both = pair.run();
    both.expect_success();
    Ok(both.client.expect("both succeeded"))
}

/// Returns the words of the first log line that has these two words next to each other.
fn words<'a>(outcome: &'a Outcome, first: &str, second: &str) -> Vec<&'a str> {
    let lines = outcome.stderr.lines();
    let lines = lines.map(|line| line.split_whitespace().collect::<Vec<_>>());
    let found = lines.filter_map(|words| {
        let at = words.windows(2).position(|pair| pair == [first, second])?;
        Some(words[at..].to_vec())
    });
    found
        .into_iter()
        .next()
        .unwrap_or_else(|| panic!("no {first} {second}\n{outcome}"))
}

/// The program posts one receive more than it takes, sends each message by fi_send, and ends with a short fi_sendmsg.
fn check_profile(outcome: &Outcome) {
    assert_eq!(words(outcome, "fi_recv", "Any")[2], "51");
    assert_eq!(words(outcome, "fi_send", "4K_64K")[2..4], ["50", "819200"]);
    assert_eq!(words(outcome, "fi_sendmsg", "0_64")[2..4], ["1", "4"]);
    assert_eq!(words(outcome, "cq_ctx", "Any")[2], "102");
}

fn check_trace(outcome: &Outcome) {
    let sends = outcome.stderr.matches("fi_ops_msg.send(").count();
    assert_eq!(sends, 50, "{outcome}");
    for call in [
        "fi_ops_domain.endpoint(",
        "fi_ops_av.insert(",
        "fi_ops.close(",
    ] {
        assert!(outcome.stderr.contains(call), "{call}\n{outcome}");
    }
}

fn check_perf(outcome: &Outcome) {
    assert_eq!(words(outcome, "perf:", "fi_ops_msg.send")[2], "50");
    assert_eq!(words(outcome, "perf:", "fi_ops_msg.recv")[2], "51");
}

/// The samples of both sides, each a count of `fi_send` calls of 4 to 64 KiB and the flags at the end.
fn check_monitor(folder: &Path) {
    let mut files = Vec::new();
    collect(folder, &mut files);
    assert_eq!(files.len(), 2, "{files:?}");
    for file in files {
        let sample = fs::read(&file).expect("the file stays");
        let number = |at: usize| {
            let bytes = sample[at * 8..][..8].try_into().expect("eight bytes");
            u64::from_ne_bytes(bytes)
        };
        // fi_send is the seventh operation; each has nine counts and nine sums.
        let row = 6 * 18;
        assert_eq!(number(row + 4), 50, "{}", file.display());
        assert_eq!(number(row + 9 + 4), 819_200, "{}", file.display());
        assert_eq!(sample[42 * 18 * 8], 2, "the program has ended");
    }
}

/// Our sampler makes a table of each of those files, and removes the files of programs that have ended.
fn check_sampler(folder: &Path) {
    let library = Library::under_test().expect("it was played on");
    let sampler = library.folder().join("../bin/fi_mon_sampler");
    if !sampler.exists() {
        let missing = "the library under test came without fi_mon_sampler";
        return harness::skip(Missing(missing.into()));
    }
    let mut files = Vec::new();
    collect(folder, &mut files);
    let tables = Scratch::new();
    let samples = files[0].parent().expect("it lies in a folder");
    let sampler = Program::new(sampler).args(["-f", "csv", "-o"]);
    let outcome = sampler.args([tables.path(), samples]).run();
    outcome.expect_success();
    for file in files {
        assert!(!file.exists(), "{} is left\n{outcome}", file.display());
        let name = file.file_name().expect("a file").to_string_lossy();
        let table = fs::read_to_string(tables.join(&format!("{name}.csv"))).expect("a table");
        let rows: Vec<Vec<&str>> = table
            .lines()
            .map(|line| line.split(',').collect())
            .collect();
        let number = |column: &str| {
            let at = rows[0].iter().position(|name| *name == column);
            rows[1][at.expect("a column")]
        };
        assert_eq!(number("mon_send_4K_64K_c"), "50", "{table}");
        assert_eq!(number("mon_send_4K_64K_s"), "819200", "{table}");
        assert_eq!(number("mon_sendmsg_0_64_c"), "1", "{table}");
    }
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the folder is there").flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else {
            files.push(path);
        }
    }
}

/// Runs ping-pong over a provider with one hook and with all, and checks what they report.
fn watch(provider: &str) -> Result<(), Missing> {
    for hook in [
        "noop",
        "debug",
        "trace",
        "ofi_hook_perf",
        "profile",
        "monitor",
        ALL,
    ] {
        let folder = Scratch::new();
        let outcome = played(provider, hook, folder.path())?;
        if hook.contains("debug") {
            assert!(
                outcome.stderr.contains(" 0 failed, 0 objects still open"),
                "{outcome}"
            );
        }
        if hook.contains("trace") {
            check_trace(&outcome);
        }
        if hook.contains("perf") {
            check_perf(&outcome);
        }
        if hook.contains("profile") {
            check_profile(&outcome);
        }
        if hook.contains("monitor") {
            check_monitor(folder.path());
            check_sampler(folder.path());
        }
    }
    Ok(())
}

#[test]
fn hooks_count_the_calls_over_shm() {
    require!(watch("shm"));
}

#[test]
fn hooks_count_the_calls_over_tcp() {
    require!(watch("tcp"));
}

#[test]
fn the_monitor_leaves_no_file_behind_unless_it_is_told_to() {
    let library = require!(Library::under_test());
    let folder = Scratch::new();
    let mut pair = require!(PingPong::new(&library, "shm", OPTIONS).pair());
    let hooked = |program: Program| {
        program
            .env("FI_HOOK", "monitor")
            .env("FI_OFI_HOOK_MONITOR_BASEPATH", folder.path())
    };
    pair.server = hooked(pair.server);
    pair.client = hooked(pair.client);
    pair.run().expect_success();
    let mut files = Vec::new();
    collect(folder.path(), &mut files);
    assert!(files.is_empty(), "{files:?}");
}

#[test]
fn hooks_watch_external_providers() {
    let compiler = require!(installed("cc"));
    let client = require!(compile_client("mirror"));
    let library = require!(Library::under_test());
    let provider = compile("provider", &compiler, &["-shared", "-fPIC", "-lfabric"]);
    let folder = Scratch::new();
    std::os::unix::fs::symlink(provider.file(), folder.join("libmirror-fi.so"))
        .expect("a new folder takes a link");
    let outcome = Program::new(client.file())
        .library(&library)
        .env("FI_PROVIDER_PATH", folder.path())
        .env("FI_HOOK", "trace;debug")
        .env("FI_LOG_LEVEL", "trace")
        .run();
    outcome.expect_success().expect_stdout("event 7 hello\n");
    for said in [
        "fi_ops_eq.write(",
        ", event 7, ",
        "0 failed, 0 objects still open",
    ] {
        assert!(outcome.stderr.contains(said), "{said:?}\n{outcome}");
    }
}
