//! Peers that are not there, go away, or talk nonsense.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use super::*;

#[test]
fn a_closed_port_is_named_with_its_cause() {
    let mut a = Node::new(V4);
    let closed = TcpListener::bind(V4).and_then(|listener| listener.local_addr());
    let at = closed.expect("a free port");
    let to = a.link.peer(&Address::Inet(at)).expect("an address");
    for _ in 0..2 {
        let posted = a.try_post(to, message(1, 0), &Iov::empty());
        assert_eq!(posted, Err(PostError::Again));
        let mut polls = Clock::now();
        while a.sink.down.is_empty() {
            a.poll();
            assert!(polls.elapsed() < WATCHDOG);
        }
        polls = Clock::now();
        assert!(polls.elapsed() < WATCHDOG);
        assert_eq!(a.sink.down.pop(), Some((to, Errno::CONNREFUSED)));
        let reason = a.link.directory().reason(to).expect("it is known");
        let start = format!("connect to {at} from 127.0.0.1: connection refused; ");
        assert!(reason.starts_with(&start), "{reason}");
    }
}

#[test]
fn a_peer_that_goes_fails_what_is_pending_first() {
    let (mut a, mut b, to_b, _) = pair(V4);
    let (body, _) = pattern(&[64 << 20], 1);
    let posted = a.try_post(to_b, message(7, body.len()), &body);
    assert_eq!(posted, Ok(Posted::Pending));
    drive(&mut a, &mut b, |_, b| !b.sink.coming.is_empty());
    // B is killed: its sockets go without good-byes.
    for peer in b.link.kind.peers.drain() {
        drop(peer);
    }
    drop(b);
    let start = Clock::now();
    while a.sink.down.is_empty() {
        a.poll();
        assert!(start.elapsed() < WATCHDOG);
    }
    assert!(a.sink.unsent.contains(&TxToken(7)));
    assert_eq!(a.sink.down.len(), 1);
    assert!(a.link.directory().reason(to_b).is_some());
    assert!(a.link.conns.ready.is_empty());
}

#[test]
fn a_body_that_breaks_off_is_not_placed() {
    let (mut a, mut b, to_b, to_a) = pair(V4);
    let (body, _) = pattern(&[64 << 20], 1);
    a.try_post(to_b, message(7, body.len()), &body)
        .expect("taken");
    drive(&mut a, &mut b, |_, b| !b.sink.coming.is_empty());
    for peer in a.link.kind.peers.drain() {
        drop(peer);
    }
    drop(a);
    let start = Clock::now();
    while b.sink.down.is_empty() {
        b.poll();
        assert!(start.elapsed() < WATCHDOG);
    }
    assert_eq!(b.sink.unplaced, 1);
    assert_eq!(b.sink.down, [(to_a, Errno::CONNRESET)]);
}

#[test]
fn a_peer_that_closes_between_messages_is_down_and_can_come_back() {
    let (mut a, b, to_b, _) = pair(V4);
    let at = b.at();
    drop(b);
    let start = Clock::now();
    while a.sink.down.is_empty() {
        a.poll();
        assert!(start.elapsed() < WATCHDOG);
    }
    assert_eq!(a.sink.down, [(to_b, Errno::CONNRESET)]);
    let mut b = Node::new(&at.to_string());
    post(&mut a, &mut b, to_b, message(1, 0), &Iov::empty());
    drive(&mut a, &mut b, |_, b| b.pop().is_some());
}

#[test]
fn what_was_sent_before_closing_still_arrives() {
    let (mut a, mut b, to_b, to_a) = pair(V4);
    // Something lies unread at A when it closes, which must not cost B what A has sent.
    b.try_post(to_a, message(1, 0), &Iov::empty())
        .expect("connected");
    let (body, bytes) = pattern(&[60_000], 2);
    a.try_post(to_b, message(2, body.len()), &body)
        .expect("connected");
    drop(a);
    let start = Clock::now();
    while b.sink.down.is_empty() {
        b.poll();
        assert!(start.elapsed() < WATCHDOG);
    }
    assert_eq!(b.pop().map(|(_, got)| got), Some(bytes));
}

#[test]
fn a_refused_frame_costs_the_connection() {
    let (mut a, mut b, to_b, to_a) = pair(V4);
    b.sink.hostile = true;
    a.try_post(to_b, message(1, 0), &Iov::empty())
        .expect("connected");
    drive(&mut a, &mut b, |a, b| {
        !a.sink.down.is_empty() && !b.sink.down.is_empty()
    });
    assert_eq!(b.sink.down, [(to_a, Errno::PROTO)]);
}

#[test]
fn silent_connections_are_closed_in_time() {
    let mut a = Node::new(V4);
    let mut pending = TcpStream::connect(a.at()).expect("it listens");
    let start = Clock::now();
    while a.link.kind.acceptor.pending() == 0 {
        a.poll();
        assert!(start.elapsed() < WATCHDOG);
    }
    a.pass(a.link.conns.reactor.params.connect_timeout + Duration::from_secs(1));
    a.poll();
    assert!(a.link.kind.acceptor.pending() == 0);
    assert_eq!(pending.read(&mut [0; 1]).ok(), Some(0));
}

#[test]
fn a_poll_accepts_a_number_of_connections_and_leaves_the_rest_to_later_ones() {
    // As `PER_POLL` of the link.
    const MOST: usize = 32;
    const COUNT: usize = 100;
    let mut a = Node::new(V4);
    let waiting = [(); COUNT].map(|()| TcpStream::connect(a.at()).expect("it listens"));
    let start = Clock::now();
    let mut accepted = 0;
    while accepted < COUNT {
        a.poll();
        let now = a.link.kind.acceptor.pending();
        assert!(now - accepted <= MOST, "{} in one poll", now - accepted);
        accepted = now;
        assert!(start.elapsed() < WATCHDOG, "{accepted} were accepted");
    }
    drop(waiting);
}

/// Polls an hour later.
fn much_later(node: &mut Node) {
    node.pass(Duration::from_secs(3600));
    node.poll();
    node.poll();
}

#[test]
fn a_peer_that_lives_but_does_not_answer_is_waited_for() {
    let mut a = Node::new(V4);
    let busy = TcpListener::bind(V4).expect("a port");
    let at = busy.local_addr().expect("an address");
    let to = a.link.peer(&Address::Inet(at)).expect("an address");
    assert!(a.try_post(to, message(1, 0), &Iov::empty()).is_err());
    let (conn, _) = busy.accept().expect("a connection");
    a.poll();
    a.poll();
    much_later(&mut a);
    assert_eq!(a.sink.down, []);
    // It ends.
    drop((busy, conn));
    let start = Clock::now();
    while a.sink.down.is_empty() {
        a.poll();
        assert!(start.elapsed() < WATCHDOG);
    }
    assert_eq!(a.sink.down, [(to, Errno::CONNRESET)]);
}

#[test]
fn a_peer_that_does_not_answer_is_given_up_where_time_is_limited() {
    let mut a = Node::new(V4);
    a.link.conns.reactor.params = Box::leak(Box::new(Params {
        answer_timeout: Some(Duration::from_secs(15)),
        ..a.link.conns.reactor.params.clone()
    }));
    let mute = TcpListener::bind(V4).expect("a port");
    let at = mute.local_addr().expect("an address");
    let to = a.link.peer(&Address::Inet(at)).expect("an address");
    assert!(a.try_post(to, message(1, 0), &Iov::empty()).is_err());
    let _conn = mute.accept().expect("a connection");
    a.poll();
    a.poll();
    a.pass(Duration::from_secs(14));
    a.poll();
    assert_eq!(a.sink.down, []);
    much_later(&mut a);
    assert_eq!(a.sink.down, [(to, Errno::TIMEDOUT)]);
}

#[test]
fn a_host_that_does_not_answer_is_given_up() {
    let mut a = Node::new(V4);
    let (full, _callers) = full_listener();
    let to = a.link.peer(&Address::Inet(full)).expect("an address");
    assert!(a.try_post(to, message(1, 0), &Iov::empty()).is_err());
    a.poll();
    assert_eq!(a.sink.down, []);
    much_later(&mut a);
    assert_eq!(a.sink.down, [(to, Errno::TIMEDOUT)]);
}

#[test]
fn a_peer_that_refuses_again_and_again_is_given_up() {
    let mut a = Node::new(V4);
    let rude = TcpListener::bind(V4).expect("a port");
    let at = rude.local_addr().expect("an address");
    let to = a.link.peer(&Address::Inet(at)).expect("an address");
    assert!(a.try_post(to, message(1, 0), &Iov::empty()).is_err());
    rude.set_nonblocking(true).expect("possible");
    let (mut conns, mut refused) = (Vec::new(), 0);
    let start = Clock::now();
    while a.sink.down.is_empty() {
        a.pass(Duration::from_millis(10));
        a.poll();
        if let Ok((conn, _)) = rude.accept() {
            conn.set_nonblocking(true).expect("possible");
            conns.push(conn);
        }
        for conn in &mut conns {
            let mut bytes = [0; 64];
            if let Ok(count @ 1..) = conn.read(&mut bytes) {
                bytes[1] = 6;
                conn.write_all(&bytes[..count]).expect("room");
                refused += 1;
            }
        }
        assert!(start.elapsed() < WATCHDOG);
    }
    assert_eq!(a.sink.down, [(to, Errno::CONNREFUSED)]);
    assert!(refused > 10, "{refused} requests in 15 s");
}

/// A request as the C library writes it.
pub(super) const REQUEST: [u8; 40] = {
    let mut bytes = [0; 40];
    bytes[0] = 3;
    bytes[3] = 8;
    let mark = 1u64.to_ne_bytes();
    let mut at = 0;
    while at < 8 {
        bytes[24 + at] = mark[at];
        at += 1;
    }
    bytes[32] = 1;
    bytes[34] = 0x77;
    bytes[35] = 0x77;
    bytes[39] = 9;
    bytes
};

#[test]
fn hostile_bytes_end_their_own_connection_only() {
    let (mut a, mut b, to_b, _) = pair(V4);
    let mut seed = 0x9e37_79b9u32;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 17;
        seed ^= seed << 5;
        seed
    };
    for round in 0..60 {
        let mut hostile = TcpStream::connect(b.at()).expect("it listens");
        let mut bytes: Vec<u8> = (0..random() % 300 + 32).map(|_| random() as u8).collect();
        match round % 4 {
            0 => {}
            1 => bytes[0] = 3,
            2 => {
                bytes.splice(0..0, REQUEST);
            }
            _ => {
                // A plausible header with random numbers.
                bytes[0] = 3;
                bytes[1] = (random() % 10) as u8;
                bytes.splice(0..0, REQUEST);
            }
        }
        let _ = hostile.write_all(&bytes);
        if round % 3 == 0 {
            drop(hostile);
        } else {
            let _ = hostile.shutdown(std::net::Shutdown::Write);
        }
        let (body, good) = pattern(&[5_000], round);
        post(&mut a, &mut b, to_b, message(round, body.len()), &body);
        drive(&mut a, &mut b, |_, b| {
            // Random bytes may look like a message of another peer.
            b.sink
                .arrived
                .retain(|(_, header, _)| header.tag == message(round, 0).tag);
            !b.sink.arrived.is_empty()
        });
        assert_eq!(b.pop().map(|(_, got)| got), Some(good));
    }
    drive(&mut a, &mut b, |_, b| {
        b.link.kind.acceptor.pending() == 0 && b.link.conns.ready.len() == 1
    });
    assert!(a.sink.down.is_empty());
}

#[test]
fn a_plain_request_gets_a_plain_answer_and_a_second_one_is_refused() {
    let mut b = Node::new(V4);
    let mut visit = || {
        let mut stream = TcpStream::connect(b.at()).expect("it listens");
        stream.write_all(&REQUEST).expect("a fresh socket");
        stream.set_nonblocking(true).expect("possible");
        let mut answer = Vec::new();
        let start = Clock::now();
        while answer.len() < 40 {
            b.poll();
            let mut piece = [0; 64];
            if let Ok(count) = stream.read(&mut piece) {
                answer.extend_from_slice(&piece[..count]);
            }
            assert!(start.elapsed() < WATCHDOG);
        }
        (stream, answer)
    };
    let (_stream, answer) = visit();
    assert_eq!((answer.len(), answer[1]), (40, 1), "a response");
    assert_eq!(answer[32], 0x81, "version 1, checked");
    let (_second, answer) = visit();
    assert_eq!((answer.len(), answer[1]), (40, 6), "a refusal");
}

#[test]
fn truncated_headers_wait_and_impossible_ones_do_not() {
    let mut b = Node::new(V4);
    let header: [u8; 16] = [3, 0, 0, 0, 0, 0, 16, 0, 16, 0, 0, 0, 0, 0, 0, 0];
    let spoiled = |at: usize, value: u8| {
        let mut bytes = header;
        bytes[at] = value;
        bytes.to_vec()
    };
    let impossible = [
        spoiled(0, 4),
        spoiled(1, 9),
        spoiled(1, 2),
        spoiled(6, 15),
        spoiled(6, 255),
        spoiled(8, 3),
        spoiled(4, 2),
    ];
    for bytes in impossible {
        let mut stream = TcpStream::connect(b.at()).expect("it listens");
        stream.write_all(&REQUEST).expect("a fresh socket");
        stream.write_all(&bytes).expect("a fresh socket");
        let before = b.sink.down.len();
        let start = Clock::now();
        while b.sink.down.len() == before {
            b.poll();
            assert!(start.elapsed() < WATCHDOG, "{bytes:?}");
        }
        let cause = b.sink.down.last().map(|(_, why)| *why);
        assert_eq!(cause, Some(Errno::PROTO), "{bytes:?}");
    }
    let mut stream = TcpStream::connect(b.at()).expect("it listens");
    stream.write_all(&REQUEST).expect("a fresh socket");
    stream.write_all(&header[..9]).expect("a fresh socket");
    let before = b.sink.down.len();
    while b.link.conns.ready.is_empty() {
        b.poll();
    }
    for _ in 0..100 {
        b.poll();
    }
    assert_eq!(b.sink.down.len(), before);
    stream.write_all(&header[9..]).expect("still open");
    let start = Clock::now();
    while b.pop().is_none() {
        b.poll();
        assert!(start.elapsed() < WATCHDOG);
    }
}
