//! Addresses of endpoints, in the formats of providers. Source: fi_getinfo(3) "addr_format".

use core::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use oxifabric_abi::{FI_ADDR_EFA, FI_ADDR_STR, FI_SOCKADDR, FI_SOCKADDR_IN, FI_SOCKADDR_IN6};
use oxifabric_types::{EfaAddress, format_name};

/// The format of an address, with the value of the C header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AddressFormat(pub u32);

impl AddressFormat {
    /// FI_SOCKADDR_IN: an IPv4 address and a port.
    pub const INET: Self = Self(FI_SOCKADDR_IN);
    /// FI_SOCKADDR_IN6: an IPv6 address and a port.
    pub const INET6: Self = Self(FI_SOCKADDR_IN6);
    /// FI_ADDR_STR: a name.
    pub const NAME: Self = Self(FI_ADDR_STR);
}

impl fmt::Display for AddressFormat {
    /// Writes the C name, such as `FI_SOCKADDR_IN`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format_name(self.0))
    }
}

/// The address of an endpoint: what one process sends another so that it can be reached.
///
/// The bytes are those that the provider uses, so they may travel between processes as they are.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Address {
    format: AddressFormat,
    bytes: Box<[u8]>,
}

impl Address {
    /// Makes an address of bytes in the given format, as [`Address::bytes`] returned them.
    pub fn new(format: AddressFormat, bytes: &[u8]) -> Self {
        let bytes = bytes.into();
        Self { format, bytes }
    }

    /// Returns its format.
    pub fn format(&self) -> AddressFormat {
        self.format
    }

    /// Returns its bytes, in the provider's layout.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the internet address and port, if it has that format.
    pub fn socket(&self) -> Option<SocketAddr> {
        if !matches!(
            self.format.0,
            FI_SOCKADDR | FI_SOCKADDR_IN | FI_SOCKADDR_IN6
        ) {
            return None;
        }
        parse_socket(&self.bytes)
    }

    /// Returns the name, if it has that format, without the zero byte at its end.
    pub fn name(&self) -> Option<&str> {
        if self.format != AddressFormat::NAME {
            return None;
        }
        let end = self.bytes.iter().position(|byte| *byte == 0);
        core::str::from_utf8(&self.bytes[..end.unwrap_or(self.bytes.len())]).ok()
    }

    /// Returns whether the address is one of this format; if not, what was expected.
    pub(crate) fn check(&self, format: AddressFormat) -> Result<(), String> {
        if self.format != format {
            let its = self.format;
            return Err(format!(
                "{self} is an address of the format {its}, and those of this domain are {format}; use one that an endpoint of the same provider has (`Endpoint::address`)"
            ));
        }
        if !self.is_whole() {
            let bytes = match self.bytes.len() {
                0 => "no bytes".to_owned(),
                len => format!("these {len} bytes, {self},"),
            };
            return Err(format!(
                "{bytes} are no address of the format {format}; pass those of `Address::bytes` of the peer, all of them"
            ));
        }
        Ok(())
    }

    /// Returns whether the bytes are long enough for the format: only then may a provider read them.
    pub(crate) fn is_whole(&self) -> bool {
        match self.format.0 {
            FI_SOCKADDR | FI_SOCKADDR_IN | FI_SOCKADDR_IN6 => self.socket().is_some(),
            FI_ADDR_STR => self.bytes.contains(&0),
            FI_ADDR_EFA => EfaAddress::from_bytes(&self.bytes).is_some(),
            _ => !self.bytes.is_empty(),
        }
    }
}

/// Reads a `sockaddr_in` or `sockaddr_in6`.
fn parse_socket(bytes: &[u8]) -> Option<SocketAddr> {
    const INET: u16 = libc::AF_INET as u16;
    const INET6: u16 = libc::AF_INET6 as u16;
    let family = u16::from_ne_bytes(array(bytes, 0)?);
    let port = u16::from_be_bytes(array(bytes, 2)?);
    match family {
        INET => {
            let ip = Ipv4Addr::from(array::<4>(bytes, 4)?);
            Some(SocketAddr::new(IpAddr::V4(ip), port))
        }
        INET6 => {
            let flow = u32::from_be_bytes(array(bytes, 4)?);
            let ip = Ipv6Addr::from(array::<16>(bytes, 8)?);
            let scope = u32::from_ne_bytes(array(bytes, 24)?);
            Some(SocketAddrV6::new(ip, port, flow, scope).into())
        }
        _ => None,
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

impl From<SocketAddr> for Address {
    fn from(socket: SocketAddr) -> Self {
        let mut bytes = Vec::with_capacity(28);
        match socket {
            SocketAddr::V4(v4) => {
                bytes.extend((libc::AF_INET as u16).to_ne_bytes());
                bytes.extend(v4.port().to_be_bytes());
                bytes.extend(v4.ip().octets());
                bytes.extend([0; 8]);
                Self::new(AddressFormat::INET, &bytes)
            }
            SocketAddr::V6(v6) => {
                bytes.extend((libc::AF_INET6 as u16).to_ne_bytes());
                bytes.extend(v6.port().to_be_bytes());
                bytes.extend(v6.flowinfo().to_be_bytes());
                bytes.extend(v6.ip().octets());
                bytes.extend(v6.scope_id().to_ne_bytes());
                Self::new(AddressFormat::INET6, &bytes)
            }
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(socket) = self.socket() {
            return socket.fmt(f);
        }
        if let Some(name) = self.name() {
            return f.write_str(name);
        }
        if self.format.0 == FI_ADDR_EFA
            && let Some(at) = EfaAddress::from_bytes(&self.bytes)
        {
            return at.fmt(f);
        }
        self.bytes
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn internet_addresses_survive_the_layout_of_c() {
        for text in ["127.0.0.1:4711", "[::1]:80", "[fe80::1%3]:65535"] {
            let socket: SocketAddr = text.parse().unwrap();
            let address = Address::from(socket);
            assert_eq!(address.socket(), Some(socket));
            assert_eq!(address.to_string(), text);
            assert!(address.is_whole());
        }
    }

    #[test]
    fn short_addresses_are_not_whole() {
        let whole = Address::from(SocketAddr::from(([10, 0, 0, 1], 7)));
        let short = Address::new(AddressFormat::INET, &whole.bytes()[..7]);
        assert!(!short.is_whole());
        assert_eq!(short.to_string(), "020000070a0000");
        assert!(!Address::new(AddressFormat::NAME, b"fi_shm://1").is_whole());
        let efa = |bytes: &[u8]| Address::new(AddressFormat(FI_ADDR_EFA), bytes);
        assert!(!efa(&[0; 31]).is_whole() && efa(&[0; 32]).is_whole());
        assert_eq!(efa(&[0; 32]).to_string(), "fi_addr_efa://[::]:0:0");
    }

    #[test]
    fn names_end_at_their_zero() {
        let name = Address::new(AddressFormat::NAME, b"fi_shm://1\0\0\0");
        assert_eq!(name.name(), Some("fi_shm://1"));
        assert!(name.is_whole());
    }
}
