//! `cargo xtask fuzz`: libFuzzer on the targets of the crate `fuzz`, with the toolchain that there is.
//!
//! What libFuzzer needs of the compiler is one pass of LLVM, which stable compilers have too. AddressSanitizer, which sees
//! what unsafe code does wrong, is unstable by name only: RUSTC_BOOTSTRAP lets this one build use it.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};
use std::sync::Mutex;
use std::thread;

use clap::Args;
use oxifabric_trials::repository;

use crate::sanitize::TRIPLE;

/// What is to be tried.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Targets; all, if none is named
    targets: Vec<String>,
    /// How long each target is tried
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// Try this one input only, in hexadecimal; needs one target
    #[arg(long)]
    input: Option<String>,
}

impl Options {
    /// All targets, as long as every change has to stand it.
    pub(crate) fn of_suite() -> Self {
        Self {
            targets: Vec::new(),
            seconds: 60,
            input: None,
        }
    }
}

/// What one target's run came to.
pub(crate) struct Run {
    pub(crate) target: String,
    /// `Err` with what there is to be known of the failure.
    pub(crate) result: Result<String, Vec<String>>,
}

/// Targets that are tried at the same time: the machines of CI have two cores.
const AT_ONCE: usize = 2;

/// What the passes need to be told, as libFuzzer's own compiler would.
const COVERAGE: &str = "-Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Ccodegen-units=1 --cfg fuzzing -Zsanitizer=address";

/// Runs what was asked for and prints what came of it.
///
/// # Errors
/// The targets cannot be built, or there is none of that name.
pub(crate) fn run(options: &Options) -> Result<ExitCode, Box<dyn Error>> {
    let runs = try_all(options)?;
    let mut code = ExitCode::SUCCESS;
    for run in runs {
        if let Err(lines) = run.result {
            println!("== FAILED: {}\n{}", run.target, lines.join("\n"));
            code = ExitCode::FAILURE;
        }
    }
    Ok(code)
}

/// Builds the targets and tries them, some at a time.
///
/// # Errors
/// As [`run`].
pub(crate) fn try_all(options: &Options) -> Result<Vec<Run>, Box<dyn Error>> {
    let program = build()?;
    let corpus = folder().join("corpus");
    let mut write_seeds = Command::new(&program);
    write_seeds.env("OXI_FUZZ_SEEDS", &corpus);
    let written = write_seeds.output()?;
    if !written.status.success() {
        return Err(String::from_utf8_lossy(&written.stderr).into_owned().into());
    }
    let targets = selected(&corpus, &options.targets)?;
    if let Some(hex) = &options.input {
        let [target] = targets.as_slice() else {
            return Err("an input needs one target".into());
        };
        let file = folder().join("input");
        fs::write(&file, bytes_of(hex)?)?;
        let output = command(&program, target).arg(&file).output()?;
        return Ok(vec![judge(target, &output)]);
    }
    let queue = Mutex::new(targets.into_iter());
    let runs = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(target) = next(&queue) {
                    let run = try_one(&program, &corpus, &target, options.seconds);
                    if let Ok(mut runs) = runs.lock() {
                        runs.push(run);
                    }
                }
            });
        }
    });
    let mut runs = runs.into_inner().unwrap_or_default();
    runs.sort_by(|a, b| a.target.cmp(&b.target));
    Ok(runs)
}

fn next(queue: &Mutex<impl Iterator<Item = String>>) -> Option<String> {
    queue.lock().ok()?.next()
}

fn build() -> Result<PathBuf, Box<dyn Error>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    // With a target triple the flags do not reach build scripts, which would be instrumented too.
    build
        .args(["build", "--quiet", "--package", "oxifabric-fuzz"])
        .args(["--features", "libfuzzer", "--target", TRIPLE])
        .arg("--target-dir")
        .arg(folder())
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", COVERAGE)
        .current_dir(repository());
    let status = build.status()?;
    if !status.success() {
        return Err(format!("the fuzz targets do not build: {status}").into());
    }
    Ok(folder().join(TRIPLE).join("debug/oxifabric-fuzz"))
}

/// Where builds and corpora are kept, so that what was learnt helps the next run.
fn folder() -> PathBuf {
    crate::sanitize::target_folder().join("fuzz")
}

/// Returns the targets that were asked for, among those that have seeds.
fn selected(corpus: &Path, asked: &[String]) -> Result<Vec<String>, Box<dyn Error>> {
    let mut known: Vec<String> = fs::read_dir(corpus)?
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    known.sort();
    if let Some(unknown) = asked.iter().find(|name| !known.contains(name)) {
        return Err(format!("no target {unknown}; there are {}", known.join(" ")).into());
    }
    known.retain(|name| asked.is_empty() || asked.contains(name));
    Ok(known)
}

fn command(program: &Path, target: &str) -> Command {
    let mut command = Command::new(program);
    command
        .env("OXI_FUZZ_TARGET", target)
        // What the library logs about bad input is not what is looked for here.
        .env_remove("FI_LOG_LEVEL")
        .stdin(Stdio::null())
        // A length from an untrusted peer may exceed memory; the allocator reports that by a null pointer.
        // Leaks are looked for in the tests of the C interface; here, what is kept for good would stop the run.
        .env("ASAN_OPTIONS", "allocator_may_return_null=1")
        .arg("-detect_leaks=0")
        .arg("-timeout=20")
        .arg("-rss_limit_mb=4096");
    command
}

fn try_one(program: &Path, corpus: &Path, target: &str, seconds: u32) -> Run {
    let findings = folder().join("findings/");
    let _ = fs::create_dir_all(&findings);
    let mut command = command(program, target);
    command
        .arg(format!("-max_total_time={seconds}"))
        .arg("-max_len=1024")
        .arg("-print_final_stats=1")
        .arg(format!("-artifact_prefix={}/{target}-", findings.display()))
        .arg(corpus.join(target));
    let run = match command.output() {
        Ok(output) => judge(target, &output),
        Err(error) => Run {
            target: target.to_owned(),
            result: Err(vec![error.to_string()]),
        },
    };
    match &run.result {
        Ok(summary) => println!("{target}: {summary}"),
        Err(_) => println!("{target}: FAILED"),
    }
    run
}

/// Reads libFuzzer's report.
fn judge(target: &str, output: &Output) -> Run {
    let text = String::from_utf8_lossy(&output.stderr);
    let result = if output.status.success() {
        Ok(summary(&text))
    } else {
        Err(failure(target, &text))
    };
    Run {
        target: target.to_owned(),
        result,
    }
}

/// How often the target ran, and how much of it.
fn summary(text: &str) -> String {
    let number = |name: &str| {
        let line = text.lines().rfind(|line| line.contains(name));
        let rest = line.and_then(|line| line.split(name).nth(1));
        let word = rest.and_then(|rest| rest.split_ascii_whitespace().next());
        word.unwrap_or("?").to_owned()
    };
    let (runs, edges) = (number("number_of_executed_units:"), number(" cov:"));
    format!("{runs} inputs, {edges} edges")
}

/// What failed, with the input and how to run it again.
fn failure(target: &str, text: &str) -> Vec<String> {
    const REPORT: usize = 50;
    let cause = text
        .lines()
        .position(|line| line.contains("panicked at") || line.contains("ERROR: "));
    let mut lines: Vec<String> = text
        .lines()
        .skip(cause.unwrap_or(0))
        .take(REPORT)
        .map(str::to_owned)
        .collect();
    let file = text
        .lines()
        .find_map(|line| line.split("Test unit written to ").nth(1));
    if let Some(bytes) = file.and_then(|file| fs::read(file.trim()).ok()) {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        lines.push(format!(
            "again: cargo xtask fuzz {target} --input {hex}\n\
             kept as a file in tests/fuzz/findings/{target}/, cargo test -p oxifabric-fuzz runs it for good"
        ));
    }
    lines
}

fn bytes_of(hex: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    if !hex.len().is_multiple_of(2) || !hex.is_ascii() {
        return Err("an input has two hexadecimal digits a byte".into());
    }
    let digits = |at| u8::from_str_radix(&hex[at..at + 2], 16);
    let bytes: Result<Vec<u8>, _> = (0..hex.len()).step_by(2).map(digits).collect();
    Ok(bytes?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_reads_what_libfuzzer_prints() {
        let text = "#2\tINITED cov: 10 ft: 11\n#99\tDONE   cov: 57 ft: 60 corp: 3/4b\n\
            stat::number_of_executed_units: 99\nstat::average_exec_per_sec:     9\n";
        assert_eq!(summary(text), "99 inputs, 57 edges");
        assert_eq!(summary(""), "? inputs, ? edges");
    }

    #[test]
    fn inputs_are_pairs_of_digits() {
        assert_eq!(bytes_of("00ffa5").ok(), Some(vec![0, 255, 0xa5]));
        assert!(bytes_of("0").is_err() && bytes_of("xx").is_err());
    }

    #[test]
    fn a_failure_begins_with_its_cause() {
        let lines = failure("a", "INFO: seed\nthread panicked at b.rs\nwhy\n");
        assert_eq!(lines, ["thread panicked at b.rs", "why"]);
    }
}
