//! Two honest peers that exchange messages while an attacker goes on.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use oxifabric_trials::source::Compiled;
use oxifabric_trials::{Library, Outcome, Process, Program, Scratch};

/// Two peers that send each other messages and check them, in one process and one thread: what they cost the processor is the cost of their
/// rounds, whatever else runs.
pub(crate) struct Players {
    process: Process,
    meeting: Scratch,
}

impl Players {
    pub(crate) fn start(program: &Compiled, library: &Library) -> Self {
        // Each attacker is to be seen in the log, though they come from one host.
        Self::start_over("tcp", program, library, |program| {
            program.env("FI_LOG_INTERVAL", "0")
        })
    }

    /// Starts two peers over any provider, with a program that is `adapted` before it starts.
    pub(crate) fn start_over(
        provider: &str,
        program: &Compiled,
        library: &Library,
        adapted: impl Fn(Program) -> Program,
    ) -> Self {
        let meeting = Scratch::new();
        let line = format!("{provider} {} both", meeting.path().display());
        let program = Program::new(program.file()).library(library);
        let program = program.line(&line).env("FI_LOG_LEVEL", "warn");
        let process = adapted(program).start();
        Self { process, meeting }
    }

    /// Waits until `rounds` rounds are done, and returns how many were.
    pub(crate) fn play(&mut self, rounds: u64) -> u64 {
        let file = self.meeting.join("rounds");
        let played = self.process.until(|_| recorded(&file) >= rounds);
        assert_eq!(played, Ok(()), "{}", self.said());
        recorded(&file)
    }

    /// Returns the address of the answerer.
    pub(crate) fn address(&self) -> SocketAddr {
        let mut addresses = addresses_of(&self.process);
        addresses.next().expect("it printed its address")
    }

    /// Returns the address of the asker.
    pub(crate) fn address_of_asker(&self) -> SocketAddr {
        let mut addresses = addresses_of(&self.process);
        addresses.nth(1).expect("it printed both addresses")
    }

    /// Returns ports that unknown peers may claim, again and again, which are not those of the peers.
    pub(crate) fn unknown_ports(&self) -> impl Iterator<Item = u16> + use<> {
        let taken = [self.address().port(), self.address_of_asker().port()];
        let ports = (1000..u16::MAX).cycle();
        ports.filter(move |port| !taken.contains(port))
    }

    /// Returns the name of the asker or the answerer over shm.
    pub(crate) fn name(&self, role: &str) -> String {
        name_in(self.meeting.path(), role)
    }

    /// Returns how many rounds are done.
    pub(crate) fn recorded(&self) -> u64 {
        recorded(&self.meeting.join("rounds"))
    }

    /// Returns what they have printed.
    pub(crate) fn said(&self) -> String {
        format!("{}\n{}", self.process.stdout(), self.process.stderr())
    }

    /// Waits until `more` further rounds are done.
    pub(crate) fn play_on(&mut self, more: u64) {
        let before = self.recorded();
        self.play(before + more);
    }

    /// Returns the number of their process.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Returns how many descriptors they have open.
    pub(crate) fn descriptors(&self) -> usize {
        let folder = fs::read_dir(format!("/proc/{}/fd", self.process.id()));
        folder.expect("it runs").count()
    }

    /// Returns the folder where they meet.
    pub(crate) fn meeting(&self) -> &Path {
        self.meeting.path()
    }

    /// Returns how many bytes of memory they have resident.
    pub(crate) fn resident(&self) -> u64 {
        let file = format!("/proc/{}/statm", self.process.id());
        let statm = fs::read_to_string(file).unwrap_or_default();
        let pages = statm.split_ascii_whitespace().nth(1);
        pages.and_then(|pages| pages.parse().ok()).unwrap_or(0) * 4096
    }

    /// Ends both; requires that no message was lost or wrong, and returns the outcome of their process.
    #[track_caller]
    pub(crate) fn finish(self) -> Outcome {
        fs::write(self.meeting.join("stop"), "").expect("the meeting place is writable");
        let outcome = self.process.wait();
        outcome.expect_success();
        let right = outcome.stdout.matches(" 0 wrong\n").count();
        assert_eq!(right, 2, "{outcome}");
        outcome
    }
}

/// Returns the name over shm of what meets others as `role` in that folder.
pub(crate) fn name_in(meeting: &Path, role: &str) -> String {
    let named = fs::read(meeting.join(role)).expect("it has made its address known");
    let name = named.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

/// Returns the first address that a program prints.
pub(crate) fn address_of(player: &Process) -> SocketAddr {
    addresses_of(player).next().expect("it printed its address")
}

fn addresses_of(player: &Process) -> impl Iterator<Item = SocketAddr> + use<> {
    let printed = player.stdout();
    let lines = printed.lines();
    let addresses = lines.filter_map(|line| line.strip_prefix("address fi_sockaddr_in://"));
    let addresses: Vec<_> = addresses.filter_map(|text| text.parse().ok()).collect();
    addresses.into_iter()
}

fn recorded(rounds: &Path) -> u64 {
    fs::read_to_string(rounds)
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0)
}
