//! Round trips, duplicates that share nothing, and old layouts of which nothing behind their end is read.

use core::ffi::c_void;
use core::mem::offset_of;
use core::ptr;

use oxifabric_abi::compat::{fi_domain_attr_1_0, fi_fabric_attr_1_0, fi_info_1_0, fi_tx_attr_1_0};
use oxifabric_abi::{
    FI_ADDR_STR, FI_SOCKADDR_IN, FI_SOCKADDR_IP, FI_VERSION, fi_domain_attr, fi_fabric_attr,
    fi_info,
};
use oxifabric_types::{
    Address, AvType, Caps, EpType, Errno, Flags, Info, MrMode, Order, Progress, ResourceMgmt,
    Threading,
};

use alloc::borrow::ToOwned;

extern crate std;

use super::*;

/// An entry with a value of its own in every field that both forms have.
fn sample() -> Info {
    let mut info = Info {
        caps: Caps::from_bits_retain(1 << 60 | 2),
        mode: 3,
        addr_format: FI_SOCKADDR_IN,
        src: Some(Address::Inet("192.0.2.1:47592".parse().unwrap())),
        dest: Some(Address::Inet("192.0.2.9:1".parse().unwrap())),
        ..Info::default()
    };
    let tx = &mut info.tx;
    (tx.caps, tx.mode, tx.op_flags) = (Caps::SEND, 4, Flags::INJECT);
    (tx.msg_order, tx.comp_order) = (Order::SAS, Order::RAR);
    (
        tx.inject_size,
        tx.size,
        tx.iov_limit,
        tx.rma_iov_limit,
        tx.tclass,
    ) = (5, 6, 7, 8, 9);
    let rx = &mut info.rx;
    (rx.caps, rx.mode, rx.op_flags) = (Caps::RECV, 10, Flags::MULTI_RECV);
    (rx.msg_order, rx.comp_order) = (Order::RAS, Order::WAW);
    (rx.total_buffered_recv, rx.size, rx.iov_limit) = (11, 12, 13);
    let ep = &mut info.ep;
    (ep.kind, ep.protocol, ep.protocol_version) = (EpType::Rdm, 25, 14);
    (ep.max_msg_size, ep.msg_prefix_size, ep.mem_tag_format) = (15, 16, 17);
    (
        ep.max_order_raw_size,
        ep.max_order_war_size,
        ep.max_order_waw_size,
    ) = (18, 19, 20);
    (ep.tx_ctx_cnt, ep.rx_ctx_cnt) = (21, 22);
    let domain = &mut info.domain;
    domain.name = "eth0".to_owned();
    (domain.threading, domain.av_type) = (Threading::Completion, AvType::Table);
    (domain.control_progress, domain.data_progress) = (Progress::Auto, Progress::Manual);
    (domain.resource_mgmt, domain.mr_mode) = (ResourceMgmt::Enabled, MrMode::LOCAL);
    (
        domain.mr_key_size,
        domain.cq_data_size,
        domain.cq_cnt,
        domain.ep_cnt,
    ) = (23, 24, 25, 26);
    (domain.tx_ctx_cnt, domain.rx_ctx_cnt) = (27, 28);
    (domain.max_ep_tx_ctx, domain.max_ep_rx_ctx) = (29, 30);
    (domain.max_ep_stx_ctx, domain.max_ep_srx_ctx) = (31, 32);
    (domain.cntr_cnt, domain.mr_iov_limit, domain.max_err_data) = (33, 34, 35);
    (domain.caps, domain.mode, domain.mr_cnt, domain.tclass) = (Caps::LOCAL_COMM, 36, 37, 38);
    (domain.max_ep_auth_key, domain.max_group_id) = (39, 40);
    (domain.max_cntr_value, domain.max_err_cntr_value) = (41, 42);
    info.fabric.name = "net".to_owned();
    info.fabric.prov_name = "tcp".to_owned();
    (info.fabric.prov_version, info.fabric.api_version) = (43, 44);
    info
}

/// A C entry that is released at the end of a test.
struct Owned(*mut fi_info);

impl Owned {
    fn raw(&mut self) -> &mut fi_info {
        // SAFETY: the tests build only entries that are there.
        unsafe { self.0.as_mut() }.expect("memory")
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: the entry is ours.
        unsafe { free(self.0) }
    }
}

fn read(info: *const fi_info) -> Result<Info, Errno> {
    // SAFETY: every entry of these tests is valid.
    unsafe { from_c(info) }
}

#[test]
fn every_field_survives_the_way_to_c_and_back() {
    let entry = Owned(to_c(&sample()));
    assert_eq!(read(entry.0), Ok(sample()));
}

#[test]
fn a_list_keeps_its_order() {
    let mut second = sample();
    second.domain.name = "lo".to_owned();
    let mut list = Owned(to_c_list(&[sample(), second.clone()]));
    let next = list.raw().next;
    assert_eq!(read(next), Ok(second));
    // SAFETY: the second entry is there.
    assert!(unsafe { (*next).next }.is_null());
    assert!(to_c_list(&[] as &[Info]).is_null());
}

#[test]
fn an_empty_entry_has_all_attributes_and_no_preference() {
    // SAFETY: null asks for an empty entry.
    let mut entry = Owned(unsafe { dup(ptr::null()) });
    assert!(!entry.raw().tx_attr.is_null() && !entry.raw().fabric_attr.is_null());
    assert_eq!(read(entry.0), Ok(Info::default()));
}

#[test]
fn attributes_may_be_missing() {
    assert_eq!(read(&fi_info::ZERO), Ok(Info::default()));
    assert_eq!(read(ptr::null()), Err(Errno::INVAL));
    // SAFETY: an entry without attributes is valid.
    let mut copy = Owned(unsafe { dup(&fi_info::ZERO) });
    assert!(copy.raw().tx_attr.is_null());
}

#[test]
fn a_duplicate_shares_nothing() {
    let mut entry = Owned(to_c(&sample()));
    let mut key = [1_u8, 2, 3];
    // SAFETY: the attributes are there; the key is taken out again before the entry is released.
    let mut copy = unsafe {
        (*entry.raw().ep_attr).auth_key = key.as_mut_ptr();
        (*entry.raw().ep_attr).auth_key_size = key.len();
        let copy = Owned(dup(entry.0));
        (*entry.raw().ep_attr).auth_key = ptr::null_mut();
        (*entry.raw().ep_attr).auth_key_size = 0;
        copy
    };
    // SAFETY: both entries have all attributes and strings.
    unsafe {
        let (to, from) = (copy.raw(), entry.raw());
        assert_ne!(to.src_addr, from.src_addr);
        assert_ne!((*to.domain_attr).name, (*from.domain_attr).name);
        assert_ne!((*to.fabric_attr).prov_name, (*from.fabric_attr).prov_name);
        assert_eq!(*(*to.ep_attr).auth_key.add(2), 3);
        (*to.ep_attr).auth_key_size = 0;
    }
    drop(entry);
    assert_eq!(read(copy.0), Ok(sample()));
}

#[test]
fn a_program_may_replace_pieces_by_its_own() {
    let mut entry = Owned(to_c(&sample()));
    // SAFETY: both pieces come from the allocator of libc, as the contract of the list says.
    unsafe {
        libc::free(entry.raw().src_addr);
        entry.raw().src_addr = libc::calloc(1, 16);
        libc::free((*entry.raw().fabric_attr).prov_name.cast());
        (*entry.raw().fabric_attr).prov_name = libc::strdup(c"shm".as_ptr());
    }
    assert_eq!(read(entry.0), Err(Errno::INVAL), "family 0 is no address");
    entry.raw().src_addrlen = 0;
    let info = read(entry.0).unwrap();
    assert_eq!((info.src, info.fabric.prov_name.as_str()), (None, "shm"));
}

#[test]
fn values_that_no_enumeration_has_are_refused() {
    let mut entry = Owned(to_c(&sample()));
    // SAFETY: the attributes are there.
    unsafe { (*entry.raw().domain_attr).threading = 77 };
    assert_eq!(read(entry.0), Err(Errno::INVAL));
}

#[test]
fn addresses_have_the_bytes_of_c() {
    let parse = |bytes: &[u8], format| {
        // SAFETY: the slice is as long as it says.
        unsafe { address_from_c(bytes.as_ptr().cast(), bytes.len(), format) }
    };
    for text in ["192.0.2.1:80", "[fe80::1%7]:443"] {
        let address = Address::Inet(text.parse().unwrap());
        let (bytes, format) = address_to_c(&address);
        assert_eq!(parse(&bytes, format), Ok(Some(address.clone())));
        assert_eq!(parse(&bytes, FI_SOCKADDR_IP), Ok(Some(address)));
        assert_eq!(parse(&bytes[..bytes.len() - 1], format), Err(Errno::INVAL));
    }
    let name = Address::Name("fi_shm://1".into());
    assert_eq!(address_to_c(&name), (b"fi_shm://1\0".to_vec(), FI_ADDR_STR));
    assert_eq!(
        parse(b"fi_shm://1\0junk", FI_ADDR_STR),
        Ok(Some(name.clone()))
    );
    assert_eq!(parse(b"fi_shm://1", FI_ADDR_STR), Ok(Some(name)));
    assert_eq!(parse(b"\0", FI_ADDR_STR), Err(Errno::INVAL));
    assert_eq!(parse(b"", FI_SOCKADDR_IN), Ok(None));
}

/// Structures of the oldest layout, each followed by bytes that must not be read.
#[repr(C)]
struct Oldest {
    info: fi_info_1_0,
    after_info: [u8; 64],
    tx: fi_tx_attr_1_0,
    after_tx: [u8; 64],
    domain: fi_domain_attr_1_0,
    after_domain: [u8; 256],
    fabric: fi_fabric_attr_1_0,
    after_fabric: [u8; 64],
}

#[test]
fn nothing_behind_an_old_structure_is_read() {
    // SAFETY: all fields are integers, pointers or arrays of bytes.
    let mut old: Oldest = unsafe { core::mem::zeroed() };
    // SAFETY: the whole structure is filled, padding too; its fields are set afterwards.
    unsafe { ptr::write_bytes(&raw mut old, 0xff, 1) };
    // SAFETY: as above.
    unsafe {
        old.info = core::mem::zeroed();
        old.tx = core::mem::zeroed();
        old.domain = core::mem::zeroed();
    }
    old.fabric.fabric = ptr::null_mut();
    old.fabric.name = ptr::null_mut();
    old.fabric.prov_name = c"tcp".as_ptr().cast_mut();
    old.fabric.prov_version = 7;
    old.info.caps = 8;
    old.domain.cq_cnt = 9;
    old.tx.size = 10;
    old.info.tx_attr = &raw mut old.tx;
    old.info.domain_attr = &raw mut old.domain;
    old.info.fabric_attr = &raw mut old.fabric;
    let check = |info: *const fi_info| {
        // SAFETY: `widened` passes an entry that is valid during the call.
        let info = unsafe { info.as_ref() }.expect("an entry went in");
        assert!(info.nic.is_null() && info.rx_attr.is_null() && info.ep_attr.is_null());
        read(info)
    };
    // SAFETY: the structures have the layout of 1.0.
    let info = unsafe { widened((&raw const old.info).cast::<c_void>(), &Abi::V1_0, check) };
    let mut expected = Info {
        caps: Caps::TAGGED,
        ..Info::default()
    };
    expected.tx.size = 10;
    expected.domain.cq_cnt = 9;
    expected.fabric.prov_name = "tcp".to_owned();
    expected.fabric.prov_version = 7;
    assert_eq!(info, Ok(expected));
}

#[test]
fn every_release_has_the_layout_of_its_symbol_version() {
    let domain = |major, minor| {
        let abi = Abi::of_release(FI_VERSION(major, minor));
        abi.map_or(size_of::<fi_domain_attr>(), |abi| abi.domain)
    };
    let sizes = [(1, 4), (1, 5), (1, 8), (1, 20), (2, 0), (2, 5), (2, 7)];
    let sizes = sizes.map(|(major, minor)| domain(major, minor));
    assert!(sizes.is_sorted_by(|one, next| one < next), "{sizes:?}");
    assert_eq!(domain(2, 4), domain(2, 0));
    assert_eq!(domain(2, 6), domain(2, 5));
}

#[test]
fn a_null_entry_stays_null_in_any_layout() {
    // SAFETY: null is allowed.
    assert!(unsafe { widened(ptr::null(), &Abi::V1_3, |info| info.is_null()) });
}

#[test]
fn the_api_version_sits_in_what_was_padding() {
    assert!(offset_of!(fi_fabric_attr, api_version) < size_of::<fi_fabric_attr_1_0>());
}
