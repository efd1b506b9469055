//! `oxi man`: writes the manual pages of all programs and providers. `cargo xtask dist` lays them out.
//!
//! Options stand in the pages as clap knows them, and variables as the library lists them, so that neither can be forgotten; the
//! prose is in `crates/tools/manual`.

mod options;
mod variables;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use oxifabric::Backend;

use super::Trouble;

/// Options of the command.
#[derive(Args)]
pub(super) struct Options {
    /// Folder in which man1 and man7 are made
    folder: PathBuf,
}

/// One page.
#[derive(Debug)]
struct Page {
    name: String,
    section: u8,
    /// In the language of man(7).
    text: String,
}

pub(super) use options::programs;

/// Writes all pages.
pub(super) fn run(options: &Options) -> Result<ExitCode, Trouble> {
    let parameters = Backend::from_env()?.parameters()?;
    for page in options::pages()?
        .into_iter()
        .chain(variables::pages(&parameters))
    {
        page.write(&options.folder)?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Page {
    fn write(&self, folder: &Path) -> Result<(), Trouble> {
        let Self { name, section, .. } = self;
        let folder = folder.join(format!("man{section}"));
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(format!("{name}.{section}")), &self.text)?;
        Ok(())
    }
}
