//! Initiators that take more than they should.

use super::*;

#[test]
fn descriptors_that_no_packet_of_the_handshake_brings_end_the_handshake() {
    let mut link = open();
    let socket = connect(&link);
    let spare = Spare::new(Params::of_environment()).expect("memory");
    let bytes = Handshake::Hello(hello(&link)).emit();
    socket.send(&bytes, Some(spare.file.as_fd())).expect("room");
    poll(&mut link, 0);
    assert!(matches!(answer(&socket), Some(Handshake::Accept(_))));
    let ready = Handshake::Ready(Ability::empty()).emit();
    socket.send(&ready, Some(spare.file.as_fd())).expect("room");
    poll(&mut link, 1);
    assert!(is_closed(&socket));
}

#[test]
fn of_many_pending_connections_the_oldest_go_unless_their_hello_has_come() {
    let mut link = open();
    let late = connect(&link);
    poll(&mut link, 0);
    let silent: Vec<_> = (0..200).map(|_| connect(&link)).collect();
    let spare = Spare::new(Params::of_environment()).expect("memory");
    let bytes = Handshake::Hello(hello(&link)).emit();
    late.send(&bytes, Some(spare.file.as_fd())).expect("room");
    for milliseconds in 0..10 {
        poll(&mut link, milliseconds);
    }
    assert!(matches!(answer(&late), Some(Handshake::Accept(_))));
    let open = silent.iter().map(|socket| !is_closed(socket));
    let open: Vec<_> = open.collect();
    assert_eq!(open.iter().filter(|open| **open).count(), 64);
    assert!(open[200 - 64..].iter().all(|open| *open), "the latest stay");
}

#[test]
fn a_paused_listener_keeps_no_thread_awake_and_accepts_again() {
    let mut link = open();
    let noisy = connect(&link);
    noisy.send(b"GET / HTTP/1.0\r\n\r\n", None).expect("room");
    poll(&mut link, 0);
    assert!(is_closed(&noisy));
    let late = connect(&link);
    let bytes = Handshake::Hello(Hello {
        to: "another endpoint".into(),
        ..hello(&link)
    });
    let spare = Spare::new(Params::of_environment()).expect("memory");
    late.send(&bytes.emit(), Some(spare.file.as_fd()))
        .expect("room");
    link.table
        .pause_accept(Instant::default().after(Duration::from_secs(100)));
    // The timer that ends the pause is one of the system, and is not to be over while the test looks.
    poll(&mut link, 1);
    assert_eq!(refusal(&late), None);
    assert!(
        link.arm(),
        "there is nothing to do before the pause is over"
    );
    assert!(link.table.epoll.ready().tokens().is_empty());
    poll(&mut link, 99_999);
    assert_eq!(refusal(&late), None);
    poll(&mut link, 100_000);
    assert_eq!(refusal(&late), Some(Cause::Name));
}

#[test]
fn an_endpoint_that_lives_is_not_replaced_by_one_that_claims_its_name() {
    let mut link = open();
    let (old, new) = (connect(&link), connect(&link));
    let say = |socket: &Socket, incarnation| {
        let spare = Spare::new(Params::of_environment()).expect("memory");
        let bytes = Handshake::Hello(Hello {
            incarnation,
            ..hello(&link)
        });
        let sent = socket.send(&bytes.emit(), Some(spare.file.as_fd()));
        sent.expect("room");
    };
    say(&old, 1);
    let (late, early) = (connect(&link), 14_999);
    say(&new, 2);
    poll(&mut link, 0);
    assert!(matches!(answer(&old), Some(Handshake::Accept(_))));
    let ready = Handshake::Ready(Ability::empty()).emit();
    old.send(&ready, None).expect("room");
    poll(&mut link, early);
    assert!(answer(&new).is_none() && !is_closed(&new) && !is_closed(&old));
    poll(&mut link, 15_000);
    assert_eq!(refusal(&new), Some(Cause::Name), "it has waited for long");
    let successor = Hello {
        incarnation: 3,
        ..hello(&link)
    };
    let spare = Spare::new(Params::of_environment()).expect("memory");
    let bytes = Handshake::Hello(successor).emit();
    late.send(&bytes, Some(spare.file.as_fd())).expect("room");
    poll(&mut link, 15_001);
    assert!(!is_closed(&old) && !is_closed(&late));
    drop(old);
    poll(&mut link, 15_002);
    assert!(matches!(answer(&late), Some(Handshake::Accept(_))));
}

/// Sends a message from a new endpoint, which then closes; returns its number here.
fn visit(link: &mut ShmLink) -> PeerId {
    let mut visitor = open();
    let to = want(&mut visitor, &link.table.name.clone());
    let mut sink = Downs::default();
    let start = Clock::now();
    while post(&mut visitor, to).is_err() {
        visitor.poll(Instant::default(), &mut sink);
        link.poll(Instant::default(), &mut sink);
        assert!(start.elapsed() < WATCHDOG, "it is not let in");
    }
    visitor.flush();
    drop(visitor);
    while sink.0.is_empty() {
        link.poll(Instant::default(), &mut sink);
        assert!(start.elapsed() < WATCHDOG, "its end is not noticed");
    }
    sink.0[0].0
}

#[test]
fn rows_of_peers_that_are_gone_are_used_again() {
    let mut link = open();
    let numbers: HashSet<_> = (0..500).map(|_| visit(&mut link)).collect();
    assert!(link.peers.rows() <= 128, "{} rows", link.peers.rows());
    assert!(numbers.len() > 1 && numbers.len() <= 128);
}

/// The row of the older one is free by then, and that of the next name; the newer one must not stay in it.
#[test]
fn a_hello_that_follows_one_of_its_name_that_has_hung_up_has_a_row_of_its_own() {
    let mut link = open();
    let handshake = hello(&link);
    let say = |socket: &Socket, name: &str, incarnation| {
        let spare = Spare::new(Params::of_environment()).expect("memory");
        let bytes = Handshake::Hello(Hello {
            from: name.into(),
            incarnation,
            ..handshake.clone()
        });
        let sent = socket.send(&bytes.emit(), Some(spare.file.as_fd()));
        sent.expect("room");
    };
    let mut sink = Downs::default();
    let old = connect(&link);
    say(&old, "again", 1);
    link.accept_waiting(&mut sink);
    assert!(matches!(answer(&old), Some(Handshake::Accept(_))));
    let (new, next) = (connect(&link), connect(&link));
    say(&new, "again", 2);
    say(&next, "next", 1);
    // Only the listener is looked at, not the socket that is closed.
    drop(old);
    link.accept_waiting(&mut sink);
    assert!(matches!(answer(&new), Some(Handshake::Accept(_))));
    assert!(matches!(answer(&next), Some(Handshake::Accept(_))));
    let numbers = ["again", "next"].map(|name| link.peers.find(name).expect("a row"));
    assert_ne!(numbers[0], numbers[1]);
}
