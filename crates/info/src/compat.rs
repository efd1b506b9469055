//! `fi_info` of applications that were built against older symbol versions.
//!
//! Every older structure is a prefix of the newer one, so an old entry is widened by copying each structure's own length
//! into a zeroed new one; nothing behind what the caller's headers had is read.

use core::ffi::c_void;
use core::mem::offset_of;
use core::ptr;

use oxifabric_abi::compat::{
    fi_domain_attr_1_0, fi_domain_attr_1_1, fi_domain_attr_1_3, fi_domain_attr_1_7,
    fi_domain_attr_1_8, fi_domain_attr_1_9, fi_ep_attr_1_0, fi_ep_attr_1_1, fi_fabric_attr_1_0,
    fi_info_1_0, fi_info_1_1, fi_info_1_2, fi_tx_attr_1_0,
};
use oxifabric_abi::{
    FI_VERSION, fi_domain_attr, fi_ep_attr, fi_fabric_attr, fi_info, fi_rx_attr, fi_tx_attr,
};

/// How many bytes each structure has in the headers of an application. Named after the symbol version, `FABRIC_1.0` and so on.
#[derive(Clone, Copy, Debug)]
pub struct Abi {
    info: usize,
    tx: usize,
    ep: usize,
    pub(super) domain: usize,
    fabric: usize,
}

impl Abi {
    /// The layout of applications built against libfabric before 1.5.
    pub const V1_0: Self = Self {
        info: size_of::<fi_info_1_0>(),
        tx: size_of::<fi_tx_attr_1_0>(),
        ep: size_of::<fi_ep_attr_1_0>(),
        domain: size_of::<fi_domain_attr_1_0>(),
        // Its last field is followed by padding where `api_version` sits now.
        fabric: offset_of!(fi_fabric_attr_1_0, prov_version) + size_of::<u32>(),
    };
    /// The layout of applications built against 1.5 and 1.6.
    pub const V1_1: Self = Self {
        info: size_of::<fi_info_1_1>(),
        ep: size_of::<fi_ep_attr_1_1>(),
        domain: size_of::<fi_domain_attr_1_1>(),
        fabric: size_of::<fi_fabric_attr>(),
        ..Self::V1_0
    };
    /// The layout of applications built against 1.7.
    pub const V1_2: Self = Self {
        info: size_of::<fi_info_1_2>(),
        ..Self::V1_1
    };
    /// The layout of applications built against 1.8 to 1.19.
    pub const V1_3: Self = Self {
        tx: size_of::<fi_tx_attr>(),
        domain: size_of::<fi_domain_attr_1_3>(),
        ..Self::V1_2
    };
    /// The layout of applications built against 1.20 to 1.22.
    pub const V1_7: Self = Self {
        domain: size_of::<fi_domain_attr_1_7>(),
        ..Self::V1_3
    };
    /// The layout of applications built against 2.0 to 2.4.
    pub const V1_8: Self = Self {
        domain: size_of::<fi_domain_attr_1_8>(),
        ..Self::V1_7
    };
    /// The layout of applications built against 2.5 and 2.6.
    pub const V1_9: Self = Self {
        domain: size_of::<fi_domain_attr_1_9>(),
        ..Self::V1_8
    };

    /// Returns the layout of applications that were built for the API of a release; `None` if it is the newest.
    pub const fn of_release(version: u32) -> Option<Self> {
        if version < FI_VERSION(1, 5) {
            Some(Self::V1_0)
        } else if version < FI_VERSION(1, 7) {
            Some(Self::V1_1)
        } else if version < FI_VERSION(1, 8) {
            Some(Self::V1_2)
        } else if version < FI_VERSION(1, 20) {
            Some(Self::V1_3)
        } else if version < FI_VERSION(2, 0) {
            Some(Self::V1_7)
        } else if version < FI_VERSION(2, 5) {
            Some(Self::V1_8)
        } else if version < FI_VERSION(2, 7) {
            Some(Self::V1_9)
        } else {
            None
        }
    }

    /// Returns whether entries end with the description of an interface.
    pub const fn has_nic(&self) -> bool {
        self.info == size_of::<fi_info>()
    }
}

/// Converts an entry of an older layout to the newest one and calls `with` with it; with null for null.
///
/// Strings and addresses are those of the old entry; its successors in a list are left out.
///
/// # Safety
/// `old` is null or an entry of that layout whose pointers are null or valid.
pub unsafe fn widened<R>(
    old: *const c_void,
    abi: &Abi,
    with: impl FnOnce(*const fi_info) -> R,
) -> R {
    if old.is_null() {
        return with(ptr::null());
    }
    let mut info = fi_info::ZERO;
    let mut tx = fi_tx_attr::ZERO;
    let mut ep = fi_ep_attr::ZERO;
    let mut domain = fi_domain_attr::ZERO;
    let mut fabric = fi_fabric_attr::ZERO;
    // SAFETY: the caller vouches for as many bytes of each structure as its layout has; old layouts are prefixes.
    unsafe {
        prefix(&mut info, old.cast(), abi.info);
        info.tx_attr = widen(&mut tx, info.tx_attr, abi.tx);
        info.ep_attr = widen(&mut ep, info.ep_attr, abi.ep);
        info.domain_attr = widen(&mut domain, info.domain_attr, abi.domain);
        info.fabric_attr = widen(&mut fabric, info.fabric_attr, abi.fabric);
    }
    info.next = ptr::null_mut();
    with(&info)
}

/// Widens the attributes that an entry points to and returns what it has to point to now.
///
/// # Safety
/// `old` is null or has `length` readable bytes.
unsafe fn widen<T>(new: &mut T, old: *const T, length: usize) -> *mut T {
    if old.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: the caller vouches for the bytes.
    unsafe { prefix(new, old, length) };
    new
}

/// Copies the members that an older version of a structure has.
///
/// # Safety
/// `old` has `length` readable bytes, of a structure that begins like `T`.
unsafe fn prefix<T>(new: &mut T, old: *const T, length: usize) {
    let length = length.min(size_of::<T>());
    // SAFETY: the caller vouches for the source; the length fits the target.
    unsafe { ptr::copy_nonoverlapping(old.cast::<u8>(), ptr::from_mut(new).cast(), length) };
}

// The receive attributes never grew, so an entry goes on pointing to the caller's.
const _: () = assert!(size_of::<fi_rx_attr>() == 64);
