//! epoll.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use oxifabric_provider::syscall;

use super::check;

/// How many events are taken at once.
const BATCH: usize = 64;

/// A set of descriptors that is itself one, readable when one of them is.
#[derive(Debug)]
pub(crate) struct Epoll(OwnedFd);

/// The tokens of descriptors that are readable or hung up.
#[derive(Debug)]
pub(crate) struct Ready {
    tokens: [u64; BATCH],
    count: usize,
}

impl Ready {
    pub(crate) fn tokens(&self) -> &[u64] {
        &self.tokens[..self.count]
    }
}

impl Epoll {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: a new descriptor is returned.
        let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: no other code has the descriptor.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Watches a descriptor until it is closed everywhere.
    pub(crate) fn add(&self, file: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event {
            events: (libc::EPOLLIN | libc::EPOLLRDHUP) as u32,
            u64: token,
        };
        // SAFETY: both descriptors are open; the event is read during the call.
        let result = unsafe {
            libc::epoll_ctl(
                self.0.as_raw_fd(),
                libc::EPOLL_CTL_ADD,
                file.as_raw_fd(),
                &mut event,
            )
        };
        check(result).map(drop)
    }

    /// Watches a descriptor no longer; needed before it is closed where a forked child may hold it too.
    pub(crate) fn remove(&self, file: BorrowedFd<'_>) {
        // SAFETY: as in `add`. Failing means that it was not watched.
        unsafe {
            libc::epoll_ctl(
                self.0.as_raw_fd(),
                libc::EPOLL_CTL_DEL,
                file.as_raw_fd(),
                std::ptr::null_mut(),
            )
        };
    }

    /// Returns what is ready now.
    pub(crate) fn ready(&self) -> Ready {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; BATCH];
        // SAFETY: the kernel writes at most BATCH events.
        let count =
            unsafe { syscall::epoll_look(self.0.as_raw_fd(), events.as_mut_ptr(), BATCH as i32) };
        let mut ready = Ready {
            tokens: [0; BATCH],
            count: usize::try_from(count).unwrap_or(0).min(BATCH),
        };
        for (token, event) in ready.tokens.iter_mut().zip(&events) {
            *token = event.u64;
        }
        ready
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
