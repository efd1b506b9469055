//! Registered memory.

use core::ptr::null_mut;

use oxifabric_abi::*;
use oxifabric_fixtures::fixture::{Fixture, close};
use oxifabric_fixtures::rma_fixture::{ACCESS, BOTH, RmaFixture};
use oxifabric_fixtures::subject::MR_MODES;
use oxifabric_fixtures::{c, refused};

use crate::requirements;

/// Opens a fixture whose endpoints access memory.
fn rma_world(subject: &oxifabric_fixtures::Subject) -> Fixture {
    Fixture::with(subject, |hints| {
        hints.caps |= FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE
    })
}

/// Registers memory with a wish for a key.
fn register(fixture: &Fixture, bytes: &mut [u8], key: u64) -> Result<*mut fid_mr, i32> {
    let mut mr = null_mut();
    let access = FI_REMOTE_READ | FI_REMOTE_WRITE;
    let place = bytes.as_mut_ptr().cast();
    match c!(fi_mr_reg(
        fixture.domain,
        place,
        bytes.len(),
        access,
        0,
        key,
        0,
        &mut mr,
        null_mut()
    )) {
        0 => Ok(mr),
        code => Err(code),
    }
}

/// Returns a region of `b`'s that peers may access, with a counter of the writes that change it.
fn counted_region(subject: &oxifabric_fixtures::Subject, caps: u64) -> (RmaFixture, *mut fid_cntr) {
    let mut hints = subject.hints();
    hints.first_mut().caps |= ACCESS | FI_RMA_EVENT | caps;
    c!((*hints.first().domain_attr).mr_mode = MR_MODES | FI_MR_RMA_EVENT);
    c!((*hints.first().tx_attr).op_flags = FI_DELIVERY_COMPLETE);
    let fixture = Fixture::of(subject, subject.query(&hints));
    let needs_event = c!((*fixture.info.first().domain_attr).mr_mode) & FI_MR_RMA_EVENT != 0;
    let cntr = fixture.cntr(FI_WAIT_UNSPEC);
    let pair = fixture.pair();
    let bytes = pair.b.traffic.buffer(&[0x55; 64]);
    let (mut mr, flags) = (null_mut(), if needs_event { FI_RMA_EVENT } else { 0 });
    let registered = c!(fi_mr_reg(
        fixture.domain,
        bytes.cast(),
        64,
        BOTH,
        0,
        7,
        flags,
        &mut mr,
        null_mut()
    ));
    assert_eq!(registered, 0);
    assert_eq!(c!(fi_mr_bind(mr, cntr.cast(), FI_REMOTE_WRITE)), 0);
    if needs_event {
        assert_eq!(c!(fi_mr_enable(mr)), 0);
    }
    let base = fixture.remote(bytes);
    let rma = RmaFixture {
        pair,
        mr,
        bytes,
        len: 64,
        base,
        fixture,
    };
    (rma, cntr)
}

requirements! { "fi_mr(3)";

/// A region has a key that is not FI_KEY_NOTAVAIL.
fn a_region_has_a_key(subject) {
    let fixture = rma_world(subject);
    let mut bytes = [0; 64];
    let mr = register(&fixture, &mut bytes, 1).expect("a region");
    assert_ne!(c!(fi_mr_key(mr)), u64::MAX);
    assert_eq!(close(mr), 0);
}

/// Regions that are open at the same time have different keys.
fn keys_are_different(subject) {
    let fixture = rma_world(subject);
    let (mut one, mut other) = ([0; 64], [0; 64]);
    let first = register(&fixture, &mut one, 1).expect("a region");
    let second = register(&fixture, &mut other, 2).expect("a region");
    assert_ne!(c!(fi_mr_key(first)), c!(fi_mr_key(second)));
    assert_eq!((close(first), close(second)), (0, 0));
}

/// Where the application chooses keys, it gets the one it chose, and a second time -FI_ENOKEY.
fn chosen_keys_are_given_once(subject) {
    let fixture = rma_world(subject);
    if c!((*fixture.info.first().domain_attr).mr_mode) & FI_MR_PROV_KEY != 0 {
        return;
    }
    let (mut one, mut other) = ([0; 64], [0; 64]);
    let first = register(&fixture, &mut one, 42).expect("a region");
    assert_eq!(c!(fi_mr_key(first)), 42);
    assert_eq!(register(&fixture, &mut other, 42).err(), Some(-FI_ENOKEY));
    assert_eq!(close(first), 0);
}

/// A domain with open regions cannot be closed: -FI_EBUSY.
fn a_domain_with_regions_stays_open(subject) {
    let fixture = rma_world(subject);
    let mut bytes = [0; 64];
    let mr = register(&fixture, &mut bytes, 1).expect("a region");
    assert_eq!(close(fixture.domain), -FI_EBUSY);
    assert_eq!(close(mr), 0);
}

/// A region that is closed can be registered again.
fn regions_come_and_go(subject) {
    let fixture = rma_world(subject);
    let mut bytes = [0; 64];
    for _ in 0..10 {
        let mr = register(&fixture, &mut bytes, 1).expect("a region");
        assert_eq!(close(mr), 0);
    }
}

/// A region says that it is one.
fn a_region_has_its_class(subject) {
    let fixture = rma_world(subject);
    let mut bytes = [0; 64];
    let mr = register(&fixture, &mut bytes, 1).expect("a region");
    assert_eq!(c!((*mr).fid.fclass), FI_CLASS_MR);
    assert_eq!(close(mr), 0);
}

/// Local rights alone give peers none.
fn local_rights_are_no_remote_rights(subject) {
    let rma = RmaFixture::delivering(subject, FI_SEND | FI_RECV);
    rma.write(b"no", 0, rma.key());
    rma.refused(FI_ENOKEY);
    rma.close();
}

/// A region that may only be written is not read.
fn a_read_needs_the_right_to_read(subject) {
    let rma = RmaFixture::new(subject, FI_REMOTE_WRITE);
    let place = rma.read(8, 0, rma.key());
    rma.refused(FI_EACCES);
    assert_eq!(c!(core::slice::from_raw_parts(place, 8)), [0; 8]);
    rma.close();
}

/// A descriptor of a region is good for operations on its memory.
fn a_descriptor_is_good_for_operations(subject) {
    let rma = RmaFixture::new(subject, BOTH);
    let pair = &rma.pair;
    let place = pair.a.traffic.buffer(b"described");
    let mr = rma.fixture.register(place, 9, FI_WRITE | FI_READ | FI_SEND | FI_RECV, 99).expect("a region");
    let (desc, context) = (c!(fi_mr_desc(mr)), pair.a.traffic.context());
    let (at, key) = (rma.base, rma.key());
    pair.start(|| c!(fi_write(pair.a.ep, place.cast(), 9, desc, pair.to_b, at, key, context)));
    let _ = pair.done(&pair.a);
    let _ = rma.read(1, 0, key);
    let _ = pair.done(&pair.a);
    assert_eq!(&rma.region()[..9], b"described");
    assert_eq!(close(mr), 0);
    rma.close();
}

/// A region keeps the context that it was registered with.
fn a_region_keeps_its_context(subject) {
    let fixture = rma_world(subject);
    let (mut bytes, mut mark, mut mr) = ([0_u8; 64], 0_u8, null_mut());
    let context = (&raw mut mark).cast();
    let place = bytes.as_mut_ptr().cast();
    let code = c!(fi_mr_reg(fixture.domain, place, 64, FI_REMOTE_READ, 0, 1, 0, &mut mr, context));
    assert_eq!((code, c!((*mr).fid.context)), (0, context));
    assert_eq!(close(mr), 0);
}

/// With attributes a region is registered as with arguments.
fn a_region_may_be_described_by_attributes(subject) {
    let fixture = rma_world(subject);
    let (mut bytes, mut mark, mut mr) = ([0_u8; 64], 0_u8, null_mut());
    let iov = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: 64 };
    let attr = fi_mr_attr {
        mr_iov: &iov,
        iov_count: 1,
        access: FI_REMOTE_READ,
        requested_key: 77,
        context: (&raw mut mark).cast(),
        ..fi_mr_attr::ZERO
    };
    assert_eq!(c!(fi_mr_regattr(fixture.domain, &attr, 0, &mut mr)), 0);
    assert_eq!(c!((*mr).fid.context), (&raw mut mark).cast());
    if c!((*fixture.info.first().domain_attr).mr_mode) & FI_MR_PROV_KEY == 0 {
        assert_eq!(c!(fi_mr_key(mr)), 77);
    }
    assert_eq!(close(mr), 0);
}

/// Several buffers are one region with one key.
fn several_buffers_are_one_region(subject) {
    let fixture = rma_world(subject);
    let info = fixture.info.first();
    if c!((*info.domain_attr).mr_iov_limit) < 2 {
        return;
    }
    let offsets = fixture.remote(0x1000 as *mut u8) == 0;
    let rma = RmaFixture::with(fixture, BOTH);
    let pair = &rma.pair;
    let (one, other) = (pair.b.traffic.buffer(b"1111"), pair.b.traffic.buffer(b"2222"));
    let pieces = [
        libc::iovec { iov_base: one.cast(), iov_len: 4 },
        libc::iovec { iov_base: other.cast(), iov_len: 4 },
    ];
    let (mut mr, domain) = (null_mut(), rma.fixture.domain);
    assert_eq!(c!(fi_mr_regv(domain, pieces.as_ptr(), 2, BOTH, 0, 99, 0, &mut mr, null_mut())), 0);
    let (key, at) = (c!(fi_mr_key(mr)), if offsets { 4 } else { other as u64 });
    let (place, context) = (pair.a.traffic.buffer(b"++"), pair.a.traffic.context());
    pair.start(|| c!(fi_write(pair.a.ep, place.cast(), 2, null_mut(), pair.to_b, at + 1, key, context)));
    let _ = pair.done(&pair.a);
    let _ = rma.read(1, 0, rma.key());
    let _ = pair.done(&pair.a);
    assert_eq!(c!(core::slice::from_raw_parts(one, 4)), b"1111");
    assert_eq!(c!(core::slice::from_raw_parts(other, 4)), b"2++2");
    assert_eq!(close(mr), 0);
    rma.close();
}

/// More buffers than mr_iov_limit are no region.
fn too_many_buffers_are_refused(subject) {
    let fixture = rma_world(subject);
    let limit = c!((*fixture.info.first().domain_attr).mr_iov_limit);
    let mut bytes = [0_u8; 8];
    let piece = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: 1 };
    let (pieces, mut mr) = (vec![piece; limit + 1], null_mut());
    let code = c!(fi_mr_regv(fixture.domain, pieces.as_ptr(), limit + 1, BOTH, 0, 1, 0, &mut mr, null_mut()));
    refused!(code, FI_EINVAL);
}

/// A closed region is not accessed any more: the peer's operation fails, and the endpoint goes on.
fn a_closed_region_is_not_accessed(subject) {
    let rma = RmaFixture::delivering(subject, BOTH);
    rma.write(b"x", 0, rma.key());
    let _ = rma.pair.done(&rma.pair.a);
    let key = rma.key();
    assert_eq!(close(rma.mr), 0);
    rma.write(b"y", 0, key);
    assert_eq!(rma.pair.failed(&rma.pair.a).err, FI_ENOKEY);
    assert_eq!(rma.region()[0], b'x');
    let posted = rma.pair.b.recv(5);
    rma.pair.send(b"still");
    let _ = (rma.pair.done(&rma.pair.b), rma.pair.done(&rma.pair.a));
    assert_eq!(posted.bytes(), b"still");
    let RmaFixture { pair, fixture, .. } = rma;
    drop(pair);
    drop(fixture);
}

/// A chosen key is free again when its region is closed.
fn a_key_is_free_again(subject) {
    let fixture = rma_world(subject);
    if c!((*fixture.info.first().domain_attr).mr_mode) & FI_MR_PROV_KEY != 0 {
        return;
    }
    let (mut one, mut other) = ([0; 64], [0; 64]);
    let first = register(&fixture, &mut one, 42).expect("a region");
    assert_eq!(close(first), 0);
    let second = register(&fixture, &mut other, 42).expect("a region");
    assert_eq!(close(second), 0);
}

/// Memory may be in several regions at once, each with its rights.
fn regions_may_overlap(subject) {
    let rma = RmaFixture::delivering(subject, FI_REMOTE_READ);
    let mr = rma.fixture.register(rma.bytes, 100, FI_REMOTE_WRITE, 99).expect("a region");
    rma.write(b"no", 0, rma.key());
    rma.refused(FI_EACCES);
    rma.write(b"yes", 0, c!(fi_mr_key(mr)));
    let _ = rma.pair.done(&rma.pair.a);
    assert_eq!(&rma.region()[..3], b"yes");
    assert_eq!(close(mr), 0);
    rma.close();
}

/// Where virtual addresses are not required, the first byte of a region is at zero.
fn addresses_are_offsets_where_not_virtual(subject) {
    let mut hints = subject.hints();
    hints.first_mut().caps |= ACCESS;
    c!((*hints.first().domain_attr).mr_mode = 0);
    let Ok(info) = subject.try_query(&hints, None, 0) else {
        return;
    };
    assert_eq!(c!((*info.first().domain_attr).mr_mode) & (FI_MR_VIRT_ADDR | FI_MR_PROV_KEY), 0);
    let rma = RmaFixture::with(Fixture::of(subject, info), BOTH);
    assert_eq!((rma.base, rma.key()), (0, 7));
    rma.write(b"at zero", 0, 7);
    let _ = rma.pair.done(&rma.pair.a);
    let _ = rma.read(1, 0, 7);
    let _ = rma.pair.done(&rma.pair.a);
    assert_eq!(&rma.region()[..7], b"at zero");
    rma.close();
}

/// A raw key has the length that is told, and a buffer that is too short is told so with -FI_ETOOSMALL.
fn a_raw_key_has_its_length(subject) {
    let fixture = rma_world(subject);
    let mut bytes = [0; 64];
    let mr = register(&fixture, &mut bytes, 1).expect("a region");
    let (mut base, mut raw, mut size) = (0, [0_u8; 256], 0);
    let short = c!(fi_mr_raw_attr(mr, &mut base, raw.as_mut_ptr(), &mut size, 0));
    assert_eq!(short, -FI_ETOOSMALL);
    assert!(size > 0 && size <= raw.len());
    let needed = size;
    assert_eq!(c!(fi_mr_raw_attr(mr, &mut base, raw.as_mut_ptr(), &mut size, 0)), 0);
    assert_eq!(size, needed);
    assert_eq!(close(mr), 0);
}

/// A raw key that was mapped is a key, until it is unmapped.
fn a_raw_key_is_mapped(subject) {
    let rma = RmaFixture::new(subject, BOTH);
    let (mut base, mut raw, mut size) = (0, [0_u8; 256], 256);
    assert_eq!(c!(fi_mr_raw_attr(rma.mr, &mut base, raw.as_mut_ptr(), &mut size, 0)), 0);
    let (mut key, domain) = (0, rma.fixture.domain);
    assert_eq!(c!(fi_mr_map_raw(domain, base, raw.as_mut_ptr(), size, &mut key, 0)), 0);
    let place = rma.read(4, 0, key);
    let _ = rma.pair.done(&rma.pair.a);
    assert_eq!(c!(core::slice::from_raw_parts(place, 4)), [0x55; 4]);
    assert_eq!(c!(fi_mr_unmap_key(domain, key)), 0);
    rma.close();
}

/// A counter that is bound to a region counts the writes that change it.
fn a_region_counts_writes(subject) {
    let (rma, cntr) = counted_region(subject, 0);
    for _ in 0..3 {
        rma.write(b"w", 0, rma.key());
        let _ = rma.pair.done(&rma.pair.a);
    }
    // A read changes nothing, and shows that the writes arrived.
    let _ = rma.read(1, 0, rma.key());
    let _ = rma.pair.done(&rma.pair.a);
    assert_eq!((c!(fi_cntr_read(cntr)), c!(fi_cntr_readerr(cntr))), (3, 0));
    assert_eq!(close(cntr), -FI_EBUSY);
    rma.close_with(|| assert_eq!(close(cntr), 0));
}

/// A counter that is bound to a region counts every atomic that changes it, also those that fetch what was there.
fn a_region_counts_atomics_that_change_it(subject) {
    let (rma, cntr) = counted_region(subject, FI_ATOMIC);
    rma.fill(&[5_u64]);
    rma.update(FI_UINT64, FI_SUM, &[1_u64]);
    let _ = rma.pair.done(&rma.pair.a);
    assert_eq!(rma.fetch(FI_UINT64, FI_SUM, &[1_u64]), [6]);
    assert_eq!(rma.compare(FI_UINT64, FI_CSWAP, &[9_u64], &[7]), [7]);
    assert_eq!(rma.fetch(FI_UINT64, FI_ATOMIC_READ, &[0_u64]), [9]);
    assert_eq!((c!(fi_cntr_read(cntr)), c!(fi_cntr_readerr(cntr))), (3, 0));
    rma.close_with(|| assert_eq!(close(cntr), 0));
}

/// A refresh is done, or -FI_ENOSYS where it is not offered; the region stays as it was.
fn a_refresh_leaves_the_region(subject) {
    let rma = RmaFixture::new(subject, BOTH);
    let code = c!(fi_mr_refresh(rma.mr, core::ptr::null(), 0, 0));
    assert!(code == 0 || code == -FI_ENOSYS, "{code}");
    let place = rma.read(4, 0, rma.key());
    let _ = rma.pair.done(&rma.pair.a);
    assert_eq!(c!(core::slice::from_raw_parts(place, 4)), [0x55; 4]);
    rma.close();
}

/// A flag that does not exist is refused with -FI_EBADFLAGS.
fn an_unknown_flag_is_refused(subject) {
    let fixture = rma_world(subject);
    let (mut bytes, mut mr) = ([0_u8; 64], null_mut());
    let place = bytes.as_mut_ptr().cast();
    let code = c!(fi_mr_reg(fixture.domain, place, 64, BOTH, 0, 1, 1 << 3, &mut mr, null_mut()));
    assert_eq!(code, -FI_EBADFLAGS);
}

/// Bits of the access that say nothing of memory are ignored: programs give all capabilities that they asked for.
fn more_than_an_access_may_be_asked_for(subject) {
    let fixture = rma_world(subject);
    let (mut bytes, mut mr) = ([0_u8; 64], null_mut());
    let access = BOTH | FI_RMA | FI_MULTI_RECV;
    let place = bytes.as_mut_ptr().cast();
    assert_eq!(c!(fi_mr_reg(fixture.domain, place, 64, access, 0, 1, 0, &mut mr, null_mut())), 0);
    assert_eq!(close(mr), 0);
}

/// Memory of devices that the provider does not know is refused.
fn memory_of_unknown_devices_is_refused(subject) {
    let fixture = rma_world(subject);
    let (mut bytes, mut mr) = ([0_u8; 64], null_mut());
    let iov = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: 64 };
    let attr = fi_mr_attr { mr_iov: &iov, iov_count: 1, access: BOTH, iface: 77, ..fi_mr_attr::ZERO };
    refused!(c!(fi_mr_regattr(fixture.domain, &attr, 0, &mut mr)), FI_ENOSYS);
}
}
