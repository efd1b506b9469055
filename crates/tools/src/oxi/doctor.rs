//! `oxi doctor`: looks for what keeps programs from running over fabrics on this machine, and says what to do about it.

mod environment;
mod leftovers;
mod library;
mod limits;
mod memory;
mod network;
mod place;
mod providers;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use oxifabric::Backend;

use self::place::Place;
use super::Trouble;
use crate::output::{columns, print, print_array, quote, wrap};

/// Options of the command.
#[derive(Args)]
pub(super) struct Options {
    /// Print the findings as a JSON array
    #[arg(long)]
    json: bool,
    /// Print only what is not well
    #[arg(long, short)]
    quiet: bool,
    /// Remove files that dead processes have left in /dev/shm
    #[arg(long)]
    remove: bool,
}

/// How bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
enum Grade {
    /// All is well.
    Ok,
    /// Something works worse than it could, or not for all users.
    Warn,
    /// Something does not work.
    Bad,
}

/// What was found about one thing.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    grade: Grade,
    about: String,
    text: String,
    /// What to do; empty where all is well.
    advice: String,
}

impl Finding {
    fn ok(about: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            grade: Grade::Ok,
            about: about.into(),
            text: text.into(),
            advice: String::new(),
        }
    }

    fn warn(about: impl Into<String>, text: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            grade: Grade::Warn,
            advice: advice.into(),
            ..Self::ok(about, text)
        }
    }

    fn bad(about: impl Into<String>, text: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            grade: Grade::Bad,
            ..Self::warn(about, text, advice)
        }
    }
}

impl Grade {
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Bad => "bad",
        }
    }
}

impl Finding {
    /// Spells it in lines of at most so many columns.
    fn spell(&self, columns: usize) -> String {
        const INDENT: &str = "      ";
        let grade = format!("{:<4}  ", self.grade.name());
        let text = format!("{}: {}", self.about, self.text);
        let text = wrap(&text, &grade, INDENT, columns);
        match self.advice.is_empty() {
            true => text,
            false => format!("{text}\n{}", wrap(&self.advice, INDENT, INDENT, columns)),
        }
    }
}

/// Runs the command; it fails if anything is bad.
///
/// # Errors
/// The findings cannot be printed.
pub(super) fn run(options: &Options) -> Result<ExitCode, Trouble> {
    let mut findings = examine(&Place::here(), options.remove);
    let is_bad = findings.iter().any(|finding| finding.grade == Grade::Bad);
    if options.quiet {
        findings.retain(|finding| finding.grade != Grade::Ok);
    }
    print(|out| match options.json {
        true => as_json(out, &findings),
        false => findings
            .iter()
            .try_for_each(|finding| writeln!(out, "{}", finding.spell(columns()))),
    })?;
    Ok(match is_bad {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

fn examine(place: &Place, remove: bool) -> Vec<Finding> {
    let (mut findings, others) = library::check(place);
    match Backend::from_env() {
        Ok(backend) => {
            let backends: Vec<Backend> = [backend].into_iter().chain(others).collect();
            findings.extend(environment::check(&backends));
            findings.extend(providers::check(backend));
        }
        Err(error) => findings.push(Finding::bad(
            "library",
            error.to_string(),
            "set OXIFABRIC_LIBRARY to a libfabric.so.1, or unset it",
        )),
    }
    findings.extend(memory::check(place));
    findings.extend(limits::check(place));
    findings.extend(network::check(place));
    findings.extend(leftovers::check(place, remove));
    findings
}

fn as_json(out: &mut dyn Write, findings: &[Finding]) -> io::Result<()> {
    let findings = findings.iter().map(|finding| {
        format!(
            "{{\"grade\": {}, \"about\": {}, \"text\": {}, \"advice\": {}}}",
            quote(finding.grade.name()),
            quote(&finding.about),
            quote(&finding.text),
            quote(&finding.advice)
        )
    });
    print_array(out, &findings.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_printed_with_what_to_do() {
        let bad = Finding::bad("place", "it is full", "make room");
        assert_eq!(bad.spell(80), "bad   place: it is full\n      make room");
        assert_eq!(
            bad.spell(20),
            "bad   place: it is\n      full\n      make room"
        );
        assert_eq!(Finding::ok("place", "free").spell(80), "ok    place: free");
        let mut json = Vec::new();
        as_json(&mut json, &[Finding::ok("a", "\"b\""), bad]).unwrap();
        let expected = r#"[
  {"grade": "ok", "about": "a", "text": "\"b\"", "advice": ""},
  {"grade": "bad", "about": "place", "text": "it is full", "advice": "make room"}
]
"#;
        assert_eq!(String::from_utf8(json).unwrap(), expected);
    }
}
