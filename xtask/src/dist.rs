//! Lays out `target/dist`: what a program needs that moves onto this library, and what it is compiled with.
//!
//! rustc writes a version script of its own for a `cdylib`, which cannot say that a function has several versions. So the
//! library is built as a static archive, and the C compiler links it with the version script of the crate.

use std::env;
use std::error::Error;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::headers;

/// Programs that are laid out if the workspace has them.
const TOOLS: [&str; 3] = ["fi_info", "fi_pingpong", "fi_strerror"];

/// The version that the library reports, which pkg-config compares.
const VERSION: &str = "2.7.0";

/// Builds the library and the tools and lays them out in `out`, by default `target/dist`.
pub(crate) fn dist(out: Option<PathBuf>, profile: &str) -> Result<PathBuf, Box<dyn Error>> {
    let build = Build::new(profile);
    let out = out.unwrap_or_else(|| build.target.join("dist"));
    let lib = out.join("lib");
    fs::create_dir_all(lib.join("pkgconfig"))?;
    fs::create_dir_all(out.join("bin"))?;
    fs::create_dir_all(lib.join("libfabric"))?;
    let archive = build.archive("plugin")?;
    link(&build.root, &archive, &PLUGIN, &lib)?;
    let archive = build.archive("export")?;
    link(&build.root, &archive, &LIBRARY, &lib)?;
    name_for_linking(&lib)?;
    fs::write(lib.join("pkgconfig/libfabric.pc"), pkg_config())?;
    copy(&headers::place(&build.root), &out.join("include"))?;
    build.tools(&out.join("bin"))?;
    Ok(out)
}

/// Where cargo builds what.
struct Build {
    root: PathBuf,
    target: PathBuf,
    profile: String,
}

impl Build {
    fn new(profile: &str) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let root = root.canonicalize().unwrap_or(root);
        let target =
            env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        let profile = profile.to_owned();
        Self {
            root,
            target,
            profile,
        }
    }

    /// Builds the static archive with the C symbols of a feature in it.
    fn archive(&self, feature: &str) -> Result<PathBuf, Box<dyn Error>> {
        let package = ["rustc", "--package", "oxifabric-libfabric", "--lib"];
        let symbols = ["--features", feature, "--crate-type", "staticlib"];
        self.cargo([package.as_slice(), &symbols].concat())?;
        Ok(self.artifacts().join("liboxifabric_libfabric.a"))
    }

    /// Builds the tools and copies those that there are.
    fn tools(&self, bin: &Path) -> Result<(), Box<dyn Error>> {
        self.cargo(vec!["build", "--package", "oxifabric-tools", "--bins"])?;
        for tool in TOOLS {
            let built = self.artifacts().join(tool);
            if built.exists() {
                fs::copy(built, bin.join(tool))?;
            }
        }
        Ok(())
    }

    fn cargo(&self, arguments: Vec<&str>) -> Result<(), Box<dyn Error>> {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.args(arguments).args(["--profile", &self.profile]);
        run(command.current_dir(&self.root))
    }

    /// Returns the folder that cargo writes this profile to.
    fn artifacts(&self) -> PathBuf {
        let folder = match self.profile.as_str() {
            "dev" | "test" => "debug",
            "bench" => "release",
            other => other,
        };
        self.target.join(folder)
    }
}

/// A file that is linked from the archive.
struct Shared {
    /// Where it lies under the folder of libraries.
    file: &'static str,
    name: &'static str,
    /// What it exports.
    script: &'static str,
}

const LIBRARY: Shared = Shared {
    file: "libfabric.so.1",
    name: "libfabric.so.1",
    script: "crates/libfabric/libfabric.map",
};

/// The providers for another libfabric, where a libfabric looks for external ones.
const PLUGIN: Shared = Shared {
    file: "libfabric/liboxifabric-fi.so",
    name: "liboxifabric-fi.so",
    script: "crates/libfabric/plugin.map",
};

/// Links a shared library, with all of the archive that the exported symbols reach.
fn link(root: &Path, archive: &Path, shared: &Shared, lib: &Path) -> Result<(), Box<dyn Error>> {
    let script = root.join(shared.script);
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut command = Command::new(compiler);
    command
        .args(["-shared", "-fPIC"])
        .arg(format!("-Wl,-soname,{}", shared.name))
        .arg(format!("-Wl,--version-script={}", script.display()))
        // A full relocation table is read-only once the library is loaded. It stays loaded after the last dlclose(3),
        // because a thread of it may still be running.
        .args(["-Wl,-z,relro,-z,now,-z,nodelete,-z,noexecstack"])
        .args(["-Wl,--gc-sections,--strip-debug,--no-undefined,--as-needed"])
        .arg("-Wl,--whole-archive")
        .arg(archive)
        .arg("-Wl,--no-whole-archive")
        .args([
            "-lgcc_s",
            "-lutil",
            "-lrt",
            "-lpthread",
            "-lm",
            "-ldl",
            "-lc",
        ])
        .arg("-o")
        .arg(lib.join(shared.file));
    run(&mut command)
}

/// Gives the library the name that linkers look for.
fn name_for_linking(lib: &Path) -> Result<(), Box<dyn Error>> {
    let name = lib.join("libfabric.so");
    if name.symlink_metadata().is_ok() {
        fs::remove_file(&name)?;
    }
    symlink("libfabric.so.1", name)?;
    Ok(())
}

/// Returns the file for pkg-config; its prefix is wherever the layout lies.
fn pkg_config() -> String {
    format!(
        "prefix=${{pcfiledir}}/../..\n\
         libdir=${{prefix}}/lib\n\
         includedir=${{prefix}}/include\n\
         \n\
         Name: libfabric\n\
         Description: OpenFabrics interfaces, by oxifabric\n\
         Version: {VERSION}\n\
         Libs: -L${{libdir}} -lfabric\n\
         Cflags: -I${{includedir}}\n"
    )
}

/// Copies what is in a folder, with the folders in it.
fn copy(from: &Path, to: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

fn run(command: &mut Command) -> Result<(), Box<dyn Error>> {
    let status = command
        .status()
        .map_err(|cause| format!("{command:?}: {cause}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{command:?}: {status}").into())
    }
}
