//! Everything that a change must pass, in one command.

use std::error::Error;
use std::io::{self, BufRead, BufReader, PipeReader};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use oxifabric_trials::{repository, wheel};

use crate::slowest::{self, Stopwatch};
use crate::tally::Tally;
use crate::{deb, dist, fuzz, guide, machine, sanitize};

/// Integration tests that end within seconds, and find most of what a change breaks.
const FAST: [&str; 10] = [
    "conformance",
    "engine",
    "language",
    "layout",
    "model",
    "policy",
    "processes",
    "rules",
    "simulation",
    "threats",
];

/// Whether a run may pass though tests did not run for want of what a test machine is supposed to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Machine {
    Complete,
    Any,
}

/// Runs the quick steps: an answer to a small change.
pub(crate) fn fast(machine: Machine) -> ExitCode {
    let mut all = format_and_lints();
    let mut quick = cargo(&[
        "test",
        "--workspace",
        "--exclude",
        "oxifabric-trials",
        "--exclude",
        "oxifabric-guide",
        "--no-fail-fast",
        "--lib",
        "--bins",
    ]);
    quick.args(FAST.iter().flat_map(|test| ["--test", test]));
    all += tests("quick tests of the crates", quick, &[]);
    conclude(&all, machine)
}

fn format_and_lints() -> Tally {
    let mut all = command("format", &mut cargo(&["fmt", "--all", "--check"]));
    let clippy = [
        "clippy",
        "--quiet",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ];
    all += command("lints", &mut cargo(&clippy));
    all
}

/// Runs all steps, whatever fails, and closes with the sum of all.
pub(crate) fn run(machine: Machine) -> ExitCode {
    machine::install_packages();
    let mut all = format_and_lints();
    all += command(
        "documentation for developers",
        &mut documentation(
            "-D warnings -A rustdoc::private_intra_doc_links",
            &["--workspace", "--document-private-items"],
        ),
    );
    all += command(
        "documentation for users",
        &mut documentation("-D warnings", &["--package", "oxifabric"]),
    );
    // Without the guide, whose programs want tokio: the crates are tested as their users build them.
    all += tests(
        "tests of the crates",
        cargo(&[
            "test",
            "--workspace",
            "--exclude",
            "oxifabric-trials",
            "--exclude",
            "oxifabric-guide",
            "--no-fail-fast",
        ]),
        &[],
    );
    all += tests(
        "tests of the Rust interface with tokio",
        cargo(&[
            "test",
            "--package",
            "oxifabric",
            "--features",
            "tokio",
            "--test",
            "api",
            "--test",
            "examples",
            "--examples",
            "--no-fail-fast",
        ]),
        &[],
    );
    all += tests(
        "what the Rust interface costs, optimised",
        cargo(&[
            "test",
            "--release",
            "--package",
            "oxifabric",
            "--test",
            "instructions",
        ]),
        &[],
    );
    all += tests(
        "the guide's pages and programs",
        cargo(&["test", "--package", "oxifabric-guide", "--no-fail-fast"]),
        &[],
    );
    all += command("the guide as a book", &mut guide::command(None));
    all += unmodified_programs();
    all += address_sanitizer();
    all += fuzzing();
    conclude(&all, machine)
}

/// Runs the tests of the C interface under AddressSanitizer.
pub(crate) fn asan() -> ExitCode {
    conclude(&address_sanitizer(), Machine::Complete)
}

/// Runs the tests with many threads under ThreadSanitizer.
pub(crate) fn tsan() -> ExitCode {
    match sanitize::thread() {
        Ok(command) => conclude(&tests("ThreadSanitizer", command, &[]), Machine::Complete),
        Err(missing) => conclude(&skipped(&missing), Machine::Complete),
    }
}

fn address_sanitizer() -> Tally {
    let leaks = sanitize::can_find_leaks();
    let mut all = tests("AddressSanitizer", sanitize::address(leaks), &[]);
    if !leaks {
        all += skipped("leaks are not looked for: this machine forbids ptrace(2)");
    }
    all
}

/// Tries every decoder for a while.
fn fuzzing() -> Tally {
    heading("fuzzing");
    let runs = match fuzz::try_all(&fuzz::Options::of_suite()) {
        Ok(runs) => runs,
        Err(error) => {
            println!("{error}");
            return Tally::failure("fuzzing", &[error.to_string()]);
        }
    };
    let mut all = Tally::default();
    for run in runs {
        all += match run.result {
            Ok(_) => Tally::pass(),
            Err(lines) => Tally::failure(&format!("fuzzing {}", run.target), &lines),
        };
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
    for failure in all.failures() {
        println!("== FAILED: {failure}");
    }
    println!("== the slowest");
    for line in slowest::slowest(all.timed().to_vec()) {
        println!("{line}");
    }
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
        None => dist::dist(None, "release")?,
    };
    for wheel in [&wheel::MPICH, &wheel::INTEL_MPI, &wheel::OPEN_MPI_5] {
        machine::suite(&machine::environment(wheel)?)?;
    }
    let mut trials = cargo(&["test", "--package", "oxifabric-trials", "--no-fail-fast"]);
    trials.args([
        "--test", "mpi", "--test", "open_mpi", "--test", "clients", "--test", "headers",
    ]);
    trials.env("OXI_DIST", dist);
    let all = tests("clients", trials, &["--test-threads=1"]);
    Ok(conclude(&all, Machine::Complete))
}

/// Lays the library out and runs unmodified programs on it.
fn unmodified_programs() -> Tally {
    heading("layout");
    let laid_out = match dist::dist(None, "release") {
        Ok(folder) => folder,
        Err(error) => {
            println!("{error}");
            return Tally::failure("layout", &[error.to_string()]);
        }
    };
    let mut all = Tally::pass();
    let mut trials = cargo(&["test", "--package", "oxifabric-trials", "--no-fail-fast"]);
    trials.env("OXI_DIST", &laid_out);
    all += packages(&mut trials);
    let prepared = machine::environment(&wheel::MPICH).and_then(|place| machine::suite(&place));
    if let Err(error) = prepared {
        println!("MPICH will be skipped: {error}");
    }
    // Their processes spin on every core there is: one trial at a time. Other clients are for `cargo xtask clients`.
    all += tests(
        "unmodified programs",
        trials,
        &["--test-threads=1", "--skip", "large::"],
    );
    let mut comparison = crate::comparison("bench");
    comparison.args("--short --rounds 2 --provider shm --provider tcp --dist".split(' '));
    all += command(
        "comparison, a short one that shows that it works",
        comparison.arg(laid_out),
    );
    all
}

/// Builds the Debian packages, whose trials are among those of unmodified programs.
fn packages(trials: &mut Command) -> Tally {
    heading("Debian packages");
    if let Err(missing) = deb::is_possible() {
        return skipped(&missing);
    }
    match deb::deb() {
        Ok(folder) => {
            trials.env("OXI_DEBS", folder);
            Tally::pass()
        }
        Err(error) => {
            println!("{error}");
            Tally::failure("Debian packages", &[error.to_string()])
        }
    }
}

fn cargo(args: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(args).current_dir(repository());
    // What this machine's libfabric.conf says is not for tests.
    command.env("FI_OXI_CONF", "/dev/null");
    command
}

/// `cargo doc` on the given packages.
fn documentation(lints: &str, packages: &[&str]) -> Command {
    let mut doc = cargo(&["doc", "--quiet", "--no-deps"]);
    doc.args(packages).env("RUSTDOCFLAGS", lints);
    doc
}

fn heading(text: &str) {
    println!("== {text}");
}

/// A step that passes or fails as a whole.
fn command(name: &str, command: &mut Command) -> Tally {
    heading(name);
    match output_of(command) {
        Ok((true, _)) => Tally::pass(),
        Ok((false, lines)) => Tally::failure(name, &lines),
        Err(error) => Tally::failure(name, &[format!("{command:?}: {error}")]),
    }
}

/// Runs a command, shows what it prints on both streams as it comes, and returns that with its success.
fn output_of(command: &mut Command) -> io::Result<(bool, Vec<String>)> {
    read_from(command, |output| {
        let lines = output.lines().map_while(Result::ok);
        lines.inspect(|line| println!("{line}")).collect()
    })
}

/// Runs a command, and returns its success with what `read` makes of both of its streams.
fn read_from<T>(
    command: &mut Command,
    read: impl FnOnce(BufReader<PipeReader>) -> T,
) -> io::Result<(bool, T)> {
    let (reader, writer) = io::pipe()?;
    let mut child = command.stdout(writer.try_clone()?).stderr(writer).spawn()?;
    // The command holds the writing ends as long as it lives: without them the reader sees the end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let result = read(BufReader::new(reader));
    Ok((child.wait()?.success(), result))
}

/// A run of `cargo test`, whose tests are counted one by one.
fn tests(name: &str, mut command: Command, harness_options: &[&str]) -> Tally {
    heading(name);
    command.args(["--", "--show-output"]).args(harness_options);
    let one_at_a_time = harness_options.contains(&"--test-threads=1");
    let mut watch = Stopwatch::new(one_at_a_time, Instant::now());
    let run = read_from(&mut command, |output| {
        relay(output, |line| watch.read(line, Instant::now()))
    });
    match run {
        Ok((success, lines)) => Tally::of_tests(name, &lines, success).with_times(watch.timed()),
        Err(error) => Tally::failure(name, &[format!("{command:?}: {error}")]),
    }
}

/// Prints what a reader of the log wants to see as it comes, and returns all lines. What passing tests printed
/// is left out, except why one was skipped.
fn relay(output: impl BufRead, mut watch: impl FnMut(&str)) -> Vec<String> {
    let mut lines = Vec::new();
    let mut is_shown = true;
    for line in output.lines().map_while(Result::ok) {
        watch(&line);
        match line.as_str() {
            "successes:" => is_shown = false,
            "failures:" => is_shown = true,
            _ if line.starts_with("test result:") => is_shown = true,
            _ => {}
        }
        if is_shown || line.starts_with("SKIP:") {
            println!("{line}");
        }
        lines.push(line);
    }
    lines
}
