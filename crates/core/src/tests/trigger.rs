//! Triggered operations and deferred work: fi_trigger(3).

use core::ffi::{c_int, c_void};
use core::ptr::{from_mut, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use oxifabric_abi::*;
use oxifabric_types::{Caps, Progress, Threading};

use super::world::{End, World, bind, c, close};
use crate::cntr::Cntr;
use crate::work::{Action, DeferredWorkQueue, Owner};

const TAGGED: fi_cq_format = FI_CQ_FORMAT_TAGGED;
const LONG_MS: c_int = 60_000;

fn world(progress: Progress) -> World {
    World::with(FI_VERSION(2, 6), |info| {
        info.caps |= Caps::TRIGGER;
        info.domain.data_progress = progress;
    })
}

/// An endpoint with a counter of its sends.
fn counted(world: &World, cntr: *mut fid_cntr) -> End {
    let end = End {
        ep: world.bare(),
        cq: world.cq(TAGGED, FI_WAIT_NONE),
        av: world.av(0),
    };
    assert_eq!(bind(end.ep, end.cq, FI_SEND | FI_RECV), 0);
    assert_eq!(
        (bind(end.ep, end.av, 0), bind(end.ep, cntr, FI_SEND)),
        (0, 0)
    );
    assert_eq!(c!(fi_enable(end.ep)), 0);
    end
}

fn when(cntr: *mut fid_cntr, threshold: usize) -> fi_triggered_context {
    fi_triggered_context {
        event_type: FI_TRIGGER_THRESHOLD,
        trigger: fi_triggered_context_union {
            threshold: fi_trigger_threshold { cntr, threshold },
        },
    }
}

fn send_triggered(
    end: &End,
    to: fi_addr_t,
    bytes: &[u8],
    context: &mut fi_triggered_context,
) -> isize {
    let piece = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let msg = fi_msg {
        msg_iov: &piece,
        desc: null_mut(),
        iov_count: 1,
        addr: to,
        context: from_mut(context).cast(),
        data: 0,
    };
    c!(fi_sendmsg(end.ep, &msg, FI_TRIGGER | FI_COMPLETION))
}

/// Drives the endpoint and reads the first byte of the next message.
fn first_byte(end: &End, into: &[u8; 1]) -> u8 {
    let (entry, _) = end.next();
    assert_ne!(entry.flags & FI_RECV, 0);
    into[0]
}

#[test]
fn triggered_sends_go_in_the_order_of_their_thresholds() {
    let world = world(Progress::Manual);
    let cntr = world.cntr(FI_WAIT_NONE);
    let (a, b) = (counted(&world, cntr), world.end(TAGGED, FI_WAIT_NONE));
    let to_b = a.knows(&b);
    let mut contexts = [when(cntr, 9), when(cntr, 3), when(cntr, 3), when(cntr, 6)];
    for (context, byte) in contexts.iter_mut().zip([b"z", b"a", b"b", b"c"]) {
        assert_eq!(send_triggered(&a, to_b, byte, context), 0);
    }
    let mut into = [0u8; 1];
    b.recv(&mut into, 1);
    assert_eq!(c!(fi_cntr_add(cntr, 2)), 0);
    assert!(b.read().is_err(), "nothing is due");
    assert_eq!(close(cntr), -FI_EBUSY, "operations wait for it");
    // One step over two thresholds; each send counts one more by itself, so that the last follows, but not the one at 9.
    assert_eq!(c!(fi_cntr_add(cntr, 2)), 0);
    for expected in [b'a', b'b', b'c'] {
        assert_eq!(first_byte(&b, &into), expected);
        let (sent, _) = a.next();
        assert_ne!(sent.flags & FI_SEND, 0);
        b.recv(&mut into, 1);
    }
    assert_eq!(c!(fi_cntr_read(cntr)), 7);
    assert!(b.read().is_err());
    let last = from_mut(&mut contexts[0]).cast::<c_void>();
    assert_eq!(c!(fi_cancel(a.ep.cast(), last)), 0);
    assert_eq!(a.read().err(), Some(-(FI_EAVAIL as isize)));
    let error = a.error();
    assert_eq!((error.err, error.op_context), (FI_ECANCELED, last));
    assert_eq!(c!(fi_cancel(a.ep.cast(), last)), -(FI_ENOENT as isize));
    drop(a);
    assert_eq!(close(cntr), 0);
}

#[test]
fn what_is_due_already_starts_at_once() {
    let world = world(Progress::Manual);
    let cntr = world.cntr(FI_WAIT_NONE);
    let (a, b) = (counted(&world, cntr), world.end(TAGGED, FI_WAIT_NONE));
    let to_b = a.knows(&b);
    let mut into = [0u8; 1];
    b.recv(&mut into, 1);
    assert_eq!(c!(fi_cntr_adderr(cntr, 2)), 0);
    let mut context = when(cntr, 2);
    assert_eq!(send_triggered(&a, to_b, b"x", &mut context), 0);
    assert_eq!(first_byte(&b, &into), b'x');
    let mut unknown = fi_triggered_context {
        event_type: FI_TRIGGER_XPU,
        ..context
    };
    let refused = send_triggered(&a, to_b, b"x", &mut unknown);
    assert_eq!(refused, -(FI_ENOSYS as isize));
    let mut nowhere = when(null_mut(), 2);
    let refused = send_triggered(&a, to_b, b"x", &mut nowhere);
    assert_eq!(refused, -(FI_EINVAL as isize));
    drop(a);
    assert_eq!(close(cntr), 0);
}

#[test]
fn an_endpoint_takes_its_waiting_operations_with_it() {
    let world = world(Progress::Manual);
    let cntr = world.cntr(FI_WAIT_NONE);
    let (a, b) = (counted(&world, cntr), world.end(TAGGED, FI_WAIT_NONE));
    let to_b = a.knows(&b);
    let mut context = when(cntr, 2);
    assert_eq!(send_triggered(&a, to_b, b"x", &mut context), 0);
    drop(a);
    assert_eq!(c!(fi_cntr_add(cntr, 5)), 0);
    assert_eq!(close(cntr), 0);
}

#[test]
fn only_endpoints_that_asked_are_triggered() {
    let world = World::new();
    let cntr = world.cntr(FI_WAIT_NONE);
    let a = counted(&world, cntr);
    let myself = a.knows(&a);
    let mut context = when(cntr, 2);
    let refused = send_triggered(&a, myself, b"x", &mut context);
    assert_eq!(refused, -(FI_EOPNOTSUPP as isize));
    let mut work = work(cntr, 1, null_mut());
    assert_eq!(queue(&world, &mut work), -FI_ENOSYS);
    drop(a);
    assert_eq!(close(cntr), 0);
}

fn work(
    triggering_cntr: *mut fid_cntr,
    threshold: u64,
    completion_cntr: *mut fid_cntr,
) -> fi_deferred_work {
    fi_deferred_work {
        context: fi_context2 {
            internal: [null_mut(); 8],
        },
        threshold,
        triggering_cntr,
        completion_cntr,
        op_type: FI_OP_CNTR_ADD,
        op: fi_deferred_op { cntr: null_mut() },
    }
}

fn queue(world: &World, work: &mut fi_deferred_work) -> c_int {
    let work = from_mut(work).cast();
    c!(fi_control(world.domain.cast(), FI_QUEUE_WORK, work))
}

/// Queues a message whose description is gone when this returns.
fn queue_message(
    world: &World,
    work: &mut fi_deferred_work,
    end: &End,
    to: fi_addr_t,
    bytes: &mut [u8],
    flags: u64,
) {
    let piece = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    let mut op = fi_op_msg {
        ep: end.ep,
        msg: fi_msg {
            msg_iov: &piece,
            desc: null_mut(),
            iov_count: 1,
            addr: to,
            context: (&raw mut work.context).cast(),
            data: 0,
        },
        flags,
    };
    work.op.msg = &mut op;
    assert_eq!(queue(world, work), 0);
}

#[test]
fn deferred_work_forms_a_chain() {
    for progress in [Progress::Manual, Progress::Auto] {
        let world = world(progress);
        let start = world.cntr(FI_WAIT_NONE);
        let (sent, received) = (world.cntr(FI_WAIT_FD), world.cntr(FI_WAIT_FD));
        let own = world.cntr(FI_WAIT_NONE);
        let (a, b) = (counted(&world, own), world.end(TAGGED, FI_WAIT_NONE));
        let to_b = a.knows(&b);
        let mut into = [0u8; 4];
        let mut works = [
            work(start, 1, received),
            work(start, 2, sent),
            work(sent, 1, null_mut()),
        ];
        works[0].op_type = FI_OP_RECV;
        queue_message(&world, &mut works[0], &b, FI_ADDR_UNSPEC, &mut into, 0);
        works[1].op_type = FI_OP_SEND;
        queue_message(&world, &mut works[1], &a, to_b, &mut b"abcd".to_owned(), 0);
        // The buffer has to stay; only the description may go.
        let mut bytes = b"efgh".to_owned();
        assert_eq!(flush(&world, null_mut()), 0);
        works[0].op_type = FI_OP_RECV;
        queue_message(&world, &mut works[0], &b, FI_ADDR_UNSPEC, &mut into, 0);
        queue_message(&world, &mut works[1], &a, to_b, &mut bytes, 0);
        let mut op = fi_op_cntr {
            cntr: own,
            value: 40,
        };
        works[2].op.cntr = &mut op;
        assert_eq!(queue(&world, &mut works[2]), 0);

        assert_eq!(c!(fi_cntr_add(start, 2)), 0);
        assert_eq!(c!(fi_cntr_wait(received, 1, LONG_MS)), 0);
        assert_eq!(c!(fi_cntr_wait(sent, 1, LONG_MS)), 0);
        assert_eq!(&into, b"efgh");
        while c!(fi_cntr_read(own)) != 40 {}
        assert!(
            a.read().is_err() && b.read().is_err(),
            "nothing in the queues"
        );
        assert_eq!(
            c!(fi_cntr_read(own)),
            40,
            "nothing in the endpoint's counter"
        );
        drop((a, b));
        for cntr in [start, sent, received, own] {
            assert_eq!(close(cntr), 0);
        }
    }
}

#[test]
fn deferred_work_goes_on_when_only_an_event_queue_is_read() {
    let world = World::with(FI_VERSION(2, 6), |info| {
        info.caps |= Caps::TRIGGER;
        info.domain.threading = Threading::Domain;
    });
    let (eq, received) = (world.eq(FI_WAIT_FD), world.cntr(FI_WAIT_NONE));
    let target = End {
        ep: world.bare(),
        cq: world.cq(TAGGED, FI_WAIT_NONE),
        av: world.av(0),
    };
    assert_eq!(bind(target.ep, target.cq, FI_SEND | FI_RECV), 0);
    assert_eq!(
        (
            bind(target.ep, target.av, 0),
            bind(target.ep, received, FI_RECV)
        ),
        (0, 0)
    );
    assert_eq!(c!(fi_enable(target.ep)), 0);
    let (a, b) = (
        world.end(TAGGED, FI_WAIT_NONE),
        world.end(TAGGED, FI_WAIT_NONE),
    );
    let (to_target, to_b) = (a.knows(&target), target.knows(&b));
    let (mut first, mut into, mut bytes) = ([0u8; 1], [0u8; 3], *b"abc");
    target.recv(&mut first, 1);
    b.recv(&mut into, 2);
    let mut work = work(received, 1, null_mut());
    work.op_type = FI_OP_SEND;
    queue_message(&world, &mut work, &target, to_b, &mut bytes, 0);
    assert_eq!(a.send(to_target, b"x", 3), 0);
    let mut handle = eq.cast::<fid>();
    let waits = c!(fi_trywait(world.fabric, &mut handle, 1));
    assert_eq!(waits, -FI_EAGAIN, "the descriptor tells nothing of works");
    let (mut event, mut entry) = (0, fi_eq_entry::ZERO);
    let (buf, len) = ((&raw mut entry).cast(), size_of_val(&entry));
    for _ in 0..1000 {
        let read = c!(fi_eq_read(eq, &mut event, buf, len, 0));
        assert_eq!(read, -(FI_EAGAIN as isize));
    }
    let waits = c!(fi_trywait(world.fabric, &mut handle, 1));
    assert_eq!(waits, 0, "no work waits");
    b.next();
    assert_eq!(&into, b"abc");
    drop((a, b, target));
    assert_eq!((close(eq), close(received)), (0, 0));
}

#[test]
fn a_deferred_work_may_ask_for_an_entry() {
    let world = world(Progress::Manual);
    let (start, done) = (world.cntr(FI_WAIT_NONE), world.cntr(FI_WAIT_NONE));
    let (a, b) = (
        world.end(TAGGED, FI_WAIT_NONE),
        world.end(TAGGED, FI_WAIT_NONE),
    );
    let to_b = a.knows(&b);
    let mut bytes = [1u8; 3];
    let mut work = work(start, 1, done);
    work.op_type = FI_OP_SEND;
    queue_message(&world, &mut work, &a, to_b, &mut bytes, FI_COMPLETION);
    assert_eq!(c!(fi_cntr_set(start, 1)), 0);
    let (entry, _) = a.next();
    assert_eq!(entry.op_context, (&raw mut work.context).cast());
    assert_eq!(entry.flags, FI_SEND | FI_MSG);
    assert_eq!(c!(fi_cntr_read(done)), 1);
    drop((a, b));
    assert_eq!((close(start), close(done)), (0, 0));
}

#[test]
fn a_deferred_work_that_fails_counts_an_error() {
    let world = world(Progress::Manual);
    let (start, done) = (world.cntr(FI_WAIT_NONE), world.cntr(FI_WAIT_NONE));
    let a = world.end(TAGGED, FI_WAIT_NONE);
    let mut bytes = [1u8; 3];
    let mut work = work(start, 1, done);
    work.op_type = FI_OP_SEND;
    queue_message(&world, &mut work, &a, 99, &mut bytes, 0);
    assert_eq!(c!(fi_cntr_set(start, 1)), 0);
    assert_eq!((c!(fi_cntr_read(done)), c!(fi_cntr_readerr(done))), (0, 1));
    drop(a);
    assert_eq!((close(start), close(done)), (0, 0));
}

fn flush(world: &World, arg: *mut c_void) -> c_int {
    c!(fi_control(world.domain.cast(), FI_FLUSH_WORK, arg))
}

#[test]
fn work_is_cancelled_one_by_one_or_all() {
    let world = world(Progress::Manual);
    let [first, second, third] = [0; 3].map(|_| world.cntr(FI_WAIT_NONE));
    let mut op = fi_op_cntr {
        cntr: third,
        value: 1,
    };
    let mut works = [
        work(first, 1, null_mut()),
        work(first, 1, null_mut()),
        work(second, 1, null_mut()),
    ];
    for work in &mut works {
        work.op.cntr = &mut op;
        assert_eq!(queue(&world, work), 0);
    }
    let cancel = |work: &mut fi_deferred_work| {
        let work = from_mut(work).cast();
        c!(fi_control(world.domain.cast(), FI_CANCEL_WORK, work))
    };
    assert_eq!(
        (cancel(&mut works[0]), cancel(&mut works[0])),
        (0, -FI_ENOENT)
    );
    assert_eq!(flush(&world, second.cast()), 0);
    assert_eq!(cancel(&mut works[2]), -FI_ENOENT);
    assert_eq!(c!(fi_cntr_add(first, 1)), 0);
    assert_eq!(c!(fi_cntr_read(third)), 1, "one was left");
    assert_eq!(queue(&world, &mut works[2]), 0);
    assert_eq!(flush(&world, null_mut()), 0);
    works[2].completion_cntr = first;
    assert_eq!(
        queue(&world, &mut works[2]),
        -FI_EINVAL,
        "counters have no completion"
    );
    works[2].op_type = 77;
    works[2].completion_cntr = null_mut();
    assert_eq!(queue(&world, &mut works[2]), -FI_ENOSYS);
    for cntr in [first, second, third] {
        assert_eq!(close(cntr), 0);
    }
}

#[test]
fn work_that_waits_is_bounded() {
    // As `MOST` of deferred work.
    const MOST: usize = 1 << 18;
    let world = world(Progress::Manual);
    let [never, total] = [0; 2].map(|_| world.cntr(FI_WAIT_NONE));
    let end = counted(&world, never);
    let mut op = fi_op_cntr {
        cntr: total,
        value: 1,
    };
    let mut waiting = work(never, 1, null_mut());
    waiting.op.cntr = &mut op;
    for _ in 0..MOST {
        assert_eq!(queue(&world, &mut waiting), 0);
    }
    assert_eq!(queue(&world, &mut waiting), -FI_EAGAIN);
    let mut context = when(never, 1);
    let to_itself = end.knows(&end);
    let sent = send_triggered(&end, to_itself, b"x", &mut context);
    assert_eq!(sent, -(FI_EAGAIN as isize));
    assert_eq!(c!(fi_cntr_add(never, 1)), 0);
    assert_eq!(c!(fi_cntr_read(total)), MOST as u64, "each has run once");
    waiting.threshold = 2;
    assert_eq!(queue(&world, &mut waiting), 0, "there is room again");
    assert_eq!(flush(&world, null_mut()), 0);
    drop(end);
    assert_eq!((close(never), close(total)), (0, 0));
}

#[test]
fn counters_of_bytes_count_bytes_and_failures() {
    let world = World::new();
    let mut attr = fi_cntr_attr {
        events: FI_CNTR_EVENTS_BYTES,
        ..fi_cntr_attr::ZERO
    };
    let mut cntr = null_mut();
    let opened = c!(fi_cntr_open(world.domain, &mut attr, &mut cntr, null_mut()));
    assert_eq!(opened, 0);
    let end = End {
        ep: world.bare(),
        cq: world.cq(TAGGED, FI_WAIT_NONE),
        av: world.av(0),
    };
    assert_eq!(bind(end.ep, end.cq, FI_SEND | FI_RECV), 0);
    assert_eq!(
        (
            bind(end.ep, end.av, 0),
            bind(end.ep, cntr, FI_SEND | FI_RECV)
        ),
        (0, 0)
    );
    assert_eq!(c!(fi_enable(end.ep)), 0);
    let myself = end.knows(&end);
    let mut into = [0u8; 8];
    end.recv(&mut into, 1);
    assert_eq!(end.send(myself, b"12345", 0), 0);
    end.next();
    end.next();
    assert_eq!(c!(fi_cntr_read(cntr)), 10, "five sent and five received");
    end.recv(&mut into[..2], 1);
    assert_eq!(end.send(myself, b"12345", 0), 0);
    while end.read().err() != Some(-(FI_EAVAIL as isize)) {}
    end.error();
    assert_eq!((c!(fi_cntr_read(cntr)), c!(fi_cntr_readerr(cntr))), (15, 1));
    attr.events = 9;
    let refused = c!(fi_cntr_open(world.domain, &mut attr, &mut cntr, null_mut()));
    assert_eq!(refused, -FI_EINVAL);
    drop(end);
    assert_eq!(close(cntr), 0);
}

#[test]
fn a_counter_is_closed_although_another_thread_is_about_to_let_go_of_its_last_work() {
    let world = world(Progress::Manual);
    let cntr = world.cntr(FI_WAIT_NONE);
    // SAFETY: it was just opened.
    let object = unsafe { crate::handle::object::<Cntr>(cntr) };
    let is_done = Arc::new(AtomicBool::new(false));
    let done = Arc::clone(&is_done);
    let action = Action::Call(Box::new(move |_| {
        done.store(true, Ordering::Release);
        // For a while the application knows that the work is done, and this thread has it still.
        (0..100).for_each(|_| thread::yield_now());
        Ok(())
    }));
    let (work, ep) = (1, 0);
    let owner = Owner::Domain { work, ep };
    let progress = Arc::clone(object.domain().progress());
    let queued = DeferredWorkQueue::queue(&progress, object, 1, owner, action);
    assert_eq!(queued, Ok(()));
    object.add(1);
    thread::scope(|scope| {
        scope.spawn(|| progress.run_deferred_work());
        while !is_done.load(Ordering::Acquire) {
            thread::yield_now();
        }
        assert_eq!(close(cntr), 0);
    });
}

#[test]
fn a_counter_is_closed_although_another_thread_is_about_to_let_go_of_the_operation_that_it_counted()
{
    let world = world(Progress::Manual);
    let cntr = world.cntr(FI_WAIT_NONE);
    // SAFETY: it was just opened.
    let object = unsafe { crate::handle::object::<Cntr>(cntr) };
    let progress = Arc::clone(object.domain().progress());
    let key = progress.deferred_work().note_in_flight(object);
    let is_counted = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            progress.deferred_work().end(key, |_| {
                is_counted.store(true, Ordering::Release);
                // For a while the application knows of the end, and this thread refers to the counter still.
                (0..100).for_each(|_| thread::yield_now());
            });
        });
        while !is_counted.load(Ordering::Acquire) {
            thread::yield_now();
        }
        assert_eq!(close(cntr), 0);
    });
}
