//! What `cargo xtask dist` lays out beside the shared library: the static one, programs, debug information, manual pages.

#[macro_use]
extern crate oxifabric_trials;

use std::fs;
use std::path::{Path, PathBuf};

use oxifabric_trials::source::{Compiled, compile};
use oxifabric_trials::{
    Library, Missing, Program, Scratch, harness, installed, pair, repository, require,
};

fn main() -> std::process::ExitCode {
    oxifabric_trials::harness::main()
}

/// Returns the folder with `bin`, `lib` and `share`.
fn layout() -> Result<PathBuf, Missing> {
    let library = Library::under_test()?;
    let layout = library.folder().join("..");
    if !layout.join("bin/oxi").exists() {
        return Err(Missing("the library under test came without oxi".into()));
    }
    Ok(layout)
}

/// Returns what `readelf` says of a file.
fn readelf(options: &str, file: &Path) -> Result<String, Missing> {
    let program = Program::new(installed("readelf")?).line(options);
    let outcome = program.args([file]).run();
    outcome.expect_success();
    Ok(outcome.stdout)
}

fn binaries(layout: &Path) -> Vec<PathBuf> {
    let programs = fs::read_dir(layout.join("bin")).expect("the layout has programs");
    let mut found: Vec<_> = programs.flatten().map(|entry| entry.path()).collect();
    found.push(layout.join("lib/libfabric.so.1"));
    found.push(layout.join("lib/libfabric/liboxifabric-fi.so"));
    found
}

#[test]
fn debug_information_lies_beside_the_binaries() {
    let layout = require!(layout());
    for binary in binaries(&layout) {
        let sections = require!(readelf("-SW", &binary));
        // Names of functions stay: the report of a defect says by them which call it was.
        let lines = " .debug_line ";
        assert!(!sections.contains(lines), "{}", binary.display());
        let notes = require!(readelf("-n", &binary));
        let id = notes.split_once("Build ID: ");
        let id = id.expect("it has a build id").1.trim();
        let place = format!("lib/debug/.build-id/{}/{}.debug", &id[..2], &id[2..]);
        let debug = require!(readelf("-SW", &layout.join(&place)));
        assert!(debug.contains(" .debug_line "), "{place}");
    }
}

#[test]
fn the_guide_can_be_read_in_a_browser() {
    let layout = require!(layout());
    let pages = repository().join("guide/src");
    let book = layout.join("share/doc/oxifabric/guide");
    let summary = fs::read_to_string(pages.join("SUMMARY.md")).expect("the guide has a summary");
    let names = summary.split("](").skip(1);
    let names = names.filter_map(|rest| rest.split_once(".md)").map(|(name, _)| name));
    let mut count = 0;
    for name in names {
        let page = fs::read_to_string(book.join(name).with_extension("html"));
        let page = page.unwrap_or_else(|error| panic!("{name}: {error}"));
        let source = fs::read_to_string(pages.join(name).with_extension("md"));
        let source = source.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(
            page.matches("class=\"language-c\"").count(),
            source.matches("\n```c\n").count(),
            "{name}"
        );
        count += 1;
    }
    assert!(count > 10, "{count}");
}

#[test]
fn the_static_library_defines_the_interface_and_nothing_else() {
    let layout = require!(layout());
    let symbols = require!(readelf("-sW", &layout.join("lib/libfabric.a")));
    let exported: Vec<&str> = symbols
        .lines()
        .filter_map(|line| {
            let words: Vec<_> = line.split_ascii_whitespace().collect();
            let [.., bind, _, index, name] = words[..] else {
                return None;
            };
            (bind != "LOCAL" && index != "UND" && line.contains(" FUNC ")).then_some(name)
        })
        .collect();
    assert!(exported.contains(&"fi_getinfo"), "{exported:?}");
    let foreign: Vec<_> = exported
        .iter()
        .filter(|name| !name.starts_with("fi_") || name.contains('@'))
        .collect();
    assert!(foreign.is_empty(), "{foreign:?}");
}

/// Compiles a program as pkg-config says that one is linked with the static library.
fn linked_statically(extra: &str) -> Result<Compiled, Missing> {
    let layout = layout()?;
    let answer = Program::new(installed("pkg-config")?)
        .env("PKG_CONFIG_PATH", layout.join("lib/pkgconfig"))
        .line("--cflags --libs --static libfabric")
        .run();
    answer.expect_success();
    // In a folder with both, linkers take the shared library unless they are told otherwise.
    let options = answer.stdout.replace("-lfabric", "-l:libfabric.a");
    let options: Vec<_> = options.split_whitespace().chain([extra]).collect();
    Ok(compile("volley", &installed("cc")?, &options))
}

/// Runs the two sides of a program that needs no library of ours any more.
fn play(program: &Compiled, provider: &str) {
    let meeting = Scratch::new();
    let start = |role| {
        let line = format!("{provider} {} {role}", meeting.path().display());
        Program::new(program.file()).line(&line).start()
    };
    let (answerer, asker) = (start("answerer"), start("asker"));
    fs::write(meeting.join("stop"), "").expect("the meeting place is writable");
    let (answerer, asker) = pair::wait_both(answerer, asker);
    answerer.expect_success().expect_stdout(" 0 wrong\n");
    asker.expect_success().expect_stdout(" 0 wrong\n");
}

#[test]
fn a_program_with_the_static_library_plays_over_every_provider() {
    let program = require!(linked_statically("-O1"));
    for provider in ["tcp", "shm", "udp;ofi_rxd"] {
        play(&program, provider);
    }
}

#[test]
fn a_program_without_any_shared_library_plays_too() {
    if !Path::new("/usr/lib/gcc").exists() {
        let missing = "gcc with its static libraries is not installed";
        return harness::skip(Missing(missing.into()));
    }
    let program = require!(linked_statically("-static"));
    for provider in ["tcp", "shm"] {
        play(&program, provider);
    }
}

#[test]
fn every_program_has_completions_where_shells_look_for_them() {
    let layout = require!(layout());
    for program in fs::read_dir(layout.join("bin")).expect("there are programs") {
        let name = program.expect("an entry").file_name();
        let name = name.to_string_lossy();
        let places = [
            format!("bash-completion/completions/{name}"),
            format!("zsh/site-functions/_{name}"),
            format!("fish/vendor_completions.d/{name}.fish"),
        ];
        for place in places {
            let script = fs::read_to_string(layout.join("share").join(&place)).expect(&place);
            assert!(script.contains(&*name), "{place}");
        }
        let script = layout.join(format!("share/bash-completion/completions/{name}"));
        let check = format!("source '{}' && complete -p {name}", script.display());
        let outcome = Program::new("bash").args(["-c", &check]).run();
        outcome.expect_success();
    }
}

#[test]
fn every_program_has_a_manual_page_that_formats_without_a_warning() {
    let layout = require!(layout());
    let pages = layout.join("share/man");
    for program in fs::read_dir(layout.join("bin")).expect("there are programs") {
        let name = program.expect("an entry").file_name();
        let page = pages.join(format!("man1/{}.1", name.to_string_lossy()));
        assert!(page.is_file(), "{}", page.display());
    }
    let man = require!(installed("man"));
    for folder in ["man1", "man7"] {
        for page in fs::read_dir(pages.join(folder)).expect("there are pages") {
            let page = page.expect("an entry").path();
            let outcome = Program::new(&man)
                .line("--warnings -E UTF-8 -l -Tutf8 -Z")
                .args([&page])
                .env("MANROFFSEQ", "")
                .env("MANWIDTH", "80")
                .run();
            outcome.expect_success();
            assert!(outcome.stderr.is_empty(), "{outcome}");
        }
    }
}
