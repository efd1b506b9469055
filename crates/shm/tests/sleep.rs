//! Sleeping on the link's descriptor, and being woken.

mod recorder;

use std::os::fd::RawFd;
use std::thread;
use std::time::Instant as Clock;

use oxifabric_engine::{Link, PostError, Posted};
use oxifabric_provider::device::Device;
use oxifabric_types::{Address, Errno, PeerId};
use recorder::{Port, WATCHDOG, pair, params};

/// Waits until the descriptor is readable; false when that took too long.
fn sleep(fd: RawFd, milliseconds: i32) -> bool {
    let mut poll = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one structure, which lives during the call.
    unsafe { libc::poll(&mut poll, 1, milliseconds) == 1 }
}

/// Arms the link once nothing is left to do.
fn arm(port: &mut Port) {
    let start = Clock::now();
    while !port.link.arm() {
        port.poll();
        assert!(start.elapsed() < WATCHDOG, "never quiet: {port:?}");
    }
}

#[test]
fn a_sleeper_is_woken_by_a_message_and_by_nothing_else() {
    let (mut a, mut b, to_b, _) = pair(&params());
    arm(&mut b);
    assert!(!sleep(b.link.fd(), 0), "there is nothing to do");
    assert_eq!(a.send(to_b, 1, b"x"), Ok(Posted::Done));
    assert!(sleep(b.link.fd(), 10_000), "the doorbell rings");
    b.until("it arrives", |sink| sink.arrived.len() == 1);
    arm(&mut b);
    assert!(!sleep(b.link.fd(), 0), "the bell has stopped");
}

#[test]
fn an_endpoint_learns_of_sleepers_before_it_has_peers_only() {
    let mut b = Port::named(None, &params()).expect("an endpoint");
    b.link.enable(false).expect("a listener");
    assert_eq!(b.link.enable(false), Err(Errno::OPBADSTATE));
    assert_eq!(b.link.enable(true), Ok(()));
    let mut a = Port::open(&params());
    let to_b = a.peer(&b);
    recorder::both("they connect", &mut a, &mut b, |a, _| {
        a.send(to_b, 1, b"x") == Ok(Posted::Done)
    });
    b.until("it arrives", |sink| sink.arrived.len() == 1);
    arm(&mut b);
    assert_eq!(a.send(to_b, 2, b"y"), Ok(Posted::Done));
    assert!(sleep(b.link.fd(), 10_000), "the doorbell rings");
    assert_eq!(b.link.enable(true), Err(Errno::OPBADSTATE));
}

#[test]
fn what_is_there_already_keeps_from_sleeping() {
    let (mut a, mut b, to_b, _) = pair(&params());
    assert_eq!(a.send(to_b, 1, b"x"), Ok(Posted::Done));
    assert!(!b.link.arm());
    b.until("it arrives", |sink| sink.arrived.len() == 1);
}

#[test]
fn a_stalled_arrival_does_not_keep_from_sleeping() {
    let (mut a, mut b, to_b, to_a) = pair(&params());
    b.sink.room = Some(0);
    assert_eq!(a.send(to_b, 1, b"x"), Ok(Posted::Done));
    b.until("it stalls", |sink| sink.stalls == 1);
    arm(&mut b);
    assert!(!sleep(b.link.fd(), 0));
    b.link.resume(to_a);
    assert!(!b.link.arm(), "it can be delivered now");
}

#[test]
fn a_sleeper_is_woken_by_an_initiator_and_by_the_end_of_a_peer() {
    let mut b = Port::open(&params());
    arm(&mut b);
    let mut a = Port::open(&params());
    let to_b = a.peer(&b);
    assert_eq!(a.send(to_b, 1, b"x"), Err(PostError::Again));
    a.poll();
    assert!(sleep(b.link.fd(), 10_000), "a peer connects");
    recorder::both("they connect", &mut a, &mut b, |a, _| {
        a.send(to_b, 1, b"x") == Ok(Posted::Done)
    });
    b.until("it arrives", |sink| sink.arrived.len() == 1);
    arm(&mut b);
    drop(a);
    assert!(sleep(b.link.fd(), 10_000), "the peer is gone");
    b.until("it is down", |sink| !sink.down.is_empty());
}

#[test]
fn a_sender_that_waits_for_room_is_woken_when_there_is_some() {
    let (mut a, mut b, to_b, _) = pair(&params());
    let mut posted = 0;
    while a.send(to_b, posted, b"12345678") == Ok(Posted::Done) {
        posted += 1;
    }
    a.poll();
    arm(&mut a);
    assert!(!sleep(a.link.fd(), 0), "the lane is full");
    b.until("all arrive", |sink| sink.arrived.len() == posted as usize);
    assert!(sleep(a.link.fd(), 10_000), "there is room");
    a.until("it is told", |sink| sink.writable == [to_b]);
}

#[test]
fn a_deadline_wakes_a_sleeper() {
    let impatient = oxifabric_shm::Params {
        connect_timeout: Some(std::time::Duration::from_millis(30)),
        ..params()
    };
    // It is enabled, and never looks.
    let deaf = Port::open(&params());
    let mut a = Port::open(&impatient);
    let to_deaf = a.peer(&deaf);
    assert_eq!(a.send(to_deaf, 1, b"x"), Err(PostError::Again));
    a.poll();
    arm(&mut a);
    assert!(sleep(a.link.fd(), 10_000), "the deadline has passed");
    a.until("it is given up", |sink| !sink.down.is_empty());
    assert_eq!(a.sink.down, [(to_deaf, Errno::TIMEDOUT)]);
}

/// Passes a message to and fro; sleeps whenever there is nothing, after a number of polls that varies.
fn play(port: &mut Port, peer: PeerId, first: bool, turns: u32) {
    let mut seed = 12345u32 + u32::from(first);
    for turn in 0..turns {
        let mine = first == turn.is_multiple_of(2);
        if mine {
            let start = Clock::now();
            while port.send(peer, turn, b"ball") != Ok(Posted::Done) {
                port.poll();
                assert!(start.elapsed() < WATCHDOG);
            }
            continue;
        }
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let mut polls = (seed >> 24) * (seed >> 30);
        while port.sink.arrived.is_empty() {
            if port.poll() > 0 || polls > 0 {
                polls = polls.saturating_sub(1);
            } else if port.link.arm() {
                assert!(sleep(port.link.fd(), 30_000), "turn {turn}: no ring");
            }
        }
        let got = port.sink.arrived.pop_front().map(|got| got.header.id);
        assert_eq!(got, Some(turn));
    }
}

#[test]
fn no_wake_up_is_lost() {
    let (mut a, mut b, to_b, to_a) = pair(&params());
    let other = thread::spawn(move || {
        play(&mut b, to_a, false, 20_000);
        b
    });
    play(&mut a, to_b, true, 20_000);
    other.join().expect("the other player finishes");
}

#[test]
fn the_descriptor_stays_the_same() {
    let mut a = Port::open(&params());
    let fd = a.link.fd();
    let missing = a
        .link
        .peer(&Address::Name("fi_shm://missing".into()))
        .expect("a name");
    let _ = a.send(missing, 1, b"x");
    a.until("it is given up", |sink| !sink.down.is_empty());
    assert_eq!(a.link.fd(), fd);
}
