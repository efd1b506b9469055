//! All system calls of the provider, and all its unsafe code.
//!
//! - [`socket`]: stream sockets that never wait.
//! - [`poller`]: epoll and a timer, to sleep on many sockets at once.

mod poller;
mod socket;

pub(crate) use poller::{Event, Interest, Poller};
pub(crate) use socket::{Connecting, Delivery, Socket};

use std::io;

use oxifabric_types::Errno;

/// Returns the error that C callers get for a failed system call.
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

/// Registers a function to call when the process ends in order, or the library is unloaded.
pub(crate) fn at_exit(call: extern "C" fn()) {
    // SAFETY: the function is the library's, and the C library calls it before it unloads it. Without memory for the
    // entry it is not called.
    unsafe { libc::atexit(call) };
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
        // SAFETY: the memory is leaked, and only the Iov refers to it.
        unsafe { Iov::scattered(&pieces) }.expect("tests use few pieces")
    }

    /// Makes a socket vanish when it is closed, without a packet to the peer, as if its host had lost its power; false
    /// without the right to do so (tcp(7), TCP_REPAIR).
    pub(crate) fn forget(socket: &super::Socket) -> bool {
        let on: libc::c_int = 1;
        let len = size_of_val(&on) as libc::socklen_t;
        let at = (&raw const on).cast();
        // SAFETY: the value has the stated length.
        unsafe { libc::setsockopt(socket.fd(), libc::IPPROTO_TCP, libc::TCP_REPAIR, at, len) == 0 }
    }

    /// Returns how the packets of a socket for IPv4 are marked.
    pub(crate) fn type_of_service(fd: RawFd) -> libc::c_int {
        let (mut value, mut len) = (-1, size_of::<libc::c_int>() as libc::socklen_t);
        let (at, len) = ((&raw mut value).cast(), &raw mut len);
        // SAFETY: the value has the stated length.
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
