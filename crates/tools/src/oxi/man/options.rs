//! The pages of the programs, section 1.

use std::io;

use clap::{Arg, Command, CommandFactory};
use clap_mangen::Man;

use super::Page;
use crate::{exit_codes, fi_info, fi_mon_sampler, fi_pingpong, oxi};

/// What is said of a program besides its options.
const MORE: [(&str, &str); 4] = [
    ("fi_info", include_str!("../../../manual/fi_info.roff")),
    (
        "fi_mon_sampler",
        include_str!("../../../manual/fi_mon_sampler.roff"),
    ),
    (
        "fi_pingpong",
        include_str!("../../../manual/fi_pingpong.roff"),
    ),
    ("oxi", include_str!("../../../manual/oxi.roff")),
];

/// The end of the page of one of `oxi`'s commands.
const SEE_ALSO: &str = ".SH SEE ALSO\n.BR oxi (1),\n.BR oxifabric (7)\n";

/// `fi_strerror` has no options that clap knows.
const FI_STRERROR: &str = include_str!("../../../manual/fi_strerror.1");

/// Makes all pages.
pub(super) fn pages() -> io::Result<Vec<Page>> {
    let mut pages = vec![Page {
        name: "fi_strerror".to_owned(),
        section: 1,
        text: FI_STRERROR.to_owned(),
    }];
    for command in commands() {
        pages.push(page(&command)?);
        for part in parts(&command) {
            pages.push(page(part)?);
        }
    }
    Ok(pages)
}

/// Returns all programs, with the commands that are meant for people.
pub(in crate::oxi) fn programs() -> Vec<Command> {
    let argument = Arg::new("number").value_name("FI_ERROR_CODE");
    let fi_strerror = Command::new("fi_strerror").arg(argument);
    let shown = commands().map(|command| visible(&command));
    shown.into_iter().chain([fi_strerror]).collect()
}

/// Returns a command without the commands that are hidden.
fn visible(command: &Command) -> Command {
    let about = command.get_about().cloned().unwrap_or_default();
    let version = command.get_version().unwrap_or_default().to_owned();
    Command::new(command.get_name().to_owned())
        .about(about)
        .version(version)
        .disable_help_flag(true)
        .disable_help_subcommand(true)
        .disable_version_flag(true)
        .args(command.get_arguments().cloned())
        .subcommands(parts(command).map(visible))
}

/// Returns all programs with options.
fn commands() -> [Command; 4] {
    let commands = [
        fi_info::Options::command(),
        fi_mon_sampler::Options::command(),
        fi_pingpong::Options::command(),
        oxi::Oxi::command(),
    ];
    commands.map(|command| {
        let mut command = command.disable_help_subcommand(true);
        command.build();
        command
    })
}

/// Returns the commands of a program that are meant for people.
fn parts(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|part| !part.is_hide_set())
}

fn page(command: &Command) -> io::Result<Page> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let man = Man::new(command.clone())
        .manual("oxifabric")
        .source(concat!("oxifabric ", env!("CARGO_PKG_VERSION")));
    let mut text = Vec::new();
    man.render(&mut text)?;
    let mut text = String::from_utf8_lossy(&text).into_owned();
    let program = name.split('-').next().unwrap_or(name);
    text.push_str(&exit_codes::section(program));
    let more = MORE.iter().find(|(known, _)| *known == name);
    text.push_str(more.map_or(SEE_ALSO, |(_, more)| more));
    Ok(Page {
        name: name.to_owned(),
        section: 1,
        text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what a reader of the page sees of the dashes.
    fn plain(page: &Page) -> String {
        page.text.replace("\\-", "-")
    }

    #[test]
    fn every_option_of_every_command_is_documented() {
        let pages = pages().unwrap();
        let mut options = 0;
        for program in commands() {
            for command in [&program].into_iter().chain(parts(&program)) {
                let name = command.get_display_name().unwrap_or(command.get_name());
                let page = pages.iter().find(|page| page.name == name);
                let page = plain(page.unwrap_or_else(|| panic!("no page {name}")));
                for argument in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
                    let long = argument.get_long().map(|long| format!("--{long}"));
                    let short = argument.get_short().map(|short| format!("-{short}"));
                    for spelled in long.into_iter().chain(short) {
                        assert!(page.contains(&spelled), "{name}: {spelled}");
                        options += 1;
                    }
                }
            }
        }
        assert!(options > 50, "{options}");
    }

    #[test]
    fn pages_do_not_tell_of_commands_between_processes() {
        let pages = pages().unwrap();
        let page = pages.iter().find(|page| page.name == "oxi").unwrap();
        let page = plain(page);
        assert!(page.contains("oxi-doctor(1)"), "{page}");
        for hidden in ["oxi-peer", "oxi-worker-pair", "oxi-man"] {
            assert!(!page.contains(hidden), "{hidden}");
            assert!(pages.iter().all(|page| page.name != hidden));
        }
    }

    /// Words of the prose that begin like options, which clap does not check.
    #[test]
    fn options_in_the_prose_exist() {
        let commands = commands();
        for (name, prose) in MORE {
            let prose = prose.replace("\\-", "-");
            let words = prose.split(|c: char| !(c.is_ascii_alphanumeric() || "-_".contains(c)));
            for word in words.filter_map(|word| word.strip_prefix("--")) {
                let mut known = commands.iter().flat_map(|command| {
                    let parts = parts(command).flat_map(Command::get_arguments);
                    command.get_arguments().chain(parts)
                });
                let exists = known.any(|argument| argument.get_long() == Some(word));
                assert!(exists, "{name}: --{word}");
            }
        }
    }
}
