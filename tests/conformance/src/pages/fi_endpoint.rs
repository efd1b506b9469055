//! Endpoints.

use core::ptr::null_mut;

use oxifabric_abi::*;
use oxifabric_fixtures::fixture::{Fixture, Pair, TestEndpoint, bind, close};
use oxifabric_fixtures::traffic::{TIMEOUT, Traffic};
use oxifabric_fixtures::{c, refused};

use crate::requirements;

requirements! { "fi_endpoint(3)";

/// An endpoint cannot be enabled without an address vector: -FI_ENOAV.
fn a_vector_is_needed(subject) {
    let fixture = Fixture::new(subject);
    let (ep, cq) = (fixture.bare(), fixture.cq(|_| {}));
    assert_eq!(bind(ep, cq, FI_SEND | FI_RECV), 0);
    assert_eq!(c!(fi_enable(ep)), -FI_ENOAV);
    assert_eq!((close(ep), close(cq)), (0, 0));
}

/// An endpoint cannot be enabled without a queue or counter for its completions: -FI_ENOCQ.
fn a_queue_is_needed(subject) {
    let fixture = Fixture::new(subject);
    let (ep, av) = (fixture.bare(), fixture.av());
    assert_eq!(bind(ep, av, 0), 0);
    assert_eq!(c!(fi_enable(ep)), -FI_ENOCQ);
    assert_eq!((close(ep), close(av)), (0, 0));
}

/// A disabled endpoint transfers nothing: -FI_EOPBADSTATE.
fn a_disabled_endpoint_refuses_data(subject) {
    let fixture = Fixture::new(subject);
    let ep = fixture.bare();
    let sent = c!(fi_send(ep, null_mut(), 0, null_mut(), 0, null_mut()));
    assert_eq!(sent, -(FI_EOPBADSTATE as isize));
    let posted = c!(fi_recv(ep, null_mut(), 0, null_mut(), FI_ADDR_UNSPEC, null_mut()));
    assert_eq!(posted, -(FI_EOPBADSTATE as isize));
    assert_eq!(close(ep), 0);
}

/// A queue that is bound to an endpoint cannot be closed: -FI_EBUSY.
fn a_queue_in_use_stays_open(subject) {
    let fixture = Fixture::new(subject);
    let end = fixture.end();
    assert_eq!(close(end.cq), -FI_EBUSY);
}

/// A vector that is bound to an endpoint cannot be closed: -FI_EBUSY.
fn a_vector_in_use_stays_open(subject) {
    let fixture = Fixture::new(subject);
    let end = fixture.end();
    assert_eq!(close(end.av), -FI_EBUSY);
}

/// A direction that has a queue gets no other one.
fn a_direction_has_one_queue(subject) {
    let fixture = Fixture::new(subject);
    let end = fixture.end();
    let cq = fixture.cq(|_| {});
    refused!(bind(end.ep, cq, FI_SEND | FI_RECV), FI_EINVAL);
    assert_eq!(close(cq), 0);
}

/// A flag that means nothing in a binding is refused.
fn a_binding_with_a_false_flag_is_refused(subject) {
    let fixture = Fixture::new(subject);
    let (ep, cq) = (fixture.bare(), fixture.cq(|_| {}));
    refused!(bind(ep, cq, FI_REMOTE_READ), FI_EBADFLAGS);
    assert_eq!((close(ep), close(cq)), (0, 0));
}

/// An endpoint can be opened, bound, enabled and closed again and again.
fn endpoints_come_and_go(subject) {
    let fixture = Fixture::new(subject);
    for _ in 0..20 {
        drop(fixture.end());
    }
}

/// The flags of operations without a flags argument can be read back as set.
fn operation_flags_are_read_back(subject) {
    let fixture = Fixture::new(subject);
    let end = fixture.end();
    let mut flags = FI_TRANSMIT | FI_INJECT_COMPLETE;
    assert_eq!(c!(fi_control(end.ep.cast(), FI_SETOPSFLAG, (&raw mut flags).cast())), 0);
    let mut read = FI_TRANSMIT;
    assert_eq!(c!(fi_control(end.ep.cast(), FI_GETOPSFLAG, (&raw mut read).cast())), 0);
    assert_eq!(read & FI_INJECT_COMPLETE, FI_INJECT_COMPLETE);
}

/// Operation flags belong to one direction; to name none or both is an error.
fn operation_flags_name_one_direction(subject) {
    let fixture = Fixture::new(subject);
    let end = fixture.end();
    for mut flags in [0, FI_TRANSMIT | FI_RECV] {
        refused!(c!(fi_control(end.ep.cast(), FI_SETOPSFLAG, (&raw mut flags).cast())), FI_EINVAL);
    }
}

/// The least room of a multi-receive buffer is read back as set.
fn the_least_multi_receive_room_is_read_back(subject) {
    let fixture = Fixture::new(subject);
    let end = fixture.end();
    let (value, mut read) = (333_usize, 0_usize);
    let mut len = size_of::<usize>();
    let set = c!(fi_setopt(
        end.ep.cast(),
        FI_OPT_ENDPOINT as _,
        FI_OPT_MIN_MULTI_RECV as _,
        (&raw const value).cast(),
        len
    ));
    assert_eq!(set, 0);
    let got = c!(fi_getopt(
        end.ep.cast(),
        FI_OPT_ENDPOINT as _,
        FI_OPT_MIN_MULTI_RECV as _,
        (&raw mut read).cast(),
        &mut len
    ));
    assert_eq!((got, read, len), (0, value, size_of::<usize>()));
}

/// FI_OPT_FIREWALL_ADDR is an int that tells whether nothing can connect to the endpoint, where peers connect; elsewhere it is
/// -FI_ENOPROTOOPT.
fn a_firewall_is_told(subject) {
    let fixture = Fixture::new(subject);
    let end = fixture.end();
    let (mut value, mut len) = (7_i32, 1);
    let mut get = || {
        let (level, option) = (FI_OPT_ENDPOINT as _, FI_OPT_FIREWALL_ADDR as _);
        c!(fi_getopt(end.ep.cast(), level, option, (&raw mut value).cast(), &mut len))
    };
    if subject.provider.starts_with("tcp") {
        assert_eq!((get(), get()), (-FI_ETOOSMALL, 0), "the first says how much room is needed");
        assert_eq!((value, len), (0, size_of::<i32>()));
    } else {
        assert_eq!(get(), -FI_ENOPROTOOPT);
    }
}

/// An option that does not exist is -FI_ENOPROTOOPT.
fn an_unknown_option_is_told(subject) {
    let fixture = Fixture::new(subject);
    let end = fixture.end();
    let mut value = 0_usize;
    let mut len = size_of::<usize>();
    let got = c!(fi_getopt(
        end.ep.cast(),
        FI_OPT_ENDPOINT as _,
        0x7fff,
        (&raw mut value).cast(),
        &mut len
    ));
    assert_eq!(got, -FI_ENOPROTOOPT);
}

/// Cancelling a receive ends it with an error completion FI_ECANCELED that has its context.
fn a_cancelled_receive_completes_in_error(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let posted = pair.b.recv(64);
    assert_eq!(c!(fi_cancel(pair.b.ep.cast(), posted.context)), 0);
    let error = pair.failed(&pair.b);
    assert_eq!((error.err, error.op_context), (FI_ECANCELED, posted.context));
}

/// An endpoint's address fits a buffer that is long enough, and its length is told if it does not.
fn a_short_buffer_for_the_name_is_told_the_length(subject) {
    let fixture = Fixture::new(subject);
    let end = fixture.end();
    let name = end.name();
    let mut short = [0_u8; 2];
    let mut len = short.len();
    let got = c!(fi_getname(end.ep.cast(), short.as_mut_ptr().cast(), &mut len));
    assert_eq!((got, len), (-FI_ETOOSMALL, name.len()));
}

/// An endpoint says that it is one, and keeps its context.
fn an_endpoint_has_its_class(subject) {
    let fixture = Fixture::new(subject);
    let (mut ep, mut mark) = (null_mut(), 0_u8);
    let context = (&raw mut mark).cast();
    assert_eq!(c!(fi_endpoint(fixture.domain, fixture.info.as_ptr(), &mut ep, context)), 0);
    assert_eq!(c!(((*ep).fid.fclass, (*ep).fid.context)), (FI_CLASS_EP, context));
    assert_eq!(close(ep), 0);
}

/// fi_endpoint2 without flags is fi_endpoint.
fn an_endpoint_may_be_opened_with_flags(subject) {
    let fixture = Fixture::new(subject);
    let mut ep = null_mut();
    assert_eq!(c!(fi_endpoint2(fixture.domain, fixture.info.as_ptr(), &mut ep, 0, null_mut())), 0);
    assert_eq!(close(ep), 0);
}

/// Transmissions and receives may complete in queues of their own.
fn each_direction_has_its_queue(subject) {
    let fixture = Fixture::new(subject);
    let (ep, av) = (fixture.bare(), fixture.av());
    let (tx, rx) = (fixture.cq(|_| {}), fixture.cq(|_| {}));
    assert_eq!((bind(ep, tx, FI_TRANSMIT), bind(ep, rx, FI_RECV), bind(ep, av, 0)), (0, 0, 0));
    assert_eq!(c!(fi_enable(ep)), 0);
    let pair = Pair::of(
        TestEndpoint { ep, cq: tx, av, eq: null_mut(), traffic: Traffic::default() },
        fixture.end(),
    );
    let posted = pair.a.recv(1);
    let context = pair.send(b"x");
    assert_eq!(pair.done(&pair.a).op_context, context);
    let (place, back) = (pair.b.traffic.buffer(b"y"), pair.b.traffic.context());
    pair.start(|| c!(fi_send(pair.b.ep, place.cast(), 1, null_mut(), pair.to_a, back)));
    let begun = std::time::Instant::now();
    let mut entry = fi_cq_tagged_entry::ZERO;
    while c!(fi_cq_read(rx, (&raw mut entry).cast(), 1)) != 1 {
        assert!(begun.elapsed() < TIMEOUT);
        assert!(pair.a.read().is_none(), "in the wrong queue");
        let _ = pair.b.read();
    }
    assert_eq!(entry.op_context, posted.context);
    drop(pair);
    assert_eq!(close(rx), 0);
}

/// Completions of one direction go to one queue: a second is refused.
fn a_second_queue_is_refused(subject) {
    let fixture = Fixture::new(subject);
    let (ep, cq, other) = (fixture.bare(), fixture.cq(|_| {}), fixture.cq(|_| {}));
    assert_eq!(bind(ep, cq, FI_RECV), 0);
    refused!(bind(ep, other, FI_RECV), FI_EINVAL);
    assert_eq!((close(ep), close(cq), close(other)), (0, 0, 0));
}

/// Operations of one kind are counted by one counter: a second is refused.
fn a_second_counter_is_refused(subject) {
    let fixture = Fixture::new(subject);
    let (ep, cntr, other) = (fixture.bare(), fixture.cntr(FI_WAIT_UNSPEC), fixture.cntr(FI_WAIT_UNSPEC));
    assert_eq!(bind(ep, cntr, FI_SEND), 0);
    refused!(bind(ep, other, FI_SEND), FI_EINVAL);
    assert_eq!((close(ep), close(cntr), close(other)), (0, 0, 0));
}

/// An endpoint has a single address vector: a second is refused.
fn a_second_vector_is_refused(subject) {
    let fixture = Fixture::new(subject);
    let (ep, av, other) = (fixture.bare(), fixture.av(), fixture.av());
    assert_eq!(bind(ep, av, 0), 0);
    refused!(bind(ep, other, 0), FI_EINVAL);
    assert_eq!((close(ep), close(av), close(other)), (0, 0, 0));
}

/// FI_SELECTIVE_COMPLETION needs a direction.
fn a_selection_needs_a_direction(subject) {
    let fixture = Fixture::new(subject);
    let (ep, cq) = (fixture.bare(), fixture.cq(|_| {}));
    refused!(bind(ep, cq, FI_SELECTIVE_COMPLETION), FI_EINVAL);
    assert_eq!((close(ep), close(cq)), (0, 0));
}

/// Operations that fail write an error even where completions are selective.
fn failures_are_told_without_being_asked_for(subject) {
    let fixture = Fixture::new(subject);
    let b = fixture.end_with(FI_SEND | FI_RECV | FI_SELECTIVE_COMPLETION, |_| {});
    let pair = Pair::of(fixture.end(), b);
    let posted = pair.b.recv(2);
    pair.send(b"too long");
    let error = pair.failed(&pair.b);
    assert_eq!((error.err, error.op_context), (FI_ETRUNC, posted.context));
}

/// With selective completions a receive without FI_COMPLETION writes none, and takes its message.
fn receives_may_be_silent(subject) {
    let fixture = Fixture::new(subject);
    let b = fixture.end_with(FI_SEND | FI_RECV | FI_SELECTIVE_COMPLETION, |_| {});
    let pair = Pair::of(fixture.end(), b);
    let posted = pair.b.recv(6);
    let into = pair.b.posted(4);
    let iov = libc::iovec { iov_base: into.place.cast(), iov_len: 4 };
    let msg = fi_msg {
        msg_iov: &iov,
        desc: null_mut(),
        iov_count: 1,
        addr: FI_ADDR_UNSPEC,
        context: into.context,
        data: 0,
    };
    assert_eq!(c!(fi_recvmsg(pair.b.ep, &msg, FI_COMPLETION)), 0);
    pair.send(b"silent");
    pair.send(b"told");
    assert_eq!(pair.done(&pair.b).op_context, into.context);
    assert_eq!((posted.bytes(), into.bytes()), (b"silent".as_slice(), b"told".as_slice()));
    assert!(pair.b.read().is_none());
}

/// Of several operations with one context, a cancellation ends one.
fn a_cancellation_ends_one(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let (place, context) = (pair.b.traffic.buffer(&[0; 2]), pair.b.traffic.context());
    for at in 0..2 {
        let place = place.wrapping_add(at).cast();
        assert_eq!(c!(fi_recv(pair.b.ep, place, 1, null_mut(), FI_ADDR_UNSPEC, context)), 0);
    }
    assert_eq!(c!(fi_cancel(pair.b.ep.cast(), context)), 0);
    assert_eq!(pair.failed(&pair.b).err, FI_ECANCELED);
    assert!(pair.b.read().is_none());
    pair.send(b"x");
    assert_eq!(pair.done(&pair.b).op_context, context);
}

/// Cancelling what is not under way posts nothing.
fn a_cancellation_of_nothing_is_silent(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let posted = pair.b.recv(1);
    let _ = c!(fi_cancel(pair.b.ep.cast(), pair.b.traffic.context()));
    pair.send(b"x");
    assert_eq!(pair.done(&pair.b).op_context, posted.context);
    let _ = c!(fi_cancel(pair.b.ep.cast(), posted.context));
    for _ in 0..50 {
        assert!(pair.b.read().is_none());
    }
}

/// What is under way when an endpoint closes is dropped in silence.
fn a_close_drops_what_is_under_way(subject) {
    let fixture = Fixture::new(subject);
    let (ep, cq, av) = (fixture.bare(), fixture.cq(|_| {}), fixture.av());
    assert_eq!((bind(ep, cq, FI_SEND | FI_RECV), bind(ep, av, 0), c!(fi_enable(ep))), (0, 0, 0));
    let (mut byte, mut context) = (0_u8, [0_u64; 8]);
    let posted = c!(fi_recv(
        ep,
        (&raw mut byte).cast(),
        1,
        null_mut(),
        FI_ADDR_UNSPEC,
        context.as_mut_ptr().cast()
    ));
    assert_eq!((posted, close(ep)), (0, 0));
    let mut entry = fi_cq_tagged_entry::ZERO;
    assert_eq!(c!(fi_cq_read(cq, (&raw mut entry).cast(), 1)), -(FI_EAGAIN as isize));
    assert_eq!((close(cq), close(av)), (0, 0));
}

/// With FI_THREAD_SAFE several threads may use one endpoint at the same time.
fn threads_may_share_an_endpoint(subject) {
    struct Shared<T>(T);
    // SAFETY: the domain was opened for use by several threads.
    unsafe impl<T> Sync for Shared<T> {}
    let fixture = Fixture::with(subject, |hints| c!((*hints.domain_attr).threading = FI_THREAD_SAFE));
    let pair = fixture.pair();
    const EACH: usize = 200;
    let posted: Vec<_> = (0..4 * EACH).map(|_| pair.b.recv(1)).collect();
    let bytes: Vec<_> = (0..4_u8).map(|at| pair.a.traffic.buffer(&[at]) as usize).collect();
    let ends = Shared((pair.a.ep, pair.a.cq, pair.b.cq, pair.to_b));
    let ends = &ends;
    std::thread::scope(|scope| {
        for &byte in &bytes {
            scope.spawn(move || {
                let (ep, own, other, to) = ends.0;
                let begun = std::time::Instant::now();
                let mut sent = 0;
                while sent < EACH {
                    assert!(begun.elapsed() < TIMEOUT);
                    let place = core::ptr::with_exposed_provenance(byte);
                    match c!(fi_send(ep, place, 1, null_mut(), to, null_mut())) {
                        0 => sent += 1,
                        _ => {
                            c!(fi_cq_read(own, null_mut(), 0));
                            c!(fi_cq_read(other, null_mut(), 0));
                        }
                    }
                }
            });
        }
    });
    let mut counts = [0; 4];
    for _ in &posted {
        let _ = pair.done(&pair.b);
    }
    for posted in &posted {
        counts[posted.bytes()[0] as usize] += 1;
    }
    assert_eq!(counts, [EACH; 4]);
}

/// The size of the longest message can be set below the provider's, or the option is -FI_ENOPROTOOPT.
fn the_longest_message_may_be_shortened(subject) {
    let fixture = Fixture::new(subject);
    let ep = fixture.bare();
    let most = c!((*fixture.info.first().ep_attr).max_msg_size);
    let set = |size: usize| {
        c!(fi_setopt(
            ep.cast(),
            FI_OPT_ENDPOINT as _,
            FI_OPT_MAX_MSG_SIZE as _,
            (&raw const size).cast(),
            size_of::<usize>()
        ))
    };
    let code = set(most.min(4096));
    assert!(code == 0 || code == -FI_ENOPROTOOPT, "{code}");
    if most < usize::MAX {
        refused!(set(most + 1), FI_EINVAL);
    }
    assert_eq!(close(ep), 0);
}
}
