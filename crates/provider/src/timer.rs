//! A timer that wakes threads which sleep on descriptors. Set-up path.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::time::Duration;

/// A timer that makes its descriptor readable once.
#[derive(Debug)]
pub struct Timer {
    fd: OwnedFd,
}

impl Timer {
    /// Makes one that is not set.
    ///
    /// # Errors
    /// When the system has no descriptor for it.
    pub fn open() -> io::Result<Self> {
        let flags = libc::TFD_NONBLOCK | libc::TFD_CLOEXEC;
        // SAFETY: the call takes no pointers.
        let fd = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { fd })
    }

    /// Returns the descriptor to sleep on.
    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Sets it to go off once, `after` from now, or not at all; either way it is no longer readable.
    pub fn set(&self, after: Option<Duration>) {
        // SAFETY: the structure consists of integers, for which zero is valid.
        let mut spec: libc::itimerspec = unsafe { mem::zeroed() };
        if let Some(after) = after {
            let after = after.max(Duration::from_nanos(1));
            spec.it_value.tv_sec = after.as_secs() as libc::time_t;
            spec.it_value.tv_nsec = after.subsec_nanos().into();
        }
        // SAFETY: `spec` is valid for the call. It cannot fail with values in range.
        unsafe { libc::timerfd_settime(self.fd(), 0, &raw const spec, ptr::null_mut()) };
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
