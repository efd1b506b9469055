//! Access to the memory of peers.

use core::ptr::null_mut;

use oxifabric_abi::*;

use crate::ground::{ACCESS, BOTH, Ground};
use crate::world::{Two, World, bind, close};
use crate::{c, sentences};

/// A piece of a buffer.
const fn iov(place: *mut u8, len: usize) -> libc::iovec {
    libc::iovec {
        iov_base: place.cast(),
        iov_len: len,
    }
}

sentences! { "fi_rma(3)";

/// A write changes the bytes that it names and no others.
fn a_write_changes_what_it_names(stage) {
    let ground = Ground::new(stage, BOTH);
    ground.write(b"written", 100, ground.key());
    let done = ground.two.done(&ground.two.a);
    assert_eq!(done.flags & (FI_RMA | FI_WRITE), FI_RMA | FI_WRITE);
    // A read behind the write shows that it arrived.
    let place = ground.read(9, 99, ground.key());
    let _ = ground.two.done(&ground.two.a);
    let seen = c!(core::slice::from_raw_parts(place, 9));
    assert_eq!(seen, b"\x55written\x55");
    assert_eq!(&ground.region()[99..108], b"\x55written\x55");
    ground.close();
}

/// A read gives what the peer's memory holds, whatever the length.
fn reads_of_every_length_are_right(stage) {
    let ground = Ground::new(stage, BOTH);
    for len in [1_usize, 33, 4097, 300_000] {
        let place = ground.read(len, 5, ground.key());
        let done = ground.two.done(&ground.two.a);
        assert_eq!(done.flags & (FI_RMA | FI_READ), FI_RMA | FI_READ);
        let seen = c!(core::slice::from_raw_parts(place, len));
        assert!(seen.iter().all(|&byte| byte == 0x55));
    }
    ground.close();
}

/// An endpoint that receives no messages needs no queue for receives; its other queue drives it.
fn accesses_need_no_queue_for_receives(stage) {
    let world = World::with(stage, |hints| hints.caps = ACCESS);
    let two = Two::of(world.end_with(FI_TRANSMIT, |_| {}), world.end_with(FI_TRANSMIT, |_| {}));
    let ground = Ground::of(world, two, BOTH);
    ground.write(b"written", 100, ground.key());
    let _ = ground.two.done(&ground.two.a);
    let place = ground.read(9, 99, ground.key());
    let _ = ground.two.done(&ground.two.a);
    assert_eq!(c!(core::slice::from_raw_parts(place, 9)), b"\x55written\x55");
    ground.close();
}

/// An endpoint that receives no messages, but reads and writes, needs a queue or counter for that: -FI_ENOCQ.
fn accesses_need_a_queue(stage) {
    let world = World::with(stage, |hints| hints.caps = ACCESS);
    let (ep, av, cq) = (world.bare(), world.av(), world.cq(|_| {}));
    assert_eq!((bind(ep, av, 0), c!(fi_enable(ep))), (0, -FI_ENOCQ));
    assert_eq!((bind(ep, cq, FI_RECV), c!(fi_enable(ep))), (0, -FI_ENOCQ));
    assert_eq!((close(ep), close(cq), close(av)), (0, 0, 0));
}

/// Long writes arrive whole.
fn long_writes_arrive_whole(stage) {
    let ground = Ground::new(stage, BOTH);
    let bytes: Vec<u8> = (0..ground.len).map(|at| (at * 13) as u8).collect();
    ground.write(&bytes, 0, ground.key());
    let _ = ground.two.done(&ground.two.a);
    let _ = ground.read(1, 0, ground.key());
    let _ = ground.two.done(&ground.two.a);
    assert!(ground.region() == bytes);
    ground.close();
}

/// A key that nobody gave fails a write with FI_DELIVERY_COMPLETE and changes nothing.
fn a_false_key_changes_nothing(stage) {
    let ground = Ground::delivering(stage, BOTH);
    ground.write(b"forged", 0, ground.key() ^ 0xFFFF);
    let error = ground.two.failed(&ground.two.a);
    assert_ne!(error.err, 0);
    assert!(ground.region().iter().all(|&byte| byte == 0x55));
    ground.close();
}

/// A write with FI_DELIVERY_COMPLETE beyond the region fails and changes nothing.
fn bounds_are_checked(stage) {
    let ground = Ground::delivering(stage, BOTH);
    ground.write(b"beyond", ground.len as u64 - 3, ground.key());
    let error = ground.two.failed(&ground.two.a);
    assert_ne!(error.err, 0);
    assert!(ground.region().iter().all(|&byte| byte == 0x55));
    ground.close();
}

/// A region that may only be read is not written; a write with FI_DELIVERY_COMPLETE fails.
fn rights_are_checked(stage) {
    let ground = Ground::delivering(stage, FI_REMOTE_READ);
    ground.write(b"no", 0, ground.key());
    let error = ground.two.failed(&ground.two.a);
    assert_ne!(error.err, 0);
    assert!(ground.region().iter().all(|&byte| byte == 0x55));
    ground.close();
}

/// A write with remote completion data tells the peer.
fn data_of_a_write_is_told(stage) {
    let ground = Ground::new(stage, BOTH);
    let two = &ground.two;
    let (place, context) = (two.a.traffic.buffer(b"w"), two.a.traffic.context());
    let (at, key) = (ground.base, ground.key());
    two.start(|| {
        c!(fi_writedata(two.a.ep, place.cast(), 1, null_mut(), 0xDA7A, two.to_b, at, key, context))
    });
    let done = two.done(&two.b);
    assert_eq!((done.data, done.flags & FI_REMOTE_CQ_DATA), (0xDA7A, FI_REMOTE_CQ_DATA));
    ground.close();
}

/// The peer is not told of a write without remote completion data.
fn a_plain_write_is_silent(stage) {
    let ground = Ground::new(stage, BOTH);
    ground.write(b"silent", 0, ground.key());
    let _ = ground.two.done(&ground.two.a);
    let _ = ground.read(1, 0, ground.key());
    let _ = ground.two.done(&ground.two.a);
    assert!(ground.two.b.read().is_none());
    ground.close();
}

/// The buffer of an injected write is free when the call returns, and there is no completion.
fn an_injected_write_is_silent(stage) {
    let ground = Ground::new(stage, BOTH);
    let two = &ground.two;
    let byte = two.a.traffic.buffer(&[1]);
    let (at, key) = (ground.base, ground.key());
    two.start(|| c!(fi_inject_write(two.a.ep, byte.cast(), 1, two.to_b, at, key)));
    c!(*byte = 2);
    let place = ground.read(1, 0, ground.key());
    let done = two.done(&two.a);
    assert_eq!(done.flags & FI_READ, FI_READ);
    assert_eq!(c!(*place), 1);
    ground.close();
}

/// A read needs a key that somebody gave, and leaves its buffer alone if it fails.
fn a_read_with_a_false_key_fails(stage) {
    let ground = Ground::new(stage, BOTH);
    let place = ground.read(4, 0, ground.key() ^ 0xFFFF);
    ground.refused();
    assert_eq!(c!(core::slice::from_raw_parts(place, 4)), [0; 4]);
    ground.close();
}

/// A read beyond the region fails.
fn reads_are_bounded(stage) {
    let ground = Ground::new(stage, BOTH);
    let _ = ground.read(8, ground.len as u64 - 7, ground.key());
    ground.refused();
    ground.close();
}

/// An address that wraps around is beyond the region.
fn addresses_do_not_wrap(stage) {
    let ground = Ground::delivering(stage, BOTH);
    ground.write(b"wrapped", 0_u64.wrapping_sub(ground.base).wrapping_sub(3), ground.key());
    ground.refused();
    ground.close();
}

/// Data is gathered from several buffers.
fn a_write_is_gathered(stage) {
    let ground = Ground::new(stage, BOTH);
    let two = &ground.two;
    let (one, other) = (two.a.traffic.buffer(b"abc"), two.a.traffic.buffer(b"de"));
    let pieces = [iov(one, 3), iov(other, 2)];
    let (context, at, key) = (two.a.traffic.context(), ground.base, ground.key());
    two.start(|| c!(fi_writev(two.a.ep, pieces.as_ptr(), null_mut(), 2, two.to_b, at, key, context)));
    assert_eq!(two.done(&two.a).op_context, context);
    ground.settle();
    assert_eq!(&ground.region()[..6], b"abcde\x55");
    ground.close();
}

/// Data is scattered into several buffers.
fn a_read_is_scattered(stage) {
    let ground = Ground::new(stage, BOTH);
    ground.fill(b"12345");
    let two = &ground.two;
    let (one, other) = (two.a.traffic.buffer(b"--"), two.a.traffic.buffer(b"---"));
    let pieces = [iov(one, 2), iov(other, 3)];
    let (context, at, key) = (two.a.traffic.context(), ground.base, ground.key());
    two.start(|| c!(fi_readv(two.a.ep, pieces.as_ptr(), null_mut(), 2, two.to_b, at, key, context)));
    assert_eq!(two.done(&two.a).op_context, context);
    let seen = c!((core::slice::from_raw_parts(one, 2), core::slice::from_raw_parts(other, 3)));
    assert_eq!(seen, (b"12".as_slice(), b"345".as_slice()));
    ground.close();
}

/// A write names several places of the peer's memory, as many as rma_iov_limit.
fn a_write_goes_to_several_places(stage) {
    let ground = Ground::new(stage, BOTH);
    let limit = c!((*ground.world.info.first().tx_attr).rma_iov_limit);
    let targets: Vec<_> = (0..limit as u64).map(|at| ground.target(at * 10, 2)).collect();
    let bytes: Vec<u8> = (0..limit * 2).map(|at| at as u8).collect();
    ground.message(&bytes, &targets, 0, |two, msg| two.start(|| c!(fi_writemsg(two.a.ep, msg, FI_COMPLETION))));
    let _ = ground.two.done(&ground.two.a);
    ground.settle();
    for (at, pair) in bytes.chunks(2).enumerate() {
        assert_eq!(&ground.region()[at * 10..at * 10 + 3], [pair[0], pair[1], 0x55]);
    }
    ground.close();
}

/// More places than rma_iov_limit are refused.
fn too_many_places_are_refused(stage) {
    let ground = Ground::new(stage, BOTH);
    let count = c!((*ground.world.info.first().tx_attr).rma_iov_limit) + 1;
    let targets: Vec<_> = (0..count as u64).map(|at| ground.target(at, 1)).collect();
    ground.message(&vec![0; count], &targets, 0, |two, msg| {
        assert!(c!(fi_writemsg(two.a.ep, msg, FI_COMPLETION)) < 0);
    });
    ground.close();
}

/// A write of no bytes needs no buffers, completes, and changes nothing.
fn a_write_may_be_empty(stage) {
    let ground = Ground::new(stage, BOTH);
    let two = &ground.two;
    let (context, at, key) = (two.a.traffic.context(), ground.base, ground.key());
    two.start(|| c!(fi_write(two.a.ep, core::ptr::null(), 0, null_mut(), two.to_b, at, key, context)));
    assert_eq!(two.done(&two.a).op_context, context);
    ground.settle();
    assert!(ground.region().iter().all(|&byte| byte == 0x55));
    ground.close();
}

/// With FI_INJECT the buffer of a write is free when the call returns, and it completes.
fn an_injecting_write_frees_its_buffer(stage) {
    let ground = Ground::new(stage, BOTH);
    let targets = [ground.target(0, 4)];
    ground.message(b"keep", &targets, 0, |two, msg| {
        two.start(|| c!(fi_writemsg(two.a.ep, msg, FI_INJECT | FI_COMPLETION)));
        c!((*(*msg).msg_iov).iov_base.cast::<[u8; 4]>().write(*b"lose"));
    });
    let _ = ground.two.done(&ground.two.a);
    ground.settle();
    assert_eq!(&ground.region()[..4], b"keep");
    ground.close();
}

/// More than inject_size bytes cannot be injected.
fn too_much_cannot_be_injected(stage) {
    let ground = Ground::new(stage, BOTH);
    let two = &ground.two;
    let bytes = vec![0; c!((*ground.world.info.first().tx_attr).inject_size) + 1];
    let code = c!(fi_inject_write(two.a.ep, bytes.as_ptr().cast(), bytes.len(), two.to_b, ground.base, ground.key()));
    assert!(code < 0, "{code}");
    ground.close();
}

/// The flag FI_REMOTE_CQ_DATA sends the data of the message.
fn a_flag_sends_remote_data(stage) {
    let ground = Ground::new(stage, BOTH);
    let targets = [ground.target(0, 2)];
    ground.message(b"hi", &targets, 0xBEE, |two, msg| {
        two.start(|| c!(fi_writemsg(two.a.ep, msg, FI_REMOTE_CQ_DATA | FI_COMPLETION)));
    });
    let done = ground.two.done(&ground.two.b);
    assert_eq!((done.data, done.flags & FI_REMOTE_CQ_DATA), (0xBEE, FI_REMOTE_CQ_DATA));
    ground.close();
}

/// An injected write may have remote data; it has no completion at its initiator.
fn an_injected_write_may_tell_data(stage) {
    let ground = Ground::new(stage, BOTH);
    let two = &ground.two;
    let byte = two.a.traffic.buffer(b"i");
    let (at, key) = (ground.base, ground.key());
    two.start(|| c!(fi_inject_writedata(two.a.ep, byte.cast(), 1, 0xDA7A, two.to_b, at, key)));
    c!(*byte = b'-');
    let done = two.done(&two.b);
    assert_eq!((done.data, done.flags & FI_REMOTE_CQ_DATA), (0xDA7A, FI_REMOTE_CQ_DATA));
    assert_eq!(ground.region()[0], b'i');
    assert!(two.a.read().is_none());
    ground.close();
}

/// What was written is in memory before its data is told.
fn data_is_told_behind_the_write(stage) {
    let ground = Ground::new(stage, BOTH);
    let two = &ground.two;
    for round in 0..5_u8 {
        let place = two.a.traffic.buffer(&vec![round; 300_000]);
        let (context, at, key) = (two.a.traffic.context(), ground.base, ground.key());
        two.start(|| c!(fi_writedata(two.a.ep, place.cast(), 300_000, null_mut(), 1, two.to_b, at, key, context)));
        let _ = two.done(&two.b);
        assert!(ground.region()[..300_000].iter().all(|&byte| byte == round));
        let _ = two.done(&two.a);
    }
    ground.close();
}

/// A write with FI_DELIVERY_COMPLETE is in memory when it completes.
fn a_delivered_write_is_there(stage) {
    let ground = Ground::delivering(stage, BOTH);
    for len in [1, 5000, 500_000] {
        let bytes: Vec<u8> = (0..len).map(|at| (at + len) as u8).collect();
        ground.write(&bytes, 0, ground.key());
        let _ = ground.two.done(&ground.two.a);
        assert!(ground.region()[..len] == bytes);
    }
    ground.close();
}

/// A write with FI_COMMIT_COMPLETE to a region in persistent memory (FI_RMA_PMEM) is there when it completes.
fn a_committed_write_is_there(stage) {
    let mut hints = stage.hints();
    hints.first_mut().caps |= ACCESS | FI_RMA_PMEM;
    c!((*hints.first().tx_attr).op_flags = FI_COMMIT_COMPLETE);
    let Ok(info) = stage.try_query(&hints, None, 0) else {
        assert_ne!(stage.provider, "tcp");
        return;
    };
    let ground = Ground::with(World::of(stage, info), BOTH);
    let len = 300_001;
    let place = ground.two.b.traffic.buffer(&vec![0; len]);
    let mut mr = null_mut();
    let domain = ground.world.domain;
    let code = c!(fi_mr_reg(domain, place.cast(), len, BOTH, 0, 9, FI_RMA_PMEM, &mut mr, null_mut()));
    assert_eq!(code, 0);
    for len in [1, 5000, len] {
        let bytes: Vec<u8> = (0..len).map(|at| (at + len) as u8).collect();
        let (from, context) = (ground.two.a.traffic.buffer(&bytes), ground.two.a.traffic.context());
        let (two, at, key) = (&ground.two, ground.world.remote(place), c!(fi_mr_key(mr)));
        two.start(|| c!(fi_write(two.a.ep, from.cast(), len, null_mut(), two.to_b, at, key, context)));
        let _ = two.done(&two.a);
        assert!(c!(core::slice::from_raw_parts(place, len)) == bytes);
    }
    assert_eq!(close(mr), 0);
    ground.close();
}

/// A fenced write replaces the results of what was posted before it.
fn a_fenced_write_is_the_last(stage) {
    let world = World::with(stage, |hints| hints.caps |= ACCESS | FI_FENCE);
    let ground = Ground::with(world, BOTH);
    ground.write(&vec![1; 700_000], 0, ground.key());
    let targets = [ground.target(0, 4)];
    ground.message(b"last", &targets, 0, |two, msg| {
        two.start(|| c!(fi_writemsg(two.a.ep, msg, FI_FENCE | FI_COMPLETION | FI_DELIVERY_COMPLETE)));
    });
    let _ = (ground.two.done(&ground.two.a), ground.two.done(&ground.two.a));
    assert_eq!(&ground.region()[..5], b"last\x01");
    ground.close();
}

/// With FI_ORDER_WAW a later write wins.
fn writes_keep_their_order(stage) {
    let Some(ground) = Ground::ordered(stage, FI_ORDER_WAW) else {
        return;
    };
    let size = c!((*ground.world.info.first().ep_attr).max_order_waw_size).min(1000);
    for round in 0..50_u8 {
        ground.write(&vec![round; size.max(1)], 0, ground.key());
    }
    for _ in 0..50 {
        let _ = ground.two.done(&ground.two.a);
    }
    ground.settle();
    assert_eq!(ground.region()[0], 49);
    ground.close();
}

/// With FI_ORDER_RAW a read sees the writes before it.
fn reads_see_earlier_writes(stage) {
    let Some(ground) = Ground::ordered(stage, FI_ORDER_RAW) else {
        return;
    };
    for round in 0..50_u8 {
        ground.write(&[round], 0, ground.key());
        let place = ground.read(1, 0, ground.key());
        let _ = (ground.two.done(&ground.two.a), ground.two.done(&ground.two.a));
        assert_eq!(c!(*place), round);
    }
    ground.close();
}

/// With FI_ORDER_SAW a message is received behind the writes before it.
fn messages_come_behind_earlier_writes(stage) {
    let Some(ground) = Ground::ordered(stage, FI_ORDER_SAW) else {
        return;
    };
    for round in 0..20_u8 {
        let _posted = ground.two.b.recv(1);
        ground.write(&vec![round; 100_000], 0, ground.key());
        ground.two.send(b"s");
        let _ = ground.two.done(&ground.two.b);
        assert!(ground.region()[..100_000].iter().all(|&byte| byte == round));
        let _ = (ground.two.done(&ground.two.a), ground.two.done(&ground.two.a));
    }
    ground.close();
}

/// With FI_ORDER_WAS a write takes effect behind the messages before it.
fn writes_come_behind_earlier_messages(stage) {
    let Some(ground) = Ground::ordered(stage, FI_ORDER_WAS) else {
        return;
    };
    let two = &ground.two;
    for round in 0..20_u8 {
        let posted = two.b.recv(1);
        two.send(&[round]);
        let place = two.a.traffic.buffer(&vec![round; 100_000]);
        let (at, key, context) = (ground.base, ground.key(), two.a.traffic.context());
        two.start(|| c!(fi_writedata(two.a.ep, place.cast(), 100_000, null_mut(), 1, two.to_b, at, key, context)));
        assert_eq!(two.done(&two.b).op_context, posted.context);
        assert_eq!(posted.bytes(), [round]);
        assert_eq!(two.done(&two.b).data, 1);
        let _ = (two.done(&two.a), two.done(&two.a));
    }
    ground.close();
}

/// With FI_ORDER_RAS a read takes its data behind the messages before it.
fn reads_come_behind_earlier_messages(stage) {
    let Some(ground) = Ground::ordered(stage, FI_ORDER_RAS) else {
        return;
    };
    for len in [1, 200_000] {
        let posted = ground.two.b.recv(1);
        ground.two.send(b"s");
        let place = ground.read(len, 0, ground.key());
        let _ = (ground.two.done(&ground.two.a), ground.two.done(&ground.two.a));
        assert_eq!(ground.two.done(&ground.two.b).op_context, posted.context);
        assert_eq!((posted.bytes(), c!(*place)), (&b"s"[..], 0x55));
    }
    ground.close();
}

/// With selective completions, writes and reads without FI_COMPLETION write none, and failures do.
fn completions_may_be_selected(stage) {
    let world = World::with(stage, |hints| hints.caps |= ACCESS);
    let a = world.end_with(FI_SEND | FI_RECV | FI_SELECTIVE_COMPLETION, |_| {});
    let two = Two::of(a, world.end());
    let ground = Ground::of(world, two, BOTH);
    ground.write(b"silent", 0, ground.key());
    let _ = ground.read(6, 0, ground.key());
    let targets = [ground.target(0, 4)];
    let context = ground.message(b"told", &targets, 0, |two, msg| {
        two.start(|| c!(fi_writemsg(two.a.ep, msg, FI_COMPLETION)));
        c!((*msg).context)
    });
    assert_eq!(ground.two.done(&ground.two.a).op_context, context);
    assert!(ground.two.a.read().is_none());
    let _ = ground.read(1, 0, ground.key() ^ 0xFFFF);
    let _ = ground.two.failed(&ground.two.a);
    ground.close();
}

/// An endpoint accesses its own memory.
fn an_endpoint_accesses_itself(stage) {
    let ground = Ground::new(stage, BOTH);
    let two = &ground.two;
    let me = two.b.knows(&two.b);
    let (place, context) = (two.b.traffic.buffer(b"self"), two.b.traffic.context());
    let (at, key) = (ground.base, ground.key());
    two.start(|| c!(fi_write(two.b.ep, place.cast(), 4, null_mut(), me, at, key, context)));
    assert_eq!(two.done(&two.b).op_context, context);
    let (seen, context) = (two.b.traffic.buffer(b"----"), two.b.traffic.context());
    two.start(|| c!(fi_read(two.b.ep, seen.cast(), 4, null_mut(), me, at, key, context)));
    assert_eq!(two.done(&two.b).op_context, context);
    assert_eq!(c!(core::slice::from_raw_parts(seen, 4)), b"self");
    ground.close();
}

/// Counters of reads and writes count what the endpoint began.
fn access_is_counted(stage) {
    let world = World::with(stage, |hints| hints.caps |= ACCESS);
    let (written, read) = (world.cntr(FI_WAIT_UNSPEC), world.cntr(FI_WAIT_UNSPEC));
    let a = world.end_with(FI_SEND | FI_RECV, |ep| {
        assert_eq!((bind(ep, written, FI_WRITE), bind(ep, read, FI_READ)), (0, 0));
    });
    let two = Two::of(a, world.end());
    let ground = Ground::of(world, two, BOTH);
    ground.write(b"one", 0, ground.key());
    let _ = ground.two.done(&ground.two.a);
    for _ in 0..2 {
        let _ = ground.read(1, 0, ground.key());
        let _ = ground.two.done(&ground.two.a);
    }
    assert_eq!((c!(fi_cntr_read(written)), c!(fi_cntr_read(read))), (1, 2));
    let _ = ground.read(1, 0, ground.key() ^ 0xFFFF);
    let _ = ground.two.failed(&ground.two.a);
    assert_eq!((c!(fi_cntr_readerr(written)), c!(fi_cntr_readerr(read))), (0, 1));
    ground.close_with(|| assert_eq!((close(written), close(read)), (0, 0)));
}

/// With FI_RMA_EVENT, counters of remote reads and writes count what others did.
fn access_by_others_is_counted(stage) {
    let world = World::with(stage, |hints| hints.caps |= ACCESS | FI_RMA_EVENT);
    let (written, read) = (world.cntr(FI_WAIT_UNSPEC), world.cntr(FI_WAIT_UNSPEC));
    let b = world.end_with(FI_SEND | FI_RECV, |ep| {
        let bound = (bind(ep, written, FI_REMOTE_WRITE), bind(ep, read, FI_REMOTE_READ));
        assert_eq!(bound, (0, 0));
    });
    let two = Two::of(world.end(), b);
    let ground = Ground::of(world, two, BOTH);
    ground.write(b"one", 0, ground.key());
    ground.write(b"two", 0, ground.key());
    let _ = (ground.two.done(&ground.two.a), ground.two.done(&ground.two.a));
    ground.settle();
    let begun = std::time::Instant::now();
    while (c!(fi_cntr_read(written)), c!(fi_cntr_read(read))) != (2, 1) {
        assert!(begun.elapsed() < crate::traffic::PATIENCE);
        ground.two.progress(&ground.two.b);
        ground.two.progress(&ground.two.a);
    }
    ground.close_with(|| assert_eq!((close(written), close(read)), (0, 0)));
}

/// Without the capability FI_RMA memory is not accessed.
fn access_needs_the_capability(stage) {
    let world = World::new(stage);
    let two = world.two();
    let (place, context) = (two.a.traffic.buffer(b"x"), two.a.traffic.context());
    assert!(c!(fi_write(two.a.ep, place.cast(), 1, null_mut(), two.to_b, 0, 0, context)) < 0);
}
}
