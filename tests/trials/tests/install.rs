//! `cargo install --path crates/tools`, the way of the README to the programs alone.

#[macro_use]
extern crate oxifabric_trials;

use std::env;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::Duration;

use oxifabric_trials::{Missing, Program, Scratch, repository, require};

fn main() -> std::process::ExitCode {
    oxifabric_trials::harness::main()
}

/// Returns cargo itself, where an optimised build of the tools can be expected, so that little is left to compile.
fn cargo() -> Result<PathBuf, Missing> {
    if env::var_os("OXI_DIST").is_none() {
        return Err(Missing(
            "OXI_DIST names no folder: the tools were not built by cargo xtask dist".into(),
        ));
    }
    Ok(env::var_os("CARGO").map_or_else(|| "cargo".into(), PathBuf::from))
}

#[test]
fn cargo_install_gives_programs_with_the_library_built_in() {
    let cargo = require!(cargo());
    let target = env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or_else(|| repository().join("target"), PathBuf::from);
    let root = Scratch::new();
    // One program of all: each is linked for a minute.
    let install = "install --path crates/tools --bin oxi --locked --no-track";
    let install = Program::new(cargo).line(install);
    let install = install.args(["--target-dir".as_ref(), target.as_os_str()]);
    let install = install.args(["--root".as_ref(), root.path().as_os_str()]);
    let outcome = install
        .folder(repository())
        .limit(Duration::from_secs(1200))
        .run();
    outcome.expect_success();

    let program = |name: &str| Program::new(root.join("bin").join(name));
    let version = program("oxi").line("--version").run();
    version.expect_success().expect_stdout("oxi ");
    symlink("oxi", root.join("bin/fi_info")).expect("a link");
    let listed = program("fi_info").line("-l").run();
    listed
        .expect_success()
        .expect_stdout("tcp:\n")
        .expect_stdout("shm:\n");
    // Which libfabric this machine has installed does not matter: an endpoint of ours opens.
    let doctor = program("oxi").line("doctor").run();
    doctor.expect_stdout("provider shm: an endpoint opens");
}
