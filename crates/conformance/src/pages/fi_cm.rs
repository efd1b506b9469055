//! Connections.

use core::ffi::c_int;
use core::ptr::null_mut;

use oxifabric_abi::*;

use crate::lobby::{Event, Lobby, connected, event, name_of, next_event, peer_of};
use crate::traffic::Read;
use crate::{c, sentences};

/// The most bytes that may be said with a request or its answer.
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

sentences! { "fi_cm(3)" on &["tcp"];

/// A request for a connection is reported to the queue of the passive endpoint as FI_CONNREQ, with its fid and the
/// description of an endpoint whose handle is the request.
fn a_request_is_an_event_of_the_passive_endpoint(stage) {
    let lobby = Lobby::new(stage);
    let caller = lobby.caller();
    assert_eq!(lobby.call(&caller, &[]), 0);
    let Event::Cm { event, fid, info, .. } = next_event(lobby.eq, &[&caller]) else {
        panic!("an error");
    };
    assert_eq!((event, fid), (FI_CONNREQ, lobby.pep.cast()));
    assert!(!info.is_null());
    let request = lobby.world.info.like(info);
    assert!(!request.first().handle.is_null());
    lobby.reject(&request, b"");
}

/// Nothing is reported before somebody asks.
fn nobody_asks_by_himself(stage) {
    let lobby = Lobby::new(stage);
    for _ in 0..100 {
        assert!(event(lobby.eq).is_none());
    }
}

/// What the caller says comes with its request.
fn words_of_the_caller_come_with_the_request(stage) {
    let lobby = Lobby::new(stage);
    let caller = lobby.caller();
    assert_eq!(lobby.call(&caller, b"good day"), 0);
    let (request, said) = lobby.request(&caller);
    assert_eq!(said, b"good day");
    lobby.reject(&request, b"");
}

/// As many bytes as FI_OPT_CM_DATA_SIZE says come with a request and with its answer.
fn as_many_words_as_was_said(stage) {
    let lobby = Lobby::new(stage);
    let caller = lobby.caller();
    let size = cm_data_size(caller.ep.cast());
    assert!(size > 0);
    let words: Vec<u8> = (0..size).map(|at| at as u8 ^ 0x5A).collect();
    assert_eq!(lobby.call(&caller, &words), 0);
    let (request, said) = lobby.request(&caller);
    assert!(said == words);
    let accepted = lobby.accept(&request, &words);
    assert!(connected(&caller, &[&accepted]) == words);
}

/// Active and passive endpoint say the same of FI_OPT_CM_DATA_SIZE.
fn passive_endpoints_say_how_much_can_be_said(stage) {
    let lobby = Lobby::new(stage);
    let caller = lobby.caller();
    assert_eq!(cm_data_size(lobby.pep.cast()), cm_data_size(caller.ep.cast()));
}

/// FI_CONNECTED is an event of both endpoints, with their own fids and not that of the passive one.
fn both_are_told_of_the_connection(stage) {
    let lobby = Lobby::new(stage);
    let two = lobby.two();
    assert_ne!(two.a.ep, two.b.ep);
    assert!(event(lobby.eq).is_none());
}

/// What is said with fi_accept comes with FI_CONNECTED of the caller.
fn words_of_the_accepting_come_with_the_connection(stage) {
    let lobby = Lobby::new(stage);
    let caller = lobby.caller();
    assert_eq!(lobby.call(&caller, &[]), 0);
    let (request, said) = lobby.request(&caller);
    assert!(said.is_empty());
    let accepted = lobby.accept(&request, b"welcome");
    assert_eq!(connected(&caller, &[&accepted]), b"welcome");
}

/// A connection is not there before the request was accepted.
fn nobody_is_connected_before_the_answer(stage) {
    let lobby = Lobby::new(stage);
    let caller = lobby.caller();
    assert_eq!(lobby.call(&caller, &[]), 0);
    let (request, _) = lobby.request(&caller);
    for _ in 0..100 {
        assert!(event(caller.eq).is_none());
    }
    lobby.reject(&request, b"");
}

/// A rejected request is an error of the caller's queue, with its fid.
fn a_rejected_request_is_an_error(stage) {
    let lobby = Lobby::new(stage);
    let caller = lobby.caller();
    assert_eq!(lobby.call(&caller, &[]), 0);
    let (request, _) = lobby.request(&caller);
    lobby.reject(&request, b"");
    match next_event(caller.eq, &[]) {
        Event::Failed { entry, .. } => {
            assert_eq!((entry.err, entry.fid), (FI_ECONNREFUSED, caller.ep.cast()));
        }
        other => panic!("{other:?}"),
    }
}

/// What is said with fi_reject is the data of that error.
fn words_of_the_rejecting_come_with_the_error(stage) {
    let lobby = Lobby::new(stage);
    let caller = lobby.caller();
    assert_eq!(lobby.call(&caller, &[]), 0);
    let (request, _) = lobby.request(&caller);
    lobby.reject(&request, b"not today");
    match next_event(caller.eq, &[]) {
        Event::Failed { data, .. } => assert_eq!(data, b"not today"),
        other => panic!("{other:?}"),
    }
}

/// A passive endpoint that rejected somebody takes the next.
fn others_may_come_after_a_rejection(stage) {
    let lobby = Lobby::new(stage);
    let rejected = lobby.caller();
    assert_eq!(lobby.call(&rejected, &[]), 0);
    let (request, _) = lobby.request(&rejected);
    lobby.reject(&request, b"");
    drop(lobby.two());
}

/// A request that fails is an error event of the caller, or of the call.
fn nobody_listens(stage) {
    let lobby = Lobby::closed(stage);
    let caller = lobby.caller();
    if lobby.call(&caller, &[]) == 0 {
        match next_event(caller.eq, &[]) {
            Event::Failed { entry, .. } => assert_ne!(entry.err, 0),
            other => panic!("{other:?}"),
        }
    }
}

/// Requests of several callers are events of their own, each with its words.
fn several_may_ask(stage) {
    let lobby = Lobby::new(stage);
    let callers: Vec<_> = (0..5_u8)
        .map(|at| {
            let caller = lobby.caller();
            assert_eq!(lobby.call(&caller, &[at]), 0);
            caller
        })
        .collect();
    let mut words = Vec::new();
    let mut requests = Vec::new();
    for caller in &callers {
        let (request, said) = lobby.request(caller);
        words.extend(said);
        requests.push(request);
    }
    words.sort_unstable();
    assert_eq!(words, [0, 1, 2, 3, 4]);
    for request in &requests {
        lobby.reject(request, b"");
    }
}

/// An endpoint connects once in its life.
fn an_endpoint_connects_once(stage) {
    let lobby = Lobby::new(stage);
    let two = lobby.two();
    assert_ne!(lobby.call(&two.a, &[]), 0);
}

/// A second fi_connect is refused even while the first is under way.
fn a_second_call_is_refused(stage) {
    let lobby = Lobby::new(stage);
    let caller = lobby.caller();
    assert_eq!(lobby.call(&caller, &[]), 0);
    assert_ne!(lobby.call(&caller, &[]), 0);
    let (request, _) = lobby.request(&caller);
    lobby.reject(&request, b"");
}

/// fi_connect and fi_accept enable the endpoint.
fn connecting_enables(stage) {
    let lobby = Lobby::new(stage);
    let two = lobby.two();
    let cq = lobby.world.cq(|_| {});
    assert_ne!(crate::world::bind(two.a.ep, cq, FI_SEND | FI_RECV), 0);
    assert_eq!(crate::world::close(cq), 0);
    assert!(!name_of(two.a.ep.cast()).is_empty() && !name_of(two.b.ep.cast()).is_empty());
}

/// A listening endpoint has an address that others can connect to, of the length that is told.
fn a_listening_endpoint_has_a_name(stage) {
    let lobby = Lobby::new(stage);
    let name = lobby.name();
    assert!(name.len() >= size_of::<libc::sockaddr_in>());
    let mut short = [0_u8; 3];
    let mut len = short.len();
    let got = c!(fi_getname(lobby.pep.cast(), short.as_mut_ptr().cast(), &mut len));
    assert_eq!((got, len), (-FI_ETOOSMALL, name.len()));
    assert_eq!(short, name[..3]);
}

/// fi_setname assigns an address, with a service of the provider's choice if none is named.
fn a_name_can_be_assigned(stage) {
    let lobby = Lobby::closed(stage);
    let mut name: libc::sockaddr_in = c!(core::mem::zeroed());
    name.sin_family = libc::AF_INET as _;
    name.sin_addr.s_addr = u32::from_be_bytes([127, 0, 0, 2]).to_be();
    let place = (&raw mut name).cast();
    assert_eq!(c!(fi_setname(lobby.pep.cast(), place, size_of_val(&name))), 0);
    assert_eq!(c!(fi_listen(lobby.pep)), 0);
    let got = lobby.name();
    let got = c!(got.as_ptr().cast::<libc::sockaddr_in>().read_unaligned());
    assert_eq!(got.sin_addr.s_addr, name.sin_addr.s_addr);
    assert_ne!(got.sin_port, 0);
    drop(lobby.two());
}

/// An address that is in use cannot be assigned.
fn a_name_of_others_is_not_assigned(stage) {
    let (first, second) = (Lobby::new(stage), Lobby::closed(stage));
    let mut taken = first.name();
    let set = c!(fi_setname(second.pep.cast(), taken.as_mut_ptr().cast(), taken.len()));
    assert!(set < 0 || c!(fi_listen(second.pep)) < 0);
}

/// fi_getpeer gives the address of the other side.
fn the_peer_is_told(stage) {
    let lobby = Lobby::new(stage);
    let two = lobby.two();
    assert_eq!(peer_of(&two.a), lobby.name());
    assert_eq!(peer_of(&two.b), name_of(two.a.ep.cast()));
}

/// fi_getpeer cuts what does not fit with -FI_ETOOSMALL, and tells the length that is needed.
fn a_peer_is_cut(stage) {
    let lobby = Lobby::new(stage);
    let two = lobby.two();
    let whole = peer_of(&two.a);
    let mut short = [0_u8; 5];
    let mut len = short.len();
    let got = c!(fi_getpeer(two.a.ep, short.as_mut_ptr().cast(), &mut len));
    assert_eq!((got, len), (-FI_ETOOSMALL, whole.len()));
    assert_eq!(short, whole[..5]);
}

/// Nothing is sent before FI_CONNECTED: it is refused, or fails at once.
fn nothing_is_sent_before_the_connection(stage) {
    let lobby = Lobby::new(stage);
    let caller = lobby.caller();
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
fn receives_may_be_posted_early(stage) {
    let lobby = Lobby::new(stage);
    let caller = lobby.caller();
    assert_eq!(c!(fi_enable(caller.ep)), 0);
    let posted = caller.recv(16);
    assert_eq!(lobby.call(&caller, &[]), 0);
    let two = lobby.meet(caller);
    let (place, context) = (two.b.traffic.buffer(b"first"), two.b.traffic.context());
    two.start(|| c!(fi_send(two.b.ep, place.cast(), 5, null_mut(), FI_ADDR_UNSPEC, context)));
    let done = two.done(&two.a);
    assert_eq!((done.op_context, done.len), (posted.context, 5));
    assert_eq!(&posted.bytes()[..5], b"first");
}

/// Connected endpoints need no address vector, and exchange messages in both directions.
fn messages_go_both_ways(stage) {
    let lobby = Lobby::new(stage);
    let two = lobby.two();
    let (at_a, at_b) = (two.a.recv(4), two.b.recv(4));
    two.send(b"ping");
    let _ = (two.done(&two.a), two.done(&two.b));
    let (place, context) = (two.b.traffic.buffer(b"pong"), two.b.traffic.context());
    two.start(|| c!(fi_send(two.b.ep, place.cast(), 4, null_mut(), FI_ADDR_UNSPEC, context)));
    let _ = (two.done(&two.a), two.done(&two.b));
    assert_eq!((at_b.bytes(), at_a.bytes()), (b"ping".as_slice(), b"pong".as_slice()));
}

/// fi_shutdown is FI_SHUTDOWN for the peer, with the fid of its endpoint.
fn a_shutdown_is_an_event_of_the_peer(stage) {
    let lobby = Lobby::new(stage);
    let two = lobby.two();
    assert_eq!(c!(fi_shutdown(two.a.ep, 0)), 0);
    match next_event(two.b.eq, &[&two.a]) {
        Event::Cm { event, fid, .. } => assert_eq!((event, fid), (FI_SHUTDOWN, two.b.ep.cast())),
        other => panic!("{other:?}"),
    }
}

/// Closing an endpoint is FI_SHUTDOWN for the peer.
fn a_close_is_a_shutdown(stage) {
    let lobby = Lobby::new(stage);
    let crate::world::Two { a, b, .. } = lobby.two();
    drop(a);
    match next_event(b.eq, &[]) {
        Event::Cm { event, fid, .. } => assert_eq!((event, fid), (FI_SHUTDOWN, b.ep.cast())),
        other => panic!("{other:?}"),
    }
}

/// A peer is told of a shutdown once.
fn a_shutdown_is_told_once(stage) {
    let lobby = Lobby::new(stage);
    let crate::world::Two { a, b, .. } = lobby.two();
    assert_eq!(c!(fi_shutdown(a.ep, 0)), 0);
    let _ = next_event(b.eq, &[&a]);
    drop(a);
    for _ in 0..100 {
        assert!(event(b.eq).is_none());
        let _ = b.read();
    }
}

/// Cancelled operations are told before fi_shutdown returns; the others are dropped in silence.
fn a_shutdown_cancels_at_once(stage) {
    let lobby = Lobby::new(stage);
    let two = lobby.two();
    let posted: Vec<_> = (0..3).map(|_| two.a.recv(8)).collect();
    assert_eq!(c!(fi_shutdown(two.a.ep, 0)), 0);
    let mut told = 0;
    while let Some(read) = two.a.read() {
        match read {
            Read::Failed(error) => assert!(posted.iter().any(|posted| posted.context == error.op_context)),
            Read::Done(done) => panic!("{done:?}"),
        }
        told += 1;
    }
    assert!(told <= posted.len());
    for _ in 0..100 {
        assert!(two.a.read().is_none(), "told later");
        let _ = event(two.a.eq);
    }
}

/// Completions that were written before a shutdown can still be read.
fn a_shutdown_leaves_completions(stage) {
    let lobby = Lobby::new(stage);
    let two = lobby.two();
    let _posted = two.b.recv(8);
    let context = two.send(b"x");
    let _ = two.done(&two.b);
    two.progress(&two.a);
    let done = two.done(&two.a);
    assert_eq!(done.op_context, context);
    let posted = two.a.recv(8);
    let (place, sent) = (two.b.traffic.buffer(b"y"), two.b.traffic.context());
    two.start(|| c!(fi_send(two.b.ep, place.cast(), 1, null_mut(), FI_ADDR_UNSPEC, sent)));
    let _ = two.done(&two.b);
    // The completion is written by a read of nothing, and stays in the queue.
    let begun = std::time::Instant::now();
    let mut fids = [two.a.cq.cast()];
    while c!(fi_trywait(lobby.world.fabric, fids.as_mut_ptr(), 1)) == 0 {
        assert!(begun.elapsed() < crate::traffic::PATIENCE);
    }
    assert_eq!(c!(fi_shutdown(two.a.ep, 0)), 0);
    assert_eq!(two.done(&two.a).op_context, posted.context);
}

/// What was sent before a shutdown is received.
fn what_was_sent_before_a_shutdown_arrives(stage) {
    let lobby = Lobby::new(stage);
    let two = lobby.two();
    let posted = two.b.recv(8);
    let context = two.send(b"farewell");
    assert_eq!(two.done(&two.a).op_context, context);
    assert_eq!(c!(fi_shutdown(two.a.ep, 0)), 0);
    let done = two.done(&two.b);
    assert_eq!((done.op_context, posted.bytes()), (posted.context, b"farewell".as_slice()));
}

/// After a shutdown nothing more is sent.
fn nothing_is_sent_after_a_shutdown(stage) {
    let lobby = Lobby::new(stage);
    let two = lobby.two();
    assert_eq!(c!(fi_shutdown(two.a.ep, 0)), 0);
    let (place, context) = (two.a.traffic.buffer(b"x"), two.a.traffic.context());
    if c!(fi_send(two.a.ep, place.cast(), 1, null_mut(), FI_ADDR_UNSPEC, context)) == 0 {
        assert_eq!(two.failed(&two.a).op_context, context);
    }
}

/// What is under way towards a peer that goes ends with an error.
fn a_peer_that_goes_ends_what_is_under_way(stage) {
    let lobby = Lobby::new(stage);
    let crate::world::Two { a, b, .. } = lobby.two();
    let posted = b.recv(8);
    drop(a);
    let begun = std::time::Instant::now();
    let error = loop {
        match b.read() {
            Some(Read::Failed(error)) => break error,
            Some(Read::Done(done)) => panic!("{done:?}"),
            None => assert!(begun.elapsed() < crate::traffic::PATIENCE),
        }
        let _ = event(b.eq);
    };
    assert_eq!(error.op_context, posted.context);
}

/// A passive endpoint without an event queue does not listen.
fn listening_needs_a_queue(stage) {
    let lobby = Lobby::closed(stage);
    let mut pep = null_mut();
    let opened = c!(fi_passive_ep(lobby.world.fabric, lobby.world.info.as_ptr(), &mut pep, null_mut()));
    assert_eq!(opened, 0);
    assert!(c!(fi_listen(pep)) < 0);
    assert_eq!(crate::world::close(pep), 0);
}

/// An event queue that a passive endpoint is bound to cannot be closed: -FI_EBUSY.
fn a_queue_in_use_stays_open(stage) {
    let lobby = Lobby::new(stage);
    assert_eq!(crate::world::close(lobby.eq), -FI_EBUSY);
}

/// What a connected endpoint cannot do without is an event queue: fi_connect without one is refused.
fn connecting_needs_a_queue(stage) {
    let lobby = Lobby::new(stage);
    let (ep, cq) = (lobby.world.bare(), lobby.world.cq(|_| {}));
    assert_eq!(crate::world::bind(ep, cq, FI_SEND | FI_RECV), 0);
    let name = lobby.name();
    let code: c_int = c!(fi_connect(ep, name.as_ptr().cast(), core::ptr::null(), 0));
    assert!(code < 0, "{code}");
    assert_eq!((crate::world::close(ep), crate::world::close(cq)), (0, 0));
}

/// A request is answered with the capabilities that the passive endpoint was opened with.
fn a_request_describes_its_endpoint(stage) {
    let lobby = Lobby::new(stage);
    let caller = lobby.caller();
    assert_eq!(lobby.call(&caller, &[]), 0);
    let (request, _) = lobby.request(&caller);
    let info = request.first();
    assert_eq!(c!((*info.ep_attr).type_), FI_EP_MSG);
    assert_eq!(info.caps & FI_MSG, FI_MSG);
    assert_eq!(info.addr_format, lobby.world.info.first().addr_format);
    lobby.reject(&request, b"");
}

/// No more requests wait than FI_BACKLOG says; the next comes when one was answered.
fn a_backlog_limits_requests(stage) {
    let lobby = Lobby::new(stage);
    let mut backlog: c_int = 1;
    assert_eq!(c!(fi_control(lobby.pep.cast(), FI_BACKLOG, (&raw mut backlog).cast())), 0);
    let callers = [lobby.caller(), lobby.caller()];
    for caller in &callers {
        assert_eq!(lobby.call(caller, &[]), 0);
    }
    let (first, _) = lobby.request(&callers[0]);
    for _ in 0..200 {
        assert!(event(lobby.eq).is_none());
        assert!(callers.iter().all(|caller| event(caller.eq).is_none()));
    }
    lobby.reject(&first, b"");
    let (second, _) = lobby.request(&callers[1]);
    lobby.reject(&second, b"");
}
}
