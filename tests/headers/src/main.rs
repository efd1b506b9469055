//! Writes the C headers in `crates/abi/include` from the Rust definitions in `crates/abi/src`.
//!
//! A header has a frame in `crates/abi/headers`: what only C has, such as macros and prototypes, with lines that say where
//! definitions go (`@definitions fabric.rs ...`) and inline functions (`@calls calls/fabric.rs ...`). [`rust`] reads, [`c`] writes.
#![forbid(unsafe_code)]

mod c;
mod rust;

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rust::{Definition, Source};

fn main() -> ExitCode {
    match write(repository()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("headers: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the folder of the repository that contains this crate.
fn repository() -> &'static Path {
    let mut folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    folders.nth(2).unwrap_or(Path::new("."))
}

/// A header by its path under `rdma`, with its text.
type Headers = BTreeMap<PathBuf, String>;

/// Where the headers lie in the repository `root`.
fn place(root: &Path) -> PathBuf {
    root.join("crates/abi/include")
}

/// Writes all headers.
fn write(root: &Path) -> Result<(), Box<dyn Error>> {
    for (name, text) in generate(root)? {
        let path = place(root).join("rdma").join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, text)?;
    }
    Ok(())
}

/// Returns all headers as they follow from frames and definitions.
fn generate(root: &Path) -> Result<Headers, Box<dyn Error>> {
    let package = root.join("crates/abi");
    let sources = sources(&package.join("src"))?;
    let names = c::Names::new(sources.values(), error_numbers(root)?);
    let mut headers = Headers::new();
    for folder in ["", "providers"] {
        let frames = package.join("headers");
        for entry in fs::read_dir(frames.join(folder))? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "h") {
                let name = path.strip_prefix(&frames)?.to_path_buf();
                let text = header(&name, &fs::read_to_string(&path)?, &sources, &names)?;
                headers.insert(name, text);
            }
        }
    }
    Ok(headers)
}

/// Reads all files of the crate, by their path under `src`.
fn sources(folder: &Path) -> Result<BTreeMap<String, Source>, Box<dyn Error>> {
    let mut sources = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(current) = folders.pop() {
        for entry in fs::read_dir(current)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(folder)?.display().to_string();
            // Old layouts, and macros: nothing that a header shows.
            if !["compat.rs", "macros.rs", "lib.rs"].contains(&name.as_str()) {
                let text = fs::read_to_string(&path)?;
                let source = rust::read(&text).map_err(|error| format!("{name}: {error}"))?;
                sources.insert(name, source);
            }
        }
    }
    Ok(sources)
}

/// Reads the table of error numbers: rows `NAME = number, "FI_ENAME";`.
fn error_numbers(root: &Path) -> Result<BTreeMap<String, String>, Box<dyn Error>> {
    let text = fs::read_to_string(root.join("crates/types/src/errno.rs"))?;
    let row = |line: &str| -> Option<(String, String)> {
        let (name, rest) = line.trim().split_once(" = ")?;
        let (number, c_name) = rest.split_once(", \"")?;
        c_name
            .starts_with("FI_E")
            .then(|| (name.to_owned(), number.to_owned()))
    };
    let mut numbers: BTreeMap<_, _> = text.lines().filter_map(row).collect();
    let again = numbers.get("AGAIN").cloned().ok_or("no number for AGAIN")?;
    numbers.insert("WOULDBLOCK".to_owned(), again);
    Ok(numbers)
}

/// Fills a frame.
fn header(
    name: &Path,
    frame: &str,
    sources: &BTreeMap<String, Source>,
    names: &c::Names,
) -> Result<String, Box<dyn Error>> {
    let (includes, body) = frame
        .split_once("\n\n")
        .ok_or_else(|| format!("{}: no line after the includes is empty", name.display()))?;
    let stem = name.file_stem().unwrap_or_default().to_string_lossy();
    let guard = format!("{}_H", stem.to_uppercase());
    let mut text = format!(
        "/* SPDX-License-Identifier: MIT OR Apache-2.0 */\n\
         /* rdma/{}: written by `cargo xtask headers`; change crates/abi/src or crates/abi/headers instead. */\n\n\
         #ifndef {guard}\n#define {guard}\n\n\
         {includes}\n\n\
         #ifdef __cplusplus\nextern \"C\" {{\n#endif\n\n",
        name.display()
    );
    for line in body.lines() {
        let definitions = || files(line, sources);
        if line.starts_with("@definitions ") {
            text += &c::definitions(&definitions()?, names)?;
        } else if line.starts_with("@calls ") {
            text += &c::calls(&definitions()?, names)?;
        } else {
            let _ = writeln!(text, "{line}");
        }
    }
    text += &format!("\n#ifdef __cplusplus\n}}\n#endif\n\n#endif /* {guard} */\n");
    Ok(text)
}

/// Returns what the files after a directive define.
fn files<'a>(
    line: &str,
    sources: &'a BTreeMap<String, Source>,
) -> Result<Vec<&'a Definition>, Box<dyn Error>> {
    let mut definitions = Vec::new();
    for name in line.split(' ').skip(1) {
        let source = sources
            .get(name)
            .ok_or_else(|| format!("{line}: no {name}"))?;
        definitions.extend(&source.definitions);
    }
    Ok(definitions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_follow_from_the_definitions() {
        let root = repository();
        for (name, text) in generate(root).expect("the definitions are well-formed") {
            let path = place(root).join("rdma").join(&name);
            let written = fs::read_to_string(&path).unwrap_or_default();
            assert!(
                written == text,
                "{} is out of date: cargo xtask headers",
                name.display()
            );
        }
    }

    /// A call that is added to the crate and to no frame would be missing from C.
    #[test]
    fn every_call_is_in_a_header() {
        let root = repository();
        let headers = generate(root).expect("the definitions are well-formed");
        let all: String = headers.into_values().collect();
        let sources =
            sources(&root.join("crates/abi/src")).expect("the definitions are well-formed");
        for (file, source) in sources {
            for name in source.names() {
                let is_there = all.match_indices(name).any(|(at, _)| {
                    let is_part = |c: char| c.is_alphanumeric() || c == '_';
                    !all[..at].ends_with(is_part) && !all[at + name.len()..].starts_with(is_part)
                });
                assert!(is_there, "{name} of {file} is in no header");
            }
        }
    }
}
