//! Addresses as the application lays them out in arrays and as people read them: fi_av(3).

use core::ffi::{CStr, c_void};
use std::net::SocketAddr;

use oxifabric_abi::{
    FI_ADDR_EFA, FI_ADDR_STR, FI_SOCKADDR, FI_SOCKADDR_IN, FI_SOCKADDR_IN6, FI_SOCKADDR_IP,
};
use oxifabric_types::{Address, EfaAddress, Errno};

use crate::info::address_from_c;

/// Sizes of `struct sockaddr_in` and `struct sockaddr_in6`.
const IN_SIZE: usize = 16;
const IN6_SIZE: usize = 28;

/// One address of an array: what it says, and where the next one begins.
pub(crate) struct Read {
    /// The address; `ADDRNOTAVAIL` when no endpoint can have it.
    pub(crate) address: Result<Address, Errno>,
    /// How many bytes it takes.
    pub(crate) size: usize,
}

/// Reads the address at `at`, in the format of a domain.
///
/// Names (`FI_ADDR_STR`) follow each other, each with its closing zero byte, as upstream's shm has them.
///
/// # Safety
/// An address of that format, or one of an unknown family as long as `struct sockaddr_in`, is there.
pub(crate) unsafe fn read(at: *const c_void, format: u32) -> Read {
    // SAFETY: the caller's contract.
    let size = unsafe { size_at(at, format) };
    // SAFETY: as before, with its size.
    let address = unsafe { address_from_c(at, size, format) };
    let address = match address {
        Ok(Some(address)) if is_reachable(&address) => Ok(address),
        _ => Err(Errno::ADDRNOTAVAIL),
    };
    Read { address, size }
}

/// Returns how many bytes an address takes.
///
/// # Safety
/// As for [`read`].
unsafe fn size_at(at: *const c_void, format: u32) -> usize {
    match format {
        FI_SOCKADDR_IN => IN_SIZE,
        FI_SOCKADDR_IN6 => IN6_SIZE,
        FI_ADDR_EFA => EfaAddress::SIZE,
        // SAFETY: the caller says that a name is there.
        FI_ADDR_STR => unsafe { CStr::from_ptr(at.cast()) }
            .to_bytes_with_nul()
            .len(),
        _ => {
            // SAFETY: every socket address begins with its family; arrays of the application need no alignment.
            let family = unsafe { at.cast::<libc::sa_family_t>().read_unaligned() };
            if libc::c_int::from(family) == libc::AF_INET6 {
                IN6_SIZE
            } else {
                IN_SIZE
            }
        }
    }
}

/// Returns whether a message can be sent there: a port is named, and not every host at once.
fn is_reachable(address: &Address) -> bool {
    match address {
        Address::Inet(at) => at.port() != 0 && !at.ip().is_unspecified(),
        Address::Name(_) => true,
        // A port has an address. Queue pairs are counted from zero.
        Address::Efa(at) => at.gid != [0; 16],
    }
}

/// Returns the longest address of a format in bytes, for buffers; names have none.
pub(crate) const fn format_is_known(format: u32) -> bool {
    matches!(
        format,
        FI_SOCKADDR | FI_SOCKADDR_IP | FI_SOCKADDR_IN | FI_SOCKADDR_IN6 | FI_ADDR_STR | FI_ADDR_EFA
    )
}

/// Spells an address as fi_av_straddr does.
pub(crate) fn spell(address: &Address) -> String {
    match address {
        Address::Inet(SocketAddr::V4(at)) => format!("fi_sockaddr_in://{}:{}", at.ip(), at.port()),
        Address::Inet(SocketAddr::V6(at)) => {
            format!("fi_sockaddr_in6://[{}]:{}", at.ip(), at.port())
        }
        Address::Name(_) | Address::Efa(_) => address.to_string(),
    }
}

/// Reads an address of any value, to be spelled.
///
/// # Safety
/// As for [`read`].
pub(crate) unsafe fn read_any(at: *const c_void, format: u32) -> Option<Address> {
    // SAFETY: the caller's contract.
    unsafe {
        let size = size_at(at, format);
        address_from_c(at, size, format).ok().flatten()
    }
}
