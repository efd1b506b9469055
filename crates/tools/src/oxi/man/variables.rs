//! The pages about the library and its providers, section 7, with the variables that each of them reads.

use oxifabric::{Parameter, ParameterKind};

use super::Page;

/// A page, and how the variables begin that it tells of.
struct Prose {
    name: &'static str,
    text: &'static str,
    prefixes: &'static [&'static str],
}

/// The page of all variables that no other page tells of.
const GENERAL: usize = 0;

const PAGES: [Prose; 8] = [
    Prose {
        name: "oxifabric",
        text: include_str!("../../../manual/oxifabric.7"),
        prefixes: &[],
    },
    Prose {
        name: "fi_tcp",
        text: include_str!("../../../manual/fi_tcp.7"),
        prefixes: &["FI_TCP_"],
    },
    Prose {
        name: "fi_shm",
        text: include_str!("../../../manual/fi_shm.7"),
        prefixes: &["FI_SHM_"],
    },
    Prose {
        name: "fi_udp",
        text: include_str!("../../../manual/fi_udp.7"),
        prefixes: &["FI_UDP_"],
    },
    Prose {
        name: "fi_rxd",
        text: include_str!("../../../manual/fi_rxd.7"),
        prefixes: &["FI_OFI_RXD_", "FI_UDP;OFI_RXD_"],
    },
    Prose {
        name: "fi_efa",
        text: include_str!("../../../manual/fi_efa.7"),
        prefixes: &["FI_EFA_"],
    },
    Prose {
        name: "fi_sim",
        text: include_str!("../../../manual/fi_sim.7"),
        prefixes: &["FI_SIM_"],
    },
    Prose {
        name: "fi_hook",
        text: include_str!("../../../manual/fi_hook.7"),
        prefixes: &["FI_HOOK", "FI_PERF_", "FI_OFI_HOOK_"],
    },
];

/// Lines of the prose in whose place lists of variables come: those with an effect, and those that programs of the C library
/// may set for nothing.
const LIST: &str = ".\\\" variables\n";
const LIST_WITHOUT_EFFECT: &str = ".\\\" variables without effect\n";

/// How the help of a variable begins that is known and does nothing.
const WITHOUT_EFFECT: &str = "Of the C library, without effect";

/// Makes all pages.
pub(super) fn pages(parameters: &[Parameter]) -> Vec<Page> {
    let page = |(at, prose): (usize, &Prose)| {
        let own = parameters.iter().filter(|known| place(known) == at);
        // A page without a section for those lists them among the others: each says by itself that it does nothing.
        let has_section = prose.text.contains(LIST_WITHOUT_EFFECT);
        let (idle, used): (Vec<_>, Vec<_>) = own.partition(|known| has_section && is_idle(known));
        let text = prose.text.replace(LIST_WITHOUT_EFFECT, &list(&idle));
        Page {
            name: prose.name.to_owned(),
            section: 7,
            text: text.replace(LIST, &list(&used)),
        }
    };
    PAGES.iter().enumerate().map(page).collect()
}

/// Returns the page with a variable.
fn place(parameter: &Parameter) -> usize {
    let begins = |prefix: &&str| parameter.name.starts_with(*prefix);
    let page = PAGES
        .iter()
        .position(|page| page.prefixes.iter().any(begins));
    page.unwrap_or(GENERAL)
}

fn is_idle(parameter: &Parameter) -> bool {
    sentence(&parameter.help).starts_with(WITHOUT_EFFECT)
}

/// Returns the help without the provider's name in front.
fn sentence(help: &str) -> &str {
    match help.split_once(": ") {
        Some((provider, sentence)) if provider.starts_with(|first: char| first.is_lowercase()) => {
            sentence
        }
        _ => help,
    }
}

fn list(parameters: &[&Parameter]) -> String {
    if parameters.is_empty() {
        return ".PP\nNone.\n".to_owned();
    }
    let item = |parameter: &&Parameter| {
        let (name, help) = (&parameter.name, escape(sentence(&parameter.help)));
        let kind = spelled(parameter.kind);
        format!(".TP\n.BR {name} \" (\" {kind} )\n{help}.\n")
    };
    parameters.iter().map(item).collect()
}

fn spelled(kind: ParameterKind) -> &'static str {
    match kind {
        ParameterKind::Int => "integer",
        ParameterKind::Size => "size",
        ParameterKind::Bool => "boolean",
        _ => "text",
    }
}

/// Keeps characters that roff(7) takes for its own.
fn escape(text: &str) -> String {
    let text = text
        .replace('\\', "\\e")
        .replace('-', "\\-")
        .replace('~', "\\(ti")
        .replace('^', "\\(ha");
    match text.starts_with(['.', '\'']) {
        true => format!("\\&{text}"),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use oxifabric::Backend;

    use super::*;

    fn known() -> Vec<Parameter> {
        Backend::from_env().unwrap().parameters().unwrap()
    }

    #[test]
    fn every_variable_is_documented_once() {
        let parameters = known();
        let pages = pages(&parameters);
        for Parameter { name, .. } in &parameters {
            let heading = format!("\n.BR {name} \" (\"");
            let found = pages
                .iter()
                .map(|page| page.text.matches(&heading).count())
                .sum::<usize>();
            assert_eq!(found, 1, "{name}");
        }
        assert!(parameters.len() > 60, "{}", parameters.len());
    }

    /// Names in the prose that begin as variables do.
    #[test]
    fn variables_in_the_prose_exist() {
        let parameters = known();
        let names: BTreeSet<&str> = parameters.iter().map(|known| known.name.as_str()).collect();
        let mut prefixes = vec!["FI_LOG_", "FI_OXI_", "FI_PROVIDER", "FI_PREFER_"];
        prefixes.extend(PAGES.iter().flat_map(|page| page.prefixes));
        for page in &PAGES {
            let words = page
                .text
                .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
            for word in words.filter(|word| prefixes.iter().any(|prefix| word.starts_with(prefix)))
            {
                assert!(names.contains(word), "{}: {word}", page.name);
            }
        }
    }

    #[test]
    fn what_has_no_effect_is_listed_apart() {
        let parameters = known();
        let pages = pages(&parameters);
        let general = &pages[GENERAL].text;
        let (used, idle) = general
            .split_once(".SH VARIABLES WITHOUT EFFECT")
            .expect("the page has that section");
        assert!(used.contains(".BR FI_LOG_LEVEL ") && !idle.contains(".BR FI_LOG_LEVEL "));
        assert!(idle.contains(".BR FI_FORK_UNSAFE ") && !used.contains(".BR FI_FORK_UNSAFE "));
    }

    #[test]
    fn text_that_roff_would_read_as_its_own_is_escaped() {
        assert_eq!(escape("a ^ or - \\"), "a \\(ha or \\- \\e");
        assert_eq!(escape(".so"), "\\&.so");
        assert_eq!(sentence("tcp: A: b"), "A: b");
        assert_eq!(sentence("A share: b"), "A share: b");
    }
}
