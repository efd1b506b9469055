//! Connections come about.

use super::*;
use crate::sys::testing::wait_readable;

#[test]
fn the_first_post_connects_and_the_sink_hears_when_to_post_again() {
    for at in [V4, V6] {
        let (mut a, mut b) = (Node::new(at), Node::new(at));
        let to_b = a.knows(&b);
        let first = a.try_post(to_b, message(1, 0), &Iov::empty());
        assert_eq!(first, Err(PostError::Again));
        drive(&mut a, &mut b, |a, _| !a.sink.writable.is_empty());
        assert_eq!(a.sink.writable, [to_b]);
        let again = a.try_post(to_b, message(1, 0), &Iov::empty());
        assert_eq!(again, Ok(Posted::Done));
        drive(&mut a, &mut b, |_, b| b.pop().is_some());
        assert!(a.sink.down.is_empty() && b.sink.down.is_empty());
    }
}

#[test]
fn the_responder_knows_the_requester_by_its_address() {
    let (mut a, mut b, _, to_a) = pair(V4);
    let (body, bytes) = pattern(&[5], 1);
    assert_eq!(b.try_post(to_a, message(2, 5), &body), Ok(Posted::Done));
    drive(&mut a, &mut b, |a, _| !a.sink.arrived.is_empty());
    assert_eq!(a.pop().map(|(_, bytes)| bytes), Some(bytes));
    assert_eq!(b.link.directory().address(to_a), Some(a.link.name()));
    assert_eq!((a.link.conns.ready.len(), b.link.conns.ready.len()), (1, 1));
}

#[test]
fn limits_follow_what_was_agreed() {
    let (a, _, to_b, _) = pair(V4);
    let limits = *a.link.limits(to_b);
    assert!(limits.rndv_tagged && limits.rndv_msg && !limits.ack_on_arrival);
    let (a, b, to_b, to_a) = connected(Node::new(V4), Node::plain(V4));
    for limits in [a.link.limits(to_b), b.link.limits(to_a)] {
        assert!(limits.rndv_tagged && !limits.rndv_msg && limits.ack_on_arrival);
    }
}

#[test]
fn simultaneous_connections_become_one() {
    for round in 0..200 {
        let (mut a, mut b) = (Node::new(V4), Node::new(V4));
        let (to_b, to_a) = (a.knows(&b), b.knows(&a));
        assert!(a.try_post(to_b, message(1, 0), &Iov::empty()).is_err());
        assert!(b.try_post(to_a, message(2, 0), &Iov::empty()).is_err());
        // Which endpoint moves first, and how often before the other does, differs from round to round.
        for _ in 0..round % 7 {
            if round % 2 == 0 {
                a.poll()
            } else {
                b.poll()
            };
        }
        post(&mut a, &mut b, to_b, message(1, 0), &Iov::empty());
        post(&mut b, &mut a, to_a, message(2, 0), &Iov::empty());
        let full = |node: &Node| node.sink.arrived.len() == 1;
        drive(&mut a, &mut b, |a, b| full(a) && full(b));
        assert!(a.sink.down.is_empty() && b.sink.down.is_empty());
        assert_eq!((a.link.conns.ready.len(), b.link.conns.ready.len()), (1, 1));
        drive(&mut a, &mut b, |a, b| {
            a.link.conns.dialing.is_empty() && b.link.conns.dialing.is_empty()
        });
    }
}

#[test]
fn a_refused_request_is_made_again_if_the_peer_does_not_connect() {
    let (mut a, mut b) = (Node::new(V4), Node::new(V4));
    let (to_b, to_a) = (a.knows(&b), b.knows(&a));
    // B takes itself to be connecting to A, which gets nothing of it.
    b.link.dial(to_a, Default::default());
    let stuck = crate::sys::Socket::open(&a.at()).expect("a socket");
    let ConnState::Dialing(dial) =
        &mut b.link.kind.peers.get_mut(to_a).expect("known").driver.state
    else {
        panic!("it dials");
    };
    let theirs = std::mem::replace(&mut dial.socket, stuck);
    drop(theirs);
    if a.at() > b.at() {
        return;
    }
    assert!(a.try_post(to_b, message(1, 0), &Iov::empty()).is_err());
    drive(&mut a, &mut b, |a, _| {
        matches!(
            a.link.kind.peers.get(to_b).map(|peer| &peer.driver.state),
            Some(ConnState::Paused(_))
        )
    });
    Rdm::dial_failed(&mut b.link, to_a, Errno::TIMEDOUT);
    drive(&mut a, &mut b, |a, _| {
        a.pass(Duration::from_millis(1));
        !a.sink.writable.is_empty()
    });
}

#[test]
fn a_sleeper_is_woken_by_requests_messages_and_deadlines() {
    let (mut a, mut b) = (Node::new(V4), Node::new(V4));
    let to_b = a.knows(&b);
    b.poll();
    assert!(b.link.arm() && !wait_readable(b.link.fd(), 0));
    assert!(a.try_post(to_b, message(1, 0), &Iov::empty()).is_err());
    assert!(!a.link.arm(), "the attempt has no deadline yet");
    assert!(wait_readable(b.link.fd(), 10_000), "a request wakes");
    drive(&mut a, &mut b, |a, _| !a.sink.writable.is_empty());
    while b.poll() > 0 {}
    assert!(b.link.arm() && !wait_readable(b.link.fd(), 0));
    a.try_post(to_b, message(1, 0), &Iov::empty())
        .expect("connected");
    assert!(wait_readable(b.link.fd(), 10_000), "a message wakes");
    b.poll();
    assert!(b.pop().is_some());
    assert!(b.link.arm() && !wait_readable(b.link.fd(), 0));
    b.link.conns.reactor.expect(Some(b.now));
    assert!(b.link.arm());
    assert!(wait_readable(b.link.fd(), 10_000), "a deadline wakes");
}

#[test]
fn names_are_those_of_the_socket() {
    let any = Node::new("0.0.0.0:0");
    assert!(any.at().ip().is_unspecified() && any.at().port() != 0);
    let mut node = TcpLink::open(&Info::default(), &Arc::new(())).expect("an address is found");
    let Address::Inet(first) = node.name() else {
        panic!("an inet address");
    };
    assert!(!first.ip().is_unspecified());
    let wanted = Address::Inet("127.0.0.1:0".parse().expect("an address"));
    node.rename(wanted).expect("not yet enabled");
    node.enable(false).expect("it can listen");
    let name = node.name();
    assert_eq!(node.rename(name), Err(Errno::OPBADSTATE));
}

#[test]
fn a_port_that_is_taken_is_in_use() {
    let node = Node::new(V4);
    let info = Info {
        src: Some(node.link.name()),
        ..Info::default()
    };
    assert_eq!(
        TcpLink::open(&info, &Arc::new(())).err(),
        Some(Errno::ADDRINUSE)
    );
}

#[test]
fn peers_are_numbered_once_and_must_be_of_our_family() {
    let mut node = Node::new(V4);
    let mut number = |text: &str| {
        let at = text.parse().expect("an address");
        node.link.peer(&Address::Inet(at))
    };
    assert_eq!(number("127.0.0.1:9"), Ok(PeerId(0)));
    assert_eq!(number("127.0.0.1:8"), Ok(PeerId(1)));
    assert_eq!(number("127.0.0.1:9"), Ok(PeerId(0)));
    assert_eq!(number("[::1]:9"), Err(Errno::INVAL));
    assert_eq!(number("127.0.0.1:0"), Err(Errno::INVAL));
    let name = node.link.peer(&Address::Name("x".into()));
    assert_eq!(name, Err(Errno::INVAL));
}

#[test]
fn wildcard_endpoints_talk_and_settle_simultaneous_connections() {
    for _ in 0..20 {
        let (mut a, mut b) = (Node::new("0.0.0.0:0"), Node::new("0.0.0.0:0"));
        let at = |node: &Node| {
            let mut at = node.at();
            at.set_ip("127.0.0.1".parse().expect("an address"));
            Address::Inet(at)
        };
        let to_b = a.link.peer(&at(&b)).expect("an address");
        let to_a = b.link.peer(&at(&a)).expect("an address");
        assert!(a.try_post(to_b, message(1, 0), &Iov::empty()).is_err());
        assert!(b.try_post(to_a, message(2, 0), &Iov::empty()).is_err());
        post(&mut a, &mut b, to_b, message(1, 0), &Iov::empty());
        post(&mut b, &mut a, to_a, message(2, 0), &Iov::empty());
        drive(&mut a, &mut b, |a, b| a.pop().is_some() | b.pop().is_some());
        assert_eq!((a.link.conns.ready.len(), b.link.conns.ready.len()), (1, 1));
    }
}

#[test]
fn what_a_peer_says_of_its_firewall_is_over_with_its_connection() {
    let (mut a, mut b) = (Node::new(V4), Node::new(V4));
    a.link.kind.local_params.firewall = true;
    let to_b = a.knows(&b);
    post(&mut a, &mut b, to_b, message(1, 0), &Iov::empty());
    drive(&mut a, &mut b, |_, b| b.pop().is_some());
    let to_a = b.knows(&a);
    post(&mut b, &mut a, to_a, message(2, 0), &Iov::empty());
    drive(&mut a, &mut b, |a, _| a.pop().is_some());
    let at = a.at();
    drop(a);
    let start = Clock::now();
    while b.sink.down.is_empty() {
        b.poll();
        assert!(start.elapsed() < WATCHDOG);
    }
    // It may have been another process that sent that; the next one at the address may be connected to.
    let mut a = Node::new(&at.to_string());
    post(&mut b, &mut a, to_a, message(3, 0), &Iov::empty());
    drive(&mut a, &mut b, |a, _| a.pop().is_some());
}

#[test]
fn a_peer_that_the_application_declares_unreachable_is_answered_but_never_connected_to() {
    let (mut a, mut b) = (Node::new(V4), Node::new(V4));
    let (to_b, to_a) = (a.knows(&b), b.knows(&a));
    b.link.set_firewalled(to_a);
    let posted = b.try_post(to_a, message(3, 0), &Iov::empty());
    assert_eq!(posted, Err(PostError::Down(Errno::FIREWALLADDR)));
    assert!(b.link.directory().reason(to_a).is_some());
    post(&mut a, &mut b, to_b, message(1, 0), &Iov::empty());
    drive(&mut a, &mut b, |_, b| b.pop().is_some());
    post(&mut b, &mut a, to_a, message(2, 0), &Iov::empty());
    drive(&mut a, &mut b, |a, _| a.pop().is_some());
}
