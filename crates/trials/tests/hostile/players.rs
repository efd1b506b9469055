//! Two honest peers that play on beside an attacker.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use oxifabric_trials::source::Compiled;
use oxifabric_trials::{Library, Outcome, Process, Program, Scratch};

/// How long a turn takes in which rounds are counted, how many turns there are of each kind, and how often it is tried.
const TURN: Duration = Duration::from_millis(200);
const TURNS: usize = 5;
const ATTEMPTS: usize = 4;

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

    /// The same over any provider, with programs that are `adapted` before they start.
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

    /// Waits until so many rounds have been played, and returns how many it were.
    pub(crate) fn play(&mut self, rounds: u64) -> u64 {
        let file = self.meeting.join("rounds");
        let played = self.asker.until(|_| recorded(&file) >= rounds);
        assert_eq!(
            played,
            Ok(()),
            "{}\n{}",
            self.asker.stdout(),
            self.asker.stderr()
        );
        recorded(&file)
    }

    /// Where the answerer can be reached.
    pub(crate) fn address(&self) -> SocketAddr {
        address_of(&self.answerer)
    }

    /// Where the asker can be reached.
    pub(crate) fn address_of_asker(&self) -> SocketAddr {
        address_of(&self.asker)
    }

    /// The name of the asker or the answerer over shm.
    pub(crate) fn name(&self, role: &str) -> String {
        let named = fs::read(self.meeting.join(role)).expect("it has made its address known");
        let name = named.split(|&byte| byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(name).into_owned()
    }

    /// How many times as long a round takes while `attack` is repeated: medians of turns with and without it, the least of a
    /// few attempts, because other things happen on the machine, too.
    pub(crate) fn slowdown(&mut self, mut attack: impl FnMut()) -> f64 {
        let mut attempt = || {
            let (mut quiet, mut loud) = (Vec::new(), Vec::new());
            for _ in 0..TURNS {
                quiet.push(self.pace(|| {}));
                loud.push(self.pace(&mut attack));
            }
            median(quiet) / median(loud)
        };
        let mut least = f64::INFINITY;
        for _ in 0..ATTEMPTS {
            least = least.min(attempt());
            if least < 1.5 {
                break;
            }
        }
        least
    }

    /// How many rounds are played in a second while `meanwhile` is repeated.
    fn pace(&self, mut meanwhile: impl FnMut()) -> f64 {
        let file = self.meeting.join("rounds");
        let (start, before) = (Instant::now(), recorded(&file));
        while start.elapsed() < TURN {
            meanwhile();
            thread::yield_now();
        }
        (recorded(&file) - before) as f64 / start.elapsed().as_secs_f64()
    }

    /// The number of the answerer's process.
    pub(crate) fn answerer(&self) -> u32 {
        self.answerer.id()
    }

    /// Where they meet.
    pub(crate) fn meeting(&self) -> &Path {
        self.meeting.path()
    }

    /// How many bytes of memory the answerer has resident.
    pub(crate) fn resident(&self) -> u64 {
        let file = format!("/proc/{}/statm", self.answerer.id());
        let statm = fs::read_to_string(file).unwrap_or_default();
        let pages = statm.split_ascii_whitespace().nth(1);
        pages.and_then(|pages| pages.parse().ok()).unwrap_or(0) * 4096
    }

    /// How long so many rounds take from now on: the median of several times as many.
    pub(crate) fn time_of(&mut self, rounds: u64) -> Duration {
        let mut times: Vec<Duration> = (0..5)
            .map(|_| {
                let before = self.play(0);
                let start = Instant::now();
                self.play(before + rounds);
                start.elapsed()
            })
            .collect();
        times.sort();
        times[times.len() / 2]
    }

    /// Requires that rounds take no more than twice the time that they took undisturbed. Other programs of the machine may
    /// disturb one measurement, so there are several.
    #[track_caller]
    pub(crate) fn expect_fair(&mut self, rounds: u64, undisturbed: Duration) {
        let times: Vec<Duration> = (0..5).map(|_| self.time_of(rounds)).collect();
        let fair = times.iter().any(|time| *time <= undisturbed * 2);
        assert!(fair, "{rounds} rounds took {undisturbed:?}, now {times:?}");
    }

    pub(crate) fn stop(self) -> (Outcome, Outcome) {
        fs::write(self.meeting.join("stop"), "").expect("the meeting place is writable");
        oxifabric_trials::pair::wait_both(self.asker, self.answerer)
    }
}

fn address_of(player: &Process) -> SocketAddr {
    let printed = player.stdout();
    let address = printed
        .lines()
        .find_map(|line| line.strip_prefix("address fi_sockaddr_in://"));
    address
        .and_then(|text| text.parse().ok())
        .expect("it printed its address")
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

fn recorded(rounds: &Path) -> u64 {
    fs::read_to_string(rounds)
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0)
}
