//! Socket addresses as the kernel wants them.

use std::fmt;
use std::mem;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// A socket address as the kernel wants it.
#[repr(C)]
pub union RawAddr {
    any: libc::sockaddr,
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
    storage: libc::sockaddr_storage,
}

impl RawAddr {
    /// Makes room for the kernel to fill.
    pub fn zeroed() -> Self {
        // SAFETY: all variants are plain integers, for which zero is valid.
        unsafe { mem::zeroed() }
    }

    /// Makes the structure of an address; also returns how many bytes of it count.
    pub fn of(address: &SocketAddr) -> (Self, libc::socklen_t) {
        let mut raw = Self::zeroed();
        let len = match address {
            SocketAddr::V4(v4) => {
                raw.v4 = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: v4.port().to_be(),
                    sin_addr: libc::in_addr {
                        s_addr: u32::from_ne_bytes(v4.ip().octets()),
                    },
                    sin_zero: [0; 8],
                };
                mem::size_of::<libc::sockaddr_in>()
            }
            SocketAddr::V6(v6) => {
                raw.v6 = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo(),
                    sin6_addr: libc::in6_addr {
                        s6_addr: v6.ip().octets(),
                    },
                    sin6_scope_id: v6.scope_id(),
                };
                mem::size_of::<libc::sockaddr_in6>()
            }
        };
        (raw, len as libc::socklen_t)
    }

    /// Reads what the kernel filled in; `None` for another family than IPv4 and IPv6.
    #[inline]
    pub fn address(&self) -> Option<SocketAddr> {
        // SAFETY: every variant starts with the family, and the union was zeroed before the kernel filled it.
        let family = libc::c_int::from(unsafe { self.any.sa_family });
        match family {
            libc::AF_INET => {
                // SAFETY: the family says that this variant was filled; all its values are valid.
                let v4 = unsafe { self.v4 };
                let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
                Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
            }
            libc::AF_INET6 => {
                // SAFETY: the family says that this variant was filled; all its values are valid.
                let v6 = unsafe { self.v6 };
                let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                let port = u16::from_be(v6.sin6_port);
                Some(SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into())
            }
            _ => None,
        }
    }

    /// Reads an address that libc allocated.
    ///
    /// # Safety
    /// `from` is null, or points to a socket address as long as its family asks for.
    pub unsafe fn read(from: *const libc::sockaddr) -> Option<SocketAddr> {
        if from.is_null() {
            return None;
        }
        let mut raw = Self::zeroed();
        // SAFETY: the caller says that it points to a socket address.
        match libc::c_int::from(unsafe { (*from).sa_family }) {
            // SAFETY: as above, and of this family.
            libc::AF_INET => raw.v4 = unsafe { from.cast::<libc::sockaddr_in>().read_unaligned() },
            libc::AF_INET6 => {
                // SAFETY: as above, and of this family.
                raw.v6 = unsafe { from.cast::<libc::sockaddr_in6>().read_unaligned() };
            }
            _ => return None,
        }
        raw.address()
    }
}

impl fmt::Debug for RawAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address().fmt(f)
    }
}
