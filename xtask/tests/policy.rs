//! Rules of the repository that no compiler knows, each with the part of ARCHITECTURE.md that states it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use oxifabric_trials::repository;

/// Which other crates each crate may import ("Crates").
const IMPORTS: &[(&str, &[&str])] = &[
    ("types", &[]),
    ("abi", &["types"]),
    ("info", &["types", "abi"]),
    ("wire", &["types"]),
    ("sync", &[]),
    ("mem", &["types"]),
    ("collectives", &[]),
    ("ibv", &["types", "mem"]),
    ("engine", &["types", "mem", "collectives"]),
    ("reliable", &["types", "wire", "mem", "engine"]),
    ("tcp-stream", &["types", "wire", "mem", "engine"]),
    ("provider", &["types", "abi", "mem", "engine", "reliable"]),
    (
        "core",
        &[
            "types",
            "abi",
            "info",
            "sync",
            "mem",
            "collectives",
            "engine",
            "provider",
        ],
    ),
    (
        "tcp",
        &[
            "types",
            "wire",
            "sync",
            "mem",
            "engine",
            "tcp-stream",
            "provider",
        ],
    ),
    (
        "shm",
        &["types", "wire", "sync", "mem", "engine", "provider"],
    ),
    (
        "udp",
        &[
            "types", "wire", "sync", "mem", "engine", "reliable", "provider",
        ],
    ),
    (
        "sim",
        &[
            "types", "wire", "sync", "mem", "engine", "reliable", "provider",
        ],
    ),
    (
        "efa",
        &["types", "wire", "mem", "ibv", "engine", "provider"],
    ),
    (
        "libfabric",
        &[
            "types", "abi", "provider", "core", "tcp", "shm", "udp", "sim", "efa",
        ],
    ),
    (
        "oxifabric",
        &["types", "abi", "provider", "core", "libfabric"],
    ),
    ("bench", &["oxifabric"]),
    ("tools", &["oxifabric", "types", "bench"]),
    ("softnic", &[]),
    ("fixtures", &["abi", "libfabric"]),
    ("conformance", &["abi", "fixtures", "libfabric"]),
    ("campaign", &[]),
    ("comparison", &["bench", "trials", "packaging"]),
    ("headers", &[]),
    (
        "fuzz",
        &[
            "types",
            "abi",
            "wire",
            "sync",
            "mem",
            "collectives",
            "engine",
            "reliable",
            "provider",
            "core",
            "tcp",
            "shm",
            "libfabric",
            "kernel-blk",
        ],
    ),
];

/// Crates that run anywhere, also where there is no operating system ("Crates").
const FREESTANDING: [&str; 7] = [
    "types",
    "wire",
    "mem",
    "collectives",
    "engine",
    "reliable",
    "tcp-stream",
];

/// Crates and the files in them that may contain `unsafe` ("Unsafe code"); an empty list means all files.
const UNSAFE: &[(&str, &[&str])] = &[
    ("abi", &[]),
    ("info", &[]),
    ("sync", &[]),
    ("mem", &[]),
    (
        "provider",
        &[
            "clock",
            "descriptors",
            "environment",
            "handles",
            "inet",
            "quiet_thread",
            "secret",
            "syscall",
            "timer",
        ],
    ),
    ("core", &[]),
    ("libfabric", &[]),
    ("tcp", &["sys"]),
    ("shm", &["sys"]),
    ("udp", &["sys"]),
    ("efa", &["sys"]),
    ("sim", &["sys"]),
    ("oxifabric", &["raw"]),
    ("ibv", &["sys"]),
    ("softnic", &["exports", "memory", "sys"]),
    // A C program in all but the language.
    ("fixtures", &[]),
    ("conformance", &[]),
    // The same, with pointers to whatever libFuzzer makes up.
    ("fuzz", &[]),
];

#[test]
fn nothing_depends_on_a_c_libfabric() {
    let tree = cargo(&[
        "tree",
        "--workspace",
        "--edges",
        "all",
        "--prefix",
        "none",
        "--format",
        "{p}",
    ]);
    let foreign = |name: &&str| name.contains("fabric") && !name.starts_with("oxifabric");
    let packages = tree.lines().filter_map(|line| line.split(' ').next());
    let found: BTreeSet<&str> = packages.filter(foreign).collect();
    assert!(found.is_empty(), "{found:?}");
    let metadata = cargo(&["metadata", "--format-version", "1"]);
    assert!(
        !metadata.contains(r#""links":"fabric""#),
        "a package links the C libfabric"
    );
    for (file, text) in crate_sources() {
        let links = [r#"link(name = "fabric""#, "rustc-link-lib=fabric"];
        let linked = links.iter().any(|link| text.contains(link));
        assert!(!linked, "{} links the C libfabric", file.display());
    }
}

#[test]
fn without_its_feature_the_simulated_provider_is_no_part_of_the_library() {
    let library = ["tree", "--package", "oxifabric-libfabric"];
    let format = ["--edges", "normal", "--prefix", "none", "--format", "{p}"];
    let without: &[&str] = &["--no-default-features"];
    for (features, is_there) in [(&[][..], true), (without, false)] {
        let tree = cargo(&[library.as_slice(), &format, features].concat());
        for package in ["oxifabric-sim ", "toml ", "serde "] {
            let found = tree.lines().any(|line| line.starts_with(package));
            assert_eq!(found, is_there, "{package}with {features:?}");
        }
    }
}

#[test]
fn every_crate_imports_only_what_it_may() {
    for &(krate, allowed) in IMPORTS {
        let manifest = read(&crate_folder(krate).join("Cargo.toml"));
        let imported = imports(&manifest);
        let forbidden: Vec<_> = imported
            .iter()
            .filter(|name| !allowed.contains(&name.as_str()))
            .collect();
        assert!(forbidden.is_empty(), "{krate} imports {forbidden:?}");
    }
}

/// The crates among the dependencies of a manifest; those of tests do not count.
fn imports(manifest: &str) -> Vec<String> {
    let (_, rest) = manifest
        .split_once("\n[dependencies]\n")
        .unwrap_or_default();
    let section = rest.split("\n[").next().unwrap_or_default();
    let names = section
        .lines()
        .filter_map(|line| line.split(['.', ' ', '=']).next());
    let crates = names.filter_map(|name| match name {
        "oxifabric" => Some("oxifabric"),
        _ => name.strip_prefix("oxifabric-"),
    });
    crates.map(str::to_owned).collect()
}

#[test]
fn freestanding_crates_know_no_operating_system() {
    for krate in FREESTANDING {
        let root = read(&crate_folder(krate).join("src/lib.rs"));
        assert!(root.contains("#![no_std]"), "{krate} is not no_std");
        let folder = crate_folder(krate).join("src");
        for (file, text) in sources(&folder) {
            let code = without_tests(file.strip_prefix(&folder).unwrap_or(&file), &text);
            for word in [
                "std::",
                "extern crate std",
                "libc::",
                "Instant::now",
                "SystemTime",
                "env!(",
            ] {
                assert!(!mentions(&code, word), "{} uses {word}", file.display());
            }
        }
    }
}

#[test]
fn unsafe_code_stays_in_its_crates() {
    for krate in [
        "types",
        "wire",
        "collectives",
        "engine",
        "reliable",
        "bench",
        "tools",
        "trials",
    ] {
        let root = read(&crate_folder(krate).join("src/lib.rs"));
        assert!(
            root.contains("#![forbid(unsafe_code)]"),
            "{krate} does not forbid unsafe code"
        );
    }
    for &(krate, parts) in UNSAFE {
        let folder = crate_folder(krate).join("src");
        for (file, text) in sources(&folder) {
            let place = file.strip_prefix(&folder).unwrap_or(&file);
            let first = place
                .components()
                .next()
                .map(|part| Path::new(part.as_os_str()).with_extension(""));
            let is_allowed = parts.is_empty()
                || parts
                    .iter()
                    .any(|part| first.as_deref() == Some(Path::new(part)));
            let code = without_tests(place, &text);
            let has_unsafe = ["unsafe {", "unsafe fn", "unsafe impl"]
                .iter()
                .any(|word| mentions(&code, word));
            assert!(
                is_allowed || !has_unsafe,
                "unsafe code in {}",
                file.display()
            );
        }
    }
}

#[test]
fn examples_and_guide_are_safe_but_for_the_page_about_raw_memory() {
    let allowed = ["guide/code/raw_memory.rs", "guide/src/raw-memory.md"];
    let mut found = Vec::new();
    for folder in ["crates/oxifabric/examples", "guide"] {
        for file in files(&repository().join(folder)) {
            let text = String::from_utf8_lossy(&fs::read(&file).expect("a file")).into_owned();
            if text.contains("unsafe") {
                let name = file.strip_prefix(repository()).unwrap_or(&file);
                found.push(name.display().to_string());
            }
        }
    }
    found.sort();
    assert_eq!(found, allowed);
}

/// Returns the names of all files that are committed; none where this is no work tree.
fn committed() -> Vec<String> {
    let listed = Command::new("git")
        .args(["ls-files", "-z"])
        .current_dir(repository())
        .output();
    let Some(listed) = listed.ok().filter(|output| output.status.success()) else {
        println!("SKIP: not a git work tree");
        return Vec::new();
    };
    let names = String::from_utf8_lossy(&listed.stdout).into_owned();
    names.split_terminator('\0').map(str::to_owned).collect()
}

#[test]
fn committed_text_names_no_place_of_one_machine() {
    // Where this clone lies, and where people and build machines have their homes.
    let here = format!("{}/", repository().display());
    let homes = ["home", "root", "Users"].map(|home| format!("/{home}/"));
    for name in committed() {
        let text = fs::read_to_string(repository().join(&name)).unwrap_or_default();
        for place in homes.iter().chain([&here]) {
            assert!(!text.contains(place), "{name} names {place}");
        }
    }
}

/// What others have built belongs into no repository, and what is large is hardly ever meant to be committed.
#[test]
fn what_is_committed_is_text_and_pictures() {
    const LONGEST: u64 = 1 << 20;
    for name in committed() {
        let path = repository().join(&name);
        let Ok(bytes) = fs::read(&path) else {
            continue;
        };
        let is_picture = [".png", ".svg"].iter().any(|end| name.ends_with(end));
        let is_input = name.starts_with("tests/fuzz/");
        let is_text = std::str::from_utf8(&bytes).is_ok();
        assert!(is_text || is_picture || is_input, "{name} is no text");
        assert!(bytes.len() as u64 <= LONGEST, "{name} is too large");
    }
}

/// A program of trials under libtest would pass where it cannot run, and one without libtest forgets tests with its attribute.
#[test]
fn every_program_of_trials_has_their_harness() {
    let trials = crate_folder("trials");
    let manifest = read(&trials.join("Cargo.toml"));
    for entry in fs::read_dir(trials.join("tests"))
        .expect("there are trials")
        .flatten()
    {
        let program = entry.path();
        let name = program.file_stem().unwrap_or_default().to_string_lossy();
        let listed = format!("[[test]]\nname = \"{name}\"\nharness = false\n");
        assert!(manifest.contains(&listed), "{name} is not in the manifest");
        let root = read(&if program.is_dir() {
            program.join("main.rs")
        } else {
            program.clone()
        });
        for line in [
            "#[macro_use]\nextern crate oxifabric_trials;\n",
            "oxifabric_trials::harness::main()",
        ] {
            assert!(root.contains(line), "{name} lacks {line}");
        }
    }
}

#[test]
fn crates_that_judge_are_not_published() {
    for krate in fs::read_dir(repository().join("tests"))
        .expect("there are tests")
        .flatten()
    {
        let manifest = read(&krate.path().join("Cargo.toml"));
        assert!(manifest.contains("\npublish = false"), "{krate:?}");
    }
}

/// The packages that are meant to be published, by what their manifests do not say.
fn published() -> Vec<String> {
    let folders = fs::read_dir(repository().join("crates")).expect("there are crates");
    let manifests = folders
        .flatten()
        .map(|krate| read(&krate.path().join("Cargo.toml")));
    let published = manifests.filter(|manifest| !manifest.contains("\npublish = false"));
    let names = published.filter_map(|manifest| {
        let rest = manifest.split_once("name = \"")?.1;
        Some(rest.split_once('"')?.0.to_owned())
    });
    names.collect()
}

/// What cargo would upload: each package is complete by itself, and cargo misses nothing in its manifest.
#[test]
fn what_is_published_is_packed_without_a_warning() {
    let names = published();
    assert!(
        names.iter().any(|name| name == "oxifabric-tools"),
        "{names:?}"
    );
    let mut pack = cargo_command(&["package", "--offline", "--no-verify", "--allow-dirty"]);
    // A target folder of its own: other tests run meanwhile.
    pack.args([
        "--target-dir",
        concat!(env!("CARGO_TARGET_TMPDIR"), "/packed"),
    ]);
    for name in &names {
        pack.args(["--package", name]);
    }
    let output = pack.output().expect("cargo runs, it has started this test");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && !said.contains("warning"),
        "{said}"
    );
}

fn cargo_command(args: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(args).current_dir(repository());
    command
}

fn cargo(args: &[&str]) -> String {
    let output = cargo_command(args).output();
    let output = output.expect("cargo runs, it has started this test");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The folder of a crate, among those that ship or those that judge.
fn crate_folder(krate: &str) -> PathBuf {
    let places = ["crates", "tests"].map(|place| repository().join(place).join(krate));
    let there = places.iter().find(|place| place.is_dir());
    there.unwrap_or_else(|| panic!("no crate {krate}")).clone()
}

fn crate_sources() -> Vec<(PathBuf, String)> {
    let places = ["crates", "tests"].map(|place| sources(&repository().join(place)));
    places.into_iter().flatten().collect()
}

/// All Rust files under a folder.
fn sources(folder: &Path) -> Vec<(PathBuf, String)> {
    let is_rust = |file: &PathBuf| file.extension().is_some_and(|extension| extension == "rs");
    let rust = files(folder).into_iter().filter(is_rust);
    rust.map(|file| (file.clone(), read(&file))).collect()
}

/// All files under a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).expect("the krate has a folder");
        let paths = entries.flatten().map(|entry| entry.path());
        let (inner, files): (Vec<_>, Vec<_>) = paths.partition(|path| path.is_dir());
        folders.extend(inner);
        found.extend(files);
    }
    found
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The code before the tests, which are last in a file or have files of their own, and without what is there
/// for tests only. The file is named from the crate's `src`.
fn without_tests(file: &Path, text: &str) -> String {
    let is_tests = file.components().any(|part| {
        let name = Path::new(part.as_os_str()).with_extension("");
        name == Path::new("tests")
    });
    if is_tests {
        return String::new();
    }
    let code = text
        .split("#[cfg(test)]\nmod tests")
        .next()
        .unwrap_or_default();
    code.replace("#[cfg(test)]\nextern crate std;", "")
}

/// Whether the code has the word outside comments.
fn mentions(code: &str, word: &str) -> bool {
    let uncommented = code
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    uncommented.into_iter().any(|line| line.contains(word))
}

/// Every path that docs/where-to-change.md names is there.
#[test]
fn places_that_are_named_to_newcomers_exist() {
    let text = read(&repository().join("docs/where-to-change.md"));
    let named: Vec<&str> = text.split('`').skip(1).step_by(2).collect();
    let paths = (named.iter()).filter(|path| path.contains('/') && !path.contains("NAME"));
    let missing: Vec<_> = (paths.clone())
        .filter(|path| !repository().join(path).exists())
        .collect();
    assert!(paths.count() > 20 && missing.is_empty(), "{missing:?}");
}
