//! The functions `getinfo` and `freeinfo` of a provider: what it offers, with addresses.
//!
//! Whether an offer fits the hints decides kofi, for all providers alike; so what is offered does not depend on them here, but for the kind
//! of endpoint, which is looked at early so that a list stays short.

use alloc::vec::Vec;
use core::ffi::{CStr, c_char, c_int};

use oxifabric_abi::{FI_SOURCE, fi_info};
use oxifabric_info::{boxed_from_c, free, to_c_list};
use oxifabric_types::{Address, Errno, Info};

use crate::handle::status;
use crate::provider::Provider;

/// Returns the offers of a provider; the function `getinfo` of its `struct kofi_provider`.
///
/// # Safety
/// `node` is null or a string, `hints` null or an entry, and `info` may be written.
pub unsafe fn getinfo<P: Provider>(
    node: *const c_char,
    service: c_int,
    flags: u64,
    hints: *const fi_info,
    info: *mut *mut fi_info,
) -> c_int {
    // SAFETY: the caller's contract.
    let (node, hints) = unsafe {
        let node = (!node.is_null()).then(|| CStr::from_ptr(node));
        let hints = (!hints.is_null()).then(|| boxed_from_c(hints)).transpose();
        (node, hints)
    };
    let offered = hints.and_then(|hints| offers::<P>(node, service, flags, hints.as_deref()));
    status(offered.and_then(|offers| {
        let list = to_c_list(&offers);
        if list.is_null() {
            return Err(Errno::NOMEM);
        }
        // SAFETY: the caller's contract.
        unsafe { info.write(list) };
        Ok(())
    }))
}

/// Releases what [`getinfo`] returned.
///
/// # Safety
/// It is not used any more.
pub unsafe fn freeinfo(info: *mut fi_info) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { free(info) };
    0
}

fn offers<P: Provider>(
    node: Option<&CStr>,
    service: c_int,
    flags: u64,
    hints: Option<&Info>,
) -> Result<Vec<Info>, Errno> {
    let node = node.map(CStr::to_str).transpose();
    let node = node.map_err(|_| Errno::INVAL)?;
    let named = match (node, service) {
        (None, 0) => None,
        (node, service) => Some(P::resolve(node, service)?),
    };
    let is_source = flags & FI_SOURCE != 0 || node.is_none();
    let hinted = |of: fn(&Info) -> &Option<Address>| hints.and_then(|hints| of(hints).clone());
    let (src, dest) = match (named, is_source) {
        (Some(address), true) => (Some(address), hinted(|hints| &hints.dest)),
        (Some(address), false) => (hinted(|hints| &hints.src), Some(address)),
        (None, _) => (hinted(|hints| &hints.src), hinted(|hints| &hints.dest)),
    };
    let mut offers = P::offers();
    for offer in &mut offers {
        offer.dest.clone_from(&dest);
        if src.is_some() {
            offer.src.clone_from(&src);
        }
    }
    offers.retain(P::is_at);
    match offers.is_empty() {
        true => Err(Errno::NODATA),
        false => Ok(offers),
    }
}
