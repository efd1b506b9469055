//! Addresses of endpoints and the small numbers that stand for them.

use alloc::boxed::Box;
use alloc::format;
use core::fmt;
use core::net::SocketAddr;

/// The address of an endpoint in one of the formats of fi_getinfo(3) "addr_format".
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Address {
    /// FI_SOCKADDR_IN or FI_SOCKADDR_IN6.
    Inet(SocketAddr),
    /// FI_ADDR_STR: a name such as `fi_shm://1234`, without the closing zero byte.
    Name(Box<str>),
}

impl Address {
    /// Returns where context `index` of a scalable endpoint at this address is: that many ports further, or under the name
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
        }
    }

    /// Returns where the endpoint is whose context `index` has this address; the reverse of [`Address::context`].
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
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inet(at) => at.fmt(f),
            Self::Name(name) => f.write_str(name),
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
    fn contexts_that_no_endpoint_can_have() {
        assert_eq!(inet("10.0.0.1:65535").context(1), None);
        assert_eq!(inet("10.0.0.1:1").of_context(1), None);
        assert_eq!(inet("10.0.0.1:1").context(70_000), None);
        for name in ["plain", "a#", "a#x", "a#02", "a#+2"] {
            assert_eq!(Address::Name(name.into()).of_context(2), None, "{name}");
        }
    }
}
