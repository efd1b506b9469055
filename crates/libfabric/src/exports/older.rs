//! The functions whose structures were smaller under older symbol versions.

use core::ffi::{c_char, c_int, c_void};

use oxifabric_abi::compat::fi_fabric_attr_1_0;
use oxifabric_abi::{FI_EINVAL, FI_VERSION, fi_fabric_attr, fi_info, fid_fabric};
use oxifabric_core::info::{Abi, widened};

use crate::calls;

/// Defines fi_getinfo and fi_dupinfo for applications of one layout.
macro_rules! older {
    ($($getinfo:ident, $dupinfo:ident: $abi:expr;)*) => { $(
        /// fi_getinfo(3) with hints of an older layout; what it returns begins like that layout.
        ///
        /// # Safety
        /// As for the newest, with `hints` null or an entry of the older layout.
        pub(super) unsafe extern "C" fn $getinfo(
            version: u32,
            node: *const c_char,
            service: *const c_char,
            flags: u64,
            hints: *const c_void,
            info: *mut *mut fi_info,
        ) -> c_int {
            // SAFETY: the caller's contract, passed on.
            unsafe {
                widened(hints, &$abi, |hints| {
                    calls::getinfo(version, node, service, flags, hints, info)
                })
            }
        }

        /// fi_dupinfo(3) of an entry of an older layout; the result is in the newest, which begins like it.
        ///
        /// # Safety
        /// `info` is null or an entry of the older layout.
        pub(super) unsafe extern "C" fn $dupinfo(info: *const c_void) -> *mut fi_info {
            // SAFETY: the caller's contract, passed on.
            unsafe { widened(info, &$abi, |info| calls::dupinfo(info)) }
        }
    )* };
}

older! {
    getinfo_1_0, dupinfo_1_0: Abi::V1_0;
    getinfo_1_1, dupinfo_1_1: Abi::V1_1;
    getinfo_1_2, dupinfo_1_2: Abi::V1_2;
    getinfo_1_3, dupinfo_1_3: Abi::V1_3;
    getinfo_1_7, dupinfo_1_7: Abi::V1_7;
    getinfo_1_8, dupinfo_1_8: Abi::V1_8;
    getinfo_1_9, dupinfo_1_9: Abi::V1_9;
}

/// fi_fabric(3) of applications built before 1.5, whose attributes do not say which API they ask for: it is taken for 1.0.
///
/// # Safety
/// `attr` is null or valid; `fabric` may be written.
pub(super) unsafe extern "C" fn fabric_1_0(
    attr: *mut fi_fabric_attr_1_0,
    fabric: *mut *mut fid_fabric,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller vouches for the attributes.
    let Some(old) = (unsafe { attr.as_ref() }) else {
        return -FI_EINVAL;
    };
    let mut attr = fi_fabric_attr {
        fabric: old.fabric,
        name: old.name,
        prov_name: old.prov_name,
        prov_version: old.prov_version,
        api_version: FI_VERSION(1, 0),
    };
    // SAFETY: the caller's contract, passed on.
    unsafe { calls::fabric(&mut attr, fabric, context) }
}
