//! C programs that are compiled here and linked to the library.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use crate::library;

/// Calls `fi_log` and `fi_param_define`.
static VARIADIC: Source = Source::new("variadic");
/// Calls `fi_getinfo` from its own log.
static CONFIDES: Source = Source::new("confides");
/// Calls `fi_getinfo`, `fi_dupinfo` and `fi_freeinfo`.
static LISTS: Source = Source::new("lists");

/// A program of `programs/`, which declares for itself what it calls.
struct Source {
    name: &'static str,
    program: OnceLock<PathBuf>,
}

impl Source {
    const fn new(name: &'static str) -> Self {
        let program = OnceLock::new();
        Self { name, program }
    }

    /// Compiles the program once and returns its path.
    fn compiled(&self) -> &Path {
        self.program.get_or_init(|| {
            let source = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("tests/abi/programs")
                .join(self.name)
                .with_extension("c");
            let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(self.name);
            let status = Command::new("cc")
                .args(["-Wall", "-Werror", "-g", "-o"])
                .args([&program, &source])
                .arg("-L")
                .arg(library::folder())
                .arg("-lfabric")
                .status()
                .expect("a C compiler is installed");
            assert!(status.success(), "{}", source.display());
            program
        })
    }
}

/// Makes the command that runs a program on the library, with nothing of this process's FI_ variables.
pub(crate) fn on_library(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("FI_") {
            command.env_remove(name);
        }
    }
    command.env("LD_LIBRARY_PATH", library::folder());
    // What this machine's libfabric.conf says is not for tests.
    command.env("FI_OXI_CONF", "/dev/null");
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
pub(crate) fn expect_success(output: &Output) {
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{}\n{out}\n{err}", output.status);
}

#[test]
fn log_and_parameters_take_any_number_of_arguments() {
    let program = VARIADIC.compiled();
    let output = on_library(program)
        .env("FI_PROBE_DEPTH", "0x10")
        .env("FI_PROBE_NAME", "deep")
        .env("FI_PROBE_FAST", "on")
        .output()
        .expect("the program runs");
    expect_success(&output);
    let log = text(&output.stderr);
    let line = log
        .lines()
        .find(|line| line.contains(":probe:cq:poll():42<warn> "));
    let line = line.unwrap_or_else(|| panic!("{log}"));
    assert!(
        line.ends_with("1 two 3.5 4 5 six 7.25 8.5 9.5 10.5 11.5 12.5 13.5 14.5 15"),
        "{line}"
    );
    let help = text(&output.stdout);
    assert!(
        help.contains("FI_PROBE_DEPTH: probe: depth of 2 to 3.5 m in one two three\n"),
        "{help}"
    );
    assert!(help.contains("read: 16 deep 1\n"), "{help}");
}

#[test]
fn parameters_are_read_from_the_file_unless_the_environment_sets_them() {
    let program = VARIADIC.compiled();
    let file = program.with_extension("conf");
    let lines = "# what this test says\nFI_PROBE_DEPTH=16\nFI_PROBE_NAME=deep\nFI_PROBE_FAST=yes\n";
    std::fs::write(&file, lines).expect("the folder of the program is ours");
    let read = |variable: &str, value: &str, preferred: &str| {
        let output = on_library(program)
            .env("FI_OXI_CONF", &file)
            .env("FI_PREFER_SYSCONFIG", preferred)
            .env(variable, value)
            .output()
            .expect("the program runs");
        text(&output.stdout)
    };
    for (variable, value, preferred, expected) in [
        ("FI_PROBE_UNSET_HERE", "", "no", "read: 16 deep 1\n"),
        ("FI_PROBE_NAME", "other", "no", "read: 16 other 1\n"),
        ("FI_PROBE_NAME", "other", "yes", "read: 16 deep 1\n"),
        ("FI_PROBE_DEPTH", "3", "yes", "read: 16 deep 1\n"),
        ("FI_PROBE_DEPTH", "3", "no", "read: 3 deep 1\n"),
    ] {
        let out = read(variable, value, preferred);
        assert!(out.contains(expected), "{variable}={value}: {out}");
    }
    std::fs::remove_file(&file).expect("it is there");
}

#[test]
fn a_log_may_ask_for_providers_while_the_file_is_reported() {
    let program = CONFIDES.compiled();
    let file = program.with_extension("conf");
    std::fs::write(&file, "FI_PROVIDER=tcp\n").expect("the folder of the program is ours");
    let output = on_library(program).env("FI_OXI_CONF", &file).output();
    std::fs::remove_file(&file).expect("it is there");
    let output = output.expect("the program runs");
    expect_success(&output);
    let log = text(&output.stdout);
    assert!(log.contains("says FI_PROVIDER=tcp"), "{log}");
    assert!(!log.contains("no provider answers"), "{log}");
}

#[test]
fn a_file_that_is_named_and_not_there_is_reported() {
    let output = on_library(LISTS.compiled())
        .env("FI_OXI_CONF", "/nowhere/libfabric.conf")
        .output()
        .expect("the program runs");
    let log = text(&output.stderr);
    assert!(
        log.contains("/nowhere/libfabric.conf cannot be read: No such file"),
        "{log}"
    );
}

#[test]
fn quiet_levels_and_other_providers_are_not_logged() {
    let program = VARIADIC.compiled();
    for (variable, value) in [
        ("FI_LOG_LEVEL", "off"),
        ("FI_LOG_PROV", "tcp"),
        ("FI_LOG_SUBSYS", "^cq"),
    ] {
        let mut command = on_library(program);
        command.env(variable, value).arg("ask-first");
        let output = command.output().expect("the program runs");
        expect_success(&output);
        assert_eq!(text(&output.stderr), "", "{variable}={value}");
    }
}

#[test]
fn words_that_the_log_does_not_take_are_reported_once() {
    for (variable, value, expected) in [
        (
            "FI_LOG_LEVEL",
            "verbose",
            "<warn> FI_LOG_LEVEL: \"verbose\" is none of off, warn, trace, info, debug\n",
        ),
        (
            "FI_LOG_SUBSYS",
            "av,cp",
            "<warn> FI_LOG_SUBSYS: \"cp\" is none of all, core, ",
        ),
    ] {
        let output = on_library(LISTS.compiled())
            .env(variable, value)
            .output()
            .expect("the program runs");
        expect_success(&output);
        let log = text(&output.stderr);
        assert!(log.contains(expected), "{log}");
        let reports = log.lines().filter(|line| line.contains(" is none of "));
        assert_eq!(reports.count(), 1, "{log}");
    }
}

#[test]
fn the_loader_has_nothing_to_complain_about() {
    let output = on_library(LISTS.compiled())
        .output()
        .expect("the program runs");
    expect_success(&output);
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn lists_and_duplicates_leave_no_memory_behind() {
    let valgrind = Command::new("valgrind").arg("--version").output();
    if !valgrind.is_ok_and(|output| output.status.success()) {
        println!("SKIP: valgrind is not installed");
        return;
    }
    let output = on_library("valgrind")
        .args(["--quiet", "--error-exitcode=9", "--leak-check=full"])
        .args([
            "--show-leak-kinds=definite,indirect",
            "--errors-for-leak-kinds=definite",
        ])
        .arg(LISTS.compiled())
        .output()
        .expect("valgrind runs");
    expect_success(&output);
}
