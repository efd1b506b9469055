//! Tagged messages.

use core::ptr::null_mut;

use oxifabric_abi::*;

use crate::traffic::Posted;
use crate::world::{Two, World};
use crate::{c, sentences};

/// Posts a tagged receive with flags.
fn recvmsg(two: &Two, into: &Posted, tag: u64, flags: u64) -> isize {
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
    c!(fi_trecvmsg(two.b.ep, &msg, flags))
}

/// Peeks until the answer is that a message is there.
fn peek(two: &Two, tag: u64, flags: u64) -> (Posted, fi_cq_tagged_entry) {
    let begun = std::time::Instant::now();
    loop {
        let asked = two.b.posted(64);
        assert_eq!(recvmsg(two, &asked, tag, FI_PEEK | flags), 0);
        match two.next(&two.b) {
            crate::traffic::Read::Done(found) => return (asked, found),
            crate::traffic::Read::Failed(error) => assert_eq!(error.err, FI_ENOMSG),
        }
        assert!(begun.elapsed() < crate::traffic::PATIENCE);
        two.progress(&two.a);
    }
}

sentences! { "fi_tagged(3)";

/// A message is received by the receive that has its tag, whatever the order of posting.
fn tags_choose_the_receive(stage) {
    let world = World::new(stage);
    let two = world.two();
    let (one, other) = (two.b.trecv(4, 1, 0), two.b.trecv(4, 2, 0));
    two.tsend(b"two ", 2);
    assert_eq!(two.done(&two.b).op_context, other.context);
    two.tsend(b"one ", 1);
    assert_eq!(two.done(&two.b).op_context, one.context);
    assert_eq!((one.bytes(), other.bytes()), (b"one ".as_slice(), b"two ".as_slice()));
}

/// Bits that a receive ignores may differ.
fn ignored_bits_may_differ(stage) {
    let world = World::new(stage);
    let two = world.two();
    let posted = two.b.trecv(4, 0xAB00, 0xFF);
    two.tsend(b"none", 0xAC01);
    two.tsend(b"this", 0xAB77);
    let done = two.done(&two.b);
    assert_eq!((done.op_context, done.tag), (posted.context, 0xAB77));
    assert_eq!(posted.bytes(), b"this");
}

/// Of several receives that match, the one posted first takes the message.
fn the_first_match_wins(stage) {
    let world = World::new(stage);
    let two = world.two();
    let (first, second) = (two.b.trecv(4, 0, u64::MAX), two.b.trecv(4, 5, 0));
    two.tsend(b"1st ", 5);
    two.tsend(b"2nd ", 5);
    assert_eq!(two.done(&two.b).op_context, first.context);
    assert_eq!(two.done(&two.b).op_context, second.context);
}

/// Of several messages that match, a receive takes the one sent first.
fn the_first_message_wins(stage) {
    let world = World::new(stage);
    let two = world.two();
    two.tsend(b"1st ", 9);
    two.tsend(b"2nd ", 9);
    for expected in [b"1st ", b"2nd "] {
        let posted = two.b.trecv(4, 9, 0);
        let _ = two.done(&two.b);
        assert_eq!(posted.bytes(), expected);
    }
}

/// Tagged messages and others do not meet.
fn tagged_and_other_messages_do_not_meet(stage) {
    let world = World::new(stage);
    let two = world.two();
    let (plain, tagged) = (two.b.recv(6), two.b.trecv(6, 0, u64::MAX));
    two.tsend(b"tagged", 0);
    assert_eq!(two.done(&two.b).op_context, tagged.context);
    two.send(b"plain!");
    assert_eq!(two.done(&two.b).op_context, plain.context);
}

/// A peek for a message that is not there fails with FI_ENOMSG.
fn a_peek_into_nothing_says_so(stage) {
    let world = World::new(stage);
    let two = world.two();
    let asked = two.b.posted(64);
    assert_eq!(recvmsg(&two, &asked, 3, FI_PEEK), 0);
    let error = two.failed(&two.b);
    assert_eq!((error.err, error.op_context), (FI_ENOMSG, asked.context));
}

/// A peek tells length and tag of a message and leaves it.
fn a_peek_leaves_the_message(stage) {
    let world = World::new(stage);
    let two = world.two();
    two.tsend(b"hello", 11);
    let (_, found) = peek(&two, 11, 0);
    assert_eq!((found.len, found.tag), (5, 11));
    let posted = two.b.trecv(5, 11, 0);
    let _ = two.done(&two.b);
    assert_eq!(posted.bytes(), b"hello");
}

/// A message that was claimed by a peek is received only by the claim.
fn a_claimed_message_waits_for_its_claim(stage) {
    let world = World::new(stage);
    let two = world.two();
    two.tsend(b"1st", 4);
    two.tsend(b"2nd", 4);
    let (mut claimed, _) = peek(&two, 4, FI_CLAIM);
    let posted = two.b.trecv(3, 4, 0);
    let _ = two.done(&two.b);
    assert_eq!(posted.bytes(), b"2nd");
    claimed.len = 3;
    assert_eq!(recvmsg(&two, &claimed, 4, FI_CLAIM), 0);
    assert_eq!(two.done(&two.b).op_context, claimed.context);
    assert_eq!(claimed.bytes(), b"1st");
}

/// A message that a peek discards is gone.
fn a_discarded_message_is_gone(stage) {
    let world = World::new(stage);
    let two = world.two();
    two.tsend(b"1st", 4);
    two.tsend(b"2nd", 4);
    let _ = peek(&two, 4, FI_DISCARD);
    let posted = two.b.trecv(3, 4, 0);
    let _ = two.done(&two.b);
    assert_eq!(posted.bytes(), b"2nd");
}

/// All bits of the tag format can be used.
fn all_bits_of_the_format_travel(stage) {
    let world = World::new(stage);
    let two = world.two();
    let format = c!((*world.info.first().ep_attr).mem_tag_format);
    let bits = u64::MAX.checked_shr(format.leading_zeros()).unwrap_or(0);
    let _posted = two.b.trecv(1, bits, 0);
    two.tsend(b"x", bits);
    assert_eq!(two.done(&two.b).tag, bits);
}

/// An injected tagged message arrives, without a completion at its sender.
fn an_injected_tagged_message_arrives(stage) {
    let world = World::new(stage);
    let two = world.two();
    let posted = two.b.trecv(1, 6, 0);
    let byte = b"i";
    two.start(|| c!(fi_tinject(two.a.ep, byte.as_ptr().cast(), 1, two.to_b, 6)));
    assert_eq!(two.done(&two.b).op_context, posted.context);
    assert!(two.a.read().is_none());
}

/// A message longer than its receive is cut, and told with FI_ETRUNC and its tag.
fn a_long_message_is_cut(stage) {
    let world = World::new(stage);
    let two = world.two();
    let posted = two.b.trecv(4, 8, 0);
    two.tsend(&[7; 100_000], 8);
    let error = two.failed(&two.b);
    assert_eq!((error.err, error.op_context), (FI_ETRUNC, posted.context));
    assert_eq!((error.tag, error.olen), (8, 100_000 - 4));
}
}
