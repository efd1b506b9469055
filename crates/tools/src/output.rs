//! Printing for people and for pipes that may close early.

use std::env;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use clap::Parser;
use ratatui::crossterm::terminal;

use crate::exit_codes;

/// The end of every help.
pub(crate) const LIBRARY_HELP: &str =
    "OXIFABRIC_LIBRARY=PATH in the environment uses another libfabric.so.1 than the one built in.";

/// Columns where the output is no terminal and COLUMNS says nothing.
const COLUMNS: usize = 80;

/// Narrower terminals than this are written to as if they were so wide.
const COLUMNS_MIN: usize = 20;

/// Prints to the standard output through a buffer; a reader that went away is no error.
pub(crate) fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let written = write(&mut out).and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Ends a program as those of libfabric do: with the number of the error, in the bits that there are for it.
pub(crate) fn exit_with(errno: i32) -> ExitCode {
    ExitCode::from(errno as u8)
}

/// Returns the name under which the program was started.
pub(crate) fn program_name(default: &str) -> String {
    env::args_os()
        .next()
        .map_or_else(|| default.to_owned(), |name| name.to_string_lossy().into())
}

/// Reads the options of a program, or prints help, or what is wrong with them: that in the last line.
pub(crate) fn parse_options<T: Parser>() -> Result<T, ExitCode> {
    let command = exit_codes::add_to_help(T::command()).term_width(columns());
    let parsed = command.clone().try_get_matches();
    let parsed = parsed.and_then(|mut matches| {
        let options = T::from_arg_matches_mut(&mut matches);
        options.map_err(|error| error.format(&mut command.clone()))
    });
    parsed.map_err(|error| {
        // Nothing can be done about a terminal that is gone.
        match error.use_stderr() {
            true => eprintln!("{}", complaint(&error.render().to_string())),
            false => _ = error.print(),
        }
        ExitCode::from(u8::from(error.use_stderr()))
    })
}

/// Puts what clap says is wrong into one line, behind the hints.
fn complaint(rendered: &str) -> String {
    let (what, hints) = rendered.split_once("\n\n").unwrap_or((rendered, ""));
    let hints = hints.lines().map(str::trim_end);
    let hints = hints.filter(|line| !line.is_empty() && !line.starts_with("For more information"));
    let what: Vec<&str> = what.lines().map(str::trim).collect();
    let what = format!("{}; --help says more", what.join(" "));
    let lines: Vec<&str> = hints.chain([what.as_str()]).collect();
    lines.join("\n")
}

/// Returns how many columns lines may have: what COLUMNS says, or the terminal.
pub(crate) fn columns() -> usize {
    let named = env::var("COLUMNS")
        .ok()
        .and_then(|text| text.trim().parse().ok());
    let of_terminal = || match io::stdout().is_terminal() {
        true => terminal::size().ok().map(|(columns, _)| columns.into()),
        false => None,
    };
    let columns: Option<usize> = named.or_else(of_terminal);
    columns
        .filter(|columns| *columns > 0)
        .unwrap_or(COLUMNS)
        .max(COLUMNS_MIN)
}

/// Breaks a text into lines of at most so many columns, between words. The first one begins with `first`, the others with `rest`; a
/// word that is longer than a line stays whole.
pub(crate) fn wrap(text: &str, first: &str, rest: &str, columns: usize) -> String {
    let mut lines = vec![first.to_owned()];
    let mut at_start = true;
    for word in text.split(' ') {
        let line = lines.last_mut().map_or(0, |line| line.chars().count());
        if !at_start && line + 1 + word.chars().count() > columns {
            lines.push(rest.to_owned());
            at_start = true;
        }
        if let Some(line) = lines.last_mut() {
            if !at_start {
                line.push(' ');
            }
            line.push_str(word);
        }
        at_start = false;
    }
    lines.join("\n")
}

/// Returns a string as JSON spells it.
pub(crate) fn quote(text: &str) -> String {
    let mut quoted = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            control if control < ' ' => quoted.push_str(&format!("\\u{:04x}", control as u32)),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// Prints values as a JSON array, one a line.
pub(crate) fn print_array(out: &mut dyn Write, values: &[String]) -> io::Result<()> {
    writeln!(out, "[")?;
    for (at, value) in values.iter().enumerate() {
        let comma = if at + 1 < values.len() { "," } else { "" };
        writeln!(out, "  {value}{comma}")?;
    }
    writeln!(out, "]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_quoted() {
        assert_eq!(quote("a\"b\\c\nd\u{1}é"), r#""a\"b\\c\nd\u0001é""#);
    }

    #[test]
    fn texts_are_broken_between_words() {
        assert_eq!(wrap("a bc def", "# ", "# ", 6), "# a bc\n# def");
        assert_eq!(wrap("abcdefghi j", "", "  ", 4), "abcdefghi\n  j");
        assert_eq!(wrap("", "# ", "# ", 80), "# ");
        assert_eq!(wrap("one two", "", "", 80), "one two");
    }

    #[test]
    fn the_last_line_of_a_complaint_names_the_option() {
        let command = clap::Command::new("x").arg(
            clap::Arg::new("kind")
                .long("kind")
                .value_parser(["ring", "star"]),
        );
        let error = command
            .try_get_matches_from(["x", "--kind", "rig"])
            .unwrap_err();
        let text = complaint(&error.render().to_string());
        let last = text.lines().last().unwrap();
        assert!(
            last.starts_with(
                "error: invalid value 'rig' for '--kind <kind>' [possible values: ring, star]"
            ),
            "{text}"
        );
        assert!(text.contains("'ring'\n"), "{text}");
        assert!(!text.contains("For more"), "{text}");
    }
}
