//! What becomes of regions that are bound, enabled, divided, refreshed and closed: fi_mr(3).

use core::ptr::null_mut;

use libc::iovec;
use oxifabric_abi::*;
use oxifabric_types::{Caps, Info, MrMode};

use super::world::{End, World, c, close};

const KEY: u64 = 7;

/// A world whose endpoints access each other's memory.
fn world(change: impl FnOnce(&mut Info)) -> World {
    World::with(FI_VERSION(2, 6), |info| {
        info.caps |= Caps::RMA | Caps::READ | Caps::WRITE;
        info.caps |= Caps::REMOTE_READ | Caps::REMOTE_WRITE;
        change(info);
    })
}

/// Registers memory with these flags.
fn register(
    world: &World,
    memory: &mut [u8],
    key: u64,
    flags: u64,
    base: *const fid_mr,
) -> Result<*mut fid_mr, i32> {
    let piece = iovec {
        iov_base: memory.as_mut_ptr().cast(),
        iov_len: memory.len(),
    };
    let attr = fi_mr_attr {
        mr_iov: &piece,
        iov_count: 1,
        access: FI_REMOTE_READ | FI_REMOTE_WRITE,
        requested_key: key,
        base_mr: base,
        ..fi_mr_attr::ZERO
    };
    let mut mr = null_mut();
    match c!(fi_mr_regattr(world.domain, &attr, flags, &mut mr)) {
        0 => Ok(mr),
        failed => Err(failed),
    }
}

/// Writes one byte to each place; returns how it ended.
fn write(a: &End, b: &End, places: &[(u64, u64)]) -> Result<(), i32> {
    let mut bytes = *b"xyzu";
    let piece = iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: places.len(),
    };
    let targets: Vec<_> = places
        .iter()
        .map(|&(addr, key)| fi_rma_iov { addr, len: 1, key })
        .collect();
    let msg = fi_msg_rma {
        msg_iov: &piece,
        iov_count: 1,
        addr: 0,
        rma_iov: targets.as_ptr(),
        rma_iov_count: targets.len(),
        ..fi_msg_rma::ZERO
    };
    assert_eq!(c!(fi_writemsg(a.ep, &msg, FI_DELIVERY_COMPLETE)), 0);
    let _ = b.read();
    match a.read() {
        Ok(_) => Ok(()),
        Err(_) => Err(a.error().err),
    }
}

fn ends(world: &World) -> (End, End) {
    let a = world.end(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
    let b = world.end(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
    assert_eq!(a.knows(&b), 0);
    (a, b)
}

#[test]
fn a_region_for_counters_is_disabled_until_it_is_enabled() {
    let world = world(|info| info.domain.mr_mode = MrMode::RMA_EVENT);
    let (a, b) = ends(&world);
    let mut memory = [0; 4];
    let mr = register(&world, &mut memory, KEY, FI_RMA_EVENT, null_mut()).expect("a free key");
    let cntr = world.cntr(FI_WAIT_NONE);
    assert_eq!(write(&a, &b, &[(0, KEY)]), Err(FI_EACCES));
    assert_eq!(c!(fi_mr_bind(mr, cntr.cast(), FI_REMOTE_WRITE)), 0);
    assert_eq!(c!(fi_mr_enable(mr)), 0);
    assert_eq!(write(&a, &b, &[(0, KEY)]), Ok(()));
    assert_eq!((c!(fi_cntr_read(cntr)), memory[0]), (1, b'x'));
    let late = c!(fi_mr_bind(mr, cntr.cast(), FI_REMOTE_READ));
    assert_eq!(late, -FI_EOPBADSTATE);
    assert_eq!((close(mr), close(cntr)), (0, 0));
}

#[test]
fn a_region_of_an_endpoint_is_bound_before_it_is_enabled() {
    let world = world(|info| info.domain.mr_mode = MrMode::ENDPOINT);
    let (a, b) = ends(&world);
    let mut memory = [0; 4];
    let mr = register(&world, &mut memory, KEY, 0, null_mut()).expect("a free key");
    assert_eq!(c!(fi_mr_enable(mr)), -FI_EINVAL);
    assert_eq!(c!(fi_mr_bind(mr, b.ep.cast(), FI_SEND)), -FI_EBADFLAGS);
    assert_eq!(c!(fi_mr_bind(mr, b.ep.cast(), 0)), 0);
    assert_eq!(write(&a, &b, &[(0, KEY)]), Err(FI_EACCES));
    assert_eq!(c!(fi_mr_enable(mr)), 0);
    assert_eq!(write(&a, &b, &[(0, KEY)]), Ok(()));
    assert_eq!(close(mr), 0);
    assert_eq!(write(&a, &b, &[(0, KEY)]), Err(FI_ENOKEY));
}

#[test]
fn a_counter_of_a_region_drives_the_endpoints() {
    let world = world(|_| {});
    let (a, b) = ends(&world);
    let mut memory = [0; 4];
    let mr = register(&world, &mut memory, KEY, 0, null_mut()).expect("a free key");
    let cntr = world.cntr(FI_WAIT_UNSPEC);
    assert_eq!(c!(fi_mr_bind(mr, cntr.cast(), FI_REMOTE_WRITE)), 0);
    let bytes = b"x".as_ptr().cast();
    assert_eq!(c!(fi_inject_write(a.ep, bytes, 1, 0, 2, KEY)), 0);
    assert_eq!(c!(fi_cntr_wait(cntr, 1, 60_000)), 0);
    assert_eq!(memory[2], b'x');
    // The endpoints forget the counter with its last region.
    assert_eq!((close(mr), close(cntr)), (0, 0));
    drop((a, b));
}

#[test]
fn an_access_of_several_regions_counts_on_each_once() {
    let world = world(|_| {});
    let (a, b) = ends(&world);
    let (mut first, mut second) = ([0; 4], [0; 4]);
    let one = register(&world, &mut first, 1, 0, null_mut()).expect("a free key");
    let two = register(&world, &mut second, 2, 0, null_mut()).expect("a free key");
    let cntrs = [world.cntr(FI_WAIT_NONE), world.cntr(FI_WAIT_NONE)];
    for (mr, cntr) in [one, two].into_iter().zip(cntrs) {
        assert_eq!(c!(fi_mr_bind(mr, cntr.cast(), FI_REMOTE_WRITE)), 0);
    }
    let places = [(0, 1), (1, 2), (2, 1)];
    assert_eq!(write(&a, &b, &places), Ok(()));
    assert_eq!((&first, &second), (b"x\0z\0", b"\0y\0\0"));
    assert_eq!(cntrs.map(|cntr| c!(fi_cntr_read(cntr))), [1, 1]);
    assert_eq!((close(one), close(two)), (0, 0));
    assert_eq!(cntrs.map(close), [0, 0]);
}

#[test]
fn a_part_of_a_region_has_its_own_key_and_keeps_the_whole_open() {
    let world = world(|_| {});
    let (a, b) = ends(&world);
    let (mut memory, mut other) = ([0; 8], [0; 8]);
    let base = register(&world, &mut memory, 1, 0, null_mut()).expect("a free key");
    let part = register(&world, &mut memory[4..], 2, 0, base).expect("a free key");
    assert_eq!(write(&a, &b, &[(0, 2)]), Ok(()));
    assert_eq!(write(&a, &b, &[(4, 2)]), Err(FI_EACCES));
    assert_eq!(memory[4], b'x');
    let outside = register(&world, &mut other, 3, 0, base);
    assert_eq!(outside, Err(-FI_EINVAL));
    assert_eq!(close(base), -FI_EBUSY);
    assert_eq!((close(part), close(base)), (0, 0));
}

#[test]
fn a_region_for_a_single_use_is_used_once() {
    let world = world(|_| {});
    let (a, b) = ends(&world);
    let mut memory = [0; 4];
    let flags = FI_MR_SINGLE_USE;
    let mr = register(&world, &mut memory, KEY, flags, null_mut()).expect("a free key");
    assert_eq!(write(&a, &b, &[(0, KEY)]), Ok(()));
    assert_eq!(write(&a, &b, &[(1, KEY)]), Err(FI_EACCES));
    assert_eq!(memory, *b"x\0\0\0");
    assert_eq!(close(mr), 0);
}

#[test]
fn raw_keys_travel_as_bytes() {
    let world = world(|info| info.domain.mr_mode = MrMode::RAW | MrMode::VIRT_ADDR);
    let mut memory = [0; 4];
    let mr = register(&world, &mut memory, KEY, 0, null_mut()).expect("a free key");
    assert_eq!(c!(fi_mr_key(mr)), FI_KEY_NOTAVAIL);
    let (mut base, mut bytes, mut len) = (0, [0u8; 8], 3);
    let short = c!(fi_mr_raw_attr(
        mr,
        &mut base,
        bytes.as_mut_ptr(),
        &mut len,
        0
    ));
    assert_eq!((short, len), (-FI_ETOOSMALL, 8));
    let long = c!(fi_mr_raw_attr(
        mr,
        &mut base,
        bytes.as_mut_ptr(),
        &mut len,
        0
    ));
    assert_eq!((long, base), (0, memory.as_ptr().addr() as u64));
    let (domain, mut key) = (world.domain, 0);
    let map = |len, key| {
        c!(fi_mr_map_raw(
            domain,
            base,
            bytes.as_ptr().cast_mut(),
            len,
            key,
            0
        ))
    };
    assert_eq!(map(7, &mut key), -FI_EINVAL);
    assert_eq!((map(8, &mut key), key), (0, KEY));
    assert_eq!(c!(fi_mr_unmap_key(domain, key)), 0);
    assert_eq!(close(mr), 0);
}

#[test]
fn refreshing_stays_within_the_region() {
    let world = world(|_| {});
    let mut memory = [0; 4];
    let mr = register(&world, &mut memory, KEY, 0, null_mut()).expect("a free key");
    let mut piece = iovec {
        iov_base: memory.as_mut_ptr().cast(),
        iov_len: 4,
    };
    assert_eq!(c!(fi_mr_refresh(mr, &piece, 1, 0)), 0);
    assert_eq!(c!(fi_mr_refresh(mr, core::ptr::null(), 0, 0)), 0);
    piece.iov_len = 5;
    assert_eq!(c!(fi_mr_refresh(mr, &piece, 1, 0)), -FI_EINVAL);
    assert_eq!(close(mr), 0);
}

#[test]
fn attributes_that_are_not_served_are_refused() {
    let world = world(|_| {});
    let mut memory = [0; 4];
    let mut refused = |flags| register(&world, &mut memory, KEY, flags, null_mut());
    assert_eq!(refused(FI_RMA_PMEM), Err(-FI_EBADFLAGS));
    assert_eq!(refused(FI_HMEM_DEVICE_ONLY), Err(-FI_EOPNOTSUPP));
    let piece = iovec {
        iov_base: memory.as_mut_ptr().cast(),
        iov_len: 4,
    };
    let attr = fi_mr_attr {
        mr_iov: &piece,
        iov_count: 1,
        ..fi_mr_attr::ZERO
    };
    let offset = fi_mr_attr { offset: 1, ..attr };
    let cuda = fi_mr_attr {
        iface: FI_HMEM_CUDA,
        ..attr
    };
    let guarded = fi_mr_attr {
        auth_key_size: 1,
        ..attr
    };
    let expected = [-FI_EINVAL, -FI_ENOSYS, -FI_EOPNOTSUPP];
    for (attr, errno) in [offset, cuda, guarded].iter().zip(expected) {
        let mut mr = null_mut();
        assert_eq!(c!(fi_mr_regattr(world.domain, attr, 0, &mut mr)), errno);
    }
}
