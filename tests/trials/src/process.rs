//! One program under a deadline, in a session of its own.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::{Library, Scratch};

/// Variables that would let the caller's surroundings decide what a trial shows.
const FOREIGN_PREFIXES: [&str; 10] = [
    "FI_",
    "I_MPI_",
    "OMPI_",
    "PMIX_",
    "PRTE_",
    "PMI_",
    "MPIR_",
    "HYDRA_",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
];

/// How often a condition is looked at while waiting for it.
const POLL: Duration = Duration::from_millis(5);

/// A program to be run, with its arguments, its environment, its library and its time limit.
#[derive(Debug)]
pub struct Program {
    path: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    folder: Option<PathBuf>,
    limit: Duration,
}

impl Program {
    /// Returns a program without arguments, to be ended after two minutes if it has not ended itself.
    pub fn new(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref().to_path_buf();
        // A path that cannot exist: no external provider joins the library under test.
        let env = vec![("FI_PROVIDER_PATH".into(), "/nonexistent".into())];
        Self {
            path,
            args: Vec::new(),
            env,
            folder: None,
            limit: Duration::from_secs(120),
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args
            .extend(args.into_iter().map(|arg| arg.as_ref().to_os_string()));
        self
    }

    /// Adds the words of one line as arguments; there is no quoting.
    #[must_use]
    pub fn line(self, words: &str) -> Self {
        self.args(words.split_ascii_whitespace())
    }

    /// Sets a variable of the program's environment.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        let pair = (name.as_ref().to_os_string(), value.as_ref().to_os_string());
        self.env.push(pair);
        self
    }

    /// Lets the program load `library`.
    #[must_use]
    pub fn library(self, library: &Library) -> Self {
        self.env("LD_LIBRARY_PATH", library.folder())
    }

    /// Runs the program in this folder.
    #[must_use]
    pub fn folder(mut self, folder: &Path) -> Self {
        self.folder = Some(folder.to_path_buf());
        self
    }

    /// Sets the time after which the program is ended by force.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Puts another program in front, which starts this one with its own last arguments.
    #[must_use]
    pub fn under<S: AsRef<OsStr>>(
        mut self,
        wrapper: &str,
        args: impl IntoIterator<Item = S>,
    ) -> Self {
        let inner = std::mem::take(&mut self.args);
        let path = std::mem::replace(&mut self.path, wrapper.into());
        let mut outer = self.args(args);
        outer.args.push(path.into_os_string());
        outer.args.extend(inner);
        outer
    }

    /// Starts the program.
    ///
    /// # Panics
    /// It cannot be started at all.
    #[must_use]
    pub fn start(self) -> Process {
        let scratch = Scratch::new();
        let output = |name| File::create(scratch.join(name)).expect("a new folder takes a file");
        let mut command = Command::new("setsid");
        // The program ends with the trial, however that ends.
        command.args(["setpriv", "--pdeathsig", "KILL", "--"]);
        command.arg(&self.path).args(&self.args);
        for (name, _) in std::env::vars_os() {
            let foreign = |prefix: &&str| name.as_encoded_bytes().starts_with(prefix.as_bytes());
            if FOREIGN_PREFIXES.iter().any(foreign) {
                command.env_remove(&name);
            }
        }
        command
            // What this machine's libfabric.conf says is not for trials.
            .env("FI_OXI_CONF", "/dev/null")
            .envs(self.env)
            .current_dir(self.folder.as_deref().unwrap_or(scratch.path()))
            .stdin(Stdio::null())
            .stdout(output("stdout"))
            .stderr(output("stderr"));
        let what = format!("{} {:?}", self.path.display(), self.args);
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {what}: {error}"));
        Process {
            child,
            what,
            scratch,
            deadline: Instant::now() + self.limit,
        }
    }

    /// Starts the program and waits for its end.
    #[must_use]
    pub fn run(self) -> Outcome {
        self.start().wait()
    }
}

/// A program that runs. Dropping it ends its whole session.
#[derive(Debug)]
pub struct Process {
    child: Child,
    what: String,
    scratch: Scratch,
    deadline: Instant,
}

impl Process {
    /// Waits for the end of the program, or ends it when its time is over.
    ///
    /// # Panics
    /// The operating system cannot say how the process is.
    #[must_use]
    pub fn wait(mut self) -> Outcome {
        let end = loop {
            if let Some(end) = self.ended() {
                break end;
            }
            if Instant::now() >= self.deadline {
                break End::TimedOut;
            }
            std::thread::sleep(POLL);
        };
        self.outcome(end)
    }

    /// Returns how the program ended, if it has.
    ///
    /// # Panics
    /// The operating system cannot say how the process is.
    pub fn ended(&mut self) -> Option<End> {
        let status = self.child.try_wait().expect("a child can be waited for");
        status.map(End::from)
    }

    /// Waits until `condition` holds.
    ///
    /// # Errors
    /// The program ended before, or its time is over.
    pub fn until(&mut self, mut condition: impl FnMut(&Self) -> bool) -> Result<(), End> {
        loop {
            if condition(self) {
                return Ok(());
            }
            if let Some(end) = self.ended() {
                return Err(end);
            }
            if Instant::now() >= self.deadline {
                return Err(End::TimedOut);
            }
            std::thread::sleep(POLL);
        }
    }

    /// Shortens the time that is left.
    pub fn hurry(&mut self, left: Duration) {
        self.deadline = self.deadline.min(Instant::now() + left);
    }

    /// Ends the program with SIGKILL, so that it cannot clean up.
    pub fn kill(&mut self) {
        // The process may have ended by itself in this very moment.
        let _ = self.child.kill();
    }

    /// Stops the program, and returns when it stands still.
    ///
    /// # Panics
    /// It has ended, or goes on.
    pub fn pause(&self) {
        signal("STOP", self.id());
        let deadline = Instant::now() + Duration::from_secs(60);
        let stat = PathBuf::from(format!("/proc/{}/stat", self.id()));
        let is_stopped = || {
            let stat = fs::read_to_string(&stat).expect("it runs");
            // Source: proc(5). The name of the program is in parentheses, and may have some itself.
            stat.rsplit_once(") ")
                .is_some_and(|(_, state)| state.starts_with('T'))
        };
        while !is_stopped() {
            assert!(Instant::now() < deadline, "it does not stop");
        }
    }

    /// Lets a program go on that was stopped.
    pub fn resume(&self) {
        signal("CONT", self.id());
    }

    /// Returns what the program has printed so far.
    #[must_use]
    pub fn stdout(&self) -> String {
        text(&self.scratch.join("stdout"))
    }

    /// Returns what the program has reported so far.
    #[must_use]
    pub fn stderr(&self) -> String {
        text(&self.scratch.join("stderr"))
    }

    /// Returns the process's number.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns everything about a program that has ended as `end` says.
    #[must_use]
    pub fn outcome(mut self, end: End) -> Outcome {
        self.end_session();
        Outcome {
            what: self.what.clone(),
            end,
            stdout: self.stdout(),
            stderr: self.stderr(),
        }
    }

    /// Ends whatever the program has started and left. `setsid` made the process the leader of a session, and
    /// the launchers of MPI give every rank a process group of its own inside it.
    fn end_session(&mut self) {
        let left: Vec<String> = session_members(self.child.id()).collect();
        if !left.is_empty() {
            let kill = "kill -KILL \"$@\" 2>/dev/null";
            // A process that ended in between is no failure.
            let _ = Command::new("sh")
                .args(["-c", kill, "sh"])
                .args(left)
                .status();
        }
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end_session();
    }
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It exited with this code.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
    /// It was ended because its time was over.
    TimedOut,
}

impl From<ExitStatus> for End {
    fn from(status: ExitStatus) -> Self {
        match status.code() {
            Some(code) => Self::Code(code),
            None => Self::Signal(status.signal().unwrap_or_default()),
        }
    }
}

/// A program that has ended, and all it said.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The command.
    pub what: String,
    /// How it ended.
    pub end: End,
    /// What it printed.
    pub stdout: String,
    /// What it reported.
    pub stderr: String,
}

impl Outcome {
    /// Returns whether the program ended well.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.end == End::Code(0)
    }

    /// Fails the trial unless the program exited with this code and the loader had no complaint.
    ///
    /// # Panics
    /// It ended otherwise, or a symbol's version was missing.
    #[track_caller]
    pub fn expect_code(&self, code: i32) -> &Self {
        assert!(
            self.end == End::Code(code),
            "expected exit code {code}\n{self}"
        );
        self.expect_clean_load()
    }

    /// Fails the trial unless the program ended well and the loader had no complaint.
    ///
    /// # Panics
    /// It ended otherwise, or a symbol's version was missing.
    #[track_caller]
    pub fn expect_success(&self) -> &Self {
        self.expect_code(0)
    }

    /// Fails the trial if the loader missed a symbol's version.
    ///
    /// # Panics
    /// The loader printed its warning.
    #[track_caller]
    pub fn expect_clean_load(&self) -> &Self {
        let warning = "no version information available";
        assert!(!self.stderr.contains(warning), "loader warning\n{self}");
        self
    }

    /// Fails the trial unless the program printed `part`.
    ///
    /// # Panics
    /// It did not.
    #[track_caller]
    pub fn expect_stdout(&self, part: &str) -> &Self {
        assert!(
            self.stdout.contains(part),
            "no {part:?} in the output\n{self}"
        );
        self
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "--- {} ended with {:?}", self.what, self.end)?;
        writeln!(f, "--- stdout\n{}", tail(&self.stdout))?;
        writeln!(f, "--- stderr\n{}", tail(&self.stderr))
    }
}

/// Returns the last lines of a long text, where programs say what went wrong.
fn tail(text: &str) -> String {
    const LINES: usize = 60;
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

fn text(file: &Path) -> String {
    let bytes = fs::read(file).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the processes of a session, from the kernel's table.
fn session_members(session: u32) -> impl Iterator<Item = String> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(move |entry| {
        let pid = entry.file_name().into_string().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        (session_of(&stat)? == session).then_some(pid)
    })
}

/// Returns the session in a line of `/proc/PID/stat`: the fourth field after the command, whose name may hold anything.
fn session_of(stat: &str) -> Option<u32> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(3)?.parse().ok()
}

/// Sends a signal to a process, by its name without SIG.
///
/// # Panics
/// There is no such process.
pub fn signal(name: &str, process: u32) {
    let process = process.to_string();
    let kill = Program::new("sh").args(["-c", "kill -s \"$0\" \"$1\"", name, &process]);
    kill.run().expect_success();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_and_both_outputs_come_back() {
        let outcome = Program::new("sh")
            .args(["-c", "echo out; echo err >&2; exit 7"])
            .run();
        assert_eq!(outcome.end, End::Code(7));
        assert_eq!(
            (outcome.stdout.as_str(), outcome.stderr.as_str()),
            ("out\n", "err\n")
        );
    }

    #[test]
    fn a_program_beyond_its_time_is_ended() {
        let outcome = Program::new("sleep")
            .args(["1000"])
            .limit(Duration::from_millis(20))
            .run();
        assert_eq!(outcome.end, End::TimedOut);
    }

    #[test]
    fn what_a_program_leaves_behind_ends_with_it() {
        let outcome = Program::new("sh")
            .args(["-c", "sleep 1000 & echo $!"])
            .run();
        let left = Path::new("/proc").join(outcome.stdout.trim());
        let gone =
            || fs::read_to_string(left.join("stat")).map_or(true, |stat| stat.contains(") Z"));
        let deadline = Instant::now() + Duration::from_secs(60);
        while !gone() {
            assert!(Instant::now() < deadline, "{} still runs", left.display());
            std::thread::sleep(POLL);
        }
    }

    #[test]
    fn a_wrapper_starts_the_program_with_its_arguments() {
        let outcome = Program::new("echo")
            .args(["a", "b"])
            .under("env", ["X=1"])
            .run();
        assert_eq!(outcome.stdout, "a b\n");
    }

    #[test]
    fn the_session_is_found_behind_a_hostile_command_name() {
        assert_eq!(session_of("12 (a) b (c) S 1 12 9 0 -1"), Some(9));
        assert_eq!(session_of("12"), None);
    }
}
