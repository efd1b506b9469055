//! All programs in one file, told apart by the name that it is started by: each would hold the whole library by itself.

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

use crate::{fi_info, fi_mon_sampler, fi_pingpong, fi_strerror, oxi};

/// Runs the program that this process was started as; `oxi` under any other name.
#[must_use]
pub fn main() -> ExitCode {
    let started_as = std::env::args_os().next().unwrap_or_default();
    program(&started_as)()
}

fn program(started_as: &OsStr) -> fn() -> ExitCode {
    match Path::new(started_as).file_name().and_then(OsStr::to_str) {
        Some("fi_info") => fi_info::main,
        Some("fi_mon_sampler") => fi_mon_sampler::main,
        Some("fi_pingpong") => fi_pingpong::main,
        Some("fi_strerror") => fi_strerror::main,
        _ => oxi::main,
    }
}
