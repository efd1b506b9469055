//! How the programs end. The help and the manual page of each have its table.

use clap::Command;

/// What an exit code means.
type Row = (&'static str, &'static str);

const FI_INFO: &[Row] = &[
    ("0", "something is offered"),
    ("1", "an option is unknown, or the output cannot be written"),
    ("22", "an option has a value that is none"),
    (
        "61",
        "nothing fits the request; as any other number: the error of fi_getinfo(3)",
    ),
];

const FI_PINGPONG: &[Row] = &[
    ("0", "all messages came and went"),
    ("1", "an option is unknown"),
    (
        "other",
        "the number of the error of libfabric or of the system that ended it",
    ),
];

const FI_MON_SAMPLER: &[Row] = &[
    ("0", "the samples were written"),
    (
        "1",
        "an option is unknown, or a file cannot be read or written",
    ),
];

const OXI: &[Row] = &[
    ("0", "all is well"),
    (
        "1",
        "something is not: an option, what was measured (a message was lost or wrong), or what doctor found bad",
    ),
];

/// Returns the table of a program, or of one of its commands.
pub(crate) fn of(program: &str) -> &'static [Row] {
    match program {
        "fi_info" => FI_INFO,
        "fi_pingpong" => FI_PINGPONG,
        "fi_mon_sampler" => FI_MON_SAMPLER,
        _ => OXI,
    }
}

/// Puts the table at the end of a program's help, and of that of its commands.
pub(crate) fn add_to_help(command: Command) -> Command {
    let rows = of(command.get_name()).iter();
    let rows: Vec<String> = rows
        .map(|(code, what)| format!("  {code:<6} {what}"))
        .collect();
    let table = format!("Exit codes:\n{}", rows.join("\n"));
    let more = (command.get_after_help()).map_or_else(String::new, |more| format!("\n\n{more}"));
    let command = command.after_help(format!("{table}{more}"));
    command.mut_subcommands(move |part| part.after_help(table.clone()))
}

/// Spells the table in the language of man(7).
pub(crate) fn section(program: &str) -> String {
    let rows = of(program).iter();
    let rows: String = rows
        .map(|(code, what)| format!(".TP\n{code}\n{what}\n"))
        .collect();
    format!(".SH EXIT STATUS\n{rows}")
}
