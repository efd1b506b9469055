//! Deferred work and triggered operations.

use core::ptr::null_mut;

use oxifabric_abi::*;
use oxifabric_fixtures::fixture::{Pair, bind, close};
use oxifabric_fixtures::rma_fixture::elements_of;
use oxifabric_fixtures::trigger_fixture::TriggerFixture;
use oxifabric_fixtures::{c, refused};

use crate::requirements;

requirements! { "fi_trigger(3)";

/// A deferred work waits until its counter reaches the threshold.
fn a_work_waits_for_its_threshold(subject) {
    let triggers = TriggerFixture::new(subject);
    let posted = triggers.receives(1);
    triggers.send(2, b'x');
    triggers.trigger(1);
    triggers.idle();
    assert!(triggers.rma.pair.b.read().is_none());
    triggers.trigger(1);
    assert_eq!(triggers.received(&posted), b"x");
}

/// A work whose condition is met already starts at once.
fn a_work_that_is_due_starts_at_once(subject) {
    let triggers = TriggerFixture::new(subject);
    let posted = triggers.receives(1);
    triggers.trigger(5);
    triggers.send(3, b'x');
    assert_eq!(triggers.received(&posted), b"x");
}

/// Successes and errors of the triggering counter both count.
fn errors_trigger_too(subject) {
    let triggers = TriggerFixture::new(subject);
    let posted = triggers.receives(1);
    triggers.send(2, b'x');
    assert_eq!(c!(fi_cntr_adderr(triggers.start, 1)), 0);
    triggers.idle();
    assert!(triggers.rma.pair.b.read().is_none());
    triggers.trigger(1);
    assert_eq!(triggers.received(&posted), b"x");
}

/// Setting a counter beyond the threshold triggers.
fn setting_a_counter_triggers(subject) {
    let triggers = TriggerFixture::new(subject);
    let posted = triggers.receives(1);
    triggers.send(2, b'x');
    assert_eq!(c!(fi_cntr_set(triggers.start, 10)), 0);
    assert_eq!(triggers.received(&posted), b"x");
}

/// A work that ends adds one to its completion counter.
fn a_work_is_counted_once(subject) {
    let triggers = TriggerFixture::new(subject);
    let posted = triggers.receives(2);
    triggers.send(1, b'x');
    triggers.send(1, b'y');
    assert_eq!(c!(fi_cntr_read(triggers.done)), 0);
    triggers.trigger(1);
    triggers.until(triggers.done, 2);
    assert_eq!(triggers.received(&posted), b"xy");
    triggers.idle();
    assert_eq!((c!(fi_cntr_read(triggers.done)), c!(fi_cntr_readerr(triggers.done))), (2, 0));
}

/// A work writes no completion by default.
fn a_work_is_silent(subject) {
    let triggers = TriggerFixture::new(subject);
    let _posted = triggers.receives(1);
    triggers.send(1, b'x');
    triggers.trigger(1);
    triggers.until(triggers.done, 1);
    assert!(triggers.rma.pair.a.read().is_none());
}

/// With FI_COMPLETION a work writes a completion with the context of its message.
fn a_work_may_complete(subject) {
    let triggers = TriggerFixture::new(subject);
    let _posted = triggers.receives(1);
    let place = triggers.rma.pair.a.traffic.buffer(b"x");
    let work = triggers.message(1, place, 1, FI_COMPLETION);
    assert_eq!(triggers.queue(work), 0);
    triggers.trigger(1);
    let context = c!((*(*work).op.msg).msg.context);
    assert_eq!(triggers.rma.pair.done(&triggers.rma.pair.a).op_context, context);
    triggers.until(triggers.done, 1);
}

/// A work is not counted by the counter of its endpoint.
fn counters_of_the_endpoint_do_not_count(subject) {
    let fixture = TriggerFixture::fixture(subject);
    let own = fixture.cntr(FI_WAIT_UNSPEC);
    let a = fixture.end_with(FI_SEND | FI_RECV, |ep| assert_eq!(bind(ep, own, FI_SEND), 0));
    let pair = Pair::of(a, fixture.end());
    let triggers = TriggerFixture::with(fixture, pair);
    let _posted = triggers.receives(1);
    triggers.send(1, b'x');
    triggers.trigger(1);
    triggers.until(triggers.done, 1);
    assert_eq!((c!(fi_cntr_read(own)), c!(fi_cntr_readerr(own))), (0, 0));
    assert_eq!(close(own), -FI_EBUSY);
    // The endpoint holds the counter: endpoints first, then the counter, then the fixture.
    let mut triggers = core::mem::ManuallyDrop::new(triggers);
    // SAFETY: the fixture is not used after this, and each part is dropped once.
    unsafe {
        assert_eq!((close(triggers.rma.mr), close(triggers.start), close(triggers.done)), (0, 0, 0));
        core::ptr::drop_in_place(&mut triggers.rma.pair);
        assert_eq!(close(own), 0);
        core::ptr::drop_in_place(&mut triggers.rma.fixture);
        core::ptr::drop_in_place(&mut triggers.kept);
    }
}

/// A deferred addition changes its counter, and ends in no other.
fn an_addition_may_be_deferred(subject) {
    let triggers = TriggerFixture::new(subject);
    assert_eq!(triggers.queue(triggers.change(1, FI_OP_CNTR_ADD, triggers.done, 41)), 0);
    triggers.idle();
    assert_eq!(c!(fi_cntr_read(triggers.done)), 0);
    triggers.trigger(1);
    triggers.until(triggers.done, 41);
}

/// A counter is set by a deferred work.
fn a_counter_may_be_set_later(subject) {
    let triggers = TriggerFixture::new(subject);
    assert_eq!(c!(fi_cntr_add(triggers.done, 3)), 0);
    assert_eq!(triggers.queue(triggers.change(1, FI_OP_CNTR_SET, triggers.done, 30)), 0);
    triggers.trigger(1);
    triggers.until(triggers.done, 30);
}

/// A work on a counter has no completion counter.
fn changes_of_counters_have_no_completion_counter(subject) {
    let triggers = TriggerFixture::new(subject);
    let work = triggers.change(1, FI_OP_CNTR_ADD, triggers.done, 1);
    c!((*work).completion_cntr = triggers.done);
    refused!(triggers.queue(work), FI_EINVAL);
}

/// Works start works: one ends in the counter that another waits for.
fn works_are_chained(subject) {
    let triggers = TriggerFixture::new(subject);
    let posted = triggers.receives(2);
    let second = triggers.rma.pair.a.traffic.buffer(b"2");
    let second = triggers.message(1, second, 1, 0);
    c!((*second).triggering_cntr = triggers.done);
    assert_eq!(triggers.queue(second), 0);
    triggers.send(1, b'1');
    triggers.idle();
    assert!(triggers.rma.pair.b.read().is_none());
    triggers.trigger(1);
    assert_eq!(triggers.received(&posted), b"12");
    triggers.until(triggers.done, 2);
}

/// The data of a work is not read before it starts.
fn data_is_read_when_the_work_starts(subject) {
    let triggers = TriggerFixture::new(subject);
    let posted = triggers.receives(1);
    let place = triggers.rma.pair.a.traffic.buffer(b"-");
    let work = triggers.message(1, place, 1, 0);
    assert_eq!(triggers.queue(work), 0);
    triggers.idle();
    c!(*place = b'+');
    triggers.trigger(1);
    assert_eq!(triggers.received(&posted), b"+");
}

/// A cancelled work does not start.
fn a_cancelled_work_does_not_start(subject) {
    let triggers = TriggerFixture::new(subject);
    let posted = triggers.receives(2);
    let cancelled = triggers.send(1, b'x');
    triggers.send(1, b'y');
    assert_eq!(triggers.control(FI_CANCEL_WORK, cancelled.cast()), 0);
    triggers.trigger(1);
    triggers.until(triggers.done, 1);
    triggers.idle();
    assert_eq!(triggers.received(&posted[..1]), b"y");
    assert_eq!(c!(fi_cntr_read(triggers.done)), 1);
}

/// A work that ended, or was never queued, cannot be cancelled.
fn what_does_not_wait_is_not_cancelled(subject) {
    let triggers = TriggerFixture::new(subject);
    let _posted = triggers.receives(1);
    let work = triggers.send(1, b'x');
    triggers.trigger(1);
    triggers.until(triggers.done, 1);
    refused!(triggers.control(FI_CANCEL_WORK, work.cast()), FI_ENOENT);
}

/// FI_FLUSH_WORK cancels all works of the domain.
fn a_flush_cancels_all(subject) {
    let triggers = TriggerFixture::new(subject);
    let _posted = triggers.receives(2);
    triggers.send(1, b'x');
    triggers.send(7, b'y');
    assert_eq!(triggers.control(FI_FLUSH_WORK, null_mut()), 0);
    triggers.trigger(10);
    triggers.idle();
    assert!(triggers.rma.pair.b.read().is_none());
    assert_eq!(c!(fi_cntr_read(triggers.done)), 0);
}

/// A deferred tagged send is received with its tag.
fn a_tagged_send_may_be_deferred(subject) {
    let triggers = TriggerFixture::new(subject);
    let pair = &triggers.rma.pair;
    let posted = pair.b.trecv(1, 77, 0);
    let iov = triggers.keep(libc::iovec { iov_base: pair.a.traffic.buffer(b"t").cast(), iov_len: 1 });
    let msg = fi_msg_tagged {
        msg_iov: iov,
        desc: null_mut(),
        iov_count: 1,
        addr: pair.to_b,
        tag: 77,
        ignore: 0,
        context: pair.a.traffic.context(),
        data: 0,
    };
    let tagged = triggers.keep(fi_op_tagged { ep: pair.a.ep, msg, flags: 0 });
    assert_eq!(triggers.queue(triggers.work(1, FI_OP_TSEND, fi_deferred_op { tagged })), 0);
    triggers.trigger(1);
    assert_eq!(pair.done(&pair.b).tag, 77);
    assert_eq!(posted.bytes(), b"t");
    triggers.until(triggers.done, 1);
}

/// A deferred receive is posted when it starts.
fn a_receive_may_be_deferred(subject) {
    let triggers = TriggerFixture::new(subject);
    let pair = &triggers.rma.pair;
    let place = pair.a.traffic.buffer(b"-");
    let iov = triggers.keep(libc::iovec { iov_base: place.cast(), iov_len: 1 });
    let msg = fi_msg {
        msg_iov: iov,
        desc: null_mut(),
        iov_count: 1,
        addr: FI_ADDR_UNSPEC,
        context: pair.a.traffic.context(),
        data: 0,
    };
    let msg = triggers.keep(fi_op_msg { ep: pair.a.ep, msg, flags: 0 });
    assert_eq!(triggers.queue(triggers.work(1, FI_OP_RECV, fi_deferred_op { msg })), 0);
    let (byte, context) = (pair.b.traffic.buffer(b"r"), pair.b.traffic.context());
    pair.start(|| c!(fi_send(pair.b.ep, byte.cast(), 1, null_mut(), pair.to_a, context)));
    triggers.idle();
    assert_eq!(c!(*place), b'-');
    triggers.trigger(1);
    triggers.until(triggers.done, 1);
    assert_eq!(c!(*place), b'r');
}

/// Deferred writes and reads access memory when they start.
fn access_may_be_deferred(subject) {
    let triggers = TriggerFixture::new(subject);
    let (rma, pair) = (&triggers.rma, &triggers.rma.pair);
    let place = pair.a.traffic.buffer(b"W");
    let iov = triggers.keep(libc::iovec { iov_base: place.cast(), iov_len: 1 });
    let at = |offset| fi_rma_iov { addr: rma.base + offset, len: 1, key: rma.key() };
    let msg = |to| fi_msg_rma {
        msg_iov: iov,
        desc: null_mut(),
        iov_count: 1,
        addr: pair.to_b,
        rma_iov: triggers.keep(to),
        rma_iov_count: 1,
        context: pair.a.traffic.context(),
        data: 0,
    };
    let flags = FI_DELIVERY_COMPLETE;
    let op = triggers.keep(fi_op_rma { ep: pair.a.ep, msg: msg(at(0)), flags });
    assert_eq!(triggers.queue(triggers.work(1, FI_OP_WRITE, fi_deferred_op { rma: op })), 0);
    let op = triggers.keep(fi_op_rma { ep: pair.a.ep, msg: msg(at(9)), flags: 0 });
    assert_eq!(triggers.queue(triggers.work(2, FI_OP_READ, fi_deferred_op { rma: op })), 0);
    triggers.idle();
    assert_eq!(rma.region()[0], 0x55);
    triggers.trigger(1);
    triggers.until(triggers.done, 1);
    assert_eq!((rma.region()[0], c!(*place)), (b'W', b'W'));
    triggers.trigger(1);
    triggers.until(triggers.done, 2);
    assert_eq!(c!(*place), 0x55);
}

/// Deferred atomics update memory when they start.
fn atomics_may_be_deferred(subject) {
    let triggers = TriggerFixture::new(subject);
    triggers.rma.fill(&[10_u64]);
    let ep = triggers.rma.pair.a.ep;
    let atomic = triggers.keep(fi_op_atomic { ep, msg: triggers.update(FI_SUM, 5), flags: FI_DELIVERY_COMPLETE });
    assert_eq!(triggers.queue(triggers.work(1, FI_OP_ATOMIC, fi_deferred_op { atomic })), 0);
    triggers.idle();
    assert_eq!(triggers.first(), 10);
    triggers.trigger(1);
    triggers.until(triggers.done, 1);
    assert_eq!(triggers.first(), 15);
}

/// Deferred atomics that fetch or compare give what was there.
fn fetching_atomics_may_be_deferred(subject) {
    let triggers = TriggerFixture::new(subject);
    triggers.rma.fill(&[10_u64]);
    let pair = &triggers.rma.pair;
    let ep = pair.a.ep;
    let (fetched, compared) = (elements_of(pair, &[0_u64]), elements_of(pair, &[0_u64]));
    let into = |place: *mut u64| fi_msg_fetch {
        msg_iov: triggers.keep(fi_ioc { addr: place.cast(), count: 1 }),
        desc: null_mut(),
        iov_count: 1,
    };
    let fetch_atomic = triggers.keep(fi_op_fetch_atomic {
        ep,
        msg: triggers.update(FI_SUM, 5),
        fetch: into(fetched),
        flags: 0,
    });
    assert_eq!(triggers.queue(triggers.work(1, FI_OP_FETCH_ATOMIC, fi_deferred_op { fetch_atomic })), 0);
    let compare = fi_msg_compare {
        msg_iov: triggers.keep(fi_ioc { addr: elements_of(pair, &[15_u64]).cast(), count: 1 }),
        desc: null_mut(),
        iov_count: 1,
    };
    let compare_atomic = triggers.keep(fi_op_compare_atomic {
        ep,
        msg: triggers.update(FI_CSWAP, 99),
        fetch: into(compared),
        compare,
        flags: 0,
    });
    assert_eq!(triggers.queue(triggers.work(2, FI_OP_COMPARE_ATOMIC, fi_deferred_op { compare_atomic })), 0);
    triggers.trigger(1);
    triggers.until(triggers.done, 1);
    triggers.trigger(1);
    triggers.until(triggers.done, 2);
    assert_eq!((c!(*fetched), c!(*compared), triggers.first()), (10, 15, 99));
}

/// An unknown operation is refused with -FI_ENOSYS.
fn an_unknown_work_is_refused(subject) {
    let triggers = TriggerFixture::new(subject);
    let work = triggers.change(1, 999, triggers.done, 1);
    assert_eq!(triggers.queue(work), -FI_ENOSYS);
}

/// An operation with FI_TRIGGER waits until the counter of its context reaches the threshold.
fn a_triggered_operation_waits(subject) {
    let triggers = TriggerFixture::new(subject);
    let posted = triggers.receives(1);
    triggers.triggered(2, b'x');
    triggers.trigger(1);
    triggers.idle();
    assert!(triggers.rma.pair.b.read().is_none());
    triggers.trigger(1);
    assert_eq!(triggers.received(&posted), b"x");
    let _ = triggers.rma.pair.done(&triggers.rma.pair.a);
}

/// A triggered operation whose condition is met starts at once.
fn a_triggered_operation_that_is_due_starts(subject) {
    let triggers = TriggerFixture::new(subject);
    let posted = triggers.receives(1);
    triggers.trigger(3);
    triggers.triggered(2, b'x');
    assert_eq!(triggers.received(&posted), b"x");
}

/// Operations start in the order of their thresholds, even if the counter passes all at once.
fn thresholds_are_an_order(subject) {
    let triggers = TriggerFixture::new(subject);
    let posted = triggers.receives(3);
    triggers.triggered(3, b'3');
    triggers.triggered(1, b'1');
    triggers.triggered(2, b'2');
    triggers.trigger(5);
    assert_eq!(triggers.received(&posted), b"123");
}

/// Operations of the same threshold start in the order in which they were posted.
fn the_first_of_a_threshold_starts_first(subject) {
    let triggers = TriggerFixture::new(subject);
    let posted = triggers.receives(4);
    for byte in b"abcd" {
        triggers.triggered(1, *byte);
    }
    triggers.trigger(1);
    assert_eq!(triggers.received(&posted), b"abcd");
}
}
