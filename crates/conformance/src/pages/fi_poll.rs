//! Waiting on descriptors.

use core::ffi::c_int;

use oxifabric_abi::*;

use crate::traffic::PATIENCE;
use crate::world::{World, close};
use crate::{c, sentences};

/// Tells whether a descriptor is readable, now or within the time.
fn readable(fd: c_int, timeout_ms: c_int) -> bool {
    let mut poll = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    c!(libc::poll(&mut poll, 1, timeout_ms)) == 1
}

sentences! { "fi_poll(3)";

/// A program may sleep on the descriptors of empty queues.
fn empty_queues_may_be_slept_on(stage) {
    let world = World::new(stage);
    let (cq, eq) = (world.cq(|_| {}), world.eq());
    let mut fids = [cq.cast(), eq.cast()];
    assert_eq!(c!(fi_trywait(world.fabric, fids.as_mut_ptr(), 2)), 0);
    assert_eq!((close(cq), close(eq)), (0, 0));
}

/// A program may not sleep while a queue has something to read: -FI_EAGAIN.
fn a_full_queue_must_not_be_slept_on(stage) {
    let world = World::new(stage);
    let eq = world.eq();
    let entry = fi_eq_entry::ZERO;
    let written = c!(fi_eq_write(eq, FI_NOTIFY, (&raw const entry).cast(), size_of_val(&entry), 0));
    assert_eq!(written, size_of_val(&entry) as isize);
    let mut fids = [eq.cast()];
    assert_eq!(c!(fi_trywait(world.fabric, fids.as_mut_ptr(), 1)), -FI_EAGAIN);
    assert_eq!(close(eq), 0);
}

/// A message that arrives while a program sleeps makes the descriptor readable.
fn an_arrival_wakes_a_sleeper(stage) {
    let world = World::new(stage);
    let two = world.two();
    // The first message connects; the one that is slept for comes over a quiet connection.
    let _first = two.b.recv(8);
    two.send(b"x");
    let _ = (two.done(&two.a), two.done(&two.b));
    let _posted = two.b.recv(8);
    let mut fd: c_int = -1;
    assert_eq!(c!(fi_control(two.b.cq.cast(), FI_GETWAIT, (&raw mut fd).cast())), 0);
    let mut fids = [two.b.cq.cast()];
    let begun = std::time::Instant::now();
    while c!(fi_trywait(world.fabric, fids.as_mut_ptr(), 1)) != 0 {
        assert!(begun.elapsed() < PATIENCE);
        two.progress(&two.b);
    }
    two.send(b"y");
    assert!(readable(fd, PATIENCE.as_millis() as c_int));
    let _ = two.done(&two.b);
}

/// What cannot be waited for is refused.
fn a_queue_without_a_descriptor_is_refused(stage) {
    let world = World::new(stage);
    let cq = world.cq(|attr| attr.wait_obj = FI_WAIT_NONE);
    let mut fids = [cq.cast()];
    assert!(c!(fi_trywait(world.fabric, fids.as_mut_ptr(), 1)) < 0);
    assert_eq!(close(cq), 0);
}
}
