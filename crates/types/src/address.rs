//! Addresses of endpoints and the small numbers that stand for them.

use alloc::boxed::Box;
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
