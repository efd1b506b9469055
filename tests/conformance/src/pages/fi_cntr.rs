//! Counters.

use std::time::Instant;

use crate::litmus::{Counted, Parties};
use oxifabric_abi::*;
use oxifabric_fixtures::c;
use oxifabric_fixtures::fixture::{Fixture, Pair, TestEndpoint, bind, close};
use oxifabric_fixtures::traffic::{TIMEOUT, Traffic};

use crate::requirements;

/// Returns an endpoint whose queue cannot be waited for.
fn without_wait(fixture: &Fixture) -> TestEndpoint {
    let (ep, av) = (fixture.bare(), fixture.av());
    let cq = fixture.cq(|attr| attr.wait_obj = FI_WAIT_NONE);
    let end = TestEndpoint {
        ep,
        cq,
        av,
        eq: core::ptr::null_mut(),
        traffic: Traffic::default(),
    };
    assert_eq!(
        (
            bind(ep, cq, FI_SEND | FI_RECV),
            bind(ep, av, 0),
            c!(fi_enable(ep))
        ),
        (0, 0, 0)
    );
    end
}

requirements! { "fi_cntr(3)";

/// A counter starts at zero, with no errors.
fn a_counter_starts_at_zero(subject) {
    let fixture = Fixture::new(subject);
    let cntr = fixture.cntr(FI_WAIT_UNSPEC);
    assert_eq!((c!(fi_cntr_read(cntr)), c!(fi_cntr_readerr(cntr))), (0, 0));
    assert_eq!(close(cntr), 0);
}

/// What is added and set is read.
fn what_is_added_and_set_is_read(subject) {
    let fixture = Fixture::new(subject);
    let cntr = fixture.cntr(FI_WAIT_UNSPEC);
    assert_eq!(c!(fi_cntr_add(cntr, 5)), 0);
    assert_eq!(c!(fi_cntr_add(cntr, 2)), 0);
    assert_eq!(c!(fi_cntr_read(cntr)), 7);
    assert_eq!(c!(fi_cntr_set(cntr, 3)), 0);
    assert_eq!(c!(fi_cntr_read(cntr)), 3);
    assert_eq!(close(cntr), 0);
}

/// Errors are counted for themselves.
fn errors_are_counted_for_themselves(subject) {
    let fixture = Fixture::new(subject);
    let cntr = fixture.cntr(FI_WAIT_UNSPEC);
    assert_eq!(c!(fi_cntr_adderr(cntr, 4)), 0);
    assert_eq!((c!(fi_cntr_read(cntr)), c!(fi_cntr_readerr(cntr))), (0, 4));
    assert_eq!(c!(fi_cntr_seterr(cntr, 1)), 0);
    assert_eq!(c!(fi_cntr_readerr(cntr)), 1);
    assert_eq!(close(cntr), 0);
}

/// A wait for a value that was reached returns at once.
fn a_wait_for_the_past_returns(subject) {
    let fixture = Fixture::new(subject);
    let cntr = fixture.cntr(FI_WAIT_UNSPEC);
    assert_eq!(c!(fi_cntr_set(cntr, 10)), 0);
    assert_eq!(c!(fi_cntr_wait(cntr, 10, -1)), 0);
    assert_eq!(c!(fi_cntr_wait(cntr, 3, -1)), 0);
    assert_eq!(close(cntr), 0);
}

/// A wait whose time is over gives -FI_ETIMEDOUT.
fn a_wait_ends_with_its_time(subject) {
    let fixture = Fixture::new(subject);
    let cntr = fixture.cntr(FI_WAIT_UNSPEC);
    assert_eq!(c!(fi_cntr_wait(cntr, 1, 1)), -FI_ETIMEDOUT);
    assert_eq!(close(cntr), 0);
}

/// A counter counts what completes, each operation once.
fn operations_are_counted(subject) {
    let fixture = Fixture::new(subject);
    let (sent, received) = (fixture.cntr(FI_WAIT_UNSPEC), fixture.cntr(FI_WAIT_UNSPEC));
    let a = fixture.end_with(FI_SEND | FI_RECV, |ep| assert_eq!(bind(ep, sent, FI_SEND), 0));
    let b = fixture.end_with(FI_SEND | FI_RECV, |ep| assert_eq!(bind(ep, received, FI_RECV), 0));
    let pair = Pair::of(a, b);
    for _ in 0..3 {
        let _posted = pair.b.recv(8);
        pair.send(b"x");
        let _ = (pair.done(&pair.a), pair.done(&pair.b));
    }
    assert_eq!((c!(fi_cntr_read(sent)), c!(fi_cntr_read(received))), (3, 3));
    assert_eq!((c!(fi_cntr_readerr(sent)), c!(fi_cntr_readerr(received))), (0, 0));
    drop(pair);
    assert_eq!((close(sent), close(received)), (0, 0));
}

/// Injected messages are counted though they write no completion.
fn injected_messages_are_counted(subject) {
    let fixture = Fixture::new(subject);
    let sent = fixture.cntr(FI_WAIT_UNSPEC);
    let a = fixture.end_with(FI_SEND | FI_RECV, |ep| assert_eq!(bind(ep, sent, FI_SEND), 0));
    let pair = Pair::of(a, fixture.end());
    let _posted = pair.b.recv(8);
    let byte = b"x";
    pair.start(|| c!(fi_inject(pair.a.ep, byte.as_ptr().cast(), 1, pair.to_b)));
    let _ = pair.done(&pair.b);
    let begun = Instant::now();
    while c!(fi_cntr_read(sent)) == 0 && begun.elapsed() < TIMEOUT {
        pair.progress(&pair.b);
    }
    assert_eq!(c!(fi_cntr_read(sent)), 1);
    assert!(pair.a.read().is_none());
    drop(pair);
    assert_eq!(close(sent), 0);
}

/// A counter may be bound to an endpoint that is enabled, and counts from then on.
fn a_counter_is_bound_late(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let _posted = pair.b.recv(8);
    pair.send(b"x");
    let _ = (pair.done(&pair.a), pair.done(&pair.b));
    let (sent, received) = (fixture.cntr(FI_WAIT_UNSPEC), fixture.cntr(FI_WAIT_UNSPEC));
    assert_eq!((bind(pair.a.ep, sent, FI_SEND), bind(pair.b.ep, received, FI_RECV)), (0, 0));
    for _ in 0..2 {
        let _posted = pair.b.recv(8);
        pair.send(b"y");
        let _ = (pair.done(&pair.a), pair.done(&pair.b));
    }
    assert_eq!((c!(fi_cntr_read(sent)), c!(fi_cntr_read(received))), (2, 2));
    drop(pair);
    assert_eq!((close(sent), close(received)), (0, 0));
}

/// A wait for a counter that was bound late makes progress, whatever the endpoint was enabled with.
fn a_wait_for_a_late_counter_makes_progress(subject) {
    let fixture = Fixture::with(subject, |hints| c!((*hints.domain_attr).threading = FI_THREAD_SAFE));
    // Endpoints that do not know each other yet, and those that do.
    for has_met in [false, true] {
        let pair = Pair::of(without_wait(&fixture), without_wait(&fixture));
        if has_met {
            let _posted = pair.b.recv(8);
            pair.send(b"x");
            let _ = (pair.done(&pair.a), pair.done(&pair.b));
        }
        let cntr = fixture.cntr(FI_WAIT_UNSPEC);
        assert_eq!(bind(pair.b.ep, cntr, FI_RECV), 0);
        let _posted = pair.b.recv(8);
        let shared = cntr as usize;
        std::thread::scope(|scope| {
            let waiter = scope.spawn(move || {
                c!(fi_cntr_wait(shared as *mut fid_cntr, 1, TIMEOUT.as_millis() as i32))
            });
            pair.send(b"y");
            while !waiter.is_finished() {
                pair.progress(&pair.a);
            }
            assert_eq!(waiter.join().expect("the thread does not panic"), 0);
        });
        drop(pair);
        assert_eq!(close(cntr), 0);
    }
}

/// An operation that fails counts as an error.
fn failures_are_counted_as_errors(subject) {
    let fixture = Fixture::new(subject);
    let received = fixture.cntr(FI_WAIT_UNSPEC);
    let b = fixture.end_with(FI_SEND | FI_RECV, |ep| assert_eq!(bind(ep, received, FI_RECV), 0));
    let pair = Pair::of(fixture.end(), b);
    let posted = pair.b.recv(8);
    assert_eq!(c!(fi_cancel(pair.b.ep.cast(), posted.context)), 0);
    let _ = pair.failed(&pair.b);
    assert_eq!((c!(fi_cntr_read(received)), c!(fi_cntr_readerr(received))), (0, 1));
    drop(pair);
    assert_eq!(close(received), 0);
}

/// A counter that is bound to an endpoint cannot be closed: -FI_EBUSY.
fn a_counter_in_use_stays_open(subject) {
    let fixture = Fixture::new(subject);
    let cntr = fixture.cntr(FI_WAIT_UNSPEC);
    let end = fixture.end_with(FI_SEND | FI_RECV, |ep| assert_eq!(bind(ep, cntr, FI_SEND), 0));
    assert_eq!(close(cntr), -FI_EBUSY);
    drop(end);
    assert_eq!(close(cntr), 0);
}

/// A counter says that it is one, and keeps its context.
fn a_counter_has_its_class(subject) {
    let fixture = Fixture::new(subject);
    let (mut attr, mut cntr, mut mark) = (fi_cntr_attr::ZERO, core::ptr::null_mut(), 0_u8);
    let context = (&raw mut mark).cast();
    assert_eq!(c!(fi_cntr_open(fixture.domain, &mut attr, &mut cntr, context)), 0);
    assert_eq!(c!(((*cntr).fid.fclass, (*cntr).fid.context)), (FI_CLASS_CNTR, context));
    assert_eq!(close(cntr), 0);
}

/// An error that comes ends a wait with -FI_EAVAIL.
fn an_error_ends_a_wait(subject) {
    let fixture = Fixture::with(subject, |hints| c!((*hints.domain_attr).threading = FI_THREAD_SAFE));
    let cntr = fixture.cntr(FI_WAIT_UNSPEC);
    let shared = cntr as usize;
    std::thread::scope(|scope| {
        let waiter = scope.spawn(move || {
            let cntr: *mut fid_cntr = core::ptr::with_exposed_provenance_mut(shared);
            c!(fi_cntr_wait(cntr, 1000, TIMEOUT.as_millis() as i32))
        });
        // A wait that begins behind an error does not see it change: errors come until it has ended.
        while !waiter.is_finished() {
            assert_eq!(c!(fi_cntr_adderr(cntr, 1)), 0);
            std::thread::yield_now();
        }
        assert_eq!(waiter.join().expect("a wait"), -FI_EAVAIL);
    });
    assert_eq!(close(cntr), 0);
}

/// A wait ends when another thread brings the counter to its threshold.
fn an_addition_ends_a_wait(subject) {
    let fixture = Fixture::with(subject, |hints| c!((*hints.domain_attr).threading = FI_THREAD_SAFE));
    let cntr = fixture.cntr(FI_WAIT_UNSPEC);
    let shared = cntr as usize;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let cntr: *mut fid_cntr = core::ptr::with_exposed_provenance_mut(shared);
            for _ in 0..100 {
                assert_eq!(c!(fi_cntr_add(cntr, 1)), 0);
            }
        });
        assert_eq!(c!(fi_cntr_wait(cntr, 100, TIMEOUT.as_millis() as i32)), 0);
    });
    assert_eq!(c!(fi_cntr_read(cntr)), 100);
    assert_eq!(close(cntr), 0);
}

/// A wait makes progress: operations are counted that only the counter waits for.
fn a_wait_makes_progress(subject) {
    let fixture = Fixture::new(subject);
    let received = fixture.cntr(FI_WAIT_UNSPEC);
    let b = fixture.end_with(FI_SEND | FI_RECV, |ep| assert_eq!(bind(ep, received, FI_RECV), 0));
    let pair = Pair::of(fixture.end(), b);
    let _posted = pair.b.recv(1);
    pair.send(b"x");
    let begun = Instant::now();
    while c!(fi_cntr_wait(received, 1, 5)) != 0 {
        assert!(begun.elapsed() < TIMEOUT);
        pair.progress(&pair.a);
    }
    drop(pair);
    assert_eq!(close(received), 0);
}

/// Tagged messages are counted as messages are.
fn tagged_messages_are_counted(subject) {
    let fixture = Fixture::new(subject);
    let (sent, received) = (fixture.cntr(FI_WAIT_UNSPEC), fixture.cntr(FI_WAIT_UNSPEC));
    let a = fixture.end_with(FI_SEND | FI_RECV, |ep| assert_eq!(bind(ep, sent, FI_SEND), 0));
    let b = fixture.end_with(FI_SEND | FI_RECV, |ep| assert_eq!(bind(ep, received, FI_RECV), 0));
    let pair = Pair::of(a, b);
    let _posted = pair.b.trecv(1, 7, 0);
    pair.tsend(b"x", 7);
    let _ = (pair.done(&pair.a), pair.done(&pair.b));
    assert_eq!((c!(fi_cntr_read(sent)), c!(fi_cntr_read(received))), (1, 1));
    drop(pair);
    assert_eq!((close(sent), close(received)), (0, 0));
}

/// A write that was asked for no level is counted when the target has it (docs/adr/0029), and not while the target makes no
/// progress.
fn writes_are_counted_when_the_target_has_them(subject) {
    let counted = Counted::new(subject);
    for round in 1..=20 {
        counted.put(round);
        for _ in 0..200 {
            if counted.counted() >= round {
                assert_eq!(counted.number(), round, "counted before it was there");
            }
        }
        let begun = Instant::now();
        while counted.counted() < round {
            assert!(begun.elapsed() < TIMEOUT);
            counted.rma.pair.progress(&counted.rma.pair.b);
        }
        assert_eq!(counted.number(), round);
    }
    counted.close();
}

/// A third party that is told by the origin that a write was counted finds the data.
fn a_third_party_finds_what_was_counted(subject) {
    const ROUNDS: u64 = 500;
    let counted = Counted::new(subject);
    let parties = Parties::of(&counted);
    let stale = std::thread::scope(|scope| {
        scope.spawn(|| parties.serve());
        scope.spawn(|| parties.originate(ROUNDS));
        parties.look(ROUNDS)
    });
    assert_eq!(stale, 0, "of {ROUNDS} numbers");
    assert_eq!(counted.counted(), ROUNDS);
    counted.close();
}
}
