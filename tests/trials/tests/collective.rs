//! Collectives of several processes through the C interface, with a member that dies in the end.

#[macro_use]
extern crate oxifabric_trials;

use std::time::Duration;

use oxifabric_trials::source::compile_client;
use oxifabric_trials::{Library, Program, require};

fn main() -> std::process::ExitCode {
    oxifabric_trials::harness::main()
}

/// Longer than the program takes where all goes well, by far.
const LIMIT: Duration = Duration::from_secs(120);

macro_rules! providers {
    ($($name:ident: $provider:literal;)*) => {$(
        #[test]
        fn $name() {
            let library = require!(Library::under_test());
            let program = require!(compile_client("collective"));
            let outcome = Program::new(program.file()).library(&library).args([$provider]).limit(LIMIT).run();
            outcome
                .expect_success()
                .expect_stdout(concat!("collectives of 4 processes over ", $provider));
        }
    )*};
}

providers! {
    four_processes_do_every_collective_over_tcp: "tcp";
    four_processes_do_every_collective_over_shm: "shm";
}
