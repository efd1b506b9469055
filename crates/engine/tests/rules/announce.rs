//! Announcements that go to the link in the call that begins their operation.

use oxifabric_engine::{Header, HeaderFlags, Kind, PostError, Posted, RmaOp, Target, TxOp};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Flags};

use crate::script::*;

const TARGET: Target = Target {
    addr: 2,
    len: 30,
    key: 0xfeed,
};

fn pulling() -> Bench {
    Bench::with(|limits| limits.pull = true, |_| {})
}

fn write(flags: Flags, body: &Iov, context: usize) -> RmaOp<'static> {
    RmaOp {
        peer: PEER,
        targets: lasting(TARGET),
        body: body.clone(),
        data: 9,
        flags: Flags::RMA | Flags::WRITE | Flags::COMPLETION | flags,
        context,
    }
}

fn send(flags: Flags, body: &Iov, context: usize) -> TxOp {
    let op = tx(body, context);
    TxOp {
        flags: op.flags | flags,
        ..op
    }
}

fn fin(b: &mut Bench, id: u32) {
    assert!(b.arrive(PEER, answer(Kind::Fin, id), b"").is_done());
}

/// Begins a message, or a write of the same memory.
fn begin(b: &mut Bench, is_write: bool, flags: Flags, context: usize) -> Result<(), Errno> {
    let body = memory(&[1; 30]);
    match is_write {
        true => b.rma(write(flags, &body, context)),
        false => b.send(send(flags, &body, context)),
    }
}

#[test]
fn a_long_message_or_write_is_announced_in_its_call() {
    for (is_write, kind) in [(false, Kind::MsgRts), (true, Kind::WriteRts)] {
        let mut b = pulling();
        begin(&mut b, is_write, Flags::MORE, 1).expect("room");
        let sent = b.frame();
        assert_eq!((sent.header.kind, sent.header.len), (kind, 30));
        assert!(sent.more && !sent.transient && !sent.transmit_complete);
        let targets: &[Target] = if is_write { &[TARGET] } else { &[] };
        assert_eq!(sent.targets, targets);
        assert_eq!(b.event(), None);
        fin(&mut b, sent.header.id);
        assert_eq!(b.done().context, 1);
        b.assert_empty();
    }
}

#[test]
fn what_was_announced_is_sent_when_it_is_asked_for() {
    for is_write in [false, true] {
        let mut b = pulling();
        begin(&mut b, is_write, Flags::empty(), 1).expect("room");
        let id = b.frame().header.id;
        b.arrive(PEER, answer(Kind::Cts, id), b"");
        let sent: usize = b.link.posted.iter().map(|sent| sent.body.len()).sum();
        assert_eq!(sent, 30);
        b.done();
        b.assert_empty();
    }
}

#[test]
fn an_announcement_that_the_link_does_not_take_waits_in_order() {
    for is_write in [false, true] {
        let mut b = pulling();
        b.link.answers.push_back(Err(PostError::Again));
        begin(&mut b, is_write, Flags::empty(), 1).expect("room");
        begin(&mut b, !is_write, Flags::empty(), 2).expect("room");
        assert!(b.link.posted.is_empty());
        b.tell(|sink| sink.writable(PEER));
        for context in [1, 2] {
            let header = b.frame().header;
            fin(&mut b, header.id);
            assert_eq!(b.done().context, context);
        }
        b.assert_empty();
    }
}

#[test]
fn an_announcement_to_a_peer_that_is_gone_fails() {
    for is_write in [false, true] {
        let mut b = pulling();
        let down = Err(PostError::Down(Errno::CONNRESET));
        b.link.answers.push_back(down);
        begin(&mut b, is_write, Flags::DELIVERY_COMPLETE, 1).expect("room");
        let failed = b.failed();
        assert_eq!((failed.errno, failed.op.context), (Errno::CONNRESET, 1));
        b.assert_empty();
    }
}

#[test]
fn an_announcement_that_the_link_still_reads_keeps_its_operation() {
    for is_write in [false, true] {
        let mut b = pulling();
        b.link.answers.push_back(Ok(Posted::Pending));
        begin(&mut b, is_write, Flags::empty(), 1).expect("room");
        let sent = b.frame();
        fin(&mut b, sent.header.id);
        assert_eq!(b.event(), None);
        let token = sent.token;
        b.tell(move |sink| sink.sent(token, Ok(())));
        b.done();
        b.assert_empty();
    }
}

#[test]
fn a_fence_holds_an_announcement_back() {
    for is_write in [false, true] {
        let mut b = pulling();
        begin(&mut b, is_write, Flags::empty(), 1).expect("room");
        begin(&mut b, is_write, Flags::FENCE, 2).expect("room");
        begin(&mut b, is_write, Flags::empty(), 3).expect("room");
        let first = b.frame().header.id;
        assert!(b.link.posted.is_empty());
        fin(&mut b, first);
        let ids: Vec<_> = (0..2).map(|_| b.frame().header.id).collect();
        ids.into_iter().for_each(|id| fin(&mut b, id));
        let contexts: Vec<_> = (0..3).map(|_| b.done().context).collect();
        assert_eq!(contexts, [1, 2, 3]);
        b.assert_empty();
    }
}

#[test]
fn what_the_sender_waits_for_is_in_the_announcement() {
    let flags = [
        (false, Flags::DELIVERY_COMPLETE, HeaderFlags::DELIVERY),
        (false, Flags::MATCH_COMPLETE, HeaderFlags::MATCH),
        (false, Flags::REMOTE_CQ_DATA, HeaderFlags::DATA),
        (true, Flags::DELIVERY_COMPLETE, HeaderFlags::DELIVERY),
        (true, Flags::MATCH_COMPLETE, HeaderFlags::MATCH),
        (true, Flags::REMOTE_CQ_DATA, HeaderFlags::DATA),
    ];
    for (is_write, asked, said) in flags {
        let mut b = pulling();
        begin(&mut b, is_write, asked, 1).expect("room");
        let header: Header = b.frame().header;
        assert_eq!(header.flags, said, "{is_write} {asked:?}");
        fin(&mut b, header.id);
        b.done();
        b.assert_empty();
    }
}

#[test]
fn a_long_write_is_carried_out_by_the_link_once_or_not_at_all() {
    let mut b = pulling();
    begin(&mut b, true, Flags::empty(), 1).expect("room");
    assert_eq!(b.link.asked_to_carry_out, 1);
    // What is not announced at once either.
    begin(&mut b, true, Flags::MATCH_COMPLETE, 2).expect("room");
    assert_eq!(b.link.asked_to_carry_out, 2);
    b.link.answers.push_back(Err(PostError::Again));
    begin(&mut b, true, Flags::empty(), 3).expect("room");
    assert_eq!(b.link.asked_to_carry_out, 3);
    begin(&mut b, true, Flags::empty(), 4).expect("room");
    assert_eq!(b.link.asked_to_carry_out, 3, "frames wait for the peer");
}

#[test]
fn an_injected_message_that_is_announced_is_copied() {
    let mut b = pulling();
    let body = memory(&[1; 30]);
    b.send(send(Flags::INJECT, &body, 1)).expect("room");
    let header = b.frame().header;
    assert_eq!(header.kind, Kind::MsgRts);
    body.write(0, &[2; 30]);
    b.arrive(PEER, answer(Kind::Cts, header.id), b"");
    let sent: Vec<u8> = b.link.posted.drain(..).flat_map(|sent| sent.body).collect();
    assert_eq!(sent, [1; 30]);
}
