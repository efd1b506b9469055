//! A module out of a Rust crate and a C file.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::run;
use crate::place::{Place, TARGET};
use crate::toolchain::{environment, rustc, rustflags};

/// The modules: the folder of each in kernel/modules, and its name.
const MODULES: [(&str, &str); 1] = [("engine", "kofi_engine")];

/// Parts of an object that the kernel has no use for.
const UNUSED: [&str; 3] = [".eh_frame", ".comment", ".llvm*"];

/// Builds all modules, and returns where they are.
///
/// # Errors
/// A compiler, a linker or kbuild fails.
pub(crate) fn build_all(place: &Place) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    compile(place)?;
    let out = place.dir.join("modules");
    fs::create_dir_all(&out)?;
    let mut kbuild = format!(
        "ccflags-y := -I{}\n",
        place.sources.join("modules/include").display()
    );
    for (folder, name) in MODULES {
        link(place, &out, name)?;
        let main = format!("{name}_mod.c");
        fs::copy(
            place.sources.join("modules").join(folder).join(&main),
            out.join(&main),
        )?;
        kbuild += &format!("obj-m += {name}.o\n{name}-y := {name}_mod.o {name}_rs.o\n");
    }
    fs::write(out.join("Kbuild"), kbuild)?;
    let mut make = Command::new("make");
    make.arg("-s").arg("-C").arg(place.headers());
    run(make.arg(format!("M={}", out.display())).arg("modules"))?;
    let built = MODULES.map(|(_, name)| out.join(format!("{name}.ko")));
    Ok(built.into())
}

/// Compiles the Rust crates into static libraries.
fn compile(place: &Place) -> Result<(), Box<dyn Error>> {
    let mut cargo = Command::new("cargo");
    environment(place, &mut cargo);
    cargo
        .env("RUSTC", rustc(place))
        .env("CARGO_ENCODED_RUSTFLAGS", rustflags(place));
    cargo
        .env_remove("RUSTUP_TOOLCHAIN")
        .env_remove("CARGO_TARGET_DIR");
    cargo.args([
        "build",
        "--quiet",
        "--release",
        "--target",
        TARGET,
        "--target-dir",
    ]);
    cargo
        .arg(place.dir.join("cargo"))
        .current_dir(place.sources.join("modules"));
    run(&mut cargo)
}

/// Links a static library into one object as kbuild takes it.
///
/// Of compiler_builtins, which is no part of the optimization at link time, the linker takes the functions that are called.
fn link(place: &Place, out: &Path, name: &str) -> Result<(), Box<dyn Error>> {
    let archive = place
        .dir
        .join("cargo")
        .join(TARGET)
        .join("release")
        .join(format!("lib{name}.a"));
    let object = out.join(format!("{name}_rs.o_shipped"));
    let mut ld = Command::new("ld");
    ld.args(["-r", "-u"]).arg(format!("{name}_rs_init"));
    run(ld.arg("-o").arg(&object).arg(archive))?;
    let mut objcopy = Command::new("objcopy");
    for section in UNUSED {
        objcopy.args(["-R", section]);
    }
    run(objcopy.arg(&object))?;
    let mut objtool = Command::new(place.objtool());
    objtool.args([
        "--hacks=jump_label",
        "--hacks=noinstr",
        "--orc",
        "--retpoline",
        "--rethunk",
    ]);
    objtool.args(["--sls", "--static-call", "--uaccess", "--link", "--module"]);
    run(objtool.arg(&object))?;
    // kbuild asks for the command that made an object.
    Ok(fs::write(out.join(format!(".{name}_rs.o.cmd")), "")?)
}
