//! Builds the guide into `target/guide`, or into the folder that is named: `guide [FOLDER]`.
//!
//! The code that pages include is taken in here and not by mdBook, which would leave a part of a function indented.

use std::env;
use std::error::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use mdbook_driver::MDBook;

fn main() -> Result<(), Box<dyn Error>> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = match env::args_os().nth(1) {
        Some(folder) => std::path::absolute(folder)?,
        None => target(source).join("guide"),
    };
    let mut book = MDBook::load(source)?;
    let mut result = Ok(());
    book.book
        .for_each_chapter_mut(|chapter| match with_code(&chapter.content, source) {
            Ok(content) => chapter.content = content,
            Err(error) => result = Err(error),
        });
    result?;
    book.config.build.build_dir = out.clone();
    book.build()?;
    println!("{}", out.join("index.html").display());
    Ok(())
}

/// Where cargo builds.
fn target(source: &Path) -> PathBuf {
    let named = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    named.unwrap_or_else(|| source.join("../target"))
}

/// A page with its code in it.
fn with_code(page: &str, source: &Path) -> io::Result<String> {
    let mut whole = String::new();
    for line in page.lines() {
        let place = line.strip_prefix("{{#include ../");
        match place.and_then(|place| place.strip_suffix("}}")) {
            None => whole += line,
            Some(place) => {
                let (file, anchor) = place.split_once(':').unwrap_or((place, ""));
                let text = fs::read_to_string(source.join(file))?;
                whole += &at_the_margin(&part(&text, anchor));
            }
        }
        whole.push('\n');
    }
    Ok(whole)
}

/// The lines between the marks of an anchor, without other marks.
fn part<'a>(text: &'a str, anchor: &str) -> Vec<&'a str> {
    let mark = |line: &'a str| {
        let comment = line.trim().trim_matches(['/', '*', ' ']);
        let (word, name) = comment.split_once(": ")?;
        (word == "ANCHOR" || word == "ANCHOR_END").then_some((word, name))
    };
    let mut lines = Vec::new();
    let mut inside = anchor.is_empty();
    for line in text.lines() {
        match mark(line) {
            Some((word, name)) if name == anchor => inside = word == "ANCHOR",
            Some(_) => {}
            None if inside => lines.push(line),
            None => {}
        }
    }
    lines
}

/// The lines without the indentation that all of them have.
fn at_the_margin(lines: &[&str]) -> String {
    let depth = |line: &&str| line.len() - line.trim_start().len();
    let filled = lines.iter().filter(|line| !line.trim().is_empty());
    let common = filled.map(depth).min().unwrap_or(0);
    let moved = lines.iter().map(|line| line.get(common..).unwrap_or(""));
    moved.collect::<Vec<_>>().join("\n")
}
