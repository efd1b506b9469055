//! Tagged messages.

use core::ptr::null_mut;

use oxifabric_abi::*;
use oxifabric_fixtures::c;
use oxifabric_fixtures::fixture::{Fixture, Pair};
use oxifabric_fixtures::traffic::Posted;

use crate::requirements;

/// Posts a tagged receive with flags.
fn recvmsg(pair: &Pair, into: &Posted, tag: u64, flags: u64) -> isize {
    let iov = libc::iovec {
        iov_base: into.place.cast(),
        iov_len: into.len,
    };
    let msg = fi_msg_tagged {
        msg_iov: &iov,
        desc: null_mut(),
        iov_count: 1,
        addr: FI_ADDR_UNSPEC,
        tag,
        ignore: 0,
        context: into.context,
        data: 0,
    };
    c!(fi_trecvmsg(pair.b.ep, &msg, flags))
}

/// Peeks until the answer is that a message is there.
fn peek(pair: &Pair, tag: u64, flags: u64) -> (Posted, fi_cq_tagged_entry) {
    let begun = std::time::Instant::now();
    loop {
        let asked = pair.b.posted(64);
        assert_eq!(recvmsg(pair, &asked, tag, FI_PEEK | flags), 0);
        match pair.next(&pair.b) {
            oxifabric_fixtures::traffic::Read::Done(found) => return (asked, found),
            oxifabric_fixtures::traffic::Read::Failed(error) => assert_eq!(error.err, FI_ENOMSG),
        }
        assert!(begun.elapsed() < oxifabric_fixtures::traffic::TIMEOUT);
        pair.progress(&pair.a);
    }
}

requirements! { "fi_tagged(3)";

/// A message is received by the receive that has its tag, whatever the order of posting.
fn tags_choose_the_receive(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let (one, other) = (pair.b.trecv(4, 1, 0), pair.b.trecv(4, 2, 0));
    pair.tsend(b"two ", 2);
    assert_eq!(pair.done(&pair.b).op_context, other.context);
    pair.tsend(b"one ", 1);
    assert_eq!(pair.done(&pair.b).op_context, one.context);
    assert_eq!((one.bytes(), other.bytes()), (b"one ".as_slice(), b"two ".as_slice()));
}

/// Bits that a receive ignores may differ.
fn ignored_bits_may_differ(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let posted = pair.b.trecv(4, 0xAB00, 0xFF);
    pair.tsend(b"none", 0xAC01);
    pair.tsend(b"this", 0xAB77);
    let done = pair.done(&pair.b);
    assert_eq!((done.op_context, done.tag), (posted.context, 0xAB77));
    assert_eq!(posted.bytes(), b"this");
}

/// Of several receives that match, the one posted first takes the message.
fn the_first_match_wins(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let (first, second) = (pair.b.trecv(4, 0, u64::MAX), pair.b.trecv(4, 5, 0));
    pair.tsend(b"1st ", 5);
    pair.tsend(b"2nd ", 5);
    assert_eq!(pair.done(&pair.b).op_context, first.context);
    assert_eq!(pair.done(&pair.b).op_context, second.context);
}

/// Of several messages that match, a receive takes the one sent first.
fn the_first_message_wins(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    pair.tsend(b"1st ", 9);
    pair.tsend(b"2nd ", 9);
    for expected in [b"1st ", b"2nd "] {
        let posted = pair.b.trecv(4, 9, 0);
        let _ = pair.done(&pair.b);
        assert_eq!(posted.bytes(), expected);
    }
}

/// Tagged messages and others do not meet.
fn tagged_and_other_messages_do_not_meet(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let (plain, tagged) = (pair.b.recv(6), pair.b.trecv(6, 0, u64::MAX));
    pair.tsend(b"tagged", 0);
    assert_eq!(pair.done(&pair.b).op_context, tagged.context);
    pair.send(b"plain!");
    assert_eq!(pair.done(&pair.b).op_context, plain.context);
}

/// A peek for a message that is not there fails with FI_ENOMSG.
fn a_peek_into_nothing_says_so(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let asked = pair.b.posted(64);
    assert_eq!(recvmsg(&pair, &asked, 3, FI_PEEK), 0);
    let error = pair.failed(&pair.b);
    assert_eq!((error.err, error.op_context), (FI_ENOMSG, asked.context));
}

/// A peek tells length and tag of a message and leaves it.
fn a_peek_leaves_the_message(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    pair.tsend(b"hello", 11);
    let (_, found) = peek(&pair, 11, 0);
    assert_eq!((found.len, found.tag), (5, 11));
    let posted = pair.b.trecv(5, 11, 0);
    let _ = pair.done(&pair.b);
    assert_eq!(posted.bytes(), b"hello");
}

/// A message that was claimed by a peek is received only by the claim.
fn a_claimed_message_waits_for_its_claim(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    pair.tsend(b"1st", 4);
    pair.tsend(b"2nd", 4);
    let (mut claimed, _) = peek(&pair, 4, FI_CLAIM);
    let posted = pair.b.trecv(3, 4, 0);
    let _ = pair.done(&pair.b);
    assert_eq!(posted.bytes(), b"2nd");
    claimed.len = 3;
    assert_eq!(recvmsg(&pair, &claimed, 4, FI_CLAIM), 0);
    assert_eq!(pair.done(&pair.b).op_context, claimed.context);
    assert_eq!(claimed.bytes(), b"1st");
}

/// A message that a peek discards is gone.
fn a_discarded_message_is_gone(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    pair.tsend(b"1st", 4);
    pair.tsend(b"2nd", 4);
    let _ = peek(&pair, 4, FI_DISCARD);
    let posted = pair.b.trecv(3, 4, 0);
    let _ = pair.done(&pair.b);
    assert_eq!(posted.bytes(), b"2nd");
}

/// All bits of the tag format can be used.
fn all_bits_of_the_format_travel(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let format = c!((*fixture.info.first().ep_attr).mem_tag_format);
    let bits = u64::MAX.checked_shr(format.leading_zeros()).unwrap_or(0);
    let _posted = pair.b.trecv(1, bits, 0);
    pair.tsend(b"x", bits);
    assert_eq!(pair.done(&pair.b).tag, bits);
}

/// An injected tagged message arrives, without a completion at its sender.
fn an_injected_tagged_message_arrives(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let posted = pair.b.trecv(1, 6, 0);
    let byte = b"i";
    pair.start(|| c!(fi_tinject(pair.a.ep, byte.as_ptr().cast(), 1, pair.to_b, 6)));
    assert_eq!(pair.done(&pair.b).op_context, posted.context);
    assert!(pair.a.read().is_none());
}

/// A message longer than its receive is cut, and told with FI_ETRUNC and its tag.
fn a_long_message_is_cut(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let posted = pair.b.trecv(4, 8, 0);
    pair.tsend(&[7; 100_000], 8);
    let error = pair.failed(&pair.b);
    assert_eq!((error.err, error.op_context), (FI_ETRUNC, posted.context));
    assert_eq!((error.tag, error.olen), (8, 100_000 - 4));
}
}
