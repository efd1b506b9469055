//! Untrusted peers at the tcp port: random bytes, truncated messages and hostile headers, while two good peers go
//! on undisturbed. Messages are built here by hand after docs/protocol/tcp.md, not by the library's own codec.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use oxifabric_trials::{Library, Missing, require, source};

use crate::players::Players;

/// How long an untrusted peer waits until its connection is dropped. A bound on a hang, not an expectation.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// An untrusted peer, which connects and sends bytes.
struct Untrusted {
    name: &'static str,
    /// The port that its handshake names, if it sends one.
    port: Option<u16>,
    /// The bytes that it sends after that.
    words: Vec<u8>,
    /// Whether it then shuts its side of the connection down.
    hangs_up: bool,
}

impl Untrusted {
    fn new(name: &'static str, words: Vec<u8>) -> Self {
        Self {
            name,
            port: None,
            words,
            hangs_up: false,
        }
    }

    /// Sends the handshake of a peer first. Each has a port of its own, because a second connection of the same peer
    /// would be refused for another reason.
    fn handshake(self, port: u16) -> Self {
        Self {
            port: Some(port),
            ..self
        }
    }

    fn hanging_up(self) -> Self {
        Self {
            hangs_up: true,
            ..self
        }
    }

    /// Connects, sends everything and waits to be dropped. Returns the names under which the peer knows it.
    fn visit(&self, address: SocketAddr) -> Vec<SocketAddr> {
        let mut stream = TcpStream::connect(address).expect("the peer listens");
        let mut names = vec![
            stream
                .local_addr()
                .expect("a connected socket has an address"),
        ];
        stream
            .set_read_timeout(Some(TIMEOUT))
            .expect("a timeout can be set");
        if let Some(port) = self.port {
            stream
                .write_all(&request(port))
                .expect("a new connection takes a request");
            stream
                .read_exact(&mut [0; 40])
                .unwrap_or_else(|error| panic!("{}: {error}", self.name));
            names.push(SocketAddr::new(address.ip(), port));
        }
        // A peer that has dropped the connection before it has read everything has done what it should.
        let _ = stream.write_all(&self.words);
        if self.hangs_up {
            let _ = stream.shutdown(Shutdown::Write);
        }
        assert!(is_dropped(&mut stream), "{} was not dropped", self.name);
        names
    }
}

/// Connects and shakes hands as a peer with this port, which is accepted.
pub(crate) fn shake_hands(address: SocketAddr, port: u16) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("the peer listens");
    stream
        .set_read_timeout(Some(TIMEOUT))
        .expect("a timeout can be set");
    stream
        .write_all(&request(port))
        .expect("a new connection takes a request");
    let mut answer = [0; 40];
    stream.read_exact(&mut answer).expect("it is answered");
    assert_eq!(answer[1], 1, "a response");
    stream
}

/// Reads until the end of the stream; a timeout means that the peer keeps the connection.
pub(crate) fn is_dropped(stream: &mut TcpStream) -> bool {
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

/// Returns a connection request (section 2) with a plain handshake (section 3) that names this port.
pub(crate) fn request(port: u16) -> Vec<u8> {
    let mut message = vec![3, 0, 0, 8];
    message.extend([0; 20]);
    message.extend(1_u64.to_ne_bytes());
    message.extend([1, 0]);
    message.extend(port.to_be_bytes());
    message.extend([0, 0, 0x12, 0x34]);
    message
}

/// Returns the first 16 bytes of a frame (section 4.1).
pub(crate) fn frame(
    version: u8,
    op: u8,
    flags: u16,
    pieces: u8,
    header_len: u8,
    size: u64,
) -> Vec<u8> {
    let mut header = vec![version, op];
    header.extend(flags.to_ne_bytes());
    header.extend([0, pieces, header_len, 0]);
    header.extend(size.to_ne_bytes());
    header
}

/// Returns bytes without meaning, the same in every run.
pub(crate) fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_ne_bytes()[0]
    };
    (0..len).map(|_| next()).collect()
}

/// Returns peers that speak another protocol, or break off.
fn untrusted_peers() -> Vec<Untrusted> {
    let browser = b"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n";
    let mut long_request = request(1);
    long_request[2..4].copy_from_slice(&u16::MAX.to_be_bytes());
    vec![
        Untrusted::new("random bytes", noise(4096, 1)),
        Untrusted::new("more random bytes", noise(100_000, 2)),
        Untrusted::new("a web browser", browser.to_vec()),
        Untrusted::new("half a request", request(1)[..17].to_vec()).hanging_up(),
        Untrusted::new("a request with 64 KiB of data", long_request),
    ]
}

/// Returns peers that shake hands correctly and then break the rules for frames.
fn false_peers() -> Vec<Untrusted> {
    let mut pieces = frame(3, 2, 0, 255, 255, u64::MAX);
    pieces.extend(noise(4096, 7));
    let half_a_header = frame(3, 0, 0, 0, 16, 24)[..9].to_vec();
    let peers = [
        Untrusted::new("half a header", half_a_header).hanging_up(),
        Untrusted::new("an unknown version", frame(9, 0, 0, 0, 16, 24)),
        Untrusted::new("an unknown operation", frame(3, 200, 0, 0, 16, 24)),
        Untrusted::new(
            "a header shorter than its fields",
            frame(3, 1, 1, 0, 16, 24),
        ),
        Untrusted::new("a frame shorter than its header", frame(3, 0, 0, 0, 16, 3)),
        Untrusted::new("255 pieces of memory", pieces),
        Untrusted::new(
            "a clear to send that no rendezvous waits for",
            frame(3, 6, 0, 0, 16, 16),
        ),
        Untrusted::new(
            "data that no read asked for",
            frame(3, 7, 0, 0, 16, 1 << 40),
        ),
        Untrusted::new("half a message", frame(3, 0, 0, 0, 16, 1 << 20)).hanging_up(),
    ];
    // No endpoint listens at these ports.
    let introduced = (1..).zip(peers).map(|(port, peer)| peer.handshake(port));
    introduced.collect()
}

/// While the good peers play, each of `untrusted` is dropped, and the peer's log has one line about it.
fn exchange_among(untrusted: &[Untrusted]) -> Result<(), Missing> {
    let library = Library::under_test()?;
    let program = source::compile_client("volley")?;
    let mut players = Players::start(&program, &library);
    let mut rounds = players.play(1);
    let address = players.address();
    let mut visits = Vec::new();
    for visitor in untrusted {
        visits.push((visitor.name, visitor.visit(address)));
        rounds = players.play(rounds + 1);
    }
    let answerer = players.finish();
    for (name, names) in visits {
        let names: Vec<String> = names.iter().map(SocketAddr::to_string).collect();
        let is_about = |line: &&str| names.iter().any(|name| is_named(line, name));
        let lines = answerer.stderr.lines().filter(is_about).count();
        assert_eq!(
            lines, 1,
            "{name} {names:?} is to be logged once\n{answerer}"
        );
    }
    Ok(())
}

/// Returns whether the line has the address, and not one whose port merely begins with the same digits.
fn is_named(line: &str, address: &str) -> bool {
    let mut rests = line.split(address).skip(1);
    rests.any(|rest| !rest.starts_with(|next: char| next.is_ascii_digit()))
}

#[test]
fn untrusted_peers_are_dropped_while_good_peers_play_on() {
    require!(exchange_among(&untrusted_peers()));
}

#[test]
fn false_peers_are_dropped_while_good_peers_play_on() {
    require!(exchange_among(&false_peers()));
}
