//! Access to the memory of peers.

use core::ptr::null_mut;
use std::time::Instant;

use oxifabric_abi::*;
use oxifabric_fixtures::fixture::{Fixture, Pair, bind, close};
use oxifabric_fixtures::rma_fixture::{ACCESS, BOTH, RmaFixture};
use oxifabric_fixtures::traffic::TIMEOUT;
use oxifabric_fixtures::{c, refused};

use crate::requirements;

/// Returns a piece of a buffer.
const fn iov(place: *mut u8, len: usize) -> libc::iovec {
    libc::iovec {
        iov_base: place.cast(),
        iov_len: len,
    }
}

requirements! { "fi_rma(3)";

/// A write changes the bytes that it names and no others.
fn a_write_changes_what_it_names(subject) {
    let rma = RmaFixture::new(subject, BOTH);
    rma.write(b"written", 100, rma.key());
    let done = rma.pair.done(&rma.pair.a);
    assert_eq!(done.flags & (FI_RMA | FI_WRITE), FI_RMA | FI_WRITE);
    // A read behind the write shows that it arrived.
    let place = rma.read(9, 99, rma.key());
    let _ = rma.pair.done(&rma.pair.a);
    let seen = c!(core::slice::from_raw_parts(place, 9));
    assert_eq!(seen, b"\x55written\x55");
    assert_eq!(&rma.region()[99..108], b"\x55written\x55");
    rma.close();
}

/// A read gives what the peer's memory holds, whatever the length.
fn reads_of_every_length_are_right(subject) {
    let rma = RmaFixture::new(subject, BOTH);
    for len in [1_usize, 33, 4097, 300_000] {
        let place = rma.read(len, 5, rma.key());
        let done = rma.pair.done(&rma.pair.a);
        assert_eq!(done.flags & (FI_RMA | FI_READ), FI_RMA | FI_READ);
        let seen = c!(core::slice::from_raw_parts(place, len));
        assert!(seen.iter().all(|&byte| byte == 0x55));
    }
    rma.close();
}

/// An endpoint that receives no messages needs no queue for receives; its other queue drives it.
fn accesses_need_no_queue_for_receives(subject) {
    let fixture = Fixture::with(subject, |hints| hints.caps = ACCESS);
    let pair = Pair::of(fixture.end_with(FI_TRANSMIT, |_| {}), fixture.end_with(FI_TRANSMIT, |_| {}));
    let rma = RmaFixture::of(fixture, pair, BOTH);
    rma.write(b"written", 100, rma.key());
    let _ = rma.pair.done(&rma.pair.a);
    let place = rma.read(9, 99, rma.key());
    let _ = rma.pair.done(&rma.pair.a);
    assert_eq!(c!(core::slice::from_raw_parts(place, 9)), b"\x55written\x55");
    rma.close();
}

/// An endpoint that receives no messages, but reads and writes, needs a queue or counter for that: -FI_ENOCQ.
fn accesses_need_a_queue(subject) {
    let fixture = Fixture::with(subject, |hints| hints.caps = ACCESS);
    let (ep, av, cq) = (fixture.bare(), fixture.av(), fixture.cq(|_| {}));
    assert_eq!((bind(ep, av, 0), c!(fi_enable(ep))), (0, -FI_ENOCQ));
    assert_eq!((bind(ep, cq, FI_RECV), c!(fi_enable(ep))), (0, -FI_ENOCQ));
    assert_eq!((close(ep), close(cq), close(av)), (0, 0, 0));
}

/// Long writes arrive whole.
fn long_writes_arrive_whole(subject) {
    let rma = RmaFixture::new(subject, BOTH);
    let bytes: Vec<u8> = (0..rma.len).map(|at| (at * 13) as u8).collect();
    rma.write(&bytes, 0, rma.key());
    let _ = rma.pair.done(&rma.pair.a);
    let _ = rma.read(1, 0, rma.key());
    let _ = rma.pair.done(&rma.pair.a);
    assert!(rma.region() == bytes);
    rma.close();
}

/// A key that was not given fails a write with FI_DELIVERY_COMPLETE and changes nothing.
fn a_false_key_changes_nothing(subject) {
    let rma = RmaFixture::delivering(subject, BOTH);
    rma.write(b"forged", 0, rma.key() ^ 0xFFFF);
    let error = rma.pair.failed(&rma.pair.a);
    assert_eq!(error.err, FI_ENOKEY);
    assert!(rma.region().iter().all(|&byte| byte == 0x55));
    rma.close();
}

/// A write with FI_DELIVERY_COMPLETE beyond the region fails and changes nothing.
fn bounds_are_checked(subject) {
    let rma = RmaFixture::delivering(subject, BOTH);
    rma.write(b"beyond", rma.len as u64 - 3, rma.key());
    let error = rma.pair.failed(&rma.pair.a);
    assert_eq!(error.err, FI_EACCES);
    assert!(rma.region().iter().all(|&byte| byte == 0x55));
    rma.close();
}

/// A region that may only be read is not written; a write with FI_DELIVERY_COMPLETE fails.
fn rights_are_checked(subject) {
    let rma = RmaFixture::delivering(subject, FI_REMOTE_READ);
    rma.write(b"no", 0, rma.key());
    let error = rma.pair.failed(&rma.pair.a);
    assert_eq!(error.err, FI_EACCES);
    assert!(rma.region().iter().all(|&byte| byte == 0x55));
    rma.close();
}

/// A write with remote completion data tells the peer.
fn data_of_a_write_is_told(subject) {
    let rma = RmaFixture::new(subject, BOTH);
    let pair = &rma.pair;
    let (place, context) = (pair.a.traffic.buffer(b"w"), pair.a.traffic.context());
    let (at, key) = (rma.base, rma.key());
    pair.start(|| {
        c!(fi_writedata(pair.a.ep, place.cast(), 1, null_mut(), 0xDA7A, pair.to_b, at, key, context))
    });
    let done = pair.done(&pair.b);
    assert_eq!((done.data, done.flags & FI_REMOTE_CQ_DATA), (0xDA7A, FI_REMOTE_CQ_DATA));
    rma.close();
}

/// The peer is not told of a write without remote completion data.
fn a_plain_write_is_silent(subject) {
    let rma = RmaFixture::new(subject, BOTH);
    rma.write(b"silent", 0, rma.key());
    let _ = rma.pair.done(&rma.pair.a);
    let _ = rma.read(1, 0, rma.key());
    let _ = rma.pair.done(&rma.pair.a);
    assert!(rma.pair.b.read().is_none());
    rma.close();
}

/// The buffer of an injected write is free when the call returns, and there is no completion.
fn an_injected_write_is_silent(subject) {
    let rma = RmaFixture::new(subject, BOTH);
    let pair = &rma.pair;
    let byte = pair.a.traffic.buffer(&[1]);
    let (at, key) = (rma.base, rma.key());
    pair.start(|| c!(fi_inject_write(pair.a.ep, byte.cast(), 1, pair.to_b, at, key)));
    c!(*byte = 2);
    // Without FI_ORDER_RAW a read may overtake the write.
    let (begun, before) = (Instant::now(), rma.region()[0]);
    let read = loop {
        let place = rma.read(1, 0, rma.key());
        let done = pair.done(&pair.a);
        assert_eq!(done.flags & FI_READ, FI_READ);
        let read = c!(*place);
        if read != before || begun.elapsed() > TIMEOUT {
            break read;
        }
    };
    assert_eq!(read, 1);
    rma.close();
}

/// A read needs a key that was given, and leaves its buffer alone if it fails.
fn a_read_with_a_false_key_fails(subject) {
    let rma = RmaFixture::new(subject, BOTH);
    let place = rma.read(4, 0, rma.key() ^ 0xFFFF);
    rma.refused(FI_ENOKEY);
    assert_eq!(c!(core::slice::from_raw_parts(place, 4)), [0; 4]);
    rma.close();
}

/// A read beyond the region fails.
fn reads_are_bounded(subject) {
    let rma = RmaFixture::new(subject, BOTH);
    let _ = rma.read(8, rma.len as u64 - 7, rma.key());
    rma.refused(FI_EACCES);
    rma.close();
}

/// An address that wraps around is beyond the region.
fn addresses_do_not_wrap(subject) {
    let rma = RmaFixture::delivering(subject, BOTH);
    rma.write(b"wrapped", 0_u64.wrapping_sub(rma.base).wrapping_sub(3), rma.key());
    rma.refused(FI_EACCES);
    rma.close();
}

/// Data is gathered from several buffers.
fn a_write_is_gathered(subject) {
    let rma = RmaFixture::new(subject, BOTH);
    let pair = &rma.pair;
    let (one, other) = (pair.a.traffic.buffer(b"abc"), pair.a.traffic.buffer(b"de"));
    let pieces = [iov(one, 3), iov(other, 2)];
    let (context, at, key) = (pair.a.traffic.context(), rma.base, rma.key());
    pair.start(|| c!(fi_writev(pair.a.ep, pieces.as_ptr(), null_mut(), 2, pair.to_b, at, key, context)));
    assert_eq!(pair.done(&pair.a).op_context, context);
    rma.settle();
    assert_eq!(&rma.region()[..6], b"abcde\x55");
    rma.close();
}

/// Data is scattered into several buffers.
fn a_read_is_scattered(subject) {
    let rma = RmaFixture::new(subject, BOTH);
    rma.fill(b"12345");
    let pair = &rma.pair;
    let (one, other) = (pair.a.traffic.buffer(b"--"), pair.a.traffic.buffer(b"---"));
    let pieces = [iov(one, 2), iov(other, 3)];
    let (context, at, key) = (pair.a.traffic.context(), rma.base, rma.key());
    pair.start(|| c!(fi_readv(pair.a.ep, pieces.as_ptr(), null_mut(), 2, pair.to_b, at, key, context)));
    assert_eq!(pair.done(&pair.a).op_context, context);
    let seen = c!((core::slice::from_raw_parts(one, 2), core::slice::from_raw_parts(other, 3)));
    assert_eq!(seen, (b"12".as_slice(), b"345".as_slice()));
    rma.close();
}

/// A write names several places of the peer's memory, as many as rma_iov_limit.
fn a_write_goes_to_several_places(subject) {
    let rma = RmaFixture::new(subject, BOTH);
    let limit = c!((*rma.fixture.info.first().tx_attr).rma_iov_limit);
    let targets: Vec<_> = (0..limit as u64).map(|at| rma.target(at * 10, 2)).collect();
    let bytes: Vec<u8> = (0..limit * 2).map(|at| at as u8).collect();
    rma.message(&bytes, &targets, 0, |pair, msg| pair.start(|| c!(fi_writemsg(pair.a.ep, msg, FI_COMPLETION))));
    let _ = rma.pair.done(&rma.pair.a);
    rma.settle();
    for (at, pair) in bytes.chunks(2).enumerate() {
        assert_eq!(&rma.region()[at * 10..at * 10 + 3], [pair[0], pair[1], 0x55]);
    }
    rma.close();
}

/// More places than rma_iov_limit are refused.
fn too_many_places_are_refused(subject) {
    let rma = RmaFixture::new(subject, BOTH);
    let count = c!((*rma.fixture.info.first().tx_attr).rma_iov_limit) + 1;
    let targets: Vec<_> = (0..count as u64).map(|at| rma.target(at, 1)).collect();
    rma.message(&vec![0; count], &targets, 0, |pair, msg| {
        refused!(c!(fi_writemsg(pair.a.ep, msg, FI_COMPLETION)), FI_EINVAL);
    });
    rma.close();
}

/// A write of no bytes needs no buffers, completes, and changes nothing.
fn a_write_may_be_empty(subject) {
    let rma = RmaFixture::new(subject, BOTH);
    let pair = &rma.pair;
    let (context, at, key) = (pair.a.traffic.context(), rma.base, rma.key());
    pair.start(|| c!(fi_write(pair.a.ep, core::ptr::null(), 0, null_mut(), pair.to_b, at, key, context)));
    assert_eq!(pair.done(&pair.a).op_context, context);
    rma.settle();
    assert!(rma.region().iter().all(|&byte| byte == 0x55));
    rma.close();
}

/// With FI_INJECT the buffer of a write is free when the call returns, and it completes.
fn an_injecting_write_frees_its_buffer(subject) {
    let rma = RmaFixture::new(subject, BOTH);
    let targets = [rma.target(0, 4)];
    rma.message(b"keep", &targets, 0, |pair, msg| {
        pair.start(|| c!(fi_writemsg(pair.a.ep, msg, FI_INJECT | FI_COMPLETION)));
        c!((*(*msg).msg_iov).iov_base.cast::<[u8; 4]>().write(*b"lose"));
    });
    let _ = rma.pair.done(&rma.pair.a);
    rma.settle();
    assert_eq!(&rma.region()[..4], b"keep");
    rma.close();
}

/// More than inject_size bytes cannot be injected.
fn too_much_cannot_be_injected(subject) {
    let rma = RmaFixture::new(subject, BOTH);
    let pair = &rma.pair;
    let bytes = vec![0; c!((*rma.fixture.info.first().tx_attr).inject_size) + 1];
    let code = c!(fi_inject_write(pair.a.ep, bytes.as_ptr().cast(), bytes.len(), pair.to_b, rma.base, rma.key()));
    refused!(code, FI_EMSGSIZE);
    rma.close();
}

/// The flag FI_REMOTE_CQ_DATA sends the data of the message.
fn a_flag_sends_remote_data(subject) {
    let rma = RmaFixture::new(subject, BOTH);
    let targets = [rma.target(0, 2)];
    rma.message(b"hi", &targets, 0xBEE, |pair, msg| {
        pair.start(|| c!(fi_writemsg(pair.a.ep, msg, FI_REMOTE_CQ_DATA | FI_COMPLETION)));
    });
    let done = rma.pair.done(&rma.pair.b);
    assert_eq!((done.data, done.flags & FI_REMOTE_CQ_DATA), (0xBEE, FI_REMOTE_CQ_DATA));
    rma.close();
}

/// An injected write may have remote data; it has no completion at its initiator.
fn an_injected_write_may_tell_data(subject) {
    let rma = RmaFixture::new(subject, BOTH);
    let pair = &rma.pair;
    let byte = pair.a.traffic.buffer(b"i");
    let (at, key) = (rma.base, rma.key());
    pair.start(|| c!(fi_inject_writedata(pair.a.ep, byte.cast(), 1, 0xDA7A, pair.to_b, at, key)));
    c!(*byte = b'-');
    let done = pair.done(&pair.b);
    assert_eq!((done.data, done.flags & FI_REMOTE_CQ_DATA), (0xDA7A, FI_REMOTE_CQ_DATA));
    assert_eq!(rma.region()[0], b'i');
    assert!(pair.a.read().is_none());
    rma.close();
}

/// What was written is in memory before its data is told.
fn data_is_told_behind_the_write(subject) {
    let rma = RmaFixture::new(subject, BOTH);
    let pair = &rma.pair;
    for round in 0..5_u8 {
        let place = pair.a.traffic.buffer(&vec![round; 300_000]);
        let (context, at, key) = (pair.a.traffic.context(), rma.base, rma.key());
        pair.start(|| c!(fi_writedata(pair.a.ep, place.cast(), 300_000, null_mut(), 1, pair.to_b, at, key, context)));
        let _ = pair.done(&pair.b);
        assert!(rma.region()[..300_000].iter().all(|&byte| byte == round));
        let _ = pair.done(&pair.a);
    }
    rma.close();
}

/// A write with FI_DELIVERY_COMPLETE is in memory when it completes.
fn a_delivered_write_is_there(subject) {
    let rma = RmaFixture::delivering(subject, BOTH);
    for len in [1, 5000, 500_000] {
        let bytes: Vec<u8> = (0..len).map(|at| (at + len) as u8).collect();
        rma.write(&bytes, 0, rma.key());
        let _ = rma.pair.done(&rma.pair.a);
        assert!(rma.region()[..len] == bytes);
    }
    rma.close();
}

/// A write with FI_COMMIT_COMPLETE to a region in persistent memory (FI_RMA_PMEM) is there when it completes.
fn a_committed_write_is_there(subject) {
    let mut hints = subject.hints();
    hints.first_mut().caps |= ACCESS | FI_RMA_PMEM;
    c!((*hints.first().tx_attr).op_flags = FI_COMMIT_COMPLETE);
    let Ok(info) = subject.try_query(&hints, None, 0) else {
        assert_ne!(subject.provider, "tcp");
        return;
    };
    let rma = RmaFixture::with(Fixture::of(subject, info), BOTH);
    let len = 300_001;
    let place = rma.pair.b.traffic.buffer(&vec![0; len]);
    let mut mr = null_mut();
    let domain = rma.fixture.domain;
    let code = c!(fi_mr_reg(domain, place.cast(), len, BOTH, 0, 9, FI_RMA_PMEM, &mut mr, null_mut()));
    assert_eq!(code, 0);
    for len in [1, 5000, len] {
        let bytes: Vec<u8> = (0..len).map(|at| (at + len) as u8).collect();
        let (from, context) = (rma.pair.a.traffic.buffer(&bytes), rma.pair.a.traffic.context());
        let (pair, at, key) = (&rma.pair, rma.fixture.remote(place), c!(fi_mr_key(mr)));
        pair.start(|| c!(fi_write(pair.a.ep, from.cast(), len, null_mut(), pair.to_b, at, key, context)));
        let _ = pair.done(&pair.a);
        assert!(c!(core::slice::from_raw_parts(place, len)) == bytes);
    }
    assert_eq!(close(mr), 0);
    rma.close();
}

/// A fenced write replaces the results of what was posted before it.
fn a_fenced_write_is_the_last(subject) {
    let fixture = Fixture::with(subject, |hints| hints.caps |= ACCESS | FI_FENCE);
    let rma = RmaFixture::with(fixture, BOTH);
    rma.write(&vec![1; 700_000], 0, rma.key());
    let targets = [rma.target(0, 4)];
    rma.message(b"last", &targets, 0, |pair, msg| {
        pair.start(|| c!(fi_writemsg(pair.a.ep, msg, FI_FENCE | FI_COMPLETION | FI_DELIVERY_COMPLETE)));
    });
    let _ = (rma.pair.done(&rma.pair.a), rma.pair.done(&rma.pair.a));
    assert_eq!(&rma.region()[..5], b"last\x01");
    rma.close();
}

/// With FI_ORDER_WAW a later write wins.
fn writes_keep_their_order(subject) {
    let Some(rma) = RmaFixture::ordered(subject, FI_ORDER_WAW) else {
        return;
    };
    let size = c!((*rma.fixture.info.first().ep_attr).max_order_waw_size).min(1000);
    for round in 0..50_u8 {
        rma.write(&vec![round; size.max(1)], 0, rma.key());
    }
    for _ in 0..50 {
        let _ = rma.pair.done(&rma.pair.a);
    }
    rma.settle();
    assert_eq!(rma.region()[0], 49);
    rma.close();
}

/// With FI_ORDER_RAW a read sees the writes before it.
fn reads_see_earlier_writes(subject) {
    let Some(rma) = RmaFixture::ordered(subject, FI_ORDER_RAW) else {
        return;
    };
    for round in 0..50_u8 {
        rma.write(&[round], 0, rma.key());
        let place = rma.read(1, 0, rma.key());
        let _ = (rma.pair.done(&rma.pair.a), rma.pair.done(&rma.pair.a));
        assert_eq!(c!(*place), round);
    }
    rma.close();
}

/// With FI_ORDER_SAW a message is received behind the writes before it.
fn messages_come_behind_earlier_writes(subject) {
    let Some(rma) = RmaFixture::ordered(subject, FI_ORDER_SAW) else {
        return;
    };
    for round in 0..20_u8 {
        let _posted = rma.pair.b.recv(1);
        rma.write(&vec![round; 100_000], 0, rma.key());
        rma.pair.send(b"s");
        let _ = rma.pair.done(&rma.pair.b);
        assert!(rma.region()[..100_000].iter().all(|&byte| byte == round));
        let _ = (rma.pair.done(&rma.pair.a), rma.pair.done(&rma.pair.a));
    }
    rma.close();
}

/// With FI_ORDER_WAS a write takes effect behind the messages before it.
fn writes_come_behind_earlier_messages(subject) {
    let Some(rma) = RmaFixture::ordered(subject, FI_ORDER_WAS) else {
        return;
    };
    let pair = &rma.pair;
    for round in 0..20_u8 {
        let posted = pair.b.recv(1);
        pair.send(&[round]);
        let place = pair.a.traffic.buffer(&vec![round; 100_000]);
        let (at, key, context) = (rma.base, rma.key(), pair.a.traffic.context());
        pair.start(|| c!(fi_writedata(pair.a.ep, place.cast(), 100_000, null_mut(), 1, pair.to_b, at, key, context)));
        assert_eq!(pair.done(&pair.b).op_context, posted.context);
        assert_eq!(posted.bytes(), [round]);
        assert_eq!(pair.done(&pair.b).data, 1);
        let _ = (pair.done(&pair.a), pair.done(&pair.a));
    }
    rma.close();
}

/// With FI_ORDER_RAS a read takes its data behind the messages before it.
fn reads_come_behind_earlier_messages(subject) {
    let Some(rma) = RmaFixture::ordered(subject, FI_ORDER_RAS) else {
        return;
    };
    for len in [1, 200_000] {
        let posted = rma.pair.b.recv(1);
        rma.pair.send(b"s");
        let place = rma.read(len, 0, rma.key());
        let _ = (rma.pair.done(&rma.pair.a), rma.pair.done(&rma.pair.a));
        assert_eq!(rma.pair.done(&rma.pair.b).op_context, posted.context);
        assert_eq!((posted.bytes(), c!(*place)), (&b"s"[..], 0x55));
    }
    rma.close();
}

/// With selective completions, writes and reads without FI_COMPLETION write none, and failures do.
fn completions_may_be_selected(subject) {
    let fixture = Fixture::with(subject, |hints| hints.caps |= ACCESS);
    let a = fixture.end_with(FI_SEND | FI_RECV | FI_SELECTIVE_COMPLETION, |_| {});
    let pair = Pair::of(a, fixture.end());
    let rma = RmaFixture::of(fixture, pair, BOTH);
    rma.write(b"silent", 0, rma.key());
    let _ = rma.read(6, 0, rma.key());
    let targets = [rma.target(0, 4)];
    let context = rma.message(b"told", &targets, 0, |pair, msg| {
        pair.start(|| c!(fi_writemsg(pair.a.ep, msg, FI_COMPLETION)));
        c!((*msg).context)
    });
    assert_eq!(rma.pair.done(&rma.pair.a).op_context, context);
    assert!(rma.pair.a.read().is_none());
    let _ = rma.read(1, 0, rma.key() ^ 0xFFFF);
    let _ = rma.pair.failed(&rma.pair.a);
    rma.close();
}

/// An endpoint accesses its own memory.
fn an_endpoint_accesses_itself(subject) {
    let rma = RmaFixture::new(subject, BOTH);
    let pair = &rma.pair;
    let me = pair.b.knows(&pair.b);
    let (place, context) = (pair.b.traffic.buffer(b"self"), pair.b.traffic.context());
    let (at, key) = (rma.base, rma.key());
    pair.start(|| c!(fi_write(pair.b.ep, place.cast(), 4, null_mut(), me, at, key, context)));
    assert_eq!(pair.done(&pair.b).op_context, context);
    let (seen, context) = (pair.b.traffic.buffer(b"----"), pair.b.traffic.context());
    pair.start(|| c!(fi_read(pair.b.ep, seen.cast(), 4, null_mut(), me, at, key, context)));
    assert_eq!(pair.done(&pair.b).op_context, context);
    assert_eq!(c!(core::slice::from_raw_parts(seen, 4)), b"self");
    rma.close();
}

/// Counters of reads and writes count what the endpoint began.
fn access_is_counted(subject) {
    let fixture = Fixture::with(subject, |hints| hints.caps |= ACCESS);
    let (written, read) = (fixture.cntr(FI_WAIT_UNSPEC), fixture.cntr(FI_WAIT_UNSPEC));
    let a = fixture.end_with(FI_SEND | FI_RECV, |ep| {
        assert_eq!((bind(ep, written, FI_WRITE), bind(ep, read, FI_READ)), (0, 0));
    });
    let pair = Pair::of(a, fixture.end());
    let rma = RmaFixture::of(fixture, pair, BOTH);
    rma.write(b"one", 0, rma.key());
    let _ = rma.pair.done(&rma.pair.a);
    for _ in 0..2 {
        let _ = rma.read(1, 0, rma.key());
        let _ = rma.pair.done(&rma.pair.a);
    }
    assert_eq!((c!(fi_cntr_read(written)), c!(fi_cntr_read(read))), (1, 2));
    let _ = rma.read(1, 0, rma.key() ^ 0xFFFF);
    let _ = rma.pair.failed(&rma.pair.a);
    assert_eq!((c!(fi_cntr_readerr(written)), c!(fi_cntr_readerr(read))), (0, 1));
    rma.close_with(|| assert_eq!((close(written), close(read)), (0, 0)));
}

/// With FI_RMA_EVENT, counters of remote reads and writes count what others did.
fn access_by_others_is_counted(subject) {
    let fixture = Fixture::with(subject, |hints| hints.caps |= ACCESS | FI_RMA_EVENT);
    let (written, read) = (fixture.cntr(FI_WAIT_UNSPEC), fixture.cntr(FI_WAIT_UNSPEC));
    let b = fixture.end_with(FI_SEND | FI_RECV, |ep| {
        let bound = (bind(ep, written, FI_REMOTE_WRITE), bind(ep, read, FI_REMOTE_READ));
        assert_eq!(bound, (0, 0));
    });
    let pair = Pair::of(fixture.end(), b);
    let rma = RmaFixture::of(fixture, pair, BOTH);
    rma.write(b"one", 0, rma.key());
    rma.write(b"two", 0, rma.key());
    let _ = (rma.pair.done(&rma.pair.a), rma.pair.done(&rma.pair.a));
    rma.settle();
    let begun = std::time::Instant::now();
    while (c!(fi_cntr_read(written)), c!(fi_cntr_read(read))) != (2, 1) {
        assert!(begun.elapsed() < oxifabric_fixtures::traffic::TIMEOUT);
        rma.pair.progress(&rma.pair.b);
        rma.pair.progress(&rma.pair.a);
    }
    rma.close_with(|| assert_eq!((close(written), close(read)), (0, 0)));
}

/// Without the capability FI_RMA memory is not accessed.
fn access_needs_the_capability(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let (place, context) = (pair.a.traffic.buffer(b"x"), pair.a.traffic.context());
    refused!(c!(fi_write(pair.a.ep, place.cast(), 1, null_mut(), pair.to_b, 0, 0, context)), FI_ENOSYS);
}
}
