//! The mistakes that the types rule out, one a file in `refused`, each with what the compiler says about it.
//!
//! What it says differs from release to release, so it is compared under one only: the oldest that the crate builds with. Where it
//! shows lines of the standard library, it needs their source.
//! `TRYBUILD=overwrite cargo test -p oxifabric --test refused` under that release writes it anew.

use std::path::Path;
use std::process::Command;

/// What the compiler prints when it is asked something; empty if there is none.
fn compiler(question: &[&str]) -> String {
    let answer = Command::new("rustc").args(question).output();
    answer.map_or_else(
        |_| String::new(),
        |answer| String::from_utf8_lossy(&answer.stdout).trim().to_owned(),
    )
}

#[test]
fn mistakes_do_not_compile() {
    let wanted = concat!("rustc ", env!("CARGO_PKG_RUST_VERSION"), ".");
    let version = compiler(&["--version"]);
    if !version.starts_with(wanted) {
        eprintln!("SKIP: messages are compared under {wanted}x, and this is {version:?}");
        return;
    }
    let sysroot = compiler(&["--print", "sysroot"]);
    if !Path::new(&sysroot).join("lib/rustlib/src/rust").exists() {
        eprintln!(
            "SKIP: messages show lines of the standard library: rustup component add rust-src"
        );
        return;
    }
    trybuild::TestCases::new().compile_fail("tests/refused/*.rs");
}
