//! Every program of the guide is compiled, and runs to its end over each provider that it is for.
//!
//! C programs are compiled with the headers of the crate abi, warnings being errors, and linked to the library that
//! `OXI_DIST` names or, without it, that is built for these tests.

#[macro_use]
extern crate oxifabric_trials;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use oxifabric_trials::{Library, Missing, Program, Scratch, installed, repository, require};

fn main() -> std::process::ExitCode {
    oxifabric_trials::harness::main()
}

/// After how long a program is ended by force.
const WATCHDOG: Duration = Duration::from_secs(60);

/// The programs that run over something else than both tcp and shm.
const OVER: [(&str, &[&str]); 2] = [("msg_pingpong", &["tcp"]), ("datagram", &["udp"])];

fn providers(program: &str) -> &'static [&'static str] {
    let special = OVER.iter().find(|(name, _)| *name == program);
    special.map_or(&["tcp", "shm"], |(_, providers)| providers)
}

/// The names of the files in `code` that end so.
fn sources(end: &str) -> Vec<String> {
    let code = Path::new(env!("CARGO_MANIFEST_DIR")).join("code");
    let files = fs::read_dir(code).expect("the guide has code");
    let names = files.map(|file| file.expect("the folder can be read").file_name());
    let mut names: Vec<String> = names
        .filter_map(|name| name.to_str()?.strip_suffix(end).map(str::to_owned))
        .collect();
    names.sort();
    names
}

/// The folder of the library that C programs are linked to.
fn library() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let dist = match env::var_os("OXI_DIST") {
            Some(dist) => PathBuf::from(dist),
            None => build(),
        };
        dist.join("lib")
    })
}

/// Lays the library out where tests of other crates lay it out too.
fn build() -> PathBuf {
    let dist = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dist");
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["run", "--quiet", "--package", "xtask", "--", "dist"])
        .args(["--profile", "dev", "--out"])
        .arg(&dist)
        .current_dir(repository())
        .status()
        .expect("cargo runs, it has started this test");
    assert!(status.success(), "cargo xtask dist: {status}");
    dist
}

fn compile(name: &str, compiler: &Path, scratch: &Scratch) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("code");
    let program = scratch.join(name);
    Program::new(compiler)
        .args([
            "-std=gnu11",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-pthread",
            "-g",
        ])
        .args([Path::new("-I"), &repository().join("crates/abi/include")])
        .args([&source.join(name).with_extension("c")])
        .args([Path::new("-o"), &program, Path::new("-L"), library()])
        .args(["-lfabric"])
        .run()
        .expect_success();
    program
}

#[test]
fn c_programs_compile_and_run() {
    let compiler = require!(installed("cc"));
    let library = Library::at(library().to_path_buf(), "oxifabric");
    let library = library.expect("it was built for this test");
    let scratch = Scratch::new();
    let names = sources(".c");
    assert!(!names.is_empty());
    for name in names {
        let program = compile(&name, &compiler, &scratch);
        for provider in providers(&name) {
            println!("{name}.c over {provider}");
            Program::new(&program)
                .args([provider])
                .library(&library)
                .limit(WATCHDOG)
                .run()
                .expect_success();
        }
    }
}

#[test]
fn the_provider_of_the_guide_is_loaded() {
    let compiler = require!(installed("cc"));
    let library = Library::at(library().to_path_buf(), "oxifabric");
    let library = library.expect("it was built for this test");
    let scratch = Scratch::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("code/providers/guide.c");
    Program::new(&compiler)
        .args([
            "-std=gnu11",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-shared",
            "-fPIC",
        ])
        .args([Path::new("-I"), &repository().join("crates/abi/include")])
        .args([&source])
        .args([Path::new("-o"), &scratch.join("libguide-fi.so")])
        .args([Path::new("-L"), library.folder()])
        .args(["-lfabric"])
        .run()
        .expect_success();
    Program::new(compile("fabric", &compiler, &scratch))
        .args(["guide"])
        .env("FI_PROVIDER_PATH", scratch.path())
        .library(&library)
        .limit(WATCHDOG)
        .run()
        .expect_success()
        .expect_stdout("guide: the only one");
}

/// Where cargo puts an example of this package.
fn example(name: &str) -> Result<PathBuf, Missing> {
    let test = env::current_exe().expect("this test is a file");
    let program = test
        .ancestors()
        .nth(2)
        .map(|folder| folder.join("examples").join(format!("guide_{name}")));
    program
        .filter(|program| program.exists())
        .ok_or_else(|| Missing(format!("the example guide_{name} was not built")))
}

#[test]
fn rust_programs_run() {
    let names = sources(".rs");
    let names = names.iter().filter(|name| *name != "fragments");
    let mut count = 0;
    for name in names {
        let program = require!(example(name));
        for provider in providers(name) {
            println!("{name}.rs over {provider}");
            Program::new(&program)
                .args([provider])
                .limit(WATCHDOG)
                .run()
                .expect_success();
        }
        count += 1;
    }
    assert_ne!(count, 0);
}
