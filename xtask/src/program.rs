//! The programs of packages, which do what is no task of this one.

use std::path::{PathBuf, absolute};
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

/// Returns the command that makes a book of the guide: its package alone knows how that is done.
pub(crate) fn book(out: Option<PathBuf>) -> Command {
    let mut command = cargo("run --quiet --package oxifabric-guide --bin guide --features book --");
    command.args(out.map(|out| absolute(&out).unwrap_or(out)));
    command
}
