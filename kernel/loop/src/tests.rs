//! Endpoints of the provider through the C tables, in threads of a program: what takes luck in a guest is tried often here.

mod world;

use core::ffi::c_void;
use core::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use oxifabric_abi::{
    FI_REMOTE_CQ_DATA, FI_REMOTE_READ, FI_REMOTE_WRITE, fi_close, fi_mr_reg, fi_read, fi_recv,
    fi_send, fi_writedata,
};

use world::{Buffer, Endpoint, World, done};

/// Messages of each test with threads.
const MESSAGES: usize = 300;

#[test]
fn messages_of_all_lengths_arrive_on_every_path() {
    let world = World::new(1024);
    let (left, right) = (Endpoint::new(&world), Endpoint::new(&world));
    let to = world.number_of(&right);
    for len in [0, 1, 4096, 4097, 16_384, 16_385, 100_000] {
        for is_late in [false, true] {
            let (from, into) = (Buffer::filled(len, 5), Buffer::filled(len, 0));
            let receive = || right.receive(&into, 7);
            if !is_late {
                receive();
            }
            left.send(&from, to, 3);
            if is_late {
                receive();
            }
            assert_eq!(done(&right), (7, len));
            assert_eq!(done(&left).0, 3);
            assert!(into.is_filled(5), "{len} bytes, late: {is_late}");
        }
    }
}

#[test]
fn two_threads_send_to_each_other_at_once() {
    let world = World::new(1024);
    let (left, right) = (Endpoint::new(&world), Endpoint::new(&world));
    let (to_left, to_right) = (world.number_of(&left), world.number_of(&right));
    let play = |own: &Endpoint, peer: u64| {
        for round in 0..MESSAGES {
            let len = [10, 5000, 20_000][round % 3];
            let (from, into) = (Buffer::filled(len, round as u8), Buffer::filled(len, 0));
            own.receive(&into, 1);
            own.send(&from, peer, 2);
            let (first, second) = (done(own).0, done(own).0);
            assert_eq!(first + second, 3, "one receive, one send");
            assert!(into.is_filled(round as u8), "round {round}");
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| play(&left, to_right));
        scope.spawn(|| play(&right, to_left));
    });
}

#[test]
fn endpoints_close_while_messages_are_under_way() {
    let world = World::new(1024);
    let peer = Endpoint::new(&world);
    let to = world.number_of(&peer);
    let is_over = AtomicBool::new(false);
    let long = Buffer::filled(50_000, 1);
    thread::scope(|scope| {
        scope.spawn(|| {
            let into = Buffer::filled(50_000, 0);
            while !is_over.load(Ordering::Relaxed) {
                // Whatever comes of it: a message, or the end of the endpoint that it was from.
                peer.receive_if_there_is_room(&into);
                peer.drain();
            }
        });
        for _ in 0..MESSAGES / 4 {
            let brief = Endpoint::new(&world);
            brief.send(&long, to, 9);
            brief.send(&long, to, 9);
            drop(brief);
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_full_queue_holds_peers_up_and_loses_nothing() {
    const SIZE: usize = 8;
    let world = World::new(SIZE);
    let (left, right) = (Endpoint::new(&world), Endpoint::new(&world));
    let to = world.number_of(&right);
    let region = Buffer::filled(64, 0);
    let access = FI_REMOTE_READ | FI_REMOTE_WRITE;
    let mut mr = ptr::null_mut();
    let buf = region.as_ptr();
    // SAFETY: the domain is open, and the memory outlives the registration.
    unsafe {
        let status = fi_mr_reg(
            world.domain,
            buf,
            64,
            access,
            0,
            1,
            0,
            &mut mr,
            ptr::null_mut(),
        );
        assert_eq!(status, 0);
    }
    let mut written = 0;
    let mut seen = 0;
    while seen < MESSAGES {
        if written < MESSAGES {
            // SAFETY: the endpoint is open, and the buffer is valid until the completion.
            let status = unsafe {
                let (ep, context) = (left.ep, ptr::null_mut::<c_void>());
                fi_writedata(ep, buf, 8, context, written as u64, to, 0, 1, context)
            };
            if status == 0 {
                written += 1;
            }
        }
        left.drain();
        // The reader is slow: one for each that is written.
        if let Some(entry) = right.try_read(if written == MESSAGES { 10_000 } else { 0 }) {
            assert_ne!(entry.flags & FI_REMOTE_CQ_DATA, 0);
            assert_eq!(entry.data, seen as u64, "in order, and none is lost");
            seen += 1;
        }
    }
    // SAFETY: it is open, and no access is under way.
    assert_eq!(unsafe { fi_close(mr.cast()) }, 0);
}

#[test]
fn a_region_closes_while_a_peer_reads_it() {
    let world = World::new(1024);
    let (left, right) = (Endpoint::new(&world), Endpoint::new(&world));
    let to = world.number_of(&right);
    let into = Buffer::filled(100_000, 0);
    for _ in 0..MESSAGES / 4 {
        let region = Buffer::filled(100_000, 6);
        let (null, mut mr) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: all are open, and the buffers are valid until the region is closed and the read has ended.
        unsafe {
            let (buf, access) = (region.as_ptr(), FI_REMOTE_READ);
            let status = fi_mr_reg(world.domain, buf, 100_000, access, 0, 1, 0, &mut mr, null);
            assert_eq!(status, 0);
            assert_eq!(
                fi_read(left.ep, into.as_mut_ptr(), 100_000, null, to, 0, 1, null),
                0
            );
            assert_eq!(
                fi_close(mr.cast()),
                0,
                "it waits until the read has what it needs"
            );
        }
        // The memory is gone: nothing may read it any more.
        drop(region);
        match left.try_read(10_000) {
            Some(_) => assert!(into.is_filled(6)),
            None => assert_ne!(left.drain(), 0, "the read ends, well or not"),
        }
    }
}

#[test]
fn posts_beyond_the_queue_are_refused_until_it_is_read() {
    let world = World::new(4);
    let (left, right) = (Endpoint::new(&world), Endpoint::new(&world));
    let (to, buffer) = (world.number_of(&right), Buffer::filled(8, 0));
    let null = ptr::null_mut::<c_void>();
    // SAFETY: the endpoints are open, and the buffer outlives them.
    unsafe {
        let post = || fi_send(left.ep, buffer.as_ptr(), 8, null, to, null);
        assert_eq!([post(), post(), post(), post(), post()], [0, 0, 0, 0, -11]);
        assert!(left.try_read(10_000).is_some());
        assert_eq!([post(), post()], [0, -11]);
        let receive = || fi_recv(right.ep, buffer.as_mut_ptr(), 8, null, u64::MAX, null);
        assert_eq!([receive(), receive(), receive(), receive()], [0; 4]);
    }
}
