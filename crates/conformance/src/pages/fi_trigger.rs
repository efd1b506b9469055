//! Deferred work and triggered operations.

use core::ptr::null_mut;

use oxifabric_abi::*;

use crate::desk::Desk;
use crate::ground::elements_of;
use crate::world::{Two, bind, close};
use crate::{c, sentences};

sentences! { "fi_trigger(3)";

/// A deferred work waits until its counter reaches the threshold.
fn a_work_waits_for_its_threshold(stage) {
    let desk = Desk::new(stage);
    let posted = desk.receives(1);
    desk.send(2, b'x');
    desk.trigger(1);
    desk.idle();
    assert!(desk.ground.two.b.read().is_none());
    desk.trigger(1);
    assert_eq!(desk.received(&posted), b"x");
}

/// A work whose condition is met already starts at once.
fn a_work_that_is_due_starts_at_once(stage) {
    let desk = Desk::new(stage);
    let posted = desk.receives(1);
    desk.trigger(5);
    desk.send(3, b'x');
    assert_eq!(desk.received(&posted), b"x");
}

/// Successes and errors of the triggering counter both count.
fn errors_trigger_too(stage) {
    let desk = Desk::new(stage);
    let posted = desk.receives(1);
    desk.send(2, b'x');
    assert_eq!(c!(fi_cntr_adderr(desk.start, 1)), 0);
    desk.idle();
    assert!(desk.ground.two.b.read().is_none());
    desk.trigger(1);
    assert_eq!(desk.received(&posted), b"x");
}

/// Setting a counter beyond the threshold triggers.
fn setting_a_counter_triggers(stage) {
    let desk = Desk::new(stage);
    let posted = desk.receives(1);
    desk.send(2, b'x');
    assert_eq!(c!(fi_cntr_set(desk.start, 10)), 0);
    assert_eq!(desk.received(&posted), b"x");
}

/// A work that ends adds one to its completion counter.
fn a_work_is_counted_once(stage) {
    let desk = Desk::new(stage);
    let posted = desk.receives(2);
    desk.send(1, b'x');
    desk.send(1, b'y');
    assert_eq!(c!(fi_cntr_read(desk.done)), 0);
    desk.trigger(1);
    desk.until(desk.done, 2);
    assert_eq!(desk.received(&posted), b"xy");
    desk.idle();
    assert_eq!((c!(fi_cntr_read(desk.done)), c!(fi_cntr_readerr(desk.done))), (2, 0));
}

/// A work writes no completion by default.
fn a_work_is_silent(stage) {
    let desk = Desk::new(stage);
    let _posted = desk.receives(1);
    desk.send(1, b'x');
    desk.trigger(1);
    desk.until(desk.done, 1);
    assert!(desk.ground.two.a.read().is_none());
}

/// With FI_COMPLETION a work writes a completion with the context of its message.
fn a_work_may_complete(stage) {
    let desk = Desk::new(stage);
    let _posted = desk.receives(1);
    let place = desk.ground.two.a.traffic.buffer(b"x");
    let work = desk.message(1, place, 1, FI_COMPLETION);
    assert_eq!(desk.queue(work), 0);
    desk.trigger(1);
    let context = c!((*(*work).op.msg).msg.context);
    assert_eq!(desk.ground.two.done(&desk.ground.two.a).op_context, context);
    desk.until(desk.done, 1);
}

/// A work is not counted by the counter of its endpoint.
fn counters_of_the_endpoint_do_not_count(stage) {
    let world = Desk::world(stage);
    let own = world.cntr(FI_WAIT_UNSPEC);
    let a = world.end_with(FI_SEND | FI_RECV, |ep| assert_eq!(bind(ep, own, FI_SEND), 0));
    let two = Two::of(a, world.end());
    let desk = Desk::with(world, two);
    let _posted = desk.receives(1);
    desk.send(1, b'x');
    desk.trigger(1);
    desk.until(desk.done, 1);
    assert_eq!((c!(fi_cntr_read(own)), c!(fi_cntr_readerr(own))), (0, 0));
    assert_eq!(close(own), -FI_EBUSY);
    // The endpoint holds the counter: endpoints first, then the counter, then the world.
    let mut desk = core::mem::ManuallyDrop::new(desk);
    // SAFETY: nobody uses the desk after this, and each part is dropped once.
    unsafe {
        assert_eq!((close(desk.ground.mr), close(desk.start), close(desk.done)), (0, 0, 0));
        core::ptr::drop_in_place(&mut desk.ground.two);
        assert_eq!(close(own), 0);
        core::ptr::drop_in_place(&mut desk.ground.world);
        core::ptr::drop_in_place(&mut desk.kept);
    }
}

/// A deferred addition changes its counter, and ends in no other.
fn an_addition_may_be_deferred(stage) {
    let desk = Desk::new(stage);
    assert_eq!(desk.queue(desk.change(1, FI_OP_CNTR_ADD, desk.done, 41)), 0);
    desk.idle();
    assert_eq!(c!(fi_cntr_read(desk.done)), 0);
    desk.trigger(1);
    desk.until(desk.done, 41);
}

/// A counter is set by a deferred work.
fn a_counter_may_be_set_later(stage) {
    let desk = Desk::new(stage);
    assert_eq!(c!(fi_cntr_add(desk.done, 3)), 0);
    assert_eq!(desk.queue(desk.change(1, FI_OP_CNTR_SET, desk.done, 30)), 0);
    desk.trigger(1);
    desk.until(desk.done, 30);
}

/// A work on a counter has no completion counter.
fn changes_of_counters_have_no_completion_counter(stage) {
    let desk = Desk::new(stage);
    let work = desk.change(1, FI_OP_CNTR_ADD, desk.done, 1);
    c!((*work).completion_cntr = desk.done);
    assert!(desk.queue(work) < 0);
}

/// Works start works: one ends in the counter that another waits for.
fn works_are_chained(stage) {
    let desk = Desk::new(stage);
    let posted = desk.receives(2);
    let second = desk.ground.two.a.traffic.buffer(b"2");
    let second = desk.message(1, second, 1, 0);
    c!((*second).triggering_cntr = desk.done);
    assert_eq!(desk.queue(second), 0);
    desk.send(1, b'1');
    desk.idle();
    assert!(desk.ground.two.b.read().is_none());
    desk.trigger(1);
    assert_eq!(desk.received(&posted), b"12");
    desk.until(desk.done, 2);
}

/// The data of a work is not read before it starts.
fn data_is_read_when_the_work_starts(stage) {
    let desk = Desk::new(stage);
    let posted = desk.receives(1);
    let place = desk.ground.two.a.traffic.buffer(b"-");
    let work = desk.message(1, place, 1, 0);
    assert_eq!(desk.queue(work), 0);
    desk.idle();
    c!(*place = b'+');
    desk.trigger(1);
    assert_eq!(desk.received(&posted), b"+");
}

/// A cancelled work does not start.
fn a_cancelled_work_does_not_start(stage) {
    let desk = Desk::new(stage);
    let posted = desk.receives(2);
    let cancelled = desk.send(1, b'x');
    desk.send(1, b'y');
    assert_eq!(desk.control(FI_CANCEL_WORK, cancelled.cast()), 0);
    desk.trigger(1);
    desk.until(desk.done, 1);
    desk.idle();
    assert_eq!(desk.received(&posted[..1]), b"y");
    assert_eq!(c!(fi_cntr_read(desk.done)), 1);
}

/// A work that ended, or was never queued, cannot be cancelled.
fn what_does_not_wait_is_not_cancelled(stage) {
    let desk = Desk::new(stage);
    let _posted = desk.receives(1);
    let work = desk.send(1, b'x');
    desk.trigger(1);
    desk.until(desk.done, 1);
    assert!(desk.control(FI_CANCEL_WORK, work.cast()) < 0);
}

/// FI_FLUSH_WORK cancels all works of the domain.
fn a_flush_cancels_all(stage) {
    let desk = Desk::new(stage);
    let _posted = desk.receives(2);
    desk.send(1, b'x');
    desk.send(7, b'y');
    assert_eq!(desk.control(FI_FLUSH_WORK, null_mut()), 0);
    desk.trigger(10);
    desk.idle();
    assert!(desk.ground.two.b.read().is_none());
    assert_eq!(c!(fi_cntr_read(desk.done)), 0);
}

/// A deferred tagged send is received with its tag.
fn a_tagged_send_may_be_deferred(stage) {
    let desk = Desk::new(stage);
    let two = &desk.ground.two;
    let posted = two.b.trecv(1, 77, 0);
    let iov = desk.keep(libc::iovec { iov_base: two.a.traffic.buffer(b"t").cast(), iov_len: 1 });
    let msg = fi_msg_tagged {
        msg_iov: iov,
        desc: null_mut(),
        iov_count: 1,
        addr: two.to_b,
        tag: 77,
        ignore: 0,
        context: two.a.traffic.context(),
        data: 0,
    };
    let tagged = desk.keep(fi_op_tagged { ep: two.a.ep, msg, flags: 0 });
    assert_eq!(desk.queue(desk.work(1, FI_OP_TSEND, fi_deferred_op { tagged })), 0);
    desk.trigger(1);
    assert_eq!(two.done(&two.b).tag, 77);
    assert_eq!(posted.bytes(), b"t");
    desk.until(desk.done, 1);
}

/// A deferred receive is posted when it starts.
fn a_receive_may_be_deferred(stage) {
    let desk = Desk::new(stage);
    let two = &desk.ground.two;
    let place = two.a.traffic.buffer(b"-");
    let iov = desk.keep(libc::iovec { iov_base: place.cast(), iov_len: 1 });
    let msg = fi_msg {
        msg_iov: iov,
        desc: null_mut(),
        iov_count: 1,
        addr: FI_ADDR_UNSPEC,
        context: two.a.traffic.context(),
        data: 0,
    };
    let msg = desk.keep(fi_op_msg { ep: two.a.ep, msg, flags: 0 });
    assert_eq!(desk.queue(desk.work(1, FI_OP_RECV, fi_deferred_op { msg })), 0);
    let (byte, context) = (two.b.traffic.buffer(b"r"), two.b.traffic.context());
    two.start(|| c!(fi_send(two.b.ep, byte.cast(), 1, null_mut(), two.to_a, context)));
    desk.idle();
    assert_eq!(c!(*place), b'-');
    desk.trigger(1);
    desk.until(desk.done, 1);
    assert_eq!(c!(*place), b'r');
}

/// Deferred writes and reads access memory when they start.
fn access_may_be_deferred(stage) {
    let desk = Desk::new(stage);
    let (ground, two) = (&desk.ground, &desk.ground.two);
    let place = two.a.traffic.buffer(b"W");
    let iov = desk.keep(libc::iovec { iov_base: place.cast(), iov_len: 1 });
    let at = |offset| fi_rma_iov { addr: ground.base + offset, len: 1, key: ground.key() };
    let msg = |to| fi_msg_rma {
        msg_iov: iov,
        desc: null_mut(),
        iov_count: 1,
        addr: two.to_b,
        rma_iov: desk.keep(to),
        rma_iov_count: 1,
        context: two.a.traffic.context(),
        data: 0,
    };
    let flags = FI_DELIVERY_COMPLETE;
    let rma = desk.keep(fi_op_rma { ep: two.a.ep, msg: msg(at(0)), flags });
    assert_eq!(desk.queue(desk.work(1, FI_OP_WRITE, fi_deferred_op { rma })), 0);
    let rma = desk.keep(fi_op_rma { ep: two.a.ep, msg: msg(at(9)), flags: 0 });
    assert_eq!(desk.queue(desk.work(2, FI_OP_READ, fi_deferred_op { rma })), 0);
    desk.idle();
    assert_eq!(ground.region()[0], 0x55);
    desk.trigger(1);
    desk.until(desk.done, 1);
    assert_eq!((ground.region()[0], c!(*place)), (b'W', b'W'));
    desk.trigger(1);
    desk.until(desk.done, 2);
    assert_eq!(c!(*place), 0x55);
}

/// Deferred atomics update memory when they start.
fn atomics_may_be_deferred(stage) {
    let desk = Desk::new(stage);
    desk.ground.fill(&[10_u64]);
    let ep = desk.ground.two.a.ep;
    let atomic = desk.keep(fi_op_atomic { ep, msg: desk.update(FI_SUM, 5), flags: FI_DELIVERY_COMPLETE });
    assert_eq!(desk.queue(desk.work(1, FI_OP_ATOMIC, fi_deferred_op { atomic })), 0);
    desk.idle();
    assert_eq!(desk.first(), 10);
    desk.trigger(1);
    desk.until(desk.done, 1);
    assert_eq!(desk.first(), 15);
}

/// Deferred atomics that fetch or compare give what was there.
fn fetching_atomics_may_be_deferred(stage) {
    let desk = Desk::new(stage);
    desk.ground.fill(&[10_u64]);
    let two = &desk.ground.two;
    let ep = two.a.ep;
    let (fetched, compared) = (elements_of(two, &[0_u64]), elements_of(two, &[0_u64]));
    let into = |place: *mut u64| fi_msg_fetch {
        msg_iov: desk.keep(fi_ioc { addr: place.cast(), count: 1 }),
        desc: null_mut(),
        iov_count: 1,
    };
    let fetch_atomic = desk.keep(fi_op_fetch_atomic {
        ep,
        msg: desk.update(FI_SUM, 5),
        fetch: into(fetched),
        flags: 0,
    });
    assert_eq!(desk.queue(desk.work(1, FI_OP_FETCH_ATOMIC, fi_deferred_op { fetch_atomic })), 0);
    let compare = fi_msg_compare {
        msg_iov: desk.keep(fi_ioc { addr: elements_of(two, &[15_u64]).cast(), count: 1 }),
        desc: null_mut(),
        iov_count: 1,
    };
    let compare_atomic = desk.keep(fi_op_compare_atomic {
        ep,
        msg: desk.update(FI_CSWAP, 99),
        fetch: into(compared),
        compare,
        flags: 0,
    });
    assert_eq!(desk.queue(desk.work(2, FI_OP_COMPARE_ATOMIC, fi_deferred_op { compare_atomic })), 0);
    desk.trigger(1);
    desk.until(desk.done, 1);
    desk.trigger(1);
    desk.until(desk.done, 2);
    assert_eq!((c!(*fetched), c!(*compared), desk.first()), (10, 15, 99));
}

/// An unknown operation is refused with -FI_ENOSYS.
fn an_unknown_work_is_refused(stage) {
    let desk = Desk::new(stage);
    let work = desk.change(1, 999, desk.done, 1);
    assert_eq!(desk.queue(work), -FI_ENOSYS);
}

/// An operation with FI_TRIGGER waits until the counter of its context reaches the threshold.
fn a_triggered_operation_waits(stage) {
    let desk = Desk::new(stage);
    let posted = desk.receives(1);
    desk.triggered(2, b'x');
    desk.trigger(1);
    desk.idle();
    assert!(desk.ground.two.b.read().is_none());
    desk.trigger(1);
    assert_eq!(desk.received(&posted), b"x");
    let _ = desk.ground.two.done(&desk.ground.two.a);
}

/// A triggered operation whose condition is met starts at once.
fn a_triggered_operation_that_is_due_starts(stage) {
    let desk = Desk::new(stage);
    let posted = desk.receives(1);
    desk.trigger(3);
    desk.triggered(2, b'x');
    assert_eq!(desk.received(&posted), b"x");
}

/// Operations start in the order of their thresholds, even if the counter passes all at once.
fn thresholds_are_an_order(stage) {
    let desk = Desk::new(stage);
    let posted = desk.receives(3);
    desk.triggered(3, b'3');
    desk.triggered(1, b'1');
    desk.triggered(2, b'2');
    desk.trigger(5);
    assert_eq!(desk.received(&posted), b"123");
}

/// Operations of the same threshold start in the order in which they were posted.
fn the_first_of_a_threshold_starts_first(stage) {
    let desk = Desk::new(stage);
    let posted = desk.receives(4);
    for byte in b"abcd" {
        desk.triggered(1, *byte);
    }
    desk.trigger(1);
    assert_eq!(desk.received(&posted), b"abcd");
}
}
