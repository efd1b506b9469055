//! The language of comments, names and documents (docs/glossary.md): text names the thread, endpoint, peer, link or caller that
//! acts, so the words that hide it do not occur.

use std::fs;
use std::path::{Path, PathBuf};

use oxifabric_trials::repository;

/// Words that hide what acts, or that stand for a term of the field. Also as parts of identifiers.
const BANNED: [&str; 15] = [
    "nobody",
    "somebody",
    "anybody",
    "whoever",
    "whom",
    "who",
    "in vain",
    "befall",
    "befalls",
    "befell",
    "stranger",
    "strangers",
    "greet",
    "greets",
    "greeting",
];

/// Words that documents may use of people.
const OF_PEOPLE: [&str; 2] = ["who", "whom"];

/// Where no banned word occurs any more.
const CLEAN: [&str; 11] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "crates",
    "docs",
    "guide",
    "kernel",
    "tests",
    "xtask",
];

/// What has to name the words itself.
const EXEMPT: [&str; 2] = ["docs/glossary.md", "xtask/tests/language.rs"];

#[test]
fn text_names_what_acts() {
    let root = repository();
    let mut found = Vec::new();
    for place in CLEAN {
        for file in texts(&root.join(place)) {
            let name = file.strip_prefix(root).unwrap_or(&file).to_owned();
            if EXEMPT.iter().any(|exempt| name == Path::new(exempt)) {
                continue;
            }
            let text = fs::read_to_string(&file).unwrap_or_default();
            let of_people = name.starts_with("docs") || name.starts_with("guide");
            for (number, word) in occurrences(&text) {
                if !(of_people && OF_PEOPLE.contains(&word)) {
                    found.push(format!("{}:{number}: {word}", name.display()));
                }
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Returns the banned words of a text, each with the number of its line.
fn occurrences(text: &str) -> Vec<(usize, &'static str)> {
    let lines = (1..).zip(text.lines().map(str::to_lowercase));
    lines
        .flat_map(|(number, line)| {
            let has = move |word: &&str| {
                line.match_indices(*word)
                    .any(|(at, _)| is_whole(&line, at, word.len()))
            };
            let words: Vec<&str> = BANNED.into_iter().filter(has).collect();
            words.into_iter().map(move |word| (number, word))
        })
        .collect()
}

/// Returns whether no letter stands before or behind what is found at `at`; an underscore separates words.
fn is_whole(line: &str, at: usize, len: usize) -> bool {
    let is_letter = |c: Option<char>| c.is_some_and(char::is_alphabetic);
    !is_letter(line[..at].chars().next_back()) && !is_letter(line[at + len..].chars().next())
}

/// Returns all texts under a path, which may be a file.
fn texts(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(path) else {
        return vec![path.to_owned()];
    };
    let inner = entries.flatten().flat_map(|entry| texts(&entry.path()));
    let is_text = |file: &PathBuf| {
        let extension = file.extension().and_then(|extension| extension.to_str());
        matches!(extension, Some("rs" | "md" | "c" | "h" | "toml"))
    };
    inner.filter(is_text).collect()
}

#[test]
fn words_are_found_in_text_and_in_names() {
    let text = "All is well.\nNobody reads; fn tells_who_reads(), whose whole.\nPolled in vain.";
    assert_eq!(
        occurrences(text),
        [(2, "nobody"), (2, "who"), (3, "in vain")]
    );
}

/// A documentation comment says first what its item is or does, and only then what it asks of callers.
#[test]
fn documentation_begins_with_a_sentence() {
    let root = repository();
    let mut found = Vec::new();
    for file in CLEAN.iter().flat_map(|place| texts(&root.join(place))) {
        if file.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&file).unwrap_or_default();
            let name = file.strip_prefix(root).unwrap_or(&file).display();
            let lines = sections_without_summary(&text);
            found.extend(lines.map(|number| format!("{name}:{number}")));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Returns the numbers of the lines that are the heading of a section and the first of a documentation comment.
fn sections_without_summary(text: &str) -> impl Iterator<Item = usize> {
    let lines = (1..).zip(text.lines().map(str::trim));
    let mut has_summary = false;
    lines.filter_map(move |(number, line)| {
        let is_missing = line.starts_with("/// #") && !has_summary;
        // Empty lines of a comment change nothing, and attributes may stand between its parts.
        if line.starts_with("#[doc") || line != "///" && !line.starts_with("#[") {
            has_summary = line.starts_with("///") || line.starts_with("#[doc");
        }
        is_missing.then_some(number)
    })
}

#[test]
fn a_heading_at_the_beginning_of_documentation_is_found() {
    let text = "/// Reads.\n#[inline]\n/// # Safety\nfn a() {}\n\n    /// # Safety\n    fn b() {}\n///\n/// # Errors\nfn c() {}";
    assert_eq!(sections_without_summary(text).collect::<Vec<_>>(), [6, 9]);
}

/// The glossary says what to search for: each name in its third column occurs in the crates or their tests.
#[test]
fn the_names_of_the_glossary_are_in_the_code() {
    let root = repository();
    let places = ["crates", "tests"].map(|place| texts(&root.join(place)));
    let code: String = places
        .iter()
        .flatten()
        .filter_map(|file| fs::read_to_string(file).ok())
        .collect();
    let glossary = fs::read_to_string(root.join("docs/glossary.md")).expect("there is a glossary");
    let columns = glossary.lines().filter_map(|line| line.split('|').nth(3));
    let names: Vec<&str> = columns
        .flat_map(|column| column.split('`').skip(1).step_by(2))
        .collect();
    assert!(names.len() > 50, "the table has another form: {names:?}");
    for name in names {
        let last = name.rsplit("::").next().unwrap_or(name);
        assert!(code.contains(last), "the crates have no {name}");
    }
}

#[test]
fn every_place_exists() {
    let missing = CLEAN.map(|place| repository().join(place));
    assert!(missing.iter().all(|place| place.exists()));
}
