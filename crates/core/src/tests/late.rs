//! Binding to an endpoint that is enabled: fi_endpoint(3) "fi_ep_bind".

use core::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use oxifabric_abi::*;

use super::mock::revocations;
use super::world::{End, World, bind, c, close};

const TAGGED: fi_cq_format = FI_CQ_FORMAT_TAGGED;

/// Longer than any test takes.
const LONG_MS: i32 = 60_000;

fn ends(world: &World) -> (End, End, fi_addr_t) {
    let a = world.end(TAGGED, FI_WAIT_NONE);
    let b = world.end(TAGGED, FI_WAIT_NONE);
    let to_b = a.knows(&b);
    (a, b, to_b)
}

#[test]
fn a_counter_counts_from_then_on_and_drives_the_endpoint() {
    let world = World::new();
    let (a, b, to_b) = ends(&world);
    let mut into = [0u8; 4];
    b.recv(&mut into, 1);
    assert_eq!(a.send(to_b, b"x", 0), 0);
    b.next();
    let cntr = world.cntr(FI_WAIT_NONE);
    assert_eq!(bind(b.ep, cntr, FI_RECV), 0);
    assert_eq!(c!(fi_cntr_read(cntr)), 0, "what came before is not counted");
    b.recv(&mut into, 2);
    assert_eq!(a.send(to_b, b"y", 0), 0);
    assert_eq!((c!(fi_cntr_read(cntr)), into[0]), (1, b'y'));
    assert_eq!(close(cntr), -FI_EBUSY);
    drop(b);
    assert_eq!(close(cntr), 0);
}

#[test]
fn a_sleeper_on_a_late_counter_is_woken() {
    let world = World::new();
    let (a, b, to_b) = ends(&world);
    let cntr = world.cntr(FI_WAIT_FD);
    assert_eq!(bind(b.ep, cntr, FI_RECV), 0);
    let mut fids = [cntr.cast::<fid>()];
    assert_eq!(c!(fi_trywait(world.fabric, fids.as_mut_ptr(), 1)), 0);
    let mut into = [0u8; 4];
    b.recv(&mut into, 1);
    let address = cntr.expose_provenance();
    thread::scope(|scope| {
        let waiter = scope.spawn(move || {
            let cntr: *mut fid_cntr = core::ptr::with_exposed_provenance_mut(address);
            c!(fi_cntr_wait(cntr, 1, LONG_MS))
        });
        assert_eq!(a.send(to_b, b"x", 0), 0);
        assert_eq!(waiter.join().ok(), Some(0));
    });
    drop(b);
    assert_eq!(close(cntr), 0);
}

#[test]
fn what_has_a_queue_or_counter_gets_no_other() {
    let world = World::new();
    let (a, _b, _) = ends(&world);
    let (first, second) = (world.cntr(FI_WAIT_NONE), world.cntr(FI_WAIT_NONE));
    assert_eq!(bind(a.ep, first, FI_SEND | FI_READ), 0);
    assert_eq!(bind(a.ep, second, FI_READ), -FI_EINVAL);
    assert_eq!(
        bind(a.ep, second, FI_TRANSMIT | FI_MULTI_RECV),
        -FI_EBADFLAGS
    );
    assert_eq!(bind(a.ep, a.cq, FI_RECV), -FI_EINVAL);
    assert_eq!(bind(a.ep, a.av, 0), -FI_EOPBADSTATE);
    assert_eq!(close(second), 0, "it was not bound");
    drop(a);
    assert_eq!(close(first), 0);
}

#[test]
fn a_direction_with_a_counter_only_gets_a_queue_late() {
    let world = World::new();
    let a = world.end(TAGGED, FI_WAIT_NONE);
    let b = End {
        ep: world.bare(),
        cq: world.cq(TAGGED, FI_WAIT_NONE),
        av: world.av(0),
    };
    let cntr = world.cntr(FI_WAIT_NONE);
    assert_eq!(bind(b.ep, cntr, FI_SEND | FI_RECV), 0);
    assert_eq!((bind(b.ep, b.av, 0), c!(fi_enable(b.ep))), (0, 0));
    let selected = FI_RECV | FI_SELECTIVE_COMPLETION;
    assert_eq!(bind(b.ep, b.cq, selected), 0);
    assert_eq!(bind(b.ep, b.cq, FI_TRANSMIT), 0);
    let (to_b, to_a) = (a.knows(&b), b.knows(&a));
    let mut into = [0u8; 4];
    b.recv(&mut into, 1);
    assert_eq!(a.send(to_b, b"x", 0), 0);
    assert!(b.read().is_err(), "receives are silent");
    assert_eq!(c!(fi_cntr_read(cntr)), 1);
    assert_eq!(b.send(to_a, b"y", 5), 0);
    assert_eq!(b.next().0.op_context as usize, 5);
    assert_eq!(close(b.cq), -FI_EBUSY);
    drop(b);
    assert_eq!(close(cntr), 0);
}

#[test]
fn messages_that_wait_get_the_receives_of_a_late_context() {
    let world = World::new();
    let (a, b, to_b) = ends(&world);
    let mut srx = null_mut();
    let mut attr = fi_rx_attr::ZERO;
    let opened = c!(fi_srx_context(
        world.domain,
        &mut attr,
        &mut srx,
        null_mut()
    ));
    assert_eq!(opened, 0);
    let mut into = [0u8; 4];
    let buf = into.as_mut_ptr().cast();
    let posted = c!(fi_recv(srx, buf, 4, null_mut(), FI_ADDR_UNSPEC, null_mut()));
    assert_eq!(posted, 0);
    assert_eq!(a.send(to_b, b"wait", 0), 0);
    assert!(b.read().is_err(), "nothing was posted to the endpoint");
    assert_eq!(bind(b.ep, srx, 0), 0);
    assert_eq!((b.next().0.len, &into), (4, b"wait"));
    assert_eq!(bind(b.ep, srx, 0), -FI_EINVAL);
    assert_eq!(close(srx), -FI_EBUSY);
    drop(b);
    assert_eq!(close(srx), 0);
}

#[test]
fn counters_are_bound_while_other_threads_transfer() {
    let world = World::new();
    for _ in 0..50 {
        let (a, b, to_b) = ends(&world);
        let (sent, received) = (world.cntr(FI_WAIT_FD), world.cntr(FI_WAIT_NONE));
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let (a, b, done) = (&a, &b, &done);
            let reader = scope.spawn(move || {
                let mut into = [0u8; 4];
                while !done.load(Ordering::Relaxed) {
                    b.recv(&mut into, 1);
                    while b.read().is_err() && !done.load(Ordering::Relaxed) {}
                }
                assert_eq!(close_receives(b), 0);
            });
            let sender = scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    if a.send(to_b, b"x", 0) == 0 {
                        a.next();
                    }
                }
            });
            assert_eq!(bind(a.ep, sent, FI_SEND), 0);
            assert_eq!(bind(b.ep, received, FI_RECV), 0);
            while c!(fi_cntr_read(sent)) == 0 || c!(fi_cntr_read(received)) == 0 {
                thread::yield_now();
            }
            done.store(true, Ordering::Relaxed);
            assert!(reader.join().is_ok() && sender.join().is_ok());
        });
        drop((a, b));
        assert_eq!((close(sent), close(received)), (0, 0));
    }
}

/// Cancels the receive that may be posted.
fn close_receives(end: &End) -> i32 {
    let context = core::ptr::without_provenance_mut(1);
    match c!(fi_cancel(end.ep.cast(), context)) {
        0 => 0,
        none => i32::from(none != -(FI_ENOENT as isize)),
    }
}

#[test]
fn accesses_that_go_unseen_end_when_a_counter_is_to_count_them_and_when_the_endpoint_closes() {
    let world = World::new();
    let (_a, b, _) = ends(&world);
    let cntr = world.cntr(FI_WAIT_NONE);
    let before = revocations();
    assert_eq!(bind(b.ep, cntr, FI_REMOTE_WRITE), 0);
    let bound = revocations();
    assert!(bound > before);
    drop(b);
    assert!(revocations() > bound);
    assert_eq!(close(cntr), 0);
}
