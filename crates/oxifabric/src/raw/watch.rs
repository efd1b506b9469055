//! Waiting for descriptors. Source: poll(2), eventfd(2).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use super::Queue;

/// A descriptor (eventfd) by which one thread wakes another.
pub(crate) struct Doorbell(OwnedFd);

impl Doorbell {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: the call takes no memory.
        let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and ours.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    pub(crate) fn ring(&self) {
        let one = 1_u64;
        // SAFETY: eight bytes are read; a bell that rings already may refuse them.
        unsafe { libc::write(self.0.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    pub(crate) fn quiet(&self) {
        let mut count = 0_u64;
        // SAFETY: eight bytes are writable; a bell that does not ring has none to read.
        unsafe { libc::read(self.0.as_raw_fd(), (&raw mut count).cast(), 8) };
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Waits until at least one of the descriptors is readable, a signal came, or the time is over; returns which are readable. A negative
/// time has no end.
pub(crate) fn readable<'a>(
    fds: impl Iterator<Item = BorrowedFd<'a>>,
    timeout_ms: i32,
) -> Vec<bool> {
    poll(fds, timeout_ms)
}

/// Sleeps until one of the queues may have something, at most `timeout_ms`; returns false at once if they cannot be slept on.
pub(super) fn sleep(queues: &[&Queue], timeout_ms: i32) -> bool {
    let fds: Result<Vec<_>, _> = queues.iter().map(|queue| queue.descriptor()).collect();
    let quiet = || queues.iter().all(|queue| queue.may_sleep() == Ok(true));
    match fds {
        Ok(fds) if quiet() => {
            poll(fds.into_iter(), timeout_ms);
            true
        }
        _ => false,
    }
}

fn poll<'a>(fds: impl Iterator<Item = BorrowedFd<'a>>, timeout_ms: i32) -> Vec<bool> {
    let mut polled: Vec<libc::pollfd> = fds
        .map(|fd| libc::pollfd {
            fd: fd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();
    let count = polled.len() as libc::nfds_t;
    // SAFETY: there are `count` entries.
    let ret = unsafe { libc::poll(polled.as_mut_ptr(), count, timeout_ms) };
    polled.iter().map(|fd| ret > 0 && fd.revents != 0).collect()
}

impl Queue {
    /// Borrows the descriptor that [`Queue::descriptor`] returned, without a call of the library.
    pub(crate) fn borrow_descriptor(&self, fd: RawFd) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is the queue's, which keeps it open as long as it is open itself.
        unsafe { BorrowedFd::borrow_raw(fd) }
    }
}
