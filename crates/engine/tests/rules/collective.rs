//! Collectives: fi_collective(3), docs/protocol/tcp.md "Collectives".

use oxifabric_collectives::Collective;
use oxifabric_engine::{CollectiveOp, GroupId, Header, HeaderFlags, Kind, PostError};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Flags, PeerId};

use crate::script::{Bench, ME, OTHER, PEER, content, memory};

const NOTICE: u64 = 1 << 62;
const JOIN: u64 = 2 << 62;
const GIVEN_UP: u64 = 3 << 62;

/// What the peer calls the group.
const THEIRS: u32 = 5;

fn header(tag: u64, len: usize) -> Header {
    Header {
        kind: Kind::Collective,
        flags: HeaderFlags::empty(),
        id: 0,
        tag,
        data: 0,
        len: len as u64,
    }
}

/// What a member tells of itself when it joins.
fn card(name: u32, size: u32) -> Vec<u8> {
    [name.to_le_bytes(), size.to_le_bytes()].concat()
}

/// A bench that has joined a group with the peer, and what it calls it.
fn joined() -> (Bench, GroupId) {
    let mut bench = Bench::new();
    let group = bench.join(&[PEER, ME]).expect("the group is possible");
    let sent = bench.frame();
    assert_eq!((sent.to, sent.header.tag), (PEER, JOIN));
    assert_eq!(sent.body, card(group.0, 2));
    assert_eq!(bench.joined(), None);
    assert!(
        bench
            .arrive(PEER, header(JOIN, 8), &card(THEIRS, 2))
            .is_done()
    );
    assert_eq!(bench.joined(), Some(Ok(group)));
    (bench, group)
}

fn data(group: u32, serial: u32) -> u64 {
    u64::from(group) << 32 | u64::from(serial)
}

fn op(group: GroupId, what: Collective, result: &Iov) -> CollectiveOp {
    CollectiveOp {
        group,
        what,
        root: PEER,
        len: result.len(),
        input: Iov::empty(),
        result: result.clone(),
        arithmetic: None,
        flags: Flags::COMPLETION,
        context: 9,
    }
}

#[test]
fn messages_carry_the_name_that_their_receiver_gave() {
    let (mut bench, group) = joined();
    for serial in 0..2 {
        let barrier = op(group, Collective::Barrier, &Iov::empty());
        assert_eq!(bench.collective(barrier), Ok(()));
        assert_eq!(bench.frame().header.tag, data(THEIRS, serial));
        assert_eq!(bench.event(), None);
        let answer = bench.arrive(PEER, header(data(group.0, serial), 0), &[]);
        assert!(answer.is_done());
        let done = bench.done();
        assert_eq!((done.flags, done.context), (Flags::COLLECTIVE, 9));
    }
    bench.assert_empty();
}

#[test]
fn data_may_come_before_its_operation() {
    let (mut bench, group) = joined();
    bench.arrive(PEER, header(data(group.0, 0), 4), b"data");
    assert_eq!(bench.engine.unexpected(), 1);
    let result = memory(&[0; 4]);
    let broadcast = op(group, Collective::Broadcast, &result);
    assert_eq!(bench.collective(broadcast), Ok(()));
    bench.done();
    assert_eq!(content(&result), b"data");
    bench.assert_empty();
}

#[test]
fn a_peer_without_collectives_ends_the_join() {
    let mut bench = Bench::new();
    let refusal = PostError::Down(Errno::OPNOTSUPP);
    bench.link.answers.extend([Err(refusal); 2]);
    assert!(bench.join(&[ME, PEER]).is_ok());
    assert_eq!(bench.joined(), Some(Err(Errno::OPNOTSUPP)));
}

#[test]
fn members_that_expect_different_groups_do_not_meet() {
    let mut bench = Bench::new();
    assert!(bench.join(&[ME, PEER]).is_ok());
    bench.arrive(PEER, header(JOIN, 8), &card(THEIRS, 3));
    assert_eq!(bench.joined(), Some(Err(Errno::INVAL)));
}

#[test]
fn a_join_that_the_peer_has_given_up_ends() {
    for early in [false, true] {
        let mut bench = Bench::new();
        let word = header(GIVEN_UP | Errno::CONNRESET.raw() as u64, 0);
        if early {
            assert!(bench.arrive(PEER, word, &[]).is_done());
        }
        assert!(bench.join(&[ME, PEER]).is_ok());
        if !early {
            assert!(bench.arrive(PEER, word, &[]).is_done());
            // Whether the card has left or not.
            bench.tell(|_| {});
        }
        assert_eq!(bench.joined(), Some(Err(Errno::CONNRESET)));
    }
}

/// As the bounds in the engine's `given_up.rs`.
const GIVEN_UP_OF_PEER: u32 = 1 << 10;
const GIVEN_UP_IN_ALL: u32 = 1 << 16;
const GIVEN_UP_ALWAYS: u32 = 16;

/// Lets a peer give up its joins up to one.
fn give_up(bench: &mut Bench, peer: PeerId, joins: u32) {
    for count in 0..joins {
        let word = header(GIVEN_UP | data(count, Errno::CONNRESET.raw() as u32), 0);
        assert!(bench.arrive(peer, word, &[]).is_done());
    }
}

/// Returns how a number of joins with a peer end, one after the other, as far as they end.
fn join_again(bench: &mut Bench, peer: PeerId, joins: u32) -> usize {
    let given_up = (0..joins).filter(|_| {
        assert!(bench.join(&[ME, peer]).is_ok());
        bench.joined() == Some(Err(Errno::CONNRESET))
    });
    given_up.count()
}

#[test]
fn each_peer_has_a_share_of_the_joins_that_are_given_up_in_advance() {
    let mut bench = Bench::new();
    give_up(&mut bench, OTHER, GIVEN_UP_IN_ALL);
    give_up(&mut bench, PEER, GIVEN_UP_ALWAYS + 1);
    let remembered = join_again(&mut bench, PEER, GIVEN_UP_ALWAYS + 1);
    assert_eq!(
        remembered,
        GIVEN_UP_ALWAYS as usize + 1,
        "one uses up its own only"
    );
    let remembered = join_again(&mut bench, OTHER, GIVEN_UP_OF_PEER + 1);
    assert_eq!(remembered, GIVEN_UP_OF_PEER as usize);
}

#[test]
fn joins_that_peers_give_up_in_advance_are_remembered_up_to_a_number() {
    let mut bench = Bench::new();
    let others = GIVEN_UP_IN_ALL / GIVEN_UP_OF_PEER;
    for other in 0..others {
        give_up(&mut bench, PeerId(100 + other), GIVEN_UP_OF_PEER);
    }
    give_up(&mut bench, PEER, GIVEN_UP_ALWAYS + 1);
    let remembered = join_again(&mut bench, PEER, GIVEN_UP_ALWAYS + 1);
    assert_eq!(remembered, GIVEN_UP_ALWAYS as usize);
}

#[test]
fn joins_that_a_peer_gave_up_in_advance_are_forgotten_when_it_is_gone() {
    let mut bench = Bench::new();
    let others = GIVEN_UP_IN_ALL / GIVEN_UP_OF_PEER;
    for other in 0..others {
        give_up(&mut bench, PeerId(100 + other), GIVEN_UP_OF_PEER);
    }
    bench.tell(|sink| sink.peer_down(PeerId(100), Errno::CONNRESET));
    give_up(&mut bench, PEER, GIVEN_UP_ALWAYS + 1);
    let remembered = join_again(&mut bench, PEER, GIVEN_UP_ALWAYS + 1);
    assert_eq!(remembered, GIVEN_UP_ALWAYS as usize + 1);
}

#[test]
fn a_notice_breaks_the_group() {
    let (mut bench, group) = joined();
    let result = memory(&[0; 4]);
    assert_eq!(
        bench.collective(op(group, Collective::Broadcast, &result)),
        Ok(())
    );
    let why = Errno::CONNRESET;
    let notice = header(NOTICE | data(group.0, why.raw() as u32), 0);
    assert!(bench.arrive(PEER, notice, &[]).is_done());
    let failed = bench.failed();
    assert_eq!((failed.errno, failed.op.flags), (why, Flags::COLLECTIVE));
    assert_eq!(
        bench.collective(op(group, Collective::Broadcast, &result)),
        Err(why)
    );
    // What comes late is dropped.
    assert!(
        bench
            .arrive(PEER, header(data(group.0, 0), 4), b"data")
            .is_done()
    );
    assert_eq!(content(&result), [0; 4]);
    bench.assert_empty();
}

#[test]
fn members_that_disagree_on_the_length_fail_and_say_so() {
    for body in [&b"abc"[..], b"abcde"] {
        let (mut bench, group) = joined();
        let result = memory(&[0; 4]);
        assert_eq!(
            bench.collective(op(group, Collective::Broadcast, &result)),
            Ok(())
        );
        bench.arrive(PEER, header(data(group.0, 0), body.len()), body);
        assert_eq!(bench.failed().errno, Errno::TRUNC);
        let notice = NOTICE | data(THEIRS, Errno::TRUNC.raw() as u32);
        assert_eq!(bench.frame().header.tag, notice);
        bench.assert_empty();
    }
}

#[test]
fn what_is_for_no_operation_is_dropped() {
    let (mut bench, group) = joined();
    for (from, tag) in [
        (PEER, data(group.0 + 1, 0)),
        (OTHER, data(group.0, 0)),
        (OTHER, NOTICE | data(group.0, 5)),
        (PEER, JOIN),
        (PEER, GIVEN_UP | 5),
        (PEER, NOTICE),
    ] {
        let len = if tag >> 62 == 1 || tag >> 62 == 3 {
            0
        } else {
            4
        };
        assert!(
            bench
                .arrive(from, header(tag, len), &b"data"[..len])
                .is_done()
        );
        bench.assert_empty();
    }
    let header = Header {
        kind: Kind::CollectiveRts,
        id: 3,
        ..header(data(group.0 + 1, 0), 100)
    };
    assert!(bench.arrive_remote(PEER, header, 100).is_done());
    assert_eq!(
        (bench.frame().header.kind, bench.joined()),
        (Kind::Cts, None)
    );
}

#[test]
fn words_have_no_body_and_nothing_is_acknowledged() {
    let (mut bench, group) = joined();
    for tag in [NOTICE | data(group.0, 5), GIVEN_UP] {
        assert!(bench.arrive(PEER, header(tag, 1), b"x").is_refusal());
    }
    let delivery = Header {
        flags: HeaderFlags::DELIVERY,
        ..header(data(group.0, 0), 1)
    };
    assert!(bench.arrive(PEER, delivery, b"x").is_refusal());
}

#[test]
fn groups_that_cannot_be_are_refused() {
    let mut bench = Bench::new();
    for members in [&[PEER][..], &[ME, PEER, PEER], &[ME, PeerId::ANY], &[]] {
        assert_eq!(bench.join(members), Err(Errno::INVAL));
    }
    assert_eq!(bench.join(&[ME]), Ok(GroupId(0)));
    assert_eq!(bench.joined(), Some(Ok(GroupId(0))));
}
