//! Cargo in this repository, and commands that have to succeed.

use std::env;
use std::error::Error;
use std::path::PathBuf;
use std::process::Command;

use oxifabric_trials::repository;

/// Returns cargo with these words as its arguments, in the repository.
#[must_use]
pub fn cargo(words: &str) -> Command {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(words.split_ascii_whitespace());
    command.current_dir(repository());
    command
}

/// Returns the folder that cargo builds in.
#[must_use]
pub fn target() -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    repository().join(target)
}

/// Runs a command that has to succeed.
///
/// # Errors
/// It cannot be run, or failed.
pub fn run(command: &mut Command) -> Result<(), Box<dyn Error>> {
    let status = command
        .status()
        .map_err(|cause| format!("{command:?}: {cause}"))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("{command:?}: {status}").into()),
    }
}
