//! A module out of a Rust crate and a C file.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::run;
use crate::place::{Place, TARGET};
use crate::toolchain::{environment, rustc, rustflags};

/// A module: its folder in kernel/modules, its name, and whether it has code in Rust.
struct Module {
    folder: &'static str,
    name: &'static str,
    has_rust: bool,
}

const MODULES: [Module; 11] = [
    Module {
        folder: "engine",
        name: "kofi_engine",
        has_rust: true,
    },
    Module {
        folder: "kofi",
        name: "kofi",
        has_rust: true,
    },
    Module {
        folder: "loop",
        name: "kofi_loop",
        has_rust: true,
    },
    Module {
        folder: "tcp",
        name: "kofi_tcp",
        has_rust: true,
    },
    Module {
        folder: "verbs",
        name: "kofi_verbs",
        has_rust: true,
    },
    Module {
        folder: "hold",
        name: "kofi_hold",
        has_rust: false,
    },
    Module {
        folder: "pingpong",
        name: "kofi_pingpong",
        has_rust: false,
    },
    Module {
        folder: "blk",
        name: "kofi_blk",
        has_rust: true,
    },
    Module {
        folder: "target",
        name: "kofi_target",
        has_rust: true,
    },
    Module {
        folder: "sockets",
        name: "kofi_sockets",
        has_rust: false,
    },
    Module {
        folder: "test",
        name: "kofi_test",
        has_rust: false,
    },
];

/// Where the C files find headers, from the folder of the repository: ours, those that stand for the C library's, libfabric's.
const HEADERS: [&str; 4] = [
    "kernel/modules/include",
    "kernel/include",
    "kernel/include/compat",
    "crates/abi/include",
];

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
    let mut kbuild = String::from("ccflags-y :=");
    let root = place.sources.parent().ok_or("kernel has no parent")?;
    for headers in HEADERS {
        kbuild += &format!(" -I{}", root.join(headers).display());
    }
    kbuild.push('\n');
    for module in MODULES {
        let (name, folder) = (
            module.name,
            place.sources.join("modules").join(module.folder),
        );
        let mut objects = copy_c(&folder, &out)?;
        if module.has_rust {
            link(place, &out, name)?;
            objects += &format!(" {name}_rs.o");
        }
        kbuild += &format!("obj-m += {name}.o\n{name}-y :={objects}\n");
    }
    write_new(&out.join("Kbuild"), kbuild.as_bytes())?;
    let mut make = Command::new("make");
    make.arg("-s").arg("-C").arg(place.headers());
    run(make.arg(format!("M={}", out.display())).arg("modules"))?;
    let built = MODULES.map(|module| out.join(format!("{}.ko", module.name)));
    Ok(built.into())
}

/// Copies the C files of a module to where kbuild works, and returns its objects.
fn copy_c(folder: &Path, out: &Path) -> Result<String, Box<dyn Error>> {
    let mut objects = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        let stem = name.strip_suffix(".c");
        if stem.is_some() || name.ends_with(".h") {
            write_new(&out.join(name), &fs::read(&path)?)?;
        }
        objects.extend(stem.map(|stem| format!(" {stem}.o")));
    }
    objects.sort();
    Ok(objects.concat())
}

/// Writes a file, unless it has this content: kbuild compiles what is younger than its objects.
fn write_new(path: &Path, content: &[u8]) -> Result<(), Box<dyn Error>> {
    match fs::read(path).is_ok_and(|there| there == content) {
        true => Ok(()),
        false => Ok(fs::write(path, content)?),
    }
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
