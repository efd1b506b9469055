//! Memory regions and event queues through their tables.

use core::ffi::c_void;
use core::mem::ManuallyDrop;
use core::ptr::null_mut;

use oxifabric_abi::*;
use oxifabric_types::{Info, MrMode};

use super::world::{World, c, close};

fn register(world: &World, key: u64, access: u64) -> Result<*mut fid_mr, i32> {
    let memory = [0u8; 16];
    let mut mr = null_mut();
    let registered = c!(fi_mr_reg(
        world.domain,
        memory.as_ptr().cast(),
        16,
        access,
        0,
        key,
        0,
        &mut mr,
        null_mut()
    ));
    if registered == 0 {
        Ok(mr)
    } else {
        Err(registered)
    }
}

#[test]
fn requested_keys_are_given_once() {
    let world = World::new();
    let mr = register(&world, 7, FI_REMOTE_READ).expect("the key is free");
    assert_eq!(c!(fi_mr_key(mr)), 7);
    assert_eq!(c!(fi_mr_desc(mr)), mr.cast());
    assert_eq!(register(&world, 7, FI_REMOTE_WRITE), Err(-FI_ENOKEY));
    // What peers may not access needs no key, so it takes none.
    let local = register(&world, 7, FI_SEND).expect("no key is needed");
    assert_eq!(c!(fi_mr_key(local)), FI_KEY_NOTAVAIL);
    assert_eq!(close(local), 0);
    assert_eq!(close(world.domain), -FI_EBUSY);
    assert_eq!(c!(fi_mr_enable(mr)), 0);
    assert_eq!(close(mr), 0);
    let again = register(&world, 7, FI_REMOTE_READ).expect("the key is free again");
    assert_eq!(close(again), 0);
}

#[test]
fn the_provider_chooses_keys_if_it_may() {
    let world = World::with(FI_VERSION(2, 6), |info| {
        info.domain.mr_mode = MrMode::PROV_KEY;
    });
    let any = || register(&world, 7, FI_REMOTE_READ);
    let (a, b) = (any(), any());
    let (a, b) = (a.expect("a key is free"), b.expect("a key is free"));
    assert_ne!(c!(fi_mr_key(a)), c!(fi_mr_key(b)));
    assert_eq!((close(a), close(b)), (0, 0));
}

#[test]
fn registrations_are_checked() {
    let world = World::new();
    let mut mr = null_mut();
    let none = core::ptr::null();
    let list = c!(fi_mr_regv(
        world.domain,
        none,
        1,
        FI_SEND,
        0,
        1,
        0,
        &mut mr,
        null_mut()
    ));
    assert_eq!(list, -FI_EINVAL);
    let attr = fi_mr_attr::ZERO;
    let dmabuf = c!(fi_mr_regattr(world.domain, &attr, FI_MR_DMABUF, &mut mr));
    assert_eq!(dmabuf, -FI_EOPNOTSUPP);
}

#[test]
fn counters_are_bound_to_regions() {
    let world = World::new();
    let (mr, cntr) = (
        register(&world, 1, FI_REMOTE_WRITE).expect("the key is free"),
        world.cntr(FI_WAIT_NONE),
    );
    assert_eq!(c!(fi_mr_bind(mr, cntr.cast(), FI_REMOTE_WRITE)), 0);
    assert_eq!(c!(fi_mr_bind(mr, cntr.cast(), FI_SEND)), -FI_EBADFLAGS);
    assert_eq!(c!(fi_mr_bind(mr, null_mut(), 0)), -FI_EINVAL);
    assert_eq!(close(cntr), -FI_EBUSY);
    assert_eq!((close(mr), close(cntr)), (0, 0));
}

#[test]
fn registrations_are_reported_to_the_domains_queue() {
    let mut world = ManuallyDrop::new(World::new());
    let eq = world.eq(FI_WAIT_NONE);
    assert_eq!(c!(fi_domain_bind(world.domain, eq.cast(), FI_REG_MR)), 0);
    let mr = register(&world, 1, FI_SEND).expect("the key is free");
    let (mut event, mut entry) = (0, fi_eq_entry::ZERO);
    let into = (&raw mut entry).cast();
    assert!(c!(fi_eq_read(eq, &mut event, into, 64, 0)) > 0);
    assert_eq!((event, entry.fid), (FI_MR_COMPLETE, mr.cast()));
    assert_eq!(close(mr), 0);
    assert_eq!(close(eq), -FI_EBUSY);
    assert_eq!(close(world.domain), 0);
    assert_eq!((close(eq), close(world.fabric)), (0, 0));
    world.info = Info::default();
}

#[test]
fn events_are_peeked_at_and_taken() {
    let world = World::new();
    let eq = world.eq(FI_WAIT_NONE);
    let entry = fi_eq_entry {
        context: 4 as *mut c_void,
        ..fi_eq_entry::ZERO
    };
    let size = size_of::<fi_eq_entry>();
    let written = c!(fi_eq_write(
        eq,
        FI_NOTIFY,
        (&raw const entry).cast(),
        size,
        0
    ));
    assert_eq!(written, size as isize);
    for (flags, expected) in [(FI_PEEK, size as isize), (0, size as isize), (0, -11)] {
        let (mut event, mut read) = (9, fi_eq_entry::ZERO);
        let into = (&raw mut read).cast();
        let result = c!(fi_eq_read(eq, &mut event, into, size, flags));
        assert_eq!(result, expected);
        if result > 0 {
            assert_eq!((event, read.context), (FI_NOTIFY, entry.context));
        }
    }
    assert_eq!(close(eq), 0);
}

#[test]
fn only_writable_queues_are_written() {
    let world = World::new();
    let mut attr = fi_eq_attr::ZERO;
    let mut eq = null_mut();
    let opened = c!(fi_eq_open(world.fabric, &mut attr, &mut eq, null_mut()));
    assert_eq!(opened, 0);
    let bytes = b"x".as_ptr().cast();
    let written = c!(fi_eq_write(eq, FI_NOTIFY, bytes, 1, 0));
    assert_eq!(written, -(FI_EINVAL as isize));
    assert_eq!(close(eq), 0);
}
