//! Untrusted peers of tcp that break no rule: they take what is offered, and keep it. Beside them two good peers go on.

use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use oxifabric_trials::{Library, Missing, Program, installed, require, source};

use crate::players::Players;
use crate::streams::{frame, is_dropped, request, shake_hands};

/// As many as that connect, introduce themselves as peers, announce a message that does not fit any budget, and leave.
fn break_off(address: SocketAddr, ports: std::ops::Range<u16>) -> Vec<TcpStream> {
    let leave = |port| {
        let mut stream = shake_hands(address, port);
        let mut words = frame(3, 0, 0, 0, 16, 1 << 40);
        words.resize(4096, 0);
        stream.write_all(&words).expect("a fresh connection");
        stream.shutdown(Shutdown::Write).expect("it is open");
        stream
    };
    ports.map(leave).collect()
}

/// Messages that never become complete leave no descriptor behind, though nothing has room for them.
fn broken_off() -> Result<(), Missing> {
    let library = Library::under_test()?;
    let program = source::compile_client("volley")?;
    let mut players = Players::start(&program, &library);
    let rounds = players.play(1);
    let address = players.address();
    let before = players.descriptors();
    let mut streams = break_off(address, 1..201);
    for stream in &mut streams {
        assert!(is_dropped(stream), "the connection stays for ever");
    }
    players.play(rounds + 1);
    assert_eq!(players.descriptors(), before);
    let mut ports = players.unknown_ports();
    players.expect_fair_while(|| {
        let port = ports.next().expect("there are enough");
        drop(break_off(address, port..port + 1));
    });
    players.finish();
    Ok(())
}

/// How many descriptors the players have.
const DESCRIPTORS: usize = 256;

/// More peers than there are descriptors take a connection each and keep it: they are bounded, and the honest peers go on.
fn idle_peers() -> Result<(), Missing> {
    let library = Library::under_test()?;
    let program = source::compile_client("volley")?;
    installed("prlimit")?;
    let limit = [format!("--nofile={DESCRIPTORS}:{DESCRIPTORS}")];
    let few = |program: Program| program.under("prlimit", &limit);
    let mut players = Players::start_over("tcp", &program, &library, few);
    let rounds = players.play(1);
    let address = players.address();
    let before = players.descriptors();
    let crowd: Vec<_> = (1..601).map(|port| shake_hands(address, port)).collect();
    let during = players.descriptors();
    assert!(
        during < before + DESCRIPTORS / 2 + DESCRIPTORS / 8 + 16,
        "{before} {during}"
    );
    players.play(rounds + 1);
    // More come all the time.
    let mut ports = players.unknown_ports();
    players.expect_fair_while(|| drop(ports.next().map(|port| shake_hands(address, port))));
    drop(crowd);
    players.finish();
    Ok(())
}

/// Less than the 15 s that a connection has for its request: one that is dropped within this time had to make room for others.
const SOON: Duration = Duration::from_secs(10);

/// As many that connect and say nothing, or half of a handshake: the oldest go, and few descriptors are theirs.
fn silent_peers() -> Result<(), Missing> {
    let library = Library::under_test()?;
    let program = source::compile_client("volley")?;
    installed("prlimit")?;
    let limit = [format!("--nofile={DESCRIPTORS}:{DESCRIPTORS}")];
    let few = |program: Program| program.under("prlimit", &limit);
    let mut players = Players::start_over("tcp", &program, &library, few);
    players.play(1);
    let (address, before) = (players.address(), players.descriptors());
    let call = |number: usize| {
        let mut stream = TcpStream::connect(address).expect("the peer listens");
        let half = &request(1)[..16 * (number % 2)];
        stream.write_all(half).expect("a new connection");
        stream
    };
    let mut crowd: Vec<_> = (0..500).map(call).collect();
    // The newest stay, an eighth of the descriptors. The one before them goes last, when all others have been accepted: while one is being
    // accepted there is one more for a moment.
    let newest = crowd.len() - DESCRIPTORS / 8;
    let last = &mut crowd[newest - 1];
    last.set_read_timeout(Some(SOON))
        .expect("a timeout can be set");
    assert!(is_dropped(last), "the oldest stay");
    for stream in &mut crowd[newest..] {
        stream.set_nonblocking(true).expect("a mode can be set");
        assert!(!is_dropped(stream), "the newest go");
    }
    players.play_on(500);
    let taken = players.descriptors() - before;
    assert!(taken <= DESCRIPTORS / 8, "{taken} of {DESCRIPTORS}");
    let mut numbers = 0..;
    players.expect_fair_while(|| drop(numbers.next().map(call)));
    drop(crowd);
    players.finish();
    Ok(())
}

#[test]
fn connections_that_say_nothing_have_a_few_descriptors() {
    require!(silent_peers());
}

#[test]
fn idle_connections_are_bounded_and_leave_descriptors_to_others() {
    require!(idle_peers());
}

#[test]
fn messages_that_can_never_be_complete_leave_no_connection_behind() {
    require!(broken_off());
}
