//! Waiting on descriptors.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

use oxifabric_abi::*;
use oxifabric_fixtures::fixture::{Fixture, Pair, bind, close};
use oxifabric_fixtures::traffic::TIMEOUT;
use oxifabric_fixtures::{c, refused};

use crate::requirements;

/// Returns whether a descriptor is readable, now or within the time.
fn readable(fd: c_int, timeout_ms: c_int) -> bool {
    let mut poll = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    c!(libc::poll(&mut poll, 1, timeout_ms)) == 1
}

/// Opens a poll set.
fn poll_set(fixture: &Fixture) -> *mut fid_poll {
    let (mut attr, mut set) = (fi_poll_attr::ZERO, null_mut());
    assert_eq!(c!(fi_poll_open(fixture.domain, &mut attr, &mut set)), 0);
    set
}

/// Opens a wait set with a descriptor.
fn wait_set(fixture: &Fixture) -> *mut fid_wait {
    let mut attr = fi_wait_attr {
        wait_obj: FI_WAIT_FD,
        flags: 0,
    };
    let mut set = null_mut();
    assert_eq!(c!(fi_wait_open(fixture.fabric, &mut attr, &mut set)), 0);
    set
}

/// Returns the contexts that a poll set finds, as many as fit.
fn found(set: *mut fid_poll, room: usize) -> Vec<*mut c_void> {
    let mut contexts = vec![null_mut(); room];
    let count = c!(fi_poll(set, contexts.as_mut_ptr(), room as c_int));
    assert!(count >= 0, "{count}");
    contexts.truncate(count as usize);
    contexts
}

requirements! { "fi_poll(3)";

/// A program may sleep on the descriptors of empty queues.
fn empty_queues_may_be_slept_on(subject) {
    let fixture = Fixture::new(subject);
    let (cq, eq) = (fixture.cq(|_| {}), fixture.eq());
    let mut fids = [cq.cast(), eq.cast()];
    assert_eq!(c!(fi_trywait(fixture.fabric, fids.as_mut_ptr(), 2)), 0);
    assert_eq!((close(cq), close(eq)), (0, 0));
}

/// A program may not sleep while a queue has something to read: -FI_EAGAIN.
fn a_full_queue_must_not_be_slept_on(subject) {
    let fixture = Fixture::new(subject);
    let eq = fixture.eq();
    let entry = fi_eq_entry::ZERO;
    let written = c!(fi_eq_write(eq, FI_NOTIFY, (&raw const entry).cast(), size_of_val(&entry), 0));
    assert_eq!(written, size_of_val(&entry) as isize);
    let mut fids = [eq.cast()];
    assert_eq!(c!(fi_trywait(fixture.fabric, fids.as_mut_ptr(), 1)), -FI_EAGAIN);
    assert_eq!(close(eq), 0);
}

/// A message that arrives while a program sleeps makes the descriptor readable.
fn an_arrival_wakes_a_sleeper(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    // The first message connects; the one that is slept for comes over a quiet connection.
    let _first = pair.b.recv(8);
    pair.send(b"x");
    let _ = (pair.done(&pair.a), pair.done(&pair.b));
    let _posted = pair.b.recv(8);
    let mut fd: c_int = -1;
    assert_eq!(c!(fi_control(pair.b.cq.cast(), FI_GETWAIT, (&raw mut fd).cast())), 0);
    let mut fids = [pair.b.cq.cast()];
    let begun = std::time::Instant::now();
    while c!(fi_trywait(fixture.fabric, fids.as_mut_ptr(), 1)) != 0 {
        assert!(begun.elapsed() < TIMEOUT);
        pair.progress(&pair.b);
    }
    pair.send(b"y");
    assert!(readable(fd, TIMEOUT.as_millis() as c_int));
    let _ = pair.done(&pair.b);
}

/// What cannot be waited for is refused.
fn a_queue_without_a_descriptor_is_refused(subject) {
    let fixture = Fixture::new(subject);
    let cq = fixture.cq(|attr| attr.wait_obj = FI_WAIT_NONE);
    let mut fids = [cq.cast()];
    refused!(c!(fi_trywait(fixture.fabric, fids.as_mut_ptr(), 1)), FI_EINVAL);
    assert_eq!(close(cq), 0);
}

/// A program may sleep on a counter of its descriptor.
fn a_counter_may_be_slept_on(subject) {
    let fixture = Fixture::new(subject);
    let cntr = fixture.cntr(FI_WAIT_FD);
    let mut fids = [cntr.cast()];
    assert_eq!(c!(fi_trywait(fixture.fabric, fids.as_mut_ptr(), 1)), 0);
    let mut fd: c_int = -1;
    assert_eq!(c!(fi_control(cntr.cast(), FI_GETWAIT, (&raw mut fd).cast())), 0);
    assert!(!readable(fd, 0));
    assert_eq!(c!(fi_cntr_add(cntr, 1)), 0);
    assert!(readable(fd, TIMEOUT.as_millis() as c_int));
    assert_eq!(close(cntr), 0);
}

/// One full queue among several is enough to stay awake.
fn one_full_queue_is_enough(subject) {
    let fixture = Fixture::new(subject);
    let (cq, eq) = (fixture.cq(|_| {}), fixture.eq());
    let entry = fi_eq_entry::ZERO;
    let written = c!(fi_eq_write(eq, FI_NOTIFY, (&raw const entry).cast(), size_of_val(&entry), 0));
    assert_eq!(written, size_of_val(&entry) as isize);
    let mut fids = [cq.cast(), eq.cast()];
    assert_eq!(c!(fi_trywait(fixture.fabric, fids.as_mut_ptr(), 2)), -FI_EAGAIN);
    assert_eq!((close(cq), close(eq)), (0, 0));
}

/// An event makes the descriptor of its queue readable, until it was read.
fn an_event_wakes_a_sleeper(subject) {
    let fixture = Fixture::new(subject);
    let eq = fixture.eq();
    let mut fd: c_int = -1;
    assert_eq!(c!(fi_control(eq.cast(), FI_GETWAIT, (&raw mut fd).cast())), 0);
    let mut fids = [eq.cast()];
    assert_eq!(c!(fi_trywait(fixture.fabric, fids.as_mut_ptr(), 1)), 0);
    assert!(!readable(fd, 0));
    let mut entry = fi_eq_entry::ZERO;
    c!(fi_eq_write(eq, FI_NOTIFY, (&raw const entry).cast(), size_of_val(&entry), 0));
    assert!(readable(fd, TIMEOUT.as_millis() as c_int));
    let len = size_of_val(&entry);
    assert_eq!(c!(fi_eq_read(eq, &mut 0, (&raw mut entry).cast(), len, 0)), len as isize);
    assert_eq!(c!(fi_trywait(fixture.fabric, fids.as_mut_ptr(), 1)), 0);
    assert!(!readable(fd, 0));
    assert_eq!(close(eq), 0);
}

/// A poll set without events finds nothing.
fn a_quiet_poll_set_finds_nothing(subject) {
    let fixture = Fixture::new(subject);
    let (set, cq) = (poll_set(&fixture), fixture.cq(|_| {}));
    assert_eq!(c!(fi_poll_add(set, cq.cast(), 0)), 0);
    assert_eq!(found(set, 4).len(), 0);
    assert_eq!(c!(fi_poll_del(set, cq.cast(), 0)), 0);
    assert_eq!((close(set), close(cq)), (0, 0));
}

/// A poll set finds the contexts of queues that are not empty.
fn a_poll_set_finds_queues(subject) {
    let fixture = Fixture::new(subject);
    let set = poll_set(&fixture);
    let pair = fixture.pair();
    let mut mark = 0_u8;
    c!((*pair.b.cq).fid.context = (&raw mut mark).cast());
    assert_eq!(c!((fi_poll_add(set, pair.a.cq.cast(), 0), fi_poll_add(set, pair.b.cq.cast(), 0))), (0, 0));
    let posted = pair.b.recv(1);
    pair.send(b"x");
    let begun = std::time::Instant::now();
    while !found(set, 4).contains(&(&raw mut mark).cast()) {
        assert!(begun.elapsed() < TIMEOUT);
    }
    assert_eq!(pair.done(&pair.b).op_context, posted.context);
    assert_eq!(c!((fi_poll_del(set, pair.a.cq.cast(), 0), fi_poll_del(set, pair.b.cq.cast(), 0))), (0, 0));
    assert_eq!(close(set), 0);
}

/// A poll set finds counters that have changed since it was asked last.
fn a_poll_set_finds_changed_counters(subject) {
    let fixture = Fixture::new(subject);
    let set = poll_set(&fixture);
    let received = fixture.cntr(FI_WAIT_UNSPEC);
    let mut mark = 0_u8;
    c!((*received).fid.context = (&raw mut mark).cast());
    let b = fixture.end_with(FI_SEND | FI_RECV, |ep| assert_eq!(bind(ep, received, FI_RECV), 0));
    let pair = Pair::of(fixture.end(), b);
    assert_eq!(c!(fi_poll_add(set, received.cast(), 0)), 0);
    let _ = found(set, 4);
    assert_eq!(found(set, 4).len(), 0);
    let _posted = pair.b.recv(1);
    pair.send(b"x");
    let _ = (pair.done(&pair.b), pair.done(&pair.a));
    assert_eq!(found(set, 4), [(&raw mut mark).cast()]);
    assert_eq!(found(set, 4).len(), 0);
    assert_eq!(c!(fi_poll_del(set, received.cast(), 0)), 0);
    drop(pair);
    assert_eq!((close(set), close(received)), (0, 0));
}

/// A poll set gives no more contexts than there is room for.
fn a_poll_set_fits_its_room(subject) {
    let fixture = Fixture::new(subject);
    let set = poll_set(&fixture);
    let pair = fixture.pair();
    let third = fixture.end();
    let to_third = pair.a.knows(&third);
    for end in [&pair.b, &third] {
        assert_eq!(c!(fi_poll_add(set, end.cq.cast(), 0)), 0);
    }
    let _posted = (pair.b.recv(1), third.recv(1));
    pair.send(b"x");
    let (place, context) = (pair.a.traffic.buffer(b"y"), pair.a.traffic.context());
    pair.start(|| c!(fi_send(pair.a.ep, place.cast(), 1, null_mut(), to_third, context)));
    let begun = std::time::Instant::now();
    while found(set, 2).len() < 2 {
        assert!(begun.elapsed() < TIMEOUT);
        pair.progress(&pair.a);
    }
    assert_eq!(found(set, 1).len(), 1);
    for end in [&pair.b, &third] {
        assert_eq!(c!(fi_poll_del(set, end.cq.cast(), 0)), 0);
    }
    assert_eq!(close(set), 0);
}

/// A queue that was removed from a poll set is found no more.
fn a_removed_queue_is_not_found(subject) {
    let fixture = Fixture::new(subject);
    let set = poll_set(&fixture);
    let pair = fixture.pair();
    assert_eq!(c!(fi_poll_add(set, pair.b.cq.cast(), 0)), 0);
    let _posted = pair.b.recv(1);
    pair.send(b"x");
    let begun = std::time::Instant::now();
    while found(set, 4).is_empty() {
        assert!(begun.elapsed() < TIMEOUT);
        pair.progress(&pair.a);
    }
    assert_eq!(c!(fi_poll_del(set, pair.b.cq.cast(), 0)), 0);
    assert_eq!(found(set, 4).len(), 0);
    assert_eq!(close(set), 0);
}

/// What is in a poll set cannot be closed.
fn what_is_polled_stays_open(subject) {
    let fixture = Fixture::new(subject);
    let (set, cq) = (poll_set(&fixture), fixture.cq(|_| {}));
    assert_eq!(c!(fi_poll_add(set, cq.cast(), 0)), 0);
    assert_eq!(close(cq), -FI_EBUSY);
    assert_eq!(c!(fi_poll_del(set, cq.cast(), 0)), 0);
    assert_eq!((close(cq), close(set)), (0, 0));
}

/// A wait on a set of quiet queues ends with its time.
fn a_wait_ends_with_its_time(subject) {
    let fixture = Fixture::new(subject);
    let set = wait_set(&fixture);
    let cq = fixture.cq(|attr| (attr.wait_obj, attr.wait_set) = (FI_WAIT_SET, set));
    assert_eq!(c!(fi_wait(set, 1)), -FI_ETIMEDOUT);
    assert_eq!((close(cq), close(set)), (0, 0));
}

/// A wait on a set ends with a completion in one of its queues.
fn a_wait_ends_with_a_completion(subject) {
    let fixture = Fixture::new(subject);
    let set = wait_set(&fixture);
    let cq = fixture.cq(|attr| (attr.wait_obj, attr.wait_set) = (FI_WAIT_SET, set));
    let (ep, av) = (fixture.bare(), fixture.av());
    assert_eq!((bind(ep, cq, FI_SEND | FI_RECV), bind(ep, av, 0), c!(fi_enable(ep))), (0, 0, 0));
    let traffic = oxifabric_fixtures::traffic::Traffic::default();
    let pair = Pair::of(fixture.end(), oxifabric_fixtures::fixture::TestEndpoint { ep, cq, av, eq: core::ptr::null_mut(), traffic });
    let posted = pair.b.recv(1);
    pair.send(b"x");
    let begun = std::time::Instant::now();
    while c!(fi_wait(set, 10)) != 0 {
        assert!(begun.elapsed() < TIMEOUT);
        pair.progress(&pair.a);
    }
    assert_eq!(pair.done(&pair.b).op_context, posted.context);
    drop(pair);
    assert_eq!(close(set), 0);
}

/// A wait set that objects were opened with cannot be closed: -FI_EBUSY.
fn a_wait_set_in_use_stays_open(subject) {
    let fixture = Fixture::new(subject);
    let set = wait_set(&fixture);
    let cq = fixture.cq(|attr| (attr.wait_obj, attr.wait_set) = (FI_WAIT_SET, set));
    assert_eq!(close(set), -FI_EBUSY);
    assert_eq!((close(cq), close(set)), (0, 0));
}

/// A wait set has a descriptor if one was asked for.
fn a_wait_set_has_a_descriptor(subject) {
    let fixture = Fixture::new(subject);
    let set = wait_set(&fixture);
    let (mut fd, mut kind): (c_int, fi_wait_obj) = (-1, 0);
    assert_eq!(c!(fi_control(set.cast(), FI_GETWAIT, (&raw mut fd).cast())), 0);
    assert!(fd >= 0);
    assert_eq!(c!(fi_control(set.cast(), FI_GETWAITOBJ, (&raw mut kind).cast())), 0);
    assert_eq!(kind, FI_WAIT_FD);
    assert_eq!(close(set), 0);
}
}
