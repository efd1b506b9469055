//! Everything that a change must pass, in one command.

use std::error::Error;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::LazyLock;
use std::thread;
use std::time::Instant;

use oxifabric_packaging::{deb, layout};
use oxifabric_trials::wheel;

use crate::program::{comparison, program};
use crate::tally::{Reader, Tally};
use crate::{machine, sanitize};

/// Integration tests that end within seconds, and find most of what a change breaks.
const FAST: &str = "--test conformance --test engine --test language --test layout --test model --test policy \
    --test processes --test rules --test simulation --test threats";

/// Packages whose tests are steps of their own. The guide's programs want tokio: the crates are tested as their users build them.
const APART: &str = "--exclude oxifabric-trials --exclude oxifabric-guide";

/// Whether a run may pass though tests did not run for want of what a test machine is supposed to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Machine {
    Complete,
    Any,
}

/// Runs the quick steps: an answer to a small change.
pub(crate) fn fast(machine: Machine) -> ExitCode {
    let mut all = format_and_lints();
    let quick = cargo(&format!(
        "test --workspace {APART} --no-fail-fast --lib --bins {FAST}"
    ));
    all += tests("quick tests of the crates", quick);
    conclude(&all, machine)
}

fn format_and_lints() -> Tally {
    let mut all = step("format", &mut cargo("fmt --all --check"));
    let lints = "clippy --quiet --workspace --all-targets -- -D warnings";
    all += step("lints", &mut cargo(lints));
    all
}

/// Runs all steps, whatever fails, and closes with the sum of all.
pub(crate) fn run(machine: Machine) -> ExitCode {
    machine::install_packages();
    // Mostly waits for the network, and is wanted by the trials.
    let mpich = thread::spawn(install_mpich);
    // The linker optimises for minutes on one processor; what comes before the first test has the other one.
    let layout = thread::spawn(laid_out);
    let mut all = format_and_lints();
    all += documentation(
        "developers",
        "-A rustdoc::private_intra_doc_links",
        "--workspace --document-private-items",
    );
    all += documentation("users", "", "--package oxifabric");
    all += step(
        "tests of the crates are built",
        &mut cargo(&format!("test --quiet --workspace {APART} --no-run")),
    );
    let (tally, library) = match layout.join() {
        Ok(laid_out) => laid_out,
        Err(_) => (Tally::failure("layout", &[]), None),
    };
    all += tally;
    for (name, words) in [
        (
            "tests of the crates",
            format!("test --workspace {APART} --no-fail-fast"),
        ),
        (
            "tests of the Rust interface with tokio",
            "test --package oxifabric --features tokio --test api --test examples --examples --no-fail-fast"
                .to_owned(),
        ),
        (
            "what the Rust interface costs, optimised",
            "test --release --package oxifabric --test instructions".to_owned(),
        ),
        (
            "the guide's pages and programs",
            "test --package oxifabric-guide --no-fail-fast".to_owned(),
        ),
    ] {
        let mut command = cargo(&words);
        // Without it, those that load the library would build one.
        command.envs(library.as_ref().map(|folder| ("OXI_DIST", folder)));
        all += tests(name, command);
    }
    all += step("the guide as a book", &mut layout::book(None));
    if !matches!(mpich.join(), Ok(true)) {
        println!("MPICH will be skipped");
    }
    if let Some(folder) = library {
        all += unmodified_programs(folder);
    }
    all += address_sanitizer();
    let mut fuzzing = program("oxifabric-campaign");
    fuzzing.args(["--seconds", "6"]);
    all += counted("fuzzing", fuzzing, false);
    all += kernel_modules();
    conclude(&all, machine)
}

/// Builds the kernel modules and tries them in a guest.
fn kernel_modules() -> Tally {
    match machine::missing_for_guests() {
        None => step(
            "kernel modules in a guest",
            program("oxifabric-kernel-harness").arg("guest"),
        ),
        Some(missing) => skipped(&format!("kernel modules are not tried: no {missing}")),
    }
}

/// Runs the tests of the C interface under AddressSanitizer.
pub(crate) fn asan() -> ExitCode {
    conclude(&address_sanitizer(), Machine::Complete)
}

/// Runs the tests with many threads under ThreadSanitizer.
pub(crate) fn tsan() -> ExitCode {
    let all = match sanitize::thread() {
        Ok(command) => tests("ThreadSanitizer", command),
        Err(missing) => skipped(&missing),
    };
    conclude(&all, Machine::Complete)
}

fn address_sanitizer() -> Tally {
    let leaks = sanitize::can_find_leaks();
    let mut all = tests("AddressSanitizer", sanitize::address(leaks));
    if !leaks {
        all += skipped("leaks are not looked for: this machine forbids ptrace(2)");
    }
    all
}

/// A step that cannot run on this machine.
fn skipped(why: &str) -> Tally {
    println!("SKIP: {why}");
    Tally::skip(why)
}

/// Closes with what failed, what was missing and the sum of all.
fn conclude(all: &Tally, machine: Machine) -> ExitCode {
    for failure in &all.failures {
        println!("== FAILED: {failure}");
    }
    println!("== the slowest\n{}", all.slowest().join("\n"));
    for missing in all.missing() {
        println!("== MISSING: {missing}");
    }
    println!("{all}");
    let is_complete = machine == Machine::Any || all.missing().next().is_none();
    if all.failed == 0 && is_complete {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Installs all MPI libraries that come as wheels and runs their trials, the long ones too, and what is compiled against
/// the layout.
pub(crate) fn clients(dist: Option<PathBuf>) -> Result<ExitCode, Box<dyn Error>> {
    machine::install_packages();
    let dist = match dist {
        Some(dist) => std::path::absolute(dist)?,
        None => layout::dist(None, "release")?,
    };
    for wheel in [&wheel::MPICH, &wheel::INTEL_MPI, &wheel::OPEN_MPI_5] {
        wheel::install_suite(&wheel.install()?)?;
    }
    let trials = "--test mpi --test open_mpi --test clients --test headers";
    let mut trials = cargo(&format!(
        "test --package oxifabric-trials --no-fail-fast {trials}"
    ));
    trials.env("OXI_DIST", dist);
    let all = one_by_one("clients", trials, "");
    Ok(conclude(&all, Machine::Complete))
}

/// Lays the library out, and returns the folder if it could.
fn laid_out() -> (Tally, Option<PathBuf>) {
    let mut folder = None;
    let tally = made("layout", || {
        folder = Some(layout::dist(None, "release")?);
        Ok(())
    });
    (tally, folder)
}

/// Installs MPICH and the tests of mpi4py, and returns whether they are there.
fn install_mpich() -> bool {
    let prepared = wheel::MPICH.install();
    let prepared = prepared.and_then(|place| wheel::install_suite(&place));
    prepared
        .inspect_err(|error| println!("MPICH is not installed: {error}"))
        .is_ok()
}

/// Runs unmodified programs on the library that is laid out.
fn unmodified_programs(laid_out: PathBuf) -> Tally {
    let mut trials = cargo("test --package oxifabric-trials --no-fail-fast");
    trials.env("OXI_DIST", &laid_out);
    let mut all = packages(&mut trials);
    // EFA without hardware.
    all += step("softnic", &mut cargo("build --package oxifabric-softnic"));
    // Other clients are for `cargo xtask clients`.
    all += one_by_one("unmodified programs", trials, "--skip large::");
    let mut short = comparison("bench");
    short.args("--short --rounds 2 --provider shm --dist".split(' '));
    all += step(
        "comparison, a short one that shows that it works",
        short.arg(laid_out),
    );
    all
}

/// Builds the Debian packages, whose trials are among those of unmodified programs.
fn packages(trials: &mut Command) -> Tally {
    if let Err(missing) = deb::is_possible() {
        return skipped(&missing);
    }
    made("Debian packages", || {
        trials.env("OXI_DEBS", deb::deb(deb::Compression::Fast)?);
        Ok(())
    })
}

/// Returns cargo with these words; what this machine's libfabric.conf says is not for tests.
fn cargo(words: &str) -> Command {
    let mut command = oxifabric_packaging::cargo::cargo(words);
    command.env("FI_OXI_CONF", "/dev/null");
    command
}

/// Builds the documentation of packages, in which warnings are errors but for those that `lints` allow.
fn documentation(of: &str, lints: &str, packages: &str) -> Tally {
    let mut doc = cargo(&format!("doc --quiet --no-deps {packages}"));
    doc.env("RUSTDOCFLAGS", format!("-D warnings {lints}"));
    step(&format!("documentation for {of}"), &mut doc)
}

/// A step that this program does by itself.
fn made(name: &str, make: impl FnOnce() -> Result<(), Box<dyn Error>>) -> Tally {
    begin(name);
    match make() {
        Ok(()) => Tally::pass(),
        Err(error) => {
            println!("{error}");
            Tally::failure(name, &[error.to_string()])
        }
    }
}

/// Prints which step begins, and when, so that a log shows where the time went.
fn begin(name: &str) {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    println!("== {name} (after {} s)", START.elapsed().as_secs());
}

/// A command that passes or fails as a whole.
fn step(name: &str, command: &mut Command) -> Tally {
    begin(name);
    let mut lines = Vec::new();
    let ended = relay(command, |line| {
        lines.push(line.to_owned());
        true
    });
    match ended {
        Ok(true) => Tally::pass(),
        Ok(false) => Tally::failure(name, &lines),
        Err(error) => Tally::failure(name, &[format!("{command:?}: {error}")]),
    }
}

/// A run of `cargo test`, whose tests are counted one by one.
fn tests(name: &str, mut command: Command) -> Tally {
    command.args(["--", "--show-output"]);
    counted(name, command, false)
}

/// A run of trials one at a time: their processes spin on every core there is.
fn one_by_one(name: &str, mut command: Command, options: &str) -> Tally {
    command.args(["--", "--show-output", "--test-threads=1"]);
    command.args(options.split_ascii_whitespace());
    counted(name, command, true)
}

fn counted(name: &str, mut command: Command, one_at_a_time: bool) -> Tally {
    begin(name);
    let mut reader = Reader::new(one_at_a_time, Instant::now());
    match relay(&mut command, |line| reader.read(line, Instant::now())) {
        Ok(success) => reader.end(name, success),
        Err(error) => Tally::failure(name, &[format!("{command:?}: {error}")]),
    }
}

/// Runs a command, shows those lines of both of its streams that `read` wants shown, and returns whether it succeeded.
fn relay(command: &mut Command, mut read: impl FnMut(&str) -> bool) -> io::Result<bool> {
    let (reader, writer) = io::pipe()?;
    let mut child = command.stdout(writer.try_clone()?).stderr(writer).spawn()?;
    // The command holds the writing ends as long as it lives: without them the reader sees the end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    for line in BufReader::new(reader).lines().map_while(Result::ok) {
        if read(&line) {
            println!("{line}");
        }
    }
    Ok(child.wait()?.success())
}
