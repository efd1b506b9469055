//! Builds the programmer's guide.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use oxifabric_trials::repository;

/// `cargo run` on the package of the guide, which alone knows how books are made.
pub(crate) fn command(out: Option<PathBuf>) -> Command {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args(["run", "--quiet", "--package", "oxifabric-guide"])
        .args(["--bin", "guide", "--features", "book", "--"])
        .args(out.map(|out| std::path::absolute(&out).unwrap_or(out)))
        .current_dir(repository());
    command
}
