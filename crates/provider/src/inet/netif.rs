//! The addresses of this host.

use std::ffi::CStr;
use std::io;
use std::net::SocketAddr;
use std::ptr;

use super::RawAddr;

/// One address of a network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) name: String,
    /// With port zero.
    pub(crate) address: SocketAddr,
    pub(crate) netmask: Option<SocketAddr>,
    pub(crate) loopback: bool,
    /// It leads to one other host, as tunnels of private networks do.
    pub(crate) point_to_point: bool,
    /// It is up and running.
    pub(crate) running: bool,
}

/// Lists the IPv4 and IPv6 addresses of this host, in the kernel's order.
pub(crate) fn interfaces() -> io::Result<Vec<Interface>> {
    let mut first: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: `first` is valid for the result.
    if unsafe { libc::getifaddrs(&raw mut first) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut next = first;
    // SAFETY: the list that getifaddrs returned ends with null and stays valid until it is freed below.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        found.extend(read(entry));
    }
    // SAFETY: the list came from getifaddrs, and nothing refers to it any more.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

fn read(entry: &libc::ifaddrs) -> Option<Interface> {
    // SAFETY: the addresses of a list entry are null or complete.
    let address = unsafe { RawAddr::read(entry.ifa_addr) }?;
    // SAFETY: as above.
    let netmask = unsafe { RawAddr::read(entry.ifa_netmask) };
    // SAFETY: the name of a list entry is a C string.
    let name = unsafe { CStr::from_ptr(entry.ifa_name) };
    let has = |flag: libc::c_int| entry.ifa_flags & flag as libc::c_uint != 0;
    Some(Interface {
        name: name.to_string_lossy().into_owned(),
        address,
        netmask,
        loopback: has(libc::IFF_LOOPBACK),
        point_to_point: has(libc::IFF_POINTOPOINT),
        running: has(libc::IFF_UP) && has(libc::IFF_RUNNING),
    })
}
