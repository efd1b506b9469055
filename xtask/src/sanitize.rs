//! `cargo xtask asan` and `cargo xtask tsan`: tests under the sanitizers that come with the compiler.
//!
//! Both are unstable by name only; RUSTC_BOOTSTRAP lets these builds use them.

use std::path::PathBuf;

use oxifabric_trials::repository;

/// What is built for: with a triple, flags do not reach build scripts.
pub(crate) const TRIPLE: &str = "x86_64-unknown-linux-gnu";

/// Where cargo builds.
pub(crate) fn target_folder() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => repository().join(folder),
        None => repository().join("target"),
    }
}
