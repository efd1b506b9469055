//! The programs of fabtests, which the variable FABTESTS_BIN names the folder of.

use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use oxifabric_trials::{Library, Pair, Program, port};

/// How long a run may take: all sizes, over a provider that is slow.
const LIMIT: Duration = Duration::from_secs(600);

/// Returns the folder of the programs, if it is known.
pub(crate) fn folder() -> Option<PathBuf> {
    env::var_os("FABTESTS_BIN").map(PathBuf::from)
}

/// Returns a server and its client.
pub(crate) fn pair(file: &Path, options: &str, library: &Library, provider: &str) -> Pair {
    let service = port::free();
    let side = |address: String| {
        let program = Program::new(file).library(library).args(["-p", provider]);
        program.line(options).line(&address).limit(LIMIT)
    };
    Pair {
        server: side(format!("-s 127.0.0.1 -B {service}")),
        client: side(format!("-s 127.0.0.1 -P {service} 127.0.0.1")),
        is_ready: |process| port::is_reachable(process) || port::is_bound(process),
    }
}
