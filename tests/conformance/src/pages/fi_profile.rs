//! What an endpoint lets be watched.

use core::ffi::{c_int, c_void};
use core::mem::offset_of;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicUsize, Ordering};

use oxifabric_abi::*;
use oxifabric_fixtures::fixture::{Fixture, TestEndpoint, close};
use oxifabric_fixtures::traffic::TIMEOUT;
use oxifabric_fixtures::{PROVIDERS, c};

use crate::requirements;

/// `fi_profile_open` of the header.
fn open(end: &TestEndpoint) -> &'static mut fid_profile {
    let mut ops = null_mut();
    let name = c"fi_profile_ops".as_ptr();
    let opened = c!(fi_open_ops(end.ep.cast(), name, 0, &mut ops, null_mut()));
    assert_eq!(opened, 0);
    let place = ops
        .wrapping_byte_sub(offset_of!(fid_profile, ops))
        .cast::<fid_profile>();
    c!(&mut *place)
}

/// Reads a variable of 64 bits.
fn value(profile: &mut fid_profile, id: u32) -> Result<u64, isize> {
    let (mut value, mut size) = (0_u64, 8);
    let read = c!((*profile.ops).read_var).expect("an operation");
    match c!(read(profile, id, (&raw mut value).cast(), &mut size)) {
        code if code < 0 => Err(code),
        _ => Ok(value),
    }
}

static CALLS: [AtomicUsize; PROVIDERS.len()] = [const { AtomicUsize::new(0) }; PROVIDERS.len()];

unsafe extern "C" fn count(
    _: *mut fid_profile,
    _: *mut fi_profile_desc,
    _: *mut c_void,
    _: usize,
    context: *mut c_void,
) -> c_int {
    CALLS[context.addr()].fetch_add(1, Ordering::Relaxed);
    0
}

requirements! { "fi_profile(3)";

/// Variables are listed: how many there are without room for them, and as many as fit with it.
fn variables_are_listed(subject) {
    let fixture = Fixture::new(subject);
    let end = fixture.end();
    let profile = open(&end);
    let query = c!((*profile.ops).query_vars).expect("an operation");
    let mut number = 0;
    assert!(c!(query(profile, null_mut(), &mut number)) >= 0);
    assert!(number > 0);
    let mut list: Vec<fi_profile_desc> = (0..number).map(|_| c!(core::mem::zeroed())).collect();
    let mut room = number;
    assert_eq!(c!(query(profile, list.as_mut_ptr(), &mut room)), number as isize);
    assert_eq!(room, number);
    assert!(list.iter().all(|desc| !desc.name.is_null() && !desc.desc.is_null() && desc.size > 0));
    assert!(list.iter().any(|desc| desc.id == FI_VAR_UNEXP_MSG_CNT));
    assert_eq!(close(profile), 0);
}

/// Events are listed in the same way.
fn events_are_listed(subject) {
    let fixture = Fixture::new(subject);
    let end = fixture.end();
    let profile = open(&end);
    let query = c!((*profile.ops).query_events).expect("an operation");
    let mut number = 0;
    assert!(c!(query(profile, null_mut(), &mut number)) >= 0);
    let mut list: Vec<fi_profile_desc> = (0..number).map(|_| c!(core::mem::zeroed())).collect();
    let mut room = number;
    assert_eq!(c!(query(profile, list.as_mut_ptr(), &mut room)), number as isize);
    assert!(list.iter().all(|desc| !desc.name.is_null()));
    assert_eq!(close(profile), 0);
}

/// FI_VAR_UNEXP_MSG_CNT is the number of messages that wait for a receive.
fn waiting_messages_are_counted(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let profile = open(&pair.b);
    assert_eq!(value(profile, FI_VAR_UNEXP_MSG_CNT), Ok(0));
    pair.send(b"1");
    pair.send(b"2");
    let begun = std::time::Instant::now();
    while value(profile, FI_VAR_UNEXP_MSG_CNT) != Ok(2) {
        assert!(begun.elapsed() < TIMEOUT);
        pair.progress(&pair.a);
        pair.progress(&pair.b);
    }
    let _posted = pair.b.recv(1);
    let _ = pair.done(&pair.b);
    assert_eq!(value(profile, FI_VAR_UNEXP_MSG_CNT), Ok(1));
    assert_eq!(close(profile), 0);
}

/// FI_VAR_UNEXP_MSG_QUEUE, where it is listed, has an entry for each message that waits, with its length and tag.
fn waiting_messages_are_listed(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let profile = open(&pair.b);
    let size = size_of::<fi_cq_err_entry>();
    let read = c!((*profile.ops).read_var).expect("an operation");
    let mut list: [fi_cq_err_entry; 2] = c!(core::mem::zeroed());
    let mut room = size_of_val(&list);
    if c!(read(profile, FI_VAR_UNEXP_MSG_QUEUE, list.as_mut_ptr().cast(), &mut room)) < 0 {
        assert_eq!(close(profile), 0);
        return;
    }
    assert_eq!(room, 0, "nothing waits");
    pair.send(b"long");
    let begun = std::time::Instant::now();
    while room != size {
        assert!(begun.elapsed() < TIMEOUT);
        pair.progress(&pair.a);
        pair.progress(&pair.b);
        room = size_of_val(&list);
        c!(read(profile, FI_VAR_UNEXP_MSG_QUEUE, list.as_mut_ptr().cast(), &mut room));
    }
    assert_eq!((list[0].len, list[0].flags & FI_MSG), (4, FI_MSG));
    let mut short = 1;
    let refused = c!(read(profile, FI_VAR_UNEXP_MSG_QUEUE, list.as_mut_ptr().cast(), &mut short));
    assert_eq!((refused, short), (-(FI_ETOOSMALL as isize), size));
    assert_eq!(close(profile), 0);
}

/// What is read between fi_profile_start_reads and fi_profile_end_reads are values of one moment.
fn reads_may_be_of_one_moment(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let profile = open(&pair.b);
    let start = c!((*profile.ops).start_reads).expect("an operation");
    let end = c!((*profile.ops).end_reads).expect("an operation");
    c!(start(profile, 0));
    pair.send(b"x");
    let begun = std::time::Instant::now();
    loop {
        assert!(begun.elapsed() < TIMEOUT);
        pair.progress(&pair.a);
        pair.progress(&pair.b);
        assert_eq!(value(profile, FI_VAR_UNEXP_MSG_CNT), Ok(0));
        c!(end(profile, 0));
        if value(profile, FI_VAR_UNEXP_MSG_CNT) == Ok(1) {
            break;
        }
        c!(start(profile, 0));
    }
    assert_eq!(close(profile), 0);
}

/// Where connections are counted, one side has asked, the other has accepted, and both have one; fi_profile_reset begins anew.
fn connections_are_counted(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let (a, b) = (open(&pair.a), open(&pair.b));
    if value(a, FI_VAR_CONNECTION_CNT).is_ok() {
        assert_eq!(value(a, FI_VAR_CONNECTION_CNT), Ok(0));
        let posted = pair.b.recv(1);
        pair.send(b"x");
        assert_eq!(pair.done(&pair.b).op_context, posted.context);
        let of = |profile: &mut fid_profile| {
            let ids = [FI_VAR_CONNECTION_CNT, FI_VAR_CONN_REQUEST, FI_VAR_CONN_ACCEPT, FI_VAR_CONN_REJECT];
            ids.map(|id| value(profile, id).expect("it is listed"))
        };
        assert_eq!((of(a), of(b)), ([1, 1, 0, 0], [1, 0, 1, 0]));
        let reset = c!((*a.ops).reset).expect("an operation");
        c!(reset(a, 0));
        assert_eq!(of(a), [0; 4]);
    }
    assert_eq!((close(a), close(b)), (0, 0));
}

/// A variable that is not in the list is -FI_EINVAL.
fn an_unknown_variable_is_refused(subject) {
    let fixture = Fixture::new(subject);
    let end = fixture.end();
    let profile = open(&end);
    assert_eq!(value(profile, 0x7777), Err(-(FI_EINVAL as isize)));
    assert_eq!(close(profile), 0);
}

/// An event that is not in the list is -FI_EINVAL.
fn an_unknown_event_is_refused(subject) {
    let fixture = Fixture::new(subject);
    let end = fixture.end();
    let profile = open(&end);
    let register = c!((*profile.ops).reg_callback).expect("an operation");
    assert_eq!(c!(register(profile, 0x7777, Some(count), null_mut())), -FI_EINVAL);
    assert_eq!(close(profile), 0);
}

/// A registered callback is called when its event happens, with the context of the registration.
fn an_event_calls(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let profile = open(&pair.b);
    let register = c!((*profile.ops).reg_callback).expect("an operation");
    let at = PROVIDERS.iter().position(|&name| name == subject.provider).expect("a provider");
    let context = core::ptr::without_provenance_mut(at);
    if c!(register(profile, FI_EVENT_UNEXP_MSG_RECVD, Some(count), context)) == 0 {
        pair.send(b"x");
        let begun = std::time::Instant::now();
        while CALLS[at].load(Ordering::Relaxed) == 0 {
            assert!(begun.elapsed() < TIMEOUT);
            pair.progress(&pair.a);
            pair.progress(&pair.b);
        }
        let _posted = pair.b.recv(1);
        let _ = pair.done(&pair.b);
        assert_eq!(CALLS[at].load(Ordering::Relaxed), 1);
    } else {
        // An event that is not offered is not listed.
        let query = c!((*profile.ops).query_events).expect("an operation");
        let mut number = 0;
        assert!(c!(query(profile, null_mut(), &mut number)) >= 0);
        assert_eq!(number, 0);
    }
    assert_eq!(close(profile), 0);
}

/// An object that lets nothing be watched says -FI_ENOSYS.
fn what_cannot_be_watched_says_so(subject) {
    let fixture = Fixture::new(subject);
    let (av, mut ops) = (fixture.av(), null_mut());
    let name = c"fi_profile_ops".as_ptr();
    assert_eq!(c!(fi_open_ops(av.cast(), name, 0, &mut ops, null_mut())), -FI_ENOSYS);
    assert_eq!(close(av), 0);
}
}
