//! Each version of the functions, called through the pointer that the dynamic loader gives.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::transmute;
use core::ptr;

use oxifabric_abi::{
    FI_EINVAL, FI_ENODATA, FI_ENODEV, FI_ENOSYS, FI_EP_RDM, FI_NUMERICHOST, FI_PROV_ATTR_ONLY,
    FI_RESCAN, FI_SOURCE, FI_TAGGED, FI_VERSION, fi_fabric_attr, fi_info, fi_param, fid,
    fid_fabric,
};

use crate::library::symbol;

type GetInfo = unsafe extern "C" fn(
    u32,
    *const c_char,
    *const c_char,
    u64,
    *const fi_info,
    *mut *mut fi_info,
) -> c_int;
type DupInfo = unsafe extern "C" fn(*const fi_info) -> *mut fi_info;
type FreeInfo = unsafe extern "C" fn(*mut fi_info);
type Fabric = unsafe extern "C" fn(*mut fi_fabric_attr, *mut *mut fid_fabric, *mut c_void) -> c_int;

/// The API of the newest headers.
const NEWEST: u32 = FI_VERSION(2, 7);

/// Symbol versions of fi_getinfo, each with an API version that its programs ask for, and whether `fi_info` had `nic`.
const VERSIONS: [(&CStr, u32, bool); 8] = [
    (c"FABRIC_1.0", FI_VERSION(1, 4), false),
    (c"FABRIC_1.1", FI_VERSION(1, 6), false),
    (c"FABRIC_1.2", FI_VERSION(1, 7), true),
    (c"FABRIC_1.3", FI_VERSION(1, 17), true),
    (c"FABRIC_1.7", FI_VERSION(1, 20), true),
    (c"FABRIC_1.8", FI_VERSION(2, 0), true),
    (c"FABRIC_1.9", FI_VERSION(2, 6), true),
    (c"FABRIC_1.10", NEWEST, true),
];

/// The functions of one symbol version.
struct Calls {
    getinfo: GetInfo,
    dupinfo: DupInfo,
    freeinfo: FreeInfo,
}

fn calls(version: &CStr) -> Calls {
    // SAFETY: older layouts are prefixes of the newest, so the newest signatures fit all versions.
    unsafe {
        Calls {
            getinfo: transmute::<*mut c_void, GetInfo>(symbol(c"fi_getinfo", version)),
            dupinfo: transmute::<*mut c_void, DupInfo>(symbol(c"fi_dupinfo", version)),
            freeinfo: transmute::<*mut c_void, FreeInfo>(symbol(c"fi_freeinfo", version)),
        }
    }
}

#[test]
fn every_version_answers_hints_of_its_own_layout() {
    for (version, api, _) in VERSIONS {
        let calls = calls(version);
        // SAFETY: entries come from the library itself; lists end with null.
        unsafe {
            let hints = (calls.dupinfo)(ptr::null());
            (*hints).caps = FI_TAGGED;
            (*hints).mode = u64::MAX;
            (*(*hints).ep_attr).type_ = FI_EP_RDM;
            (*(*hints).fabric_attr).prov_name = libc::strdup(c"tcp".as_ptr());
            let mut list = ptr::null_mut();
            let code = (calls.getinfo)(api, ptr::null(), ptr::null(), 0, hints, &mut list);
            assert_eq!(code, 0, "{version:?}");
            let mut next = list;
            while let Some(info) = next.as_ref() {
                assert_eq!((*info.ep_attr).type_, FI_EP_RDM, "{version:?}");
                assert_ne!(info.caps & FI_TAGGED, 0);
                assert_eq!(CStr::from_ptr((*info.fabric_attr).prov_name), c"tcp");
                assert_eq!((*info.fabric_attr).api_version, api);
                next = info.next;
            }
            (calls.freeinfo)(list);
            (calls.freeinfo)(hints);
        }
    }
}

#[test]
fn every_version_duplicates_its_own_layout() {
    for (version, api, has_nic) in VERSIONS {
        let calls = calls(version);
        // SAFETY: entries come from the library itself.
        unsafe {
            let mut list = ptr::null_mut();
            let code = (calls.getinfo)(api, ptr::null(), ptr::null(), 0, ptr::null(), &mut list);
            assert_eq!(code, 0, "{version:?}");
            if !has_nic {
                // What old programs have behind their entry is none of the library's business.
                (*list).nic = ptr::dangling_mut();
            }
            let copy = (calls.dupinfo)(list);
            (*list).nic = ptr::null_mut();
            assert!((*copy).next.is_null() && (*copy).nic.is_null());
            assert_eq!((*copy).caps, (*list).caps);
            assert_ne!((*copy).tx_attr, (*list).tx_attr);
            assert_eq!((*(*copy).tx_attr).size, (*(*list).tx_attr).size);
            let names = |info: *mut fi_info| CStr::from_ptr((*(*info).domain_attr).name);
            assert_eq!(names(copy), names(list));
            assert_ne!(names(copy).as_ptr(), names(list).as_ptr());
            (calls.freeinfo)(list);
            (calls.freeinfo)(copy);
            (calls.freeinfo)(ptr::null_mut());
        }
    }
}

#[test]
fn the_handle_of_the_hints_is_handed_back() {
    let calls = calls(c"FABRIC_1.10");
    let handle: *mut fid = ptr::dangling_mut();
    // SAFETY: entries come from the library itself; the handle is never followed.
    unsafe {
        let hints = (calls.dupinfo)(ptr::null());
        (*hints).handle = handle;
        let mut list = ptr::null_mut();
        let api = NEWEST;
        let code = (calls.getinfo)(api, ptr::null(), ptr::null(), 0, hints, &mut list);
        assert_eq!((code, (*list).handle), (0, handle));
        (calls.freeinfo)(list);
        (calls.freeinfo)(hints);
    }
}

#[test]
fn what_is_impossible_is_answered_with_the_documented_error() {
    let calls = calls(c"FABRIC_1.10");
    let ask = |api: u32, set: fn(&mut fi_info)| {
        // SAFETY: entries come from the library itself.
        unsafe {
            let hints = (calls.dupinfo)(ptr::null());
            set(&mut *hints);
            let mut list: *mut fi_info = ptr::dangling_mut();
            let code = (calls.getinfo)(api, ptr::null(), ptr::null(), 0, hints, &mut list);
            assert!(list.is_null(), "the list is empty after an error");
            (calls.freeinfo)(hints);
            code
        }
    };
    assert_eq!(ask(NEWEST, |hints| hints.caps = 1 << 60), -FI_ENODATA);
    assert_eq!(ask(NEWEST + 1, |_| {}), -FI_ENOSYS);
    // SAFETY: the attributes of a fresh entry are there.
    let strange = |hints: &mut fi_info| unsafe { (*hints.domain_attr).threading = 99 };
    assert_eq!(ask(NEWEST, strange), -FI_ENODATA);
    // SAFETY: a missing result is refused before anything is done.
    let code =
        unsafe { (calls.getinfo)(0, ptr::null(), ptr::null(), 0, ptr::null(), ptr::null_mut()) };
    assert_eq!(code, -FI_EINVAL);
}

#[test]
fn providers_alone_have_names_and_versions() {
    let calls = calls(c"FABRIC_1.10");
    // SAFETY: the list comes from the library itself.
    unsafe {
        let (api, flags) = (NEWEST, FI_PROV_ATTR_ONLY);
        let mut list = ptr::null_mut();
        let code = (calls.getinfo)(api, ptr::null(), ptr::null(), flags, ptr::null(), &mut list);
        assert_eq!(code, 0);
        let mut names = Vec::new();
        let mut next = list;
        while let Some(info) = next.as_ref() {
            assert_eq!(info.caps, 0);
            assert_ne!((*info.fabric_attr).prov_version, 0);
            names.push(CStr::from_ptr((*info.fabric_attr).prov_name).to_owned());
            next = info.next;
        }
        assert!(names.contains(&c"tcp".to_owned()), "{names:?}");
        (calls.freeinfo)(list);
    }
}

#[test]
fn a_rescan_finds_what_was_there_and_numbers_are_not_looked_up() {
    let calls = calls(c"FABRIC_1.10");
    let ask = |node: &CStr, flags| {
        let mut list = ptr::null_mut();
        let api = NEWEST;
        // SAFETY: the list comes from the library itself.
        unsafe {
            let hints = (calls.dupinfo)(ptr::null());
            (*(*hints).fabric_attr).prov_name = libc::strdup(c"tcp".as_ptr());
            let code = (calls.getinfo)(api, node.as_ptr(), ptr::null(), flags, hints, &mut list);
            (calls.freeinfo)(hints);
            (calls.freeinfo)(list);
            code
        }
    };
    for flags in [
        0,
        FI_RESCAN,
        FI_NUMERICHOST,
        FI_SOURCE | FI_RESCAN | FI_NUMERICHOST,
    ] {
        assert_eq!(ask(c"127.0.0.1", flags), 0, "{flags:#x}");
    }
    assert_eq!(ask(c"localhost", FI_NUMERICHOST), -FI_ENODATA);
    assert_eq!(ask(c"localhost", 0), 0);
}

#[test]
fn fabrics_need_a_name_and_a_provider_that_is_here() {
    for version in [c"FABRIC_1.0", c"FABRIC_1.1"] {
        // SAFETY: the old attributes are a prefix of the new.
        let fabric = unsafe { transmute::<*mut c_void, Fabric>(symbol(c"fi_fabric", version)) };
        let open = |prov_name: *const c_char, name: *const c_char| {
            let mut attr = fi_fabric_attr {
                name: name.cast_mut(),
                prov_name: prov_name.cast_mut(),
                ..fi_fabric_attr::ZERO
            };
            let mut opened = ptr::null_mut();
            // SAFETY: names are null or strings, and the result may be written.
            unsafe { fabric(&mut attr, &mut opened, ptr::null_mut()) }
        };
        assert_eq!(open(ptr::null(), c"net".as_ptr()), -FI_EINVAL);
        assert_eq!(open(c"tcp".as_ptr(), ptr::null()), -FI_EINVAL);
        assert_eq!(
            open(c"carrier-pigeon".as_ptr(), c"net".as_ptr()),
            -FI_ENODEV
        );
        // SAFETY: null attributes are refused.
        let code = unsafe { fabric(ptr::null_mut(), ptr::null_mut(), ptr::null_mut()) };
        assert_eq!(code, -FI_EINVAL);
    }
}

#[test]
fn the_version_is_that_of_the_newest_headers() {
    // SAFETY: the function takes nothing.
    let version = unsafe {
        transmute::<*mut c_void, unsafe extern "C" fn() -> u32>(symbol(
            c"fi_version",
            c"FABRIC_1.0",
        ))()
    };
    assert_eq!(version, NEWEST);
}

#[test]
fn error_numbers_of_either_sign_have_a_text() {
    type Strerror = unsafe extern "C" fn(c_int) -> *const c_char;
    // SAFETY: the function takes any number and returns a string.
    let text = |errnum| unsafe {
        let strerror = transmute::<*mut c_void, Strerror>(symbol(c"fi_strerror", c"FABRIC_1.0"));
        CStr::from_ptr(strerror(errnum)).to_str().expect("ASCII")
    };
    assert_eq!(text(FI_ENODATA), text(-FI_ENODATA));
    assert_eq!(text(265), "Truncation error");
}

#[test]
fn parameters_are_listed_with_their_values() {
    type GetParams = unsafe extern "C" fn(*mut *mut fi_param, *mut c_int) -> c_int;
    type FreeParams = unsafe extern "C" fn(*mut fi_param);
    // SAFETY: the list comes from the library and has as many entries as it says.
    unsafe {
        let getparams = transmute::<*mut c_void, GetParams>(symbol(c"fi_getparams", c"FABRIC_1.0"));
        let freeparams =
            transmute::<*mut c_void, FreeParams>(symbol(c"fi_freeparams", c"FABRIC_1.0"));
        let (mut list, mut count) = (ptr::null_mut(), 0);
        assert_eq!(getparams(&mut list, &mut count), 0);
        let rows = core::slice::from_raw_parts(list, usize::try_from(count).expect("a count"));
        for name in [
            c"FI_PROVIDER",
            c"FI_LOG_LEVEL",
            c"FI_LOG_LOCATION_MODE",
            c"FI_UNIVERSE_SIZE",
            c"FI_TCP_IFACE",
            c"FI_SHM_DISABLE_CMA",
        ] {
            let row = rows.iter().find(|row| CStr::from_ptr(row.name) == name);
            let row = row.unwrap_or_else(|| panic!("{name:?} is not listed"));
            assert!(!CStr::from_ptr(row.help_string).is_empty());
        }
        assert!(
            (*list.add(rows.len())).name.is_null(),
            "the list has an end"
        );
        freeparams(list);
        freeparams(ptr::null_mut());
    }
}
