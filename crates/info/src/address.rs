//! Addresses of `fi_info` as bytes: socket addresses and names. Source: fi_getinfo(3) "Addressing formats".

use alloc::vec::Vec;
use core::ffi::{CStr, c_void};
use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use core::slice;

use oxifabric_abi::{FI_ADDR_EFA, FI_ADDR_STR, FI_FORMAT_UNSPEC, FI_SOCKADDR, FI_SOCKADDR_IN};
use oxifabric_abi::{FI_SOCKADDR_IN6, FI_SOCKADDR_IP};
use oxifabric_types::{Address, EfaAddress, Errno};

use crate::system;

/// Sizes of `struct sockaddr_in` and `struct sockaddr_in6`.
const IN_SIZE: usize = 16;
const IN6_SIZE: usize = 28;

/// The longest address, in bytes: a name that is a path. A longer one is refused.
const LONGEST: usize = system::PATH_MAX as usize;

/// Reads an address of the given format; `None` for a null or empty one.
///
/// # Errors
/// `INVAL` for bytes that are no address of that format, or a format that no provider here has.
///
/// # Safety
/// `addr` is null or has `len` readable bytes.
pub unsafe fn address_from_c(
    addr: *const c_void,
    len: usize,
    format: u32,
) -> Result<Option<Address>, Errno> {
    if addr.is_null() || len == 0 {
        return Ok(None);
    }
    if len > LONGEST {
        return Err(Errno::INVAL);
    }
    // SAFETY: the caller vouches for `len` bytes.
    let bytes = unsafe { slice::from_raw_parts(addr.cast::<u8>(), len) };
    let address = address_from_bytes(bytes, format);
    address.map(Some).ok_or(Errno::INVAL)
}

/// Reads an address of the given format; `None` for bytes that are no address of it.
pub fn address_from_bytes(bytes: &[u8], format: u32) -> Option<Address> {
    match format {
        FI_SOCKADDR | FI_SOCKADDR_IP | FI_SOCKADDR_IN | FI_SOCKADDR_IN6 => parse_inet(bytes),
        FI_ADDR_STR => parse_name(bytes),
        FI_ADDR_EFA => EfaAddress::from_bytes(bytes).map(Address::Efa),
        FI_FORMAT_UNSPEC => parse_inet(bytes).or_else(|| parse_name(bytes)),
        _ => None,
    }
}

/// Returns the bytes of an address and its format, as C programs expect them.
pub fn address_to_c(address: &Address) -> (Vec<u8>, u32) {
    match address {
        Address::Inet(SocketAddr::V4(at)) => (emit_v4(at).to_vec(), FI_SOCKADDR_IN),
        Address::Inet(SocketAddr::V6(at)) => (emit_v6(at).to_vec(), FI_SOCKADDR_IN6),
        Address::Name(name) => {
            let mut bytes = Vec::from(name.as_bytes());
            bytes.push(0);
            (bytes, FI_ADDR_STR)
        }
        Address::Efa(at) => (at.to_bytes().to_vec(), FI_ADDR_EFA),
    }
}

fn parse_inet(bytes: &[u8]) -> Option<Address> {
    let (family, rest) = bytes.split_first_chunk::<2>()?;
    let port = u16::from_be_bytes(*rest.first_chunk()?);
    match i32::from(u16::from_ne_bytes(*family)) {
        system::AF_INET if bytes.len() >= IN_SIZE => {
            let ip: [u8; 4] = *bytes[4..].first_chunk()?;
            let at = SocketAddrV4::new(Ipv4Addr::from(ip), port);
            Some(Address::Inet(SocketAddr::V4(at)))
        }
        system::AF_INET6 if bytes.len() >= IN6_SIZE => {
            let flow = u32::from_be_bytes(*bytes[4..].first_chunk()?);
            let ip: [u8; 16] = *bytes[8..].first_chunk()?;
            let scope = u32::from_ne_bytes(*bytes[24..].first_chunk()?);
            let at = SocketAddrV6::new(Ipv6Addr::from(ip), port, flow, scope);
            Some(Address::Inet(SocketAddr::V6(at)))
        }
        _ => None,
    }
}

/// Reads a name, which ends at its first zero byte or with the bytes.
fn parse_name(bytes: &[u8]) -> Option<Address> {
    let name = match CStr::from_bytes_until_nul(bytes) {
        Ok(name) => name.to_bytes(),
        Err(_) => bytes,
    };
    let name = str::from_utf8(name).ok().filter(|name| !name.is_empty())?;
    Some(Address::Name(name.into()))
}

fn emit_v4(at: &SocketAddrV4) -> [u8; IN_SIZE] {
    let mut bytes = [0; IN_SIZE];
    bytes[..2].copy_from_slice(&(system::AF_INET as u16).to_ne_bytes());
    bytes[2..4].copy_from_slice(&at.port().to_be_bytes());
    bytes[4..8].copy_from_slice(&at.ip().octets());
    bytes
}

fn emit_v6(at: &SocketAddrV6) -> [u8; IN6_SIZE] {
    let mut bytes = [0; IN6_SIZE];
    bytes[..2].copy_from_slice(&(system::AF_INET6 as u16).to_ne_bytes());
    bytes[2..4].copy_from_slice(&at.port().to_be_bytes());
    bytes[4..8].copy_from_slice(&at.flowinfo().to_be_bytes());
    bytes[8..24].copy_from_slice(&at.ip().octets());
    bytes[24..].copy_from_slice(&at.scope_id().to_ne_bytes());
    bytes
}
