//! `rust-client PROVIDER`: two processes with one endpoint each play tagged ping-pong, write to and read from each other's
//! memory, count that, and check every byte.

mod node;
mod remote;

use node::Node;
use ofi_libfabric_sys::bindgen::*;
use std::env;
use std::ffi::CStr;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

/// Lengths of the messages: within a packet, within shared memory, and beyond what goes at once.
const LENGTHS: [usize; 6] = [0, 1, 64, 4096, 65_537, 1 << 20];

const ROUNDS: usize = 20;

fn main() {
    let arguments: Vec<String> = env::args().collect();
    match arguments.as_slice() {
        [_, provider] => first(provider),
        [_, provider, role] if role == "second" => second(provider),
        _ => panic!("usage: rust-client PROVIDER"),
    }
}

/// Starts the other process, and leads.
fn first(provider: &str) {
    let node = Node::open(provider);
    let program = env::current_exe().expect("a program knows its file");
    let mut other = Command::new(program)
        .args([provider, "second"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program starts again");
    let mut to = other.stdin.take().expect("its input is a pipe");
    writeln!(to, "{}", hex(&node.name())).expect("the other process reads");
    let mut line = String::new();
    let from = other.stdout.take().expect("its output is a pipe");
    BufReader::new(from)
        .read_line(&mut line)
        .expect("the other process writes");
    let name = bytes(line.trim());
    let peer = node.insert(&name);
    addresses(&node, &name, peer);
    for (round, length) in games() {
        node.send(peer, tag(round, length), &pattern(round, length));
        let echo = node.receive(peer, tag(round, length) + 1, length);
        assert!(
            echo == pattern(round + 1, length),
            "round {round} of {length} bytes came back changed"
        );
    }
    remote::lead(&node, peer);
    assert!(
        other.wait().expect("it is a child").success(),
        "the other process failed"
    );
    node.close();
    println!(
        "{provider}: {} messages and all remote accesses are right",
        2 * games().count()
    );
}

/// Answers.
fn second(provider: &str) {
    let node = Node::open(provider);
    println!("{}", hex(&node.name()));
    let mut line = String::new();
    std::io::stdin()
        .read_line(&mut line)
        .expect("the first process writes");
    let peer = node.insert(&bytes(line.trim()));
    for (round, length) in games() {
        let data = node.receive(peer, tag(round, length), length);
        assert!(
            data == pattern(round, length),
            "round {round} of {length} bytes arrived changed"
        );
        node.send(peer, tag(round, length) + 1, &pattern(round + 1, length));
    }
    remote::follow(&node, peer);
    node.close();
}

fn games() -> impl Iterator<Item = (usize, usize)> {
    LENGTHS
        .into_iter()
        .flat_map(|length| (0..ROUNDS).map(move |round| (round, length)))
}

fn tag(round: usize, length: usize) -> u64 {
    (length as u64) << 16 | (round as u64) << 1
}

pub fn pattern(seed: usize, length: usize) -> Vec<u8> {
    (0..length)
        .map(|at| (at * 31 + seed * 7 + (at >> 8)) as u8)
        .collect()
}

/// What the address vector says of a peer, and the arithmetic of addresses.
fn addresses(node: &Node, name: &[u8], peer: fi_addr_t) {
    let mut found = vec![0u8; name.len()];
    let mut length = found.len();
    let mut text = [0; 256];
    let mut room = text.len();
    // SAFETY: the vector is open, and the buffers have the lengths that are passed.
    unsafe {
        check(
            "fi_av_lookup",
            fi_av_lookup(node.av, peer, found.as_mut_ptr().cast(), &mut length),
        );
        fi_av_straddr(node.av, name.as_ptr().cast(), text.as_mut_ptr(), &mut room);
        assert!(
            CStr::from_ptr(text.as_ptr()).count_bytes() > 0,
            "an address is spelled"
        );
        assert_eq!(fi_rx_addr(peer, 1, 8), peer | 1 << 56);
        assert_eq!(fi_group_addr(peer, 3), peer | 3 << 32);
    }
    assert_eq!(found, name, "fi_av_lookup");
    // A vector may give an address that it knows a second name.
    let mut second = node.insert(name);
    if second != peer {
        // SAFETY: the address was just inserted.
        check("fi_av_remove", unsafe {
            fi_av_remove(node.av, &mut second, 1, 0)
        });
    }
}

/// Ends the program if a call has failed.
pub fn check(name: &str, code: i32) {
    if code != 0 {
        // SAFETY: the library returns a string that is never released.
        let text = unsafe { CStr::from_ptr(fi_strerror(-code)) };
        panic!("{name}: {code} ({})", text.to_string_lossy());
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let byte =
        |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("the peer writes hexadecimal digits");
    (0..hex.len()).step_by(2).map(byte).collect()
}
