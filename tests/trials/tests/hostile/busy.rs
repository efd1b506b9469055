//! Unknown peers that break no rule and are busy: they send what no receive takes, as fast as it is taken, leave, and others follow them.

use std::io::Write;

use oxifabric_trials::{Library, Missing, Process, Program, require, source};

use crate::budgets::Flood;
use crate::players::Players;
use crate::streams::{frame, shake_hands};

/// Lengths of messages: one that travels with its header, and one that is announced first.
const SHORT: usize = 8;
const LONG: usize = 1 << 20;
/// How many are busy at a time.
const MANY: usize = 8;
/// Short messages that are sent at once, and more bytes of them than are kept.
const BATCH: usize = 1000;
const MOST: u64 = 64 << 20;

/// Two honest peers play on beside unknown ones.
fn play_beside(provider: &str, peers: usize, len: usize) -> Result<(), Missing> {
    let library = Library::under_test()?;
    let program = source::compile_client("volley")?;
    let chatter = source::compile_client("chatter")?;
    let mut players = Players::start_over(provider, &program, &library, |player| player);
    players.play(1);
    let meeting = players.meeting().to_owned();
    let busy = || -> Process {
        let program = Program::new(chatter.file()).library(&library);
        let program = program.args([provider.as_ref(), meeting.as_os_str()]);
        let mut process = program
            .args([peers, len].map(|number| number.to_string()))
            .start();
        let started = process.until(|process| process.stdout().contains("busy\n"));
        assert_eq!(started, Ok(()), "{}{}", process.stdout(), process.stderr());
        process
    };
    players.expect_cheaper_than(busy, |process| process.stdout().matches("busy\n").count());
    players.finish();
    Ok(())
}

/// Connections come with one message and go, while so many messages of another one wait that a walk over them for each would be felt.
fn come_and_go() -> Result<(), Missing> {
    let library = Library::under_test()?;
    let program = source::compile_client("volley")?;
    let mut players = Players::start_over("tcp", &program, &library, |player| player);
    players.play(1);
    let (address, before) = (players.address(), players.resident());
    let mut message = frame(3, 0, 0, 0, 16, 24);
    message.extend([7; SHORT]);
    let mut crowd = Flood::start(address, 1, message.repeat(BATCH));
    let sent = crowd.send(&mut players, MOST);
    assert!(sent < MOST, "{sent} bytes of messages were taken");
    let grown = players.resident().saturating_sub(before);
    assert!(grown > 16 << 20, "{grown} bytes: there are few messages");
    let mut ports = players.unknown_ports();
    players.expect_fair_while(|| {
        let port = ports.next().expect("they are repeated");
        let _ = shake_hands(address, port).write_all(&message);
    });
    players.finish();
    Ok(())
}

#[test]
fn busy_unknown_peers_cost_others_less_than_they_spend_over_tcp() {
    require!(play_beside("tcp", MANY, SHORT));
}

#[test]
fn busy_unknown_peers_cost_others_less_than_they_spend_over_shm() {
    require!(play_beside("shm", MANY, SHORT));
}

#[test]
fn busy_unknown_peers_cost_others_less_than_they_spend_over_udp() {
    require!(play_beside("udp;ofi_rxd", MANY, SHORT));
}

#[test]
fn unknown_peers_that_die_before_their_messages_end_cost_others_less_than_they_spend_over_tcp() {
    require!(play_beside("tcp", MANY, LONG));
}

#[test]
fn unknown_peers_that_die_before_their_messages_end_cost_others_less_than_they_spend_over_shm() {
    require!(play_beside("shm", MANY, LONG));
}

#[test]
fn connections_that_come_and_go_beside_many_messages_leave_others_their_pace() {
    require!(come_and_go());
}
