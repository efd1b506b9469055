//! Another process of this program, which follows lines and answers each with one.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use nix::sys::prctl;
use nix::sys::signal::Signal;

use super::Trouble;

/// The process, as the one that started it sees it; killed when dropped.
pub(super) struct Companion {
    child: Child,
    orders: Option<ChildStdin>,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Companion {
    /// Starts it with these arguments and these variables beside those of this process.
    pub(super) fn start(
        arguments: &[String],
        variables: &[(&str, String)],
    ) -> Result<Self, Trouble> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(arguments)
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start another process: {error}"))?;
        let orders = child.stdin.take();
        let answers = child.stdout.take().ok_or("the other process has no pipe")?;
        Ok(Self {
            child,
            orders,
            answers: BufReader::new(answers).lines(),
        })
    }

    pub(super) fn say(&mut self, line: &str) -> Result<(), Trouble> {
        let orders = self.orders.as_mut().ok_or("the pipe is closed")?;
        writeln!(orders, "{line}")
            .map_err(|error| format!("the other process is gone: {error}").into())
    }

    pub(super) fn answer(&mut self) -> Result<String, Trouble> {
        match self.answers.next() {
            Some(line) => Ok(line?),
            None => Err("the other process ended too early".into()),
        }
    }

    /// Lets it end by itself.
    pub(super) fn dismiss(mut self) -> Result<(), Trouble> {
        self.orders = None;
        let status = self.child.wait()?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("the other process ended with {status}").into())
        }
    }
}

impl Drop for Companion {
    fn drop(&mut self) {
        // It may have ended already; there is nothing to do about anything else.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Lets this process, which is a companion, end with the one that started it. The end of the pipe says it too, but not to
/// who waits for a message that never comes.
pub(super) fn end_with_starter() -> Result<(), Trouble> {
    Ok(prctl::set_pdeathsig(Signal::SIGKILL)?)
}
