//! IP addresses for providers: which ones this host has, names into addresses, and addresses as the kernel wants them.

mod lookup;
mod netif;
mod place;
mod raw;
mod resolver;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use oxifabric_abi::FI_SOCKADDR_IN6;
use oxifabric_types::{Address, Errno, Info};

pub use lookup::{resolve, source_for};
pub use place::{Place, addresses};
pub use raw::RawAddr;

/// Decides where an endpoint is: where the application says, where the peer is reached from, or at the best address of
/// this host, or of the interface `iface`.
///
/// # Errors
/// `INVAL` for an address of another kind.
pub fn local_address(info: &Info, iface: Option<&str>) -> Result<SocketAddr, Errno> {
    if let Some(src) = &info.src {
        return inet(src);
    }
    if let Some(src) = info.dest.as_ref().and_then(source_for) {
        return inet(&src);
    }
    let v6 = info.addr_format == FI_SOCKADDR_IN6;
    let best = addresses(iface)
        .into_iter()
        .map(|found| found.at)
        .find(|at| at.is_ipv6() == v6);
    Ok(best.unwrap_or_else(|| {
        let any: IpAddr = if v6 {
            Ipv6Addr::UNSPECIFIED.into()
        } else {
            Ipv4Addr::UNSPECIFIED.into()
        };
        SocketAddr::new(any, 0)
    }))
}

fn inet(address: &Address) -> Result<SocketAddr, Errno> {
    match address {
        Address::Inet(at) => Ok(*at),
        Address::Name(_) | Address::Efa(_) => Err(Errno::INVAL),
    }
}
