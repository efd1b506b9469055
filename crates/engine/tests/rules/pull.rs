//! Pulls that a link begins, and whose end it tells the peer, without being asked to.

use oxifabric_engine::faults::FaultPlan;
use oxifabric_engine::{Header, HeaderFlags, Kind, PostError, RemoteIov, Target};
use oxifabric_types::{Errno, Flags};

use crate::script::*;

const KEY: u64 = 0xfeed;

fn pulling() -> Bench {
    Bench::with(|limits| limits.pull = true, |_| {})
}

const fn target(addr: u64, len: u64) -> Target {
    Target {
        addr,
        len,
        key: KEY,
    }
}

fn write_rts(id: u32) -> Header {
    Header {
        kind: Kind::WriteRts,
        id,
        ..msg(26)
    }
}

/// Has an answer wait: the link takes none.
fn block(b: &mut Bench) {
    b.recv(rx(&memory(&[0; 3]), 100)).expect("room");
    b.link.answers.push_back(Err(PostError::Again));
    let delivery = Header {
        flags: HeaderFlags::DELIVERY,
        id: 77,
        ..msg(3)
    };
    b.arrive(PEER, delivery, b"abc");
    assert_eq!(b.done().context, 100);
    assert!(b.link.posted.is_empty());
}

#[test]
fn a_message_with_a_receive_is_pulled_and_answered_by_the_link() {
    let mut b = pulling();
    for id in [9, 10] {
        let buffer = memory(&[0; 30]);
        b.recv(rx(&buffer, 1)).expect("room");
        let (into, token) = b.begin_pull(rts(26, id), &[], 26).into_parts();
        assert_eq!((into.base(), into.len()), (buffer.base(), 26));
        assert_eq!(b.event(), None);
        assert_eq!(b.end_pull(token, Ok(())), Some(id));
        assert_eq!(b.done().len, 26);
        assert!(b.link.posted.is_empty() && b.link.pulls.is_empty());
        b.assert_empty();
        assert_eq!(b.end_pull(token, Ok(())), None, "it is over");
    }
}

#[test]
fn a_message_without_a_receive_is_pulled_when_it_has_one() {
    let mut b = pulling();
    assert!(b.begin_pull(rts(26, 9), &[], 26).is_done());
    assert_eq!(b.engine.unexpected(), 1);
    b.recv(rx(&memory(&[0; 30]), 1)).expect("room");
    let (_, token) = b.link.pulls.pop_front().expect("a pull");
    assert_eq!(b.end_pull(token, Ok(())), Some(9));
    assert_eq!(b.done().len, 26);
    assert!(b.link.posted.is_empty());
    b.assert_empty();
}

#[test]
fn a_pull_that_cannot_begin_is_begun_later() {
    let mut b = pulling();
    let buffer = memory(&[0; 30]);
    b.recv(rx(&buffer, 1)).expect("room");
    let (_, token) = b.begin_pull(rts(26, 9), &[], 26).into_parts();
    let remote = RemoteIov::new(&[Target::unkeyed(0x1000, 26)]).expect("one piece is allowed");
    b.tell(move |sink| sink.put_off(token, &remote));
    assert!(b.link.pulls.is_empty() && !b.engine.idle());
    assert_eq!(b.end_pull(token, Ok(())), None, "nothing is pulled");
    b.tell(|sink| sink.writable(PEER));
    let (into, token) = b.link.pulls.pop_front().expect("a pull");
    assert_eq!((into.base(), into.len()), (buffer.base(), 26));
    // What the engine asked the link for is not put off any more.
    b.tell(move |sink| sink.put_off(token, &remote));
    b.tell(|sink| sink.writable(PEER));
    assert!(b.link.pulls.is_empty());
    assert_eq!(b.end_pull(token, Ok(())), Some(9));
    b.done();
    b.assert_empty();
}

#[test]
fn no_pull_overtakes_an_answer() {
    let mut b = pulling();
    block(&mut b);
    b.recv(rx(&memory(&[0; 30]), 1)).expect("room");
    assert!(b.begin_pull(rts(26, 9), &[], 26).is_done());
    assert!(b.link.pulls.is_empty());
    b.tell(|sink| sink.writable(PEER));
    assert_eq!((b.frame().header.kind, b.link.pulls.len()), (Kind::Ack, 1));
}

#[test]
fn no_end_of_a_pull_overtakes_an_answer() {
    let mut b = pulling();
    b.recv(rx(&memory(&[0; 30]), 1)).expect("room");
    let (_, token) = b.begin_pull(rts(26, 9), &[], 26).into_parts();
    block(&mut b);
    assert_eq!(b.end_pull(token, Ok(())), None);
    assert_eq!(b.done().len, 26);
    b.tell(|sink| sink.writable(PEER));
    assert_eq!(b.frame().header.kind, Kind::Ack);
    let fin = b.frame().header;
    assert_eq!((fin.kind, fin.id, fin.data), (Kind::Fin, 9, 0));
    b.assert_empty();
}

#[test]
fn faults_are_injected_into_pulls_and_their_ends() {
    let mut b = pulling();
    b.recv(rx(&memory(&[0; 30]), 1)).expect("room");
    b.recv(rx(&memory(&[0; 30]), 2)).expect("room");
    let (_, token) = b.begin_pull(rts(26, 9), &[], 26).into_parts();
    let plan: FaultPlan = "refuse=0.5,seed=1".parse().expect("it is a plan");
    b.engine.plan_faults(&plan);
    b.engine.include_in_faults(PEER);
    assert_eq!(b.end_pull(token, Ok(())), None);
    assert!(b.begin_pull(rts(26, 10), &[], 26).is_done());
    while b.poll() > 0 {}
    assert_eq!((b.frame().header.kind, b.link.pulls.len()), (Kind::Fin, 1));
}

#[test]
fn a_pull_that_fails_is_answered_as_any_other() {
    for (errno, kind) in [(Errno::FAULT, Kind::Fin), (Errno::PERM, Kind::Cts)] {
        let mut b = pulling();
        b.recv(rx(&memory(&[0; 26]), 1)).expect("room");
        let (_, token) = b.begin_pull(rts(26, 9), &[], 26).into_parts();
        assert_eq!(b.end_pull(token, Err(errno)), None);
        assert_eq!(b.frame().header.kind, kind);
        match kind {
            Kind::Fin => assert_eq!(b.failed().errno, errno),
            _ => {
                assert!(b.arrive(PEER, segment(26, 9, 0), &[3; 26]).is_done());
                b.done();
            }
        }
        b.assert_empty();
    }
}

#[test]
fn only_what_fits_is_pulled_unasked() {
    let mut b = pulling();
    b.recv(rx(&memory(&[0; 10]), 1)).expect("room");
    let (into, token) = b.begin_pull(rts(26, 9), &[], 26).into_parts();
    assert_eq!(into.len(), 10);
    assert_eq!(b.end_pull(token, Ok(())), Some(9));
    let failed = b.failed();
    assert_eq!((failed.errno, failed.overflow), (Errno::TRUNC, 16));
    // Into a receive without room nothing is pulled.
    b.recv(rx(&memory(&[]), 2)).expect("room");
    assert!(b.begin_pull(rts(26, 10), &[], 26).is_done());
    assert!(b.link.pulls.is_empty());
    let fin = b.frame().header;
    assert_eq!((fin.kind, fin.id, fin.data), (Kind::Fin, 10, 0));
    assert_eq!(b.failed().overflow, 26);
    b.assert_empty();
}

#[test]
fn a_pull_takes_the_place_of_any_acknowledgement() {
    let mut b = pulling();
    for flags in [HeaderFlags::DELIVERY, HeaderFlags::MATCH] {
        b.recv(rx(&memory(&[0; 26]), 1)).expect("room");
        let header = Header {
            flags,
            ..rts(26, 9)
        };
        let (_, token) = b.begin_pull(header, &[], 26).into_parts();
        assert_eq!(b.end_pull(token, Ok(())), Some(9));
        b.done();
        assert!(b.link.posted.is_empty());
        b.assert_empty();
    }
}

#[test]
fn a_write_is_pulled_into_its_region_unasked() {
    let mut b = pulling();
    let region = memory(&[0; 40]);
    b.register(KEY, &region);
    let header = Header {
        flags: HeaderFlags::DATA,
        data: 5,
        ..write_rts(6)
    };
    let (into, token) = b.begin_pull(header, &[target(3, 26)], 26).into_parts();
    assert_eq!((into.base() as usize, into.len()), (region.address(3), 26));
    assert!(b.engine.uses_region(KEY));
    assert_eq!(b.end_pull(token, Ok(())), Some(6));
    let done = b.done();
    assert_eq!((done.len, done.data, done.wanted), (26, 5, true));
    assert_eq!(done.flags.intersection(Flags::RMA), Flags::RMA);
    assert_eq!(b.accessed(), [vec![]]);
    assert!(b.link.posted.is_empty() && !b.engine.uses_region(KEY));
    let both = [target(0, 20), target(20, 6)];
    let (_, token) = b.begin_pull(write_rts(7), &both, 26).into_parts();
    assert_eq!(b.end_pull(token, Ok(())), Some(7));
    assert_eq!(b.accessed(), [both.to_vec()]);
    b.done();
    b.assert_empty();
}

#[test]
fn a_write_that_is_not_allowed_is_not_pulled() {
    let mut b = pulling();
    b.register(KEY, &memory(&[0; 40]));
    let unknown = Target {
        key: 1,
        ..target(0, 26)
    };
    assert!(b.begin_pull(write_rts(6), &[unknown], 26).is_done());
    let fin = b.frame().header;
    assert_eq!((fin.kind, fin.id), (Kind::Fin, 6));
    assert_eq!(fin.data, Errno::NOKEY.raw() as u64);
    let shorter = b.begin_pull(write_rts(7), &[target(0, 25)], 26);
    assert!(shorter.is_refusal());
    b.assert_empty();
}

#[test]
fn announcements_that_make_no_sense_are_refused() {
    let mut b = pulling();
    b.recv(rx(&memory(&[0; 30]), 1)).expect("room");
    for (header, len) in [(rts(26, 9), 25), (rts(0, 9), 0), (msg(26), 26)] {
        assert!(b.begin_pull(header, &[], len).is_refusal());
    }
    assert_eq!(b.engine.pending_rx(), 1);
}

#[test]
fn a_peer_that_is_lost_ends_what_is_pulled_from_it() {
    let mut b = pulling();
    b.recv(rx(&memory(&[0; 30]), 1)).expect("room");
    let (_, token) = b.begin_pull(rts(26, 9), &[], 26).into_parts();
    b.tell(|sink| sink.peer_down(PEER, Errno::CONNRESET));
    assert_eq!(b.failed().errno, Errno::CONNRESET);
    assert_eq!(b.end_pull(token, Ok(())), None);
    b.assert_empty();
}

#[test]
fn a_peer_has_so_many_pulls_at_most() {
    let mut b = pulling();
    b.register(KEY, &memory(&[0; 40]));
    let pieces = [target(0, 26)];
    let begun = (0..1 << 17).take_while(|&id| {
        let answer = b.begin_pull(write_rts(id), &pieces, 26);
        assert!(answer.is_stall() || answer.is_into());
        answer.is_into()
    });
    assert_eq!(begun.count(), 1 << 16);
}
