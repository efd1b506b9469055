//! The mistakes that the types rule out, one a file in `refused`, each with the compiler's message.
//!
//! The message differs from release to release, so it is compared under one only: the oldest that the crate builds with. Where it
//! shows lines of the standard library, it needs their source.
//! `TRYBUILD=overwrite cargo test -p oxifabric --test refused` under that release writes it anew.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the compiler's answer to a question; empty if there is none.
fn compiler(question: &[&str]) -> String {
    let answer = Command::new("rustc").args(question).output();
    answer.map_or_else(
        |_| String::new(),
        |answer| String::from_utf8_lossy(&answer.stdout).trim().to_owned(),
    )
}

/// Returns whether the messages can be compared under this compiler, and if not, why.
fn compared() -> Result<(), String> {
    let wanted = concat!("rustc ", env!("CARGO_PKG_RUST_VERSION"), ".");
    let version = compiler(&["--version"]);
    match version.starts_with(wanted) {
        true => Ok(()),
        false => Err(format!(
            "messages are compared under {wanted}x, and this is {version:?}"
        )),
    }
}

/// Returns the files of mistakes whose messages show lines of the standard library, or of all others.
fn mistakes(of_the_library: bool) -> Vec<PathBuf> {
    let entries = fs::read_dir("tests/refused").expect("the folder is there");
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("it can be read").path())
        .filter(|file| file.extension() == Some("rs".as_ref()))
        .filter(|file| {
            let messages = fs::read_to_string(file.with_extension("stderr"));
            messages.is_ok_and(|text| text.contains("$RUST")) == of_the_library
        })
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no mistakes to be made");
    files
}

fn refuse(files: &[PathBuf]) {
    let cases = trybuild::TestCases::new();
    for file in files {
        cases.compile_fail(file);
    }
}

#[test]
fn mistakes_do_not_compile() {
    match compared() {
        Ok(()) => refuse(&mistakes(false)),
        Err(why) => eprintln!("SKIP: {why}"),
    }
}

#[test]
fn mistakes_do_not_compile_that_the_standard_library_rules_out() {
    let source = Path::new(&compiler(&["--print", "sysroot"])).join("lib/rustlib/src/rust");
    match compared() {
        Ok(()) if source.exists() => refuse(&mistakes(true)),
        Ok(()) => eprintln!(
            "SKIP: messages show lines of the standard library: rustup component add rust-src"
        ),
        Err(why) => eprintln!("SKIP: {why}"),
    }
}
