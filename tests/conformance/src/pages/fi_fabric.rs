//! Fabrics, and values in text.

use core::ffi::{CStr, c_char, c_void};
use core::ptr::null_mut;

use oxifabric_abi::*;
use oxifabric_fixtures::fixture::{Fixture, close};
use oxifabric_fixtures::{Subject, c, refused};

use crate::requirements;

/// Returns what fi_tostr_r makes of a value.
fn text<T>(subject: &Subject, value: &T, kind: fi_type) -> String {
    let mut room = [b'#' as c_char; 8192];
    let data = core::ptr::from_ref(value).cast::<c_void>();
    let said = c!((subject.library.tostr_r)(
        room.as_mut_ptr(),
        room.len(),
        data,
        kind
    ));
    assert_eq!(said, room.as_mut_ptr());
    c!(CStr::from_ptr(said)).to_string_lossy().into_owned()
}

requirements! { "fi_fabric(3)";

/// A fabric says that it is one, and keeps its context.
fn a_fabric_has_its_class(subject) {
    let info = subject.query(&subject.hints());
    let (mut fabric, mut mark) = (null_mut(), 0_u8);
    let context = (&raw mut mark).cast();
    let attr = info.first().fabric_attr;
    assert_eq!(c!((subject.library.fabric)(attr, &mut fabric, context)), 0);
    assert_eq!(c!(((*fabric).fid.fclass, (*fabric).fid.context)), (FI_CLASS_FABRIC, context));
    assert_eq!(close(fabric), 0);
}

/// A fabric that no provider has is not opened.
fn an_unknown_fabric_is_refused(subject) {
    let info = subject.query(&subject.hints());
    let mut attr = c!(*info.first().fabric_attr);
    attr.prov_name = c"no provider".as_ptr().cast_mut();
    let mut fabric = null_mut();
    refused!(c!((subject.library.fabric)(&mut attr, &mut fabric, null_mut())), FI_ENODEV);
}

/// A fabric may be opened several times.
fn a_fabric_is_opened_again(subject) {
    let fixture = Fixture::new(subject);
    let mut fabric = null_mut();
    let attr = fixture.info.first().fabric_attr;
    assert_eq!(c!((subject.library.fabric)(attr, &mut fabric, null_mut())), 0);
    assert_eq!(close(fabric), 0);
}

/// The objects of a fabric keep it open: -FI_EBUSY.
fn a_fabric_with_queues_stays_open(subject) {
    let fixture = Fixture::new(subject);
    let eq = fixture.eq();
    let (domain, fabric) = fixture.into_handles();
    assert_eq!((close(domain), close(fabric)), (0, -FI_EBUSY));
    assert_eq!((close(eq), close(fabric)), (0, 0));
}

/// Capabilities are spelled by their names.
fn capabilities_are_spelled(subject) {
    let said = text(subject, &(FI_MSG | FI_RMA | FI_TAGGED), FI_TYPE_CAPS);
    for name in ["FI_MSG", "FI_RMA", "FI_TAGGED"] {
        assert!(said.contains(name), "{said}");
    }
    assert!(!said.contains("FI_ATOMIC"), "{said}");
}

/// Values of enumerations are spelled by their names.
fn enumerations_are_spelled(subject) {
    assert_eq!(text(subject, &FI_EP_RDM, FI_TYPE_EP_TYPE), "FI_EP_RDM");
    assert_eq!(text(subject, &FI_AV_TABLE, FI_TYPE_AV_TYPE), "FI_AV_TABLE");
    assert_eq!(text(subject, &FI_THREAD_SAFE, FI_TYPE_THREADING), "FI_THREAD_SAFE");
    assert_eq!(text(subject, &FI_PROGRESS_AUTO, FI_TYPE_PROGRESS), "FI_PROGRESS_AUTO");
    assert_eq!(text(subject, &FI_UINT64, FI_TYPE_ATOMIC_TYPE), "FI_UINT64");
    assert_eq!(text(subject, &FI_CSWAP_GE, FI_TYPE_ATOMIC_OP), "FI_CSWAP_GE");
    assert_eq!(text(subject, &FI_CONNREQ, FI_TYPE_EQ_EVENT), "FI_CONNREQ");
    assert_eq!(text(subject, &FI_ADDR_STR, FI_TYPE_ADDR_FORMAT), "FI_ADDR_STR");
    assert_eq!(text(subject, &FI_CQ_FORMAT_TAGGED, FI_TYPE_CQ_FORMAT), "FI_CQ_FORMAT_TAGGED");
    assert_eq!(text(subject, &FI_WAIT_FD, FI_TYPE_WAIT_OBJ), "FI_WAIT_FD");
    assert_eq!(text(subject, &FI_ALLREDUCE, FI_TYPE_COLLECTIVE_OP), "FI_ALLREDUCE");
}

/// Flags of other kinds are spelled by their names.
fn other_flags_are_spelled(subject) {
    let said = text(subject, &(FI_INJECT | FI_COMPLETION), FI_TYPE_OP_FLAGS);
    assert!(said.contains("FI_INJECT") && said.contains("FI_COMPLETION"), "{said}");
    let said = text(subject, &(FI_MR_VIRT_ADDR | FI_MR_PROV_KEY), FI_TYPE_MR_MODE);
    assert!(said.contains("FI_MR_VIRT_ADDR") && said.contains("FI_MR_PROV_KEY"), "{said}");
    let said = text(subject, &(FI_SEND | FI_TAGGED), FI_TYPE_CQ_EVENT_FLAGS);
    assert!(said.contains("FI_SEND") && said.contains("FI_TAGGED"), "{said}");
    let said = text(subject, &(FI_ORDER_SAS | FI_ORDER_RAW), FI_TYPE_MSG_ORDER);
    assert!(said.contains("FI_ORDER_SAS") && said.contains("FI_ORDER_RAW"), "{said}");
    let said = text(subject, &FI_CONTEXT2, FI_TYPE_MODE);
    assert!(said.contains("FI_CONTEXT2"), "{said}");
}

/// A description is spelled with all its parts.
fn a_description_is_spelled(subject) {
    let info = subject.query(&subject.hints());
    let said = text(subject, info.first(), FI_TYPE_INFO);
    for part in ["fi_info", "fi_tx_attr", "fi_rx_attr", "fi_ep_attr", "fi_domain_attr", "fi_fabric_attr"] {
        assert!(said.contains(part), "{part} is missing in {said}");
    }
    assert!(said.contains("FI_EP_RDM") && said.contains(subject.provider), "{said}");
}

/// Attributes are spelled for themselves.
fn attributes_are_spelled(subject) {
    let info = subject.query(&subject.hints());
    let first = info.first();
    let said = text(subject, c!(&*first.domain_attr), FI_TYPE_DOMAIN_ATTR);
    assert!(said.contains("mr_key_size"), "{said}");
    let said = text(subject, c!(&*first.tx_attr), FI_TYPE_TX_ATTR);
    assert!(said.contains("inject_size"), "{said}");
    let said = text(subject, c!(&*first.rx_attr), FI_TYPE_RX_ATTR);
    assert!(said.contains("iov_limit"), "{said}");
    let said = text(subject, c!(&*first.ep_attr), FI_TYPE_EP_ATTR);
    assert!(said.contains("max_msg_size"), "{said}");
    let said = text(subject, c!(&*first.fabric_attr), FI_TYPE_FABRIC_ATTR);
    assert!(said.contains(subject.provider), "{said}");
}

/// The version of the library is spelled whatever the data is.
fn the_version_is_spelled(subject) {
    let version = c!((subject.library.version)());
    let said = text(subject, &0_u64, FI_TYPE_VERSION);
    assert!(said.starts_with(&format!("{}.{}", FI_MAJOR(version), FI_MINOR(version))), "{said}");
}

/// The text is cut to its buffer, and ends with a zero byte.
fn a_text_fits_its_buffer(subject) {
    let info = subject.query(&subject.hints());
    let mut room = [b'#' as c_char; 16];
    let data = core::ptr::from_ref(info.first()).cast::<c_void>();
    let said = c!((subject.library.tostr_r)(room.as_mut_ptr(), 12, data, FI_TYPE_INFO));
    assert_eq!(said, room.as_mut_ptr());
    assert!(room[..12].contains(&0), "no end");
    assert!(room[12..].iter().all(|&byte| byte == b'#' as c_char));
}
}
