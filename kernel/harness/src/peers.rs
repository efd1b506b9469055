//! Peers in user space, put into the guest: a hostile one, and a program on each libfabric that is here, with the libraries that it needs.
//!
//! Ours is that of `OXI_DIST`, which `cargo xtask dist` prints, or of `target/dist`; the C library is the one inside the MPICH wheel, in the virtual
//! environment `OXI_MPICH` or `target/venv-mpich`, which `cargo xtask test` makes. That one has no verbs; Debian's has, and comes with the library of the software
//! RDMA device.

use std::env;
use std::error::Error;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::run;
use crate::place::Place;
use crate::programs::{VERBS_PEER, install as install_programs, unpack};

/// The folder of peers in the guest.
const FOLDER: &str = "peers";

/// Puts the peers into the guest's file system, those on a libfabric in a folder for each.
///
/// # Errors
/// A program cannot be compiled or copied.
pub(crate) fn install(place: &Place, root: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(root.join(FOLDER))?;
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-Wall", "-static", "-o"])
        .arg(root.join(FOLDER).join("kofi_hostile"))
        .arg(place.sources.join("guest/kofi_hostile.c"));
    run(&mut gcc)?;
    let target = place.dir.parent().ok_or("target/kernel has no parent")?;
    let libraries = [
        ("ours", "OXI_DIST", target.join("dist"), "lib"),
        ("c", "OXI_MPICH", target.join("venv-mpich"), "lib/mpich"),
    ];
    for (name, variable, usual, library) in libraries {
        let prefix = env::var_os(variable).map_or(usual, PathBuf::from);
        let library = prefix.join(library).join("libfabric.so.1");
        if library.exists() {
            install_one(place, &library, root, name)?;
        }
    }
    install_verbs(place, root)
}

/// Puts the peer on Debian's libfabric into the guest's bin, and what libibverbs opens by name to where it looks.
fn install_verbs(place: &Place, root: &Path) -> Result<(), Box<dyn Error>> {
    let folder = unpack(place, &VERBS_PEER)?;
    let libraries = folder.join("usr/lib/x86_64-linux-gnu");
    // A link that Debian makes when the package is installed.
    let psm = folder.join("usr/lib/libpsm1/libpsm_infinipath.so.1");
    if !psm.exists() {
        symlink("libpsm_infinipath.so.1.16", psm)?;
    }
    let sources = place.sources.parent().ok_or("kernel has no parent")?;
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-Wall", "-Wl,--allow-shlib-undefined", "-o"]);
    gcc.arg(folder.join("kofi_verbs_peer"));
    gcc.arg("-I").arg(sources.join("crates/abi/include"));
    gcc.arg(place.sources.join("guest/kofi_peer.c"));
    run(gcc.arg(libraries.join("libfabric.so.1")))?;
    install_programs(place, &VERBS_PEER, root)?;
    for file in [
        "etc/libibverbs.d/rxe.driver",
        "usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so",
    ] {
        let to = root.join(file);
        fs::create_dir_all(to.parent().ok_or("a file without a folder")?)?;
        fs::copy(folder.join(file), to)?;
    }
    Ok(())
}

fn install_one(
    place: &Place,
    library: &Path,
    root: &Path,
    name: &str,
) -> Result<(), Box<dyn Error>> {
    let folder = root.join(FOLDER).join(name);
    fs::create_dir_all(&folder)?;
    let copy = folder.join("libfabric.so.1");
    fs::copy(library, &copy)?;
    run(Command::new("strip").arg("--strip-debug").arg(&copy))?;
    let sources = place.sources.parent().ok_or("kernel has no parent")?;
    let program = folder.join("kofi_peer");
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-Wall", "-o"]).arg(&program);
    gcc.arg("-I").arg(sources.join("crates/abi/include"));
    gcc.arg(place.sources.join("guest/kofi_peer.c")).arg(&copy);
    run(&mut gcc)?;
    for needed in needed(&program, &folder)? {
        let name = needed.file_name().ok_or("a library without a name")?;
        let to = match needed.parent() {
            // The kernel opens the loader by its whole name.
            Some(parent) if parent == Path::new("/lib64") => root.join("lib64"),
            _ => folder.clone(),
        };
        fs::create_dir_all(&to)?;
        if !to.join(name).exists() {
            fs::copy(&needed, to.join(name))?;
        }
    }
    Ok(())
}

/// Returns the files that a program needs, those in `folder` excepted.
fn needed(program: &Path, folder: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut ldd = Command::new("ldd");
    let output = ldd.arg(program).env("LD_LIBRARY_PATH", folder).output()?;
    let text = String::from_utf8(output.stdout)?;
    let files = files_in(&text).map(PathBuf::from);
    Ok(files.filter(|file| !file.starts_with(folder)).collect())
}

/// Lists the files in the output of ldd.
fn files_in(text: &str) -> impl Iterator<Item = &str> {
    let words = text.lines().flat_map(str::split_whitespace);
    words.filter(|word| word.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_that_a_program_needs_are_found() {
        let text = "\tlinux-vdso.so.1 (0x7f)\n\tlibc.so.6 => /lib/libc.so.6 (0x7f)\n\t/lib64/ld.so (0x7f)\n";
        assert!(files_in(text).eq(["/lib/libc.so.6", "/lib64/ld.so"]));
    }
}
