//! Links the shared libraries and the static one from what rustc makes.
//!
//! rustc writes a version script of its own for a `cdylib`, which cannot say that a function has several versions. So the
//! library is built as a static archive, and the C compiler links it with the version script of the crate.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use oxifabric_trials::repository;

use crate::cargo::run;

/// What a program needs beside libfabric.a. Since glibc 2.34 all of them are in libc, and these archives are empty.
pub(crate) const SYSTEM_LIBRARIES: &str = "-lpthread -ldl -lrt -lm";

/// A shared library that is linked from the archive.
pub(crate) struct Shared {
    /// Where it lies under the folder of libraries.
    file: &'static str,
    name: &'static str,
    /// What it exports.
    script: &'static str,
}

pub(crate) const LIBRARY: Shared = Shared {
    file: "libfabric.so.1",
    name: "libfabric.so.1",
    script: "crates/libfabric/libfabric.map",
};

/// The providers for another libfabric, where a libfabric looks for external ones.
pub(crate) const PLUGIN: Shared = Shared {
    file: "libfabric/liboxifabric-fi.so",
    name: "liboxifabric-fi.so",
    script: "crates/libfabric/plugin.map",
};

/// Links a shared library, with all of the archive that the exported symbols reach, and returns its place.
pub(crate) fn shared(
    archive: &Path,
    shared: &Shared,
    lib: &Path,
) -> Result<PathBuf, Box<dyn Error>> {
    let script = repository().join(shared.script);
    let file = lib.join(shared.file);
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut command = Command::new(compiler);
    command
        .args(["-shared", "-fPIC"])
        .arg(format!("-Wl,-soname,{}", shared.name))
        .arg(format!("-Wl,--version-script={}", script.display()))
        // A full relocation table is read-only once the library is loaded. It stays loaded after the last dlclose(3),
        // because a thread of it may still be running.
        .args(["-Wl,-z,relro,-z,now,-z,nodelete,-z,noexecstack"])
        .args(["-Wl,--gc-sections,--build-id,--no-undefined,--as-needed"])
        .arg("-Wl,--whole-archive")
        .arg(archive)
        .arg("-Wl,--no-whole-archive")
        .args(["-lgcc_s", "-lutil"])
        .args(SYSTEM_LIBRARIES.split(' '))
        .args(["-lc", "-o"])
        .arg(&file);
    run(&mut command)?;
    Ok(file)
}

/// Makes libfabric.a: one object that defines the functions under the names that programs call, in their newest version, and
/// nothing else that a program or another library could define too. An archive has no symbol versions.
pub(crate) fn static_library(archive: &Path, lib: &Path) -> Result<(), Box<dyn Error>> {
    let newest = newest_versions(&fs::read_to_string(repository().join(LIBRARY.script))?);
    let object = lib.join("libfabric.o");
    let mut merge = Command::new("ld");
    merge.args(["--relocatable", "--gc-sections"]);
    let mut rename = Command::new("objcopy");
    let mut hide = Command::new("objcopy");
    for (name, version) in &newest {
        let versioned = format!("{name}@@{version}");
        merge.args(["--undefined", &versioned]);
        rename.arg(format!("--redefine-sym={versioned}={name}"));
        hide.arg(format!("--keep-global-symbol={name}"));
    }
    run(merge.arg("-o").arg(&object).arg(archive))?;
    run(rename.arg(&object))?;
    // Bitcode, which rustc adds for its own linking, is of no use to others.
    hide.args(["--strip-unneeded", "-R", ".llvmbc", "-R", ".llvmcmd"]);
    run(hide.arg(&object))?;
    let library = lib.join("libfabric.a");
    run(Command::new("ar").arg("rcsD").arg(library).arg(&object))?;
    fs::remove_file(object)?;
    Ok(())
}

/// Lists the functions of a version script with the last version that has them.
fn newest_versions(script: &str) -> Vec<(String, String)> {
    let mut newest: Vec<(String, String)> = Vec::new();
    let mut version = "";
    for word in script.split_ascii_whitespace() {
        if let Some(name) = word.strip_suffix(';') {
            if !name.starts_with("fi_") {
                continue;
            }
            match newest.iter_mut().find(|(known, _)| known == name) {
                Some((_, last)) => version.clone_into(last),
                None => newest.push((name.to_owned(), version.to_owned())),
            }
        } else if word.starts_with("FABRIC_") {
            version = word;
        }
    }
    newest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_version_of_a_function_counts() {
        let script = "FABRIC_1.0 {\n global: fi_a; fi_b;\n local: *;\n};\nFABRIC_1.1 { global: fi_b; fi_c; } FABRIC_1.0;";
        let pairs = [
            ("fi_a", "FABRIC_1.0"),
            ("fi_b", "FABRIC_1.1"),
            ("fi_c", "FABRIC_1.1"),
        ];
        let pairs = pairs.map(|(name, version)| (name.to_owned(), version.to_owned()));
        assert_eq!(newest_versions(script), pairs);
    }
}
