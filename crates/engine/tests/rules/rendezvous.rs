//! Long messages: announced, then pulled or asked for.

use oxifabric_engine::{Header, HeaderFlags, Kind, PostError, Posted, TxOp};
use oxifabric_types::{Errno, Flags};

use crate::script::*;

fn pulling() -> Bench {
    Bench::with(|limits| limits.pull = true, |_| {})
}

#[test]
fn the_sender_sends_segments_when_asked() {
    let mut b = Bench::new();
    let text = b"abcdefghijklmnopqrstuvwxyz";
    b.send(tx(&memory(text), 1)).expect("room");
    let header = b.frame().header;
    assert_eq!((header.kind, header.len), (Kind::MsgRts, 26));
    assert_eq!(b.event(), None);
    b.arrive(PEER, answer(Kind::Cts, header.id), b"");
    let got: Vec<u8> = b.link.posted.drain(..).flat_map(|sent| sent.body).collect();
    assert_eq!(got, text);
    assert_eq!(b.done().len, 26);
    b.assert_empty();
}

#[test]
fn fin_completes_the_send_or_says_why_not() {
    for (data, errno) in [(0, None), (14, Some(Errno::FAULT))] {
        let mut b = pulling();
        b.send(tx(&memory(&[1; 30]), 1)).expect("room");
        let fin = Header {
            data,
            ..answer(Kind::Fin, b.frame().header.id)
        };
        b.arrive(PEER, fin, b"");
        let event = b.event().expect("a completion");
        assert_eq!(event.err().map(|failure| failure.errno), errno);
        b.assert_empty();
    }
}

#[test]
fn new_messages_do_not_wait_for_data_that_was_asked_for() {
    let mut b = Bench::new();
    b.send(tx(&memory(&[1; 30]), 1)).expect("room");
    let id = b.frame().header.id;
    b.link.answers.push_back(Err(PostError::Again));
    b.arrive(PEER, answer(Kind::Cts, id), b"");
    b.send(tx(&memory(b"ab"), 2)).expect("room");
    b.tell(|sink| sink.writable(PEER));
    let kinds: Vec<_> = b.link.posted.iter().map(|sent| sent.header.kind).collect();
    assert!(kinds[..2].contains(&Kind::Msg), "{kinds:?}");
    assert_eq!((b.done().context, b.done().context), (2, 1));
    b.assert_empty();
}

#[test]
fn a_pull_that_is_done_at_once_is_answered_at_once() {
    let mut b = pulling();
    let buffer = memory(&[0; 30]);
    b.recv(rx(&buffer, 1)).expect("room");
    b.link.answers.push_back(Ok(Posted::Done));
    assert!(b.arrive_remote(PEER, rts(26, 9), 26).is_done());
    let (into, _) = b.link.pulls.pop_front().expect("a pull");
    assert_eq!((into.base(), into.len()), (buffer.base(), 26));
    let fin = b.frame().header;
    assert_eq!((fin.kind, fin.id, fin.data), (Kind::Fin, 9, 0));
    assert_eq!(b.done().len, 26);
    b.assert_empty();
}

#[test]
fn a_message_with_a_receive_is_copied_by_the_link_at_once() {
    let mut b = pulling();
    let buffers = [memory(&[0; 30]), memory(&[0; 26])];
    for (buffer, context) in buffers.iter().zip(1..) {
        b.recv(rx(buffer, context)).expect("room");
    }
    for (buffer, context) in buffers.iter().zip(1..) {
        let (asked, answer) = b.announce(rts(26, 9), 26, true);
        assert_eq!(asked.map(|into| into.base()), Some(buffer.base()));
        assert!(answer.is_none(), "it is over");
        let done = b.done();
        assert_eq!((done.context, done.len), (context, 26));
    }
    assert!(b.link.posted.is_empty(), "the link answers");
    b.assert_empty();
}

#[test]
fn a_message_that_the_link_fails_to_copy_is_pulled() {
    let mut b = pulling();
    b.recv(rx(&memory(&[0; 30]), 1)).expect("room");
    let (asked, answer) = b.announce(rts(26, 9), 26, false);
    assert!(asked.is_some() && answer.is_some_and(|answer| answer.is_done()));
    let (_, token) = b.link.pulls.pop_front().expect("a pull");
    b.tell(move |sink| sink.pulled(token, Ok(())));
    assert_eq!((b.frame().header.kind, b.done().len), (Kind::Fin, 26));
    b.assert_empty();
}

#[test]
fn a_message_without_a_receive_that_holds_it_is_not_copied_at_once() {
    let mut b = pulling();
    let (asked, answer) = b.announce(rts(26, 9), 26, true);
    assert!(asked.is_none() && answer.is_some_and(|answer| answer.is_done()));
    b.recv(rx(&memory(&[0; 30]), 1)).expect("room");
    assert_eq!(
        b.link.pulls.pop_front().map(|(into, _)| into.len()),
        Some(26)
    );
    b.recv(rx(&memory(&[0; 10]), 2)).expect("room");
    let (asked, _) = b.announce(rts(26, 10), 26, true);
    assert!(asked.is_none(), "it does not fit");
    assert_eq!(
        b.link.pulls.pop_front().map(|(into, _)| into.len()),
        Some(10)
    );
}

#[test]
fn a_message_that_its_memory_does_not_cover_is_refused() {
    let mut b = pulling();
    b.recv(rx(&memory(&[0; 30]), 1)).expect("room");
    for (len, piece) in [(26, 25), (0, 0)] {
        let (asked, answer) = b.announce(rts(len, 9), piece, true);
        assert!(asked.is_none() && answer.is_some_and(|answer| answer.is_refusal()));
    }
}

#[test]
fn a_matched_rts_is_pulled() {
    let mut b = pulling();
    let buffer = memory(&[0; 30]);
    b.recv(rx(&buffer, 1)).expect("room");
    assert!(b.arrive_remote(PEER, rts(26, 9), 26).is_done());
    let (into, token) = b.link.pulls.pop_front().expect("a pull");
    assert_eq!((into.base(), into.len()), (buffer.base(), 26));
    b.tell(move |sink| sink.pulled(token, Ok(())));
    let fin = b.frame().header;
    assert_eq!((fin.kind, fin.id, fin.data), (Kind::Fin, 9, 0));
    assert_eq!(b.done().len, 26);
    b.assert_empty();
}

#[test]
fn only_what_fits_is_pulled() {
    let mut b = pulling();
    b.arrive_remote(PEER, rts(26, 9), 26);
    b.recv(rx(&memory(&[0; 10]), 1)).expect("room");
    let (into, token) = b.link.pulls.pop_front().expect("a pull");
    assert_eq!(into.len(), 10);
    b.tell(move |sink| sink.pulled(token, Ok(())));
    let failed = b.failed();
    assert_eq!((failed.errno, failed.overflow), (Errno::TRUNC, 16));
    assert_eq!((b.frame().header.data, failed.op.len), (0, 10));
    b.assert_empty();
}

#[test]
fn a_forbidden_pull_becomes_a_request_unseen() {
    let mut b = pulling();
    let buffer = memory(&[0; 26]);
    b.recv(rx(&buffer, 1)).expect("room");
    b.arrive_remote(PEER, rts(26, 9), 26);
    let (_, token) = b.link.pulls.pop_front().expect("a pull");
    b.tell(move |sink| sink.pulled(token, Err(Errno::PERM)));
    let cts = b.frame().header;
    assert_eq!((cts.kind, cts.id, cts.len), (Kind::Cts, 9, 26));
    assert!(b.arrive(PEER, segment(26, 9, 0), &[3; 20]).is_done());
    assert!(b.arrive(PEER, segment(26, 9, 20), &[4; 6]).is_done());
    assert_eq!(b.done().len, 26);
    assert_eq!(content(&buffer)[19..21], [3, 4]);
    b.assert_empty();
}

#[test]
fn a_failed_pull_fails_both_ends() {
    let mut b = pulling();
    b.recv(rx(&memory(&[0; 26]), 1)).expect("room");
    b.arrive_remote(PEER, rts(26, 9), 26);
    let (_, token) = b.link.pulls.pop_front().expect("a pull");
    b.tell(move |sink| sink.pulled(token, Err(Errno::FAULT)));
    assert_eq!(b.frame().header.data, 14);
    let failed = b.failed();
    assert_eq!((failed.errno, failed.op.len), (Errno::FAULT, 0));
    b.assert_empty();
}

#[test]
fn a_pull_that_cannot_begin_fails_both_ends() {
    let mut b = pulling();
    b.recv(rx(&memory(&[0; 26]), 1)).expect("room");
    b.link.answers.push_back(Err(PostError::Down(Errno::INVAL)));
    b.arrive_remote(PEER, rts(26, 9), 26);
    let fin = b.frame().header;
    assert_eq!((fin.kind, fin.id, fin.data), (Kind::Fin, 9, 22));
    let failed = b.failed();
    assert_eq!((failed.errno, failed.op.len), (Errno::INVAL, 0));
    b.assert_empty();
}

#[test]
fn a_pull_that_has_to_wait_is_tried_again() {
    let mut b = pulling();
    b.recv(rx(&memory(&[0; 26]), 1)).expect("room");
    b.link.answers.push_back(Err(PostError::Again));
    b.arrive_remote(PEER, rts(26, 9), 26);
    assert!(b.link.pulls.is_empty() && !b.engine.idle());
    b.tell(|sink| sink.writable(PEER));
    assert_eq!(b.link.pulls.len(), 1);
}

#[test]
fn an_rts_costs_the_receiver_hardly_anything() {
    let mut b = Bench::new();
    b.arrive_stream(PEER, rts(1 << 40, 1), 0);
    assert_eq!(b.engine.unexpected(), 1);
    assert!(b.engine.unexpected_bytes() < 1024);
}

#[test]
fn segments_of_a_streamed_message_go_where_they_belong() {
    let mut b = Bench::new();
    let buffer = memory(&[0; 12]);
    b.recv(rx(&buffer, 1)).expect("room");
    let (first, token) = b.arrive_stream(PEER, msg(12), 8).into_parts();
    first.write(0, b"abcdefgh");
    b.tell(move |sink| sink.placed(token, Ok(())));
    let (second, token) = b.arrive_stream(PEER, segment(12, 0, 8), 4).into_parts();
    assert_eq!(second.base() as usize, buffer.address(8));
    second.write(0, b"ijkl");
    b.tell(move |sink| sink.placed(token, Ok(())));
    assert_eq!(
        (b.done().len, content(&buffer)),
        (12, b"abcdefghijkl".to_vec())
    );
    b.assert_empty();
}

#[test]
fn delivery_of_an_asked_for_message_is_acknowledged() {
    let mut b = Bench::new();
    let op = TxOp {
        flags: Flags::MSG | Flags::DELIVERY_COMPLETE,
        ..tx(&memory(&[1; 30]), 1)
    };
    b.send(op).expect("room");
    let id = b.frame().header.id;
    b.arrive(PEER, answer(Kind::Cts, id), b"");
    assert_eq!(b.event(), None);
    b.arrive(PEER, answer(Kind::Ack, id), b"");
    b.done();
    b.assert_empty();
}

#[test]
fn a_match_of_an_rts_is_known_by_the_cts() {
    let mut b = Bench::new();
    let op = TxOp {
        flags: Flags::MSG | Flags::MATCH_COMPLETE,
        ..tx(&memory(&[1; 30]), 1)
    };
    b.send(op).expect("room");
    let id = b.frame().header.id;
    b.arrive(PEER, answer(Kind::Cts, id), b"");
    b.done();
    let announced = Header {
        flags: HeaderFlags::MATCH,
        ..rts(24, 3)
    };
    b.link.posted.clear();
    b.arrive_stream(PEER, announced, 0);
    b.recv(rx(&memory(&[0; 24]), 2)).expect("room");
    assert_eq!(b.frame().header.kind, Kind::Cts);
    b.arrive(PEER, segment(24, 3, 0), &[0; 24]);
    b.done();
    assert!(b.link.posted.is_empty());
    b.assert_empty();
}

#[test]
fn messages_and_data_that_was_asked_for_take_turns() {
    let mut b = Bench::with(|_| {}, |config| config.tx_size = 16);
    b.send(tx(&memory(&[1; 30]), 1)).expect("room");
    let id = b.frame().header.id;
    b.link.answers.push_back(Err(PostError::Again));
    b.arrive(PEER, answer(Kind::Cts, id), b"");
    for context in 2..=6 {
        b.send(tx(&memory(b"ab"), context)).expect("room");
    }
    b.tell(|sink| sink.writable(PEER));
    let kinds: Vec<_> = b.link.posted.iter().map(|sent| sent.header.kind).collect();
    let turns = [Kind::Msg, Kind::Segment].repeat(5);
    assert_eq!(kinds, turns);
}

#[test]
fn fin_takes_the_place_of_an_acknowledgement() {
    let mut b = pulling();
    b.recv(rx(&memory(&[0; 26]), 1)).expect("room");
    let delivery = Header {
        flags: HeaderFlags::DELIVERY,
        ..rts(26, 9)
    };
    b.arrive_remote(PEER, delivery, 26);
    let (_, token) = b.link.pulls.pop_front().expect("a pull");
    b.tell(move |sink| sink.pulled(token, Ok(())));
    assert_eq!(b.frame().header.kind, Kind::Fin);
    assert!(b.link.posted.is_empty());
}

#[test]
fn an_id_is_free_again_when_its_message_is_here() {
    let mut b = Bench::new();
    for _ in 0..2 {
        assert!(b.arrive(PEER, msg(12), &[0; 8]).is_done());
        assert!(b.arrive(PEER, segment(12, 0, 8), &[0; 4]).is_done());
    }
    assert_eq!(b.engine.unexpected(), 2);
}
