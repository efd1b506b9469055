//! `oxi completions`: what a shell needs to complete the options of the programs. `cargo xtask dist` lays it out.

use std::io;
use std::process::ExitCode;

use clap::Args;
use clap_complete::{Shell, generate};

use super::Trouble;
use super::man::programs;
use crate::output::print;

/// Options of the command.
#[derive(Args)]
pub(super) struct Options {
    /// For which shell
    #[arg(value_parser = ["bash", "zsh", "fish"])]
    shell: String,
    /// For which program
    #[arg(default_value = "oxi", value_parser = ["fi_info", "fi_mon_sampler", "fi_pingpong", "fi_strerror", "oxi"])]
    program: String,
}

/// Prints the script of a program for a shell.
pub(super) fn run(options: &Options) -> Result<ExitCode, Trouble> {
    let shell: Shell = options.shell.parse()?;
    let named = programs()
        .into_iter()
        .find(|command| command.get_name() == options.program);
    let mut command = named.ok_or("there is no such program")?;
    let mut script = Vec::new();
    generate(shell, &mut command, &options.program, &mut script);
    print(|out| io::copy(&mut script.as_slice(), out).map(|_| ()))?;
    Ok(ExitCode::SUCCESS)
}
