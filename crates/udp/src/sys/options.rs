//! Socket options for multicast.

use std::ffi::CString;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::{Socket, check};

/// A network interface for the traffic of groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interface {
    /// The one that the kernel chooses.
    Any,
    /// The one with this address.
    At(Ipv4Addr),
    /// The one with this number.
    Number(u32),
}

impl Interface {
    /// Finds an interface by its name; any interface if none has it.
    pub(crate) fn named(name: &str) -> Self {
        let Ok(name) = CString::new(name) else {
            return Self::Any;
        };
        // SAFETY: the name is a C string.
        match unsafe { libc::if_nametoindex(name.as_ptr()) } {
            0 => Self::Any,
            number => Self::Number(number),
        }
    }

    fn v4(self) -> libc::ip_mreqn {
        let address = match self {
            Self::At(address) => address,
            _ => Ipv4Addr::UNSPECIFIED,
        };
        libc::ip_mreqn {
            imr_multiaddr: libc::in_addr { s_addr: 0 },
            imr_address: in_addr(address),
            imr_ifindex: match self {
                Self::Number(number) => number as libc::c_int,
                _ => 0,
            },
        }
    }

    fn v6(self) -> libc::c_uint {
        match self {
            Self::Number(number) => number,
            _ => 0,
        }
    }
}

impl Socket {
    /// Allows other sockets to bind the same address, if they allow it too.
    pub(crate) fn share_address(&self) -> io::Result<()> {
        self.set(libc::SOL_SOCKET, libc::SO_REUSEADDR, &(1 as libc::c_int))
    }

    /// Sends what goes to groups through this interface.
    pub(crate) fn send_groups_through(&self, interface: &Interface) -> io::Result<()> {
        match self.local()? {
            SocketAddr::V4(_) => self.set(libc::IPPROTO_IP, libc::IP_MULTICAST_IF, &interface.v4()),
            SocketAddr::V6(_) => {
                self.set(libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_IF, &interface.v6())
            }
        }
    }

    /// Receives what is sent to a group on an interface. An address with a scope names the interface itself.
    pub(crate) fn join(&self, group: &SocketAddr, interface: &Interface) -> io::Result<()> {
        match (group.ip(), group) {
            (IpAddr::V4(ip), _) => {
                let request = libc::ip_mreqn {
                    imr_multiaddr: in_addr(ip),
                    ..interface.v4()
                };
                self.set(libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP, &request)
            }
            (IpAddr::V6(ip), at) => {
                let scope = match at {
                    SocketAddr::V6(at) => at.scope_id(),
                    SocketAddr::V4(_) => 0,
                };
                let request = libc::ipv6_mreq {
                    ipv6mr_multiaddr: libc::in6_addr {
                        s6_addr: ip.octets(),
                    },
                    ipv6mr_interface: if scope == 0 { interface.v6() } else { scope },
                };
                self.set(libc::IPPROTO_IPV6, libc::IPV6_ADD_MEMBERSHIP, &request)
            }
        }
    }

    pub(super) fn set<T>(
        &self,
        level: libc::c_int,
        option: libc::c_int,
        value: &T,
    ) -> io::Result<()> {
        let len = size_of::<T>() as libc::socklen_t;
        let value = (&raw const *value).cast();
        // SAFETY: the value has `len` bytes.
        check(unsafe { libc::setsockopt(self.fd(), level, option, value, len) }).map(drop)
    }
}

fn in_addr(ip: Ipv4Addr) -> libc::in_addr {
    libc::in_addr {
        s_addr: u32::from_ne_bytes(ip.octets()),
    }
}
