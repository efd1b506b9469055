//! One list of all endpoints: those of the providers in this library and those of external ones.

use core::ptr;
use std::ffi::{CStr, CString};

use oxifabric_abi::fi_info;
use oxifabric_core::info::{free, to_c};
use oxifabric_core::registry::{Refusal, Request};
use oxifabric_provider::log;
use oxifabric_types::{Caps, EpType, Reason};

use crate::external::{InfoRequest, Requester, query_one};
use crate::order::{Order, rank};
use crate::providers;

/// Returns, for each provider and offer that is not in the answer to a request, why not, external providers and files that
/// cannot be loaded included.
pub fn refusals(request: &Request<'_>) -> Vec<Refusal> {
    let mut refusals = providers::query(request).refusals;
    let asked = request.hints.map_or("", |hints| &hints.fabric.prov_name);
    let rejected = providers::rejected().iter();
    let rejected = rejected.filter(|rejected| concerns(rejected.what, asked));
    refusals.extend(rejected.map(|rejected| Refusal {
        provider: rejected.what,
        offer: String::new(),
        reasons: vec![Reason::Failed {
            field: "FI_PROVIDER_PATH",
            why: rejected.why.clone(),
        }],
    }));
    if !providers::externals().is_empty() {
        refusals.extend(of_externals(request));
    }
    refusals
}

/// Returns whether what was rejected may be what was asked for: a file may be any provider.
fn concerns(rejected: &str, asked: &str) -> bool {
    let is_named = |name: &str| name.eq_ignore_ascii_case(rejected);
    asked.is_empty() || rejected.contains('/') || asked.split(';').any(is_named)
}

fn of_externals(request: &Request<'_>) -> Vec<Refusal> {
    let c_string = |text: Option<&str>| text.and_then(|text| CString::new(text).ok());
    let (node, service) = (c_string(request.node), c_string(request.service));
    let pointer = |text: &Option<CString>| text.as_ref().map_or(ptr::null(), |text| text.as_ptr());
    let hints = request.hints.map_or(ptr::null_mut(), to_c);
    let filter = Requester::of(request.flags).filter();
    let asked = InfoRequest {
        version: request.version,
        node: pointer(&node),
        service: pointer(&service),
        flags: request.flags,
        hints,
        filter: &filter,
    };
    let mut refusals = Vec::new();
    for external in providers::externals() {
        // SAFETY: strings and hints are ours, and lists that are returned belong to us.
        match unsafe { query_one(external, &asked) } {
            // SAFETY: as said.
            Ok(list) => unsafe { free(list) },
            Err(reason) => refusals.push(Refusal {
                provider: external.name,
                offer: String::new(),
                reasons: vec![reason],
            }),
        }
    }
    // SAFETY: `to_c` built them, or they are null.
    unsafe { free(hints) };
    refusals
}

/// Lists the active providers by name and version, in the order of their endpoints.
pub(crate) fn names() -> Vec<(&'static str, u32)> {
    let ours = providers::registry().providers();
    let ours = ours.map(|entry| (entry.name, entry.version));
    let externals = providers::externals().iter();
    let mut names: Vec<_> = ours
        .chain(externals.map(|external| (external.name, external.version)))
        .collect();
    names.sort_by_key(|(name, _)| rank(name));
    names
}

/// Adds the endpoints of external providers to a list, in the order of preference.
///
/// # Safety
/// As for fi_getinfo(3) with hints of the newest layout; the list belongs to the caller.
pub(crate) unsafe fn gathered(ours: *mut fi_info, asked: &InfoRequest<'_>) -> *mut fi_info {
    if providers::externals().is_empty() {
        return ours;
    }
    let mut entries = Vec::new();
    // SAFETY: the caller vouches for the request; every list ends with null.
    unsafe {
        take_apart(ours, &mut entries);
        for external in providers::externals() {
            match query_one(external, asked) {
                Ok(list) => take_apart(list, &mut entries),
                Err(reason) => log::info!(external.name, Core, "not returned: {reason}"),
            }
        }
        let order = order_of(asked);
        entries.sort_by_key(|&entry| order.standing(&stack_of(entry), kind_of(entry)));
        link(&entries)
    }
}

/// Returns in which order the endpoint types of an answer are listed.
///
/// # Safety
/// The hints of the request are null or valid.
unsafe fn order_of(asked: &InfoRequest<'_>) -> Order {
    // SAFETY: the caller's contract; attributes are null or valid.
    let caps = unsafe {
        asked.hints.as_ref().map_or(0, |hints| {
            hints.caps | hints.domain_attr.as_ref().map_or(0, |attr| attr.caps)
        })
    };
    Order::of_caps(Caps::from_bits_retain(caps))
}

/// Adds the entries of a list to a vector, each without a next one.
///
/// # Safety
/// The list ends with null.
unsafe fn take_apart(mut list: *mut fi_info, entries: &mut Vec<*mut fi_info>) {
    // SAFETY: the caller's contract.
    while let Some(entry) = unsafe { list.as_mut() } {
        entries.push(list);
        list = entry.next;
    }
}

/// Makes a list of entries, and returns its first.
///
/// # Safety
/// The entries are valid.
unsafe fn link(entries: &[*mut fi_info]) -> *mut fi_info {
    let mut head = ptr::null_mut();
    for &entry in entries.iter().rev() {
        // SAFETY: the caller's contract.
        unsafe { (*entry).next = head };
        head = entry;
    }
    head
}

/// Returns the endpoint type of an entry.
///
/// # Safety
/// The entry is valid.
unsafe fn kind_of(entry: *mut fi_info) -> EpType {
    // SAFETY: attributes are null or valid.
    let kind = unsafe { (*entry).ep_attr.as_ref() }.map_or(0, |attr| attr.type_);
    EpType::from_raw(kind).unwrap_or_default()
}

/// Returns the name of the provider of an entry, with those that it is layered over.
///
/// # Safety
/// The entry is valid.
unsafe fn stack_of(entry: *mut fi_info) -> String {
    // SAFETY: attributes and names are null or valid.
    unsafe {
        let attr = (*entry).fabric_attr.as_ref();
        let name = attr.map_or(ptr::null_mut(), |attr| attr.prov_name);
        if name.is_null() {
            return String::new();
        }
        CStr::from_ptr(name).to_string_lossy().into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::concerns;

    #[test]
    fn a_hidden_provider_is_no_answer_to_a_request_for_another() {
        assert!(concerns("efa", "") && concerns("efa", "EFA"));
        assert!(!concerns("efa", "verbs"));
        assert!(concerns("ofi_rxm", "verbs;ofi_rxm"));
        assert!(concerns("/usr/lib/libfabric/libverbs-fi.so", "verbs"));
    }
}
