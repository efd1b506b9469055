//! Takes debug information out of binaries into files that debuggers find by the build id, as distributions do.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::run;

/// Moves the debug information of a binary into a file under `folder`, and strips the binary to what running it needs, and the names of functions.
///
/// # Errors
/// The binary has no build id, or binutils cannot be run.
pub(crate) fn move_out(binary: &Path, folder: &Path) -> Result<(), Box<dyn Error>> {
    let file = folder.join(place(&build_id(binary)?)?);
    if let Some(parent) = file.parent() {
        fs::create_dir_all(parent)?;
    }
    run(Command::new("objcopy")
        .args(["--only-keep-debug", "--compress-debug-sections"])
        .arg(binary)
        .arg(&file))?;
    // The names of our own functions stay: with them a report of a defect says which call it was (docs/adr/0036).
    let names = ["--wildcard", "--keep-symbol=*oxifabric_*"];
    let mut strip = Command::new("strip");
    run(strip.arg("--strip-unneeded").args(names).arg(binary))
}

/// Reads the build id, in hexadecimal.
fn build_id(binary: &Path) -> Result<String, Box<dyn Error>> {
    let notes = Command::new("readelf").arg("-n").arg(binary).output()?;
    let notes = String::from_utf8_lossy(&notes.stdout).into_owned();
    let id = notes
        .lines()
        .find_map(|line| line.trim().strip_prefix("Build ID: "));
    let id = id.ok_or_else(|| format!("{} has no build id", binary.display()))?;
    Ok(id.trim().to_owned())
}

/// Where debuggers look for the file with this build id, "Debugging Information in Separate Files" of gdb's manual.
fn place(id: &str) -> Result<PathBuf, Box<dyn Error>> {
    let (folder, name) = id.split_at_checked(2).ok_or("a build id is longer")?;
    Ok(Path::new(".build-id")
        .join(folder)
        .join(format!("{name}.debug")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_byte_of_a_build_id_is_a_folder() {
        let place = place("0123abcd").unwrap();
        assert_eq!(place, Path::new(".build-id/01/23abcd.debug"));
    }
}
