//! Connections.

use core::ffi::c_int;
use core::ptr::null_mut;

use oxifabric_abi::*;
use oxifabric_fixtures::cm_fixture::{
    CmFixture, Event, connected, event, name_of, next_event, peer_of,
};
use oxifabric_fixtures::traffic::Read;
use oxifabric_fixtures::{c, refused};

use crate::requirements;

/// Returns the most bytes that may be said with a request or its answer.
fn cm_data_size(fid: fid_t) -> usize {
    let (mut size, mut len) = (0_usize, size_of::<usize>());
    let got = c!(fi_getopt(
        fid,
        FI_OPT_ENDPOINT as _,
        FI_OPT_CM_DATA_SIZE as _,
        (&raw mut size).cast(),
        &mut len
    ));
    assert_eq!(got, 0);
    size
}

requirements! { "fi_cm(3)" on &["tcp"];

/// A request for a connection is reported to the queue of the passive endpoint as FI_CONNREQ, with its fid and the
/// description of an endpoint whose handle is the request.
fn a_request_is_an_event_of_the_passive_endpoint(subject) {
    let cm = CmFixture::new(subject);
    let caller = cm.caller();
    assert_eq!(cm.call(&caller, &[]), 0);
    let Event::Cm { event, fid, info, .. } = next_event(cm.eq, &[&caller]) else {
        panic!("an error");
    };
    assert_eq!((event, fid), (FI_CONNREQ, cm.pep.cast()));
    assert!(!info.is_null());
    let request = cm.fixture.info.like(info);
    assert!(!request.first().handle.is_null());
    cm.reject(&request, b"");
}

/// Nothing is reported before a caller connects.
fn no_request_without_a_caller(subject) {
    let cm = CmFixture::new(subject);
    for _ in 0..100 {
        assert!(event(cm.eq).is_none());
    }
}

/// What the caller says comes with its request.
fn words_of_the_caller_come_with_the_request(subject) {
    let cm = CmFixture::new(subject);
    let caller = cm.caller();
    assert_eq!(cm.call(&caller, b"good day"), 0);
    let (request, said) = cm.request(&caller);
    assert_eq!(said, b"good day");
    cm.reject(&request, b"");
}

/// As many bytes as FI_OPT_CM_DATA_SIZE says come with a request and with its answer.
fn as_many_words_as_was_said(subject) {
    let cm = CmFixture::new(subject);
    let caller = cm.caller();
    let size = cm_data_size(caller.ep.cast());
    assert!(size > 0);
    let words: Vec<u8> = (0..size).map(|at| at as u8 ^ 0x5A).collect();
    assert_eq!(cm.call(&caller, &words), 0);
    let (request, said) = cm.request(&caller);
    assert!(said == words);
    let accepted = cm.accept(&request, &words);
    assert!(connected(&caller, &[&accepted]) == words);
}

/// Active and passive endpoint say the same of FI_OPT_CM_DATA_SIZE.
fn passive_endpoints_say_how_much_can_be_said(subject) {
    let cm = CmFixture::new(subject);
    let caller = cm.caller();
    assert_eq!(cm_data_size(cm.pep.cast()), cm_data_size(caller.ep.cast()));
}

/// FI_CONNECTED is an event of both endpoints, with their own fids and not that of the passive one.
fn both_are_told_of_the_connection(subject) {
    let cm = CmFixture::new(subject);
    let pair = cm.pair();
    assert_ne!(pair.a.ep, pair.b.ep);
    assert!(event(cm.eq).is_none());
}

/// What is said with fi_accept comes with FI_CONNECTED of the caller.
fn words_of_the_accepting_come_with_the_connection(subject) {
    let cm = CmFixture::new(subject);
    let caller = cm.caller();
    assert_eq!(cm.call(&caller, &[]), 0);
    let (request, said) = cm.request(&caller);
    assert!(said.is_empty());
    let accepted = cm.accept(&request, b"welcome");
    assert_eq!(connected(&caller, &[&accepted]), b"welcome");
}

/// A connection is not there before the request was accepted.
fn no_connection_before_the_answer(subject) {
    let cm = CmFixture::new(subject);
    let caller = cm.caller();
    assert_eq!(cm.call(&caller, &[]), 0);
    let (request, _) = cm.request(&caller);
    for _ in 0..100 {
        assert!(event(caller.eq).is_none());
    }
    cm.reject(&request, b"");
}

/// A rejected request is an error of the caller's queue, with its fid.
fn a_rejected_request_is_an_error(subject) {
    let cm = CmFixture::new(subject);
    let caller = cm.caller();
    assert_eq!(cm.call(&caller, &[]), 0);
    let (request, _) = cm.request(&caller);
    cm.reject(&request, b"");
    match next_event(caller.eq, &[]) {
        Event::Failed { entry, .. } => {
            assert_eq!((entry.err, entry.fid), (FI_ECONNREFUSED, caller.ep.cast()));
        }
        other => panic!("{other:?}"),
    }
}

/// What is said with fi_reject is the data of that error.
fn words_of_the_rejecting_come_with_the_error(subject) {
    let cm = CmFixture::new(subject);
    let caller = cm.caller();
    assert_eq!(cm.call(&caller, &[]), 0);
    let (request, _) = cm.request(&caller);
    cm.reject(&request, b"not today");
    match next_event(caller.eq, &[]) {
        Event::Failed { data, .. } => assert_eq!(data, b"not today"),
        other => panic!("{other:?}"),
    }
}

/// A passive endpoint that rejected a request takes the next.
fn others_may_come_after_a_rejection(subject) {
    let cm = CmFixture::new(subject);
    let rejected = cm.caller();
    assert_eq!(cm.call(&rejected, &[]), 0);
    let (request, _) = cm.request(&rejected);
    cm.reject(&request, b"");
    drop(cm.pair());
}

/// A request that fails is an error event of the caller, or of the call.
fn a_call_without_listener_fails(subject) {
    let cm = CmFixture::closed(subject);
    let caller = cm.caller();
    if cm.call(&caller, &[]) == 0 {
        match next_event(caller.eq, &[]) {
            Event::Failed { entry, .. } => assert_eq!(entry.err, FI_ECONNREFUSED),
            other => panic!("{other:?}"),
        }
    }
}

/// Requests of several callers are events of their own, each with its words.
fn several_may_ask(subject) {
    let cm = CmFixture::new(subject);
    let callers: Vec<_> = (0..5_u8)
        .map(|at| {
            let caller = cm.caller();
            assert_eq!(cm.call(&caller, &[at]), 0);
            caller
        })
        .collect();
    let mut words = Vec::new();
    let mut requests = Vec::new();
    for caller in &callers {
        let (request, said) = cm.request(caller);
        words.extend(said);
        requests.push(request);
    }
    words.sort_unstable();
    assert_eq!(words, [0, 1, 2, 3, 4]);
    for request in &requests {
        cm.reject(request, b"");
    }
}

/// An endpoint connects once in its life.
fn an_endpoint_connects_once(subject) {
    let cm = CmFixture::new(subject);
    let pair = cm.pair();
    refused!(cm.call(&pair.a, &[]), FI_EINVAL);
}

/// A second fi_connect is refused even while the first is under way.
fn a_second_call_is_refused(subject) {
    let cm = CmFixture::new(subject);
    let caller = cm.caller();
    assert_eq!(cm.call(&caller, &[]), 0);
    refused!(cm.call(&caller, &[]), FI_EINVAL);
    let (request, _) = cm.request(&caller);
    cm.reject(&request, b"");
}

/// fi_connect and fi_accept enable the endpoint.
fn connecting_enables(subject) {
    let cm = CmFixture::new(subject);
    let pair = cm.pair();
    let cq = cm.fixture.cq(|_| {});
    refused!(oxifabric_fixtures::fixture::bind(pair.a.ep, cq, FI_SEND | FI_RECV), FI_EINVAL);
    assert_eq!(oxifabric_fixtures::fixture::close(cq), 0);
    assert!(!name_of(pair.a.ep.cast()).is_empty() && !name_of(pair.b.ep.cast()).is_empty());
}

/// A listening endpoint has an address that others can connect to, of the length that is told.
fn a_listening_endpoint_has_a_name(subject) {
    let cm = CmFixture::new(subject);
    let name = cm.name();
    assert!(name.len() >= size_of::<libc::sockaddr_in>());
    let mut short = [0_u8; 3];
    let mut len = short.len();
    let got = c!(fi_getname(cm.pep.cast(), short.as_mut_ptr().cast(), &mut len));
    assert_eq!((got, len), (-FI_ETOOSMALL, name.len()));
    assert_eq!(short, name[..3]);
}

/// fi_setname assigns an address, with a service of the provider's choice if none is named.
fn a_name_can_be_assigned(subject) {
    let cm = CmFixture::closed(subject);
    let mut name: libc::sockaddr_in = c!(core::mem::zeroed());
    name.sin_family = libc::AF_INET as _;
    name.sin_addr.s_addr = u32::from_be_bytes([127, 0, 0, 2]).to_be();
    let place = (&raw mut name).cast();
    assert_eq!(c!(fi_setname(cm.pep.cast(), place, size_of_val(&name))), 0);
    assert_eq!(c!(fi_listen(cm.pep)), 0);
    let got = cm.name();
    let got = c!(got.as_ptr().cast::<libc::sockaddr_in>().read_unaligned());
    assert_eq!(got.sin_addr.s_addr, name.sin_addr.s_addr);
    assert_ne!(got.sin_port, 0);
    drop(cm.pair());
}

/// An address that is in use cannot be assigned.
fn a_name_of_others_is_not_assigned(subject) {
    let (first, second) = (CmFixture::new(subject), CmFixture::closed(subject));
    let mut taken = first.name();
    let set = c!(fi_setname(second.pep.cast(), taken.as_mut_ptr().cast(), taken.len()));
    let code = if set == 0 { c!(fi_listen(second.pep)) } else { set };
    refused!(code, FI_EADDRINUSE);
}

/// fi_getpeer gives the address of the other side.
fn the_peer_is_told(subject) {
    let cm = CmFixture::new(subject);
    let pair = cm.pair();
    assert_eq!(peer_of(&pair.a), cm.name());
    assert_eq!(peer_of(&pair.b), name_of(pair.a.ep.cast()));
}

/// fi_getpeer cuts what does not fit with -FI_ETOOSMALL, and tells the length that is needed.
fn a_peer_is_cut(subject) {
    let cm = CmFixture::new(subject);
    let pair = cm.pair();
    let whole = peer_of(&pair.a);
    let mut short = [0_u8; 5];
    let mut len = short.len();
    let got = c!(fi_getpeer(pair.a.ep, short.as_mut_ptr().cast(), &mut len));
    assert_eq!((got, len), (-FI_ETOOSMALL, whole.len()));
    assert_eq!(short, whole[..5]);
}

/// Nothing is sent before FI_CONNECTED: it is refused, or fails at once.
fn nothing_is_sent_before_the_connection(subject) {
    let cm = CmFixture::new(subject);
    let caller = cm.caller();
    assert_eq!(c!(fi_enable(caller.ep)), 0);
    let (place, context) = (caller.traffic.buffer(b"x"), caller.traffic.context());
    let sent = c!(fi_send(caller.ep, place.cast(), 1, null_mut(), FI_ADDR_UNSPEC, context));
    if sent == 0 {
        match caller.read() {
            Some(Read::Failed(error)) => assert_eq!(error.op_context, context),
            other => panic!("{other:?}"),
        }
    }
}

/// Receive buffers may be posted before the connection, and take its first messages.
fn receives_may_be_posted_early(subject) {
    let cm = CmFixture::new(subject);
    let caller = cm.caller();
    assert_eq!(c!(fi_enable(caller.ep)), 0);
    let posted = caller.recv(16);
    assert_eq!(cm.call(&caller, &[]), 0);
    let pair = cm.meet(caller);
    let (place, context) = (pair.b.traffic.buffer(b"first"), pair.b.traffic.context());
    pair.start(|| c!(fi_send(pair.b.ep, place.cast(), 5, null_mut(), FI_ADDR_UNSPEC, context)));
    let done = pair.done(&pair.a);
    assert_eq!((done.op_context, done.len), (posted.context, 5));
    assert_eq!(&posted.bytes()[..5], b"first");
}

/// Connected endpoints need no address vector, and exchange messages in both directions.
fn messages_go_both_ways(subject) {
    let cm = CmFixture::new(subject);
    let pair = cm.pair();
    let (at_a, at_b) = (pair.a.recv(4), pair.b.recv(4));
    pair.send(b"ping");
    let _ = (pair.done(&pair.a), pair.done(&pair.b));
    let (place, context) = (pair.b.traffic.buffer(b"pong"), pair.b.traffic.context());
    pair.start(|| c!(fi_send(pair.b.ep, place.cast(), 4, null_mut(), FI_ADDR_UNSPEC, context)));
    let _ = (pair.done(&pair.a), pair.done(&pair.b));
    assert_eq!((at_b.bytes(), at_a.bytes()), (b"ping".as_slice(), b"pong".as_slice()));
}

/// fi_shutdown is FI_SHUTDOWN for the peer, with the fid of its endpoint.
fn a_shutdown_is_an_event_of_the_peer(subject) {
    let cm = CmFixture::new(subject);
    let pair = cm.pair();
    assert_eq!(c!(fi_shutdown(pair.a.ep, 0)), 0);
    match next_event(pair.b.eq, &[&pair.a]) {
        Event::Cm { event, fid, .. } => assert_eq!((event, fid), (FI_SHUTDOWN, pair.b.ep.cast())),
        other => panic!("{other:?}"),
    }
}

/// Closing an endpoint is FI_SHUTDOWN for the peer.
fn a_close_is_a_shutdown(subject) {
    let cm = CmFixture::new(subject);
    let oxifabric_fixtures::fixture::Pair { a, b, .. } = cm.pair();
    drop(a);
    match next_event(b.eq, &[]) {
        Event::Cm { event, fid, .. } => assert_eq!((event, fid), (FI_SHUTDOWN, b.ep.cast())),
        other => panic!("{other:?}"),
    }
}

/// A peer is told of a shutdown once.
fn a_shutdown_is_told_once(subject) {
    let cm = CmFixture::new(subject);
    let oxifabric_fixtures::fixture::Pair { a, b, .. } = cm.pair();
    assert_eq!(c!(fi_shutdown(a.ep, 0)), 0);
    let _ = next_event(b.eq, &[&a]);
    drop(a);
    for _ in 0..100 {
        assert!(event(b.eq).is_none());
        let _ = b.read();
    }
}

/// Cancelled operations are told before fi_shutdown returns; the others are dropped in silence.
fn a_shutdown_cancels_at_once(subject) {
    let cm = CmFixture::new(subject);
    let pair = cm.pair();
    let posted: Vec<_> = (0..3).map(|_| pair.a.recv(8)).collect();
    assert_eq!(c!(fi_shutdown(pair.a.ep, 0)), 0);
    let mut told = 0;
    while let Some(read) = pair.a.read() {
        match read {
            Read::Failed(error) => assert!(posted.iter().any(|posted| posted.context == error.op_context)),
            Read::Done(done) => panic!("{done:?}"),
        }
        told += 1;
    }
    assert!(told <= posted.len());
    for _ in 0..100 {
        assert!(pair.a.read().is_none(), "told later");
        let _ = event(pair.a.eq);
    }
}

/// Completions that were written before a shutdown can still be read.
fn a_shutdown_leaves_completions(subject) {
    let cm = CmFixture::new(subject);
    let pair = cm.pair();
    let _posted = pair.b.recv(8);
    let context = pair.send(b"x");
    let _ = pair.done(&pair.b);
    pair.progress(&pair.a);
    let done = pair.done(&pair.a);
    assert_eq!(done.op_context, context);
    let posted = pair.a.recv(8);
    let (place, sent) = (pair.b.traffic.buffer(b"y"), pair.b.traffic.context());
    pair.start(|| c!(fi_send(pair.b.ep, place.cast(), 1, null_mut(), FI_ADDR_UNSPEC, sent)));
    let _ = pair.done(&pair.b);
    // The completion is written by a read of nothing, and stays in the queue.
    let begun = std::time::Instant::now();
    let mut fids = [pair.a.cq.cast()];
    while c!(fi_trywait(cm.fixture.fabric, fids.as_mut_ptr(), 1)) == 0 {
        assert!(begun.elapsed() < oxifabric_fixtures::traffic::TIMEOUT);
    }
    assert_eq!(c!(fi_shutdown(pair.a.ep, 0)), 0);
    assert_eq!(pair.done(&pair.a).op_context, posted.context);
}

/// What was sent before a shutdown is received.
fn what_was_sent_before_a_shutdown_arrives(subject) {
    let cm = CmFixture::new(subject);
    let pair = cm.pair();
    let posted = pair.b.recv(8);
    let context = pair.send(b"farewell");
    assert_eq!(pair.done(&pair.a).op_context, context);
    assert_eq!(c!(fi_shutdown(pair.a.ep, 0)), 0);
    let done = pair.done(&pair.b);
    assert_eq!((done.op_context, posted.bytes()), (posted.context, b"farewell".as_slice()));
}

/// After a shutdown nothing more is sent.
fn nothing_is_sent_after_a_shutdown(subject) {
    let cm = CmFixture::new(subject);
    let pair = cm.pair();
    assert_eq!(c!(fi_shutdown(pair.a.ep, 0)), 0);
    let (place, context) = (pair.a.traffic.buffer(b"x"), pair.a.traffic.context());
    if c!(fi_send(pair.a.ep, place.cast(), 1, null_mut(), FI_ADDR_UNSPEC, context)) == 0 {
        assert_eq!(pair.failed(&pair.a).op_context, context);
    }
}

/// What is under way towards a peer that goes ends with an error.
fn a_peer_that_goes_ends_what_is_under_way(subject) {
    let cm = CmFixture::new(subject);
    let oxifabric_fixtures::fixture::Pair { a, b, .. } = cm.pair();
    let posted = b.recv(8);
    drop(a);
    let begun = std::time::Instant::now();
    let error = loop {
        match b.read() {
            Some(Read::Failed(error)) => break error,
            Some(Read::Done(done)) => panic!("{done:?}"),
            None => assert!(begun.elapsed() < oxifabric_fixtures::traffic::TIMEOUT),
        }
        let _ = event(b.eq);
    };
    assert_eq!(error.op_context, posted.context);
}

/// A passive endpoint without an event queue does not listen.
fn listening_needs_a_queue(subject) {
    let cm = CmFixture::closed(subject);
    let mut pep = null_mut();
    let opened = c!(fi_passive_ep(cm.fixture.fabric, cm.fixture.info.as_ptr(), &mut pep, null_mut()));
    assert_eq!(opened, 0);
    refused!(c!(fi_listen(pep)), FI_ENOEQ);
    assert_eq!(oxifabric_fixtures::fixture::close(pep), 0);
}

/// An event queue that a passive endpoint is bound to cannot be closed: -FI_EBUSY.
fn a_queue_in_use_stays_open(subject) {
    let cm = CmFixture::new(subject);
    assert_eq!(oxifabric_fixtures::fixture::close(cm.eq), -FI_EBUSY);
}

/// What a connected endpoint cannot do without is an event queue: fi_connect without one is refused.
fn connecting_needs_a_queue(subject) {
    let cm = CmFixture::new(subject);
    let (ep, cq) = (cm.fixture.bare(), cm.fixture.cq(|_| {}));
    assert_eq!(oxifabric_fixtures::fixture::bind(ep, cq, FI_SEND | FI_RECV), 0);
    let name = cm.name();
    let code: c_int = c!(fi_connect(ep, name.as_ptr().cast(), core::ptr::null(), 0));
    refused!(code, FI_ENOEQ);
    assert_eq!((oxifabric_fixtures::fixture::close(ep), oxifabric_fixtures::fixture::close(cq)), (0, 0));
}

/// A request is answered with the capabilities that the passive endpoint was opened with.
fn a_request_describes_its_endpoint(subject) {
    let cm = CmFixture::new(subject);
    let caller = cm.caller();
    assert_eq!(cm.call(&caller, &[]), 0);
    let (request, _) = cm.request(&caller);
    let info = request.first();
    assert_eq!(c!((*info.ep_attr).type_), FI_EP_MSG);
    assert_eq!(info.caps & FI_MSG, FI_MSG);
    assert_eq!(info.addr_format, cm.fixture.info.first().addr_format);
    cm.reject(&request, b"");
}

/// No more requests wait than FI_BACKLOG says; the next comes when one was answered.
fn a_backlog_limits_requests(subject) {
    let cm = CmFixture::new(subject);
    let mut backlog: c_int = 1;
    assert_eq!(c!(fi_control(cm.pep.cast(), FI_BACKLOG, (&raw mut backlog).cast())), 0);
    let callers = [cm.caller(), cm.caller()];
    for caller in &callers {
        assert_eq!(cm.call(caller, &[]), 0);
    }
    let (first, _) = cm.request(&callers[0]);
    for _ in 0..200 {
        assert!(event(cm.eq).is_none());
        assert!(callers.iter().all(|caller| event(caller.eq).is_none()));
    }
    cm.reject(&first, b"");
    let (second, _) = cm.request(&callers[1]);
    cm.reject(&second, b"");
}
}
