//! Names into addresses.

use std::ffi::{CStr, CString};
use std::mem;
use std::net::SocketAddr;
use std::ptr;

use super::RawAddr;

/// Resolves a host and a service as getaddrinfo(3) does.
///
/// `v6` limits the answer to one family, `passive` makes no host mean "all addresses", `numeric` forbids
/// look-ups.
pub(crate) fn resolve(
    node: Option<&str>,
    service: Option<&str>,
    v6: Option<bool>,
    passive: bool,
    numeric: bool,
) -> Result<Vec<SocketAddr>, String> {
    let node = node.map(c_string).transpose()?;
    let service = service.map(c_string).transpose()?;
    // SAFETY: the structure consists of integers and pointers, for which zero is valid.
    let mut hints: libc::addrinfo = unsafe { mem::zeroed() };
    hints.ai_socktype = libc::SOCK_STREAM;
    hints.ai_family = match v6 {
        None => libc::AF_UNSPEC,
        Some(false) => libc::AF_INET,
        Some(true) => libc::AF_INET6,
    };
    if passive {
        hints.ai_flags |= libc::AI_PASSIVE;
    }
    if numeric {
        hints.ai_flags |= libc::AI_NUMERICHOST;
    }
    let mut first: *mut libc::addrinfo = ptr::null_mut();
    let pointer = |text: &Option<CString>| text.as_ref().map_or(ptr::null(), |text| text.as_ptr());
    // SAFETY: the texts are C strings or null, the hints are initialised, `first` is valid for the result.
    let code = unsafe {
        libc::getaddrinfo(
            pointer(&node),
            pointer(&service),
            &raw const hints,
            &raw mut first,
        )
    };
    if code != 0 {
        return Err(explain(code));
    }
    let mut found = Vec::new();
    let mut next = first;
    // SAFETY: the list that getaddrinfo returned ends with null and stays valid until it is freed below.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ai_next;
        // SAFETY: the address of a list entry is complete.
        found.extend(unsafe { RawAddr::read(entry.ai_addr) });
    }
    // SAFETY: the list came from getaddrinfo, and nothing refers to it any more.
    unsafe { libc::freeaddrinfo(first) };
    Ok(found)
}

fn c_string(text: &str) -> Result<CString, String> {
    CString::new(text).map_err(|_| "it contains a zero byte".into())
}

fn explain(code: libc::c_int) -> String {
    // SAFETY: gai_strerror returns a constant C string for every code.
    let text = unsafe { CStr::from_ptr(libc::gai_strerror(code)) };
    text.to_string_lossy().into_owned()
}
