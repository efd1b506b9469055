//! Providers in files of their own, loaded by the library under test. Source: fi_provider(3), fabric(7).
//!
//! - `toys`: built by a C compiler against Debian's headers of 1.17, and ours under a C library;
//! - `vendors`: those inside the wheels of MPICH and Intel MPI.

#[macro_use]
extern crate oxifabric_trials;

mod toys;
mod vendors;

use std::ffi::OsStr;
use std::os::unix::fs::symlink;
use std::path::Path;

use oxifabric_trials::{Library, Missing, Outcome, Program, Scratch, installed};

fn main() -> std::process::ExitCode {
    oxifabric_trials::harness::main()
}

/// Returns a folder in which providers are found under these file names.
fn folder(files: &[(&str, &Path)]) -> Scratch {
    let folder = Scratch::new();
    for (name, file) in files {
        symlink(file, folder.join(name)).expect("a new folder takes a link");
    }
    folder
}

/// Runs `fi_info` with FI_PROVIDER_PATH and other variables set.
fn info(options: &str, path: impl AsRef<OsStr>, env: &[(&str, &str)]) -> Result<Outcome, Missing> {
    let library = Library::under_test()?;
    let program = Program::new(installed("fi_info")?)
        .library(&library)
        .line(options)
        .env("FI_PROVIDER_PATH", path);
    let program = env
        .iter()
        .fold(program, |program, (name, value)| program.env(name, value));
    Ok(program.run())
}

/// Returns the version that `fi_info -l` prints of a provider.
fn version_of(outcome: &Outcome, name: &str) -> String {
    let mut lines = outcome.stdout.lines();
    lines
        .by_ref()
        .find(|line| *line == format!("{name}:"))
        .unwrap_or_else(|| panic!("no {name}\n{outcome}"));
    lines.next().unwrap_or_default().trim().to_owned()
}
