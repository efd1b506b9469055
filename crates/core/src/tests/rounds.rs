//! What a poll of one endpoint's queue does for the others of its domain.

use core::ptr::{null, null_mut};
use std::time::{Duration, Instant};

use oxifabric_abi::*;
use oxifabric_types::Threading;

use super::waiting::{descriptor, readable, trywait};
use super::world::{End, World, c, close};

const TAGGED: fi_cq_format = FI_CQ_FORMAT_TAGGED;
const AGAIN: isize = -(FI_EAGAIN as isize);

/// How long anything may take: machines that run tests are busy.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A message that the mock provider holds back until its sender's endpoint is driven.
fn send_held_back(from: &End, to: fi_addr_t) {
    let mut byte = *b"x";
    let iov = libc::iovec {
        iov_base: byte.as_mut_ptr().cast(),
        iov_len: 1,
    };
    let msg = fi_msg {
        msg_iov: &iov,
        desc: null_mut(),
        iov_count: 1,
        addr: to,
        context: null_mut(),
        data: 0,
    };
    let flags = FI_MORE | FI_INJECT;
    assert_eq!(c!(fi_sendmsg(from.ep, &msg, flags)), 0);
}

/// Reads a queue until `done`.
fn read_until(end: &End, done: impl Fn() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < TIMEOUT);
        assert_eq!(c!(fi_cq_read(end.cq, null_mut(), 0)), AGAIN);
    }
}

fn has_any(end: &End) -> bool {
    c!(fi_cq_read(end.cq, null_mut(), 0)) == 0
}

/// An endpoint of another domain that expects a message.
fn receiver(world: &World, into: &mut [u8; 1]) -> End {
    let end = world.end(TAGGED, FI_WAIT_NONE);
    end.recv(into, 1);
    end
}

#[test]
fn what_was_accepted_leaves_while_another_queue_is_read() {
    let (here, there) = (World::new(), World::new());
    let mut into = [0; 1];
    let target = receiver(&there, &mut into);
    let [read, sends] = [(), ()].map(|()| here.end(TAGGED, FI_WAIT_NONE));
    let to = sends.knows(&target);
    send_held_back(&sends, to);
    read_until(&read, || has_any(&target));
}

#[test]
fn what_was_accepted_leaves_while_another_counter_is_read() {
    let (here, there) = (World::new(), World::new());
    let mut into = [0; 1];
    let target = receiver(&there, &mut into);
    let (cntr, sends) = (here.cntr(FI_WAIT_NONE), here.end(TAGGED, FI_WAIT_NONE));
    let _other = here.end(TAGGED, FI_WAIT_NONE);
    let to = sends.knows(&target);
    send_held_back(&sends, to);
    let begun = Instant::now();
    while !has_any(&target) {
        assert!(begun.elapsed() < TIMEOUT);
        assert_eq!(c!(fi_cntr_read(cntr)), 0);
    }
    assert_eq!(close(cntr), 0);
}

#[test]
fn every_endpoint_of_many_has_its_turn() {
    let (here, there) = (World::new(), World::new());
    let read = here.end(TAGGED, FI_WAIT_NONE);
    for _ in 0..3 {
        let others: Vec<_> = (0..50).map(|_| here.end(TAGGED, FI_WAIT_NONE)).collect();
        for sends in &others {
            let mut into = [0; 1];
            let target = receiver(&there, &mut into);
            let to = sends.knows(&target);
            send_held_back(sends, to);
            read_until(&read, || has_any(&target));
        }
    }
}

#[test]
fn a_busy_queue_leaves_others_their_turn() {
    let (here, there) = (World::new(), World::new());
    let mut into = [0; 1];
    let target = receiver(&there, &mut into);
    let [read, sends] = [(), ()].map(|()| here.end(TAGGED, FI_WAIT_NONE));
    let peer = there.end(TAGGED, FI_WAIT_NONE);
    let (to_read, to) = (peer.knows(&read), sends.knows(&target));
    send_held_back(&sends, to);
    let begun = Instant::now();
    while !has_any(&target) {
        assert!(begun.elapsed() < TIMEOUT);
        // Each read finds something.
        let mut room = [0; 1];
        read.recv(&mut room, 2);
        assert_eq!(peer.send(to_read, b"y", 3), 0);
        assert_eq!(peer.next().0.op_context.addr(), 3);
        assert_eq!(read.next().0.op_context.addr(), 2);
    }
}

/// Sends a message that completes when the peer has received it.
fn send_delivered(from: &End, to: fi_addr_t) {
    let iov = libc::iovec {
        iov_base: null_mut(),
        iov_len: 0,
    };
    let msg = fi_msg {
        msg_iov: &iov,
        desc: null_mut(),
        iov_count: 1,
        addr: to,
        context: null_mut(),
        data: 0,
    };
    let flags = FI_DELIVERY_COMPLETE | FI_COMPLETION;
    assert_eq!(c!(fi_sendmsg(from.ep, &msg, flags)), 0);
}

#[test]
fn a_blocking_read_answers_for_other_endpoints() {
    let (here, there) = (World::new(), World::new());
    for wait_obj in [FI_WAIT_FD, FI_WAIT_NONE] {
        let (sleeps, answers) = (here.end(TAGGED, FI_WAIT_FD), here.end(TAGGED, wait_obj));
        let asks = there.end(TAGGED, FI_WAIT_NONE);
        let (to_answers, mut into) = (asks.knows(&answers), [0; 1]);
        answers.recv(&mut into, 1);
        send_delivered(&asks, to_answers);
        let begun = Instant::now();
        while !has_any(&asks) {
            assert!(begun.elapsed() < TIMEOUT);
            let mut entry = fi_cq_tagged_entry::ZERO;
            let place = (&raw mut entry).cast();
            assert_eq!(c!(fi_cq_sread(sleeps.cq, place, 1, null(), 5)), AGAIN);
        }
    }
}

#[test]
fn a_descriptor_tells_of_other_endpoints() {
    let (here, there) = (World::new(), World::new());
    let [sleeps, answers] = [(), ()].map(|()| here.end(TAGGED, FI_WAIT_FD));
    let asks = there.end(TAGGED, FI_WAIT_NONE);
    let to_answers = asks.knows(&answers);
    let fd = descriptor(sleeps.cq);
    let mut into = [0; 1];
    for _ in 0..3 {
        answers.recv(&mut into, 1);
        // The first look only tells that the endpoint is driven from elsewhere, as it was below.
        let quiet = (0..4).any(|_| trywait(&here, sleeps.cq) == 0);
        assert!(quiet && !readable(fd, 0));
        send_delivered(&asks, to_answers);
        assert!(readable(fd, 30_000));
        read_until(&sleeps, || has_any(&asks));
        assert_eq!(asks.next().0.flags & FI_SEND, FI_SEND);
        assert_eq!(answers.next().0.flags & FI_RECV, FI_RECV);
    }
}

#[test]
fn an_endpoint_that_is_slept_on_elsewhere_wakes_its_own_sleeper_only() {
    let (here, there) = (World::new(), World::new());
    let [sleeps, answers] = [(), ()].map(|()| here.end(TAGGED, FI_WAIT_FD));
    let asks = there.end(TAGGED, FI_WAIT_NONE);
    let to_answers = asks.knows(&answers);
    let [fd, own] = [&sleeps, &answers].map(|end| descriptor(end.cq));
    let mut into = [0; 1];
    answers.recv(&mut into, 1);
    assert!((0..4).any(|_| trywait(&here, answers.cq) == 0));
    assert!((0..4).any(|_| trywait(&here, sleeps.cq) == 0));
    // A thread that polls for long does not spoil its sleep.
    let busy = here.end(TAGGED, FI_WAIT_NONE);
    for _ in 0..10_000 {
        assert!(!has_any(&busy));
    }
    send_delivered(&asks, to_answers);
    assert!(readable(own, 30_000) && !readable(fd, 0));
}

#[test]
fn domains_of_one_thread_alone_do_without_locks() {
    let of = |threading| World::with(FI_VERSION(2, 6), |info| info.domain.threading = threading);
    let locks = |world: &World| {
        // SAFETY: the domain is open, and of the mock provider.
        let domain: &crate::domain::Domain = unsafe { crate::handle::object(world.domain) };
        domain.locks()
    };
    assert!(!locks(&of(Threading::Domain)));
    for threading in [Threading::Completion, Threading::Endpoint, Threading::Safe] {
        assert!(
            locks(&of(threading)),
            "a poll drives what another thread may use"
        );
    }
}
