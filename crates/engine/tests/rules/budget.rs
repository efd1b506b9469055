//! The byte budget for messages that nobody receives.

use oxifabric_engine::{Kind, RxOp, TxOp};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Flags};

use crate::script::*;

/// Room for about two messages of 300 bytes.
fn tight() -> Bench {
    Bench::with(|_| {}, |config| config.unexpected_bytes = 1200)
}

fn fill(b: &mut Bench) {
    assert!(b.arrive(PEER, tagged(300, 1), &[0; 300]).is_done());
    assert!(b.arrive(PEER, tagged(300, 1), &[0; 300]).is_done());
    assert!(b.arrive(PEER, tagged(300, 2), &[0; 300]).is_stall());
    b.link.resumed.clear();
}

#[test]
fn beyond_the_budget_a_peer_has_to_wait() {
    let mut b = tight();
    fill(&mut b);
    assert!(b.engine.unexpected_bytes() <= 1200);
    assert!(b.arrive_stream(PEER, tagged(300, 2), 300).is_stall());
}

#[test]
fn the_first_message_of_each_peer_is_taken_whatever_it_costs() {
    let mut b = tight();
    assert!(b.arrive(PEER, tagged(5000, 1), &[0; 5000]).is_done());
    assert!(b.arrive(OTHER, tagged(300, 1), &[0; 300]).is_done());
    assert!(b.arrive(PEER, tagged(1, 1), &[0; 1]).is_stall());
}

#[test]
fn empty_messages_are_not_free() {
    let mut b = tight();
    let stalled = (0..100).any(|_| b.arrive(PEER, msg(0), b"").is_stall());
    assert!(stalled);
}

#[test]
fn room_made_lets_the_peer_go_on() {
    let mut b = tight();
    fill(&mut b);
    b.recv(tagged_rx(&memory(&[0; 300]), 1, 1)).expect("room");
    b.done();
    assert_eq!(b.link.resumed, [PEER]);
    assert!(b.arrive(PEER, tagged(300, 2), &[0; 300]).is_done());
}

#[test]
fn a_receive_that_may_be_for_a_waiting_peer_gets_its_message() {
    let mut b = tight();
    fill(&mut b);
    b.recv(tagged_rx(&memory(&[0; 300]), 3, 1)).expect("room");
    assert_eq!(b.link.resumed, [PEER]);
    assert!(b.arrive(PEER, tagged(300, 2), &[0; 300]).is_done());
    assert!(b.arrive(PEER, tagged(300, 3), &[0; 300]).is_done());
    assert_eq!(b.done().tag, 3);
    assert!(b.arrive(PEER, tagged(300, 2), &[0; 300]).is_stall());
}

#[test]
fn multi_receive_buffers_do_not_open_the_gate() {
    let mut b = tight();
    let buffer = RxOp {
        flags: Flags::MSG | Flags::MULTI_RECV,
        ..rx(&memory(&[0; 9]), 1)
    };
    b.recv(buffer).expect("room");
    fill(&mut b);
}

#[test]
fn an_answer_that_a_send_waits_for_may_be_behind() {
    let mut b = tight();
    fill(&mut b);
    b.send(tx(&memory(&[0; 30]), 1)).expect("room");
    assert_eq!(b.link.resumed, [PEER]);
    let id = b.frame().header.id;
    assert!(b.arrive(PEER, tagged(300, 2), &[0; 300]).is_done());
    assert!(b.arrive(PEER, answer(Kind::Fin, id), b"").is_done());
    b.done();
    assert!(b.arrive(PEER, tagged(300, 2), &[0; 300]).is_stall());
}

#[test]
fn each_peek_in_vain_lets_one_more_message_in() {
    let mut b = tight();
    fill(&mut b);
    let peek = RxOp {
        flags: Flags::TAGGED | Flags::PEEK,
        ..tagged_rx(&Iov::empty(), 2, 1)
    };
    b.recv(peek).expect("room");
    assert_eq!((b.failed().errno, b.link.resumed.len()), (Errno::NOMSG, 1));
    assert!(b.arrive(PEER, tagged(300, 2), &[0; 300]).is_done());
    assert!(b.arrive(PEER, tagged(300, 2), &[0; 300]).is_stall());
}

#[test]
fn messages_to_oneself_stay_at_the_sender_when_there_is_no_room() {
    let mut b = tight();
    let to_self = |flags, context| TxOp {
        peer: ME,
        flags: Flags::MSG | flags,
        ..tx(&memory(&[5; 500]), context)
    };
    b.send(to_self(Flags::empty(), 1)).expect("room");
    b.done();
    b.send(to_self(Flags::empty(), 2)).expect("room");
    assert_eq!(b.event(), None);
    b.send(to_self(Flags::INJECT, 3)).expect("room");
    assert_eq!((b.event(), b.engine.pending_tx()), (None, 2));
    for context in 4..=6 {
        b.recv(rx(&memory(&[0; 500]), context)).expect("room");
    }
    let order: Vec<_> = (0..5).map(|_| b.done().context).collect();
    assert_eq!(order, [4, 5, 2, 6, 3]);
    b.assert_empty();
}
