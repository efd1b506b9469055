//! A child process of this program, which receives commands as lines and answers each with one.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use nix::sys::prctl;
use nix::sys::signal::Signal;

use crate::Trouble;

/// A running child process; killed when dropped.
pub struct ChildProcess {
    child: Child,
    commands: Option<ChildStdin>,
    answers: Lines<BufReader<ChildStdout>>,
}

impl ChildProcess {
    /// Starts this program once more, with these arguments and, beside the environment of this process, these variables.
    ///
    /// # Errors
    /// The child cannot be started.
    pub fn start(arguments: &[String], variables: &[(&str, String)]) -> Result<Self, Trouble> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(arguments)
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start another process: {error}"))?;
        let commands = child.stdin.take();
        let answers = child.stdout.take().ok_or("the other process has no pipe")?;
        Ok(Self {
            child,
            commands,
            answers: BufReader::new(answers).lines(),
        })
    }

    /// Sends the child a command.
    ///
    /// # Errors
    /// The child has ended.
    pub fn say(&mut self, line: &str) -> Result<(), Trouble> {
        let commands = self.commands.as_mut().ok_or("the pipe is closed")?;
        writeln!(commands, "{line}")
            .map_err(|error| format!("the other process is gone: {error}").into())
    }

    /// Waits for the child's answer to a command.
    ///
    /// # Errors
    /// The child has ended.
    pub fn answer(&mut self) -> Result<String, Trouble> {
        match self.answers.next() {
            Some(line) => Ok(line?),
            None => Err("the other process ended too early".into()),
        }
    }

    /// Closes the pipe and waits until the child ends by itself.
    ///
    /// # Errors
    /// The child did not exit with success.
    pub fn dismiss(mut self) -> Result<(), Trouble> {
        self.commands = None;
        let status = self.child.wait()?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("the other process ended with {status}").into())
        }
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        // The child may have ended already; there is nothing to do about any other error.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Makes this process, a child, end with its parent. The end of its input ends it too, but not while it waits for a message that
/// never comes.
///
/// # Errors
/// The kernel refuses (prctl(2)).
pub fn end_with_starter() -> Result<(), Trouble> {
    Ok(prctl::set_pdeathsig(Signal::SIGKILL)?)
}
