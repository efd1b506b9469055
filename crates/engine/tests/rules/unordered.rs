//! Links that keep the order of messages alone: segments come as they like.

use oxifabric_engine::{Header, Kind, PostError, Posted, TxOp};
use oxifabric_types::{Errno, Flags};

use crate::script::*;

/// Asks for the body of the message with this id, as far as `granted`.
fn cts(id: u32, granted: u64) -> Header {
    Header {
        data: granted,
        ..answer(Kind::Cts, id)
    }
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
        assert!(b.arrive_unordered(segment(12, 4, 8), b"ijkl").is_done());
        assert!(b.arrive_unordered(segment(12, 4, 2), b"cde").is_done());
        assert_eq!(b.event(), None);
        assert!(b.arrive_unordered(segment(12, 4, 5), b"fgh").is_done());
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
    assert!(b.arrive_unordered(segment(6, 4, 3), b"def").is_done());
    assert!(b.arrive_unordered(segment(6, 4, 0), b"abc").is_done());
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
            b.arrive_unordered(segment(12, 4, offset), &bytes)
                .is_refusal(),
            "{len} at {offset}"
        );
    }
    assert!(
        b.arrive_unordered(segment(12, 5, 2), b"c").is_refusal(),
        "an unknown message"
    );
    assert!(
        b.arrive_unordered(Header { id: 4, ..msg(3) }, b"abc")
            .is_refusal(),
        "no segment"
    );
    // Whatever a peer repeats, the message has no more bytes than it said.
    assert!(b.arrive_unordered(segment(12, 4, 0), b"abcdef").is_done());
    assert!(b.arrive_unordered(segment(12, 4, 0), b"abcde").is_refusal());
    assert!(b.arrive_unordered(segment(12, 4, 0), b"abcd").is_done());
    assert_eq!(b.done().len, 12);
    b.assert_empty();
}

#[test]
fn a_sender_stops_at_the_end_of_its_window_until_it_is_wider() {
    let mut b = Bench::new();
    b.send(tx(&memory(&[1; 40]), 1)).expect("room");
    let id = b.frame().header.id;
    assert!(b.arrive(PEER, cts(id, 10), b"").is_done());
    let mut sent = Vec::new();
    while let Some(frame) = b.link.posted.pop_front() {
        sent.push((frame.header.tag, frame.body.len(), frame.more));
    }
    assert_eq!(sent, [(0, 6, true), (6, 4, false)]);
    assert!(b.arrive(PEER, cts(id, 10), b"").is_refusal(), "no wider");
    assert!(b.arrive(PEER, cts(id, 13), b"").is_done());
    assert_eq!((b.frame().header.tag, b.link.posted.len()), (10, 0));
    assert!(b.arrive(PEER, cts(id, 0), b"").is_done());
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
    let first_only = [Ok(Posted::Done), Err(PostError::Again)];
    b.link.answers.extend(first_only);
    for granted in [20, 40] {
        assert!(b.arrive(PEER, cts(id, granted), b"").is_done());
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
    assert!(b.arrive(PEER, cts(id, 6), b"").is_done());
    b.tell(|sink| sink.peer_down(PEER, Errno::CONNRESET));
    b.failed();
    b.link.posted.clear();
    b.assert_empty();
}

/// Posts a message of three frames, or of as many that the peer asks for, whose sender waits for them; returns for which ones.
fn awaited<const IN_ORDER: bool>(on_request: bool) -> Vec<bool> {
    let mut b: Bench<IN_ORDER> = Bench::made(|_| {}, |_| {});
    let body = memory(&[1; 20]);
    if on_request {
        b.link.limits.segmented = 0;
    }
    let wanted = Flags::TRANSMIT_COMPLETE | Flags::MSG | Flags::COMPLETION;
    let rts = on_request.then_some(Ok(Posted::Done));
    b.link.answers.extend(rts);
    b.link.answers.extend([Ok(Posted::Pending); 4]);
    b.send(TxOp {
        flags: wanted,
        ..tx(&body, 1)
    })
    .expect("room");
    if on_request {
        let rts = b.frame();
        assert!(
            !rts.transmit_complete,
            "what the peer asks for is told anew"
        );
        assert!(b.arrive(PEER, cts(rts.header.id, 0), b"").is_done());
    }
    let frames: Vec<Sent> = b.link.posted.drain(..).collect();
    for frame in &frames {
        assert_eq!(b.event(), None, "a frame is missing");
        let token = frame.token;
        b.tell(move |sink| sink.sent(token, Ok(())));
    }
    b.done();
    frames.iter().map(|frame| frame.transmit_complete).collect()
}

#[test]
fn a_sender_waits_for_each_frame_that_another_may_overtake() {
    assert_eq!(awaited::<true>(false), [false, false, true]);
    assert_eq!(awaited::<false>(false), [true; 3]);
    assert_eq!(awaited::<true>(true), [false, false, false, true]);
    assert_eq!(awaited::<false>(true), [true; 4]);
}
