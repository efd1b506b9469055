//! Every decoder of bytes from untrusted peers, each as a function of bytes that may do anything but panic.
//!
//! A *target* is such a function with a few valid inputs to start from. `cargo xtask fuzz` lets libFuzzer look for inputs
//! that break one, under AddressSanitizer; the test `replay` runs the seeds and everything that was ever found without
//! either. A finding is a file in `findings/TARGET/`.
//!
//! - [`targets`]: the functions; their properties are in the first lines of each.
//! - [`world`]: an engine with operations under way, for the targets that speak to one.
#![allow(
    clippy::missing_panics_doc,
    reason = "a property that does not hold panics: that is what a target is for"
)]

mod hints;
pub mod targets;
pub mod world;

use std::fs;
use std::path::PathBuf;

/// A decoder and what it is tried with.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, for commands and folders.
    pub name: &'static str,
    /// Panics if a property does not hold for these bytes.
    pub run: fn(&[u8]),
    /// Valid inputs.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All targets.
pub const TARGETS: &[Target] = targets::ALL;

impl Target {
    /// Lists the seeds and what was found before.
    pub fn inputs(&self) -> Vec<Vec<u8>> {
        let mut inputs = (self.seeds)();
        inputs.push(Vec::new());
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("findings")
            .join(self.name);
        let mut files: Vec<PathBuf> = fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .collect();
        files.sort();
        inputs.extend(files.iter().filter_map(|file| fs::read(file).ok()));
        inputs
    }
}
