//! System calls and shared memory behind safe functions: the only unsafe code of the provider.
//!
//! - [`memory`]: files in memory, mappings, the lanes in them.
//! - [`socket`]: abstract sockets that carry packets and descriptors.
//! - [`wait`]: epoll and its timer.
//! - [`identity`]: which process a number stands for.
//! - [`process`]: other processes' memory, and what a fork leaves of ours.

mod control;
pub(crate) mod identity;
pub(crate) mod memory;
pub(crate) mod process;
pub(crate) mod socket;
pub(crate) mod wait;

use std::io;

use oxifabric_types::Errno;

/// Returns the error number of a failed call.
pub(crate) fn errno(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::IO, Errno::from_raw)
}

/// Turns the -1 of a C call into the error that it set.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Turns the -1 of a C call that returns a size into the error that it set.
fn check_size(result: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}
