//! The byte budget for unexpected messages.

use oxifabric_engine::{Config, Header, Kind, RxOp, TxOp};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Flags, PeerId};

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
fn what_a_link_keeps_of_an_announced_message_counts() {
    let mut b = tight();
    assert!(b.announce_in_part(rts(LONG, 1), 300).is_done());
    assert_eq!(b.engine.unexpected_bytes(), 556);
    assert!(b.announce_in_part(rts(LONG, 2), 300).is_done());
    assert!(b.announce_in_part(rts(LONG, 3), 300).is_stall());
    let not_announced = tagged(300, 1);
    assert!(b.announce_in_part(not_announced, 0).is_refusal());
    b.recv(rx(&memory(&[0; 8]), 1)).expect("room");
    assert_eq!(b.engine.unexpected_bytes(), 556, "the link is asked for it");
    b.tell(|sink| sink.peer_down(PEER, Errno::IO));
    assert_eq!(b.failed().errno, Errno::IO);
    b.assert_empty();
}

/// Longer than what is reserved on a peer's word.
const LONG: usize = 3 << 30;

#[test]
fn a_length_that_a_peer_announces_reserves_no_memory() {
    let mut b = tight();
    assert!(b.arrive_stream(PEER, tagged(LONG, 1), LONG).is_stall());
    let part = Header {
        id: 5,
        ..tagged(LONG, 1)
    };
    assert!(b.arrive(OTHER, part, &[0; 30]).is_stall());
    assert!(b.engine.unexpected_bytes() < 1000);
    assert_eq!(b.engine.unexpected(), 2);
    for peer in [PEER, OTHER] {
        b.tell(move |sink| sink.peer_down(peer, Errno::IO));
    }
    b.assert_empty();
}

#[test]
fn a_long_message_is_seen_before_its_body_comes() {
    let mut b = tight();
    assert!(b.arrive_stream(PEER, tagged(LONG, 7), LONG).is_stall());
    assert!(b.arrive_stream(PEER, tagged(LONG, 7), LONG).is_stall());
    let look = |flags, context| RxOp {
        flags: Flags::TAGGED | Flags::PEEK | flags,
        ..tagged_rx(&Iov::empty(), 7, context)
    };
    b.recv(look(Flags::CLAIM, 1)).expect("room");
    assert_eq!(b.done().len, LONG as u64);
    assert!(b.arrive_stream(PEER, tagged(LONG, 7), LONG).is_stall());
    b.link.resumed.clear();
    let claim = RxOp {
        flags: Flags::TAGGED | Flags::CLAIM | Flags::COMPLETION,
        ..tagged_rx(&memory(&[0; 8]), 7, 1)
    };
    b.recv(claim).expect("room");
    assert_eq!(b.link.resumed, [PEER]);
    let (into, token) = b.arrive_stream(PEER, tagged(LONG, 7), LONG).into_parts();
    assert_eq!(into.len(), 8);
    b.tell(move |sink| sink.placed(token, Ok(())));
    assert_eq!(b.failed().errno, Errno::TRUNC);
    assert!(
        b.arrive(PEER, tagged(1, 8), b"x").is_done(),
        "others follow"
    );
    b.recv(tagged_rx(&memory(&[0; 8]), 8, 2)).expect("room");
    b.done();
    b.assert_empty();
}

#[test]
fn a_long_message_in_parts_is_received_or_dropped_from_its_first_part_on() {
    for dropped in [false, true] {
        let mut b = tight();
        let part = Header {
            id: 5,
            ..tagged(LONG, 7)
        };
        assert!(b.arrive(PEER, part, &[1; 30]).is_stall());
        if dropped {
            b.recv(RxOp {
                flags: Flags::TAGGED | Flags::PEEK | Flags::DISCARD,
                ..tagged_rx(&Iov::empty(), 7, 1)
            })
            .expect("room");
            b.done();
        } else {
            b.recv(tagged_rx(&memory(&[0; 40]), 7, 1)).expect("room");
        }
        assert_eq!(b.link.resumed, [PEER]);
        let other = Header { tag: 6, ..part };
        assert!(b.arrive(PEER, other, &[1; 30]).is_refusal());
        assert!(b.arrive(PEER, part, &[1; 30]).is_done());
        assert!(b.arrive(PEER, segment(LONG, 5, 30), &[2; 30]).is_done());
        b.tell(|sink| sink.peer_down(PEER, Errno::IO));
        if !dropped {
            assert_eq!(b.failed().errno, Errno::IO);
        }
        b.assert_empty();
    }
}

/// Links that number messages as they come do so anew when they deliver one again.
#[test]
fn a_long_message_has_the_id_with_which_it_comes_again() {
    let mut b = tight();
    let part = |id| Header {
        id,
        ..tagged(LONG, 7)
    };
    assert!(b.arrive(PEER, part(5), &[1; 30]).is_stall());
    assert!(b.arrive(PEER, part(6), &[1; 30]).is_stall());
    b.recv(tagged_rx(&memory(&[0; 40]), 7, 1)).expect("room");
    assert!(b.arrive(PEER, part(8), &[1; 30]).is_done());
    assert!(b.arrive(PEER, segment(LONG, 5, 30), &[2; 30]).is_refusal());
    assert!(b.arrive(PEER, segment(LONG, 8, 30), &[2; 30]).is_done());
    b.tell(|sink| sink.peer_down(PEER, Errno::IO));
    assert_eq!(b.failed().errno, Errno::IO);
    b.assert_empty();
}

#[test]
fn a_long_message_is_kept_when_the_budget_has_room_again() {
    const LEN: usize = 2 << 20;
    let mut b = Bench::with(|_| {}, |config| config.unexpected_bytes = LEN + 1000);
    assert!(b.arrive(OTHER, tagged(500, 1), &[0; 500]).is_done());
    assert!(b.arrive_stream(PEER, tagged(LEN, 7), LEN).is_stall());
    b.recv(tagged_rx(&memory(&[0; 500]), 1, 1)).expect("room");
    b.done();
    assert_eq!(b.link.resumed, [PEER]);
    let (into, token) = b.arrive_stream(PEER, tagged(LEN, 7), LEN).into_parts();
    assert_eq!(into.len(), LEN);
    b.tell(move |sink| sink.placed(token, Ok(())));
    b.recv(tagged_rx(&memory(&[0; 9]), 7, 2)).expect("room");
    assert_eq!(b.failed().errno, Errno::TRUNC);
    b.assert_empty();
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

/// Room for about two messages of 300 bytes, and for 8,000 bytes in all.
fn with_ceiling() -> Bench {
    let bounds = |config: &mut Config| {
        config.unexpected_bytes = 1200;
        config.unexpected_ceiling = 8000;
    };
    Bench::with(|_| {}, bounds)
}

/// Lets messages of a peer arrive that no receive takes, until it has to wait; returns what is held then.
fn flood(b: &mut Bench, from: PeerId) -> usize {
    let stalls = (0..1000).any(|_| b.arrive(from, tagged(300, 1), &[0; 300]).is_stall());
    assert!(stalls, "there is a ceiling");
    b.engine.unexpected_bytes()
}

#[test]
fn a_posted_receive_lifts_the_budget_up_to_a_ceiling() {
    let mut b = with_ceiling();
    b.recv(tagged_rx(&memory(&[0; 300]), 3, 1)).expect("room");
    assert!((1200..=2000).contains(&flood(&mut b, PEER)), "a quarter");
    for peer in 2..40 {
        assert!(
            flood(&mut b, PeerId(peer)) <= 4000 + 38 * 556,
            "a half, and one each"
        );
    }
}

#[test]
fn peers_that_the_application_addresses_have_room_whatever_others_send() {
    let mut b = with_ceiling();
    b.engine.name(PEER);
    b.recv(tagged_rx(&memory(&[0; 300]), 3, 1)).expect("room");
    for peer in 2..6 {
        flood(&mut b, PeerId(peer));
    }
    let before = b.engine.unexpected_bytes();
    assert!(flood(&mut b, PEER) > before + 1200);
    assert!(b.engine.unexpected_bytes() <= 8000);
    assert!(
        b.arrive(PEER, tagged(300, 3), &[0; 300]).is_done(),
        "it has a receive"
    );
    assert_eq!(b.done().tag, 3);
}

#[test]
fn beyond_the_ceiling_no_memory_is_reserved_for_what_comes_in_parts() {
    let mut b = with_ceiling();
    b.engine.name(PEER);
    b.recv(tagged_rx(&memory(&[0; 300]), 3, 1)).expect("room");
    let before = flood(&mut b, PEER);
    assert!(b.arrive_stream(OTHER, tagged(9000, 4), 9000).is_stall());
    assert!(b.engine.unexpected_bytes() <= before + 256, "a header");
    b.recv(tagged_rx(&memory(&[0; 9000]), 4, 2)).expect("room");
    let (into, token) = b.arrive_stream(OTHER, tagged(9000, 4), 9000).into_parts();
    assert_eq!(into.len(), 9000);
    b.tell(move |sink| sink.placed(token, Ok(())));
    assert_eq!(b.done().tag, 4);
}

#[test]
fn beyond_the_ceiling_one_message_of_each_peer_is_kept_if_the_application_addresses_it() {
    let mut b = with_ceiling();
    for peer in 1..1000 {
        b.arrive(PeerId(peer), tagged(300, 1), &[0; 300]);
    }
    let held = b.engine.unexpected_bytes();
    assert!((4000..=8000).contains(&held), "{held}");
    assert!(
        b.arrive(PeerId(1000), tagged(300, 1), &[0; 300]).is_stall(),
        "it waits"
    );
    b.engine.name(PeerId(1001));
    assert!(
        b.arrive(PeerId(1001), tagged(300, 1), &[0; 300]).is_done(),
        "the application addresses it"
    );
    b.recv(tagged_rx(&memory(&[0; 300]), 3, 1)).expect("room");
    assert!(
        b.arrive(PeerId(1000), tagged(300, 3), &[0; 300]).is_done(),
        "it has a receive"
    );
    assert_eq!(b.done().tag, 3);
}

#[test]
fn messages_of_lost_peers_go_first_and_the_oldest_before_others() {
    let mut b = tight();
    for peer in 1..=8 {
        let from = PeerId(peer);
        assert!(
            b.arrive(from, tagged(300, u64::from(peer)), &[0; 300])
                .is_done()
        );
        if peer % 2 == 0 || peer == 1 {
            b.let_drop_left(from);
        }
        b.tell(move |sink| sink.peer_down(from, Errno::CONNRESET));
    }
    // 3, 5 and 7 are known; of the others the latest is still here.
    let tags: Vec<u64> = b.engine.waiting().map(|message| message.tag).collect();
    assert_eq!(tags, [3, 5, 7, 8]);
}

#[test]
fn a_peer_that_comes_back_is_not_gone() {
    let mut b = tight();
    assert!(b.arrive(PEER, tagged(300, 1), &[0; 300]).is_done());
    b.let_drop_left(PEER);
    b.tell(|sink| sink.peer_down(PEER, Errno::CONNRESET));
    assert!(b.arrive(PEER, tagged(300, 2), &[0; 300]).is_done());
    assert!(b.arrive(OTHER, tagged(300, 3), &[0; 300]).is_done());
    assert!(b.arrive(OTHER, tagged(300, 3), &[0; 300]).is_stall());
    assert_eq!(b.engine.unexpected(), 3);
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
fn each_peek_that_finds_nothing_lets_one_more_message_in() {
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
