//! Everything that the provider asks of the operating system, and all its unsafe code.
//!
//! - [`socket`]: sockets for datagrams that never wait.
//! - [`options`]: what is set on them for multicast.
//! - [`refusals`]: what hosts answer to packets that nobody there wants.
//! - [`watch`]: epoll and a timer, to sleep on them.

mod options;
mod refusals;
mod socket;
mod watch;

pub(crate) use options::Interface;
pub(crate) use socket::{Outgoing, Socket};
pub(crate) use watch::{Interest, Timer, Watch};

use std::io;

use oxifabric_types::{Errno, Instant};

/// Returns what C callers are told about a failed system call.
pub(crate) fn errno_of(error: io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO))
}

/// Reads the monotonic clock.
#[inline]
pub(crate) fn now() -> Instant {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the structure may be written. The call cannot fail for this clock; if it did, time would stand still.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    Instant::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Makes a number that nobody can guess.
pub(crate) fn secret() -> u64 {
    let mut bytes = [0; 8];
    // SAFETY: there is room for as many bytes. So few are always given whole.
    unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    u64::from_ne_bytes(bytes)
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
