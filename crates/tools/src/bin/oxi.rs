//! The program `oxi`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    oxifabric_tools::oxi::main()
}
