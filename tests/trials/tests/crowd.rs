//! Threads that share an endpoint and a queue, in more processes than there are processors. `crowd`, which any library runs, checks all data.

#[macro_use]
extern crate oxifabric_trials;

use oxifabric_trials::source::compile_client;
use oxifabric_trials::{Library, Missing, Program, require};

fn main() -> std::process::ExitCode {
    oxifabric_trials::harness::main()
}

/// Runs one work with four threads in each of three processes, with short and with long operations.
fn crowd(provider: &str, work: &str) -> Result<(), Missing> {
    let library = Library::under_test()?;
    let compiled = compile_client("crowd")?;
    for options in ["8 200", "50000 20"] {
        let program = Program::new(compiled.file()).library(&library);
        let program = program.args([provider, "4", "3", work]).line(options);
        let outcome = program.run();
        outcome.expect_success();
        let figure = outcome.stdout.split_whitespace().last();
        let figure: Option<f64> = figure.and_then(|word| word.parse().ok());
        assert!(figure.is_some_and(|figure| figure > 0.0), "{outcome}");
    }
    Ok(())
}

macro_rules! crowds {
    ($($work:ident)*) => {
        crowds! { over_tcp "tcp" $($work)* }
        crowds! { over_shm "shm" $($work)* }
        crowds! { over_reliable_datagrams "udp;ofi_rxd" $($work)* }
    };
    ($module:ident $provider:literal $($work:ident)*) => {
        mod $module {
            $(
                #[test]
                fn $work() {
                    super::require!(super::crowd($provider, stringify!($work)));
                }
            )*
        }
    };
}

crowds! { messages writes reads }
