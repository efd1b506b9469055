//! Two honest peers that exchange messages beside an attacker.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use oxifabric_trials::source::Compiled;
use oxifabric_trials::{Library, Outcome, Process, Program, Scratch};

/// Two peers that send each other messages and check them.
pub(crate) struct Players {
    asker: Process,
    answerer: Process,
    meeting: Scratch,
}

impl Players {
    pub(crate) fn start(program: &Compiled, library: &Library) -> Self {
        // Each attacker is to be seen in the log, though they come from one host.
        Self::start_over("tcp", program, library, |program| {
            program.env("FI_LOG_INTERVAL", "0")
        })
    }

    /// Starts two peers over any provider, with programs that are `adapted` before they start.
    pub(crate) fn start_over(
        provider: &str,
        program: &Compiled,
        library: &Library,
        adapted: impl Fn(Program) -> Program,
    ) -> Self {
        let meeting = Scratch::new();
        let start = |role: &str| {
            let line = format!("{provider} {} {role}", meeting.path().display());
            let program = Program::new(program.file()).library(library);
            let program = program.line(&line).env("FI_LOG_LEVEL", "warn");
            adapted(program).start()
        };
        let (answerer, asker) = (start("answerer"), start("asker"));
        Self {
            asker,
            answerer,
            meeting,
        }
    }

    /// Waits until `rounds` rounds are done, and returns how many were.
    pub(crate) fn play(&mut self, rounds: u64) -> u64 {
        let file = self.meeting.join("rounds");
        let played = self.asker.until(|_| recorded(&file) >= rounds);
        assert_eq!(played, Ok(()), "{}", self.said());
        recorded(&file)
    }

    /// Returns the address of the answerer.
    pub(crate) fn address(&self) -> SocketAddr {
        address_of(&self.answerer)
    }

    /// Returns the address of the asker.
    pub(crate) fn address_of_asker(&self) -> SocketAddr {
        address_of(&self.asker)
    }

    /// Returns the name of the asker or the answerer over shm.
    pub(crate) fn name(&self, role: &str) -> String {
        name_in(self.meeting.path(), role)
    }

    /// Returns how many rounds are done.
    pub(crate) fn recorded(&self) -> u64 {
        recorded(&self.meeting.join("rounds"))
    }

    /// Returns what the asker has printed.
    pub(crate) fn said(&self) -> String {
        format!("{}\n{}", self.asker.stdout(), self.asker.stderr())
    }

    /// Waits until `more` further rounds are done.
    pub(crate) fn play_on(&mut self, more: u64) {
        let before = self.recorded();
        self.play(before + more);
    }

    /// Returns the number of the answerer's process.
    pub(crate) fn answerer(&self) -> u32 {
        self.answerer.id()
    }

    /// Returns how many descriptors the answerer has open.
    pub(crate) fn descriptors(&self) -> usize {
        let folder = fs::read_dir(format!("/proc/{}/fd", self.answerer.id()));
        folder.expect("it runs").count()
    }

    /// Returns the folder where they meet.
    pub(crate) fn meeting(&self) -> &Path {
        self.meeting.path()
    }

    /// Returns how many bytes of memory the answerer has resident.
    pub(crate) fn resident(&self) -> u64 {
        let file = format!("/proc/{}/statm", self.answerer.id());
        let statm = fs::read_to_string(file).unwrap_or_default();
        let pages = statm.split_ascii_whitespace().nth(1);
        pages.and_then(|pages| pages.parse().ok()).unwrap_or(0) * 4096
    }

    fn stop(self) -> (Outcome, Outcome) {
        fs::write(self.meeting.join("stop"), "").expect("the meeting place is writable");
        oxifabric_trials::pair::wait_both(self.asker, self.answerer)
    }

    /// Ends both; requires that no message was lost or wrong, and returns the outcome of the answerer.
    #[track_caller]
    pub(crate) fn finish(self) -> Outcome {
        let (asker, answerer) = self.stop();
        asker.expect_success().expect_stdout(" 0 wrong\n");
        answerer.expect_success().expect_stdout(" 0 wrong\n");
        answerer
    }
}

/// Returns the name over shm of what meets others as `role` in that folder.
pub(crate) fn name_in(meeting: &Path, role: &str) -> String {
    let named = fs::read(meeting.join(role)).expect("it has made its address known");
    let name = named.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

/// Returns the address that a program prints.
pub(crate) fn address_of(player: &Process) -> SocketAddr {
    let printed = player.stdout();
    let address = printed
        .lines()
        .find_map(|line| line.strip_prefix("address fi_sockaddr_in://"));
    address
        .and_then(|text| text.parse().ok())
        .expect("it printed its address")
}

fn recorded(rounds: &Path) -> u64 {
    fs::read_to_string(rounds)
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0)
}
