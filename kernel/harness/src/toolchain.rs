//! How Rust is compiled for the kernel: by Debian's compiler, with a core and an alloc of its own.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::run;
use crate::place::{Place, TARGET};

/// Options of the compiler.
///
/// - Calls are relative, not through a table of addresses, which the loader of modules does not know.
/// - Indirect calls and returns go through the kernel's thunks, which it patches.
/// - A stack is unwound by objtool's tables.
const FLAGS: [&str; 7] = [
    "-Crelocation-model=static",
    "-Cforce-unwind-tables=no",
    "-Cdebuginfo=0",
    "-Zplt=yes",
    "-Zfunction-sections=no",
    "-Zretpoline-external-thunk=yes",
    "-Zfunction-return=thunk-extern",
];

/// Returns the options as cargo takes them.
pub(crate) fn rustflags(place: &Place) -> String {
    let sysroot = format!("--sysroot={}", place.sysroot().display());
    [&[sysroot.as_str()], &FLAGS[..]].concat().join("\x1f")
}

/// Sets up a command for Debian's compiler.
pub(crate) fn environment(place: &Place, command: &mut Command) {
    let libraries = place.unpacked("rust").join("usr/lib/x86_64-linux-gnu");
    command.env("LD_LIBRARY_PATH", libraries);
    // The options with -Z are the compiler's own.
    command.env("RUSTC_BOOTSTRAP", "1");
}

/// Returns Debian's compiler.
pub(crate) fn rustc(place: &Place) -> PathBuf {
    place.unpacked("rust").join("usr/bin/rustc")
}

/// Compiles core, compiler_builtins and alloc, once.
///
/// # Errors
/// The compiler fails.
pub(crate) fn prepare(place: &Place) -> Result<(), Box<dyn Error>> {
    let out = place.sysroot().join("lib/rustlib").join(TARGET).join("lib");
    let done = out.join(".compiled");
    let options = FLAGS.join(" ");
    if fs::read_to_string(&done).is_ok_and(|with| with == options) {
        return Ok(());
    }
    eprintln!("kernel: compiling core and alloc for {TARGET}");
    let _ = fs::remove_dir_all(place.sysroot());
    fs::create_dir_all(&out)?;
    let library = library(place)?;
    compile(place, &out, "core", &library.join("core/src/lib.rs"), &[])?;
    let builtins = library.join("compiler-builtins/compiler-builtins/src/lib.rs");
    compile(place, &out, "compiler_builtins", &builtins, &BUILTINS)?;
    let alloc = library.join("alloc/src/lib.rs");
    let externs = ["--extern=core", "--extern=compiler_builtins"];
    compile(place, &out, "alloc", &alloc, &externs)?;
    Ok(fs::write(done, options)?)
}

/// What its build script would set. Many small objects, so that the linker takes only the functions that are called; and without its
/// copies of memcpy and the like, which the kernel has.
const BUILTINS: [&str; 8] = [
    "-Ccodegen-units=10000",
    "--cfg=feature=\"compiler-builtins\"",
    "--cfg=feature=\"unstable-intrinsics\"",
    "--cfg=feature=\"mem-unaligned\"",
    "--cfg=intrinsics_enabled",
    "--cfg=arch_enabled",
    "--cfg=optimizations_enabled",
    "--extern=core",
];

/// Returns the source of the standard library.
fn library(place: &Place) -> Result<PathBuf, Box<dyn Error>> {
    let sources = place.unpacked("rust").join("usr/src");
    for entry in fs::read_dir(&sources)? {
        let library = entry?.path().join("library");
        if library.is_dir() {
            return Ok(library);
        }
    }
    Err(format!("{} has no source of the library", sources.display()).into())
}

fn compile(
    place: &Place,
    out: &Path,
    name: &str,
    source: &Path,
    options: &[&str],
) -> Result<(), Box<dyn Error>> {
    let mut command = Command::new(rustc(place));
    environment(place, &mut command);
    command
        .env("CFG_CARGO_FEATURES", "")
        .env("CFG_OPT_LEVEL", "2")
        .env("CFG_TARGET_FEATURES", "");
    command.args(["--crate-type=rlib", "--edition=2024", "--cap-lints=allow"]);
    command.args(["-Copt-level=2", "-Cpanic=abort", "-Cembed-bitcode=yes"]);
    if name != "compiler_builtins" {
        command.arg("-Ccodegen-units=1");
    }
    command
        .arg(format!("--crate-name={name}"))
        .arg(format!("--target={TARGET}"));
    command
        .arg(format!("--sysroot={}", place.sysroot().display()))
        .args(FLAGS);
    command.arg("--out-dir").arg(out).arg("-L").arg(out);
    run(command.args(options).arg(source))
}
