//! What an endpoint lets be watched: fi_profile(3).

use core::mem::offset_of;
use core::ptr::null_mut;

use oxifabric_abi::*;

use super::world::{World, c};

/// `fi_profile_open` of the header.
fn open(ep: *mut fid_ep) -> *mut fid_profile {
    let mut ops = null_mut();
    let name = c"fi_profile_ops".as_ptr();
    assert_eq!(c!(fi_open_ops(ep.cast(), name, 0, &mut ops, null_mut())), 0);
    ops.wrapping_byte_sub(offset_of!(fid_profile, ops)).cast()
}

#[test]
fn a_profile_counts_messages_that_nobody_waits_for() {
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
    assert_eq!(number, 1);
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
