//! Checks every requirement on every provider, on the library of this project or on the one that `OXI_CONFORMANCE_LIBRARY`
//! names.

use std::path::Path;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};
use oxifabric_conformance::Page;
use oxifabric_conformance::pages::PAGES;
use oxifabric_fixtures::{PROVIDERS, Subject};
use oxifabric_libfabric::{EntryPoints, builtin};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let mut trials = vec![Trial::test("document", || {
        check_document();
        Ok(())
    })];
    let library = library();
    for &provider in PROVIDERS {
        let subject = Subject { library, provider };
        let pages = PAGES.iter();
        for page in pages.filter(|page| page.providers.contains(&provider)) {
            for requirement in page.requirements {
                let name = format!("{provider}::{}::{}", page.name, requirement.name);
                trials.push(Trial::test(name, move || {
                    (requirement.check)(&subject);
                    Ok(())
                }));
            }
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn library() -> &'static EntryPoints {
    match std::env::var_os("OXI_CONFORMANCE_LIBRARY") {
        Some(file) => {
            let loaded = EntryPoints::load(Path::new(&file));
            Box::leak(Box::new(loaded.expect("a libfabric.so.1")))
        }
        None => builtin(),
    }
}

/// The document lists all requirements; `OXI_BLESS=1` writes it anew.
fn check_document() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/conformance.md");
    let text = std::fs::read_to_string(&file).expect("the document");
    let mark = "<!-- requirements -->\n";
    let (head, listed) = text.split_once(mark).expect("a mark before the list");
    let list = list(PAGES);
    if std::env::var_os("OXI_BLESS").is_some() {
        std::fs::write(&file, format!("{head}{mark}{list}")).expect("a document to write");
    } else {
        assert_eq!(listed, list, "run the test with OXI_BLESS=1");
    }
}

fn list(pages: &[Page]) -> String {
    let total: usize = pages.iter().map(|page| page.requirements.len()).sum();
    let mut text =
        format!("\n{total} requirements.\n\n| page | requirements | on |\n|---|---|---|\n");
    for page in pages {
        let on = page.providers.join(", ");
        text += &format!("| {} | {} | {on} |\n", page.name, page.requirements.len());
    }
    for page in pages {
        text += &format!("\n## {}\n\n", page.name);
        for requirement in page.requirements {
            text += &format!("- `{}`:{}\n", requirement.name, requirement.claim);
        }
    }
    text
}
