//! The other process of a measurement, as a command of this program.

use clap::Args;

/// Options of the command.
#[derive(Args)]
pub(super) struct Options {
    /// Provider to play over
    #[arg(long)]
    pub(super) provider: String,
    /// Processor to run on
    #[arg(long)]
    pub(super) cpu: Option<usize>,
}
