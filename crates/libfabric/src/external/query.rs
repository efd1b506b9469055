//! fi_getinfo(3) asked of one external provider.

use core::ffi::{CStr, c_char};
use core::ptr;

use oxifabric_abi::fi_info;
use oxifabric_core::info::free;
use oxifabric_core::registry::admits_format;
use oxifabric_provider::log;
use oxifabric_provider::params::NameFilter;
use oxifabric_types::{Reason, strerror_c};

use super::adopt::adopt;
use super::requester::is_utility;
use super::{External, Requester, dotted};

/// The arguments of fi_getinfo(3), as the caller passed them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InfoRequest<'a> {
    pub(crate) version: u32,
    pub(crate) node: *const c_char,
    pub(crate) service: *const c_char,
    pub(crate) flags: u64,
    pub(crate) hints: *const fi_info,
    /// The providers that there are for the caller, by FI_PROVIDER ([`Requester::filter`]).
    pub(crate) filter: &'a NameFilter,
}

impl InfoRequest<'_> {
    fn requester(&self) -> Requester {
        Requester::of(self.flags)
    }
}

/// Asks a provider; returns its list, which is in the newest layout and may be released by fi_freeinfo(3).
///
/// # Errors
/// The reason why there is none.
///
/// # Safety
/// As for fi_getinfo(3), with hints of the newest layout.
pub(crate) unsafe fn query_one(
    external: &External,
    request: &InfoRequest<'_>,
) -> Result<*mut fi_info, Reason> {
    // SAFETY: the caller vouches for the hints.
    unsafe { admitted(external, request)? };
    let Some(getinfo) = external.calls().getinfo else {
        return Err(failed(
            "fabric_attr.prov_name",
            "it only hooks other providers",
        ));
    };
    let mut list = ptr::null_mut();
    // SAFETY: the caller's contract, passed on.
    let code = unsafe {
        getinfo(
            request.version,
            request.node,
            request.service,
            request.flags,
            request.hints,
            &mut list,
        )
    };
    if code != 0 {
        let text = strerror_c(code).to_string_lossy();
        return Err(failed(
            "fi_getinfo",
            format!("the provider returned {code} ({text})"),
        ));
    }
    // SAFETY: the provider hands over the list.
    let list = unsafe { filtered(adopt(external, list, request.version), request) };
    if list.is_null() {
        return Err(failed(
            "fi_getinfo",
            "the provider returned nothing that is asked for",
        ));
    }
    log::debug!(external.name, Core, "fi_getinfo succeeded");
    Ok(list)
}

/// Checks what concerns the provider as a whole.
///
/// # Safety
/// The hints are null or valid.
unsafe fn admitted(external: &External, request: &InfoRequest<'_>) -> Result<(), Reason> {
    // SAFETY: the caller vouches for the hints, whose attributes and strings are null or valid.
    let asked = unsafe {
        let fabric = request
            .hints
            .as_ref()
            .and_then(|hints| hints.fabric_attr.as_ref());
        text(fabric.map_or(ptr::null(), |fabric| fabric.prov_name))
    };
    if !is_meant(asked.as_deref().unwrap_or(""), external) {
        return Err(Reason::Lacks {
            field: "fabric_attr.prov_name",
            wanted: asked.unwrap_or_default(),
            offered: external.name.to_owned(),
        });
    }
    if let Some(why) = request
        .requester()
        .refuses(external.name, asked.as_deref().unwrap_or(""))
    {
        return Err(failed("flags", why));
    }
    // A list of providers to use names those at the bottom: one that layers over them needs no mention.
    let layers = external.is_utility() && !request.filter.is_negated();
    if !layers && !request.filter.admits_core(external.name) {
        let why = format!("FI_PROVIDER={} leaves this provider out", request.filter);
        return Err(failed("fabric_attr.prov_name", why));
    }
    if external.fi_version < request.version {
        let (has, asks) = (dotted(external.fi_version), dotted(request.version));
        let why =
            format!("the provider was built for the API {has}; the application asks for {asks}");
        return Err(failed("version", why));
    }
    Ok(())
}

/// Returns whether a provider name, as hints give it, can be met by a provider. Source: fi_provider(7).
fn is_meant(asked: &str, external: &External) -> bool {
    let name = external.name;
    let mut parts: Vec<&str> = asked.split(';').filter(|part| !part.is_empty()).collect();
    while let Some(excluded) = parts.last().and_then(|part| part.strip_prefix('^')) {
        if excluded.eq_ignore_ascii_case(name) {
            return false;
        }
        parts.pop();
    }
    match parts[..] {
        [] => true,
        // A provider that layers may come over the one that was asked for.
        [only] if external.is_utility() && !is_utility(only) => Requester::may_layer(only),
        [utility, core] if is_utility(utility) && !is_utility(core) => {
            utility.eq_ignore_ascii_case(name)
        }
        [.., top] => top.eq_ignore_ascii_case(name),
    }
}

/// Takes entries out of a list that FI_PROVIDER, FI_ADDR_FORMAT or the names in the hints leave out, and returns the rest.
///
/// # Safety
/// The list belongs to the caller; the hints are null or valid.
unsafe fn filtered(mut list: *mut fi_info, request: &InfoRequest<'_>) -> *mut fi_info {
    let mut kept = ptr::null_mut();
    let mut end: *mut *mut fi_info = &mut kept;
    // SAFETY: every entry is taken off the list before it is kept or released.
    unsafe {
        while !list.is_null() {
            let entry = list;
            list = (*entry).next;
            (*entry).next = ptr::null_mut();
            if is_wanted(&*entry, request) {
                *end = entry;
                end = &raw mut (*entry).next;
            } else {
                free(entry);
            }
        }
    }
    kept
}

/// Returns whether an entry of an external provider matches the request.
///
/// # Safety
/// Entry and hints are valid.
unsafe fn is_wanted(entry: &fi_info, request: &InfoRequest<'_>) -> bool {
    if !admits_format(entry.addr_format) {
        return false;
    }
    // SAFETY: attributes and strings are null or valid.
    unsafe {
        let name_of = |info: &fi_info| {
            let fabric = info
                .fabric_attr
                .as_ref()
                .and_then(|fabric| text(fabric.name));
            let domain = info
                .domain_attr
                .as_ref()
                .and_then(|domain| text(domain.name));
            (fabric, domain)
        };
        let stack = entry
            .fabric_attr
            .as_ref()
            .and_then(|fabric| text(fabric.prov_name));
        let stack = stack.as_deref().unwrap_or("");
        if !request.requester().is_provider() && !request.filter.admits_stack(stack) {
            return false;
        }
        let Some(hints) = request.hints.as_ref() else {
            return true;
        };
        let (asked, has) = (name_of(hints), name_of(entry));
        same(asked.0.as_deref(), has.0.as_deref()) && same(asked.1.as_deref(), has.1.as_deref())
    }
}

fn same(asked: Option<&str>, has: Option<&str>) -> bool {
    asked.is_none_or(|asked| has.is_some_and(|has| has.eq_ignore_ascii_case(asked)))
}

fn failed(field: &'static str, why: impl Into<String>) -> Reason {
    Reason::Failed {
        field,
        why: why.into(),
    }
}

/// Copies a C string; `None` for null.
///
/// # Safety
/// `text` is null or a string.
unsafe fn text(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller vouches for the string.
    Some(
        unsafe { CStr::from_ptr(text) }
            .to_string_lossy()
            .into_owned(),
    )
}
