//! Frames arrive, whole and in order.

use super::*;
use crate::rx::LARGE_LEN;
use crate::sys::testing::wait_readable;

#[test]
fn messages_of_all_lengths_arrive_intact_and_in_order() {
    for (mut a, mut b, to_b, _) in [pair(V4), connected(Node::plain(V4), Node::new(V4))] {
        let lengths = [0, 1, 8, 2048, 2049, 16_384, 40_000, 1, 3 << 20, 7, 100_000];
        let mut expected = Vec::new();
        for (id, len) in lengths.into_iter().enumerate() {
            let (body, bytes) = pattern(&[len / 2, len - len / 2], id as u32);
            post(&mut a, &mut b, to_b, message(id as u32, len), &body);
            expected.push(bytes);
        }
        let mut got = Vec::new();
        drive(&mut a, &mut b, |_, b| {
            got.extend(b.pop());
            got.len() == lengths.len()
        });
        for (id, (header, bytes)) in got.into_iter().enumerate() {
            assert_eq!(header.tag, message(id as u32, 0).tag);
            assert_eq!(header.len as usize, lengths[id]);
            assert!(bytes == expected[id], "message {id} is damaged");
        }
    }
}

#[test]
fn a_large_body_is_pending_until_it_is_out() {
    let (mut a, mut b, to_b, _) = pair(V4);
    let len = 64 << 20;
    let (body, bytes) = pattern(&[len], 3);
    let posted = a.try_post(to_b, message(9, len), &body);
    assert_eq!(posted, Ok(Posted::Pending), "no socket buffers that much");
    let next = a.try_post(to_b, message(10, 0), &Iov::empty());
    assert_eq!(next, Err(PostError::Again));
    drive(&mut a, &mut b, |a, _| a.sink.sent.contains(&TxToken(9)));
    assert_eq!(a.sink.writable.last(), Some(&to_b));
    post(&mut a, &mut b, to_b, message(10, 0), &Iov::empty());
    drive(&mut a, &mut b, |_, b| b.sink.arrived.len() == 2);
    assert!(b.pop().is_some_and(|(_, got)| got == bytes));
}

#[test]
fn parts_of_a_body_are_events() {
    let (mut a, mut b, to_b, _) = pair(V4);
    let len = 64 << 20;
    let (body, _) = pattern(&[len], 3);
    let posted = a.try_post(to_b, message(9, len), &body);
    assert_eq!(posted, Ok(Posted::Pending), "no socket buffers that much");
    let (mut out, mut in_) = (0, 0);
    drive(&mut a, &mut b, |a, b| {
        out += a.poll();
        in_ += b.poll();
        b.sink.arrived.len() == 1
    });
    assert!(out > 4, "{out} turns in which the sender got on");
    assert!(in_ > 4, "{in_} turns in which the receiver got on");
}

#[test]
fn large_bodies_wait_for_a_poll_after_a_burst() {
    let (mut a, mut b, to_b, _) = pair(V4);
    a.poll();
    let len = LARGE_LEN;
    let (body, bytes) = pattern(&[len], 8);
    let taken = (0..).take_while(|id| a.try_post(to_b, message(*id, len), &body).is_ok());
    let taken = taken.count() as u32;
    assert!(taken <= 16);
    if taken == 16 {
        assert!(!a.link.arm(), "it must not sleep");
        a.sink.writable.clear();
        a.poll();
        assert_eq!(a.sink.writable, [to_b]);
    }
    for id in taken..40 {
        post(&mut a, &mut b, to_b, message(id, len), &body);
    }
    drive(&mut a, &mut b, |_, b| b.sink.arrived.len() == 40);
    for id in 0..40 {
        let (header, got) = b.pop().expect("it is there");
        assert_eq!(header.tag, message(id, 0).tag);
        assert!(got == bytes, "message {id} is damaged");
    }
}

#[test]
fn transient_memory_is_copied() {
    let (mut a, mut b, to_b, _) = pair(V4);
    let len = 16 << 20;
    let (body, bytes) = pattern(&[len], 4);
    let frame = Frame {
        header: message(1, len),
        body: &body,
        offset: 0,
        len,
        targets: &[],
        transient: true,
        transmit_complete: false,
        more: false,
    };
    assert_eq!(a.link.post(to_b, frame, TxToken(1)), Ok(Posted::Done));
    body.write(0, &vec![0; len]);
    drive(&mut a, &mut b, |_, b| !b.sink.arrived.is_empty());
    assert!(b.pop().is_some_and(|(_, got)| got == bytes));
}

#[test]
fn what_does_not_fit_is_dropped() {
    let (mut a, mut b, to_b, _) = pair(V4);
    b.sink.room = Some(1000);
    let (body, bytes) = pattern(&[1 << 20], 6);
    post(&mut a, &mut b, to_b, message(1, 1 << 20), &body);
    post(&mut a, &mut b, to_b, message(2, 0), &Iov::empty());
    drive(&mut a, &mut b, |_, b| b.sink.arrived.len() == 2);
    assert!(b.pop().is_some_and(|(_, got)| got == bytes[..1000]));
}

#[test]
fn a_stalled_peer_waits_and_loses_nothing() {
    let (mut a, mut b, to_b, to_a) = pair(V4);
    b.sink.full = true;
    let (body, bytes) = pattern(&[300_000], 7);
    for id in 0..40 {
        let header = message(id, body.len());
        if a.try_post(to_b, header, &body).is_err() {
            break;
        }
        a.poll();
        b.poll();
    }
    for _ in 0..100 {
        assert!(b.link.kind.peers.get(to_a).is_some());
        b.poll();
    }
    assert!(b.sink.arrived.is_empty());
    assert!(b.link.arm() && !wait_readable(b.link.fd(), 0), "it sleeps");
    b.link.resume(to_a);
    assert!(!b.link.arm());
    b.poll();
    assert!(b.sink.arrived.is_empty(), "still full");
    b.sink.full = false;
    b.link.resume(to_a);
    drive(&mut a, &mut b, |_, b| b.sink.arrived.len() > 2);
    assert!(b.sink.arrived.iter().all(|(.., got)| *got == bytes));
}

#[test]
fn a_rendezvous_is_carried_in_both_dialects() {
    for (mut a, mut b, to_b, to_a) in [pair(V4), connected(Node::new(V4), Node::plain(V4))] {
        let (body, bytes) = pattern(&[9 << 20], 8);
        let rts = Header {
            kind: Kind::TaggedRts,
            flags: HeaderFlags::DELIVERY | HeaderFlags::DATA,
            data: 77,
            ..message(50_000, body.len())
        };
        post(&mut a, &mut b, to_b, rts, &body);
        drive(&mut a, &mut b, |_, b| !b.sink.arrived.is_empty());
        let (arrived, none) = b.pop().expect("it arrived");
        assert_eq!((arrived.len, arrived.data), (9 << 20, 77));
        assert!(none.is_empty());
        let answer = |kind, id| Header {
            kind,
            ..message(id, 0)
        };
        let cts = answer(Kind::Cts, arrived.id);
        post(&mut b, &mut a, to_a, cts, &Iov::empty());
        drive(&mut a, &mut b, |a, _| !a.sink.arrived.is_empty());
        let (asked, _) = a.pop().expect("it arrived");
        assert_eq!((asked.kind, asked.id), (Kind::Cts, 50_000));
        let data = Header {
            kind: Kind::Segment,
            tag: 0,
            ..rts
        };
        post(&mut a, &mut b, to_b, data, &body);
        drive(&mut a, &mut b, |_, b| !b.sink.arrived.is_empty());
        let (header, got) = b.pop().expect("it arrived");
        assert_eq!((header.kind, header.id), (Kind::Segment, arrived.id));
        assert!(got == bytes);
        let ack = answer(Kind::Ack, arrived.id);
        post(&mut b, &mut a, to_a, ack, &Iov::empty());
        drive(&mut a, &mut b, |a, _| !a.sink.arrived.is_empty());
        assert_eq!(a.pop().map(|(header, _)| header.id), Some(50_000));
    }
}

#[test]
fn a_declined_rendezvous_ends_with_plain_peers_too() {
    let (mut a, mut b, to_b, to_a) = connected(Node::plain(V4), Node::new(V4));
    let (body, _) = pattern(&[1 << 20], 9);
    let rts = Header {
        kind: Kind::TaggedRts,
        flags: HeaderFlags::DELIVERY,
        ..message(5, body.len())
    };
    post(&mut a, &mut b, to_b, rts, &body);
    drive(&mut a, &mut b, |_, b| !b.sink.arrived.is_empty());
    let (arrived, _) = b.pop().expect("it arrived");
    let fin = Header {
        kind: Kind::Fin,
        ..message(arrived.id, 0)
    };
    post(&mut b, &mut a, to_a, fin, &Iov::empty());
    drive(&mut a, &mut b, |a, _| a.pop().is_some());
    let data = Header {
        kind: Kind::Segment,
        ..message(5, body.len())
    };
    post(&mut a, &mut b, to_b, data, &body);
    drive(&mut a, &mut b, |a, _| !a.sink.arrived.is_empty());
    assert_eq!(
        a.pop().map(|(header, _)| (header.kind, header.id)),
        Some((Kind::Ack, 5))
    );
    assert!(b.sink.arrived.is_empty());
}

#[test]
fn foreign_byte_order_is_understood() {
    // Both ends of one connection take the other to be foreign.
    let (mut a, mut b, to_b, to_a) = pair(V4);
    for (node, peer) in [(&mut a, to_b), (&mut b, to_a)] {
        if let ConnState::Ready(conn) = &mut node
            .link
            .kind
            .peers
            .get_mut(peer)
            .expect("known")
            .driver
            .state
        {
            conn.stream.negotiated.dialect.order = oxifabric_wire::tcp::ByteOrder::Big;
        }
    }
    let (body, bytes) = pattern(&[50_000], 10);
    post(&mut a, &mut b, to_b, message(3, body.len()), &body);
    drive(&mut a, &mut b, |_, b| !b.sink.arrived.is_empty());
    let (header, got) = b.pop().expect("it arrived");
    assert_eq!(header.tag, message(3, 0).tag);
    assert!(got == bytes);
}

#[test]
fn many_peers_are_served_through_the_poller() {
    let mut hub = Node::new(V4);
    let mut nodes: Vec<Node> = (0..12).map(|_| Node::new(V4)).collect();
    for (id, node) in nodes.iter_mut().enumerate() {
        let to_hub = node.knows(&hub);
        post(node, &mut hub, to_hub, message(id as u32, 0), &Iov::empty());
    }
    let start = Clock::now();
    while hub.sink.arrived.len() < nodes.len() {
        hub.poll();
        assert!(start.elapsed() < WATCHDOG);
    }
    for (id, node) in nodes.iter_mut().enumerate() {
        let to = hub.knows(node);
        let (body, bytes) = pattern(&[100_000], id as u32);
        post(&mut hub, node, to, message(id as u32, body.len()), &body);
        drive(&mut hub, node, |_, node| !node.sink.arrived.is_empty());
        assert!(node.pop().is_some_and(|(_, got)| got == bytes));
    }
}

#[test]
fn an_atomic_towards_a_plain_peer_fails_alone_and_says_why() {
    let (mut a, mut b, to_b, _) = connected(Node::new(V4), Node::plain(V4));
    let (body, bytes) = pattern(&[8], 12);
    for kind in [Kind::Atomic, Kind::FetchAtomic, Kind::CompareAtomic] {
        let atomic = Header {
            kind,
            ..message(5, 8)
        };
        let refused = a.try_post(to_b, atomic, &body);
        assert_eq!(refused, Err(PostError::Down(Errno::OPNOTSUPP)));
    }
    let reason = a.link.directory().reason(to_b).expect("it is known");
    assert!(reason.contains("no atomics"), "{reason}");
    post(&mut a, &mut b, to_b, message(6, 8), &body);
    drive(&mut a, &mut b, |_, b| !b.sink.arrived.is_empty());
    assert!(b.pop().is_some_and(|(_, got)| got == bytes));
    assert!(a.sink.down.is_empty());
}

#[test]
fn what_follows_a_long_message_goes_straight_into_its_memory() {
    const LONG_LEN: usize = <crate::sys::Socket as oxifabric_tcp_stream::Socket>::LONG_LEN;
    for (len, streams) in [(LONG_LEN - 1, 0), (LONG_LEN, 1)] {
        let (mut a, mut b, to_b, _) = pair(V4);
        let (body, bytes) = pattern(&[len], 3);
        for id in 1..=2 {
            post(&mut a, &mut b, to_b, message(id, len), &body);
            drive(&mut a, &mut b, |_, b| !b.sink.arrived.is_empty());
            assert_eq!(b.pop().expect("it arrived").1, bytes);
        }
        assert_eq!(b.sink.next_token, streams, "{len}");
    }
}

#[test]
fn after_many_empty_polls_only_the_poller_is_asked_until_it_has_an_event() {
    let (mut a, mut b, to_b, _) = pair(V4);
    for id in 1..=2 {
        (0..1000).for_each(|_| _ = b.poll());
        assert!(b.link.conns.empty_polls >= 1000);
        post(&mut a, &mut b, to_b, message(id, 0), &Iov::empty());
        drive(&mut a, &mut b, |_, b| b.pop().is_some());
        assert_eq!(b.link.conns.empty_polls, 0);
    }
}

/// Posts a message whose sender waits for transmit complete.
fn post_for_good(
    node: &mut Node,
    to: PeerId,
    id: u32,
    body: &Iov,
    transient: bool,
) -> Result<Posted, PostError> {
    let frame = Frame {
        header: message(id, body.len()),
        body,
        offset: 0,
        len: body.len(),
        targets: &[],
        transient,
        transmit_complete: true,
        more: true,
    };
    node.link.post(to, frame, TxToken(id))
}

#[test]
fn transmit_complete_holds_nothing_back() {
    let (mut a, mut b, to_b, _) = pair(V4);
    a.poll();
    let (body, _) = pattern(&[16], 5);
    for id in 0..3 {
        assert_eq!(
            post_for_good(&mut a, to_b, id, &body, true),
            Ok(Posted::Done)
        );
        assert!(!a.link.holds_back(), "frame {id}");
    }
    drive(&mut a, &mut b, |_, b| b.sink.arrived.len() == 3);
}

/// What the socket has no room for is not over before the kernel has it: short bodies, injected ones, and the last few bytes of long ones.
#[test]
fn transmit_complete_waits_for_the_kernel() {
    for (len, transient) in [
        (64, false),
        (64, true),
        (2000, true),
        (3000, true),
        (3000, false),
    ] {
        let (mut a, mut b, to_b, _) = pair(V4);
        let (body, bytes) = pattern(&[len], 5);
        let mut id = 0;
        let refused = loop {
            match post_for_good(&mut a, to_b, id, &body, transient) {
                Ok(Posted::Done) => id += 1,
                other => break other,
            }
        };
        if len <= 2048 {
            assert_eq!(
                refused,
                Ok(Posted::Pending),
                "the backlog took a part of it"
            );
        }
        let total = match refused {
            Ok(_) => id + 1,
            // The socket was full between two messages.
            Err(_) => id,
        };
        if transient {
            body.write(0, &vec![0; len]);
        }
        drive(&mut a, &mut b, |a, b| {
            let is_over = refused.is_err() || a.sink.sent.contains(&TxToken(id));
            is_over && b.sink.arrived.len() == total as usize
        });
        while let Some((_, got)) = b.pop() {
            assert!(got == bytes, "{len} bytes");
        }
        assert_eq!(a.sink.sent.len(), usize::from(refused.is_ok()));
    }
}
