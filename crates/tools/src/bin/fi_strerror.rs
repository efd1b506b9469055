//! The program `fi_strerror`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    oxifabric_tools::fi_strerror::main()
}
