//! Listings: the code that pages show, taken from the files that the tests compile.
//!
//! A page is Markdown that can be read as it is, so the code stands in it. A comment before a block says where it is from,
//!
//! ```text
//! <!-- listing code/node.h:open code/node.h:close -->
//! ```
//!
//! and [`with_listings`] writes the block anew. The file is what counts: `cargo xtask guide --write` changes the pages, and a
//! test fails where a page shows something else.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Returns the folder of this package.
pub fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the files of all pages, in order.
///
/// # Errors
/// The folder cannot be read.
pub fn pages() -> io::Result<Vec<PathBuf>> {
    let mut pages = Vec::new();
    for entry in fs::read_dir(folder().join("src"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "md") {
            pages.push(path);
        }
    }
    pages.sort();
    Ok(pages)
}

/// Writes the code of today into all pages; returns those that changed.
///
/// # Errors
/// As [`with_listings`], and what reading and writing says.
pub fn write() -> Result<Vec<PathBuf>, String> {
    let mut changed = Vec::new();
    for page in pages().map_err(|error| error.to_string())? {
        let named = |error: io::Error| format!("{}: {error}", page.display());
        let old = fs::read_to_string(&page).map_err(named)?;
        let new = with_listings(&old).map_err(|error| format!("{}: {error}", page.display()))?;
        if new != old {
            fs::write(&page, new).map_err(named)?;
            changed.push(page);
        }
    }
    Ok(changed)
}

/// A part of a file that a page shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The file, from the folder of this package.
    pub file: PathBuf,
    /// The name of the part, between `ANCHOR: NAME` and `ANCHOR_END: NAME`.
    pub anchor: String,
}

/// Returns the listings that a line of a page names; `None` if it is another line.
///
/// # Errors
/// A listing without a file or an anchor.
pub fn named(line: &str) -> Option<Result<Vec<Listing>, String>> {
    let places = line.strip_prefix("<!-- listing ")?.strip_suffix(" -->")?;
    let listing = |place: &str| match place.split_once(':') {
        Some((file, anchor)) => Ok(Listing {
            file: folder().join(file),
            anchor: anchor.to_owned(),
        }),
        None => Err(format!("{place}: no part of the file is named")),
    };
    Some(places.split_whitespace().map(listing).collect())
}

/// Returns a page with the code of today in the blocks that follow names of listings.
///
/// # Errors
/// A name that no block follows, or that no file has.
pub fn with_listings(page: &str) -> Result<String, String> {
    let mut whole = String::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        whole = whole + line + "\n";
        let Some(listings) = named(line) else {
            continue;
        };
        let fence = lines.next().filter(|line| line.starts_with("```"));
        let fence = fence.ok_or_else(|| format!("no block after {line}"))?;
        if !lines.by_ref().any(|line| line == "```") {
            return Err(format!("the block after {line} does not end"));
        }
        let parts: Result<Vec<String>, String> = listings?.iter().map(Listing::text).collect();
        whole = whole + fence + "\n" + &parts?.join("\n") + "```\n";
    }
    Ok(whole)
}

impl Listing {
    /// Returns the lines of the part, without the indentation that all of them have.
    ///
    /// # Errors
    /// The file cannot be read, or does not have the part once.
    pub fn text(&self) -> Result<String, String> {
        let Self { file, anchor } = self;
        let text = fs::read_to_string(file);
        let text = text.map_err(|error| format!("{}: {error}", file.display()))?;
        let lines = part(&text, anchor);
        let lines = lines.ok_or_else(|| format!("{} has not one {anchor}", file.display()))?;
        Ok(at_the_margin(&lines))
    }
}

/// Returns the lines between the marks of an anchor, without other marks; `None` unless it begins and ends once.
fn part<'a>(text: &'a str, anchor: &str) -> Option<Vec<&'a str>> {
    let mut lines = Vec::new();
    let mut marks = Vec::new();
    for line in text.lines() {
        match mark(line) {
            Some((word, name)) if name == anchor => marks.push(word),
            Some(_) => {}
            None if marks == ["ANCHOR"] => lines.push(line),
            None => {}
        }
    }
    (marks == ["ANCHOR", "ANCHOR_END"]).then_some(lines)
}

/// Returns the word and the name of a mark in a comment.
fn mark(line: &str) -> Option<(&str, &str)> {
    let comment = line.trim().trim_matches(['/', '*', ' ']);
    let (word, name) = comment.split_once(": ")?;
    (word == "ANCHOR" || word == "ANCHOR_END").then_some((word, name))
}

fn at_the_margin(lines: &[&str]) -> String {
    let depth = |line: &&str| line.len() - line.trim_start().len();
    let filled = lines.iter().filter(|line| !line.trim().is_empty());
    let common = filled.map(depth).min().unwrap_or(0);
    let moved = lines.iter().map(|line| line.get(common..).unwrap_or(""));
    moved.map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "int a;\n// ANCHOR: one\n    b();\n\n    /* ANCHOR: two */\n        c();\n    // ANCHOR_END: two\n// ANCHOR_END: one\n";

    #[test]
    fn a_part_has_no_marks_and_begins_at_the_margin() {
        let text = |anchor| part(FILE, anchor).map(|lines| at_the_margin(&lines));
        assert_eq!(text("one").as_deref(), Some("b();\n\n    c();\n"));
        assert_eq!(text("two").as_deref(), Some("c();\n"));
    }

    #[test]
    fn a_part_that_does_not_begin_and_end_once_is_none() {
        assert_eq!(part(FILE, "three"), None);
        assert_eq!(part("// ANCHOR: one\n", "one"), None);
        assert_eq!(part(&FILE.repeat(2), "one"), None);
    }

    #[test]
    fn a_page_gets_the_code_of_today_and_keeps_the_rest() {
        let page =
            "Text.\n\n<!-- listing code/check.h:check -->\n```c\nold\n```\n\n```c\nkept\n```\n";
        let written = with_listings(page).unwrap();
        assert!(!written.contains("old") && written.contains("kept"));
        assert!(written.contains("#define"), "{written}");
        assert_eq!(with_listings(&written).unwrap(), written);
    }

    #[test]
    fn a_name_without_a_block_or_a_file_is_an_error() {
        for page in [
            "<!-- listing code/check.h:check -->\ntext\n",
            "<!-- listing code/check.h:check -->\n```c\n",
            "<!-- listing code/check.h:nothing -->\n```c\n```\n",
            "<!-- listing code/nothing.h:check -->\n```c\n```\n",
            "<!-- listing code/check.h -->\n```c\n```\n",
        ] {
            assert!(with_listings(page).is_err(), "{page}");
        }
    }
}
