//! docs/threats.md promises a test for each bound: the tests that its tables name exist, in the rooms that they name.

use std::fs;
use std::path::{Path, PathBuf};

use oxifabric_trials::repository;

/// What a table says of one kind of growth.
struct Row {
    line: usize,
    /// Rooms, each with names of its tests; none where a test is owed.
    tests: Vec<(String, Vec<String>)>,
}

/// The room of what is tried in a guest, whose tests are sentences.
const GUEST: &str = "guest";

/// Reads the last column: `room: "a", "b"; room: "c"` in backquotes, or *none* with what else is to be said.
fn parse(line: usize, cell: &str) -> Result<Row, String> {
    let mut tests = Vec::new();
    if cell.starts_with("*none*") {
        return Ok(Row { line, tests });
    }
    for part in cell.split("; ") {
        let (room, names) = part.split_once(": ").ok_or("it names no room")?;
        let names = names.split(", ").map(|name| {
            let name = name.strip_prefix('`')?.strip_suffix('`')?;
            let is_word = |c: char| {
                let is_sentence = room == GUEST && (c == ' ' || c.is_ascii_uppercase());
                c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || is_sentence
            };
            name.chars().all(is_word).then(|| name.to_owned())
        });
        let names: Option<Vec<String>> = names.collect();
        tests.push((room.to_owned(), names.ok_or("it names no test")?));
    }
    Ok(Row { line, tests })
}

fn rows(text: &str) -> Vec<Result<Row, String>> {
    let lines = (1..).zip(text.lines());
    let rows = lines.filter(|(_, line)| line.starts_with('|'));
    let rows = rows.filter(|(_, line)| !line.starts_with("|---") && !line.ends_with("| test |"));
    rows.map(|(number, line)| {
        let cell = line.trim_end_matches('|').rsplit('|').next();
        let row = parse(number, cell.unwrap_or_default().trim());
        row.map_err(|why| format!("line {number}: {why}"))
    })
    .collect()
}

/// All text of the Rust files of a room; of a guest, that of its scripts.
fn sources(room: &str) -> String {
    if room == GUEST {
        let scripts = ["kernel/harness/src/promises.rs", "kernel/guest/disk.sh"];
        return scripts.map(|file| read(&repository().join(file))).concat();
    }
    let folder = match room {
        "hostile" => "trials/tests/hostile",
        room => room,
    };
    let places = ["crates", "tests", "."].map(|place| repository().join(place).join(folder));
    let mut folders = places.to_vec();
    let mut text = String::new();
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(folder) else {
            continue;
        };
        let (inner, files): (Vec<PathBuf>, Vec<PathBuf>) = entries
            .flatten()
            .map(|entry| entry.path())
            .partition(|path| path.is_dir());
        folders.extend(inner);
        let is_rust = |file: &&PathBuf| file.extension() == Some("rs".as_ref());
        for file in files.iter().filter(is_rust) {
            text += &read(file);
        }
    }
    text
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

#[test]
fn the_tests_that_threats_names_exist() {
    let mut troubles = Vec::new();
    let mut count = 0;
    for row in rows(&read(&repository().join("docs/threats.md"))) {
        let row = match row {
            Ok(row) => row,
            Err(why) => {
                troubles.push(why);
                continue;
            }
        };
        for (room, names) in &row.tests {
            let text = sources(room);
            for name in names {
                count += 1;
                let is_there = match room.as_str() {
                    GUEST => text.contains(&format!("\"{name}\"")),
                    _ => text.contains(&format!("fn {name}(")),
                };
                if !is_there {
                    troubles.push(format!("line {}: {room} has no {name}", row.line));
                }
            }
        }
    }
    assert!(troubles.is_empty(), "{}", troubles.join("\n"));
    assert!(count > 50, "the tables were not found: {count} tests");
}

#[test]
fn a_row_without_a_test_or_with_one_that_is_not_there_is_found() {
    let head = "| where | test |\n|---|---|\n";
    let is_read = |cell: &str| {
        let table = format!("{head}| tcp | {cell} |\n");
        rows(&table).pop().expect("a row").is_ok()
    };
    assert!(is_read("hostile: `a`, `b`; tcp: `c`"));
    assert!(is_read("*none*: by construction"));
    assert!(is_read("guest: `a sentence`") && !is_read("tcp: `a sentence`"));
    for unclear in ["", "the same", "hostile `a`", "hostile: a", "tcp: `a_...`"] {
        assert!(!is_read(unclear), "{unclear}");
    }
    let hostile = sources("hostile");
    assert!(hostile.contains("fn a_set_user_id_program_takes_nothing_from_its_environment("));
    assert!(sources("no such room").is_empty());
}
