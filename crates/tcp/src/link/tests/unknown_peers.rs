//! Peers that the application does not know are many.
//!
//! Which connections make room is up to the kernel, which tells how long each was idle in ticks of its clock: one that ends during a look
//! makes those that are looked at afterwards seem idle for longer. So no test relies on which it is.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use super::faults::REQUEST;
use super::*;

/// Maximum number of unknown peers that the endpoint takes.
const LIMIT: usize = 32;

fn node() -> Node {
    let mut node = Node::new(V4);
    node.link.conns.reactor.params = Box::leak(Box::new(Params {
        max_unknown: Some(LIMIT),
        ..node.link.conns.reactor.params.clone()
    }));
    node
}

/// Returns a request of the peer that listens on this port.
fn request(port: u16) -> [u8; 40] {
    let mut bytes = REQUEST;
    bytes[34..36].copy_from_slice(&port.to_be_bytes());
    bytes
}

/// Connects in the name of the peer at a port; returns the connection and the kind of the answer.
fn visit(node: &mut Node, port: u16) -> (TcpStream, u8) {
    // The listener may pause after an earlier one.
    node.pass(Duration::from_millis(1));
    let mut stream = TcpStream::connect(node.at()).expect("it listens");
    stream.write_all(&request(port)).expect("a fresh socket");
    stream.set_nonblocking(true).expect("possible");
    let mut answer = [0; 40];
    let start = Clock::now();
    while !matches!(stream.read(&mut answer), Ok(40)) {
        node.poll();
        assert!(start.elapsed() < WATCHDOG, "no answer came");
    }
    (stream, answer[1])
}

const RESPONSE: u8 = 1;
const REFUSAL: u8 = 6;

/// An untagged message without a body.
const MESSAGE: [u8; 16] = [3, 0, 0, 0, 0, 0, 16, 0, 16, 0, 0, 0, 0, 0, 0, 0];

#[test]
fn idle_connections_of_unknown_peers_are_bounded() {
    let mut node = node();
    let streams: Vec<_> = (1..500).map(|port| visit(&mut node, port)).collect();
    assert!(streams.iter().all(|(_, kind)| *kind == RESPONSE));
    // Those that are closing are read on, and are few.
    assert!(
        node.link.conns.ready.len() <= LIMIT + LIMIT / 4,
        "{}",
        node.link.conns.ready.len()
    );
    assert!(
        node.link.kind.peers.rows() <= 4 * LIMIT,
        "{} rows",
        node.link.kind.peers.rows()
    );
}

#[test]
fn what_is_sent_over_a_connection_that_is_closing_arrives() {
    let mut node = node();
    let streams: Vec<_> = (1..=LIMIT as u16 + 1)
        .map(|port| visit(&mut node, port).0)
        .collect();
    let start = Clock::now();
    let is_closing = |mut stream: &TcpStream| matches!(stream.read(&mut [0; 1]), Ok(0));
    let mut closing = None;
    while closing.is_none() {
        node.poll();
        assert!(start.elapsed() < WATCHDOG, "one that is idle is closed");
        closing = streams.iter().find(|stream| is_closing(stream));
    }
    let mut closing = closing.expect("it was found");
    closing.write_all(&MESSAGE).expect("it is open");
    while node.sink.arrived.is_empty() {
        node.poll();
        assert!(start.elapsed() < WATCHDOG, "it is lost");
    }
}

/// Polls until nothing changes, though no time passes; returns how many connections are open that were `crowd`'s.
fn taken(node: &mut Node, crowd: &[TcpStream]) -> usize {
    let mut answered = 0;
    for _ in 0..100 {
        node.poll();
        let arrived = |stream: &&TcpStream| matches!(stream.peek(&mut [0; 40]), Ok(40));
        answered = crowd.iter().filter(arrived).count();
    }
    answered
}

#[test]
fn connections_that_take_the_place_of_others_are_taken_some_at_a_time() {
    // As `WASTED_PER_POLL` of the link.
    const MOST: usize = 16;
    let mut node = node();
    let _first: Vec<_> = (1..=LIMIT as u16)
        .map(|port| visit(&mut node, port))
        .collect();
    let ask = |port: u16| {
        let mut stream = TcpStream::connect(node.at()).expect("it listens");
        stream.write_all(&request(port)).expect("a fresh socket");
        stream.set_nonblocking(true).expect("possible");
        stream
    };
    let crowd: Vec<_> = (100..140).map(ask).collect();
    node.pass(Duration::from_millis(1));
    let mut before = 0;
    while before < crowd.len() {
        let now = taken(&mut node, &crowd);
        assert!(now > before && now <= before + MOST, "{before} {now}");
        before = now;
        node.pass(Duration::from_millis(1));
    }
}

#[test]
fn connections_that_say_nothing_are_taken_some_at_a_time_when_there_are_many() {
    const MOST: usize = 16;
    let mut node = Node::new(V4);
    let silent = |_| TcpStream::connect(node.at()).expect("it listens");
    let mut silent_ones: Vec<_> = (0..300).map(silent).collect();
    let is_gone = |stream: &mut TcpStream| {
        stream.set_nonblocking(true).expect("possible");
        !matches!(stream.read(&mut [0; 1]), Err(error) if error.kind() == ErrorKind::WouldBlock)
    };
    let settle = |node: &mut Node| {
        for _ in 0..100 {
            node.poll();
        }
    };
    settle(&mut node);
    let most = node.link.kind.acceptor.pending();
    let waiting = silent_ones.len() - most;
    let mut gone = 0;
    while gone < waiting {
        let now = silent_ones
            .iter_mut()
            .filter_map(|stream| is_gone(stream).then_some(()))
            .count();
        assert!(
            now > gone && now <= gone + MOST,
            "{gone} {now} of {waiting}"
        );
        gone = now;
        node.pass(Duration::from_millis(1));
        settle(&mut node);
    }
}

/// Each asks only after it was accepted, as where this side polls fast.
#[test]
fn connections_that_take_the_place_of_others_late_make_the_listener_pause_too() {
    let mut node = node();
    let _first: Vec<_> = (1..=LIMIT as u16)
        .map(|port| visit(&mut node, port))
        .collect();
    node.pass(Duration::from_millis(1));
    let mut late = TcpStream::connect(node.at()).expect("it listens");
    let start = Clock::now();
    while node.link.kind.acceptor.pending() == 0 {
        node.poll();
        assert!(start.elapsed() < WATCHDOG);
    }
    late.write_all(&request(100)).expect("it is open");
    while node.link.kind.acceptor.pending() > 0 {
        node.poll();
        assert!(start.elapsed() < WATCHDOG);
    }
    assert!(node.link.kind.acceptor.paused_until.is_some());
    node.pass(Duration::from_millis(1));
    node.poll();
    assert!(node.link.kind.acceptor.paused_until.is_none());
}

#[test]
fn peers_that_the_application_knows_stay() {
    let mut node = node();
    let known: Vec<_> = (1..=50).map(|port| visit(&mut node, port)).collect();
    // Some are closed, or closing, by now. Of the others, these get a name.
    let open = node.link.unknown();
    let named: Vec<_> = (open.iter().take(11))
        .filter_map(|id| Some(node.link.kind.peers.get(*id)?.driver.at))
        .collect();
    assert_eq!(named.len(), 11);
    for at in &named {
        node.link.peer(&Address::Inet(*at)).expect("an address");
    }
    let others: Vec<_> = (100..300).map(|port| visit(&mut node, port)).collect();
    for at in &named {
        let (stream, _) = &known[usize::from(at.port()) - 1];
        let end = (&*stream).read(&mut [0; 1]).map_err(|error| error.kind());
        assert_eq!(end, Err(ErrorKind::WouldBlock), "{at}");
    }
    drop(others);
}

/// Opens as many connections as there may be, of which each has sent a part of a message.
fn busy(node: &mut Node) -> Vec<TcpStream> {
    let mut streams = Vec::new();
    for port in 1..=LIMIT as u16 {
        let (mut stream, kind) = visit(node, port);
        assert_eq!(kind, RESPONSE);
        stream.write_all(&MESSAGE[..9]).expect("it is open");
        streams.push(stream);
    }
    let start = Clock::now();
    let is_busy = |peer: &crate::peer::Peer| matches!(&peer.driver.state, crate::driver::ConnState::Ready(conn) if !conn.is_at_rest());
    while node
        .link
        .kind
        .peers
        .iter()
        .filter(|peer| is_busy(peer))
        .count()
        < LIMIT
    {
        node.poll();
        assert!(start.elapsed() < WATCHDOG);
    }
    streams
}

#[test]
fn a_newcomer_is_refused_while_all_others_are_busy() {
    let mut node = node();
    let streams = busy(&mut node);
    assert_eq!(visit(&mut node, 1000).1, REFUSAL);
    assert_eq!(node.link.conns.ready.len(), LIMIT);
    drop(streams);
}

#[test]
fn after_a_newcomer_was_refused_connections_that_may_go_are_not_looked_for_at_once() {
    let mut node = node();
    let mut streams = busy(&mut node);
    assert_eq!(visit(&mut node, 1000).1, REFUSAL);
    // One of them may go now.
    streams[0].write_all(&MESSAGE[9..]).expect("it is open");
    let start = Clock::now();
    while node.sink.arrived.is_empty() {
        node.poll();
        assert!(start.elapsed() < WATCHDOG);
    }
    assert_eq!(visit(&mut node, 1001).1, REFUSAL);
    node.pass(Duration::from_millis(100));
    assert_eq!(visit(&mut node, 1002).1, RESPONSE);
}

#[test]
fn without_a_descriptor_connections_that_may_go_are_looked_for_once_in_a_while() {
    let mut node = node();
    let mut streams = busy(&mut node);
    assert!(!node.link.give_up_some(&mut node.sink), "all are busy");
    // One of them may go now.
    streams[0].write_all(&MESSAGE[9..]).expect("it is open");
    let start = Clock::now();
    while node.sink.arrived.is_empty() {
        node.poll();
        assert!(start.elapsed() < WATCHDOG);
    }
    let looks = (0..1000).filter(|_| node.link.give_up_some(&mut node.sink));
    assert_eq!(looks.count(), 0, "it has just looked");
    node.pass(Duration::from_millis(100));
    node.poll();
    assert!(node.link.give_up_some(&mut node.sink));
    assert_eq!(node.link.conns.ready.len(), LIMIT - 1);
}

#[test]
fn a_peer_whose_idle_connection_was_closed_comes_again_when_it_sends() {
    let mut node = node();
    let mut honest = Node::new(V4);
    let to = honest.knows(&node);
    post(&mut honest, &mut node, to, message(1, 0), &Iov::empty());
    drive(&mut honest, &mut node, |_, node| node.pop().is_some());
    let unknown_peers: Vec<_> = (1..100).map(|port| visit(&mut node, port)).collect();
    drive(&mut honest, &mut node, |honest, _| {
        !honest.sink.down.is_empty()
    });
    // The listener may pause after the last of them.
    node.pass(Duration::from_millis(1));
    post(&mut honest, &mut node, to, message(2, 0), &Iov::empty());
    drive(&mut honest, &mut node, |_, node| node.pop().is_some());
    drop(unknown_peers);
}

#[test]
fn rows_of_peers_that_are_gone_are_used_again() {
    let mut node = node();
    for port in 1..2000 {
        let (stream, kind) = visit(&mut node, port);
        assert_eq!(kind, RESPONSE);
        drop(stream);
    }
    assert!(
        node.link.kind.peers.rows() <= 4 * LIMIT,
        "{} rows",
        node.link.kind.peers.rows()
    );
}
