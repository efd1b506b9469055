//! Builds Debian packages in `target/deb`, with Debian's own tools from the files in `packaging/debian`.
//!
//! What they contain is a layout of [`layout`], from which debhelper takes the debug information into packages of its own.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

use oxifabric_trials::{installed, repository};

use crate::cargo::{run, target};
use crate::layout;

/// What builds packages, with the Debian package that has it.
const BUILDERS: [(&str, &str); 2] = [("dpkg-buildpackage", "dpkg-dev"), ("dh", "debhelper")];

/// Whether this machine has what builds packages; if not, what to install.
///
/// # Errors
/// It has not.
pub fn is_possible() -> Result<(), String> {
    for (builder, package) in BUILDERS {
        installed(builder).map_err(|missing| format!("{missing}: apt-get install {package}"))?;
    }
    Ok(())
}

/// How packages are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// As dpkg-deb does it, which takes a minute.
    Small,
    /// In seconds.
    Fast,
}

/// Builds all packages and returns the folder in which they are.
///
/// # Errors
/// debhelper is not installed, or something cannot be built.
pub fn deb(compression: Compression) -> Result<PathBuf, Box<dyn Error>> {
    is_possible()?;
    let root = repository();
    let folder = layout::fresh(target().join("deb"))?;
    let tree = folder.join("oxifabric");
    layout::copy(&root.join("packaging/debian"), &tree.join("debian"))?;
    std::fs::copy(root.join("CHANGELOG.md"), tree.join("CHANGELOG.md"))?;
    layout::with_debug_information(tree.join("dist"), "release")?;
    build(&tree, compression)?;
    Ok(folder)
}

/// Packs a tree that is laid out; the packages come to lie beside it.
fn build(tree: &Path, compression: Compression) -> Result<(), Box<dyn Error>> {
    let options_of_dpkg_deb = match compression {
        Compression::Small => "",
        Compression::Fast => "-Zgzip -z1",
    };
    let mut command = Command::new("dpkg-buildpackage");
    let options = "--build=binary --unsigned-changes --unsigned-buildinfo --no-pre-clean";
    command
        .args(options.split(' '))
        .env("LIBFABRIC_VERSION", layout::VERSION)
        .env("COMPRESSION", options_of_dpkg_deb)
        .current_dir(tree);
    run(&mut command)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_packages_have_the_version_of_the_workspace() {
        let changelog = fs::read_to_string(repository().join("packaging/debian/changelog"));
        let changelog = changelog.expect("the packaging has a changelog");
        let newest = format!("oxifabric ({}-", env!("CARGO_PKG_VERSION"));
        assert!(changelog.starts_with(&newest), "{newest}");
    }

    /// dpkg-gensymbols would notice a new version only when packages are built.
    #[test]
    fn every_version_of_symbols_has_a_release_that_brought_it() {
        let read = |file: &str| fs::read_to_string(repository().join(file)).expect(file);
        let script = read("crates/libfabric/libfabric.map");
        let symbols = read("packaging/debian/liboxifabric1.symbols");
        let words = script.split_ascii_whitespace();
        let versions: Vec<_> = words.filter(|word| word.starts_with("FABRIC_")).collect();
        assert!(!versions.is_empty());
        for version in versions {
            let line = format!("){} ", version.trim_end_matches(';'));
            assert!(symbols.contains(&line), "{version}");
        }
    }
}
