//! The program `fi_mon_sampler`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    oxifabric_tools::fi_mon_sampler::main()
}
