//! Progress: what a poll of one endpoint's queue or counter does for the other endpoints of its domain.

use core::ptr::null_mut;
use std::time::Instant;

use oxifabric_abi::*;

use crate::desk::Desk;
use crate::ground::{ACCESS, BOTH, Ground};
use crate::traffic::{PATIENCE, Read};
use crate::world::{End, Two, World, close};
use crate::{Stage, c, sentences};

/// More than any provider sends before the peer asks for it.
const LONG: usize = 3 << 20;

/// Endpoints of two domains, and objects beside the first of them, which are all that its program polls.
struct Aside {
    ground: Ground,
    cntr: *mut fid_cntr,
    idle: End,
    here: World,
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
    fn new(stage: &Stage) -> Self {
        let world = || World::with(stage, |hints| hints.caps |= ACCESS);
        let (here, there) = (world(), world());
        let idle = here.end();
        let cntr = here.cntr(FI_WAIT_UNSPEC);
        let two = Two::of(here.end(), there.end());
        let ground = Ground::of(there, two, BOTH);
        Self {
            ground,
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
            match self.ground.two.b.read() {
                Some(Read::Done(done)) => return done,
                Some(Read::Failed(error)) => panic!("{error:?}"),
                None => self.poll(what),
            }
            assert!(begun.elapsed() < PATIENCE, "nothing came");
        }
    }

    /// Begins a send of `a`.
    fn send(&self, bytes: &[u8]) {
        let (two, context) = (&self.ground.two, self.ground.two.a.traffic.context());
        let place = two.a.traffic.buffer(bytes);
        let begun = c!(fi_send(
            two.a.ep,
            place.cast(),
            bytes.len(),
            null_mut(),
            two.to_b,
            context
        ));
        assert_eq!(begun, 0);
    }

    /// Begins a send of `b` to `a`.
    fn ask(&self, bytes: &[u8], flags: u64) {
        let two = &self.ground.two;
        let iov = libc::iovec {
            iov_base: two.b.traffic.buffer(bytes).cast(),
            iov_len: bytes.len(),
        };
        let msg = fi_msg {
            msg_iov: &iov,
            desc: null_mut(),
            iov_count: 1,
            addr: two.to_a,
            context: two.b.traffic.context(),
            data: 0,
        };
        assert_eq!(c!(fi_sendmsg(two.b.ep, &msg, flags)), 0);
    }

    fn close(self) {
        let Self {
            ground,
            cntr,
            idle,
            here,
        } = self;
        ground.close_with(|| {
            assert_eq!(close(cntr), 0);
            drop(idle);
            drop(here);
        });
    }
}

/// An endpoint's first message leaves, to a peer that it has no connection with, although something else is polled.
fn first_message_leaves(stage: &Stage, what: Polled) {
    let aside = Aside::new(stage);
    let two = &aside.ground.two;
    let posted = two.b.recv(1);
    aside.send(b"x");
    assert_eq!(aside.done_there(what).op_context, posted.context);
    assert_eq!(posted.bytes(), b"x");
    aside.close();
}

/// Injects from `a`, which is polled neither before nor afterwards: the calls that are refused make the connection.
fn inject(two: &Two, call: impl Fn() -> isize) {
    let begun = Instant::now();
    loop {
        match call() {
            0 => return,
            code => assert_eq!(code, -(FI_EAGAIN as isize)),
        }
        two.progress(&two.b);
        assert!(begun.elapsed() < PATIENCE, "no connection was made");
    }
}

/// Waits for the next completion of `b` while nothing else is polled.
fn done_alone(two: &Two) -> fi_cq_tagged_entry {
    let begun = Instant::now();
    loop {
        match two.b.read() {
            Some(Read::Done(done)) => return done,
            Some(Read::Failed(error)) => panic!("{error:?}"),
            None => assert!(begun.elapsed() < PATIENCE, "nothing came"),
        }
    }
}

sentences! { "fi_domain(3), progress";

/// What an endpoint has accepted leaves while another endpoint's queue is read, the connection that it needs included.
fn a_message_leaves_while_another_queue_is_read(stage) {
    first_message_leaves(stage, Polled::Queue);
}

/// The same while a counter is read that no endpoint is bound to.
fn a_message_leaves_while_a_counter_is_read(stage) {
    first_message_leaves(stage, Polled::Counter);
}

/// The same during blocking reads of another endpoint's queue.
fn a_message_leaves_during_blocking_reads(stage) {
    first_message_leaves(stage, Polled::Blocking);
}

/// What is injected has left when its call returns without error: nothing has to be polled afterwards.
fn an_injected_message_needs_no_poll(stage) {
    let aside = Aside::new(stage);
    let two = &aside.ground.two;
    let posted = two.b.recv(1);
    inject(two, || c!(fi_inject(two.a.ep, b"x".as_ptr().cast(), 1, two.to_b)));
    assert_eq!(done_alone(two).op_context, posted.context);
    assert_eq!(posted.bytes(), b"x");
    aside.close();
}

/// The same for a write, of which no counter is read either.
fn an_injected_write_needs_no_poll(stage) {
    let aside = Aside::new(stage);
    let (ground, two) = (&aside.ground, &aside.ground.two);
    inject(two, || {
        c!(fi_inject_write(two.a.ep, b"y".as_ptr().cast(), 1, two.to_b, ground.base, ground.key()))
    });
    let begun = Instant::now();
    while c!(ground.bytes.read_volatile()) != b'y' {
        assert!(begun.elapsed() < PATIENCE);
        two.progress(&two.b);
    }
    aside.close();
}

/// A write leaves while another endpoint's queue is read.
fn a_write_leaves_while_another_queue_is_read(stage) {
    let aside = Aside::new(stage);
    let (ground, two) = (&aside.ground, &aside.ground.two);
    let place = two.a.traffic.buffer(b"y");
    let begun = c!(fi_write(
        two.a.ep,
        place.cast(),
        1,
        null_mut(),
        two.to_b,
        ground.base,
        ground.key(),
        two.a.traffic.context()
    ));
    assert_eq!(begun, 0);
    let begun = Instant::now();
    while c!(ground.bytes.read_volatile()) != b'y' {
        assert!(begun.elapsed() < PATIENCE);
        aside.poll(Polled::Queue);
        two.progress(&two.b);
    }
    aside.close();
}

/// A long message goes on at its sender while another endpoint's queue is read, and its completion waits in the sender's.
fn a_long_message_goes_on_while_another_queue_is_read(stage) {
    let aside = Aside::new(stage);
    let posted = aside.ground.two.b.recv(LONG);
    aside.send(&vec![7; LONG]);
    assert_eq!(aside.done_there(Polled::Queue).op_context, posted.context);
    assert!(posted.bytes().iter().all(|&byte| byte == 7));
    let _ = aside.ground.two.done(&aside.ground.two.a);
    aside.close();
}

/// A long message is received while another endpoint's queue is read.
fn a_long_message_is_received_while_another_queue_is_read(stage) {
    let aside = Aside::new(stage);
    let posted = aside.ground.two.a.recv(LONG);
    aside.ask(&vec![9; LONG], FI_COMPLETION | FI_DELIVERY_COMPLETE);
    let _ = aside.done_there(Polled::Queue);
    assert!(posted.bytes().iter().all(|&byte| byte == 9));
    aside.close();
}

/// An endpoint acknowledges what it receives while another one's queue is read.
fn a_message_is_acknowledged_while_another_queue_is_read(stage) {
    let aside = Aside::new(stage);
    for what in [Polled::Queue, Polled::Counter, Polled::Blocking] {
        let posted = aside.ground.two.a.recv(1);
        aside.ask(b"z", FI_COMPLETION | FI_DELIVERY_COMPLETE);
        let _ = aside.done_there(what);
        assert_eq!(posted.bytes(), b"z");
    }
    aside.close();
}

/// A deferred work goes on while another endpoint's queue is read.
fn a_deferred_work_goes_on_while_another_queue_is_read(stage) {
    let (here, there) = (Desk::world(stage), World::new(stage));
    let (idle, two) = (here.end(), Two::of(here.end(), there.end()));
    let desk = Desk::with(here, two);
    let posted = desk.ground.two.b.recv(1);
    desk.send(1, b'x');
    desk.trigger(1);
    let begun = Instant::now();
    while desk.ground.two.b.read().is_none() {
        assert!(begun.elapsed() < PATIENCE, "nothing came");
        assert!(idle.read().is_none());
    }
    assert_eq!(posted.bytes(), b"x");
    drop(idle);
    drop(desk);
    drop(there);
}
}
