//! What holds for every page: it is in the summary, its code comes from files that tests compile, and its links lead somewhere.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use oxifabric_guide::{Listing, folder as guide, named, with_listings};

/// Languages whose blocks are compiled, so that they have to come from files.
const COMPILED: [&str; 2] = ["c", "rust"];

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// All pages, with their names under `src`.
fn pages() -> Vec<(String, String)> {
    let files = oxifabric_guide::pages().expect("the guide has pages");
    assert!(files.len() > 1, "there are no pages");
    let named = files.iter().map(|path| (name_of(path), read(path)));
    named.collect()
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
fn pages_show_the_code_of_today() {
    for (name, page) in pages() {
        let today = with_listings(&page).unwrap_or_else(|error| panic!("{name}: {error}"));
        let differs = page
            .lines()
            .zip(today.lines())
            .find(|(old, new)| old != new);
        assert!(
            page == today,
            "{name} shows other code than its files, first where they are {differs:?}: cargo xtask guide --write"
        );
    }
}

#[test]
fn code_comes_from_files_that_are_compiled() {
    let mut shown = BTreeSet::new();
    for (name, page) in pages() {
        let mut before = "";
        for part in parts(&page) {
            match part {
                Part::Prose(line) => before = line,
                Part::Block { language, lines } => {
                    assert!(!language.is_empty(), "{name}: a block without a language");
                    if COMPILED.contains(&language) {
                        assert!(!lines.is_empty(), "{name}: an empty block of {language}");
                        shown.extend(
                            expect_listings(&name, before)
                                .into_iter()
                                .map(|listing| listing.file),
                        );
                    }
                    before = "";
                }
            }
        }
    }
    // What no page shows need not be here.
    for entry in fs::read_dir(guide().join("code")).expect("the guide has code") {
        let file = entry.expect("the folder can be read").path();
        let is_shown = shown.contains(&file) || file.ends_with("fragments.rs");
        assert!(
            file.is_dir() || is_shown,
            "no page shows {}",
            file.display()
        );
    }
}

/// The listings that the line before a block names.
fn expect_listings(page: &str, line: &str) -> Vec<Listing> {
    let listings = named(line).unwrap_or_else(|| {
        panic!(
            "{page}: before code that no test compiles, no <!-- listing FILE:ANCHOR -->: {line:?}"
        )
    });
    listings.unwrap_or_else(|error| panic!("{page}: {error}"))
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
