//! Programs that this one starts.

use std::error::Error;
use std::process::Command;

/// Runs a program to its end.
///
/// # Errors
/// It cannot be started, or fails.
pub(crate) fn run(command: &mut Command) -> Result<(), Box<dyn Error>> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command
        .status()
        .map_err(|error| format!("{name}: {error}"))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("{name}: {status}: {command:?}").into()),
    }
}
