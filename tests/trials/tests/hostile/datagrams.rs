//! Untrusted sources of datagrams at a udp;ofi_rxd endpoint, while two honest peers play on.

use oxifabric_trials::{Library, Missing, Process, Program, require, source};

use crate::doors::{limit_descriptors, limit_of};
use crate::packets::{
    ACK, ANSWERED, ARRIVED, BYE, CREDIT, DATA, HELLO, MESSAGE, PAYLOAD, PROBE, Source, data,
    handshake, number, packet, part, record,
};
use crate::players::Players;

const MIB: u64 = 1 << 20;

/// Two honest peers over udp;ofi_rxd.
fn players(program: &source::Compiled, library: &Library) -> Players {
    let mut players = Players::start_over("udp;ofi_rxd", program, library, |player| player);
    players.play(1);
    players
}

/// Another honest peer, which was not there when the attack came.
fn expect_newcomer(program: &source::Compiled, library: &Library, players: &Players) {
    let line = format!("udp;ofi_rxd {} newcomer", players.meeting().display());
    let newcomer: Process = Program::new(program.file())
        .library(library)
        .line(&line)
        .start();
    newcomer.wait().expect_success();
}

/// More sources than there are numbers for: from everywhere in 127.0.0.0/8, as if their addresses were forged, because none hears
/// the answers.
fn forge_sources() -> Result<(), Missing> {
    let library = Library::under_test()?;
    let program = source::compile_client("volley")?;
    let mut players = players(&program, &library);
    let undisturbed = players.usual_pace();
    let (target, before) = (players.address(), players.resident());
    let mut rounds = players.play(0);
    for host in 0..300_u32 {
        for _ in 0..250 {
            let [_, b, c, d] = (host + 2).to_be_bytes();
            let source = Source::at([127, b, c, d], target);
            source.say(b"x");
            source.say(&handshake(HELLO, 0, u64::from(host) + 1));
        }
        if host % 5 == 0 {
            // The target has read what was sent so far.
            rounds = players.play(rounds + 50);
        }
    }
    let grown = players.resident().saturating_sub(before);
    assert!(
        grown < 8 * MIB,
        "{grown} bytes for sources that prove nothing"
    );
    players.expect_fair_since(undisturbed);
    expect_newcomer(&program, &library, &players);
    players.finish();
    Ok(())
}

/// Channels with packets behind a gap, longer than the target takes, and such as fill its credit.
fn fill_channels() -> Result<(), Missing> {
    let library = Library::under_test()?;
    let program = source::compile_client("volley")?;
    let mut players = players(&program, &library);
    let undisturbed = players.usual_pace();
    let (target, before) = (players.address(), players.resident());
    let sources: Vec<Source> = (0..16)
        .map(|_| Source::at([127, 0, 0, 1], target))
        .collect();
    for (name, source) in (1..).zip(&sources) {
        let channel = source.open(name);
        for first in (1..1024).step_by(6) {
            source.say(&data(channel, first, 60_000));
            source.say(&part(channel, first + 1));
            for number in first..first + 6 {
                source.say(&data(channel, number, PAYLOAD));
            }
            // The target tells at once what came before its time.
            source.hear(&[ACK]);
        }
    }
    let grown = players.resident().saturating_sub(before);
    assert!(grown < 200 * MIB, "{} MiB are kept", grown / MIB);
    players.expect_fair_since(undisturbed);
    expect_newcomer(&program, &library, &players);
    players.finish();
    Ok(())
}

/// Checks that a Hello makes the target send no more than it has cost, and not twice.
fn reflect() -> Result<(), Missing> {
    let library = Library::under_test()?;
    let program = source::compile_client("volley")?;
    let mut players = players(&program, &library);
    let target = players.address();
    let (victim, other) = (
        Source::at([127, 0, 0, 1], target),
        Source::at([127, 0, 0, 1], target),
    );
    let hello = handshake(HELLO, 0, 5);
    victim.say(&hello);
    let answer = victim.hear(&[HELLO]);
    assert!(answer.len() <= hello.len());
    // An answer to a Hello that was never sent is not answered: two endpoints would answer each other for ever.
    let mut echo = handshake(HELLO, 0, 6);
    echo[ANSWERED..ANSWERED + 8].copy_from_slice(&9_u64.to_le_bytes());
    other.say(&echo);
    let rounds = players.play(0);
    players.play(rounds + 100);
    for silent in [&victim, &other] {
        silent
            .0
            .set_nonblocking(true)
            .expect("a socket can do that");
        let said = silent.0.recv(&mut [0; 100]);
        assert!(said.is_err(), "{said:?} bytes more");
    }
    players.finish();
    Ok(())
}

/// How many channels there are with peers that the application does not know (section 3.4).
const CHANNELS: u64 = 4096;

/// More sources than there are channels for open one each and keep it: those that were silent longest lose theirs.
fn open_channels() -> Result<(), Missing> {
    let library = Library::under_test()?;
    let program = source::compile_client("volley")?;
    let mut players = players(&program, &library);
    let undisturbed = players.usual_pace();
    let target = players.address();
    // Each says something: a channel that was never used would end by itself.
    let message = record(MESSAGE, 1, 0, b"no receive takes this");
    let open = |name: u64| {
        let source = Source::at([127, 0, 0, 1], target);
        let channel = source.open(name);
        let bytes = [packet(DATA, channel, 0), message.clone()].concat();
        while number(&source.insist(&bytes, &[ACK]), ARRIVED) == 0 {}
        source
    };
    const MORE: u64 = 32;
    let (this, needed) = (std::process::id(), CHANNELS as usize + 1024);
    if limit_of(this) < needed {
        limit_descriptors(this, needed)?;
    }
    let first: Vec<Source> = (1..=CHANNELS).map(open).collect();
    players.expect_fair_since(undisturbed);
    // Each in the place of one of those.
    let _later: Vec<Source> = (1..=MORE).map(|name| open(CHANNELS + name)).collect();
    for source in &first[..MORE as usize] {
        source.hear(&[BYE]);
    }
    players.expect_fair_since(undisturbed);
    expect_newcomer(&program, &library, &players);
    players.finish();
    Ok(())
}

/// Most writes of a peer that may be under way with data missing.
const LANDING: u64 = 65_536;
/// How many of them are in a packet, and how many packets wait for room.
const IN_PACKET: u64 = 110;
const WAITING: u64 = 1024;

/// Returns the beginning of a write of a thousand bytes (section 7), with one of them.
fn begun_write(id: u32) -> Vec<u8> {
    const WRITE: u8 = 8;
    const LEN: u64 = 1000;
    const KEY: u64 = 7;
    let mut record = vec![WRITE, 0, 1, 0];
    record.extend(id.to_le_bytes());
    for field in [0, 0, LEN, 1, 0, LEN, KEY] {
        record.extend(u64::to_le_bytes(field));
    }
    record.push(0xaa);
    record
}

/// Writes that are begun and never ended are taken in up to a bound, and what follows waits at its sender.
fn begin_writes() -> Result<(), Missing> {
    let library = Library::under_test()?;
    let program = source::compile_client("volley")?;
    let open = |player: Program| player.line("open");
    let mut players = Players::start_over("udp;ofi_rxd", &program, &library, open);
    players.play(1);
    let undisturbed = players.usual_pace();
    let (target, before) = (players.address(), players.resident());
    let source = Source::at([127, 0, 0, 1], target);
    let channel = source.open(1);
    let (mut arrived, mut credit) = (0, WAITING);
    let mut ids = 0..;
    while credit > 0 {
        assert!(
            arrived * IN_PACKET <= LANDING + (WAITING + 1) * IN_PACKET,
            "{} writes without their data were taken",
            arrived * IN_PACKET
        );
        let mut bytes = packet(DATA, channel, arrived);
        let records = ids.by_ref().take(IN_PACKET as usize);
        bytes.extend(records.flat_map(begun_write));
        // Until it has arrived, and once more where it was lost.
        while number(&source.insist(&bytes, &[ACK]), ARRIVED) <= arrived {}
        let answer = source.insist(&packet(PROBE, channel, 0), &[ACK]);
        arrived = number(&answer, ARRIVED);
        credit = u64::from(u16::from_le_bytes([answer[CREDIT], answer[CREDIT + 1]]));
    }
    assert!(arrived * IN_PACKET >= LANDING, "{arrived} packets");
    let grown = players.resident().saturating_sub(before);
    assert!(grown < 64 * MIB, "{} MiB are kept", grown / MIB);
    players.expect_fair_since(undisturbed);
    players.finish();
    Ok(())
}

#[test]
fn channels_of_untrusted_sources_are_bounded_and_the_longest_silent_go() {
    require!(open_channels());
}

#[test]
fn writes_that_are_begun_and_never_ended_are_bounded() {
    require!(begin_writes());
}

#[test]
fn forged_sources_of_datagrams_leave_nothing_behind() {
    require!(forge_sources());
}

#[test]
fn packets_of_untrusted_channels_are_kept_within_one_budget() {
    require!(fill_channels());
}

#[test]
fn a_handshake_brings_about_no_more_than_it_costs() {
    require!(reflect());
}
