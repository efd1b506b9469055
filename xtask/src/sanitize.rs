//! `cargo xtask asan` and `cargo xtask tsan`: tests under the sanitizers that come with the compiler.
//!
//! Both are unstable by name only; RUSTC_BOOTSTRAP lets these builds use them.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use oxifabric_packaging::cargo::{cargo, target};
use oxifabric_trials::repository;

/// What holds the C interface, the system calls below it, and its tests within one process. The tests of the library as a file
/// build that file, which would need the sanitizer of the program that loads it.
const TESTS: &str = "--package oxifabric-provider --package oxifabric-core --package oxifabric-libfabric \
    --package oxifabric-conformance --lib --test progress --test conformance";

/// The tests of the C interface under AddressSanitizer, which also looks for leaks if `leaks`.
pub(crate) fn address(leaks: bool) -> Command {
    let mut tests = build("address", "asan", TESTS);
    tests.env("ASAN_OPTIONS", format!("detect_leaks={}", u8::from(leaks)));
    tests
}

/// Whether leaks can be looked for: that stops the process with ptrace(2), which containers may forbid.
pub(crate) fn can_find_leaks() -> bool {
    let mut list = address(true);
    list.args(["--", "--list"])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    list.status().is_ok_and(|status| status.success())
}

/// The stress tests with many threads under ThreadSanitizer.
///
/// # Errors
/// What is missing: the standard library must be built for it too.
pub(crate) fn thread() -> Result<Command, String> {
    if !source_is_here() {
        return Err("the source of the standard library: rustup component add rust-src".into());
    }
    let tests = "-Zbuild-std --package oxifabric-libfabric --test progress";
    let mut tests = build("thread", "tsan", tests);
    let suppressions = repository().join("crates/libfabric/tests/progress/tsan.supp");
    let options = format!("halt_on_error=1 suppressions={}", suppressions.display());
    tests.env("TSAN_OPTIONS", options);
    Ok(tests)
}

/// With a target triple, flags do not reach build scripts.
fn build(sanitizer: &str, folder: &str, tests: &str) -> Command {
    let triple = "--target x86_64-unknown-linux-gnu";
    let mut command = cargo(&format!("test --no-fail-fast {triple} {tests}"));
    command
        .arg("--target-dir")
        .arg(target().join(folder))
        .env("RUSTC_BOOTSTRAP", "1")
        .env(
            "RUSTFLAGS",
            format!("-Zsanitizer={sanitizer} --cfg sanitized"),
        );
    command
}

fn source_is_here() -> bool {
    let printed = Command::new("rustc").args(["--print", "sysroot"]).output();
    printed.is_ok_and(|output| {
        let sysroot = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        PathBuf::from(sysroot)
            .join("lib/rustlib/src/rust/library/Cargo.lock")
            .exists()
    })
}
