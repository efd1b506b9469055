//! Frames of sends, and when sends complete.

use oxifabric_engine::{Header, HeaderFlags, Kind, PostError, Posted, TxOp};
use oxifabric_types::{Errno, Flags, PeerId};

use crate::script::*;

#[test]
fn a_short_message_is_one_frame_and_completes_at_once() {
    let mut b = Bench::new();
    let op = TxOp {
        tag: 4,
        data: 6,
        flags: Flags::TAGGED | Flags::REMOTE_CQ_DATA | Flags::COMPLETION,
        ..tx(&memory(b"abc"), 1)
    };
    b.send(op).expect("room");
    let frame = b.frame();
    assert_eq!((frame.to, frame.body.as_slice()), (PEER, &b"abc"[..]));
    let header = frame.header;
    assert_eq!(
        (header.kind, header.flags),
        (Kind::Tagged, HeaderFlags::DATA)
    );
    assert_eq!((header.tag, header.data, header.len), (4, 6, 3));
    let done = b.done();
    assert_eq!(done.flags, Flags::SEND | Flags::TAGGED);
    assert_eq!((done.context, done.len, done.from), (1, 3, PeerId::ANY));
    b.assert_empty();
}

#[test]
fn a_pending_frame_completes_when_the_link_has_read_it() {
    let mut b = Bench::new();
    b.link.answers.push_back(Ok(Posted::Pending));
    b.send(tx(&memory(b"abc"), 1)).expect("room");
    assert_eq!((b.event(), b.engine.idle()), (None, false));
    let token = b.frame().token;
    b.tell(move |sink| sink.sent(token, Ok(())));
    assert_eq!(b.done().context, 1);
    b.assert_empty();
}

#[test]
fn a_link_that_cuts_messages_gets_them_whole() {
    for flags in [Flags::empty(), Flags::TAGGED, Flags::FENCE] {
        for len in [9, 20] {
            let mut b = Bench::new();
            b.link.answers.push_back(Ok(Posted::Pending));
            let plain = tx(&memory(&vec![7; len]), 1);
            let flags = plain.flags | flags;
            b.send_cut(TxOp { flags, ..plain }).expect("room");
            let frame = b.frame();
            assert_eq!((frame.body, frame.header.len), (vec![7; len], len as u64));
            assert_eq!((b.event(), b.link.posted.len()), (None, 0));
            b.tell(move |sink| sink.sent(frame.token, Ok(())));
            assert_eq!(b.done().len, len as u64);
            b.assert_empty();
        }
    }
    let mut b = Bench::new();
    b.send_cut(tx(&memory(&[7; 21]), 1)).expect("room");
    assert_eq!(b.frame().header.kind, Kind::MsgRts);
}

#[test]
fn a_longer_message_goes_in_segments() {
    let mut b = Bench::new();
    let text = b"abcdefghijklmnopqr";
    b.send(tx(&memory(text), 1)).expect("room");
    let first = b.frame();
    assert_eq!((first.header.kind, first.header.len), (Kind::Msg, 18));
    assert!(first.more);
    let mut got = first.body;
    while let Some(frame) = b.link.posted.pop_front() {
        assert_eq!(frame.header.kind, Kind::Segment);
        assert_eq!(frame.header.tag as usize, got.len());
        assert_eq!((frame.header.id, frame.header.len), (first.header.id, 18));
        got.extend(frame.body);
        assert_eq!(frame.more, got.len() < 18);
    }
    assert_eq!(got, text);
    assert_eq!(b.done().len, 18);
    b.assert_empty();
}

#[test]
fn without_rendezvous_any_length_is_one_frame() {
    let mut b = Bench::with(|limits| limits.rndv_msg = false, |_| {});
    b.send(tx(&memory(&[1; 100]), 1)).expect("room");
    assert_eq!(b.frame().body.len(), 100);
    assert_eq!(b.done().len, 100);
}

#[test]
fn what_the_link_does_not_take_waits_in_order() {
    let mut b = Bench::new();
    b.link.answers.push_back(Err(PostError::Again));
    for context in 1..=3 {
        let body = memory(&[context as u8]);
        b.send(tx(&body, context)).expect("room");
    }
    assert!(b.link.posted.is_empty());
    assert_eq!(b.engine.pending_tx(), 3);
    b.tell(|sink| sink.writable(PEER));
    let order: Vec<u8> = b.link.posted.iter().map(|sent| sent.body[0]).collect();
    assert_eq!(order, [1, 2, 3]);
    let contexts = [b.done().context, b.done().context, b.done().context];
    assert_eq!(contexts, [1, 2, 3]);
    b.assert_empty();
}

#[test]
fn one_blocked_peer_does_not_hold_up_another() {
    let mut b = Bench::new();
    b.link.answers.push_back(Err(PostError::Again));
    b.send(tx(&memory(b"a"), 1)).expect("room");
    let to_other = TxOp {
        peer: OTHER,
        ..tx(&memory(b"b"), 2)
    };
    b.send(to_other).expect("room");
    assert_eq!((b.frame().to, b.done().context), (OTHER, 2));
}

/// An injected message without a completion.
fn inject(body: &oxifabric_mem::Iov, context: usize) -> TxOp {
    TxOp {
        flags: Flags::MSG | Flags::INJECT,
        ..tx(body, context)
    }
}

#[test]
fn an_injected_message_leaves_with_its_call_or_is_not_started() {
    let mut b = Bench::new();
    b.link.answers.push_back(Err(PostError::Again));
    let body = memory(b"abc");
    for _ in 0..3 {
        assert_eq!(b.send(inject(&body, 1)), Err(Errno::AGAIN));
    }
    assert_eq!(b.engine.pending_tx(), 0);
    b.send(tx(&body, 2))
        .expect("one with a completion may wait");
    b.tell(|sink| sink.writable(PEER));
    assert_eq!((b.frame().to, b.done().context), (PEER, 2));
    b.send(inject(&body, 1)).expect("the link takes it");
    assert!(b.frame().transient);
    assert!(!b.done().wanted);
    b.assert_empty();
}

#[test]
fn an_injected_message_behind_a_fence_is_copied() {
    let mut b = Bench::new();
    let waiting = TxOp {
        flags: Flags::MSG | Flags::DELIVERY_COMPLETE,
        ..tx(&memory(b"a"), 1)
    };
    b.send(waiting).expect("room");
    let id = b.frame().header.id;
    let body = memory(b"abc");
    let fenced = TxOp {
        flags: Flags::MSG | Flags::INJECT | Flags::FENCE,
        ..tx(&body, 2)
    };
    b.send(fenced).expect("room");
    body.write(0, b"xyz");
    assert!(b.link.posted.is_empty());
    b.arrive(PEER, answer(Kind::Ack, id), b"");
    assert_eq!(b.done().context, 1);
    assert_eq!(b.frame().body, b"abc");
    b.done();
    b.assert_empty();
}

#[test]
fn an_injected_message_that_had_to_come_again_learns_that_the_peer_is_lost() {
    let mut b = Bench::new();
    b.link.answers.push_back(Err(PostError::Again));
    let body = memory(b"abc");
    assert_eq!(b.send(inject(&body, 1)), Err(Errno::AGAIN));
    b.tell(|sink| sink.peer_down(PEER, Errno::CONNREFUSED));
    assert!(b.event().is_none(), "no operation was accepted");
    b.send(inject(&body, 2)).expect("it fails by a completion");
    assert_eq!(b.failed().errno, Errno::CONNREFUSED);
    assert!(b.link.posted.is_empty());
    b.send(inject(&body, 3)).expect("the next one tries anew");
    b.frame();
    b.done();
    b.assert_empty();
}

#[test]
fn injected_bodies_that_go_at_once_are_transient() {
    let mut b = Bench::new();
    let inject = TxOp {
        flags: Flags::MSG | Flags::INJECT | Flags::MORE,
        ..tx(&memory(b"abc"), 1)
    };
    b.send(inject).expect("room");
    let frame = b.frame();
    assert!(frame.transient && frame.more);
}

#[test]
fn again_when_as_many_sends_are_outstanding_as_there_may_be() {
    let mut b = Bench::new();
    b.link.answers.push_back(Err(PostError::Again));
    for context in 1..=4 {
        b.send(tx(&memory(b"a"), context)).expect("room");
    }
    assert_eq!(b.send(tx(&memory(b"a"), 5)), Err(Errno::AGAIN));
    b.cancel(2).expect("it has not begun");
    assert_eq!(b.failed().errno, Errno::CANCELED);
    b.send(tx(&memory(b"a"), 5)).expect("room");
    b.tell(|sink| sink.writable(PEER));
    let contexts: Vec<_> = (0..4).map(|_| b.done().context).collect();
    assert_eq!(contexts, [1, 3, 4, 5]);
    b.assert_empty();
}

#[test]
fn delivery_complete_waits_for_the_acknowledgement() {
    let mut b = Bench::new();
    let op = TxOp {
        flags: Flags::MSG | Flags::DELIVERY_COMPLETE,
        ..tx(&memory(b"a"), 1)
    };
    b.send(op).expect("room");
    let header = b.frame().header;
    assert_eq!((header.flags, b.event()), (HeaderFlags::DELIVERY, None));
    b.arrive(PEER, answer(Kind::Ack, header.id), b"");
    assert_eq!(b.done().context, 1);
    b.assert_empty();
}

#[test]
fn delivery_is_acknowledged_after_the_message_was_placed() {
    let mut b = Bench::new();
    let header = Header {
        id: 77,
        flags: HeaderFlags::DELIVERY,
        ..msg(3)
    };
    b.arrive(PEER, header, b"abc");
    assert!(b.link.posted.is_empty());
    b.recv(rx(&memory(&[0; 3]), 1)).expect("room");
    let ack = b.frame();
    assert_eq!((ack.header.kind, ack.header.id), (Kind::Ack, 77));
    b.done();
    b.assert_empty();
}

#[test]
fn some_links_acknowledge_on_arrival_and_only_once() {
    let mut b = Bench::with(|limits| limits.ack_on_arrival = true, |_| {});
    let delivery = |id| Header {
        id,
        flags: HeaderFlags::DELIVERY,
        ..msg(0)
    };
    b.arrive(PEER, delivery(1), b"");
    b.arrive(PEER, delivery(2), b"");
    let ids: Vec<_> = b.link.posted.drain(..).map(|sent| sent.header.id).collect();
    assert_eq!(ids, [1, 2]);
    b.recv(rx(&memory(&[]), 1)).expect("room");
    b.done();
    assert!(b.link.posted.is_empty());
}

#[test]
fn a_match_is_acknowledged_before_the_body_is_here() {
    let mut b = Bench::new();
    let header = Header {
        id: 5,
        flags: HeaderFlags::MATCH,
        ..msg(4)
    };
    b.recv(rx(&memory(&[0; 4]), 1)).expect("room");
    let (_, token) = b.arrive_stream(PEER, header, 4).into_parts();
    assert_eq!(b.frame().header.kind, Kind::Ack);
    b.tell(move |sink| sink.placed(token, Ok(())));
    b.done();
    assert!(b.link.posted.is_empty());
    b.assert_empty();
}

#[test]
fn a_peer_that_is_down_fails_the_send() {
    let mut b = Bench::new();
    let down = Err(PostError::Down(Errno::CONNREFUSED));
    b.link.answers.push_back(down);
    b.send(tx(&memory(b"a"), 1)).expect("it is started");
    let failed = b.failed();
    assert_eq!((failed.errno, failed.op.context), (Errno::CONNREFUSED, 1));
    assert_eq!(failed.op.flags, Flags::SEND | Flags::MSG);
    b.assert_empty();
}

#[test]
fn a_peer_that_cannot_exist_is_invalid() {
    let mut b = Bench::new();
    let op = TxOp {
        peer: PeerId::ANY,
        ..tx(&memory(b"a"), 1)
    };
    assert_eq!(b.send(op), Err(Errno::INVAL));
}
