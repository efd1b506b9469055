//! Circles of imports among the files of `core`: files that need each other, directly or by others, can only be understood together.
//!
//! A file imports another if a path of its code (`crate::`, `super::`, `self::` or a child module) leads there, tests and visibilities
//! left out. An `impl` that stands in another file than its type draws nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use oxifabric_trials::repository;

/// The largest circle that `core` may have. It was 55. Those that are left own each other: a counter keeps its domain open, whose progress
/// has the work that waits for the counter.
const LARGEST: usize = 17;

/// A file, as the path of its module.
type Module = Vec<String>;

type Imports = BTreeMap<Module, BTreeSet<Module>>;

#[test]
fn no_circle_of_imports_in_core_grows() {
    let imports = imports(&repository().join("crates/core/src"));
    assert!(imports.len() > 100, "{} files", imports.len());
    let circle = largest_circle(&imports);
    let names: Vec<String> = circle.iter().map(|file| file.join("/")).collect();
    assert!(circle.len() <= LARGEST, "{} files: {names:?}", names.len());
    // What was won is kept.
    assert!(circle.len() >= LARGEST, "lower it to {}", circle.len());
}

#[test]
fn a_circle_is_found_by_every_form_of_path() {
    let files = [
        ("", "mod a; mod d;"),
        (
            "a",
            "mod b;\nuse crate::{c::{C, D}, text};\n// use crate::d;\n",
        ),
        ("a/b", "pub(in crate::d) struct B(super::A);\n"),
        ("c", "fn c() { crate::a::b::new(); }"),
        ("d", "use crate::a::A;\n#[cfg(test)]\nmod tests {}"),
    ];
    let sources = files.map(|(name, text)| (module(name), text.to_owned()));
    let imports = resolved(&sources.into());
    assert_eq!(imports[&module("a")], [module("c")].into());
    assert_eq!(imports[&module("d")], [module("a")].into());
    let circle: Vec<_> = ["a", "a/b", "c"].map(module).into();
    assert_eq!(largest_circle(&imports), circle);
}

fn module(name: &str) -> Module {
    name.split('/')
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Returns which files of a crate each of its files imports.
fn imports(folder: &Path) -> Imports {
    let mut sources = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(inner) = folders.pop() {
        for path in fs::read_dir(inner)
            .expect("the crate has a folder")
            .flatten()
            .map(|entry| entry.path())
        {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path
                .strip_prefix(folder)
                .expect("it is inside")
                .with_extension("");
            let module = module(&name.to_string_lossy());
            if !module.iter().any(|part| part == "tests") {
                let text = fs::read_to_string(&path).expect("it is text");
                sources.insert(module, text);
            }
        }
    }
    let root = sources
        .remove(&module("lib"))
        .expect("the crate has a root");
    sources.insert(Module::new(), root);
    resolved(&sources)
}

/// Returns which files each file imports; the root of the crate imports all and is left out.
fn resolved(sources: &BTreeMap<Module, String>) -> Imports {
    let mut imports = Imports::new();
    for (file, text) in sources.iter().filter(|(file, _)| !file.is_empty()) {
        let code = text
            .split("#[cfg(test)]\nmod tests")
            .next()
            .unwrap_or_default();
        let lines = code
            .lines()
            .map(|line| line.split("//").next().unwrap_or_default());
        let code: String = lines.flat_map(|line| [line, "\n"]).collect();
        let named = paths(&code)
            .into_iter()
            .filter_map(|path| absolute(file, &code, &path));
        let found = named.filter_map(|path| {
            let lengths = (1..=path.len()).rev();
            let mut places = lengths.map(|length| path[..length].to_vec());
            places.find(|place| sources.contains_key(place))
        });
        imports.insert(file.clone(), found.filter(|other| other != file).collect());
    }
    imports
}

/// Returns the paths in code, with what stands in braces one by one: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn paths(code: &str) -> Vec<Module> {
    let mut found = Vec::new();
    // What every open brace of a list prepends.
    let mut prefixes: Vec<Option<Module>> = Vec::new();
    let mut path = Module::new();
    let mut rest = code;
    while let Some(next) = rest.chars().next() {
        let name = rest
            .find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        let length = if name > 0 {
            path.push(rest[..name].to_owned());
            name
        } else if rest.starts_with("::{") {
            prefixes.push(Some(path.clone()));
            path.clear();
            "::{".len()
        } else if rest.starts_with("::") {
            "::".len()
        } else {
            if !path.is_empty() {
                let list = prefixes.iter().flatten().flatten().cloned();
                found.push(list.chain(std::mem::take(&mut path)).collect());
            }
            match next {
                '{' => prefixes.push(None),
                '}' => drop(prefixes.pop()),
                _ => {}
            }
            next.len_utf8()
        };
        // A name that no `::` follows ends the path.
        rest = &rest[length..];
        if name > 0 && !rest.starts_with("::") {
            let list = prefixes.iter().flatten().flatten().cloned();
            found.push(list.chain(std::mem::take(&mut path)).collect());
        }
    }
    found
}

/// Returns the path from the crate's root that a path in a file means, if it leads into the crate.
fn absolute(file: &Module, code: &str, path: &Module) -> Option<Module> {
    let first = path.first()?;
    let is_visibility = |path: &Module| code.contains(&format!("(in {})", path.join("::")));
    match first.as_str() {
        "crate" if path.len() > 1 && !is_visibility(path) => Some(path[1..].to_vec()),
        "super" | "self" if path.len() > 1 => {
            let relative = path
                .iter()
                .filter(|part| !["super", "self"].contains(&part.as_str()));
            let up = path.iter().filter(|part| *part == "super").count();
            let base = file.iter().take(file.len().saturating_sub(up));
            Some(base.chain(relative).cloned().collect())
        }
        child if code.contains(&format!("mod {child};")) && path.len() > 1 => {
            Some(file.iter().chain(path).cloned().collect())
        }
        _ => None,
    }
}

/// Returns the files of the largest circle: those that reach each other.
fn largest_circle(imports: &Imports) -> Vec<Module> {
    let reach: BTreeMap<&Module, BTreeSet<&Module>> = imports
        .keys()
        .map(|file| (file, reached(imports, file)))
        .collect();
    let circles = imports.keys().map(|file| {
        let mutual = imports
            .keys()
            .filter(|other| reach[file].contains(other) && reach[other].contains(file));
        mutual.cloned().collect::<Vec<_>>()
    });
    circles.max_by_key(Vec::len).unwrap_or_default()
}

fn reached<'a>(imports: &'a Imports, from: &Module) -> BTreeSet<&'a Module> {
    let mut found = BTreeSet::new();
    let mut next: Vec<&Module> = imports[from].iter().collect();
    while let Some(file) = next.pop() {
        if found.insert(file) {
            next.extend(imports.get(file).into_iter().flatten());
        }
    }
    found
}
