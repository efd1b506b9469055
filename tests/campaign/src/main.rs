//! `cargo xtask fuzz`: libFuzzer on the targets of the crate `fuzz`, with the toolchain that there is.
//!
//! What libFuzzer needs of the compiler is one pass of LLVM, which stable compilers have too. AddressSanitizer, which sees
//! what unsafe code does wrong, is unstable by name only: RUSTC_BOOTSTRAP lets this one build use it.
#![forbid(unsafe_code)]

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};
use std::sync::Arc;

use clap::Parser;
use libtest_mimic::{Arguments, Failed, Trial};

/// Let libFuzzer look for input that breaks a decoder.
#[derive(Parser, Debug)]
#[command(bin_name = "cargo xtask fuzz")]
struct Options {
    /// Targets; all, if none is named
    targets: Vec<String>,
    /// How long each target is tried
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// Try this one input only, in hexadecimal; needs one target
    #[arg(long)]
    input: Option<String>,
}

/// Targets that are tried at the same time: the machines of CI have two cores.
const AT_ONCE: usize = 2;

/// What is built for: with a triple, flags do not reach build scripts, which would be instrumented too.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";

/// What the passes need to be told, as libFuzzer's own compiler would.
const COVERAGE: &str = "-Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Ccodegen-units=1 --cfg fuzzing --cfg sanitized -Zsanitizer=address";

fn main() -> ExitCode {
    match trials(Options::parse()) {
        Ok(trials) => {
            let arguments = Arguments {
                test_threads: Some(AT_ONCE),
                ..Arguments::default()
            };
            libtest_mimic::run(&arguments, trials).exit_code()
        }
        Err(error) => {
            eprintln!("fuzz: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Builds the targets and returns a trial for each that was asked for.
fn trials(options: Options) -> Result<Vec<Trial>, Box<dyn Error>> {
    let program = Arc::new(build()?);
    let corpus = folder().join("corpus");
    let mut write_seeds = Command::new(&*program);
    write_seeds.env("OXI_FUZZ_SEEDS", &corpus);
    let written = write_seeds.output()?;
    if !written.status.success() {
        return Err(String::from_utf8_lossy(&written.stderr).into_owned().into());
    }
    let targets = selected(&corpus, &options.targets)?;
    let input = match &options.input {
        Some(_) if targets.len() != 1 => return Err("an input needs one target".into()),
        Some(hex) => {
            let file = folder().join("input");
            fs::write(&file, bytes_of(hex)?)?;
            Some(file)
        }
        None => None,
    };
    let trial = |target: String| {
        let (program, seeds, input) = (Arc::clone(&program), corpus.join(&target), input.clone());
        Trial::test(target.clone(), move || {
            let mut command = command(&program, &target);
            match input {
                Some(file) => command.arg(file),
                None => search(&mut command, &target, options.seconds).arg(seeds),
            };
            judge(&target, &command.output()?)
        })
    };
    Ok(targets.into_iter().map(trial).collect())
}

fn build() -> Result<PathBuf, Box<dyn Error>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
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

/// Returns where builds and corpora are kept, so that what was learnt helps the next run.
fn folder() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR");
    repository()
        .join(target.unwrap_or("target".into()))
        .join("fuzz")
}

/// Returns the folder of the repository that contains this crate.
fn repository() -> &'static Path {
    let mut folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    folders.nth(2).unwrap_or(Path::new("."))
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

/// Makes the command look for inputs for so long.
fn search<'a>(command: &'a mut Command, target: &str, seconds: u32) -> &'a mut Command {
    let findings = folder().join("findings/");
    // libFuzzer says if it cannot write there.
    _ = fs::create_dir_all(&findings);
    command
        .arg(format!("-max_total_time={seconds}"))
        .arg("-max_len=1024")
        .arg("-print_final_stats=1")
        .arg(format!("-artifact_prefix={}/{target}-", findings.display()))
}

/// Reads libFuzzer's report, and prints how much was tried.
fn judge(target: &str, output: &Output) -> Result<(), Failed> {
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(failure(target, &text).join("\n").into());
    }
    println!("{target}: {}", summary(&text));
    Ok(())
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
