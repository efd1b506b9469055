//! Statements of pages that the code must bear out: methods that exist, providers that are listed, recipes that run.

use std::fs;
use std::path::Path;

fn read(place: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(place);
    fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Names of the public methods that a source file defines.
fn methods(source: &str) -> Vec<&str> {
    let after = source
        .lines()
        .filter_map(|line| line.trim().strip_prefix("pub fn "));
    after
        .filter_map(|line| line.split(['(', '<']).next())
        .collect()
}

#[test]
fn moving_names_every_method_that_posts_and_those_of_vectors_and_counters() {
    let page = read("src/moving.md");
    for file in ["endpoint/operations.rs", "address_vector.rs", "counter.rs"] {
        let source = read(&format!("../crates/oxifabric/src/{file}"));
        let methods = methods(&source);
        assert!(!methods.is_empty(), "{file} has no methods");
        for method in methods.into_iter().filter(|name| *name != "open") {
            let named = [format!("`{method}`"), format!("::{method}`")];
            assert!(
                named.iter().any(|name| page.contains(name)),
                "{file}: {method}"
            );
        }
    }
}

#[test]
fn tables_of_providers_have_all_of_them() {
    for (page, row) in [
        ("providers.md", "| sim |"),
        ("completions.md", "| sim |"),
        ("architecture.md", "udp;ofi_rxd, sim |"),
        ("address-vectors.md", "| shm, sim |"),
    ] {
        assert!(read(&format!("src/{page}")).contains(row), "{page}");
    }
}

#[test]
fn recipes_for_c_say_how_the_program_finds_the_library() {
    for page in ["../README.md", "src/moving.md"] {
        let text = read(page);
        let recipes: Vec<_> = text
            .lines()
            .filter(|line| line.starts_with("cc "))
            .collect();
        assert!(!recipes.is_empty(), "{page}");
        assert!(
            recipes.iter().all(|line| line.contains("-rpath")),
            "{page}: {recipes:?}"
        );
    }
}

/// Figures of pages, as they stand there.
const FIGURES: [(&str, &[&str]); 6] = [
    (
        "providers.md",
        &["0.34 µs", "13.7 GB/s", "4.80 µs", "5.2 GB/s", "172 µs"],
    ),
    ("sockets.md", &["0.34 µs", "4.80 µs"]),
    ("data-transfers.md", &["0.01 s", "0.82 s"]),
    ("waiting.md", &["225 instructions"]),
    ("design.md", &["126 bytes", "0.65 s", "406 bytes", "2.38 s"]),
    ("address-vectors.md", &["126 bytes"]),
];

/// How the measurements write a figure.
fn measured(figure: &str) -> Vec<String> {
    let figure = figure.replace('µ', "u").replace(" bytes", " B");
    match figure.strip_suffix(" instructions") {
        Some(count) => vec![format!("an empty poll {count}")],
        None => vec![figure.replace(" s", "0 s"), figure],
    }
}

#[test]
fn figures_are_those_of_the_measurements() {
    let measurements = read("../docs/performance.md");
    for (page, figures) in FIGURES {
        let text = read(&format!("src/{page}"));
        for figure in figures {
            assert!(text.replace('\n', " ").contains(figure), "{page}: {figure}");
            let known = measured(figure);
            let is_known = known.iter().any(|known| measurements.contains(known));
            assert!(
                is_known,
                "{page}: docs/performance.md has none of {known:?}"
            );
        }
    }
}
