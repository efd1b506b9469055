//! Links that keep the order of messages alone: segments come as they like.

use oxifabric_engine::{Body, Header, Kind, Placement};
use oxifabric_types::Flags;

use crate::script::*;

/// Lets a segment arrive whose place is its own; returns whether it was taken.
fn part(b: &mut Bench, header: Header, body: &[u8]) -> bool {
    let body = body.to_vec();
    let taken = std::rc::Rc::new(std::cell::Cell::new(false));
    let seen = std::rc::Rc::clone(&taken);
    b.tell(move |sink| {
        let placement = sink.unordered_segment(PEER, &header, Body::Whole(&body));
        seen.set(matches!(placement, Placement::Done));
    });
    taken.get()
}

#[test]
fn segments_go_where_they_say_in_any_order() {
    for waits in [false, true] {
        let mut b = Bench::new();
        let place = memory(&[0; 12]);
        if !waits {
            b.recv(rx(&place, 1)).expect("room");
        }
        let first = Header { id: 4, ..msg(12) };
        assert!(b.arrive(PEER, first, b"ab").is_done());
        assert!(part(&mut b, segment(12, 4, 8), b"ijkl"));
        assert!(part(&mut b, segment(12, 4, 2), b"cde"));
        assert_eq!(b.event(), None);
        assert!(part(&mut b, segment(12, 4, 5), b"fgh"));
        if waits {
            b.recv(rx(&place, 1)).expect("room");
        }
        assert_eq!(b.done().len, 12);
        assert_eq!(content(&place), b"abcdefghijkl");
        b.assert_empty();
    }
}

#[test]
fn a_message_may_begin_with_none_of_its_data() {
    let mut b = Bench::new();
    let place = memory(&[0; 6]);
    b.recv(rx(&place, 1)).expect("room");
    assert!(b.arrive(PEER, Header { id: 4, ..msg(6) }, b"").is_done());
    assert!(part(&mut b, segment(6, 4, 3), b"def"));
    assert!(part(&mut b, segment(6, 4, 0), b"abc"));
    b.done();
    assert_eq!(content(&place), b"abcdef");
    b.assert_empty();
}

#[test]
fn segments_stay_within_their_message() {
    let mut b = Bench::new();
    b.recv(rx(&memory(&[0; 12]), 1)).expect("room");
    assert!(b.arrive(PEER, Header { id: 4, ..msg(12) }, b"ab").is_done());
    for (offset, len) in [
        (9, 4),
        (12, 1),
        (u64::MAX, 1),
        (u64::MAX - 3, 4),
        (0, 13),
        (2, 0),
    ] {
        let bytes = vec![0; len];
        assert!(
            !part(&mut b, segment(12, 4, offset), &bytes),
            "{len} at {offset}"
        );
    }
    assert!(!part(&mut b, segment(12, 5, 2), b"c"), "an unknown message");
    assert!(
        !part(&mut b, Header { id: 4, ..msg(3) }, b"abc"),
        "no segment"
    );
    // Whatever a peer repeats, the message has no more bytes than it said.
    assert!(part(&mut b, segment(12, 4, 0), b"abcdef"));
    assert!(!part(&mut b, segment(12, 4, 0), b"abcde"));
    assert!(part(&mut b, segment(12, 4, 0), b"abcd"));
    assert_eq!(b.done().len, 12);
    b.assert_empty();
}

#[test]
fn a_sender_stops_at_the_end_of_its_window_until_it_is_wider() {
    let mut b = Bench::new();
    b.send(tx(&memory(&[1; 40]), 1)).expect("room");
    let id = b.frame().header.id;
    let cts = |granted| Header {
        data: granted,
        ..answer(Kind::Cts, id)
    };
    assert!(b.arrive(PEER, cts(10), b"").is_done());
    let mut sent = Vec::new();
    while let Some(frame) = b.link.posted.pop_front() {
        sent.push((frame.header.tag, frame.body.len(), frame.more));
    }
    assert_eq!(sent, [(0, 6, true), (6, 4, false)]);
    assert!(b.arrive(PEER, cts(10), b"").is_refusal(), "no wider");
    assert!(b.arrive(PEER, cts(13), b"").is_done());
    assert_eq!((b.frame().header.tag, b.link.posted.len()), (10, 0));
    assert!(b.arrive(PEER, cts(0), b"").is_done());
    let rest: usize = b.link.posted.drain(..).map(|frame| frame.body.len()).sum();
    assert_eq!(rest, 40 - 13);
    assert_eq!(b.done().flags, Flags::MSG | Flags::SEND);
    b.assert_empty();
}

#[test]
fn a_wider_window_may_come_while_the_old_one_is_not_used_up() {
    let mut b = Bench::new();
    b.send(tx(&memory(&[1; 40]), 1)).expect("room");
    let id = b.frame().header.id;
    b.link.answers.extend([
        Ok(oxifabric_engine::Posted::Done),
        Err(oxifabric_engine::PostError::Again),
    ]);
    for granted in [20, 40] {
        let cts = Header {
            data: granted,
            ..answer(Kind::Cts, id)
        };
        assert!(b.arrive(PEER, cts, b"").is_done());
    }
    b.tell(|sink| sink.writable(PEER));
    let all: usize = b.link.posted.drain(..).map(|frame| frame.body.len()).sum();
    assert_eq!(all, 40);
    b.done();
    b.assert_empty();
}

#[test]
fn a_window_is_given_up_with_its_peer() {
    let mut b = Bench::new();
    b.send(tx(&memory(&[1; 40]), 1)).expect("room");
    let id = b.frame().header.id;
    let cts = Header {
        data: 6,
        ..answer(Kind::Cts, id)
    };
    assert!(b.arrive(PEER, cts, b"").is_done());
    b.tell(|sink| sink.peer_down(PEER, oxifabric_types::Errno::CONNRESET));
    b.failed();
    b.link.posted.clear();
    b.assert_empty();
}
