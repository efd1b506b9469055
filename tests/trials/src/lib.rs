//! Programs from outside this project, run unmodified against a `libfabric.so.1`.
//!
//! The tests of this crate judge the library from outside, as its users meet it: a program is started with
//! `LD_LIBRARY_PATH` pointing at a [`Library`], and what it prints and how it ends is the verdict.
//!
//! - [`library`]: the builds of libfabric that a program can be pointed at.
//! - [`process`]: one program under a deadline; [`pair`]: a server and its client.
//! - [`port`], [`scratch`] and [`namespace`]: what keeps runs apart, free ports, temporary folders, and a network and a /dev/shm of
//!   a trial's own.
//! - [`source`]: C programs compiled for a trial; [`mpi`]: MPI libraries and their launchers; [`wheel`]: those of them
//!   that come from the Python package index.
//! - [`pingpong`]: the command lines of `fi_pingpong` and the figures it prints.
//! - [`callgrind`]: how many instructions a program spends in a library.
//!
//! No trial sleeps to wait for another process: it polls a condition, and a deadline bounds the polling. What
//! a trial starts runs in a session of its own, and the whole session ends with the trial.
//!
//! A trial whose program is not installed is ignored with that reason (see [`require!`] and [`harness`]). `cargo xtask test` fails
//! unless the reason is among those that it lists.
#![forbid(unsafe_code)]

pub mod callgrind;
pub mod harness;
pub mod library;
pub mod mpi;
pub mod namespace;
pub mod pair;
pub mod pingpong;
pub mod port;
pub mod process;
pub mod scratch;
pub mod softnic;
pub mod source;
pub mod wheel;

#[doc(hidden)]
pub use inventory;
pub use library::Library;
pub use namespace::Namespace;
pub use oxifabric_trial_macro::test;
pub use pair::Pair;
pub use process::{End, Outcome, Process, Program, signal};
pub use scratch::Scratch;

use std::fmt;
use std::path::{Path, PathBuf};

/// Something that a trial needs and this machine does not have.
#[derive(Debug)]
pub struct Missing(pub String);

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns the installed program of that name, searched on `PATH`.
///
/// # Errors
/// The program is on no folder of `PATH`.
pub fn installed(program: &str) -> Result<PathBuf, Missing> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|candidate| candidate.is_file())
        .ok_or_else(|| Missing(format!("{program} is not installed")))
}

/// Returns the folder of the repository that contains this crate.
#[must_use]
pub fn repository() -> &'static Path {
    let room = Path::new(env!("CARGO_MANIFEST_DIR"));
    room.ancestors()
        .nth(2)
        .expect("the room lies two folders below the repository's root")
}
