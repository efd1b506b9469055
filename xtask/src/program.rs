//! The programs of packages, which do what is no task of this one.

use std::process::Command;

use oxifabric_packaging::cargo::cargo;

/// Returns the program of a package, in the folder that this one was started in.
pub(crate) fn program(package: &str) -> Command {
    let mut command = cargo(&format!("run --quiet --package {package}"));
    command.current_dir(".").arg("--");
    command
}

/// Returns the command that compares libraries.
pub(crate) fn comparison(task: &str) -> Command {
    let mut command = program("oxifabric-comparison");
    command.arg(task);
    command
}
