//! Strangers at the tcp port: random bytes, truncated messages and hostile headers, while two good peers play
//! on undisturbed. Messages are built here by hand after docs/protocol/tcp.md, not by the library's own codec.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use oxifabric_trials::source::{self, Compiled};
use oxifabric_trials::{End, Library, Outcome, Process, Program, Scratch, require};

/// How long a stranger waits to be shown the door. A bound on a hang, not an expectation.
const PATIENCE: Duration = Duration::from_secs(60);

/// Two peers that send each other messages and check them.
struct Players {
    asker: Process,
    answerer: Process,
    meeting: Scratch,
}

impl Players {
    fn start(program: &Compiled, library: &Library) -> Self {
        let meeting = Scratch::new();
        let start = |role: &str| {
            let line = format!("tcp {} {role}", meeting.path().display());
            let program = Program::new(program.file()).library(library);
            program.line(&line).env("FI_LOG_LEVEL", "warn").start()
        };
        let (answerer, asker) = (start("answerer"), start("asker"));
        Self {
            asker,
            answerer,
            meeting,
        }
    }

    /// Waits until so many rounds have been played, and returns how many it were.
    fn play(&mut self, rounds: u64) -> u64 {
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
    fn address(&self) -> SocketAddr {
        let printed = self.answerer.stdout();
        let address = printed
            .lines()
            .find_map(|line| line.strip_prefix("address fi_sockaddr_in://"));
        address
            .and_then(|text| text.parse().ok())
            .expect("the answerer printed its address")
    }

    fn stop(self) -> (Outcome, Outcome) {
        fs::write(self.meeting.join("stop"), "").expect("the meeting place is writable");
        oxifabric_trials::pair::wait_both(self.asker, self.answerer)
    }
}

fn recorded(rounds: &Path) -> u64 {
    fs::read_to_string(rounds)
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0)
}

/// A stranger's connection, and what the peer said before it closed it.
struct Visit {
    from: SocketAddr,
    /// Whether the peer closed the connection.
    is_dropped: bool,
}

/// Connects, says all of `words`, with a look at the answer after each, and waits to be dropped.
fn visit(address: SocketAddr, words: &[Vec<u8>], shutdown: bool) -> Visit {
    let mut stream = TcpStream::connect(address).expect("the peer listens");
    let from = stream
        .local_addr()
        .expect("a connected socket has an address");
    stream
        .set_read_timeout(Some(PATIENCE))
        .expect("a timeout can be set");
    for (i, word) in words.iter().enumerate() {
        // A peer that has dropped the connection by now has done what it should.
        if stream.write_all(word).is_err() {
            break;
        }
        let is_greeting_answered = i + 1 < words.len();
        if is_greeting_answered && stream.read_exact(&mut [0; 40]).is_err() {
            break;
        }
    }
    if shutdown {
        let _ = stream.shutdown(Shutdown::Write);
    }
    Visit {
        from,
        is_dropped: is_dropped(&mut stream),
    }
}

/// Reads until the end of the stream; a timeout means that the peer keeps the connection.
fn is_dropped(stream: &mut TcpStream) -> bool {
    let mut answer = [0; 4096];
    loop {
        match stream.read(&mut answer) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                return !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
            }
        }
    }
}

/// A connection request (section 2) with a plain greeting (section 3) that names this port.
fn request(port: u16) -> Vec<u8> {
    let mut message = vec![3, 0, 0, 8];
    message.extend([0; 20]);
    message.extend(1_u64.to_ne_bytes());
    message.extend([1, 0]);
    message.extend(port.to_be_bytes());
    message.extend([0, 0, 0x12, 0x34]);
    message
}

/// The first 16 bytes of a frame (section 4.1).
fn frame(version: u8, op: u8, flags: u16, pieces: u8, header_len: u8, size: u64) -> Vec<u8> {
    let mut header = vec![version, op];
    header.extend(flags.to_ne_bytes());
    header.extend([0, pieces, header_len, 0]);
    header.extend(size.to_ne_bytes());
    header
}

/// Bytes without meaning, the same in every run.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_ne_bytes()[0]
    };
    (0..len).map(|_| next()).collect()
}

/// Each visit: what it is, what it says, whether it then says that there is no more.
fn visits() -> Vec<(&'static str, Vec<Vec<u8>>, bool)> {
    // A new peer each time: a second connection of the same peer would be refused for another reason. Nobody
    // serves these ports.
    let mut ports = 1..;
    let mut greeted = |header: Vec<u8>| vec![request(ports.next().unwrap_or_default()), header];
    let mut long_request = request(900);
    long_request[2..4].copy_from_slice(&u16::MAX.to_be_bytes());
    let mut padded = frame(3, 2, 0, 255, 255, u64::MAX);
    padded.extend(noise(4096, 7));
    vec![
        ("random bytes", vec![noise(4096, 1)], false),
        ("more random bytes", vec![noise(100_000, 2)], false),
        (
            "a web browser",
            vec![b"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n".to_vec()],
            false,
        ),
        ("half a request", vec![request(901)[..17].to_vec()], true),
        ("no request", vec![Vec::new()], true),
        ("a request with 64 KiB of data", vec![long_request], false),
        (
            "half a header",
            greeted(frame(3, 0, 0, 0, 16, 24)[..9].to_vec()),
            true,
        ),
        (
            "an unknown version",
            greeted(frame(9, 0, 0, 0, 16, 24)),
            false,
        ),
        (
            "an unknown operation",
            greeted(frame(3, 200, 0, 0, 16, 24)),
            false,
        ),
        (
            "a header shorter than its fields",
            greeted(frame(3, 1, 1, 0, 16, 24)),
            false,
        ),
        (
            "a frame shorter than its header",
            greeted(frame(3, 0, 0, 0, 16, 3)),
            false,
        ),
        ("255 pieces of memory", greeted(padded), false),
        (
            "a clear to send that nobody waits for",
            greeted(frame(3, 6, 0, 0, 16, 16)),
            false,
        ),
        (
            "data that nobody asked for",
            greeted(frame(3, 7, 0, 0, 16, 1 << 40)),
            false,
        ),
        (
            "half a message",
            greeted(frame(3, 0, 0, 0, 16, 1 << 20)),
            true,
        ),
    ]
}

#[test]
fn strangers_are_dropped_and_good_peers_play_on() {
    let library = require!(Library::under_test());
    let program = require!(source::compile_client("volley"));
    let mut players = Players::start(&program, &library);
    let mut rounds = players.play(50);
    let address = players.address();
    let mut strangers = Vec::new();
    for (name, words, shutdown) in visits() {
        let visit = visit(address, &words, shutdown);
        assert!(visit.is_dropped, "{name} was not dropped");
        strangers.push((name, visit.from));
        rounds = players.play(rounds + 1);
    }
    let (asker, answerer) = players.stop();
    asker.expect_success().expect_stdout(" 0 wrong\n");
    answerer.expect_success().expect_stdout(" 0 wrong\n");
    assert_eq!(answerer.end, End::Code(0));
    for (name, from) in strangers {
        let lines = answerer
            .stderr
            .lines()
            .filter(|line| line.contains(&from.to_string()));
        assert_eq!(
            lines.count(),
            1,
            "{name} from {from} is to be logged once\n{answerer}"
        );
    }
}
