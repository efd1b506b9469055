//! epoll, to sleep on the sockets of an endpoint. Nobody asks it which of them has news: all are looked at.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::time::Duration;

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

/// A timer that makes its descriptor readable once.
#[derive(Debug)]
pub(crate) struct Timer {
    fd: OwnedFd,
}

impl Timer {
    pub(crate) fn open() -> io::Result<Self> {
        let flags = libc::TFD_NONBLOCK | libc::TFD_CLOEXEC;
        // SAFETY: the call takes no pointers.
        let fd = check(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) })?;
        // SAFETY: the descriptor is new and nobody else's.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { fd })
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Sets it to go off once, `after` from now, or not at all; either way it is no longer readable.
    pub(crate) fn set(&self, after: Option<Duration>) {
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
