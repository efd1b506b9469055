//! Lays out `target/dist`.

use std::error::Error;
use std::path::PathBuf;

/// Builds the library and the tools and lays them out in `out`, by default `target/dist`.
pub(crate) fn dist(_out: Option<PathBuf>) -> Result<PathBuf, Box<dyn Error>> {
    Err("the library cannot be laid out yet".into())
}
