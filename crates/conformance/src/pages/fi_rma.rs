//! Access to the memory of peers.

use core::ptr::null_mut;

use oxifabric_abi::*;

use crate::ground::{BOTH, Ground};
use crate::{c, sentences};

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
}
