//! Poll sets, wait sets and wait objects of every kind, through their tables.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use std::thread;

use oxifabric_abi::*;
use oxifabric_types::Progress;

use super::world::{World, bind, c, close};

const TAGGED: fi_cq_format = FI_CQ_FORMAT_TAGGED;

/// Longer than any test takes.
const LONG_MS: c_int = 60_000;

fn wait_set(world: &World, wait_obj: fi_wait_obj) -> *mut fid_wait {
    let mut attr = fi_wait_attr {
        wait_obj,
        ..fi_wait_attr::ZERO
    };
    let mut set = null_mut();
    let opened = c!(fi_wait_open(world.fabric, &mut attr, &mut set));
    assert_eq!(opened, 0);
    set
}

fn cq_in(world: &World, set: *mut fid_wait, context: usize) -> *mut fid_cq {
    let mut attr = fi_cq_attr {
        format: TAGGED,
        wait_obj: FI_WAIT_SET,
        wait_set: set,
        ..fi_cq_attr::ZERO
    };
    let mut cq = null_mut();
    let context = core::ptr::without_provenance_mut(context);
    assert_eq!(c!(fi_cq_open(world.domain, &mut attr, &mut cq, context)), 0);
    cq
}

fn cntr_in(world: &World, set: *mut fid_wait, context: usize) -> *mut fid_cntr {
    let mut attr = fi_cntr_attr {
        wait_obj: if set.is_null() {
            FI_WAIT_NONE
        } else {
            FI_WAIT_SET
        },
        wait_set: set,
        ..fi_cntr_attr::ZERO
    };
    let mut cntr = null_mut();
    let context = core::ptr::without_provenance_mut(context);
    let opened = c!(fi_cntr_open(world.domain, &mut attr, &mut cntr, context));
    assert_eq!(opened, 0);
    cntr
}

fn poll(set: *mut fid_poll, room: usize) -> Vec<usize> {
    let mut contexts = [null_mut::<c_void>(); 4];
    let found = c!(fi_poll(set, contexts.as_mut_ptr(), room as c_int));
    let found = usize::try_from(found).expect("polling does not fail");
    contexts[..found]
        .iter()
        .map(|context| context.addr())
        .collect()
}

#[test]
fn a_poll_set_returns_the_queues_with_news() {
    let world = World::new();
    let end = world.end(TAGGED, FI_WAIT_NONE);
    let myself = end.knows(&end);
    let cntr = cntr_in(&world, null_mut(), 7);
    let mut set = null_mut();
    let mut attr = fi_poll_attr::ZERO;
    assert_eq!(c!(fi_poll_open(world.domain, &mut attr, &mut set)), 0);
    let add = |fid: *mut fid| c!(fi_poll_add(set, fid, 0));
    assert_eq!((add(end.cq.cast()), add(cntr.cast())), (0, 0));
    assert_eq!(add(cntr.cast()), 0, "once is enough");
    assert_eq!(add(world.domain.cast()), -FI_EINVAL);
    assert_eq!(add(null_mut()), -FI_EINVAL);
    assert_eq!(close(cntr), -FI_EBUSY);
    assert_eq!(poll(set, 4), []);

    let mut into = [0u8; 4];
    end.recv(&mut into, 1);
    assert_eq!(end.send(myself, b"x", 2), 0);
    assert_eq!(poll(set, 4), [0], "the queue's context is null");
    assert_eq!(poll(set, 4), [0], "it is not empty yet");
    assert_eq!(poll(set, 0), []);
    end.next();
    end.next();
    assert_eq!(poll(set, 4), []);

    assert_eq!(c!(fi_cntr_add(cntr, 1)), 0);
    assert_eq!(poll(set, 4), [], "the application knows what it did");
    assert_eq!(c!(fi_poll_del(set, end.cq.cast(), 0)), 0);
    assert_eq!(c!(fi_poll_del(set, end.cq.cast(), 0)), -FI_EINVAL);
    assert_eq!(end.send(myself, b"x", 2), 0);
    assert_eq!(poll(set, 4), []);
    assert_eq!((close(set), close(cntr)), (0, 0));
}

#[test]
fn a_poll_set_returns_a_counter_once() {
    let world = World::new();
    let cntr = cntr_in(&world, null_mut(), 7);
    let end = super::world::End {
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
    let mut set = null_mut();
    assert_eq!(c!(fi_poll_open(world.domain, null_mut(), &mut set)), 0);
    assert_eq!(c!(fi_poll_add(set, cntr.cast(), 0)), 0);
    let myself = end.knows(&end);
    assert_eq!(end.send(myself, b"x", 2), 0);
    assert_eq!(poll(set, 4), [7]);
    assert_eq!(poll(set, 4), []);
    assert_eq!(close(set), 0);
    drop(end);
    assert_eq!(close(cntr), 0);
}

#[test]
fn a_wait_set_sleeps_for_all_its_members() {
    let world = World::new();
    for kind in [
        FI_WAIT_UNSPEC,
        FI_WAIT_FD,
        FI_WAIT_POLLFD,
        FI_WAIT_YIELD,
        FI_WAIT_MUTEX_COND,
    ] {
        let set = wait_set(&world, kind);
        let (cq, cntr) = (cq_in(&world, set, 1), cntr_in(&world, set, 2));
        let end = super::world::End {
            ep: world.bare(),
            cq,
            av: world.av(0),
        };
        assert_eq!(bind(end.ep, cq, FI_SEND | FI_RECV), 0);
        assert_eq!((bind(end.ep, end.av, 0), c!(fi_enable(end.ep))), (0, 0));
        let peer = world.end(TAGGED, FI_WAIT_NONE);
        let to = peer.knows(&end);
        assert_eq!(c!(fi_wait(set, 3)), -FI_ETIMEDOUT);
        assert_eq!(close(set), -FI_EBUSY);
        let none = c!(fi_cq_sread(cq, null_mut(), 0, core::ptr::null(), 0));
        assert_eq!(none, -(FI_ENOSYS as isize), "only the set waits");
        let wait = |set: *mut fid_wait| {
            let set = set.expose_provenance();
            move || {
                let set: *mut fid_wait = core::ptr::with_exposed_provenance_mut(set);
                c!(fi_wait(set, LONG_MS))
            }
        };
        let mut into = [0u8; 4];
        end.recv(&mut into, 1);
        thread::scope(|scope| {
            let sleeper = scope.spawn(wait(set));
            assert_eq!(peer.send(to, b"x", 0), 0);
            assert_eq!(sleeper.join().ok(), Some(0), "a message, kind {kind}");
        });
        assert_eq!(c!(fi_wait(set, 0)), 0, "the queue is not empty");
        end.next();
        assert_eq!(c!(fi_wait(set, 0)), -FI_ETIMEDOUT);
        thread::scope(|scope| {
            let sleeper = scope.spawn(wait(set));
            assert_eq!(c!(fi_cntr_add(cntr, 1)), 0);
            assert_eq!(sleeper.join().ok(), Some(0), "a counter, kind {kind}");
        });
        assert_eq!(c!(fi_wait(set, 0)), -FI_ETIMEDOUT, "it was told");
        drop(end);
        assert_eq!((close(cntr), close(set)), (0, 0));
    }
}

#[test]
fn an_event_queue_may_be_in_a_wait_set() {
    let world = World::new();
    let set = wait_set(&world, FI_WAIT_FD);
    let mut attr = fi_eq_attr {
        flags: FI_WRITE,
        wait_obj: FI_WAIT_SET,
        wait_set: set,
        ..fi_eq_attr::ZERO
    };
    let mut eq = null_mut();
    let opened = c!(fi_eq_open(world.fabric, &mut attr, &mut eq, null_mut()));
    assert_eq!(opened, 0);
    let (mut of_set, mut of_eq): (c_int, c_int) = (-1, -2);
    let get =
        |fid: *mut fid, fd: &mut c_int| c!(fi_control(fid, FI_GETWAIT, (&raw mut *fd).cast()));
    assert_eq!(
        (get(set.cast(), &mut of_set), get(eq.cast(), &mut of_eq)),
        (0, 0)
    );
    assert_eq!(of_set, of_eq, "its wait object is the set's");
    let mut fids = [set.cast::<fid>()];
    let mut trywait = || c!(fi_trywait(world.fabric, fids.as_mut_ptr(), 1));
    assert_eq!(trywait(), 0);
    let entry = fi_eq_entry::ZERO;
    let written = c!(fi_eq_write(eq, FI_NOTIFY, (&raw const entry).cast(), 24, 0));
    assert_eq!(written, 24);
    assert_eq!((trywait(), c!(fi_wait(set, LONG_MS))), (-FI_EAGAIN, 0));
    assert_eq!((close(eq), close(set)), (0, 0));
}

#[test]
fn sets_refuse_what_they_cannot_be() {
    let world = World::new();
    let mut set = null_mut();
    for (wait_obj, flags) in [
        (FI_WAIT_NONE, 0),
        (FI_WAIT_SET, 0),
        (99, 0),
        (FI_WAIT_FD, 1),
    ] {
        let mut attr = fi_wait_attr { wait_obj, flags };
        let opened = c!(fi_wait_open(world.fabric, &mut attr, &mut set));
        assert_eq!(opened, -FI_EINVAL);
    }
    let mut poll = null_mut();
    let mut attr = fi_poll_attr { flags: 1 };
    assert_eq!(
        c!(fi_poll_open(world.domain, &mut attr, &mut poll)),
        -FI_EINVAL
    );
}

/// What `FI_GETWAIT` gives for `FI_WAIT_MUTEX_COND`.
fn mutex_cond<T>(handle: *mut T) -> fi_mutex_cond {
    let mut both = fi_mutex_cond {
        mutex: null_mut(),
        cond: null_mut(),
    };
    let got = c!(fi_control(
        handle.cast(),
        FI_GETWAIT,
        (&raw mut both).cast()
    ));
    assert_eq!(got, 0);
    both
}

#[test]
fn no_thread_sleeps_on_a_condition_variable_that_is_never_signalled() {
    let world = World::new();
    let end = world.end(TAGGED, FI_WAIT_MUTEX_COND);
    let mut fids = [end.cq.cast::<fid>()];
    let trywait = c!(fi_trywait(world.fabric, fids.as_mut_ptr(), 1));
    assert_eq!(trywait, -FI_EAGAIN);
}

#[test]
fn a_condition_variable_is_signalled_by_automatic_progress() {
    let world = World::with(FI_VERSION(2, 6), |info| {
        info.domain.data_progress = Progress::Auto;
    });
    let (a, b) = (
        world.end(TAGGED, FI_WAIT_NONE),
        world.end(TAGGED, FI_WAIT_MUTEX_COND),
    );
    let to_b = a.knows(&b);
    let both = mutex_cond(b.cq);
    let mut fids = [b.cq.cast::<fid>()];
    for _ in 0..50 {
        let mut into = [0u8; 4];
        b.recv(&mut into, 1);
        thread::scope(|scope| {
            scope.spawn(|| assert_eq!(a.send(to_b, b"x", 0), 0));
            // The mutex is held from the last look until the sleep, as with any condition variable.
            assert_eq!(c!(libc::pthread_mutex_lock(both.mutex)), 0);
            loop {
                match c!(fi_trywait(world.fabric, fids.as_mut_ptr(), 1)) {
                    0 => assert_eq!(c!(libc::pthread_cond_wait(both.cond, both.mutex)), 0),
                    failed => {
                        assert_eq!(failed, -FI_EAGAIN);
                        if b.read().is_ok() {
                            break;
                        }
                    }
                }
            }
            assert_eq!(c!(libc::pthread_mutex_unlock(both.mutex)), 0);
        });
        a.next();
    }
}
