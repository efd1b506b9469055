//! Fences: what waits behind them, and until when, fi_rma(3) "FI_FENCE".

use oxifabric_engine::{Header, HeaderFlags, Kind, PostError, RmaOp, Target, TxOp};
use oxifabric_types::{Errno, Flags};

use crate::script::*;

const KEY: u64 = 7;

fn read(context: usize, flags: Flags) -> RmaOp<'static> {
    RmaOp {
        peer: PEER,
        targets: lasting(Target {
            addr: 0,
            len: 3,
            key: KEY,
        }),
        body: memory(&[0; 3]),
        data: 0,
        flags: Flags::RMA | Flags::READ | Flags::COMPLETION | flags,
        context,
    }
}

fn fenced(context: usize) -> TxOp {
    let mut op = tx(&memory(b"abc"), context);
    op.flags |= Flags::FENCE;
    op
}

fn response(read: u32) -> Header {
    Header {
        kind: Kind::Response,
        tag: u64::from(read),
        ..msg(3)
    }
}

#[test]
fn a_fence_with_nothing_before_it_is_no_obstacle() {
    let mut b = Bench::new();
    b.send(fenced(1)).expect("room");
    assert_eq!(b.frame().header.kind, Kind::Msg);
    assert_eq!(b.done().context, 1);
    b.assert_empty();
}

#[test]
fn a_fenced_message_and_those_behind_it_wait_for_the_read_before_it() {
    let mut b = Bench::new();
    b.rma(read(1, Flags::empty())).expect("room");
    let id = b.frame().header.id;
    b.send(fenced(2)).expect("room");
    b.send(tx(&memory(b"def"), 3)).expect("room");
    b.tell(|_| {});
    assert!(b.link.posted.is_empty());
    assert_eq!(b.event(), None);
    b.arrive(PEER, response(id), b"xyz");
    let order: Vec<_> = (0..3).map(|_| b.done().context).collect();
    assert_eq!(order, [1, 2, 3]);
    let bodies: Vec<_> = (0..2).map(|_| b.frame().body).collect();
    assert_eq!(bodies, [b"abc".to_vec(), b"def".to_vec()]);
    b.assert_empty();
}

#[test]
fn a_response_in_parts_holds_the_fence_until_its_last_one() {
    let mut b = Bench::new();
    let mut long = read(1, Flags::empty());
    long.body = memory(&[0; 6]);
    b.rma(long).expect("room");
    let whole = Header {
        len: 6,
        id: 9,
        ..response(b.frame().header.id)
    };
    b.send(fenced(2)).expect("room");
    b.arrive(PEER, whole, b"abc");
    assert!(b.link.posted.is_empty());
    b.arrive(PEER, segment(6, 9, 3), b"def");
    assert_eq!(b.frame().header.kind, Kind::Msg);
    assert_eq!((b.done().context, b.done().context), (1, 2));
    b.assert_empty();
}

#[test]
fn a_fenced_read_waits_for_the_acknowledgement_before_it() {
    let mut b = Bench::new();
    let mut acked = tx(&memory(b"abc"), 1);
    acked.flags |= Flags::DELIVERY_COMPLETE;
    b.send(acked).expect("room");
    let first = b.frame().header;
    assert_eq!(first.flags, HeaderFlags::DELIVERY);
    b.rma(read(2, Flags::FENCE)).expect("room");
    assert!(b.link.posted.is_empty());
    b.arrive(PEER, answer(Kind::Ack, first.id), b"");
    let id = b.frame().header.id;
    b.arrive(PEER, response(id), b"xyz");
    assert_eq!((b.done().context, b.done().context), (1, 2));
    b.assert_empty();
}

#[test]
fn answers_and_other_peers_pass_a_fence() {
    let mut b = Bench::new();
    b.register(KEY, &memory(b"abcdefgh"));
    b.rma(read(1, Flags::empty())).expect("room");
    let id = b.frame().header.id;
    b.send(fenced(2)).expect("room");
    let theirs = Header {
        kind: Kind::Read,
        id: 5,
        ..msg(2)
    };
    let target = Target {
        addr: 0,
        len: 2,
        key: KEY,
    };
    b.arrive_at(theirs, target, b"");
    assert_eq!(b.frame().header.kind, Kind::Response);
    b.done();
    let mut other = fenced(3);
    other.peer = OTHER;
    b.send(other).expect("room");
    assert_eq!(b.frame().to, OTHER);
    assert_eq!(b.done().context, 3);
    b.arrive(PEER, response(id), b"xyz");
    assert_eq!(b.frame().to, PEER);
    assert_eq!((b.done().context, b.done().context), (1, 2));
    b.assert_empty();
}

#[test]
fn a_fence_waits_for_what_the_link_has_not_taken_too() {
    let mut b = Bench::new();
    b.link.answers.push_back(Err(PostError::Again));
    b.rma(read(1, Flags::empty())).expect("room");
    b.send(fenced(2)).expect("room");
    b.tell(|sink| sink.writable(PEER));
    let id = b.frame().header.id;
    assert!(b.link.posted.is_empty());
    b.arrive(PEER, response(id), b"xyz");
    assert_eq!(b.frame().header.kind, Kind::Msg);
    assert_eq!((b.done().context, b.done().context), (1, 2));
    b.assert_empty();
}

#[test]
fn a_fence_waits_for_what_may_be_overtaken_on_its_way() {
    let mut b = Bench::new();
    b.send(tx(&memory(b"abc"), 1)).expect("room");
    assert_eq!((b.frame().header.kind, b.done().context), (Kind::Msg, 1));
    b.link.is_unsettled = true;
    b.rma(read(2, Flags::FENCE)).expect("room");
    b.send(tx(&memory(b"def"), 3)).expect("room");
    b.tell(|_| {});
    b.tell(|sink| sink.writable(PEER));
    assert!(b.link.posted.is_empty());
    b.link.is_unsettled = false;
    b.tell(|sink| sink.writable(PEER));
    let id = b.frame().header.id;
    assert_eq!((b.frame().header.kind, b.done().context), (Kind::Msg, 3));
    b.arrive(PEER, response(id), b"xyz");
    assert_eq!(b.done().context, 2);
    b.assert_empty();
}

#[test]
fn a_lost_peer_fails_both_sides_of_a_fence() {
    let mut b = Bench::new();
    b.rma(read(1, Flags::empty())).expect("room");
    b.frame();
    b.send(fenced(2)).expect("room");
    b.tell(|sink| sink.peer_down(PEER, Errno::CONNRESET));
    let mut failed = [b.failed().op.context, b.failed().op.context];
    failed.sort_unstable();
    assert_eq!(failed, [1, 2]);
    b.send(fenced(3)).expect("room");
    assert_eq!(b.frame().header.kind, Kind::Msg);
    assert_eq!(b.done().context, 3);
    b.assert_empty();
}

#[test]
fn a_fenced_message_to_oneself_is_refused_while_another_is_under_way() {
    let mut b = Bench::new();
    let mut first = tx(&memory(b"abc"), 1);
    (first.peer, first.flags) = (ME, first.flags | Flags::DELIVERY_COMPLETE);
    b.send(first).expect("room");
    let mut second = fenced(2);
    second.peer = ME;
    assert_eq!(b.send(second), Err(Errno::AGAIN));
    b.recv(rx(&memory(&[0; 3]), 3)).expect("room");
    b.done();
    b.done();
    let mut again = fenced(4);
    again.peer = ME;
    b.send(again).expect("nothing is before it");
    b.recv(rx(&memory(&[0; 3]), 5)).expect("room");
    b.done();
    b.done();
    b.assert_empty();
}

#[test]
fn what_follows_a_cancelled_fence_stays_in_order() {
    let mut b = Bench::new();
    b.rma(read(1, Flags::empty())).expect("room");
    b.frame();
    b.send(fenced(2)).expect("room");
    b.send(tx(&memory(b"def"), 3)).expect("room");
    b.cancel(2).expect("it has not begun");
    b.send(tx(&memory(&[4; 30]), 4)).expect("room");
    b.send(tx(&memory(b"ghi"), 5)).expect("room");
    b.tell(|_| {});
    let kinds: Vec<_> = b
        .link
        .posted
        .drain(..)
        .map(|sent| sent.header.kind)
        .collect();
    assert_eq!(kinds, [Kind::Msg, Kind::MsgRts, Kind::Msg]);
}

#[test]
fn a_message_behind_a_fence_that_is_cancelled_lifts_no_fence() {
    let mut b = Bench::new();
    b.rma(read(1, Flags::empty())).expect("room");
    let id = b.frame().header.id;
    b.send(fenced(2)).expect("room");
    b.send(tx(&memory(b"def"), 3)).expect("room");
    b.cancel(3).expect("it has not begun");
    b.send(tx(&memory(b"ghi"), 4)).expect("room");
    b.tell(|_| {});
    assert!(b.link.posted.is_empty(), "the read is under way");
    b.arrive(PEER, response(id), b"xyz");
    let sent: Vec<_> = b.link.posted.drain(..).map(|sent| sent.body).collect();
    assert_eq!(sent, [b"abc", b"ghi"]);
}
