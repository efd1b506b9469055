//! A peer that is gone takes with it what waits for it, and nothing else.

use oxifabric_engine::{Header, HeaderFlags, Kind, PostError, Posted, RxOp, TxOp};
use oxifabric_types::{Errno, Flags};

use crate::script::*;

const WHY: Errno = Errno::CONNRESET;

fn lose(b: &mut Bench) {
    b.tell(|sink| sink.peer_down(PEER, WHY));
}

#[test]
fn sends_that_wait_for_it_fail() {
    let mut b = Bench::new();
    b.send(tx(&memory(&[0; 30]), 1)).expect("room");
    let delivery = TxOp {
        flags: Flags::MSG | Flags::DELIVERY_COMPLETE,
        ..tx(&memory(b"a"), 2)
    };
    b.send(delivery).expect("room");
    b.link.answers.push_back(Err(PostError::Again));
    b.send(tx(&memory(b"b"), 3)).expect("room");
    lose(&mut b);
    let mut failed: Vec<_> = (0..3).map(|_| b.failed()).collect();
    failed.sort_by_key(|failure| failure.op.context);
    assert!(failed.iter().all(|failure| failure.errno == WHY));
    let contexts: Vec<_> = failed.iter().map(|failure| failure.op.context).collect();
    assert_eq!(contexts, [1, 2, 3]);
    b.assert_empty();
}

#[test]
fn the_next_send_starts_afresh() {
    let mut b = Bench::new();
    b.link.answers.push_back(Err(PostError::Again));
    b.send(tx(&memory(b"a"), 1)).expect("room");
    lose(&mut b);
    b.failed();
    b.send(tx(&memory(b"b"), 2)).expect("room");
    assert_eq!((b.frame().body, b.done().context), (b"b".to_vec(), 2));
}

#[test]
fn receives_that_only_it_could_satisfy_fail() {
    let mut b = Bench::new();
    let directed = |from, context| RxOp {
        from,
        ..rx(&memory(&[0; 4]), context)
    };
    b.recv(directed(PEER, 1)).expect("room");
    b.recv(directed(OTHER, 2)).expect("room");
    b.recv(rx(&memory(&[0; 4]), 3)).expect("room");
    lose(&mut b);
    let failed = b.failed();
    assert_eq!((failed.op.context, failed.op.from), (1, PEER));
    assert_eq!(b.event(), None);
    assert_eq!(b.engine.pending_rx(), 2);
}

#[test]
fn a_receive_in_the_middle_of_its_message_fails() {
    let mut b = Bench::new();
    b.recv(rx(&memory(&[0; 30]), 1)).expect("room");
    b.arrive_stream(PEER, msg(30), 20).into_parts();
    lose(&mut b);
    let failed = b.failed();
    assert_eq!((failed.errno, failed.op.context), (WHY, 1));
    b.assert_empty();
}

#[test]
fn a_body_cut_short_fails_its_receive_once() {
    let mut b = Bench::new();
    b.recv(rx(&memory(&[0; 30]), 1)).expect("room");
    let (_, token) = b.arrive_stream(PEER, msg(30), 30).into_parts();
    b.tell(move |sink| {
        sink.placed(token, Err(WHY));
        sink.peer_down(PEER, WHY);
    });
    assert_eq!(b.failed().errno, WHY);
    b.assert_empty();
}

#[test]
fn complete_messages_stay_receivable() {
    let mut b = Bench::new();
    let delivery = Header {
        flags: HeaderFlags::DELIVERY,
        ..msg(2)
    };
    b.arrive(PEER, delivery, b"ab");
    b.arrive_stream(PEER, msg(30), 30).into_parts();
    b.arrive_stream(PEER, rts(40, 7), 0);
    lose(&mut b);
    assert_eq!(b.engine.unexpected(), 1);
    let buffer = memory(&[0; 2]);
    b.recv(rx(&buffer, 1)).expect("room");
    assert_eq!((b.done().len, content(&buffer)), (2, b"ab".to_vec()));
    assert!(b.link.posted.is_empty());
    b.assert_empty();
}

#[test]
fn late_answers_and_results_change_nothing() {
    let mut b = Bench::new();
    b.send(tx(&memory(&[0; 30]), 1)).expect("room");
    let old = b.frame();
    lose(&mut b);
    b.failed();
    b.send(tx(&memory(&[0; 30]), 2)).expect("room");
    let (id, token) = (old.header.id, old.token);
    assert!(b.arrive(PEER, answer(Kind::Fin, id), b"").is_done());
    assert!(b.arrive(PEER, answer(Kind::Ack, id), b"").is_done());
    b.tell(move |sink| sink.sent(token, Err(WHY)));
    assert_eq!((b.event(), b.engine.pending_tx()), (None, 1));
}

#[test]
fn a_frame_that_fails_fails_its_send() {
    let mut b = Bench::new();
    b.link.answers.push_back(Ok(Posted::Pending));
    b.send(tx(&memory(b"a"), 1)).expect("room");
    let token = b.frame().token;
    b.tell(move |sink| sink.sent(token, Err(Errno::NOBUFS)));
    assert_eq!(b.failed().errno, Errno::NOBUFS);
    b.assert_empty();
}

#[test]
fn what_is_lent_is_discarded_and_the_rest_goes_on() {
    let mut b = Bench::with(|limits| limits.eager = 4, |_| {});
    let body = memory(&[7; 40]);
    let owed = Header {
        id: 9,
        flags: HeaderFlags::DELIVERY,
        ..msg(3)
    };
    b.recv(rx(&memory(&[0; 3]), 1)).expect("room");
    b.recv(rx(&memory(&[0; 12]), 2)).expect("room");
    // Nothing leaves after the first part of an injected message, and of what the peer asked for.
    b.send(tx(&body, 3)).expect("room");
    let asked = b.frame().header.id;
    b.link.answers.push_back(Ok(Posted::Done));
    b.link.answers.extend([Err(PostError::Again); 9]);
    b.send(TxOp {
        flags: Flags::MSG | Flags::INJECT,
        ..tx(&memory(b"injected"), 4)
    })
    .expect("its first part left");
    assert!(b.arrive(PEER, answer(Kind::Cts, asked), b"").is_done());
    b.send(tx(&memory(b"ab"), 5)).expect("room");
    assert!(b.arrive(PEER, owed, b"abc").is_done());
    assert!(b.arrive(PEER, Header { id: 4, ..msg(12) }, b"ab").is_done());
    assert_eq!((b.done().context, b.event()), (1, None));
    b.engine.discard_lent();
    b.link.posted.clear();
    b.link.answers.clear();
    b.tell(|sink| sink.writable(PEER));
    let kinds: Vec<Kind> = b
        .link
        .posted
        .iter()
        .map(|frame| frame.header.kind)
        .collect();
    assert_eq!(kinds, [Kind::Ack, Kind::Segment]);
    assert!(b.arrive(PEER, segment(12, 4, 2), b"cd").is_refusal());
    assert!(b.arrive(PEER, answer(Kind::Fin, asked), b"").is_done());
    b.done();
    b.assert_empty();
}

#[test]
fn abandoning_drops_everything_in_silence() {
    let mut b = Bench::new();
    b.send(tx(&memory(&[0; 30]), 1)).expect("room");
    b.recv(tagged_rx(&memory(&[0; 4]), 0, 2)).expect("room");
    b.arrive(PEER, msg(2), b"ab");
    b.abandon();
    b.assert_empty();
}
