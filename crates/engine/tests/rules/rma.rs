//! Reading and writing memory of peers: fi_rma(3).

use oxifabric_engine::{Header, HeaderFlags, Kind, PostError, Posted, RmaOp, Target};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Flags};

use crate::script::*;

const KEY: u64 = 0xfeed;

fn target(addr: u64, len: u64) -> Target {
    Target {
        addr,
        len,
        key: KEY,
    }
}

fn op(flags: Flags, body: &Iov, context: usize) -> RmaOp<'static> {
    RmaOp {
        peer: PEER,
        targets: lasting(target(3, body.len() as u64)),
        body: body.clone(),
        data: 0,
        flags: Flags::RMA | Flags::COMPLETION | flags,
        context,
    }
}

fn write_header(len: usize) -> Header {
    Header {
        kind: Kind::Write,
        id: 6,
        ..msg(len)
    }
}

fn response(read: &Header, len: usize) -> Header {
    Header {
        kind: Kind::Response,
        id: 4,
        tag: u64::from(read.id),
        ..msg(len)
    }
}

/// C's tcp repeats the flags of the request in the response, and crashes if it is acknowledged.
#[test]
fn a_read_asks_for_no_acknowledgement() {
    for level in [Flags::DELIVERY_COMPLETE, Flags::MATCH_COMPLETE] {
        let mut b = Bench::new();
        b.rma(op(Flags::READ | level, &memory(b"..."), 1))
            .expect("room");
        let read = b.frame().header;
        assert_eq!((read.kind, read.flags), (Kind::Read, HeaderFlags::empty()));
    }
}

#[test]
fn a_short_write_is_one_frame() {
    let mut b = Bench::new();
    b.rma(op(Flags::WRITE, &memory(b"abc"), 1)).expect("room");
    let frame = b.frame();
    assert_eq!(
        (frame.header.kind, frame.body),
        (Kind::Write, b"abc".to_vec())
    );
    assert_eq!(frame.targets, [target(3, 3)]);
    assert_eq!(b.done().flags, Flags::RMA | Flags::WRITE);
    b.assert_empty();
}

#[test]
fn only_the_first_frame_names_the_targets() {
    for asked in [false, true] {
        let mut b = Bench::with(|limits| limits.rndv_rma = asked, |_| {});
        let body = memory(&[1; 15]);
        b.rma(op(Flags::WRITE, &body, 1)).expect("room");
        let first = b.frame();
        assert_eq!(first.targets, [target(3, body.len() as u64)]);
        if asked {
            b.arrive(PEER, answer(Kind::Cts, first.header.id), b"");
        }
        assert!(!b.link.posted.is_empty());
        assert!(b.link.posted.iter().all(|sent| sent.targets.is_empty()));
        b.done();
        b.assert_empty();
    }
}

#[test]
fn a_write_lands_where_its_target_says() {
    let mut b = Bench::new();
    let region = memory(&[0; 8]);
    b.register(KEY, &region);
    assert!(b.arrive_at(write_header(3), target(2, 3), b"abc").is_done());
    assert_eq!(content(&region), b"\0\0abc\0\0\0");
    let done = b.done();
    assert_eq!(done.flags, Flags::RMA | Flags::REMOTE_WRITE);
    assert_eq!((done.wanted, done.buf), (false, region.address(2)));
    let with_data = Header {
        flags: HeaderFlags::DATA,
        data: 5,
        ..write_header(0)
    };
    b.arrive_at(with_data, target(0, 0), b"");
    let done = b.done();
    assert_eq!((done.wanted, done.data), (true, 5));
    b.assert_empty();
}

#[test]
fn a_write_that_is_not_allowed_is_refused_by_name_or_drops_the_connection() {
    let mut b = Bench::new();
    assert!(
        b.arrive_at(write_header(3), target(2, 3), b"abc")
            .is_refusal()
    );
    let delivery = Header {
        flags: HeaderFlags::DELIVERY,
        ..write_header(3)
    };
    assert!(b.arrive_at(delivery, target(2, 3), b"abc").is_done());
    let fin = b.frame().header;
    assert_eq!((fin.kind, fin.id), (Kind::Fin, 6));
    assert_eq!(fin.data, Errno::NOKEY.raw() as u64);
    b.assert_empty();
}

#[test]
fn a_read_completes_with_its_response() {
    let mut b = Bench::new();
    let body = memory(&[0; 3]);
    b.rma(op(Flags::READ, &body, 1)).expect("room");
    let read = b.frame();
    assert_eq!((read.header.kind, read.header.len), (Kind::Read, 3));
    assert!(read.body.is_empty());
    assert_eq!(b.event(), None);
    assert!(b.arrive(PEER, response(&read.header, 3), b"abc").is_done());
    let done = b.done();
    assert_eq!((done.flags, done.context), (Flags::RMA | Flags::READ, 1));
    assert_eq!(content(&body), b"abc");
    b.assert_empty();
}

#[test]
fn a_response_must_fit_its_read_which_fails_with_the_connection_otherwise() {
    let mut b = Bench::new();
    b.rma(op(Flags::READ, &memory(&[0; 30]), 1)).expect("room");
    let read = b.frame().header;
    assert!(b.arrive(OTHER, response(&read, 30), b"abc").is_refusal());
    assert!(b.arrive(PEER, response(&read, 3), b"abc").is_refusal());
    assert!(b.arrive(PEER, response(&read, 30), &[0; 31]).is_refusal());
    assert_eq!((b.event(), b.engine.pending_tx()), (None, 1));
    b.tell(|sink| sink.peer_down(PEER, Errno::PROTO));
    assert_eq!(b.failed().errno, Errno::PROTO);
    b.assert_empty();
}

#[test]
fn a_refused_read_fails() {
    let mut b = Bench::new();
    b.rma(op(Flags::READ, &memory(&[0; 3]), 1)).expect("room");
    let fin = Header {
        data: Errno::NOKEY.raw() as u64,
        ..answer(Kind::Fin, b.frame().header.id)
    };
    b.arrive(PEER, fin, b"");
    assert_eq!(b.failed().errno, Errno::NOKEY);
    b.assert_empty();
}

#[test]
fn reads_are_answered_from_the_region() {
    let mut b = Bench::new();
    b.register(KEY, &memory(b"abcdefgh"));
    let read = Header {
        kind: Kind::Read,
        id: 9,
        ..msg(3)
    };
    assert!(b.arrive_at(read, target(2, 3), b"").is_done());
    let answered = b.frame();
    assert_eq!(answered.header.kind, Kind::Response);
    assert_eq!((answered.header.tag, answered.body), (9, b"cde".to_vec()));
    let done = b.done();
    assert_eq!(done.flags, Flags::RMA | Flags::REMOTE_READ);
    assert!(!done.wanted);
    let unknown = Target {
        key: 1,
        ..target(0, 3)
    };
    assert!(b.arrive_at(read, unknown, b"").is_done());
    assert_eq!(b.frame().header.kind, Kind::Fin);
    b.assert_empty();
}

#[test]
fn responses_that_are_never_read_do_not_pile_up() {
    let mut b = Bench::new();
    b.register(KEY, &memory(b"abcdefgh"));
    b.link.answers.push_back(Err(PostError::Again));
    let read = Header {
        kind: Kind::Read,
        ..msg(1)
    };
    let taken = (0..100_000).find(|_| b.arrive_at(read, target(0, 1), b"").is_stall());
    let taken = taken.expect("it ends");
    b.tell(|sink| sink.writable(PEER));
    assert_eq!(
        (b.link.posted.len(), b.link.resumed.as_slice()),
        (taken, &[PEER][..])
    );
}

#[test]
fn a_write_cut_short_is_no_failure_at_its_target() {
    let mut b = Bench::new();
    b.register(KEY, &memory(&[0; 40]));
    assert!(
        b.arrive_at(write_header(30), target(0, 30), b"abc")
            .is_done()
    );
    b.tell(|sink| sink.peer_down(PEER, Errno::CONNRESET));
    b.assert_empty();
}

#[test]
fn a_read_cut_short_fails_once() {
    let mut b = Bench::new();
    b.rma(op(Flags::READ, &memory(&[0; 30]), 1)).expect("room");
    let read = b.frame().header;
    assert!(b.arrive(PEER, response(&read, 30), b"abc").is_done());
    b.tell(|sink| sink.peer_down(PEER, Errno::CONNRESET));
    let failed = b.failed();
    assert_eq!((failed.errno, failed.op.context), (Errno::CONNRESET, 1));
    b.assert_empty();
}

#[test]
fn an_access_of_several_regions_names_them_all_when_it_ends() {
    let mut b = Bench::new();
    b.register(KEY, &memory(&[0; 40]));
    let both = [
        target(0, 1),
        Target {
            key: 1,
            ..target(0, 2)
        },
    ];
    b.arrive_at_all(write_header(3), &both, b"abc");
    assert_eq!(b.accessed(), [both.to_vec()]);
    // In parts, and answered, it is the same at their ends.
    let long = [
        target(0, 10),
        Target {
            key: 1,
            ..target(0, 20)
        },
    ];
    b.arrive_at_all(write_header(30), &long, &[1; 8]);
    assert!(b.engine.uses_region(KEY) && b.engine.uses_region(1));
    assert!(b.accessed().is_empty());
    b.arrive(PEER, segment(30, 6, 8), &[1; 22]);
    assert_eq!(b.accessed(), [long.to_vec()]);
    let read = Header {
        kind: Kind::Read,
        id: 9,
        ..msg(3)
    };
    b.arrive_at_all(read, &both, b"");
    assert_eq!(b.accessed(), [both.to_vec()]);
    assert!(b.frame().targets.is_empty());
    let contexts: Vec<_> = (0..3).map(|_| b.done().context as u64).collect();
    assert_eq!(contexts, [KEY; 3]);
    b.assert_empty();
}

/// It names no key, so any peer could bring about completions by it.
#[test]
fn a_write_of_nothing_to_nowhere_is_acknowledged_and_not_reported_and_a_read_refused() {
    let mut b = Bench::new();
    let with_data = Header {
        flags: HeaderFlags::DATA | HeaderFlags::DELIVERY,
        data: 5,
        ..write_header(0)
    };
    assert!(b.arrive_at_all(with_data, &[], b"").is_done());
    assert_eq!(b.frame().header.kind, Kind::Ack);
    let announced = Header {
        kind: Kind::WriteRts,
        ..with_data
    };
    assert!(b.arrive_at_all(announced, &[], b"").is_refusal());
    let read = Header {
        kind: Kind::Read,
        ..write_header(0)
    };
    assert!(b.arrive_at_all(read, &[], b"").is_refusal());
    assert!(b.event().is_none() && b.accessed().is_empty());
    b.assert_empty();
}

#[test]
fn a_region_is_in_use_until_the_last_access_ends() {
    let mut b = Bench::new();
    b.register(KEY, &memory(&[0; 40]));
    b.arrive_at(write_header(30), target(0, 30), b"abc");
    assert!(b.engine.uses_region(KEY) && !b.engine.uses_region(KEY + 1));
    b.tell(|sink| sink.peer_down(PEER, Errno::CONNRESET));
    assert!(!b.engine.uses_region(KEY));
    // Of a read, as long as the link or the peer may still take from the memory.
    b.link.answers.push_back(Ok(Posted::Pending));
    let read = Header {
        kind: Kind::Read,
        id: 9,
        ..msg(3)
    };
    b.arrive_at(read, target(0, 3), b"");
    let token = b.frame().token;
    assert!(b.engine.uses_region(KEY));
    b.tell(move |sink| sink.sent(token, Ok(())));
    assert!(!b.engine.uses_region(KEY));
    b.done();
    b.assert_empty();
}

#[test]
fn a_short_write_that_the_link_does_not_take_waits_its_turn() {
    let mut b = Bench::new();
    b.link.answers.push_back(Err(PostError::Again));
    b.rma(op(Flags::WRITE, &memory(b"abc"), 1)).expect("room");
    b.rma(op(Flags::WRITE, &memory(b"def"), 2)).expect("room");
    let injected = Flags::WRITE | Flags::INJECT;
    let again = b.rma(op(injected, &memory(b"ghi"), 3));
    assert_eq!(again, Err(Errno::AGAIN), "it would not leave with its call");
    assert!(b.link.posted.is_empty());
    b.tell(|sink| sink.writable(PEER));
    let bodies: Vec<_> = (0..2).map(|_| b.frame().body).collect();
    assert_eq!(bodies, [b"abc".to_vec(), b"def".to_vec()]);
    assert_eq!((b.done().context, b.done().context), (1, 2));
    b.assert_empty();
}

#[test]
fn a_short_write_completes_with_its_acknowledgement_if_it_asks_for_one() {
    let mut b = Bench::new();
    let flags = Flags::WRITE | Flags::DELIVERY_COMPLETE;
    b.rma(op(flags, &memory(b"abc"), 1)).expect("room");
    let id = b.frame().header.id;
    assert_eq!((b.event(), b.engine.pending_tx()), (None, 1));
    b.arrive(PEER, answer(Kind::Ack, id), b"");
    assert_eq!(b.done().context, 1);
    let mut peer = Bench::new();
    peer.register(KEY, &memory(&[0; 8]));
    let wanted = Header {
        flags: HeaderFlags::DELIVERY,
        ..write_header(3)
    };
    peer.arrive_at(wanted, target(0, 3), b"abc");
    let ack = peer.frame().header;
    assert_eq!((ack.kind, ack.id), (Kind::Ack, 6));
    peer.done();
    peer.assert_empty();
    b.assert_empty();
}

#[test]
fn a_peer_that_tries_keys_is_told_sixteen_times_and_then_dropped() {
    let mut b = Bench::new();
    b.register(KEY, &memory(b"0123456789"));
    let wrong = Target {
        key: KEY + 1,
        ..target(0, 3)
    };
    let write = Header {
        flags: HeaderFlags::DELIVERY,
        ..write_header(3)
    };
    let read = Header {
        kind: Kind::Read,
        ..write_header(3)
    };
    for tried in [write, read].into_iter().cycle().take(16) {
        let body: &[u8] = if tried.kind == Kind::Read {
            b""
        } else {
            b"abc"
        };
        assert!(b.arrive_at(tried, wrong, body).is_done());
        let fin = b.frame().header;
        assert_eq!((fin.kind, fin.data), (Kind::Fin, Errno::NOKEY.raw() as u64));
        // The right key is not forgotten over them.
        assert!(b.arrive_at(write, target(0, 3), b"xyz").is_done());
        b.frame();
        b.done();
    }
    assert!(b.arrive_at(write, wrong, b"abc").is_refusal());
    b.tell(|sink| sink.peer_down(PEER, Errno::PROTO));
    assert!(b.arrive_at(write, wrong, b"abc").is_done());
}

/// Returns a request for one byte, which the peer calls by this number.
fn read_header(id: u32) -> Header {
    Header {
        kind: Kind::Read,
        id,
        ..msg(1)
    }
}

#[test]
fn what_peers_read_takes_no_place_of_what_the_application_sends() {
    let mut b = Bench::new();
    b.register(KEY, &memory(&[7; 30]));
    b.link.answers = (0..100).map(|_| Ok(Posted::Pending)).collect();
    for id in 0..50 {
        assert!(b.arrive_at(read_header(id), target(3, 1), b"").is_done());
    }
    b.poll();
    let tokens: Vec<_> = b.link.posted.iter().map(|sent| sent.token).collect();
    assert_eq!(tokens.len(), 50, "the link has all responses");
    assert_eq!(b.engine.pending_tx(), 0);
    for context in 0..4 {
        let mine = memory(&[1]);
        b.send(tx(&mine, context)).expect("room for four sends");
    }
    assert_eq!(b.send(tx(&memory(&[1]), 9)), Err(Errno::AGAIN));
    b.tell(move |sink| tokens.iter().for_each(|token| sink.sent(*token, Ok(()))));
    assert!(!b.engine.idle(), "the four are with the link");
    assert_eq!(b.engine.pending_tx(), 4);
}

#[test]
fn requests_of_a_peer_that_takes_no_responses_wait_and_are_answered_later() {
    const ANSWERED: u32 = 1 << 16;
    let mut b = Bench::new();
    b.register(KEY, &memory(&[7; 30]));
    let mut taken = 0;
    loop {
        b.link.answers = (0..64).map(|_| Ok(Posted::Pending)).collect();
        match b.arrive_at(read_header(taken), target(3, 1), b"") {
            answer if answer.is_stall() => break,
            answer => assert!(answer.is_done()),
        }
        taken += 1;
    }
    assert_eq!(taken, ANSWERED);
    b.link.resumed.clear();
    let first = b.link.posted.pop_front().expect("a response");
    b.tell(move |sink| sink.sent(first.token, Ok(())));
    assert_eq!(b.link.resumed, [PEER]);
    assert!(b.arrive_at(read_header(taken), target(3, 1), b"").is_done());
    b.tell(|sink| sink.peer_down(PEER, Errno::IO));
    assert!(b.engine.idle());
    b.send(tx(&memory(&[1]), 1)).expect("room");
}

#[test]
fn a_long_access_that_the_link_carries_out_is_over_at_once() {
    let mut b = Bench::new();
    b.link.carried_out = Some(Vec::new());
    let long = memory(&[1; 9]);
    for (context, flags) in [(1, Flags::READ), (2, Flags::WRITE)] {
        b.rma(op(flags | Flags::DELIVERY_COMPLETE, &long, context))
            .expect("room");
        let done = b.done();
        assert_eq!((done.context, done.len), (context, 9));
        assert!(done.flags.contains(Flags::RMA | flags));
    }
    assert!(b.link.posted.is_empty() && b.engine.idle());
    assert_eq!(b.link.carried_out, Some(vec![1, 2]));
}

#[test]
fn the_link_is_not_asked_to_carry_out_what_the_peer_is_to_notice_or_what_has_to_wait() {
    let (long, short) = (memory(&[1; 9]), memory(&[1; 8]));
    for (flags, body) in [
        (Flags::WRITE | Flags::REMOTE_CQ_DATA, &long),
        (Flags::WRITE | Flags::FENCE, &long),
        (Flags::WRITE, &short),
        (Flags::READ | Flags::FENCE, &long),
    ] {
        let mut b = Bench::new();
        b.link.carried_out = Some(Vec::new());
        b.rma(op(flags, body, 1)).expect("room");
        b.frame();
        assert_eq!(b.link.carried_out, Some(vec![]));
    }
    // The next one waits behind a frame that the link did not take.
    let mut b = Bench::new();
    b.link.carried_out = Some(Vec::new());
    b.link.answers.push_back(Err(PostError::Again));
    b.rma(op(Flags::WRITE, &short, 2)).expect("room");
    b.rma(op(Flags::WRITE, &long, 3)).expect("room");
    assert_eq!(b.link.carried_out, Some(vec![]));
}

#[test]
fn the_link_is_asked_again_to_carry_out_an_access_that_waited() {
    let (long, short) = (memory(&[1; 9]), memory(&[1; 8]));
    let mut b = Bench::new();
    b.link.carried_out = Some(Vec::new());
    b.link.answers.push_back(Err(PostError::Again));
    b.rma(op(Flags::WRITE, &short, 1)).expect("room");
    let noticed = Flags::WRITE | Flags::REMOTE_CQ_DATA;
    for (flags, context) in [(Flags::WRITE, 2), (noticed, 3), (Flags::READ, 4)] {
        b.rma(op(flags, &long, context)).expect("room");
    }
    b.tell(|sink| sink.writable(PEER));
    assert_eq!(b.link.carried_out, Some(vec![2, 4]));
    assert_eq!((b.frame().header.kind, b.done().context), (Kind::Write, 1));
    let noticed = b.frame().header;
    assert!(noticed.flags.contains(HeaderFlags::DATA));
    let done = [b.done(), b.done(), b.done()];
    assert_eq!(done.map(|done| done.context), [2, 3, 4]);
}

#[test]
fn a_write_that_the_link_might_carry_out_is_one_frame_up_to_a_length_of_its_own() {
    let body = memory(&[1; 8]);
    for was_blocked in [false, true] {
        let mut b = Bench::new();
        b.link.eager_write = Some(4);
        let mut post = |flags, context| {
            b.link.carried_out = Some(Vec::new());
            if was_blocked {
                b.link.answers.push_back(Err(PostError::Again));
                b.rma(op(Flags::WRITE, &memory(&[1; 4]), 0)).expect("room");
            }
            b.rma(op(flags, &body, context)).expect("room");
            b.tell(|sink| sink.writable(PEER));
            if was_blocked {
                b.frame();
                b.done();
            }
            b.done();
            (
                b.link.carried_out.take(),
                b.link.posted.pop_front().is_some(),
            )
        };
        assert_eq!(post(Flags::WRITE, 1), (Some(vec![1]), false));
        let noticed = Flags::WRITE | Flags::REMOTE_CQ_DATA;
        assert_eq!(post(noticed, 2), (Some(vec![]), true));
    }
}

#[test]
fn an_access_that_waited_is_not_carried_out_if_many_of_its_length_would_take_long() {
    let mut b = Bench::new();
    b.link.carried_out = Some(Vec::new());
    b.link.answers.push_back(Err(PostError::Again));
    b.rma(op(Flags::WRITE, &memory(&[1; 8]), 1)).expect("room");
    for len in [256 << 10, (256 << 10) + 1] {
        b.rma(op(Flags::WRITE, &memory(&vec![1; len]), len))
            .expect("room");
    }
    b.tell(|sink| sink.writable(PEER));
    assert_eq!(b.link.carried_out, Some(vec![256 << 10]));
}
