//! Progress: what a poll of one endpoint's queue or counter does for the other endpoints of its domain.

use core::ptr::null_mut;
use std::time::Instant;

use oxifabric_abi::*;
use oxifabric_fixtures::fixture::{Fixture, Pair, TestEndpoint, close};
use oxifabric_fixtures::rma_fixture::{ACCESS, BOTH, RmaFixture};
use oxifabric_fixtures::traffic::{Read, TIMEOUT};
use oxifabric_fixtures::trigger_fixture::TriggerFixture;
use oxifabric_fixtures::{Subject, c};

use crate::requirements;

/// More than any provider sends before the peer asks for it.
const LONG: usize = 3 << 20;

/// Endpoints of two domains, and objects beside the first of them, which are all that its program polls.
struct Aside {
    rma: RmaFixture,
    cntr: *mut fid_cntr,
    idle: TestEndpoint,
    here: Fixture,
}

/// What a program polls.
#[derive(Clone, Copy)]
enum Polled {
    Queue,
    Counter,
    Blocking,
}

impl Aside {
    /// Opens them; `a` of the two is beside the idle endpoint.
    fn new(subject: &Subject) -> Self {
        let fixture = || Fixture::with(subject, |hints| hints.caps |= ACCESS);
        let (here, there) = (fixture(), fixture());
        let idle = here.end();
        let cntr = here.cntr(FI_WAIT_UNSPEC);
        let pair = Pair::of(here.end(), there.end());
        let rma = RmaFixture::of(there, pair, BOTH);
        Self {
            rma,
            cntr,
            idle,
            here,
        }
    }

    /// Polls beside `a` once; nothing is ever found there.
    fn poll(&self, what: Polled) {
        let mut entry = fi_cq_tagged_entry::ZERO;
        let (cq, place) = (self.idle.cq, (&raw mut entry).cast());
        match what {
            Polled::Queue => assert_eq!(c!(fi_cq_read(cq, place, 1)), -(FI_EAGAIN as isize)),
            Polled::Blocking => {
                assert_eq!(
                    c!(fi_cq_sread(cq, place, 1, null_mut(), 2)),
                    -(FI_EAGAIN as isize)
                );
            }
            Polled::Counter => assert_eq!(c!(fi_cntr_read(self.cntr)), 0),
        }
    }

    /// Waits for the next completion of `b`, while `a` is left alone.
    fn done_there(&self, what: Polled) -> fi_cq_tagged_entry {
        let begun = Instant::now();
        loop {
            match self.rma.pair.b.read() {
                Some(Read::Done(done)) => return done,
                Some(Read::Failed(error)) => panic!("{error:?}"),
                None => self.poll(what),
            }
            assert!(begun.elapsed() < TIMEOUT, "nothing came");
        }
    }

    /// Begins a send of `a`.
    fn send(&self, bytes: &[u8]) {
        let (pair, context) = (&self.rma.pair, self.rma.pair.a.traffic.context());
        let place = pair.a.traffic.buffer(bytes);
        let begun = c!(fi_send(
            pair.a.ep,
            place.cast(),
            bytes.len(),
            null_mut(),
            pair.to_b,
            context
        ));
        assert_eq!(begun, 0);
    }

    /// Begins a send of `b` to `a`.
    fn ask(&self, bytes: &[u8], flags: u64) {
        let pair = &self.rma.pair;
        let iov = libc::iovec {
            iov_base: pair.b.traffic.buffer(bytes).cast(),
            iov_len: bytes.len(),
        };
        let msg = fi_msg {
            msg_iov: &iov,
            desc: null_mut(),
            iov_count: 1,
            addr: pair.to_a,
            context: pair.b.traffic.context(),
            data: 0,
        };
        assert_eq!(c!(fi_sendmsg(pair.b.ep, &msg, flags)), 0);
    }

    fn close(self) {
        let Self {
            rma,
            cntr,
            idle,
            here,
        } = self;
        rma.close_with(|| {
            assert_eq!(close(cntr), 0);
            drop(idle);
            drop(here);
        });
    }
}

/// An endpoint's first message leaves, to a peer that it has no connection with, although something else is polled.
fn first_message_leaves(subject: &Subject, what: Polled) {
    let aside = Aside::new(subject);
    let pair = &aside.rma.pair;
    let posted = pair.b.recv(1);
    aside.send(b"x");
    assert_eq!(aside.done_there(what).op_context, posted.context);
    assert_eq!(posted.bytes(), b"x");
    aside.close();
}

/// Injects from `a`, which is polled neither before nor afterwards: the calls that are refused make the connection.
fn inject(pair: &Pair, call: impl Fn() -> isize) {
    let begun = Instant::now();
    loop {
        match call() {
            0 => return,
            code => assert_eq!(code, -(FI_EAGAIN as isize)),
        }
        pair.progress(&pair.b);
        assert!(begun.elapsed() < TIMEOUT, "no connection was made");
    }
}

/// Waits for the next completion of `b` while nothing else is polled.
fn done_alone(pair: &Pair) -> fi_cq_tagged_entry {
    let begun = Instant::now();
    loop {
        match pair.b.read() {
            Some(Read::Done(done)) => return done,
            Some(Read::Failed(error)) => panic!("{error:?}"),
            None => assert!(begun.elapsed() < TIMEOUT, "nothing came"),
        }
    }
}

requirements! { "fi_domain(3), progress";

/// What an endpoint has accepted leaves while another endpoint's queue is read, the connection that it needs included.
fn a_message_leaves_while_another_queue_is_read(subject) {
    first_message_leaves(subject, Polled::Queue);
}

/// A message leaves while a counter is read that no endpoint is bound to.
fn a_message_leaves_while_a_counter_is_read(subject) {
    first_message_leaves(subject, Polled::Counter);
}

/// A message leaves during blocking reads of another endpoint's queue.
fn a_message_leaves_during_blocking_reads(subject) {
    first_message_leaves(subject, Polled::Blocking);
}

/// What is injected has left when its call returns without error: nothing has to be polled afterwards.
fn an_injected_message_needs_no_poll(subject) {
    let aside = Aside::new(subject);
    let pair = &aside.rma.pair;
    let posted = pair.b.recv(1);
    inject(pair, || c!(fi_inject(pair.a.ep, b"x".as_ptr().cast(), 1, pair.to_b)));
    assert_eq!(done_alone(pair).op_context, posted.context);
    assert_eq!(posted.bytes(), b"x");
    aside.close();
}

/// An injected write needs no poll, and no read of a counter either.
fn an_injected_write_needs_no_poll(subject) {
    let aside = Aside::new(subject);
    let (rma, pair) = (&aside.rma, &aside.rma.pair);
    inject(pair, || {
        c!(fi_inject_write(pair.a.ep, b"y".as_ptr().cast(), 1, pair.to_b, rma.base, rma.key()))
    });
    let begun = Instant::now();
    while c!(rma.bytes.read_volatile()) != b'y' {
        assert!(begun.elapsed() < TIMEOUT);
        pair.progress(&pair.b);
    }
    aside.close();
}

/// A write leaves while another endpoint's queue is read.
fn a_write_leaves_while_another_queue_is_read(subject) {
    let aside = Aside::new(subject);
    let (rma, pair) = (&aside.rma, &aside.rma.pair);
    let place = pair.a.traffic.buffer(b"y");
    let begun = c!(fi_write(
        pair.a.ep,
        place.cast(),
        1,
        null_mut(),
        pair.to_b,
        rma.base,
        rma.key(),
        pair.a.traffic.context()
    ));
    assert_eq!(begun, 0);
    let begun = Instant::now();
    while c!(rma.bytes.read_volatile()) != b'y' {
        assert!(begun.elapsed() < TIMEOUT);
        aside.poll(Polled::Queue);
        pair.progress(&pair.b);
    }
    aside.close();
}

/// A long message goes on at its sender while another endpoint's queue is read, and its completion waits in the sender's.
fn a_long_message_goes_on_while_another_queue_is_read(subject) {
    let aside = Aside::new(subject);
    let posted = aside.rma.pair.b.recv(LONG);
    aside.send(&vec![7; LONG]);
    assert_eq!(aside.done_there(Polled::Queue).op_context, posted.context);
    assert!(posted.bytes().iter().all(|&byte| byte == 7));
    let _ = aside.rma.pair.done(&aside.rma.pair.a);
    aside.close();
}

/// A long message is received while another endpoint's queue is read.
fn a_long_message_is_received_while_another_queue_is_read(subject) {
    let aside = Aside::new(subject);
    let posted = aside.rma.pair.a.recv(LONG);
    aside.ask(&vec![9; LONG], FI_COMPLETION | FI_DELIVERY_COMPLETE);
    let _ = aside.done_there(Polled::Queue);
    assert!(posted.bytes().iter().all(|&byte| byte == 9));
    aside.close();
}

/// An endpoint acknowledges what it receives while another one's queue is read.
fn a_message_is_acknowledged_while_another_queue_is_read(subject) {
    let aside = Aside::new(subject);
    for what in [Polled::Queue, Polled::Counter, Polled::Blocking] {
        let posted = aside.rma.pair.a.recv(1);
        aside.ask(b"z", FI_COMPLETION | FI_DELIVERY_COMPLETE);
        let _ = aside.done_there(what);
        assert_eq!(posted.bytes(), b"z");
    }
    aside.close();
}

/// A deferred work goes on while another endpoint's queue is read.
fn a_deferred_work_goes_on_while_another_queue_is_read(subject) {
    let (here, there) = (TriggerFixture::fixture(subject), Fixture::new(subject));
    let (idle, pair) = (here.end(), Pair::of(here.end(), there.end()));
    let triggers = TriggerFixture::with(here, pair);
    let posted = triggers.rma.pair.b.recv(1);
    triggers.send(1, b'x');
    triggers.trigger(1);
    let begun = Instant::now();
    while triggers.rma.pair.b.read().is_none() {
        assert!(begun.elapsed() < TIMEOUT, "nothing came");
        assert!(idle.read().is_none());
    }
    assert_eq!(posted.bytes(), b"x");
    drop(idle);
    drop(triggers);
    drop(there);
}
}
