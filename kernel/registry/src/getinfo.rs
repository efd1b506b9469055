//! fi_getinfo over all providers.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::ffi::{c_char, c_int};
use core::ptr;

use oxifabric_abi::{FI_MAJOR, FI_MINOR, fi_info};
use oxifabric_info::{boxed_from_c, to_c_list};
use oxifabric_types::{EpType, Errno, Info, Reason, match_boxed};

use crate::provider::{InUse, all};
use crate::{VERSION, log};

/// Returns the offers of all providers that fit the hints. If there is none, the log says why.
///
/// # Errors
/// `NOSYS` for a version that is not known; `INVAL` for hints that cannot be; `NODATA` when no provider fits.
///
/// # Safety
/// `node` is null or a string, and `hints` null or an entry.
pub unsafe fn getinfo(
    version: u32,
    node: *const c_char,
    service: c_int,
    flags: u64,
    hints: *mut fi_info,
) -> Result<*mut fi_info, Errno> {
    if FI_MAJOR(version) != FI_MAJOR(VERSION) || FI_MINOR(version) > FI_MINOR(VERSION) {
        return Err(Errno::NOSYS);
    }
    let read = match hints.is_null() {
        true => None,
        // SAFETY: the caller's contract.
        false => Some(unsafe { boxed_from_c(hints) }?),
    };
    let providers = all()?;
    let mut found = Vec::new();
    let mut missed = Vec::new();
    for provider in &providers {
        // SAFETY: the caller's contract.
        let offers = unsafe { offers(provider, version, node, service, flags, hints) };
        for offer in &offers {
            match match_boxed(offer, read.as_deref(), version) {
                Ok(info) => found.push(info),
                Err(reasons) => missed.push(Missed {
                    provider: provider.name.clone(),
                    kind: offer.ep.kind,
                    reasons,
                }),
            }
        }
    }
    if found.is_empty() {
        explain(&missed, providers.len());
        return Err(Errno::NODATA);
    }
    let list = to_c_list(&found);
    if list.is_null() {
        Err(Errno::NOMEM)
    } else {
        Ok(list)
    }
}

/// An offer that does not fit.
struct Missed {
    provider: String,
    kind: EpType,
    reasons: Vec<Reason>,
}

/// Returns what a provider offers; nothing if it fails, which the log says.
///
/// # Safety
/// As [`getinfo`].
#[inline(never)]
#[expect(
    clippy::vec_box,
    reason = "an entry that is moved passes the stack, which is short"
)]
unsafe fn offers(
    provider: &InUse,
    version: u32,
    node: *const c_char,
    service: c_int,
    flags: u64,
    hints: *mut fi_info,
) -> Vec<Box<Info>> {
    let (Some(getinfo), Some(freeinfo)) = (provider.calls.getinfo, provider.calls.freeinfo) else {
        return Vec::new();
    };
    let mut list = ptr::null_mut();
    // SAFETY: the caller's contract; the provider's module is kept.
    let status = unsafe { getinfo(version, node, service, flags, hints, &raw mut list) };
    if status != 0 {
        let errno = Errno::from_raw(-status);
        log(format_args!("{}: getinfo: {errno}", provider.name));
        return Vec::new();
    }
    let mut offers = Vec::new();
    let mut at = list;
    // SAFETY: the provider returned a list, which ends; it is released once it was read.
    unsafe {
        while let Some(entry) = at.as_ref() {
            if let Ok(mut info) = boxed_from_c(entry) {
                info.fabric.prov_name.clone_from(&provider.name);
                offers.push(info);
            }
            at = entry.next;
        }
        freeinfo(list);
    }
    offers
}

/// Says why nothing fits. If the hints name a provider, only of that one.
fn explain(missed: &[Missed], providers: usize) {
    if providers == 0 {
        return log(format_args!("getinfo: no provider is registered"));
    }
    for Missed {
        provider,
        kind,
        reasons,
    } in missed
    {
        if reasons.iter().any(Reason::is_of_another_provider) && reasons.len() > 1 {
            continue;
        }
        for reason in reasons {
            let kind = kind.name();
            log(format_args!("getinfo: {provider} ({kind}): {reason}"));
        }
    }
}
