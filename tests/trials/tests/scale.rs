//! What grows with the number of peers is measured by `scale`, which any library runs. Here the program itself is tried, with few
//! peers: each of its measures ends, and gives a figure.

#[macro_use]
extern crate oxifabric_trials;

use oxifabric_trials::source::compile_client;
use oxifabric_trials::{Library, Missing, Program, require};

fn main() -> std::process::ExitCode {
    oxifabric_trials::harness::main()
}

/// Runs one measure with three peers.
fn measure(provider: &str, name: &str) -> Result<(), Missing> {
    let library = Library::under_test()?;
    let compiled = compile_client("scale")?;
    let program = Program::new(compiled.file()).library(&library);
    let outcome = program.args([provider, name, "3"]).run();
    outcome.expect_success();
    let figure = outcome.stdout.split_whitespace().last();
    let figure: Option<f64> = figure.and_then(|word| word.parse().ok());
    // Three addresses may fit into memory that is there already.
    let is_figure =
        figure.is_some_and(|figure| figure > 0.0 || name == "inserted" && figure == 0.0);
    assert!(is_figure, "{figure:?}\n{outcome}");
    Ok(())
}

macro_rules! measures {
    ($($name:ident)*) => {
        measures! { over_tcp "tcp" $($name)* }
        measures! { over_shm "shm" $($name)* }
        measures! { over_reliable_datagrams "udp;ofi_rxd" $($name)* }
    };
    ($module:ident $provider:literal $($name:ident)*) => {
        mod $module {
            $(
                #[test]
                fn $name() {
                    super::require!(super::measure($provider, stringify!($name)));
                }
            )*
        }
    };
}

measures! { inserted connected active connect poll sleep open getinfo beside leave }
