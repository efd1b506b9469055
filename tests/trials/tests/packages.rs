//! The Debian packages that `cargo xtask deb` builds: what lintian says of them, and Debian's programs on them.

#[macro_use]
extern crate oxifabric_trials;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use oxifabric_trials::source::compile;
use oxifabric_trials::{Missing, Program, Scratch, installed, require};

fn main() -> std::process::ExitCode {
    oxifabric_trials::harness::main()
}

/// Returns the folder of the packages, which the variable `OXI_DEBS` names.
fn folder() -> Result<PathBuf, Missing> {
    let folder = env::var_os("OXI_DEBS").map(PathBuf::from);
    folder.ok_or_else(|| {
        Missing("OXI_DEBS names no packages to test (cargo xtask test sets it)".into())
    })
}

/// Returns the packages themselves.
fn packages() -> Result<Vec<PathBuf>, Missing> {
    let entries = fs::read_dir(folder()?).expect("OXI_DEBS is a folder");
    let files = entries.flatten().map(|entry| entry.path());
    let packages: Vec<_> = files
        .filter(|file| file.extension().is_some_and(|extension| extension == "deb"))
        .collect();
    assert!(packages.len() >= 4, "{packages:?}");
    Ok(packages)
}

#[test]
fn lintian_finds_no_error() {
    let packages = require!(packages());
    let lintian = Program::new(require!(installed("lintian")));
    lintian
        .line("--allow-root --fail-on error")
        .args(packages)
        .limit(Duration::from_secs(300))
        .run()
        .expect_success();
}

/// Checks that this machine lets us make a root of our own.
fn may_make_a_root() -> Result<(), Missing> {
    for program in [
        "unshare",
        "apt-get",
        "mpirun.openmpi",
        "fi_info",
        "pkg-config",
    ] {
        installed(program)?;
    }
    if !Path::new("/usr/share/doc/libfabric1").exists() {
        return Err(Missing("Debian's libfabric1 is not installed".into()));
    }
    let scratch = Scratch::new();
    let script = "mount -t tmpfs tmpfs \"$1\" && cd \"$1\" && mkdir u w r && \
                  mount -t overlay overlay -o lowerdir=/,upperdir=u,workdir=w r";
    let mount = Program::new("sh").args(["-c", script, "sh"]);
    let mounted = mount
        .args([scratch.path()])
        .under("unshare", ["--mount"])
        .run();
    mounted
        .is_success()
        .then_some(())
        .ok_or_else(|| Missing("only root may mount an overlay of this system".into()))
}

#[test]
fn debians_programs_run_on_the_packages_and_nothing_is_left_of_them() {
    let folder = require!(folder());
    require!(may_make_a_root());
    let mpicc = require!(installed("mpicc.openmpi"));
    let hello = compile("hello", &mpicc, &[]);
    let place = Scratch::new();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/packages.sh");
    let outcome = Program::new(script)
        .args([place.path(), folder.as_path(), hello.file()])
        .under("unshare", ["--mount", "--pid", "--fork"])
        .limit(Duration::from_secs(600))
        .run();
    outcome
        .expect_success()
        .expect_stdout("== removed\n")
        .expect_stdout("nothing is left\n");
}
