//! Which symbols the library has, under which versions, and what it needs.

use std::collections::BTreeSet;
use std::process::Command;

use crate::library;

/// Every exported function with its older versions and its newest.
const EXPORTS: [(&str, &[&str], &str); 17] = [
    (
        "fi_getinfo",
        &["1.0", "1.1", "1.2", "1.3", "1.7", "1.8", "1.9"],
        "1.10",
    ),
    (
        "fi_freeinfo",
        &["1.0", "1.1", "1.2", "1.3", "1.7", "1.8", "1.9"],
        "1.10",
    ),
    (
        "fi_dupinfo",
        &["1.0", "1.1", "1.2", "1.3", "1.7", "1.8", "1.9"],
        "1.10",
    ),
    ("fi_fabric", &["1.0"], "1.1"),
    ("fi_fabric2", &[], "1.8"),
    ("fi_version", &[], "1.0"),
    ("fi_strerror", &[], "1.0"),
    ("fi_tostr", &[], "1.0"),
    ("fi_tostr_r", &[], "1.4"),
    ("fi_open", &[], "1.5"),
    ("fi_log", &[], "1.0"),
    ("fi_log_enabled", &[], "1.0"),
    ("fi_log_ready", &[], "1.6"),
    ("fi_param_define", &[], "1.0"),
    ("fi_param_get", &[], "1.0"),
    ("fi_getparams", &[], "1.0"),
    ("fi_freeparams", &[], "1.0"),
];

/// What `readelf` of binutils, which comes with every C compiler, prints of the library.
fn readelf(option: &str) -> String {
    let output = Command::new("readelf")
        .args(["--wide", option])
        .arg(library::path())
        .output()
        .expect("readelf is installed");
    assert!(output.status.success());
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn exactly_these_functions_are_exported_under_all_their_versions() {
    let table = readelf("--dyn-syms");
    let found: BTreeSet<String> = table
        .lines()
        .filter(|line| line.contains(" FUNC ") && !line.contains(" UND "))
        .filter_map(|line| line.split_whitespace().nth(7))
        .map(str::to_owned)
        .collect();
    let mut expected = BTreeSet::new();
    for (name, older, newest) in EXPORTS {
        expected.insert(format!("{name}@@FABRIC_{newest}"));
        expected.extend(
            older
                .iter()
                .map(|version| format!("{name}@FABRIC_{version}")),
        );
    }
    assert_eq!(found, expected);
}

#[test]
fn nothing_but_functions_and_versions_is_exported() {
    let table = readelf("--dyn-syms");
    for line in table
        .lines()
        .filter(|line| line.contains(" GLOBAL DEFAULT "))
    {
        let is_version = line.contains(" ABS ") && line.contains("FABRIC_1.");
        let known = line.contains(" UND ") || line.contains(" fi_") || is_version;
        assert!(known, "{line}");
    }
}

#[test]
fn every_version_is_defined_on_top_of_the_one_before() {
    let info = readelf("--version-info");
    for minor in 0..11 {
        assert!(
            info.contains(&format!("Name: FABRIC_1.{minor}\n")),
            "{info}"
        );
    }
    let parents = info.matches("Parent 1: FABRIC_1.").count();
    assert_eq!(parents, 10, "{info}");
}

#[test]
fn the_library_has_the_name_that_programs_ask_for() {
    let dynamic = readelf("--dynamic");
    assert!(
        dynamic.contains("Library soname: [libfabric.so.1]"),
        "{dynamic}"
    );
    assert!(
        dynamic.contains("BIND_NOW") || dynamic.contains("NOW"),
        "{dynamic}"
    );
}

#[test]
fn nothing_is_needed_but_the_c_library() {
    let dynamic = readelf("--dynamic");
    let needed = dynamic.lines().filter(|line| line.contains("(NEEDED)"));
    for line in needed {
        let of_libc = ["libc.so.", "libgcc_s.so.", "libm.so.", "ld-linux"];
        assert!(of_libc.iter().any(|name| line.contains(name)), "{line}");
    }
}

#[test]
fn the_linker_finds_the_library_by_its_short_name() {
    let link = library::folder().join("libfabric.so");
    assert_eq!(
        std::fs::read_link(link).expect("a link").to_str(),
        Some("libfabric.so.1")
    );
}

#[test]
fn pkg_config_describes_the_library_wherever_it_lies() {
    let file = library::folder().join("pkgconfig/libfabric.pc");
    let text = std::fs::read_to_string(file).expect("the file is laid out");
    assert!(text.contains("prefix=${pcfiledir}/../.."), "{text}");
    assert!(text.contains("Version: 2.7.0"), "{text}");
    assert!(text.contains("-lfabric"), "{text}");
}
