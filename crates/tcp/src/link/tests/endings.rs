//! Peers that close their end while what they sent waits for room.

use std::io::Write;
use std::net::TcpStream;

use super::faults::REQUEST;
use super::*;
use crate::peer::Peer;
use crate::sys::Interest;

/// Returns an untagged message of `body` bytes, of which `sent` are sent.
fn frame(body: usize, sent: usize) -> Vec<u8> {
    let mut bytes = vec![3, 0, 0, 0, 0, 0, 16, 0];
    bytes.extend((16 + body as u64).to_ne_bytes());
    bytes.resize(16 + sent, 0x5a);
    bytes
}

/// Connects an untrusted peer that sends this, where nothing has room, and has closed its end since.
fn stalled(words: &[u8]) -> (Node, TcpStream) {
    let mut node = Node::new(V4);
    node.sink.full = true;
    let mut stream = TcpStream::connect(node.at()).expect("it listens");
    stream.write_all(&REQUEST).expect("a fresh socket");
    stream.write_all(words).expect("a fresh socket");
    until(&mut node, |node| node.blocked_readers() == 1);
    stream
        .shutdown(std::net::Shutdown::Write)
        .expect("it is open");
    (node, stream)
}

fn until(node: &mut Node, mut done: impl FnMut(&mut Node) -> bool) {
    let start = Clock::now();
    while !done(node) {
        node.poll();
        assert!(start.elapsed() < WATCHDOG, "nothing moves any more");
    }
}

impl Node {
    /// Returns the number of connections that wait for room.
    fn blocked_readers(&self) -> usize {
        let is_stalled = |peer: &&Peer| matches!(&peer.driver.state, ConnState::Ready(conn) if conn.stream.stalled());
        self.link.kind.peers.iter().filter(is_stalled).count()
    }

    /// Returns how many of them have been found closed, without anything that is waited for.
    fn ended_readers(&self) -> usize {
        let is_found = |peer: &&Peer| matches!(&peer.driver.state, ConnState::Ready(conn) if conn.stream.stalled() && conn.interest == Interest::default());
        self.link.kind.peers.iter().filter(is_found).count()
    }
}

#[test]
fn a_stalled_message_that_can_never_be_complete_ends_its_connection() {
    let (mut node, _stream) = stalled(&frame(1 << 30, 100_000));
    until(&mut node, |node| !node.sink.down.is_empty());
    assert_eq!(node.sink.down[0].1, Errno::CONNRESET);
    assert!(node.link.conns.ready.is_empty());
}

#[test]
fn a_stalled_message_that_is_here_outlives_the_end_of_its_connection() {
    for body in [0, 1000, 100_000] {
        let (mut node, stream) = stalled(&frame(body, body));
        // The end is noticed once, and nothing wakes a sleeper for it again.
        let fd = node.link.fd();
        until(&mut node, |node| node.ended_readers() == 1);
        assert!(node.poll() == 0 && node.link.arm());
        assert!(!crate::sys::testing::wait_readable(fd, 0), "{body}");
        drop(stream);
        assert_eq!(node.sink.down, []);
        node.sink.full = false;
        node.link.resume(PeerId(0));
        until(&mut node, |node| !node.sink.down.is_empty());
        let (header, bytes) = node.pop().expect("it was delivered");
        assert_eq!((header.len, bytes.len()), (body as u64, body));
    }
}
