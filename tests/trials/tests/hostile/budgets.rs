//! Untrusted peers that send what the target does not receive, and read what they do not take: what they can make it keep is
//! bounded, and takes nothing away from other peers. Messages are built here by hand after docs/protocol/tcp.md.

use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use oxifabric_trials::{Library, Missing, Program, require, source};

use crate::players::Players;
use crate::streams::{frame, shake_hands};

const MIB: u64 = 1 << 20;

/// A connection that says the same again and again, and reads nothing.
pub(crate) struct Flood {
    stream: TcpStream,
    frame: Vec<u8>,
    /// How much of the frame has been sent.
    at: usize,
    sent: u64,
}

impl Flood {
    /// Connects as the peer that listens at that port.
    pub(crate) fn start(address: SocketAddr, port: u16, frame: Vec<u8>) -> Self {
        let stream = shake_hands(address, port);
        stream.set_nonblocking(true).expect("a socket can do that");
        Self {
            stream,
            frame,
            at: 0,
            sent: 0,
        }
    }

    /// Sends until the target reads no more, or has read `most` bytes; returns how many were sent.
    pub(crate) fn send(&mut self, players: &mut Players, most: u64) -> u64 {
        while self.sent < most {
            match self.stream.write(&self.frame[self.at..]) {
                Ok(len) => {
                    self.sent += len as u64;
                    self.at = (self.at + len) % self.frame.len();
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    // The target reads on while it plays on, or not at all.
                    let rounds = players.play(0);
                    if !self.takes_more_soon()
                        && players.play(rounds + 100) > 0
                        && !self.takes_more()
                    {
                        break;
                    }
                }
                Err(error) => panic!("the target ended the connection: {error}"),
            }
        }
        self.sent
    }

    fn takes_more_soon(&mut self) -> bool {
        (0..50).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            self.takes_more()
        })
    }

    fn takes_more(&mut self) -> bool {
        match self.stream.write(&self.frame[self.at..]) {
            Ok(len) => {
                self.sent += len as u64;
                self.at = (self.at + len) % self.frame.len();
                true
            }
            Err(_) => false,
        }
    }
}

/// Returns a tagged message of 64 KiB that no receive takes.
fn unexpected() -> Vec<u8> {
    let mut message = frame(3, 1, 0, 0, 24, 24 + 65_536);
    message.extend(0xaaaa_u64.to_ne_bytes());
    message.extend([0; 65_536]);
    message
}

/// Returns a request for a megabyte of the target's memory.
fn read_request(key: u64) -> Vec<u8> {
    let mut message = frame(3, 2, 0, 1, 40, 40);
    message.extend(0_u64.to_ne_bytes());
    message.extend(MIB.to_ne_bytes());
    message.extend(key.to_ne_bytes());
    message
}

/// Tests the budget of unexpected messages: one posted receive that these peers could satisfy, and 256 MiB for what it lets in: half of that for all of them together, a
/// quarter each, whether they stay or go.
fn flood_with_messages() -> Result<(), Missing> {
    let library = Library::under_test()?;
    let program = source::compile_client("volley")?;
    let bounded = |player: Program| {
        player
            .line("open")
            .env("FI_OXI_UNEXPECTED_MAX", "268435456")
    };
    let mut players = Players::start_over("tcp", &program, &library, bounded);
    players.play(1);
    let undisturbed = players.usual_pace();
    let (address, before) = (players.address(), players.resident());
    // More than fits, so that each has to wait; some of it is in the sockets.
    const MOST: u64 = 400 * MIB;
    for generation in 0..3_u16 {
        let mut sent = 0;
        let mut floods = Vec::new();
        for number in 1..=3 {
            let mut flood = Flood::start(address, generation * 8 + number, unexpected());
            sent += flood.send(&mut players, MOST);
            floods.push(flood);
        }
        assert!(sent < MOST, "{} MiB were taken", sent / MIB);
        let grown = players.resident().saturating_sub(before);
        assert!(grown < 200 * MIB, "{} MiB are kept", grown / MIB);
        if generation == 0 {
            players.expect_fair_since(undisturbed);
        }
    }
    players.finish();
    Ok(())
}

/// Requests for more than the target can send, and the responses are not taken.
fn flood_with_reads() -> Result<(), Missing> {
    let library = Library::under_test()?;
    let program = source::compile_client("volley")?;
    let open = |player: Program| player.line("open");
    let mut players = Players::start_over("tcp", &program, &library, open);
    players.play(1);
    let undisturbed = players.usual_pace();
    let (address, before) = (players.address(), players.resident());
    let mut floods = Vec::new();
    for port in 1..=3 {
        let mut flood = Flood::start(address, port, read_request(7));
        let sent = flood.send(&mut players, 64 * MIB);
        assert!(sent < 64 * MIB, "{} MiB of requests were taken", sent / MIB);
        floods.push(flood);
    }
    let grown = players.resident().saturating_sub(before);
    assert!(grown < 128 * MIB, "{} MiB are kept", grown / MIB);
    players.expect_fair_since(undisturbed);
    players.finish();
    Ok(())
}

#[test]
fn messages_that_no_receive_takes_are_kept_up_to_a_ceiling() {
    require!(flood_with_messages());
}

#[test]
fn reads_whose_responses_are_not_taken_stop_no_send_of_the_application() {
    require!(flood_with_reads());
}
