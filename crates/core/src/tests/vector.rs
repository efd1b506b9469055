//! Address vectors through their table.

use core::ffi::{CStr, c_void};
use core::ptr::null_mut;

use oxifabric_abi::*;
use oxifabric_types::{Address, AvType};

use super::world::{World, c, close, nothing};
use crate::info::address_to_c;

fn inet_world() -> World {
    World::with(FI_VERSION(2, 6), |info| info.addr_format = FI_SOCKADDR)
}

fn bytes(address: &str) -> Vec<u8> {
    let at = address.parse().expect("a socket address");
    address_to_c(&Address::Inet(at)).0
}

fn insert(av: *mut fid_av, addresses: &[u8], into: &mut [fi_addr_t]) -> i32 {
    let at = addresses.as_ptr().cast();
    c!(fi_av_insert(
        av,
        at,
        into.len(),
        into.as_mut_ptr(),
        0,
        null_mut()
    ))
}

#[test]
fn types_are_those_of_the_domain() {
    let world = World::with(FI_VERSION(2, 6), |info| {
        info.domain.av_type = AvType::Table;
    });
    let open = |type_| {
        let mut attr = fi_av_attr {
            type_,
            ..fi_av_attr::ZERO
        };
        let mut av = null_mut();
        let opened = c!(fi_av_open(world.domain, &mut attr, &mut av, null_mut()));
        if opened == 0 {
            assert_eq!(close(av), 0);
        }
        (opened, attr.type_)
    };
    assert_eq!(open(FI_AV_UNSPEC), (0, FI_AV_TABLE));
    assert_eq!(open(FI_AV_TABLE), (0, FI_AV_TABLE));
    assert_eq!(open(FI_AV_MAP), (0, FI_AV_TABLE));
    assert_eq!(open(9).0, -FI_EINVAL);
}

#[test]
fn a_domain_of_maps_has_no_tables() {
    let world = World::with(FI_VERSION(2, 6), |info| info.domain.av_type = AvType::Map);
    let mut attr = fi_av_attr {
        type_: FI_AV_TABLE,
        ..fi_av_attr::ZERO
    };
    let mut av = null_mut();
    let opened = c!(fi_av_open(world.domain, &mut attr, &mut av, null_mut()));
    assert_eq!((opened, attr.type_), (-FI_EINVAL, FI_AV_TABLE));
}

#[test]
fn names_follow_each_other() {
    let world = World::new();
    let av = world.av(0);
    let mut at = [9; 3];
    assert_eq!(insert(av, b"one\0two\0one\0", &mut at), 3);
    assert_eq!(at, [0, 1, 0]);
    let (mut name, mut len) = ([0u8; 2], 2);
    assert_eq!(
        c!(fi_av_lookup(av, 1, name.as_mut_ptr().cast(), &mut len)),
        0
    );
    assert_eq!((&name, len), (b"tw", 4));
    assert_eq!(
        c!(fi_av_lookup(av, 2, name.as_mut_ptr().cast(), &mut len)),
        -FI_EINVAL
    );
    assert_eq!(close(av), 0);
}

#[test]
fn socket_addresses_of_both_families_mix() {
    let world = inet_world();
    let av = world.av(0);
    let list = [bytes("127.0.0.1:5"), bytes("[::1]:6"), bytes("10.0.0.1:7")].concat();
    let mut at = [9; 3];
    assert_eq!(insert(av, &list, &mut at), 3);
    let (mut found, mut len) = ([0u8; 32], 32);
    assert_eq!(
        c!(fi_av_lookup(av, 1, found.as_mut_ptr().cast(), &mut len)),
        0
    );
    assert_eq!(&found[..len], bytes("[::1]:6"));
    assert_eq!(close(av), 0);
}

#[test]
fn bad_addresses_are_counted_out_and_named() {
    let world = inet_world();
    let av = world.av(0);
    let list = [bytes("127.0.0.1:5"), vec![0; 16], bytes("127.0.0.1:0")].concat();
    let mut at = [9; 3];
    assert_eq!(insert(av, &list, &mut at), 1);
    assert_eq!(at, [0, FI_ADDR_NOTAVAIL, FI_ADDR_NOTAVAIL]);
    let mut errors = [-1; 3];
    let flagged = c!(fi_av_insert(
        av,
        list.as_ptr().cast(),
        3,
        null_mut(),
        FI_SYNC_ERR | FI_MORE,
        errors.as_mut_ptr().cast()
    ));
    assert_eq!(
        (flagged, errors),
        (1, [0, FI_EADDRNOTAVAIL, FI_EADDRNOTAVAIL])
    );
    assert_eq!(close(av), 0);
}

#[test]
fn flags_and_nulls_are_checked() {
    let world = World::new();
    let av = world.av(0);
    let name = c"one".as_ptr().cast();
    let insert =
        |addr: *const c_void, flags| c!(fi_av_insert(av, addr, 1, null_mut(), flags, null_mut()));
    assert_eq!(insert(name, FI_AUTH_KEY), -FI_EBADFLAGS);
    assert_eq!(insert(name, FI_AV_USER_ID), -FI_EINVAL);
    assert_eq!(insert(name, FI_SYNC_ERR), -FI_EINVAL);
    assert_eq!(insert(nothing(), 0), -FI_EINVAL);
    assert_eq!(insert(name, 0), 1);
    let mut at = [0, 1];
    assert_eq!(c!(fi_av_remove(av, at.as_mut_ptr(), 2, 1)), -FI_EINVAL);
    assert_eq!(c!(fi_av_remove(av, at.as_mut_ptr(), 2, 0)), -FI_EINVAL);
    assert_eq!(
        c!(fi_av_remove(av, at.as_mut_ptr(), 1, 0)),
        -FI_EINVAL,
        "the valid one was removed"
    );
    assert_eq!(close(av), 0);
}

#[test]
fn addresses_are_spelled_as_upstream_does() {
    let world = inet_world();
    let av = world.av(0);
    let spell = |address: &[u8], room: usize| {
        let (mut text, mut len) = ([0xffu8; 64], room);
        let spelled = c!(fi_av_straddr(
            av,
            address.as_ptr().cast(),
            text.as_mut_ptr().cast(),
            &mut len
        ));
        assert_eq!(spelled, text.as_ptr().cast());
        let text = CStr::from_bytes_until_nul(&text).expect("it is closed");
        (text.to_str().unwrap().to_owned(), len)
    };
    let v4 = bytes("127.0.0.1:5");
    assert_eq!(spell(&v4, 64), ("fi_sockaddr_in://127.0.0.1:5".into(), 29));
    assert_eq!(spell(&v4, 3), ("fi".into(), 29));
    assert_eq!(spell(&bytes("[::1]:5"), 64).0, "fi_sockaddr_in6://[::1]:5");
    assert_eq!(close(av), 0);
}

#[test]
fn services_are_resolved_by_the_provider() {
    let world = World::new();
    let av = world.av(0);
    let mut at = [9u64; 2];
    let mut insert = |node: &CStr, count| {
        let node = node.as_ptr();
        let none = core::ptr::null();
        let into = at.as_mut_ptr();
        c!(fi_av_insertsym(
            av,
            node,
            count,
            none,
            1,
            into,
            0,
            null_mut()
        ))
    };
    assert_eq!(insert(c"node1", 2), 2);
    assert_eq!(insert(c"nowhere", 1), -FI_ENODATA);
    assert_eq!(insert(c"nowhere", 2), -FI_EINVAL);
    let service = c!(fi_av_insertsvc(
        av,
        c"node2".as_ptr(),
        core::ptr::null(),
        &mut at[0],
        0,
        null_mut()
    ));
    assert_eq!((service, at), (1, [1, 1]));
    assert_eq!(
        c!(fi_av_insertsvc(
            av,
            core::ptr::null(),
            core::ptr::null(),
            null_mut(),
            0,
            null_mut()
        )),
        -FI_EINVAL
    );
    assert_eq!(close(av), 0);
}

#[test]
fn asynchronous_insertions_end_with_events() {
    let world = inet_world();
    let av = world.av(FI_EVENT);
    let list = [bytes("127.0.0.1:5"), vec![0; 16]].concat();
    let context = 3 as *mut c_void;
    let insert = || {
        let list = list.as_ptr().cast();
        c!(fi_av_insert(av, list, 2, null_mut(), 0, context))
    };
    assert_eq!(insert(), -FI_ENOEQ);
    let eq = world.eq(FI_WAIT_NONE);
    assert_eq!(c!(fi_av_bind(av, eq.cast(), 0)), 0);
    assert_eq!(insert(), 0);
    let mut error = fi_eq_err_entry::ZERO;
    assert!(c!(fi_eq_readerr(eq, &mut error, 0)) > 0);
    assert_eq!((error.err, error.data), (FI_EADDRNOTAVAIL, 1));
    assert_eq!((error.fid, error.context), (av.cast(), context));
    let (mut event, mut entry) = (0, fi_eq_entry::ZERO);
    let size = size_of::<fi_eq_entry>();
    let read = c!(fi_eq_read(eq, &mut event, (&raw mut entry).cast(), size, 0));
    assert_eq!((read, event), (size as isize, FI_AV_COMPLETE));
    assert_eq!((entry.data, entry.context), (1, context));
    assert_eq!(close(eq), -FI_EBUSY);
    assert_eq!((close(av), close(eq)), (0, 0));
}
