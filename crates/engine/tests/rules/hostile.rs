//! What a hostile peer may send: everything. It is refused, or does no harm.

use std::cell::Cell;
use std::rc::Rc;

use oxifabric_engine::{
    Body, Header, HeaderFlags, Kind, Placement, RemoteIov, RxToken, Sink, Target, TxToken,
};
use oxifabric_types::{Errno, PeerId};
use proptest::prelude::*;

use crate::script::*;

#[test]
fn bodies_longer_than_the_message_are_refused() {
    let mut b = Bench::new();
    b.recv(rx(&memory(&[0; 8]), 1)).expect("room");
    assert!(b.arrive(PEER, msg(2), b"abc").is_refusal());
    assert!(b.arrive_stream(PEER, msg(2), 3).is_refusal());
    assert_eq!((b.event(), b.engine.pending_rx()), (None, 1));
}

#[test]
fn lengths_beyond_any_memory_are_refused() {
    let mut b = Bench::new();
    let endless = Header {
        len: u64::MAX,
        ..msg(0)
    };
    assert!(b.arrive(PEER, endless, b"a").is_refusal());
    let announced = Header {
        kind: Kind::TaggedRts,
        ..endless
    };
    assert!(b.arrive_stream(PEER, announced, 0).is_refusal());
}

#[test]
fn segments_must_continue_a_message() {
    let mut b = Bench::new();
    b.recv(rx(&memory(&[0; 30]), 1)).expect("room");
    assert!(b.arrive(PEER, segment(30, 5, 0), b"abc").is_refusal());
    let first = Header { id: 5, ..msg(30) };
    assert!(b.arrive(PEER, first, b"abc").is_done());
    assert!(
        b.arrive(PEER, first, b"abc").is_refusal(),
        "the id is taken"
    );
    assert!(b.arrive(OTHER, segment(30, 5, 3), b"abc").is_refusal());
    assert!(b.arrive(PEER, segment(30, 5, 4), b"abc").is_refusal());
    assert!(b.arrive(PEER, segment(30, 5, 3), b"").is_refusal());
    assert!(b.arrive(PEER, segment(30, 5, 3), &[0; 28]).is_refusal());
    assert!(b.arrive(PEER, segment(30, 5, 3), &[0; 27]).is_done());
    assert_eq!(b.done().len, 30);
}

#[test]
fn data_of_an_rts_must_be_asked_for() {
    let mut b = Bench::new();
    b.arrive_stream(PEER, rts(30, 5), 0);
    assert!(b.arrive(PEER, segment(30, 5, 0), b"abc").is_refusal());
}

#[test]
fn an_id_has_one_message_whose_data_was_asked_for() {
    let mut b = Bench::new();
    for _ in 0..2 {
        assert!(b.arrive_stream(PEER, rts(30, 5), 0).is_done());
    }
    let buffers = [memory(&[0; 30]), memory(&[0; 30])];
    b.recv(rx(&buffers[0], 1)).expect("room");
    assert_eq!(b.frame().header.kind, Kind::Cts);
    assert!(b.arrive_stream(PEER, rts(30, 5), 0).is_refusal());
    b.recv(rx(&buffers[1], 2)).expect("room");
    assert_eq!(b.failed().errno, Errno::PROTO, "the second one ends alone");
    assert!(b.arrive(PEER, segment(30, 5, 0), &[7; 30]).is_done());
    assert_eq!(b.done().len, 30);
}

#[test]
fn offers_must_be_honest() {
    let mut b = Bench::new();
    assert!(b.arrive(PEER, rts(30, 1), b"abc").is_refusal());
    assert!(b.arrive_stream(PEER, rts(30, 1), 3).is_refusal());
    assert!(b.arrive_remote(PEER, rts(30, 1), 29).is_refusal());
    assert!(b.arrive_stream(PEER, rts(0, 1), 0).is_refusal());
    assert!(b.arrive_remote(PEER, msg(30), 30).is_refusal());
}

#[test]
fn answers_must_fit_the_question() {
    let mut b = Bench::new();
    assert!(b.arrive(PEER, answer(Kind::Cts, 0), b"").is_refusal());
    b.send(tx(&memory(&[0; 30]), 1)).expect("room");
    let id = b.frame().header.id;
    assert!(b.arrive(OTHER, answer(Kind::Cts, id), b"").is_refusal());
    assert!(b.arrive(PEER, answer(Kind::Cts, id), b"x").is_refusal());
    assert!(b.arrive(PEER, answer(Kind::Ack, id), b"").is_refusal());
    assert!(b.arrive(OTHER, answer(Kind::Fin, id), b"").is_done());
    assert_eq!(b.event(), None);
    let odd = Header {
        data: u64::MAX,
        ..answer(Kind::Fin, id)
    };
    b.arrive(PEER, odd, b"");
    assert_eq!(b.failed().errno, Errno::IO);
}

/// `MAX_REPLIES` of the engine, which docs/threats.md documents.
const MAX_REPLIES: usize = 16_384;

#[test]
fn answers_that_are_never_read_do_not_pile_up() {
    let mut b = Bench::new();
    let again = Err(oxifabric_engine::PostError::Again);
    b.link.answers.push_back(again);
    let delivery = Header {
        flags: HeaderFlags::DELIVERY,
        ..msg(0)
    };
    let mut answered = 0;
    loop {
        b.recv(rx(&memory(&[]), 1)).expect("room");
        if b.arrive(PEER, delivery, b"").is_stall() {
            break;
        }
        b.done();
        answered += 1;
        assert!(answered <= MAX_REPLIES, "they pile up");
    }
    assert_eq!(answered, MAX_REPLIES);
    b.tell(|sink| sink.writable(PEER));
    assert_eq!(b.link.posted.len(), answered);
    assert_eq!(b.link.resumed, [PEER]);
}

/// Anything that a link might report.
#[derive(Clone, Debug)]
enum Report {
    Arrival(u32, Header, Shape),
    Placed(u32, bool),
    Sent(u32, bool),
    Pulled(u32, bool),
    Writable(u32),
    Down(u32),
}

#[derive(Clone, Debug)]
enum Shape {
    Whole(Vec<u8>),
    Stream(usize),
    Remote(u64),
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..40u64,
        Just(u64::MAX),
        Just(i64::MAX as u64),
        any::<u64>()
    ]
}

fn header() -> impl Strategy<Value = Header> {
    let kinds = prop_oneof![
        Just(Kind::Msg),
        Just(Kind::Tagged),
        Just(Kind::MsgRts),
        Just(Kind::TaggedRts),
        Just(Kind::Cts),
        Just(Kind::Segment),
        Just(Kind::Ack),
        Just(Kind::Fin),
    ];
    let lens = prop_oneof![4 => 0..40u64, 1 => number()];
    (kinds, 0..8u8, 0..6u32, 0..30u64, number(), lens).prop_map(
        |(kind, flags, id, tag, data, len)| Header {
            kind,
            flags: HeaderFlags::from_bits_truncate(flags),
            id,
            tag,
            data,
            len,
        },
    )
}

fn shape() -> impl Strategy<Value = Shape> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40).prop_map(Shape::Whole),
        (0..40usize).prop_map(Shape::Stream),
        number().prop_map(Shape::Remote),
    ]
}

fn report() -> impl Strategy<Value = Report> {
    let token = prop_oneof![0..6u32, any::<u32>()];
    prop_oneof![
        10 => (0..4u32, header(), shape()).prop_map(|(f, h, s)| Report::Arrival(f, h, s)),
        1 => (token.clone(), any::<bool>()).prop_map(|(t, ok)| Report::Placed(t, ok)),
        1 => (token.clone(), any::<bool>()).prop_map(|(t, ok)| Report::Sent(t, ok)),
        1 => (token, any::<bool>()).prop_map(|(t, ok)| Report::Pulled(t, ok)),
        1 => (0..4u32).prop_map(Report::Writable),
        1 => (0..4u32).prop_map(Report::Down),
    ]
}

fn make(report: &Report, sink: &mut dyn Sink) {
    let outcome = |ok: bool| if ok { Ok(()) } else { Err(Errno::IO) };
    match report {
        Report::Arrival(from, header, shape) => {
            let body = match shape {
                Shape::Whole(bytes) => Body::Whole(bytes),
                Shape::Stream(len) => Body::Stream(*len),
                Shape::Remote(len) => {
                    let pieces = [Target::unkeyed(0, *len), Target::unkeyed(0, 1)];
                    Body::Remote(RemoteIov::new(&pieces).expect("two pieces are allowed"))
                }
            };
            sink.arrival(PeerId(*from), header, body);
        }
        Report::Placed(token, ok) => sink.placed(RxToken(*token), outcome(*ok)),
        Report::Sent(token, ok) => sink.sent(TxToken(*token), outcome(*ok)),
        Report::Pulled(token, ok) => sink.pulled(RxToken(*token), outcome(*ok)),
        Report::Writable(peer) => sink.writable(PeerId(*peer)),
        Report::Down(peer) => sink.peer_down(PeerId(*peer), Errno::IO),
    }
}

proptest! {
    /// Whatever is reported, the engine does not panic, and an endpoint that closes leaves nothing.
    #[test]
    fn anything_may_arrive(reports in prop::collection::vec(report(), 0..80), pull: bool) {
        let mut b = Bench::with(|limits| limits.pull = pull, |config| {
            config.unexpected_bytes = 4000;
            config.tx_size = 64;
        });
        for (i, report) in reports.into_iter().enumerate() {
            match i % 4 {
                0 => b.recv(rx(&memory(&[0; 20]), i)).expect("room"),
                1 => b.recv(tagged_rx(&memory(&[0; 20]), i as u64 % 5, i)).expect("room"),
                2 => b.send(tx(&memory(&vec![0; i]), i)).expect("room"),
                _ => {}
            }
            b.tell(move |sink| make(&report, sink));
        }
        b.abandon();
        while b.event().is_some() {}
        b.assert_empty();
    }
}

/// Begins writes of a peer whose data never comes; returns how many are taken.
fn begin_writes(b: &mut Bench, from: PeerId, count: usize) -> usize {
    let taken = Rc::new(Cell::new(0));
    let counted = Rc::clone(&taken);
    b.tell(move |sink| {
        let header = Header {
            kind: Kind::Write,
            ..msg(2)
        };
        let target = Target {
            addr: 0,
            len: 2,
            key: 1,
        };
        let takes = |_: &usize| {
            let placement = sink.access(from, &header, &[target], Body::Stream(2));
            matches!(placement, Placement::Into(..))
        };
        counted.set((0..count).take_while(takes).count());
    });
    taken.get()
}

#[test]
fn writes_that_never_end_are_bounded_in_all_and_each_peer_may_begin_some() {
    // As `LANDING_OF_PEER`, `LANDING_IN_ALL` and `LANDING_ALWAYS` of the engine.
    const OF_PEER: usize = 1 << 16;
    const IN_ALL: usize = 1 << 19;
    const ALWAYS: usize = 64;
    let mut b = Bench::new();
    b.register(1, &memory(&[0; 2]));
    for peer in 0..(IN_ALL / OF_PEER) as u32 {
        let taken = begin_writes(&mut b, PeerId(100 + peer), OF_PEER + 1);
        assert_eq!(taken, OF_PEER);
    }
    assert_eq!(begin_writes(&mut b, PEER, ALWAYS + 1), ALWAYS);
    assert_eq!(begin_writes(&mut b, OTHER, ALWAYS + 1), ALWAYS);
}
