//! Counters and events of an endpoint for profilers: fi_profile(3).

use core::ffi::{c_int, c_void};
use core::mem::offset_of;
use core::ptr::{null_mut, without_provenance_mut};
use std::sync::Mutex;

use oxifabric_abi::*;

use super::world::{End, World, c};

/// `fi_profile_open` of the header.
fn open(ep: *mut fid_ep) -> *mut fid_profile {
    let mut ops = null_mut();
    let name = c"fi_profile_ops".as_ptr();
    assert_eq!(c!(fi_open_ops(ep.cast(), name, 0, &mut ops, null_mut())), 0);
    ops.wrapping_byte_sub(offset_of!(fid_profile, ops)).cast()
}

#[test]
fn a_profile_counts_messages_that_no_receive_takes() {
    let world = World::new();
    let (a, b) = (
        world.end(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE),
        world.end(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE),
    );
    let to_b = a.knows(&b);
    let profile = open(b.ep);
    // SAFETY: the profile is open and has all operations.
    let ops = unsafe { &*(*profile).ops };
    let waiting = || {
        let (mut value, mut size) = (0_u64, 8);
        let read = ops.read_var.expect("there is one");
        assert_eq!(
            c!(read(
                profile,
                FI_VAR_UNEXP_MSG_CNT,
                (&raw mut value).cast(),
                &mut size
            )),
            8
        );
        value
    };
    assert_eq!(waiting(), 0);
    assert_eq!(a.send(to_b, b"one", 1), 0);
    assert_eq!(a.send(to_b, b"two", 2), 0);
    while waiting() < 2 {
        let mut entry = fi_cq_tagged_entry::ZERO;
        assert_eq!(
            c!(fi_cq_read(b.cq, (&raw mut entry).cast(), 1)),
            -(FI_EAGAIN as isize)
        );
    }
    let mut into = [0u8; 8];
    b.recv(&mut into, 3);
    b.next();
    assert_eq!(waiting(), 1);

    let mut number = 0;
    let query = ops.query_vars.expect("there is one");
    assert_eq!(c!(query(profile, null_mut(), &mut number)), 0);
    assert_eq!(number, 3);
    let (mut value, mut size) = (0_u64, 4);
    let read = ops.read_var.expect("there is one");
    let small = c!(read(
        profile,
        FI_VAR_UNEXP_MSG_CNT,
        (&raw mut value).cast(),
        &mut size
    ));
    assert_eq!((small, size), (-(FI_ETOOSMALL as isize), 8));
    let unknown = c!(read(
        profile,
        FI_VAR_OFI_MEM,
        (&raw mut value).cast(),
        &mut size
    ));
    assert_eq!(unknown, -(FI_EINVAL as isize));
    assert_eq!(c!(fi_close(b.ep.cast())), -FI_EBUSY, "the profile is open");
    assert_eq!(c!(fi_close(profile.cast())), 0);
}

/// Reads a variable; returns what the call does and what is there afterwards.
fn read<V: Copy>(profile: *mut fid_profile, id: u32, into: &mut [V]) -> (isize, usize) {
    let mut size = size_of_val(into);
    let read = c!((*(*profile).ops).read_var).expect("there is one");
    let code = c!(read(profile, id, into.as_mut_ptr().cast(), &mut size));
    (code, size)
}

fn waiting(profile: *mut fid_profile) -> u64 {
    let mut value = [0_u64];
    assert_eq!(read(profile, FI_VAR_UNEXP_MSG_CNT, &mut value), (8, 8));
    value[0]
}

fn poll(cq: *mut fid_cq) {
    let mut entry = fi_cq_tagged_entry::ZERO;
    let read = c!(fi_cq_read(cq, (&raw mut entry).cast(), 1));
    assert_eq!(read, -(FI_EAGAIN as isize));
}

fn tsend(from: &End, to: fi_addr_t, bytes: &[u8], tag: u64) {
    let sent = c!(fi_tsend(
        from.ep,
        bytes.as_ptr().cast(),
        bytes.len(),
        null_mut(),
        to,
        tag,
        null_mut()
    ));
    assert_eq!(sent, 0);
}

fn trecv(at: &End, into: &mut [u8], tag: u64) {
    let posted = c!(fi_trecv(
        at.ep,
        into.as_mut_ptr().cast(),
        into.len(),
        null_mut(),
        FI_ADDR_UNSPEC,
        tag,
        0,
        null_mut()
    ));
    assert_eq!(posted, 0);
}

#[test]
fn messages_that_wait_are_listed_in_order_with_tag_length_and_source() {
    let world = World::new();
    let (a, b) = (
        world.end(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE),
        world.end(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE),
    );
    let (to_b, a_is) = (a.knows(&b), b.knows(&a));
    let profile = open(b.ep);
    tsend(&a, to_b, b"one", 1);
    tsend(&a, to_b, b"three", 2);
    while waiting(profile) < 2 {
        poll(b.cq);
    }
    // SAFETY: all zeroes is a value.
    let mut list: [fi_cq_err_entry; 3] = unsafe { core::mem::zeroed() };
    let size = size_of::<fi_cq_err_entry>();
    let whole = read(profile, FI_VAR_UNEXP_MSG_QUEUE, &mut list);
    assert_eq!(whole, (2 * size as isize, 2 * size));
    let seen = |at: usize| (list[at].tag, list[at].len, list[at].src_addr);
    assert_eq!((seen(0), seen(1)), ((1, 3, a_is), (2, 5, a_is)));
    assert_eq!(list[0].flags, FI_TAGGED | FI_RECV);
    let short = read(profile, FI_VAR_UNEXP_MSG_QUEUE, &mut list[..1]);
    assert_eq!(short, (-(FI_ETOOSMALL as isize), 2 * size));

    // Between start and end all is as it was at the start.
    let ops = c!(&*(*profile).ops);
    c!((ops.start_reads.expect("there is one"))(profile, 0));
    let mut into = [0u8; 8];
    trecv(&b, &mut into, 1);
    b.next();
    assert_eq!(waiting(profile), 2);
    assert_eq!(read(profile, FI_VAR_UNEXP_MSG_QUEUE, &mut list).1, 2 * size);
    c!((ops.end_reads.expect("there is one"))(profile, 0));
    assert_eq!(waiting(profile), 1);
    assert_eq!(read(profile, FI_VAR_UNEXP_MSG_QUEUE, &mut list).1, size);
    assert_eq!(list[0].tag, 2);
    let mut queues = [0_u64];
    assert_eq!(read(profile, FI_VAR_MSG_QUEUE_CNT, &mut queues), (8, 8));
    assert_eq!(queues, [1]);
    // The mock has no connections.
    let none = read(profile, FI_VAR_CONNECTION_CNT, &mut queues).0;
    assert_eq!(none, -(FI_EINVAL as isize));
    assert_eq!(c!(fi_close(profile.cast())), 0);
}

/// What a call for an event saw: event, tag, how many wait, and whether the list could be read.
static SEEN: Mutex<Vec<(u32, u64, u64, isize)>> = Mutex::new(Vec::new());

unsafe extern "C" fn see(
    profile: *mut fid_profile,
    event: *mut fi_profile_desc,
    param: *mut c_void,
    size: usize,
    context: *mut c_void,
) -> c_int {
    assert_eq!(size, size_of::<fi_cq_err_entry>());
    assert_eq!(context.addr(), 7);
    let tag = c!((*param.cast::<fi_cq_err_entry>()).tag);
    // SAFETY: all zeroes is a value.
    let mut list: [fi_cq_err_entry; 3] = unsafe { core::mem::zeroed() };
    let (listed, _) = read(profile, FI_VAR_UNEXP_MSG_QUEUE, &mut list);
    assert_eq!(c!(fi_close(profile.cast())), -FI_EBUSY);
    let seen = (c!((*event).id), tag, waiting(profile), listed);
    SEEN.lock().expect("no panic with it").push(seen);
    0
}

#[test]
fn calls_for_events_see_how_many_messages_wait_and_end_when_they_are_taken_back() {
    let world = World::new();
    let (a, b) = (
        world.end(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE),
        world.end(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE),
    );
    let to_b = a.knows(&b);
    let profile = open(b.ep);
    let register = c!((*(*profile).ops).reg_callback).expect("there is one");
    let context = without_provenance_mut(7);
    for event in [FI_EVENT_UNEXP_MSG_RECVD, FI_EVENT_UNEXP_MSG_MATCHED] {
        // Once more is once.
        for _ in 0..2 {
            assert_eq!(c!(register(profile, event, Some(see), context)), 0);
        }
    }
    let mut into = [0u8; 8];
    trecv(&b, &mut into, 9);
    for tag in [1, 9, 2] {
        tsend(&a, to_b, b"x", tag);
    }
    b.next();
    while waiting(profile) < 2 {
        poll(b.cq);
    }
    trecv(&b, &mut into, 1);
    b.next();
    let off = c!(register(
        profile,
        FI_EVENT_UNEXP_MSG_MATCHED,
        None,
        null_mut()
    ));
    assert_eq!(off, 0);
    trecv(&b, &mut into, 2);
    b.next();
    let busy = -(FI_EBUSY as isize);
    let expected = [
        (FI_EVENT_UNEXP_MSG_RECVD, 1, 1, busy),
        (FI_EVENT_UNEXP_MSG_RECVD, 2, 2, busy),
        (FI_EVENT_UNEXP_MSG_MATCHED, 1, 1, busy),
    ];
    assert_eq!(*SEEN.lock().expect("no panic with it"), expected);
    assert_eq!(c!(fi_close(profile.cast())), 0);
    tsend(&a, to_b, b"x", 3);
    trecv(&b, &mut into, 3);
    b.next();
    assert_eq!(SEEN.lock().expect("no panic with it").len(), 3);
}
