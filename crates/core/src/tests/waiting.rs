//! Blocking reads, wait objects and counters through their tables.

use core::ffi::c_int;
use core::ptr::null_mut;
use std::thread;

use oxifabric_abi::*;

use super::world::{End, World, bind, c, close, nothing};

const TAGGED: fi_cq_format = FI_CQ_FORMAT_TAGGED;
const AGAIN: isize = -(FI_EAGAIN as isize);

/// Longer than any test takes.
const LONG_MS: c_int = 60_000;

fn sread(end: &End, count: usize, cond: usize, timeout_ms: c_int) -> isize {
    let mut entries = [fi_cq_tagged_entry::ZERO; 4];
    assert!(count <= entries.len());
    c!(fi_cq_sread(
        end.cq,
        entries.as_mut_ptr().cast(),
        count,
        core::ptr::without_provenance(cond),
        timeout_ms
    ))
}

pub(super) fn descriptor<T>(handle: *mut T) -> c_int {
    let mut fd: c_int = -1;
    let got = c!(fi_control(handle.cast(), FI_GETWAIT, (&raw mut fd).cast()));
    assert_eq!(got, 0);
    fd
}

pub(super) fn readable(fd: c_int, timeout_ms: c_int) -> bool {
    let mut poll = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    c!(libc::poll(&mut poll, 1, timeout_ms)) == 1
}

pub(super) fn trywait<T>(world: &World, handle: *mut T) -> c_int {
    let mut fids = [handle.cast::<fid>()];
    c!(fi_trywait(world.fabric, fids.as_mut_ptr(), 1))
}

#[test]
fn a_sleeper_is_woken_by_a_message() {
    let world = World::new();
    let (a, b) = (
        world.end(TAGGED, FI_WAIT_NONE),
        world.end(TAGGED, FI_WAIT_FD),
    );
    let to_b = a.knows(&b);
    for _ in 0..20 {
        let mut into = [0u8; 4];
        b.recv(&mut into, 1);
        thread::scope(|scope| {
            let sleeper = scope.spawn(|| sread(&b, 1, 0, LONG_MS));
            assert_eq!(a.send(to_b, b"x", 0), 0);
            assert_eq!(sleeper.join().ok(), Some(1));
        });
        a.next();
    }
}

#[test]
fn a_sleeper_is_woken_by_a_signal() {
    let world = World::new();
    let end = world.end(TAGGED, FI_WAIT_UNSPEC);
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| sread(&end, 1, 0, LONG_MS));
        assert_eq!(c!(fi_cq_signal(end.cq)), 0);
        assert_eq!(sleeper.join().ok(), Some(AGAIN));
    });
}

#[test]
fn blocking_reads_time_out() {
    let world = World::new();
    let end = world.end(TAGGED, FI_WAIT_FD);
    assert_eq!(sread(&end, 1, 0, 0), AGAIN);
    assert_eq!(sread(&end, 1, 0, 3), AGAIN);
    let yielding = world.end(TAGGED, FI_WAIT_YIELD);
    assert_eq!(sread(&yielding, 1, 0, 3), AGAIN);
    let none = world.end(TAGGED, FI_WAIT_NONE);
    assert_eq!(sread(&none, 1, 0, 3), -(FI_ENOSYS as isize));
    assert_eq!(c!(fi_cq_signal(none.cq)), -FI_ENOSYS);
}

#[test]
fn a_threshold_waits_for_several_entries() {
    let world = World::new();
    let ep = world.bare();
    let mut attr = fi_cq_attr {
        format: TAGGED,
        wait_obj: FI_WAIT_FD,
        wait_cond: FI_CQ_COND_THRESHOLD,
        ..fi_cq_attr::ZERO
    };
    let mut cq = null_mut();
    let opened = c!(fi_cq_open(world.domain, &mut attr, &mut cq, null_mut()));
    assert_eq!(opened, 0);
    let end = End {
        ep,
        cq,
        av: world.av(0),
    };
    assert_eq!(bind(ep, cq, FI_SEND | FI_RECV), 0);
    assert_eq!((bind(ep, end.av, 0), c!(fi_enable(ep))), (0, 0));
    let myself = end.knows(&end);
    assert_eq!(end.send(myself, b"", 0), 0);
    assert_eq!(
        sread(&end, 4, 2, 3),
        1,
        "the time is over: take what is there"
    );
    for _ in 0..2 {
        assert_eq!(end.send(myself, b"", 0), 0);
    }
    assert_eq!(sread(&end, 4, 2, LONG_MS), 2);
}

#[test]
fn descriptors_say_when_there_is_something() {
    let world = World::new();
    let (a, b) = (
        world.end(TAGGED, FI_WAIT_NONE),
        world.end(TAGGED, FI_WAIT_FD),
    );
    let to_b = a.knows(&b);
    let fd = descriptor(b.cq);
    let mut into = [0u8; 4];
    b.recv(&mut into, 1);
    assert_eq!(trywait(&world, b.cq), 0);
    assert!(!readable(fd, 0));
    assert_eq!(a.send(to_b, b"x", 0), 0);
    assert!(readable(fd, LONG_MS), "a device has news");
    assert_eq!(trywait(&world, b.cq), -FI_EAGAIN);
    assert!(b.read().is_ok());
    assert_eq!(trywait(&world, b.cq), 0);
    assert!(!readable(fd, 0));
    assert_eq!(b.send(99, b"x", 0), -(FI_EINVAL as isize));
    assert!(!readable(fd, 0));
}

#[test]
fn completions_of_a_call_ring_too() {
    let world = World::new();
    let end = world.end(TAGGED, FI_WAIT_FD);
    let myself = end.knows(&end);
    let fd = descriptor(end.cq);
    assert_eq!(trywait(&world, end.cq), 0);
    assert_eq!(end.send(myself, b"x", 0), 0);
    assert!(readable(fd, LONG_MS));
}

#[test]
fn kinds_of_wait_objects_are_returned() {
    let world = World::new();
    let cq = world.cq(TAGGED, FI_WAIT_UNSPEC);
    let mut kind: fi_wait_obj = 99;
    let got = c!(fi_control(cq.cast(), FI_GETWAITOBJ, (&raw mut kind).cast()));
    assert_eq!((got, kind), (0, FI_WAIT_FD));
    assert_eq!(
        c!(fi_control(cq.cast(), FI_GETWAIT, null_mut())),
        -FI_EINVAL
    );
    assert_eq!(close(cq), 0);
    let none = world.cq(TAGGED, FI_WAIT_NONE);
    assert_eq!(trywait(&world, none), -FI_EINVAL);
    assert_eq!(trywait(&world, world.domain), -FI_EINVAL);
    assert_eq!(close(none), 0);
    let mut attr = fi_cq_attr {
        wait_obj: FI_WAIT_SET,
        ..fi_cq_attr::ZERO
    };
    let mut cq = null_mut();
    let opened = c!(fi_cq_open(world.domain, &mut attr, &mut cq, null_mut()));
    assert_eq!(opened, -FI_EINVAL, "there is no wait set");
}

#[test]
fn event_queues_have_descriptors_too() {
    let world = World::new();
    let eq = world.eq(FI_WAIT_FD);
    let fd = descriptor(eq);
    let entry = fi_eq_entry::ZERO;
    let write = || {
        let entry = (&raw const entry).cast();
        c!(fi_eq_write(eq, FI_NOTIFY, entry, 24, 0))
    };
    let read = |timeout_ms, flags| {
        let (mut event, mut entry) = (0, fi_eq_entry::ZERO);
        let into = (&raw mut entry).cast();
        c!(fi_eq_sread(eq, &mut event, into, 24, timeout_ms, flags))
    };
    assert_eq!(trywait(&world, eq), 0);
    assert!(!readable(fd, 0));
    assert_eq!(write(), 24);
    assert!(readable(fd, 0));
    assert_eq!(trywait(&world, eq), -FI_EAGAIN);
    assert_eq!(read(LONG_MS, FI_PEEK), 24);
    assert!(readable(fd, 0), "a peek leaves it there");
    assert_eq!(read(LONG_MS, 0), 24);
    assert!(!readable(fd, 0));
    assert_eq!(read(3, 0), AGAIN);
    assert_eq!(close(eq), 0);
}

#[test]
fn counters_count_both_ways_and_wake() {
    let world = World::new();
    let (a, cntr) = (world.end(TAGGED, FI_WAIT_NONE), world.cntr(FI_WAIT_FD));
    let b = End {
        ep: world.bare(),
        cq: world.cq(TAGGED, FI_WAIT_NONE),
        av: world.av(0),
    };
    assert_eq!(bind(b.ep, b.cq, FI_SEND | FI_RECV), 0);
    assert_eq!((bind(b.ep, b.av, 0), bind(b.ep, cntr, FI_RECV)), (0, 0));
    assert_eq!(c!(fi_enable(b.ep)), 0);
    let to_b = a.knows(&b);
    let mut into = [0u8; 4];
    b.recv(&mut into, 1);
    let cntr_address = cntr.addr();
    thread::scope(|scope| {
        let waiter = scope.spawn(move || {
            let cntr: *mut fid_cntr = core::ptr::with_exposed_provenance_mut(cntr_address);
            c!(fi_cntr_wait(cntr, 1, LONG_MS))
        });
        assert_eq!(a.send(to_b, b"x", 0), 0);
        assert_eq!(waiter.join().ok(), Some(0));
    });
    b.recv(&mut into, 9);
    assert_eq!(
        c!(fi_cancel(b.ep.cast(), core::ptr::without_provenance_mut(9))),
        0
    );
    assert_eq!(c!(fi_cntr_readerr(cntr)), 1);
    assert_eq!(c!(fi_cntr_wait(cntr, 2, 3)), -FI_ETIMEDOUT);
    assert_eq!((c!(fi_cntr_set(cntr, 5)), c!(fi_cntr_add(cntr, 2))), (0, 0));
    assert_eq!(c!(fi_cntr_read(cntr)), 7);
    assert_eq!(trywait(&world, cntr), 0);
    assert_eq!(c!(fi_cntr_adderr(cntr, 1)), 0);
    assert!(readable(descriptor(cntr), LONG_MS));
    drop(b);
    assert_eq!(close(cntr), 0);
}

#[test]
fn a_counter_without_a_wait_object_is_polled_for() {
    let world = World::new();
    let cntr = world.cntr(FI_WAIT_NONE);
    assert_eq!(c!(fi_cntr_wait(cntr, 1, 3)), -FI_ETIMEDOUT);
    let address = cntr.expose_provenance();
    thread::scope(|scope| {
        let waiter = scope.spawn(move || {
            let cntr: *mut fid_cntr = core::ptr::with_exposed_provenance_mut(address);
            c!(fi_cntr_wait(cntr, 1, LONG_MS))
        });
        assert_eq!(c!(fi_cntr_add(cntr, 1)), 0);
        assert_eq!(waiter.join().ok(), Some(0));
    });
    assert_eq!(close(cntr), 0);
}

#[test]
fn reading_nothing_drives_the_endpoint() {
    let world = World::new();
    let (a, b) = (
        world.end(TAGGED, FI_WAIT_NONE),
        world.end(TAGGED, FI_WAIT_NONE),
    );
    let to_b = a.knows(&b);
    let mut into = [0u8; 4];
    b.recv(&mut into, 1);
    let drive = || c!(fi_cq_read(b.cq, nothing().cast_mut(), 0));
    assert_eq!(drive(), AGAIN);
    assert_eq!(a.send(to_b, b"x", 0), 0);
    assert_eq!(drive(), 0);
    assert_eq!(into[0], b'x');
}
