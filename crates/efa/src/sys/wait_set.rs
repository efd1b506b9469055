//! The descriptor that a thread sleeps on: that of a device's events, and a timer.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use oxifabric_provider::clock;
use oxifabric_provider::timer::Timer;
use oxifabric_types::Instant;

/// A descriptor that is readable when the device has an event, or when it is time.
#[derive(Debug)]
pub(crate) struct WaitSet {
    epoll: OwnedFd,
    timer: Timer,
    /// When it is time; `None` at events only. Once that is past, the descriptor is readable until it is set anew.
    due: Option<Instant>,
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
            due: None,
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

    /// Makes the descriptor readable at this time, or at events only.
    pub(crate) fn set(&mut self, due: Option<Instant>) {
        self.due = due;
        self.timer.set(due.map(|due| due.since(clock::now())));
    }

    /// Makes the descriptor readable at this time at the latest, also for a thread that sleeps on it already.
    pub(crate) fn set_by(&mut self, due: Instant) {
        if self.due.is_none_or(|before| before > due) {
            self.set(Some(due));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAST: Instant = Instant::from_nanos(1);
    const NEVER: Instant = Instant::from_nanos(u64::MAX / 4);

    fn wait_set() -> WaitSet {
        let events = Timer::open().expect("a timer that is never set makes no event");
        WaitSet::new(events.as_fd()).expect("there are descriptors")
    }

    /// Returns whether the descriptor is readable, within a minute or at once.
    fn is_readable(set: &WaitSet, waits: bool) -> bool {
        let mut fd = libc::pollfd {
            fd: set.fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: there is one descriptor, and it is open.
        unsafe { libc::poll(&raw mut fd, 1, if waits { 60_000 } else { 0 }) == 1 }
    }

    #[test]
    fn a_sleep_without_end_is_made_to_end() {
        let mut set = wait_set();
        set.set(None);
        assert!(!is_readable(&set, false));
        set.set_by(PAST);
        assert!(is_readable(&set, true));
    }

    #[test]
    fn a_sleep_is_never_made_longer() {
        let mut set = wait_set();
        set.set(Some(PAST));
        set.set_by(NEVER);
        assert!(is_readable(&set, true));
        set.set(Some(NEVER));
        assert!(!is_readable(&set, false));
        set.set_by(PAST);
        assert!(is_readable(&set, true));
    }
}
