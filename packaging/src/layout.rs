//! Lays out `target/dist`: what a program needs that moves onto this library, and what it is compiled with.
//!
//! The folders are those of a prefix such as /usr/local: `bin`, `include`, `lib` with the debug information of all binaries by
//! their build ids in `lib/debug`, and `share` with manual pages, what shells need to complete options, and the programmer's guide as a book.
//! `linker` makes the libraries, `symbols` takes the binaries apart.

use std::error::Error;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf, absolute};
use std::process::{Command, Stdio};

use oxifabric_trials::repository;

use crate::cargo::{cargo, run, target};
use crate::{linker, symbols};

/// The program that is laid out, and its other names: under each it is another program.
const PROGRAM: &str = "oxi";
const LINKS: [&str; 4] = ["fi_info", "fi_mon_sampler", "fi_pingpong", "fi_strerror"];

/// Functions begin a cache line. Otherwise a change anywhere moves those of the data path, and 8 bytes over shm take up to 10 in a hundred more or less.
const ALIGNED_FUNCTIONS: &str = "-C llvm-args=-align-all-functions=6";

/// Where the guide is laid out.
const GUIDE: &str = "share/doc/oxifabric/guide";

/// Shells, the folders in `share` in which they look for completions of a program, and what is before and behind its name there.
const COMPLETIONS: [(&str, &str, &str, &str); 3] = [
    ("bash", "bash-completion/completions", "", ""),
    ("zsh", "zsh/site-functions", "_", ""),
    ("fish", "fish/vendor_completions.d", "", ".fish"),
];

/// The version that the library reports, which pkg-config and Debian's packages compare.
pub(crate) const VERSION: &str = "2.7.0";

/// Builds the library and the tools and lays them out in `out`, by default `target/dist`.
///
/// # Errors
/// A build failed, or the folder cannot be written.
pub fn dist(out: Option<PathBuf>, profile: &str) -> Result<PathBuf, Box<dyn Error>> {
    let out = match out {
        Some(out) => out,
        None => fresh(target().join("dist"))?,
    };
    for binary in lay_out(profile, &out)? {
        symbols::move_out(&binary, &out.join("lib/debug"))?;
    }
    Ok(out)
}

/// The same in a folder that is emptied first, with the debug information still in the binaries: the tools of a distribution take
/// it out by themselves.
pub(crate) fn with_debug_information(out: PathBuf, profile: &str) -> Result<(), Box<dyn Error>> {
    lay_out(profile, &fresh(out)?)?;
    Ok(())
}

/// Fills the folder and returns the binaries in it.
fn lay_out(profile: &str, out: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let build = Build { profile };
    let (lib, bin) = (out.join("lib"), out.join("bin"));
    for folder in ["pkgconfig", "libfabric"] {
        fs::create_dir_all(lib.join(folder))?;
    }
    fs::create_dir_all(&bin)?;
    let archive = build.archive("--no-default-features --features plugin")?;
    let plugin = linker::shared(&archive, &linker::PLUGIN, &lib)?;
    let archive = build.archive("--features export")?;
    let library = linker::shared(&archive, &linker::LIBRARY, &lib)?;
    linker::static_library(&archive, &lib)?;
    // The name that linkers look for.
    link("libfabric.so.1", &lib.join("libfabric.so"))?;
    fs::write(lib.join("pkgconfig/libfabric.pc"), pkg_config())?;
    copy(
        &repository().join("crates/abi/include"),
        &out.join("include"),
    )?;
    build.tools(&out.join("share/man"))?;
    build.completions(&out.join("share"))?;
    // What this prints is the folder of the layout and nothing else.
    run(book(Some(out.join(GUIDE))).stdout(Stdio::null()))?;
    let program = bin.join(PROGRAM);
    fs::copy(build.artifacts().join(PROGRAM), &program)?;
    for name in LINKS {
        link(PROGRAM, &bin.join(name))?;
    }
    Ok(vec![plugin, library, program])
}

/// Makes a link, in place of what has its name.
fn link(to: &str, name: &Path) -> io::Result<()> {
    if name.symlink_metadata().is_ok() {
        fs::remove_file(name)?;
    }
    symlink(to, name)
}

/// What cargo builds, and where.
struct Build<'a> {
    profile: &'a str,
}

impl Build<'_> {
    /// Builds the static archive with these features, of which one says which C symbols are in it.
    fn archive(&self, features: &str) -> Result<PathBuf, Box<dyn Error>> {
        let package = "--package oxifabric-libfabric --lib --crate-type staticlib";
        self.cargo(
            "rustc",
            &format!("{package} {features} -- {ALIGNED_FUNCTIONS}"),
        )?;
        Ok(self.artifacts().join("liboxifabric_libfabric.a"))
    }

    /// Builds the tools, and has them write their manual pages.
    fn tools(&self, manual: &Path) -> Result<(), Box<dyn Error>> {
        self.cargo("build", "--package oxifabric-tools --bin oxi")?;
        let mut writer = Command::new(self.artifacts().join(PROGRAM));
        run(writer.arg("man").arg(manual))
    }

    /// Has the tools write what shells need to complete their options.
    fn completions(&self, share: &Path) -> Result<(), Box<dyn Error>> {
        for (shell, folder, before, behind) in COMPLETIONS {
            let folder = share.join(folder);
            fs::create_dir_all(&folder)?;
            for name in LINKS.into_iter().chain([PROGRAM]) {
                let file = fs::File::create(folder.join(format!("{before}{name}{behind}")))?;
                let mut writer = Command::new(self.artifacts().join(PROGRAM));
                run(writer.args(["completions", shell, name]).stdout(file))?;
            }
        }
        Ok(())
    }

    fn cargo(&self, subcommand: &str, options: &str) -> Result<(), Box<dyn Error>> {
        let mut command = cargo(subcommand);
        command.args(["--profile", self.profile]);
        run(command.args(options.split_ascii_whitespace()))
    }

    /// Returns the folder that cargo writes this profile to.
    fn artifacts(&self) -> PathBuf {
        target().join(match self.profile {
            "dev" | "test" => "debug",
            "bench" => "release",
            other => other,
        })
    }
}

/// Empties a folder of this project, so that nothing of an earlier layout is taken for a part of the next.
pub(crate) fn fresh(folder: PathBuf) -> io::Result<PathBuf> {
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// Returns the command that makes a book of the guide, in a folder or in `target/guide`: its package alone knows how that is done.
#[must_use]
pub fn book(out: Option<PathBuf>) -> Command {
    let mut command = cargo("run --quiet --package oxifabric-guide --bin guide --features book --");
    command.args(out.map(|out| absolute(&out).unwrap_or(out)));
    command
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
         Libs.private: {}\n\
         Cflags: -I${{includedir}}\n",
        linker::SYSTEM_LIBRARIES
    )
}

/// Copies what is in a folder, with the folders in it.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), Box<dyn Error>> {
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
