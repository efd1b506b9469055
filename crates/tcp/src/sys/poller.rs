//! epoll, to sleep on many sockets at once.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use oxifabric_provider::syscall;

use super::check;

/// Maximum number of events that one call returns.
const BATCH: usize = 64;

/// A set of descriptors with what is waited for on each.
#[derive(Debug)]
pub(crate) struct Poller {
    fd: OwnedFd,
}

/// Events that are waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Interest {
    pub(crate) read: bool,
    pub(crate) write: bool,
    /// Whether the peer has closed its end, where nothing is read.
    pub(crate) end: bool,
}

/// An event on a watched descriptor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    /// The number given with the descriptor.
    pub(crate) key: u64,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// The connection is broken or closed in both directions.
    pub(crate) broken: bool,
    /// The peer has closed its end ([`Interest::end`]).
    pub(crate) ended: bool,
}

impl Interest {
    pub(crate) const READ: Self = Self {
        read: true,
        write: false,
        end: false,
    };
    pub(crate) const WRITE: Self = Self {
        read: false,
        write: true,
        end: false,
    };

    fn bits(self) -> u32 {
        let read = if self.read { libc::EPOLLIN } else { 0 };
        let write = if self.write { libc::EPOLLOUT } else { 0 };
        let end = if self.end { libc::EPOLLRDHUP } else { 0 };
        (read | write | end) as u32
    }
}

impl Poller {
    pub(crate) fn open() -> io::Result<Self> {
        // SAFETY: the call takes no pointers.
        let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the descriptor is new, and no other code has it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { fd })
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Starts to watch `fd`; closing it ends that.
    pub(crate) fn add(&self, fd: RawFd, key: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, key, interest)
    }

    /// Ends what [`Poller::add`] began, for a descriptor that stays open.
    pub(crate) fn remove(&self, fd: RawFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd, 0, Interest::default())
    }

    /// Changes the events that are waited for on a watched `fd`.
    pub(crate) fn change(&self, fd: RawFd, key: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, key, interest)
    }

    fn control(&self, call: libc::c_int, fd: RawFd, key: u64, what: Interest) -> io::Result<()> {
        let mut event = libc::epoll_event {
            events: what.bits(),
            u64: key,
        };
        // SAFETY: `event` is valid for the call.
        check(unsafe { libc::epoll_ctl(self.fd(), call, fd, &raw mut event) }).map(drop)
    }

    /// Calls `visit` with what has happened, without waiting.
    pub(crate) fn visit(&self, events: &mut Vec<Event>) {
        events.clear();
        let mut raw = [MaybeUninit::<libc::epoll_event>::uninit(); BATCH];
        let room = raw.as_mut_ptr().cast();
        // SAFETY: the array holds as many events as the call may write.
        let count = unsafe { syscall::epoll_look(self.fd(), room, BATCH as libc::c_int) };
        for event in raw.iter().take(count.max(0) as usize) {
            // SAFETY: the call has written as many events as it returned.
            let event = unsafe { event.assume_init() };
            let has = |bits: libc::c_int| event.events & bits as u32 != 0;
            events.push(Event {
                key: event.u64,
                readable: has(libc::EPOLLIN),
                writable: has(libc::EPOLLOUT),
                broken: has(libc::EPOLLERR | libc::EPOLLHUP),
                ended: has(libc::EPOLLRDHUP),
            });
        }
    }
}
