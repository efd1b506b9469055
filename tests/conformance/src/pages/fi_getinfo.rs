//! Discovery.

use core::ffi::CStr;
use core::ptr::{null, null_mut};

use oxifabric_abi::*;
use oxifabric_fixtures::c;
use oxifabric_fixtures::subject::{CAPS, VERSION};

use crate::requirements;

requirements! { "fi_getinfo(3)";

/// Without hints there are entries, each with all attributes.
fn no_hints_list_everything(subject) {
    let mut first = null_mut();
    assert_eq!(c!((subject.library.getinfo)(VERSION, null(), null(), 0, null(), &mut first)), 0);
    let mut next = first;
    while let Some(info) = c!(next.as_ref()) {
        let attributes = [info.tx_attr.is_null(), info.rx_attr.is_null(), info.ep_attr.is_null()];
        assert_eq!(attributes, [false; 3]);
        assert!(!info.domain_attr.is_null() && !info.fabric_attr.is_null());
        next = info.next;
    }
    c!((subject.library.freeinfo)(first));
}

/// Every entry has all capabilities that were asked for.
fn capabilities_are_as_asked(subject) {
    for info in subject.query(&subject.hints()).entries() {
        assert_eq!(info.caps & CAPS, CAPS);
    }
}

/// Every entry is of the endpoint type that was asked for.
fn endpoint_types_are_as_asked(subject) {
    for info in subject.query(&subject.hints()).entries() {
        assert_eq!(c!((*info.ep_attr).type_), FI_EP_RDM);
    }
}

/// Every entry is of the provider that was asked for.
fn providers_are_as_asked(subject) {
    for info in subject.query(&subject.hints()).entries() {
        let name = c!(CStr::from_ptr((*info.fabric_attr).prov_name));
        assert_eq!(name.to_str(), Ok(subject.provider));
    }
}

/// A mode bit that the application did not offer is not required of it.
fn modes_that_were_not_offered_are_not_required(subject) {
    let mut hints = subject.hints();
    hints.first_mut().mode = 0;
    if let Ok(list) = subject.try_query(&hints, None, 0) {
        for info in list.entries() {
            assert_eq!(info.mode, 0);
        }
    }
}

/// A registration mode that the application did not offer is not required of it.
fn registration_modes_that_were_not_offered_are_not_required(subject) {
    let mut hints = subject.hints();
    hints.first_mut().caps |= FI_RMA;
    c!((*hints.first_mut().domain_attr).mr_mode = 0);
    if let Ok(list) = subject.try_query(&hints, None, 0) {
        for info in list.entries() {
            assert_eq!(c!((*info.domain_attr).mr_mode), 0);
        }
    }
}

/// Hints that nothing can fulfil give -FI_ENODATA.
fn the_impossible_is_no_data(subject) {
    let mut hints = subject.hints();
    c!((*hints.first_mut().ep_attr).protocol = 0x0BAD_CAFE);
    assert_eq!(subject.try_query(&hints, None, 0).err(), Some(-FI_ENODATA));
}

/// A provider that does not exist gives -FI_ENODATA.
fn an_unknown_provider_is_no_data(subject) {
    let hints = subject.hints();
    c!({
        let attr = &mut *(*hints.as_ptr()).fabric_attr;
        libc::free(attr.prov_name.cast());
        attr.prov_name = libc::strdup(c"no_such_provider".as_ptr());
    });
    assert_eq!(subject.try_query(&hints, None, 0).err(), Some(-FI_ENODATA));
}

/// A size that was asked for is the least that is given.
fn sizes_are_at_least_as_asked(subject) {
    let mut hints = subject.hints();
    c!((*hints.first_mut().tx_attr).size = 17);
    c!((*hints.first_mut().rx_attr).size = 19);
    for info in subject.query(&hints).entries() {
        assert!(c!((*info.tx_attr).size) >= 17);
        assert!(c!((*info.rx_attr).size) >= 19);
    }
}

/// FI_PROV_ATTR_ONLY lists providers, each once, by their names.
fn providers_can_be_listed_alone(subject) {
    let mut hints = subject.empty_hints();
    let _ = hints.first_mut();
    let list = subject.try_query(&hints, None, FI_PROV_ATTR_ONLY).expect("a list of providers");
    let mut names: Vec<_> = list
        .entries()
        .map(|info| c!(CStr::from_ptr((*info.fabric_attr).prov_name)).to_owned())
        .collect();
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count);
    assert!(names.iter().any(|name| name.to_str() == Ok(subject.provider)));
}

/// A newer API version than the library's is refused with -FI_ENOSYS.
fn a_version_of_the_future_is_refused(subject) {
    let version = c!((subject.library.version)());
    let newer = FI_VERSION(FI_MAJOR(version) + 1, 0);
    let mut first = null_mut();
    let code = c!((subject.library.getinfo)(newer, null(), null(), 0, null(), &mut first));
    assert_eq!(code, -FI_ENOSYS);
}

/// A duplicate has every value of its original and shares nothing with it.
fn a_duplicate_stands_alone(subject) {
    let list = subject.query(&subject.hints());
    let original = list.first();
    let copy = c!(&*(subject.library.dupinfo)(original));
    assert_eq!((copy.caps, copy.mode, copy.addr_format), (original.caps, original.mode, original.addr_format));
    assert!(copy.next.is_null());
    assert_ne!(copy.ep_attr, original.ep_attr);
    assert_eq!(c!((*copy.ep_attr).max_msg_size), c!((*original.ep_attr).max_msg_size));
    let name = |info: &fi_info| c!(CStr::from_ptr((*info.domain_attr).name));
    assert_eq!(name(copy), name(original));
    assert_ne!(name(copy).as_ptr(), name(original).as_ptr());
    c!((subject.library.freeinfo)((&raw const *copy).cast_mut()));
}

/// Duplicating nothing allocates an empty entry with all attributes.
fn a_duplicate_of_nothing_is_empty(subject) {
    let hints = subject.empty_hints();
    let info = hints.first();
    assert_eq!((info.caps, info.mode), (0, 0));
    assert!(info.next.is_null() && info.src_addr.is_null() && info.dest_addr.is_null());
    assert!(!info.tx_attr.is_null() && !info.domain_attr.is_null());
}

/// The API version that was asked for is in each entry.
fn the_version_asked_for_is_told(subject) {
    for info in subject.query(&subject.hints()).entries() {
        assert_eq!(c!((*info.fabric_attr).api_version), VERSION);
    }
}

/// A handle in the hints comes back in each entry.
fn a_handle_is_handed_back(subject) {
    let mut hints = subject.hints();
    let mut handle = fid { fclass: 0, context: null_mut(), ops: null_mut() };
    hints.first_mut().handle = &mut handle;
    if let Ok(list) = subject.try_query(&hints, None, 0) {
        for info in list.entries() {
            assert_eq!(info.handle, &raw mut handle);
        }
    }
}

/// Primary capabilities that were not asked for are absent.
fn primary_capabilities_that_were_not_asked_for_are_absent(subject) {
    let mut hints = subject.hints();
    hints.first_mut().caps = FI_MSG;
    for info in subject.query(&hints).entries() {
        assert_eq!(info.caps & (FI_RMA | FI_TAGGED | FI_ATOMIC), 0);
    }
}

/// A node and a service are resolved into the destination; the source is of the same format.
fn a_destination_is_resolved(subject) {
    let found = subject.try_query(&subject.hints(), Some(c"127.0.0.1"), 0);
    let Ok(list) = found else {
        return;
    };
    for info in list.entries() {
        assert!(!info.dest_addr.is_null() && info.dest_addrlen > 0);
    }
}

/// With FI_SOURCE the node is the source, and there is no destination.
fn a_source_is_resolved(subject) {
    let Ok(list) = subject.try_query(&subject.hints(), Some(c"127.0.0.1"), FI_SOURCE) else {
        return;
    };
    for info in list.entries() {
        assert!(!info.src_addr.is_null() && info.src_addrlen > 0);
        assert!(info.dest_addr.is_null());
    }
}

/// With FI_NUMERICHOST a name of a host is not resolved.
fn numbers_of_hosts_are_not_resolved(subject) {
    if subject.query(&subject.hints()).first().addr_format != FI_SOCKADDR_IN {
        return;
    }
    let named = subject.try_query(&subject.hints(), Some(c"localhost"), FI_NUMERICHOST);
    assert_eq!(named.err(), Some(-FI_ENODATA));
    assert!(subject.try_query(&subject.hints(), Some(c"127.0.0.1"), FI_NUMERICHOST).is_ok());
}

/// FI_SOURCE needs a node or a service.
fn a_source_needs_a_name(subject) {
    assert_eq!(subject.try_query(&subject.hints(), None, FI_SOURCE).err(), Some(-FI_ENODATA));
}

/// When there is nothing, the list is null.
fn nothing_is_an_empty_list(subject) {
    let mut hints = subject.hints();
    c!((*hints.first_mut().ep_attr).type_ = FI_EP_DGRAM);
    let dangling = core::ptr::NonNull::<fi_info>::dangling().as_ptr();
    let mut first = dangling;
    let code = c!((subject.library.getinfo)(oxifabric_fixtures::subject::VERSION, null(), null(), 0, hints.as_ptr(), &mut first));
    assert_eq!(code, -FI_ENODATA);
    assert!(first.is_null());
}

/// An order that was asked for is given.
fn orders_are_as_asked(subject) {
    let mut hints = subject.hints();
    c!((*hints.first_mut().tx_attr).msg_order = FI_ORDER_SAS);
    c!((*hints.first_mut().rx_attr).msg_order = FI_ORDER_SAS);
    for info in subject.query(&hints).entries() {
        assert_eq!(c!((*info.tx_attr).msg_order) & FI_ORDER_SAS, FI_ORDER_SAS);
        assert_eq!(c!((*info.rx_attr).msg_order) & FI_ORDER_SAS, FI_ORDER_SAS);
    }
}

/// Secondary capabilities that were asked for are given, or there is nothing.
fn secondary_capabilities_are_as_asked(subject) {
    for caps in [FI_MULTI_RECV, FI_SOURCE, FI_DIRECTED_RECV, FI_FENCE, FI_RMA_EVENT | FI_RMA, FI_SHARED_AV, FI_TRIGGER] {
        let mut hints = subject.hints();
        hints.first_mut().caps = caps | FI_MSG;
        if let Ok(list) = subject.try_query(&hints, None, 0) {
            assert!(list.entries().all(|info| info.caps & caps == caps), "{caps:#x}");
        }
    }
}

/// FI_LOCAL_COMM and FI_REMOTE_COMM are reported for hints with neither.
fn reach_is_told(subject) {
    for info in subject.query(&subject.hints()).entries() {
        assert_ne!(info.caps & (FI_LOCAL_COMM | FI_REMOTE_COMM), 0);
    }
}

/// Capabilities of transmit and receive side are among those of the endpoint.
fn capabilities_of_sides_are_those_of_the_endpoint(subject) {
    for info in subject.query(&subject.hints()).entries() {
        for caps in [c!((*info.tx_attr).caps), c!((*info.rx_attr).caps)] {
            assert_eq!(caps & !info.caps, 0, "{caps:#x} {:#x}", info.caps);
        }
    }
}
}
