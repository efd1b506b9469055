//! Programs that are compiled with what `cargo xtask dist` lays out, found through pkg-config as a user's build finds it:
//! C programs, and a Rust program on the raw binding that libfabric's maintainers publish.

#[macro_use]
extern crate oxifabric_trials;

use std::path::{Path, PathBuf};
use std::time::Duration;

use oxifabric_trials::{Library, Missing, Program, Scratch, installed, library, require};

fn main() -> std::process::ExitCode {
    oxifabric_trials::harness::main()
}

/// The C programs of this crate that use libfabric, with what they are compiled to.
const PROGRAMS: [(&str, &[&str]); 6] = [
    ("mirror", &[]),
    ("survivor", &[]),
    ("refused", &[]),
    ("volley", &[]),
    ("collective", &[]),
    (
        "provider",
        &["-shared", "-fPIC", "-DNAME=\"test\"", "-DVERSION=1"],
    ),
];

/// Returns the folder in which pkg-config finds the library under test.
fn description() -> Result<PathBuf, Missing> {
    Ok(Library::under_test()?.folder().join("pkgconfig"))
}

/// Returns what pkg-config answers about the library under test.
fn options(question: &str) -> Result<Vec<String>, Missing> {
    let answer = Program::new(installed("pkg-config")?)
        .env("PKG_CONFIG_PATH", description()?)
        .line(question)
        .args(["libfabric"])
        .run();
    answer.expect_success();
    Ok(answer
        .stdout
        .split_ascii_whitespace()
        .map(str::to_owned)
        .collect())
}

#[test]
fn the_headers_lie_beside_the_library() {
    let directory = require!(options("--variable=includedir"));
    let headers = Path::new(&directory[0]).join("rdma");
    for name in [
        "fabric.h",
        "fi_profile.h",
        "fi_xpu.h",
        "fi_xpu_device.h",
        "fi_ext_efa.h",
        "fi_ext_usnic.h",
        "fi_cxi_ext.h",
        "providers/fi_prov.h",
        "providers/fi_peer.h",
    ] {
        assert!(
            headers.join(name).is_file(),
            "no {name} in {}",
            headers.display()
        );
    }
}

#[test]
fn c_programs_compile_as_their_builds_ask() {
    let compiler = require!(installed("cc"));
    let options = require!(options("--cflags --libs"));
    let scratch = Scratch::new();
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs");
    for (name, kind) in PROGRAMS {
        Program::new(&compiler)
            .args(["-std=gnu11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"])
            .args(kind)
            .args([
                programs.join(name).with_extension("c"),
                "-o".into(),
                scratch.join(name),
            ])
            .args(&options)
            .run()
            .expect_success();
    }
}

/// Builds `programs/rust-client` against the library under test.
///
/// # Errors
/// There is no libclang, which the binding reads the headers with, no pkg-config, or no way to the binding itself.
fn rust_client() -> Result<PathBuf, Missing> {
    installed("pkg-config")?;
    installed("cc")?;
    if !has_libclang() {
        return Err(Missing("libclang-14-dev is not installed".into()));
    }
    let description = description()?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/rust-client");
    let target = library::prepared().join("rust-client");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let cargo = |line: &str| {
        Program::new(&cargo)
            .line(line)
            .folder(&source)
            .env("CARGO_TARGET_DIR", &target)
            .env("PKG_CONFIG_PATH", &description)
            .limit(Duration::from_secs(900))
            .run()
    };
    let fetched = cargo("fetch --locked");
    if !fetched.is_success() {
        return Err(Missing("ofi-libfabric-sys cannot be fetched".into()));
    }
    // Cargo does not know that the binding has read these headers.
    let _ = cargo("clean --offline --package ofi-libfabric-sys");
    cargo("build --locked --offline").expect_success();
    Ok(target.join("debug/rust-client"))
}

/// Returns whether libclang is where its users look.
fn has_libclang() -> bool {
    if std::env::var_os("LIBCLANG_PATH").is_some() {
        return true;
    }
    let versions = std::fs::read_dir("/usr/lib")
        .into_iter()
        .flatten()
        .flatten();
    let mut libraries = versions.map(|entry| entry.path().join("lib/libclang.so"));
    libraries.any(|library| library.exists())
}

#[test]
fn a_rust_program_on_the_raw_binding_plays_over_every_provider() {
    let program = require!(rust_client());
    let library = require!(Library::under_test());
    for provider in ["tcp", "shm"] {
        Program::new(&program)
            .args([provider])
            .library(&library)
            .run()
            .expect_success()
            .expect_stdout("240 messages and all remote accesses are right");
    }
}
