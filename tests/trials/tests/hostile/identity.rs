//! Untrusted peers of tcp that share the address of an honest one and connect in its name, and that fill the log.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use oxifabric_trials::{Library, Missing, Program, Scratch, pair, port, require, source};

use crate::players::{Players, address_of};
use crate::streams::{TIMEOUT, request};

const REFUSAL: u8 = 6;

/// Returns how a request is answered that names this port: the kind of the answer.
fn connect_as(port: u16, address: SocketAddr) -> u8 {
    let mut stream = TcpStream::connect(address).expect("the peer listens");
    let timeout = stream.set_read_timeout(Some(TIMEOUT));
    timeout.expect("a timeout can be set");
    stream.write_all(&request(port)).expect("a new connection");
    let mut answer = [0; 40];
    stream.read_exact(&mut answer).expect("it is answered");
    answer[1]
}

/// Another process in the name of the asker does not get its place, whatever it tries.
fn impostor() -> Result<(), Missing> {
    let library = Library::under_test()?;
    let program = source::compile_client("volley")?;
    let mut players = Players::start(&program, &library);
    let mut rounds = players.play(1);
    let (asker, answerer) = (players.address_of_asker(), players.address());
    for _ in 0..5 {
        assert_eq!(connect_as(asker.port(), answerer), REFUSAL);
        assert_eq!(connect_as(answerer.port(), asker), REFUSAL);
        rounds = players.play(rounds + 1);
    }
    players.expect_fair_while(|| {
        connect_as(asker.port(), answerer);
    });
    players.finish();
    Ok(())
}

/// Another process in the name of a live peer says that this cannot be connected to. It is not believed: when the peer is started
/// again, it is called.
fn slander() -> Result<(), Missing> {
    /// Where a request has its features, and the one of a peer behind a firewall.
    const FEATURES: usize = 33;
    const FIREWALL: u8 = 1;
    let library = Library::under_test()?;
    let program = source::compile_client("phoenix")?;
    let (meeting, port) = (Scratch::new(), port::free());
    let start = |role: &str| {
        let line = format!("tcp {} {port} {role}", meeting.path().display());
        let program = Program::new(program.file()).library(&library);
        program.line(&line).start()
    };
    let (mut first, mut steady) = (start("first"), start("steady"));
    let transferring = steady.until(|process| process.stdout().contains("transferring\n"));
    assert_eq!(transferring, Ok(()), "{}", steady.stdout());
    let mut stream = TcpStream::connect(address_of(&steady)).expect("the peer listens");
    let mut slander = request(port);
    slander[FEATURES] = FIREWALL;
    stream.write_all(&slander).expect("a new connection");
    let timeout = stream.set_read_timeout(Some(TIMEOUT));
    timeout.expect("a timeout can be set");
    let mut answer = [0; 40];
    stream.read_exact(&mut answer).expect("it is answered");
    assert_eq!(answer[1], REFUSAL);
    first.kill();
    // Its port is free once it is gone.
    let _ = first.wait();
    let (second, steady) = pair::wait_both(start("second"), steady);
    let answered = "answered: rebirth\n";
    steady.expect_success().expect_stdout(answered);
    second.expect_success();
    Ok(())
}

#[test]
fn a_peer_is_called_again_whatever_another_process_said_in_its_name() {
    require!(slander());
}

/// Checks that a thousand connections with nonsense, each from another port, have a few lines in the log.
fn noise() -> Result<(), Missing> {
    let library = Library::under_test()?;
    let program = source::compile_client("volley")?;
    let mut players = Players::start_over("tcp", &program, &library, |program| program);
    let rounds = players.play(1);
    let address = players.address();
    let talk = || {
        let mut stream = TcpStream::connect(address).expect("the peer listens");
        let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let timeout = stream.set_read_timeout(Some(TIMEOUT));
        timeout.expect("a timeout can be set");
        let _ = stream.read(&mut [0; 1]);
    };
    (0..1000).for_each(|_| talk());
    players.play(rounds + 1);
    players.expect_fair_while(talk);
    let lines = players.finish().stderr.lines().count();
    // It lasts some seconds, in each of which there may be two or three.
    assert!((1..100).contains(&lines), "{lines} lines");
    Ok(())
}

#[test]
fn a_live_peer_is_not_replaced_by_another_process_in_its_name() {
    require!(impostor());
}

#[test]
fn a_flood_of_nonsense_has_a_few_lines_in_the_log() {
    require!(noise());
}
