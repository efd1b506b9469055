//! The headers of this project, `include/rdma`: that they say what the Rust definitions say, that no compiler has anything
//! to say about them, and that a program written for the installed headers finds there what it knows.

use crate::compiled::{Folder, HEADERS, PROVIDERS, expect_equal, has_compiler, succeed};
use crate::recorded::{number, rows};
use crate::structures::Place;
use crate::{constants, debian, structures};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

const INCLUDE: &str = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/include");

/// Names of 1.17 that are not in these headers of 2.7; `fi_peer_av` and `fi_peer_av_set` are slips there for `fid_peer_...`.
#[rustfmt::skip]
const GONE: [&str; 14] = [
    "FI_BUFFERED_RECV", "FI_DEPRECATED_FIELD", "FI_DEPRECATED_FUNC", "FI_EP_SOCK_DGRAM", "FI_LOG_MAX",
    "FI_LOG_SUBSYS_MAX", "FI_PATH_MAX", "FI_PRIORITY", "FI_PROV_SPECIFIC", "FI_VERSION_MAX", "FI_XPU_TRIGGER",
    "fi_mr_mode", "fi_peer_av", "fi_peer_av_set",
];

macro_rules! require {
    ($needed:expr) => {
        if let Err(reason) = $needed {
            println!("SKIP: C headers: {reason}");
            return;
        }
    };
}

#[test]
fn structures_and_constants_are_those_of_rust() {
    require!(has_compiler("cc"));
    expect_equal(
        &[INCLUDE],
        &HEADERS,
        &structures::current(),
        &constants::current(),
    );
}

/// Headers of providers that are not here, which have no Rust definitions: the tables are those of the C library's.
#[test]
fn headers_of_other_providers_lay_out_what_theirs_do() {
    require!(has_compiler("cc"));
    for header in PROVIDERS {
        let of_header = |row: &Vec<&str>| row[0] == header;
        let places: Vec<Place> = rows(include_str!("../layout-providers.tsv"))
            .filter(of_header)
            .map(|row| Place {
                structure: row[1],
                field: row[2],
                offset: number(row[3]),
                size: number(row[4]),
            })
            .collect();
        let constants: Vec<(&str, i64)> = rows(include_str!("../constants-providers.tsv"))
            .filter(of_header)
            .map(|row| (row[1], number(row[2])))
            .collect();
        assert!(!places.is_empty() && !constants.is_empty(), "{header}");
        expect_equal(&[INCLUDE], &[header], &places, &constants);
    }
}

#[test]
fn members_with_two_names_have_both() {
    require!(has_compiler("cc"));
    let folder = Folder::new();
    let same = |of: &str, one: &str, two: &str| {
        format!(
            "_Static_assert(offsetof(struct {of}, {one}) == offsetof(struct {of}, {two}), \"\");\n"
        )
    };
    let text = String::from("#include <rdma/fi_domain.h>\n")
        + &same("fi_domain_attr", "data_progress", "progress")
        + &same("fi_mr_attr", "mr_iov", "dmabuf")
        + "const struct fi_mr_dmabuf *of(struct fi_mr_attr *attr) { return attr->dmabuf; }\n";
    let source = folder.file("names.c", &text);
    succeed(
        Command::new("cc")
            .args([INCLUDE, "-std=c11", "-Wall", "-Werror", "-fsyntax-only"])
            .arg(source),
    );
}

/// Each header alone, so that it includes what it needs.
fn expect_silence(compiler: &str, suffix: &str, options: &[&str]) {
    let folder = Folder::new();
    for header in HEADERS.into_iter().chain(PROVIDERS) {
        let text = format!("#include <rdma/{header}.h>\nint unit_is_not_empty;\n");
        let source = folder.file(&format!("alone.{suffix}"), &text);
        let strict = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"];
        succeed(
            Command::new(compiler)
                .arg(INCLUDE)
                .args(options)
                .args(strict)
                .arg(source),
        );
    }
}

#[test]
fn a_strict_c_compiler_is_silent() {
    require!(has_compiler("cc"));
    expect_silence("cc", "c", &["-std=c11", "-Wshadow"]);
}

#[test]
fn a_strict_cpp_compiler_is_silent() {
    require!(has_compiler("c++"));
    expect_silence("c++", "cc", &["-std=c++17"]);
}

#[test]
fn names_of_the_installed_headers_are_there() {
    require!(debian::headers_are_usable());
    let ours = names(&[INCLUDE]);
    let theirs = names(&[]);
    assert!(theirs.len() > 700, "{} names", theirs.len());
    let is_gone = |name: &&String| !ours.contains(*name) && !GONE.contains(&name.as_str());
    let missing: Vec<&String> = theirs.iter().filter(is_gone).collect();
    assert!(missing.is_empty(), "{missing:?}");
    // What came back is no longer gone.
    assert!(!GONE.iter().any(|name| ours.contains(*name)));
}

#[test]
fn functions_of_the_installed_headers_are_the_same() {
    require!(debian::headers_are_usable());
    let ours = prototypes(&[INCLUDE]);
    let theirs = prototypes(&[]);
    assert!(theirs.len() > 150, "{} functions", theirs.len());
    let other: Vec<&String> = theirs.difference(&ours).collect();
    assert!(other.is_empty(), "{other:#?}");
}

/// A unit with all headers that the compiler finds with these options.
fn unit(folder: &Folder, options: &[&str]) -> std::path::PathBuf {
    let is_there = |header: &&str| {
        let system = Path::new(debian::HEADER).with_file_name(format!("{header}.h"));
        !options.is_empty() || system.exists()
    };
    let includes = HEADERS.into_iter().filter(is_there);
    let text: String = includes
        .map(|header| format!("#include <rdma/{header}.h>\n"))
        .collect();
    folder.file("all.c", &text)
}

/// All words of the headers that begin as libfabric's names do, macros included.
fn names(options: &[&str]) -> BTreeSet<String> {
    let folder = Folder::new();
    let source = unit(&folder, options);
    let unfolded = succeed(
        Command::new("cc")
            .args(options)
            .args(["-E", "-dD"])
            .arg(source),
    );
    let unfolded = String::from_utf8(unfolded.stdout).expect("headers are ASCII");
    let mut names = BTreeSet::new();
    let mut is_inside = false;
    for line in unfolded.lines() {
        // `# 1 "/usr/include/rdma/fabric.h" 1 3` says where the next lines come from.
        if line.starts_with("# ") {
            is_inside = line.contains("/rdma/");
        } else if is_inside {
            let words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            let of_libfabric = |word: &&str| {
                ["FI_", "fi_", "fid"]
                    .iter()
                    .any(|start| word.starts_with(start))
            };
            names.extend(words.filter(of_libfabric).map(str::to_owned));
        }
    }
    names
}

/// The functions of the headers as GCC writes them down.
fn prototypes(options: &[&str]) -> BTreeSet<String> {
    let folder = Folder::new();
    let source = unit(&folder, options);
    let listing = folder.0.join("prototypes");
    succeed(
        Command::new("cc")
            .args(options)
            .args(["-w", "-c", "-o", "/dev/null", "-aux-info"])
            .args([&listing, &source]),
    );
    let listing = std::fs::read_to_string(listing).expect("the compiler wrote the list");
    let rows = listing.lines().filter(|row| row.contains("/rdma/"));
    // `/* file:line:kind */ prototype; /* the definition's arguments */`
    let prototype = |row: &str| {
        let (_, rest) = row.split_once("*/")?;
        let (prototype, _) = rest.split_once(';')?;
        Some(prototype.trim().to_owned())
    };
    rows.filter_map(prototype).collect()
}
