//! The libraries that are compared.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

use oxifabric_trials::{Library, Program, installed, repository};

/// Returns the library in a layout, by default the one that `cargo xtask dist` builds now.
pub(crate) fn ours(dist: Option<&Path>) -> Result<Library, Box<dyn Error>> {
    let laid_out = dist.map_or_else(lay_out, |folder| Ok(folder.to_owned()))?;
    Library::at(laid_out.join("lib"), "ours").map_err(|missing| missing.0.into())
}

/// Builds the library and returns the folder of its layout, which is all that the task prints.
fn lay_out() -> Result<PathBuf, Box<dyn Error>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut dist = Command::new(cargo);
    dist.args(["xtask", "dist"])
        .stderr(std::process::Stdio::inherit());
    let output = dist.current_dir(repository()).output()?;
    if !output.status.success() {
        return Err(format!("cargo xtask dist: {}", output.status).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().into())
}

/// Returns the library to compare with: a file or a folder with one, by default that of the MPICH wheel, else Debian's.
pub(crate) fn reference(place: Option<&Path>) -> Result<Library, Box<dyn Error>> {
    let found = match place {
        Some(folder) if folder.is_dir() => Library::at(folder.to_owned(), "reference"),
        Some(file) => Library::alone(file, "reference"),
        None => Library::mpich_wheel().or_else(|_| Library::debian()),
    };
    found.map_err(|missing| format!("nothing to compare with: {missing}").into())
}

/// Returns what a library calls itself, through Debian's `fi_info`.
pub(crate) fn version(library: &Library) -> Result<String, Box<dyn Error>> {
    let program = installed("fi_info").map_err(|missing| missing.0)?;
    let outcome = Program::new(program)
        .library(library)
        .args(["--version"])
        .run();
    let line = outcome
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("libfabric: "));
    let version = line.ok_or_else(|| format!("no version\n{outcome}"))?;
    Ok(format!("{} {version}", library.name()))
}
