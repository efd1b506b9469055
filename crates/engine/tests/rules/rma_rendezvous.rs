//! Long reads and writes of peers' memory, answers that do not belong to any, and accesses of an endpoint to itself.

use oxifabric_engine::{Header, HeaderFlags, Kind, RmaOp, Target};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Flags, PeerId};

use crate::script::*;

const KEY: u64 = 0xfeed;

const fn target(addr: u64, len: u64) -> Target {
    Target {
        addr,
        len,
        key: KEY,
    }
}

fn op(peer: PeerId, flags: Flags, body: &Iov) -> RmaOp<'static> {
    RmaOp {
        peer,
        targets: lasting(target(2, body.len() as u64)),
        body: body.clone(),
        data: 9,
        flags: Flags::RMA | Flags::COMPLETION | flags,
        context: 1,
    }
}

fn pulling() -> Bench {
    Bench::with(|limits| limits.pull = true, |_| {})
}

fn write_rts(flags: HeaderFlags) -> Header {
    Header {
        kind: Kind::WriteRts,
        flags,
        id: 6,
        ..msg(26)
    }
}

fn response(kind: Kind, read: u32, len: usize) -> Header {
    Header {
        kind,
        id: 4,
        tag: u64::from(read),
        ..msg(len)
    }
}

/// Starts a read of `len` bytes; returns its id and where they go.
fn start_read(b: &mut Bench, len: usize) -> (u32, Iov) {
    let body = memory(&vec![0; len]);
    b.rma(op(PEER, Flags::READ, &body)).expect("room");
    (b.frame().header.id, body)
}

#[test]
fn an_announced_write_is_pulled_into_the_region() {
    let mut b = pulling();
    let region = memory(&[0; 40]);
    b.register(KEY, &region);
    let header = write_rts(HeaderFlags::DATA);
    assert!(b.arrive_at_remote(header, target(3, 26)).is_done());
    let (into, token) = b.link.pulls.pop_front().expect("a pull");
    assert_eq!((into.base() as usize, into.len()), (region.address(3), 26));
    assert_eq!(b.event(), None);
    b.tell(move |sink| sink.pulled(token, Ok(())));
    let fin = b.frame().header;
    assert_eq!((fin.kind, fin.id, fin.data), (Kind::Fin, 6, 0));
    let done = b.done();
    assert_eq!((done.len, done.wanted), (26, true));
    assert_eq!(done.context as u64, KEY);
    b.assert_empty();
}

#[test]
fn an_announced_write_is_asked_for_where_it_cannot_be_pulled() {
    for (flags, acks) in [(HeaderFlags::DELIVERY, 1), (HeaderFlags::MATCH, 0)] {
        let mut b = Bench::new();
        let region = memory(&[0; 40]);
        b.register(KEY, &region);
        let header = write_rts(flags);
        assert!(b.arrive_at(header, target(3, 26), b"").is_done());
        let cts = b.frame().header;
        assert_eq!((cts.kind, cts.id, cts.len), (Kind::Cts, 6, 26));
        assert!(b.arrive(PEER, segment(26, 6, 0), &[3; 20]).is_done());
        assert_eq!(b.event(), None);
        assert!(b.arrive(PEER, segment(26, 6, 20), &[4; 6]).is_done());
        assert_eq!(b.done().flags, Flags::RMA | Flags::REMOTE_WRITE);
        assert_eq!(content(&region)[22..24], [3, 4]);
        let sent: Vec<_> = b.link.posted.iter().map(|sent| sent.header.kind).collect();
        assert_eq!(sent, vec![Kind::Ack; acks]);
        b.assert_empty();
    }
}

#[test]
fn an_announced_write_that_is_not_allowed_fails_by_name() {
    for can_pull in [false, true] {
        let mut b = Bench::with(|limits| limits.pull = can_pull, |_| {});
        let header = write_rts(HeaderFlags::empty());
        let answer = match can_pull {
            true => b.arrive_at_remote(header, target(0, 26)),
            false => b.arrive_at(header, target(0, 26), b""),
        };
        assert!(answer.is_done());
        let fin = b.frame().header;
        assert_eq!((fin.kind, fin.id), (Kind::Fin, 6));
        assert_eq!(fin.data, Errno::NOKEY.raw() as u64);
        b.assert_empty();
    }
}

#[test]
fn a_write_in_parts_that_is_not_allowed_drops_the_connection() {
    let mut b = Bench::new();
    let header = Header {
        kind: Kind::Write,
        flags: HeaderFlags::DELIVERY,
        ..msg(12)
    };
    assert!(b.arrive_at(header, target(0, 12), b"abc").is_refusal());
    b.assert_empty();
}

#[test]
fn a_target_is_as_long_as_what_is_written_or_read() {
    let mut b = Bench::new();
    b.register(KEY, &memory(&[0; 40]));
    for kind in [Kind::Write, Kind::WriteRts, Kind::Read] {
        let header = Header { kind, ..msg(3) };
        assert!(b.arrive_at(header, target(0, 4), b"").is_refusal());
        assert!(b.arrive(PEER, header, b"").is_refusal());
    }
    b.assert_empty();
}

#[test]
fn a_response_may_come_in_parts() {
    let mut b = Bench::new();
    let (id, body) = start_read(&mut b, 12);
    let first = response(Kind::Response, id, 12);
    assert!(b.arrive(PEER, first, &[1; 8]).is_done());
    assert_eq!((b.event(), b.engine.pending_tx()), (None, 0));
    assert!(b.arrive(PEER, segment(12, 4, 8), &[2; 4]).is_done());
    let done = b.done();
    assert_eq!((done.len, done.flags), (12, Flags::RMA | Flags::READ));
    assert_eq!(content(&body)[7..9], [1, 2]);
    assert!(b.arrive(PEER, first, &[1; 8]).is_refusal());
    b.assert_empty();
}

#[test]
fn a_response_may_stay_where_it_is_until_it_is_pulled() {
    let mut b = pulling();
    let (id, body) = start_read(&mut b, 30);
    let header = response(Kind::ResponseRts, id, 30);
    assert!(b.arrive_remote(PEER, header, 30).is_done());
    let (into, token) = b.link.pulls.pop_front().expect("a pull");
    assert_eq!((into.base(), into.len()), (body.base(), 30));
    b.tell(move |sink| sink.pulled(token, Ok(())));
    assert_eq!(b.frame().header.kind, Kind::Fin);
    assert_eq!(b.done().len, 30);
    b.assert_empty();
}

#[test]
fn a_long_response_is_announced_and_sent_when_asked_for() {
    let mut b = Bench::new();
    b.register(KEY, &memory(b"abcdefghijklmnopqrstuvwxyz"));
    let read = Header {
        kind: Kind::Read,
        id: 9,
        ..msg(24)
    };
    assert!(b.arrive_at(read, target(2, 24), b"").is_done());
    let header = b.frame().header;
    assert_eq!((header.kind, header.tag), (Kind::ResponseRts, 9));
    assert!(
        b.arrive(OTHER, answer(Kind::Cts, header.id), b"")
            .is_refusal()
    );
    assert_eq!(b.event(), None);
    assert!(b.arrive(PEER, answer(Kind::Cts, header.id), b"").is_done());
    let got: Vec<u8> = b.link.posted.drain(..).flat_map(|sent| sent.body).collect();
    assert_eq!(got, b"cdefghijklmnopqrstuvwxyz");
    let done = b.done();
    assert_eq!(done.flags, Flags::RMA | Flags::REMOTE_READ);
    assert_eq!(done.context as u64, KEY);
    b.assert_empty();
}

#[test]
fn only_a_response_completes_a_read() {
    let mut b = Bench::new();
    let (id, _) = start_read(&mut b, 3);
    for kind in [Kind::Ack, Kind::Fin, Kind::Cts] {
        assert!(b.arrive(PEER, answer(kind, id), b"").is_refusal());
        b.arrive(OTHER, answer(kind, id), b"");
        b.arrive(PEER, answer(kind, id ^ 1), b"");
    }
    let refusal = Header {
        data: Errno::ACCES.raw() as u64,
        ..answer(Kind::Fin, id)
    };
    b.arrive(OTHER, refusal, b"");
    for wrong in [id ^ 1, id ^ (1 << 31), u32::MAX] {
        let header = response(Kind::Response, wrong, 3);
        assert!(b.arrive(PEER, header, b"abc").is_refusal());
    }
    let wide = Header {
        tag: u64::from(id) | 1 << 32,
        ..response(Kind::Response, id, 3)
    };
    assert!(b.arrive(PEER, wide, b"abc").is_refusal());
    assert_eq!((b.event(), b.engine.pending_tx()), (None, 1));
    let header = response(Kind::Response, id, 3);
    assert!(b.arrive(PEER, header, b"abc").is_done());
    assert_eq!(b.done().context, 1);
    b.assert_empty();
}

#[test]
fn a_write_is_not_completed_by_a_response() {
    let mut b = Bench::new();
    let body = memory(b"abc");
    b.rma(op(PEER, Flags::WRITE | Flags::DELIVERY_COMPLETE, &body))
        .expect("room");
    let id = b.frame().header.id;
    let header = response(Kind::Response, id, 3);
    assert!(b.arrive(PEER, header, b"xyz").is_refusal());
    assert_eq!((b.event(), content(&body)), (None, b"abc".to_vec()));
    b.arrive(PEER, answer(Kind::Ack, id), b"");
    assert_eq!(b.done().flags, Flags::RMA | Flags::WRITE);
    b.assert_empty();
}

#[test]
fn a_lost_peer_fails_reads_and_forgets_responses() {
    let mut b = Bench::new();
    b.register(KEY, &memory(&[0; 40]));
    start_read(&mut b, 3);
    let read = Header {
        kind: Kind::Read,
        ..msg(30)
    };
    assert!(b.arrive_at(read, target(0, 30), b"").is_done());
    b.tell(|sink| sink.peer_down(PEER, Errno::CONNRESET));
    b.tell(|sink| sink.peer_down(PEER, Errno::CONNRESET));
    assert_eq!(b.failed().op.context, 1);
    b.assert_empty();
}

#[test]
fn an_endpoint_reaches_its_own_memory_without_the_link() {
    let mut b = Bench::new();
    let region = memory(b"abcdefgh");
    b.register(KEY, &region);
    let body = memory(b"XY");
    let flags = Flags::WRITE | Flags::REMOTE_CQ_DATA;
    b.rma(op(ME, flags, &body)).expect("room");
    assert_eq!(b.done().flags, Flags::RMA | Flags::WRITE);
    let heard = b.done();
    assert_eq!((heard.wanted, heard.data, heard.from), (true, 9, ME));
    assert_eq!(content(&region), b"abXYefgh");
    let into = memory(&[0; 3]);
    b.rma(op(ME, Flags::READ, &into)).expect("room");
    assert_eq!(b.done().flags, Flags::RMA | Flags::READ);
    assert_eq!(b.done().flags, Flags::RMA | Flags::REMOTE_READ);
    assert_eq!(content(&into), b"XYe");
    let unknown = RmaOp {
        targets: lasting(Target {
            key: 1,
            ..target(0, 3)
        }),
        ..op(ME, Flags::READ, &into)
    };
    b.rma(unknown).expect("room");
    assert_eq!(b.failed().errno, Errno::NOKEY);
    assert!(b.link.posted.is_empty());
    b.assert_empty();
}
