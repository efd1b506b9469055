//! The program `fi_pingpong`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    oxifabric_tools::fi_pingpong::main()
}
