//! Addresses of endpoints and the small numbers that stand for them.

use alloc::boxed::Box;
use alloc::format;
use core::fmt;
use core::net::{Ipv6Addr, SocketAddr};

/// The address of an endpoint in one of the formats of fi_getinfo(3) "addr_format".
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Address {
    /// FI_SOCKADDR_IN or FI_SOCKADDR_IN6.
    Inet(SocketAddr),
    /// FI_ADDR_STR: a name such as `fi_shm://1234`, without the closing zero byte.
    Name(Box<str>),
    /// FI_ADDR_EFA.
    Efa(EfaAddress),
}

/// The address of an endpoint of an EFA device: its port and its queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EfaAddress {
    /// The address of the port.
    pub gid: [u8; 16],
    /// The number of the queue pair; zero in offers, where there is none yet.
    pub qpn: u16,
    /// The queue key (QKEY) of the queue pair, which messages to it have to carry: it tells apart queue pairs that have the same number one
    /// after the other.
    pub connid: u32,
}

impl EfaAddress {
    /// Length of the address in C programs, in bytes.
    pub const SIZE: usize = 32;

    /// Reads it as C programs have it; `None` if there are too few bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::SIZE] = bytes.first_chunk()?;
        Some(Self {
            gid: *bytes.first_chunk()?,
            qpn: u16::from_ne_bytes([bytes[16], bytes[17]]),
            connid: u32::from_ne_bytes([bytes[20], bytes[21], bytes[22], bytes[23]]),
        })
    }

    /// Returns it as C programs have it: two bytes between the numbers and eight behind them are zero.
    pub fn to_bytes(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[..16].copy_from_slice(&self.gid);
        bytes[16..18].copy_from_slice(&self.qpn.to_ne_bytes());
        bytes[20..24].copy_from_slice(&self.connid.to_ne_bytes());
        bytes
    }
}

impl fmt::Display for EfaAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gid = Ipv6Addr::from(self.gid);
        write!(f, "fi_addr_efa://[{gid}]:{}:{}", self.qpn, self.connid)
    }
}

impl fmt::Debug for EfaAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Address {
    /// Returns the address of context `index` of a scalable endpoint at this address: that many ports further, or under the name
    /// with the index appended. The first context has the address of the endpoint. `None` beyond the last port.
    pub fn context(&self, index: usize) -> Option<Self> {
        match self {
            _ if index == 0 => Some(self.clone()),
            Self::Inet(at) => {
                let port = at.port().checked_add(u16::try_from(index).ok()?)?;
                let mut at = *at;
                at.set_port(port);
                Some(Self::Inet(at))
            }
            Self::Name(name) => Some(Self::Name(format!("{name}#{index}").into())),
            Self::Efa(_) => None,
        }
    }

    /// Returns the address of the endpoint whose context `index` has this address; the reverse of [`Address::context`].
    pub fn of_context(&self, index: usize) -> Option<Self> {
        match self {
            _ if index == 0 => Some(self.clone()),
            Self::Inet(at) => {
                let port = at.port().checked_sub(u16::try_from(index).ok()?)?;
                let mut at = *at;
                at.set_port(port);
                (port != 0).then_some(Self::Inet(at))
            }
            Self::Name(name) => {
                let (base, number) = name.rsplit_once('#')?;
                let same = number.parse() == Ok(index) && !number.starts_with(['0', '+']);
                same.then(|| Self::Name(base.into()))
            }
            Self::Efa(_) => None,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inet(at) => at.fmt(f),
            Self::Name(name) => f.write_str(name),
            Self::Efa(at) => at.fmt(f),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What the application calls a peer: an index that an address vector gave out (`fi_addr_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct FiAddr(pub u64);

impl FiAddr {
    /// No address, or any address (`FI_ADDR_UNSPEC`, `FI_ADDR_NOTAVAIL`).
    pub const UNSPEC: Self = Self(u64::MAX);
}

/// What an endpoint calls a peer: a dense index that its link gave out, valid while the endpoint is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct PeerId(pub u32);

impl PeerId {
    /// No peer, or any peer.
    pub const ANY: Self = Self(u32::MAX);

    /// Returns the index into a table with one row a peer.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    fn inet(text: &str) -> Address {
        Address::Inet(text.parse().expect("a socket address"))
    }

    #[test]
    fn contexts_of_an_endpoint_are_found_from_its_address_and_back() {
        for base in [
            inet("10.0.0.1:5000"),
            inet("[::1]:5000"),
            Address::Name("fi_shm://7".into()),
        ] {
            assert_eq!(base.context(0), Some(base.clone()));
            for index in [0, 1, 12] {
                let context = base.context(index).expect("a context");
                assert_eq!(context.of_context(index), Some(base.clone()));
            }
        }
        assert_eq!(
            inet("10.0.0.1:5000").context(3),
            Some(inet("10.0.0.1:5003"))
        );
    }

    #[test]
    fn an_address_of_an_efa_device_has_32_bytes_and_a_text() {
        let mut gid = [0; 16];
        (gid[0], gid[1], gid[8], gid[9]) = (0xfe, 0x80, 8, 0xe7);
        let at = EfaAddress {
            gid,
            qpn: 0x1234,
            connid: 0x0102_0304,
        };
        let bytes = at.to_bytes();
        assert_eq!(bytes[16..24], [0x34, 0x12, 0, 0, 4, 3, 2, 1]);
        assert_eq!(EfaAddress::from_bytes(&bytes), Some(at));
        assert_eq!(EfaAddress::from_bytes(&bytes[..31]), None);
        let address = Address::Efa(at);
        assert_eq!(
            address.to_string(),
            "fi_addr_efa://[fe80::8e7:0:0:0]:4660:16909060"
        );
        assert_eq!((address.context(1), address.of_context(1)), (None, None));
    }

    #[test]
    fn contexts_that_no_endpoint_can_have() {
        assert_eq!(inet("10.0.0.1:65535").context(1), None);
        assert_eq!(inet("10.0.0.1:1").of_context(1), None);
        assert_eq!(inet("10.0.0.1:1").context(70_000), None);
        for name in ["plain", "a#", "a#x", "a#02", "a#+2"] {
            assert_eq!(Address::Name(name.into()).of_context(2), None, "{name}");
        }
    }
}
