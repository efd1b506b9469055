//! What holds for every page: it is in the summary, its code comes from files that tests compile, and its links lead somewhere.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Languages whose blocks are compiled, so that they have to come from files.
const COMPILED: [&str; 2] = ["c", "rust"];

fn guide() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// All pages, with their names under `src`.
fn pages() -> Vec<(String, String)> {
    let mut pages: Vec<_> = fs::read_dir(guide().join("src"))
        .expect("the guide has pages")
        .map(|entry| entry.expect("the folder can be read").path())
        .filter(|path| path.extension().is_some_and(|end| end == "md"))
        .map(|path| (name_of(&path), read(&path)))
        .collect();
    pages.sort();
    assert!(pages.len() > 1, "there are no pages");
    pages
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// A part of a page: prose, or a block with its language.
enum Part<'a> {
    Prose(&'a str),
    Block {
        language: &'a str,
        lines: Vec<&'a str>,
    },
}

fn parts(page: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        match line.strip_prefix("```") {
            None => parts.push(Part::Prose(line)),
            Some(info) => parts.push(Part::Block {
                language: info.split([',', ' ']).next().unwrap_or_default(),
                lines: lines
                    .by_ref()
                    .take_while(|line| !line.starts_with("```"))
                    .collect(),
            }),
        }
    }
    parts
}

#[test]
fn every_page_is_in_the_summary() {
    let pages = pages();
    let (_, summary) = pages
        .iter()
        .find(|(name, _)| name == "SUMMARY.md")
        .expect("there is a summary");
    let listed: BTreeSet<&str> = targets(summary).collect();
    let present = pages.iter().map(|(name, _)| name.as_str());
    let present: BTreeSet<&str> = present.filter(|name| *name != "SUMMARY.md").collect();
    assert_eq!(listed, present);
}

#[test]
fn every_page_says_something_under_every_heading() {
    for (name, page) in pages() {
        let mut empty = None;
        for part in parts(&page) {
            match part {
                Part::Prose(line) if line.starts_with('#') => {
                    let deeper = |last: &str| level(line) > level(last);
                    assert!(empty.is_none_or(deeper), "{name}: nothing under {empty:?}");
                    empty = Some(line);
                }
                Part::Prose(line) if line.trim().is_empty() => {}
                _ => empty = None,
            }
        }
        assert_eq!(empty, None, "{name}");
    }
}

fn level(heading: &str) -> usize {
    heading.len() - heading.trim_start_matches('#').len()
}

#[test]
fn code_comes_from_files_that_are_compiled() {
    let mut included = BTreeSet::new();
    for (name, page) in pages() {
        for part in parts(&page) {
            let Part::Block { language, lines } = part else {
                continue;
            };
            assert!(!language.is_empty(), "{name}: a block without a language");
            if !COMPILED.contains(&language) {
                continue;
            }
            assert!(!lines.is_empty(), "{name}: an empty block of {language}");
            for line in lines.into_iter().filter(|line| !line.is_empty()) {
                let (file, anchor) = include(line).unwrap_or_else(|| {
                    panic!("{name}: code in a block of {language} that no test compiles: {line}")
                });
                included.insert(expect_anchor(&name, file, anchor));
            }
        }
    }
    // What no page shows need not be here.
    for entry in fs::read_dir(guide().join("code")).expect("the guide has code") {
        let file = entry.expect("the folder can be read").path();
        let is_shown = included.contains(&file) || file.ends_with("fragments.rs");
        assert!(
            file.is_dir() || is_shown,
            "no page shows {}",
            file.display()
        );
    }
}

/// The file and the anchor of `{{#include ../code/FILE:ANCHOR}}`.
fn include(line: &str) -> Option<(&str, Option<&str>)> {
    let place = line.strip_prefix("{{#include ../code/")?;
    let place = place.strip_suffix("}}")?;
    Some(match place.split_once(':') {
        Some((file, anchor)) => (file, Some(anchor)),
        None => (place, None),
    })
}

/// Asserts that the file has the anchor, and returns the file.
fn expect_anchor(page: &str, file: &str, anchor: Option<&str>) -> PathBuf {
    let path = guide().join("code").join(file);
    let text = read(&path);
    for word in ["ANCHOR", "ANCHOR_END"] {
        let Some(anchor) = anchor else { continue };
        let mark = format!("{word}: {anchor}");
        let marks = text.lines().filter(|line| {
            let comment = line.trim().trim_start_matches(['/', '*', ' ']);
            comment.trim_end_matches(['/', '*', ' ']) == mark
        });
        assert_eq!(marks.count(), 1, "{page}: {file} has not one \"{mark}\"");
    }
    path
}

#[test]
fn links_lead_somewhere() {
    let pages = pages();
    for (name, page) in &pages {
        for part in parts(page) {
            let Part::Prose(line) = part else { continue };
            for target in targets(line) {
                expect_target(&pages, name, target);
            }
        }
    }
}

fn expect_target(pages: &[(String, String)], name: &str, target: &str) {
    if target.starts_with("https://") {
        return;
    }
    if target.ends_with(".svg") {
        let picture = guide().join("src").join(target);
        assert!(picture.exists(), "{name}: no picture {target}");
        return;
    }
    let (page, anchor) = match target.split_once('#') {
        Some((page, anchor)) => (page, Some(anchor)),
        None => (target, None),
    };
    let page = if page.is_empty() { name } else { page };
    let found = pages.iter().find(|(other, _)| other == page);
    let Some((_, text)) = found else {
        panic!("{name}: no page {page} for the link {target}");
    };
    let Some(anchor) = anchor else { return };
    let headings = parts(text).into_iter().filter_map(|part| match part {
        Part::Prose(line) if line.starts_with('#') => Some(identifier(line)),
        _ => None,
    });
    let headings: Vec<_> = headings.collect();
    assert!(
        headings.iter().any(|heading| heading == anchor),
        "{name}: {page} has no heading #{anchor}, but {headings:?}"
    );
}

/// What stands in the parentheses of links. Code in a line has none.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    text.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
}

/// How mdBook names a heading.
fn identifier(heading: &str) -> String {
    heading
        .trim_start_matches('#')
        .trim()
        .chars()
        .filter_map(|letter| match letter {
            ' ' => Some('-'),
            '_' | '-' => Some(letter),
            _ if letter.is_alphanumeric() => Some(letter.to_ascii_lowercase()),
            _ => None,
        })
        .collect()
}
