//! Programs of every release: linked against a stub of the C library of that time, run on the library under test.
//!
//! A stub has the functions of its release, each under the symbol version that was its newest then, and nothing in them. So a
//! program comes out as one that was linked in those days, and the dynamic loader has to find every version in our library.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use oxifabric_abi::compat::*;
use oxifabric_abi::*;

use crate::library;
use crate::programs::{expect_success, on_library};

/// A symbol version by its minor number, with the API of the last release that had it as its newest.
struct Release {
    minor: u32,
    api: (u32, u32),
    /// Sizes of `fi_info`, `fi_ep_attr`, `fi_domain_attr`, `fi_cq_attr` and `fi_cntr_attr`.
    sizes: [usize; 5],
}

/// Makes the rows of the table out of the mirrors of the structures.
macro_rules! releases {
    ($($minor:literal: $major:literal.$api:literal, $($structure:ident)*;)*) => {
        [$( Release {
            minor: $minor,
            api: ($major, $api),
            sizes: [$( size_of::<$structure>() ),*],
        } ),*]
    };
}

#[rustfmt::skip]
const RELEASES: [Release; 11] = releases! {
    0: 1 . 4, fi_info_1_0 fi_ep_attr_1_0 fi_domain_attr_1_0 fi_cq_attr_1_9 fi_cntr_attr_1_9;
    1: 1 . 6, fi_info_1_1 fi_ep_attr_1_1 fi_domain_attr_1_1 fi_cq_attr_1_9 fi_cntr_attr_1_9;
    2: 1 . 7, fi_info_1_2 fi_ep_attr_1_1 fi_domain_attr_1_1 fi_cq_attr_1_9 fi_cntr_attr_1_9;
    3: 1 . 12, fi_info_1_3 fi_ep_attr_1_1 fi_domain_attr_1_3 fi_cq_attr_1_9 fi_cntr_attr_1_9;
    4: 1 . 12, fi_info_1_3 fi_ep_attr_1_1 fi_domain_attr_1_3 fi_cq_attr_1_9 fi_cntr_attr_1_9;
    5: 1 . 15, fi_info_1_3 fi_ep_attr_1_1 fi_domain_attr_1_3 fi_cq_attr_1_9 fi_cntr_attr_1_9;
    6: 1 . 19, fi_info_1_3 fi_ep_attr_1_1 fi_domain_attr_1_3 fi_cq_attr_1_9 fi_cntr_attr_1_9;
    7: 1 . 22, fi_info_1_7 fi_ep_attr_1_1 fi_domain_attr_1_7 fi_cq_attr_1_9 fi_cntr_attr_1_9;
    8: 2 . 4, fi_info_1_8 fi_ep_attr_1_1 fi_domain_attr_1_8 fi_cq_attr_1_9 fi_cntr_attr_1_9;
    9: 2 . 6, fi_info_1_9 fi_ep_attr_1_1 fi_domain_attr_1_9 fi_cq_attr_1_9 fi_cntr_attr_1_9;
    10: 2 . 7, fi_info fi_ep_attr fi_domain_attr fi_cq_attr fi_cntr_attr;
};

/// The functions that the programs link, with the minor numbers of their symbol versions.
#[rustfmt::skip]
const FUNCTIONS: [(&str, &[u32]); 7] = [
    ("fi_getinfo", &[0, 1, 2, 3, 7, 8, 9, 10]),
    ("fi_freeinfo", &[0, 1, 2, 3, 7, 8, 9, 10]),
    ("fi_dupinfo", &[0, 1, 2, 3, 7, 8, 9, 10]),
    ("fi_fabric", &[0, 1]),
    ("fi_version", &[0]),
    ("fi_tostr_r", &[4]),
    ("fi_fabric2", &[8]),
];

/// Returns the version of a function that a release had as its newest, if it had the function.
fn newest(versions: &[u32], minor: u32) -> Option<u32> {
    versions
        .iter()
        .copied()
        .filter(|&version| version <= minor)
        .max()
}

impl Release {
    fn folder(&self) -> PathBuf {
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("release-1.{}", self.minor))
    }

    /// The linker script of its library: every version up to its own, with the functions that were newest in it.
    fn versions(&self) -> String {
        let mut script = String::new();
        for version in 0..=self.minor {
            let is_here = |row: &&(&str, &[u32])| newest(row.1, self.minor) == Some(version);
            let names: String = FUNCTIONS
                .iter()
                .filter(is_here)
                .map(|(name, _)| format!("{name}; "))
                .collect();
            let global = if names.is_empty() {
                String::new()
            } else {
                format!("global: {names}")
            };
            let local = if version == 0 { "local: *; " } else { "" };
            let parent = match version {
                0 => String::new(),
                _ => format!(" FABRIC_1.{}", version - 1),
            };
            let _ = writeln!(script, "FABRIC_1.{version} {{ {global}{local}}}{parent};");
        }
        script
    }

    /// Makes the stub of its library in a folder of its own, and the program linked to it.
    fn program(&self) -> PathBuf {
        let folder = self.folder();
        fs::create_dir_all(&folder).expect("the folder of the build is ours");
        let functions = FUNCTIONS
            .iter()
            .filter(|row| newest(row.1, self.minor).is_some());
        let stub: String = functions
            .map(|(name, _)| format!("void {name}(void) {{}}\n"))
            .collect();
        let (source, script) = (folder.join("stub.c"), folder.join("stub.map"));
        fs::write(&source, stub).expect("it can be written");
        fs::write(&script, self.versions()).expect("it can be written");
        compile(
            Command::new("cc")
                .args(["-shared", "-fPIC", "-Wl,-soname,libfabric.so.1"])
                .arg(format!("-Wl,--version-script={}", script.display()))
                .arg("-o")
                .args([folder.join("libfabric.so"), source]),
        );
        let program = folder.join("program");
        let names = ["INFO", "EP", "DOMAIN", "CQ", "CNTR"];
        let sizes = names.iter().zip(self.sizes);
        compile(
            Command::new("cc")
                .args(["-Wall", "-Werror", "-g"])
                .arg(format!("-DMINOR={}", self.minor))
                .arg(format!("-DAPI={}", FI_VERSION(self.api.0, self.api.1)))
                .args(sizes.map(|(name, size)| format!("-D{name}_SIZE={size}")))
                .arg("-o")
                .arg(&program)
                .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/abi/programs/release.c"))
                .arg(folder.join("libfabric.so")),
        );
        program
    }
}

#[track_caller]
fn compile(command: &mut Command) {
    let output = command.output().expect("a C compiler is installed");
    expect_success(&output);
}

/// What a program needs of the library: `fi_getinfo@FABRIC_1.9` and so on.
fn needed(program: &Path) -> String {
    let output = Command::new("readelf")
        .args(["--wide", "--dyn-syms"])
        .arg(program)
        .output()
        .expect("readelf is installed");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn programs_of_every_release_run_over_tcp_and_shm() {
    // The library is built before it is needed, not while programs are timed out.
    library::folder();
    for release in RELEASES {
        let program = release.program();
        let symbols = needed(&program);
        for (name, versions) in FUNCTIONS {
            if let Some(version) = newest(versions, release.minor) {
                let symbol = format!("{name}@FABRIC_1.{version} ");
                assert!(symbols.contains(&symbol), "{symbol}\n{symbols}");
            }
        }
        for provider in ["tcp", "shm"] {
            let mut command = on_library("timeout");
            command.args(["60"]).arg(&program).arg(provider);
            // Every version is looked up before the program begins.
            let output = command.env("LD_BIND_NOW", "1").output().expect("it runs");
            println!("FABRIC_1.{} over {provider}", release.minor);
            expect_success(&output);
        }
        let _ = fs::remove_dir_all(release.folder());
    }
}
