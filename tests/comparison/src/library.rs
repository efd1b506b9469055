//! The libraries that are compared.

use std::error::Error;
use std::path::Path;

use oxifabric_packaging::layout;
use oxifabric_trials::{Library, Program, installed};

/// Returns the library in a layout, by default the one that `cargo xtask dist` builds now.
pub(crate) fn ours(dist: Option<&Path>) -> Result<Library, Box<dyn Error>> {
    let laid_out = match dist {
        Some(folder) => folder.to_owned(),
        None => layout::dist(None, "release")?,
    };
    Library::at(laid_out.join("lib"), "ours").map_err(|missing| missing.0.into())
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
