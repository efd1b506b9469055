//! epoll, to sleep on the sockets of an endpoint. Nobody asks it which of them has news: all are looked at.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use oxifabric_core::timer::Timer;

use super::{Socket, check};

/// A descriptor that is readable when one of some sockets has what is waited for.
#[derive(Debug)]
pub(crate) struct Watch {
    fd: OwnedFd,
    /// What is waited for.
    pub(crate) interest: Interest,
}

/// What is waited for. Nothing, until somebody is to sleep: a socket that nobody waits for is faster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Interest {
    pub(crate) read: bool,
    pub(crate) write: bool,
}

impl Watch {
    pub(crate) fn open() -> io::Result<Self> {
        // SAFETY: the call takes no pointers.
        let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        Ok(Self {
            // SAFETY: the descriptor is new and nobody else's.
            fd: unsafe { OwnedFd::from_raw_fd(fd) },
            interest: Interest::default(),
        })
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Adds a socket, waiting for incoming datagrams if that is what is waited for now; closing it removes it.
    pub(crate) fn add(&self, socket: &Socket) -> io::Result<()> {
        let read = self.interest.read;
        self.control(
            libc::EPOLL_CTL_ADD,
            socket.fd(),
            Interest { read, write: false },
        )
    }

    /// Adds a timer.
    pub(crate) fn add_timer(&self, timer: &Timer) -> io::Result<()> {
        let (read, write) = (true, false);
        self.control(libc::EPOLL_CTL_ADD, timer.fd(), Interest { read, write })
    }

    /// Changes what is waited for on a socket that was added.
    pub(crate) fn change(&self, socket: &Socket, interest: Interest) {
        // It cannot fail for a socket that is in the set.
        let _ = self.control(libc::EPOLL_CTL_MOD, socket.fd(), interest);
    }

    fn control(&self, call: libc::c_int, fd: RawFd, what: Interest) -> io::Result<()> {
        let read = if what.read { libc::EPOLLIN } else { 0 };
        let write = if what.write { libc::EPOLLOUT } else { 0 };
        let mut event = libc::epoll_event {
            events: (read | write) as u32,
            u64: 0,
        };
        // SAFETY: `event` is valid for the call.
        check(unsafe { libc::epoll_ctl(self.fd(), call, fd, &raw mut event) }).map(drop)
    }
}
