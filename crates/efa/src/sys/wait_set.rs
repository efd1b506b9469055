//! The descriptor that a thread sleeps on: that of a device's events, and a timer.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use oxifabric_provider::timer::Timer;

/// A descriptor that is readable when the device has an event, or when it is time.
#[derive(Debug)]
pub(crate) struct WaitSet {
    epoll: OwnedFd,
    timer: Timer,
}

impl WaitSet {
    /// Makes the descriptor for these events.
    ///
    /// # Errors
    /// When the system has no more descriptors.
    pub(crate) fn new(events: BorrowedFd<'_>) -> io::Result<Self> {
        // SAFETY: the call takes no pointers.
        let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if epoll < 0 {
            return Err(io::Error::last_os_error());
        }
        let set = Self {
            // SAFETY: the descriptor is new and has no other owner.
            epoll: unsafe { OwnedFd::from_raw_fd(epoll) },
            timer: Timer::open()?,
        };
        set.watch(events)?;
        set.watch(set.timer.as_fd())?;
        Ok(set)
    }

    fn watch(&self, file: BorrowedFd<'_>) -> io::Result<()> {
        let mut event = libc::epoll_event {
            events: libc::EPOLLIN as u32,
            u64: 0,
        };
        let (epoll, file) = (self.epoll.as_raw_fd(), file.as_raw_fd());
        // SAFETY: both descriptors are open; the event is read during the call.
        match unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, file, &raw mut event) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Returns the descriptor.
    pub(crate) fn fd(&self) -> RawFd {
        self.epoll.as_fd().as_raw_fd()
    }

    /// Makes the descriptor readable after this time, or at events only.
    pub(crate) fn set(&self, after: Option<Duration>) {
        self.timer.set(after);
    }
}
