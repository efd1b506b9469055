//! Untrusted peers of tcp that try the keys of memory, in frames with names (docs/protocol/tcp.md section 5).

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use oxifabric_trials::{Library, Missing, Program, Scratch, require, source};

use crate::players::Players;
use crate::streams::{TIMEOUT, frame};

/// The flag that a header ends with a name.
const NAMED: u16 = 1 << 8;
const MSG: u8 = 0;
const READ_REQUEST: u8 = 2;
const READ_RESPONSE: u8 = 3;

/// Connects as a peer that speaks the extension.
fn shake_hands(address: SocketAddr, port: u16) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("the peer listens");
    let timeout = stream.set_read_timeout(Some(TIMEOUT));
    timeout.expect("a timeout can be set");
    let mut request = vec![3, 0, 0, 16];
    request.extend([0; 20]);
    request.extend(1_u64.to_ne_bytes());
    request.extend([1, 0]);
    request.extend(port.to_be_bytes());
    request.extend([0, 0, 0x12, 0x34]);
    request.extend(b"OXIF\0\0\0\x01");
    stream.write_all(&request).expect("a new connection");
    let mut answer = [0; 48];
    stream.read_exact(&mut answer).expect("it is answered");
    assert_eq!((answer[1], &answer[40..44]), (1, &b"OXIF"[..]));
    stream
}

/// Asks for eight bytes of the memory with a key.
fn ask(key: u64, name: u64) -> Vec<u8> {
    let mut bytes = frame(3, READ_REQUEST, NAMED, 1, 48, 48);
    for number in [0, 8, key, name] {
        bytes.extend(u64::to_ne_bytes(number));
    }
    bytes
}

/// Reads an answer: its operation and its body; `None` when the connection has ended.
fn answer(stream: &mut TcpStream) -> Option<(u8, Vec<u8>)> {
    let mut head = [0; 24];
    stream.read_exact(&mut head).ok()?;
    let size = u64::from_ne_bytes(head[8..16].try_into().expect("eight bytes"));
    let mut body = vec![0; size as usize - head.len()];
    stream.read_exact(&mut body).ok()?;
    Some((head[1], body))
}

/// Number of wrong keys that are answered on a connection; the next one ends it (docs/threats.md).
const ANSWERED: u64 = 16;

/// Returns a key that is none.
fn wrong(name: u64) -> Vec<u8> {
    ask(name * 0x1234_5678_9abc, name)
}

/// Reads refusals until the connection has ended; returns how many there were.
fn refusals(stream: &mut TcpStream) -> u64 {
    let mut count = 0;
    while let Some((op, _)) = answer(stream) {
        assert_eq!(op, MSG, "a refusal");
        count += 1;
    }
    count
}

/// Wrong keys are answered sixteen times on a connection.
fn tried() -> Result<(), Missing> {
    let library = Library::under_test()?;
    let program = source::compile_client("volley")?;
    let mut players = Players::start(&program, &library);
    players.play(1);
    // One after the other: each of the first is answered, and the next one ends the connection.
    let mut stream = shake_hands(players.address(), 1);
    for name in 0..ANSWERED {
        stream.write_all(&wrong(name)).expect("it is open");
        let (op, _) = answer(&mut stream).expect("an answer");
        assert_eq!(op, MSG, "a refusal");
    }
    stream.write_all(&wrong(ANSWERED)).expect("it is open");
    assert_eq!(answer(&mut stream), None, "one key more is answered");
    // All at once: the connection may have ended before it has heard all, and before all answers are read.
    let tries: Vec<u8> = (0..1000).flat_map(wrong).collect();
    let mut stream = shake_hands(players.address(), 2);
    let _ = stream.write_all(&tries);
    let answers = refusals(&mut stream);
    assert!(answers <= ANSWERED, "{answers} keys were tried");
    players.play_on(1);
    let (address, mut ports) = (players.address(), players.unknown_ports());
    players.expect_fair_while(|| {
        let port = ports.next().expect("there are enough");
        let _ = shake_hands(address, port).write_all(&tries);
    });
    players.finish();
    Ok(())
}

/// Reads the memory of a process as a peer that is not in its address vector, but knows the key.
fn read_by_unknown_peer(regions: &str) -> Result<(u8, Vec<u8>), Missing> {
    let library = Library::under_test()?;
    let program = source::compile_client("exposed")?;
    let folder = Scratch::new();
    let line = format!("tcp {}", folder.path().display());
    let exposed = Program::new(program.file()).library(&library).line(&line);
    let mut exposed = exposed.env("FI_OXI_REGIONS", regions).start();
    let is_there = exposed.until(|_| folder.join("exposed").exists());
    assert_eq!(is_there, Ok(()), "{}", exposed.stdout());
    let printed = exposed.stdout();
    let address = printed
        .lines()
        .find_map(|line| line.strip_prefix("address fi_sockaddr_in://"));
    let address = address.and_then(|text| text.parse().ok());
    let mut stream = shake_hands(address.expect("it printed its address"), 1);
    stream.write_all(&ask(7, 1)).expect("it is open");
    let got = answer(&mut stream).expect("an answer");
    fs::write(folder.join("stop"), "").expect("the folder is writable");
    exposed
        .wait()
        .expect_success()
        .expect_stdout("0 bytes changed\n");
    Ok(got)
}

fn guarded() -> Result<(), Missing> {
    assert_eq!(
        read_by_unknown_peer("all")?,
        (READ_RESPONSE, b"xxxxxxxx".to_vec())
    );
    assert_eq!(read_by_unknown_peer("known")?, (MSG, Vec::new()));
    Ok(())
}

#[test]
fn a_peer_that_tries_keys_is_dropped_after_sixteen() {
    require!(tried());
}

#[test]
fn regions_can_be_limited_to_peers_in_the_address_vector() {
    require!(guarded());
}
