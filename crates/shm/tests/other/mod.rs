//! This test program again as another process, told by environment variables what to be.

use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use oxifabric_types::Address;

pub(crate) const ROLE: &str = "OXIFABRIC_TEST_ROLE";
pub(crate) const TARGET: &str = "OXIFABRIC_TEST_TARGET";
pub(crate) const NAME: &str = "OXIFABRIC_TEST_NAME";

/// A process that is killed at the latest when the test is over.
pub(crate) struct Other {
    pub(crate) child: Child,
    out: BufReader<ChildStdout>,
}

impl Other {
    pub(crate) fn start(role: &str, target: &Address, name: Option<&str>) -> Self {
        let mut command = Command::new(env::current_exe().expect("the program's path"));
        command
            .args([
                "--exact",
                "other_process",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(ROLE, role)
            .env(TARGET, target.to_string())
            .envs(name.map(|name| (NAME, name)))
            .stdout(Stdio::piped());
        let mut child = command.spawn().expect("a second process");
        let out = BufReader::new(child.stdout.take().expect("piped"));
        Self { child, out }
    }

    /// Waits for a line that starts so, and returns the rest of it.
    pub(crate) fn line(&mut self, start: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            let len = self.out.read_line(&mut line).expect("a pipe");
            assert_ne!(len, 0, "the other process ended without saying {start}");
            if let Some((_, rest)) = line.split_once(start) {
                return rest.trim().to_owned();
            }
        }
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("a live process");
        self.child.wait().expect("a dead process");
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
