//! epoll, to sleep on the sockets of an endpoint. A poll does not ask it for events: it looks at all sockets.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use oxifabric_provider::timer::Timer;

use super::{Socket, check};

/// A descriptor that is readable when one of some sockets has the event that is waited for.
#[derive(Debug)]
pub(crate) struct Watch {
    fd: OwnedFd,
    /// Events that are waited for.
    pub(crate) interest: Interest,
}

/// Events that are waited for. None, until a thread is to sleep: a socket without waiters is faster.
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
            // SAFETY: the descriptor is new, and no other code has it.
            fd: unsafe { OwnedFd::from_raw_fd(fd) },
            interest: Interest::default(),
        })
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Adds a socket, waiting for incoming datagrams if the interest includes them; closing it removes it.
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

    /// Changes the events that are waited for on a socket that was added.
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
