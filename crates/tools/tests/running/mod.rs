//! Programs under a deadline, ended with the test.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// How long a program may take before the test fails.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(120);

/// A libfabric.conf that says nothing.
pub(crate) const NO_CONF: &str = "/dev/null";

/// A program that runs, killed when the test ends first.
pub(crate) struct Running {
    pub(crate) child: Child,
    out: mpsc::Receiver<String>,
    err: mpsc::Receiver<String>,
}

/// What a program did.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Running {
    /// Starts a program.
    pub(crate) fn start(program: &str, arguments: &[&str]) -> Self {
        Self::start_with(program, arguments, &[])
    }

    /// Starts a program with these variables besides.
    pub(crate) fn start_with(
        program: &str,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        let mut child = Command::new(program)
            .args(arguments)
            // Whole texts, unless a test asks for lines.
            .env("COLUMNS", "1000")
            .envs(variables.iter().copied())
            .env_remove("OXIFABRIC_LIBRARY")
            // What this machine's libfabric.conf says is not for tests.
            .env("FI_OXI_CONF", NO_CONF)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let out = lines(child.stdout.take().unwrap());
        let err = lines(child.stderr.take().unwrap());
        Self { child, out, err }
    }

    /// Waits for a line of the standard error that contains the text, and returns it.
    pub(crate) fn wait_for(&self, text: &str) -> String {
        let start = Instant::now();
        loop {
            let left = WATCHDOG.saturating_sub(start.elapsed());
            let line = self.err.recv_timeout(left).expect("the line comes");
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Ended {
        let start = Instant::now();
        let (mut out, mut err) = (String::new(), String::new());
        // Lines end when the program has closed its outputs, which is when it ends.
        for (lines, text) in [(&self.out, &mut out), (&self.err, &mut err)] {
            loop {
                let left = WATCHDOG.saturating_sub(start.elapsed());
                match lines.recv_timeout(left) {
                    Ok(line) => text.push_str(&line),
                    Err(mpsc::RecvTimeoutError::Disconnected) => break,
                    Err(mpsc::RecvTimeoutError::Timeout) => {
                        panic!("it does not end; so far: {text}")
                    }
                }
            }
        }
        let status = self.child.wait().unwrap();
        Ended { status, out, err }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

fn lines(from: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut line = String::new();
        while matches!(from.read_line(&mut line), Ok(len) if len > 0) {
            if sender.send(core::mem::take(&mut line)).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Runs a program to its end.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Ended {
    Running::start(program, arguments).end()
}
