//! The program `oxi`, and under the name of another program that one: the layout has one file, and links to it.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    oxifabric_tools::by_name::main()
}
