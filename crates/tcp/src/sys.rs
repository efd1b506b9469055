//! Everything that the provider asks of the operating system, and all its unsafe code.
//!
//! - [`socket`]: stream sockets that never wait.
//! - [`poller`]: epoll and a timer, to sleep on many sockets at once.
//! - [`netif`]: the addresses of this host.
//! - [`resolver`]: names into addresses.

mod netif;
mod poller;
mod resolver;
mod socket;

pub(crate) use netif::{Interface, interfaces};
pub(crate) use poller::{Event, Interest, Poller, Timer};
pub(crate) use resolver::resolve;
pub(crate) use socket::{Connecting, Delivery, Socket};

use std::io;
use std::mem;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use oxifabric_types::Errno;

/// Returns what C callers are told about a failed system call.
pub(crate) fn errno_of(error: &io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO))
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

fn check_len(result: libc::ssize_t) -> io::Result<usize> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result as usize)
    }
}

/// A socket address as the kernel wants it.
#[repr(C)]
union RawAddr {
    any: libc::sockaddr,
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
    storage: libc::sockaddr_storage,
}

impl RawAddr {
    fn zeroed() -> Self {
        // SAFETY: all variants are plain integers, for which zero is valid.
        unsafe { mem::zeroed() }
    }

    fn of(address: &SocketAddr) -> (Self, libc::socklen_t) {
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

    fn address(&self) -> Option<SocketAddr> {
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
    unsafe fn read(from: *const libc::sockaddr) -> Option<SocketAddr> {
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

/// What tests need of the operating system.
#[cfg(test)]
pub(crate) mod testing {
    use std::os::fd::RawFd;

    use oxifabric_mem::{Iov, IovSegment};

    /// Lends memory that is never given back, in pieces of these lengths.
    pub(crate) fn memory(lengths: &[usize]) -> Iov {
        let pieces: Vec<_> = lengths
            .iter()
            .map(|len| {
                let memory = Box::leak(vec![0u8; *len].into_boxed_slice());
                IovSegment::new(memory.as_mut_ptr(), *len)
            })
            .collect();
        // SAFETY: the memory is leaked, and only the Iov knows of it.
        unsafe { Iov::scattered(&pieces) }.expect("tests use few pieces")
    }

    /// Returns how the packets of a socket for IPv4 are marked.
    pub(crate) fn type_of_service(fd: RawFd) -> libc::c_int {
        let (mut value, mut len) = (-1, size_of::<libc::c_int>() as libc::socklen_t);
        let (at, len) = ((&raw mut value).cast(), &raw mut len);
        // SAFETY: the value is as long as said.
        unsafe { libc::getsockopt(fd, libc::IPPROTO_IP, libc::IP_TOS, at, len) };
        value
    }

    /// Waits until a descriptor is readable, or a watchdog's time is over.
    pub(crate) fn wait_readable(fd: RawFd, watchdog_ms: i32) -> bool {
        let mut poll = libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one valid entry is passed.
        unsafe { libc::poll(&raw mut poll, 1, watchdog_ms) == 1 }
    }
}
