//! All system calls of the provider, and all its unsafe code.
//!
//! - [`socket`]: sockets for datagrams that never wait.
//! - [`options`]: what is set on them for multicast.
//! - [`refusals`]: ICMP answers to packets for closed ports.
//! - [`watch`]: epoll, to sleep on them.

mod options;
mod refusals;
mod socket;
mod watch;

pub(crate) use options::Interface;
pub(crate) use socket::{Outgoing, Socket};
pub(crate) use watch::{Interest, Watch};

use std::io;

use oxifabric_types::Errno;

/// Returns the error that C callers get for a failed system call.
pub(crate) fn errno_of(error: io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO))
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

#[inline]
fn check_len(result: libc::ssize_t) -> io::Result<usize> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result as usize)
    }
}
